"""PTX text to `Listing`, refusing by line whatever the grammar does not know."""

from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedInput, UnexpectedToken, VisitError

from runners.simulated.syntax import (
    TYPE_BITS,
    Address,
    Entry,
    Guard,
    Immediate,
    Instruction,
    Listing,
    Name,
    Operand,
    Parameter,
    SharedArray,
    Vector,
)
from runners.simulated.traps import SimulatedTrap, TrapKind, refuse

# How many parsed modules are kept. A campaign runs one module on many batches of images, and
# shrinking goes back and forth between a few; one of eight programs takes 0.6 MiB (2026-11).
_KEPT = 32


def _integer(token: str) -> int:
    return int(token.removesuffix("U"), 0)


@v_args(inline=True)
class _Builder(Transformer[Token, Any]):
    """Builds the syntax from the bottom up while lark parses."""

    def name(self, word: Token) -> Name:
        return Name(text=str(word))

    def constant(self, token: Token) -> Immediate:
        if token.type == "FLOAT":
            return Immediate(value=int(token[2:], 16), float_bits=4 * (len(token) - 2))
        return Immediate(value=_integer(token))

    def vector(self, *parts: Name | Immediate) -> Vector:
        return Vector(parts=parts)

    def address(self, base: Token, offset: Token | None) -> Address:
        return Address(base=str(base), offset=0 if offset is None else _integer(offset))

    def guard(self, at: Token, register: Token) -> Guard:
        return Guard(register=str(register), negated=at.endswith("!"))

    def instruction(
        self, guard: Guard | None, opcode: Token, *operands: Operand | None
    ) -> Instruction:
        return Instruction(
            line=opcode.line or 0,
            guard=guard,
            opcode=str(opcode),
            operands=tuple(operand for operand in operands if operand is not None),
        )

    def label(self, word: Token) -> Token:
        return word

    def variable(self, word: Token, count: Token | None) -> tuple[Token, int | None]:
        return word, None if count is None else _integer(count)

    def registers(
        self, kind: Token, *variables: tuple[Token, int | None]
    ) -> list[tuple[str, str, int]]:
        rows: list[tuple[str, str, int]] = []
        for word, count in variables:
            line = word.line or 0
            names = [str(word)] if count is None else [f"{word}{i}" for i in range(count)]
            rows.extend((name, kind[1:], line) for name in names)
        return rows

    def shared(
        self, alignment: Token | None, kind: Token, name: Token, count: Token
    ) -> SharedArray:
        element = TYPE_BITS[kind[1:]] // 8
        return SharedArray(
            line=name.line or 0,
            name=str(name),
            alignment=element if alignment is None else _integer(alignment),
            size=element * _integer(count),
        )

    def parameter(self, kind: Token, name: Token) -> Parameter:
        return Parameter(name=str(name), type=kind[1:])

    def performance(self, *_: Token) -> None:
        """Bounds on the launch change no result."""

    def entry(self, name: Token, *items: Any) -> Entry:
        line = name.line or 0
        parameters: list[Parameter] = []
        registers: dict[str, str] = {}
        shared: list[SharedArray] = []
        body: list[Instruction] = []
        labels: dict[str, int] = {}
        for item in items:
            if isinstance(item, Parameter):
                parameters.append(item)
            elif isinstance(item, SharedArray):
                shared.append(item)
            elif isinstance(item, Instruction):
                body.append(item)
            elif isinstance(item, Token):
                if item in labels:
                    refuse(TrapKind.PARSE, item.line or 0, f"label {item} stands twice")
                labels[str(item)] = len(body)
            elif item is not None:
                for register, kind, at in item:
                    if register in registers:
                        refuse(TrapKind.PARSE, at, f"register {register} is declared twice")
                    registers[register] = kind
        return Entry(
            line=line,
            name=str(name),
            parameters=tuple(parameters),
            registers=MappingProxyType(registers),
            shared=tuple(shared),
            body=tuple(body),
            labels=MappingProxyType(labels),
        )

    def version(self, dotted: Token) -> tuple[str, tuple[int, int]]:
        major, minor = dotted.split(".")
        return "version", (int(major), int(minor))

    def target(self, *words: Token) -> tuple[str, str]:
        return "target", str(words[0])

    def address_size(self, bits: Token) -> tuple[str, int]:
        if _integer(bits) != 64:
            refuse(TrapKind.UNSUPPORTED, bits.line or 0, f"address size {bits}; only 64 is run")
        return "address_size", 64

    def module(self, *items: Any) -> Listing:
        said: dict[str, Any] = {}
        shared: list[SharedArray] = []
        entries: dict[str, Entry] = {}
        for item in items:
            if isinstance(item, Entry):
                if item.name in entries:
                    refuse(TrapKind.PARSE, item.line, f"entry {item.name} is defined twice")
                entries[item.name] = item
            elif isinstance(item, SharedArray):
                shared.append(item)
            else:
                said[item[0]] = item[1]
        for directive in ("version", "target", "address_size"):
            if directive not in said:
                refuse(TrapKind.PARSE, 1, f"the module has no .{directive}")
        return Listing(
            version=said["version"],
            target=said["target"],
            entries=MappingProxyType(
                {name: _with_shared(entry, shared) for name, entry in entries.items()}
            ),
        )


def _with_shared(entry: Entry, module_arrays: list[SharedArray]) -> Entry:
    arrays = (*module_arrays, *entry.shared)
    names = [array.name for array in arrays]
    for array in arrays:
        if names.count(array.name) > 1 or array.name in entry.registers:
            refuse(TrapKind.PARSE, array.line, f"{array.name} is declared twice")
    return Entry(
        line=entry.line,
        name=entry.name,
        parameters=entry.parameters,
        registers=entry.registers,
        shared=arrays,
        body=entry.body,
        labels=entry.labels,
    )


@lru_cache(maxsize=1)
def _grammar() -> Lark:
    text = files("runners.simulated").joinpath("ptx.lark").read_text(encoding="utf-8")
    return Lark(
        text, start="module", parser="lalr", transformer=_Builder(), maybe_placeholders=True
    )


def _explain(error: UnexpectedInput) -> str:
    if isinstance(error, UnexpectedToken):
        if error.token.type == "$END":
            return "the text ends in the middle of something"
        return f"unexpected {str(error.token)!r}"
    return f"unexpected character at column {error.column}"


@lru_cache(maxsize=_KEPT)
def parse(text: str) -> Listing:
    """Parse a PTX module.

    Parameters
    ----------
    text
        The module. Parsed modules are kept, so that the same text is parsed once.

    Raises
    ------
    SimulatedTrap
        With kind `PARSE` and the line, where the text is outside the dialect.
    """
    try:
        listing = _grammar().parse(text)
    except UnexpectedInput as error:
        # lark reports -1 at the end of the text.
        line = error.line if error.line > 0 else text.count("\n") + 1
        refuse(TrapKind.PARSE, line, _explain(error))
    except VisitError as error:
        if isinstance(error.orig_exc, SimulatedTrap):
            raise error.orig_exc from None
        raise
    if not isinstance(listing, Listing):
        refuse(TrapKind.PARSE, 1, "this is no PTX module")
    return listing
