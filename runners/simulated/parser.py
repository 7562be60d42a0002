"""PTX text to `Listing`, refusing by line whatever is no PTX, or PTX that is not read.

Source: PTX ISA 4 (Syntax), 5 (State Spaces, Types, and Variables), 7 (Abstracting the ABI), 11
(Directives). What describes the program for debuggers and tuners is passed over.
"""

import re
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from runners.simulated.declarations import Declarations
from runners.simulated.literals import BadConstant, operands_of
from runners.simulated.reader import DIRECTIVE, IDENTIFIER, NAME, Reader, without_comments
from runners.simulated.syntax import (
    CALLS,
    Function,
    Guard,
    Instruction,
    Listing,
    Name,
    Operand,
    Register,
    Scope,
    Statement,
    Variable,
    Vector,
)
from runners.simulated.traps import TrapKind, refuse

# How many parsed modules are kept. A campaign runs one module on many batches of images, and
# shrinking goes back and forth between a few.
_KEPT = 32
_KEPT_STATEMENTS = 1 << 14
"""Instructions that are kept, 0.5 KiB each (2026-11): two of three stand in earlier programs."""

_LABEL = re.compile(rf"({IDENTIFIER})\s*:(?!:)\s*(\.branchtargets|\.callprototype)?")
_INSTRUCTION = re.compile(
    rf"(?:@\s*(!?)\s*({IDENTIFIER})\s*)?"
    r"([a-zA-Z]\w*+(?:(?:\.|::)[a-zA-Z0-9_]++)*+)(?![\w$%])\s*+([^;]*+);"
)
_DOTTED = re.compile(r"\s*([0-9]+)\.([0-9]+)(?![\w.])")
_TO_SEMICOLON = re.compile(r"[^;{}]*;")
_TO_LINE_END = re.compile(r"[^\n]*")

_LINKING = (".visible", ".extern", ".weak", ".common")
_SPACES = (".shared", ".local", ".param", ".global", ".const")
# Directives whose lines say nothing about what a program does (PTX ISA 11.5, 11.4).
_PASSED_LINES = (".loc", ".file")
# Directives in front of a body that bound the launch or help an optimiser (PTX ISA 11.4, 11.7).
_PERFORMANCE = re.compile(
    r"\.(?:maxntid|reqntid|minnctapersm|maxnctapersm|maxnreg|noreturn|pragma|reqnctapercluster"
    r"|explicitcluster|maxclusterrank|blocksareclusters|abi_preserve(?:_control)?)\b([^.{;]*);?\s*"
)
_DEEPEST = 100
"""Braces inside each other."""


def _operands(text: str, line: int, *, calls: bool = False) -> tuple[Operand, ...]:
    """Return the operands of an instruction or a directive, or refuse at its line."""
    try:
        return operands_of(text, calls=calls)
    except BadConstant as error:
        refuse(error.kind, line, str(error))


def _read(text: str, place: int) -> Statement | None:
    """Return the instruction at a place of a text; None if there is none.

    Raises
    ------
    BadConstant
        If its operands are none.
    """
    match = _INSTRUCTION.match(text, place)
    if match is None:
        return None
    negated, register, opcode, rest = match.groups()
    operands = operands_of(rest.strip(), calls=opcode in CALLS)
    guard = None if register is None else Guard(register, bool(negated))
    return Statement(match[0], match.start(3) - place, guard, opcode, operands)


@lru_cache(maxsize=_KEPT_STATEMENTS)
def statement_of(text: str) -> Statement | None:
    """Return the instruction that a text is, up to its semicolon; None if it is none."""
    if ":" in text and _LABEL.match(text):
        return None
    with suppress(BadConstant):
        return _read(text, 0)
    return None


@dataclass(eq=False)
class _Body:
    """A function's body while it is read."""

    scopes: list[Scope]
    """All of them."""
    open: list[Scope]
    """Those around the place, the outermost first."""
    instructions: list[Instruction] = field(default_factory=list)


class _Parser:
    def __init__(self, text: str) -> None:
        self.reader = Reader(without_comments(text))
        self.declarations = Declarations(self.reader)
        self.scope = Scope()
        self.entries: dict[str, Function] = {}
        self.functions: dict[str, Function] = {}
        self.said: dict[str, object] = {}

    def module(self) -> Listing:
        reader = self.reader
        reader.skip()
        while reader.place < len(reader.text):
            self._item()
        for directive in ("version", "target", "address_size"):
            if directive not in self.said:
                refuse(TrapKind.PARSE, 1, f"the module has no .{directive}")
        version, target = self.said["version"], self.said["target"]
        assert isinstance(version, tuple) and isinstance(target, str)  # noqa: PT018
        return Listing(
            version=version,
            target=target,
            entries=MappingProxyType(self.entries),
            functions=MappingProxyType(self.functions),
            scope=self.scope,
        )

    def _item(self) -> None:
        reader = self.reader
        directive = reader.need(DIRECTIVE)[0]
        if directive in _LINKING:
            linking = directive
            directive = reader.need(DIRECTIVE)[0]
        else:
            linking = ""
        if directive == ".version":
            dotted = reader.need(_DOTTED)
            if len(dotted[0]) > 20:
                reader.refuse(f"there is no PTX ISA {dotted[0][:20]}…")
            self.said["version"] = (int(dotted[1]), int(dotted[2]))
        elif directive == ".target":
            self.said["target"] = reader.need(NAME)[0]
            while reader.accept(","):
                reader.need(NAME)
        elif directive == ".address_size":
            bits = reader.need(re.compile(r"\w+"))[0]
            if reader.integer(bits) != 64:
                reader.refuse(f"address size {bits}; only 64 is run", TrapKind.UNSUPPORTED)
            self.said["address_size"] = 64
        elif directive in (".entry", ".func"):
            self._function(directive == ".entry")
        elif directive in _SPACES:
            for variable in self.declarations.variables(directive[1:], linking):
                self._declare(self.scope, variable)
        elif directive in _PASSED_LINES:
            reader.take(_TO_LINE_END)
        elif directive == ".section":
            reader.need(re.compile(r"\.?[\w.$]+"))
            self._pass_braces()
        elif directive in (".pragma", ".alias"):
            if directive == ".alias":
                reader.refuse(".alias is not known", TrapKind.UNSUPPORTED)
            reader.need(_TO_SEMICOLON)
        else:
            reader.refuse(f"{directive} is not known here", TrapKind.UNSUPPORTED)

    def _pass_braces(self) -> None:
        reader = self.reader
        reader.expect("{")
        end = reader.text.find("}", reader.place)
        if end < 0:
            reader.place = len(reader.text)
            reader.unexpected()
        reader.place = end
        reader.expect("}")

    def _declare(self, scope: Scope, variable: Variable) -> None:
        old = scope.variables.get(variable.name)
        # What is declared as `.extern` may be defined afterwards.
        again = old is not None and scope is self.scope and not old.size
        if not again and (old is not None or scope.declares(variable.name)):
            refuse(TrapKind.PARSE, variable.line, f"{variable.name} is declared twice")
        scope.variables[variable.name] = variable

    def _function(self, is_entry: bool) -> None:
        reader = self.reader
        results: tuple[Variable, ...] = ()
        if not is_entry and reader.accept("("):
            results = self.declarations.parameters()
        line = reader.here()
        name = reader.need(NAME)[0]
        parameters = self.declarations.parameters() if reader.accept("(") else ()
        while (match := reader.take(_PERFORMANCE)) is not None:
            if match[0].startswith(".abi_preserve"):
                continue
        body: _Body | None = None
        if not reader.accept(";"):
            reader.expect("{")
            body = self._body((*results, *parameters))
        function = Function(
            line=line,
            name=name,
            is_entry=is_entry,
            results=results,
            parameters=parameters,
            body=None if body is None else tuple(body.instructions),
            scopes=() if body is None else tuple(body.scopes),
        )
        known = self.entries if is_entry else self.functions
        old = known.get(name)
        if old is not None and old.body is not None and body is not None:
            refuse(TrapKind.PARSE, line, f"{name} is defined twice")
        if old is None or old.body is None:
            known[name] = function
        if is_entry and body is None:
            del known[name]

    def _body(self, formals: tuple[Variable, ...]) -> _Body:
        outermost = Scope(parent=self.scope)
        body = _Body(scopes=[outermost], open=[outermost])
        for formal in formals:
            if outermost.declares(formal.name):
                refuse(TrapKind.PARSE, formal.line, f"{formal.name} is declared twice")
            if formal.space == "reg":
                outermost.registers[formal.name] = Register(formal.name, formal.type)
            else:
                outermost.variables[formal.name] = formal
        reader = self.reader
        while body.open:
            if reader.accept("}"):
                body.open.pop()
            elif reader.accept("{"):
                if len(body.open) >= _DEEPEST:
                    reader.refuse("braces are too deep", TrapKind.UNSUPPORTED)
                inner = Scope(parent=body.open[-1], number=len(body.scopes))
                body.scopes.append(inner)
                body.open.append(inner)
            else:
                self._statement(body)
        return body

    def _statement(self, body: _Body) -> None:
        reader = self.reader
        text = reader.text
        if text.startswith(".", reader.place):
            self._body_directive(body)
            return
        # Most instructions stand in other programs, too.
        known = statement_of(text[reader.place : text.find(";", reader.place) + 1])
        if known is not None:
            self._instruction(body, known)
            return
        label = reader.take(_LABEL)
        if label is not None:
            self._label(body, label)
            return
        try:
            found = _read(text, reader.place)
        except BadConstant as error:
            if (match := _INSTRUCTION.match(text, reader.place)) is not None:
                reader.place = match.start(3)
            reader.refuse(str(error), error.kind)
        if found is None:
            reader.unexpected()
        self._instruction(body, found)

    def _instruction(self, body: _Body, found: Statement) -> None:
        """Take an instruction at the place."""
        reader = self.reader
        end = reader.place + len(found.text)
        # A guard may stand in the line before its instruction, and lines are those of opcodes.
        reader.place += found.start
        body.instructions.append(Instruction(reader.here(), found, body.open[-1]))
        reader.place = end
        reader.skip()

    def _label(self, body: _Body, match: re.Match[str]) -> None:
        reader = self.reader
        scope, name = body.open[-1], match[1]
        if match[2] == ".branchtargets":
            line = reader.here()
            given = _operands(reader.need(_TO_SEMICOLON)[0].rstrip("; \t\n"), line)
            parts = given[0].parts if isinstance(given[0], Vector) else given
            scope.targets[name] = tuple(part.text for part in parts if isinstance(part, Name))
            return
        if match[2] is not None:
            reader.need(_TO_SEMICOLON)
            return
        if name in scope.labels:
            reader.refuse(f"label {name} stands twice")
        scope.labels[name] = len(body.instructions)

    def _body_directive(self, body: _Body) -> None:
        reader = self.reader
        line = reader.here()
        directive = reader.need(DIRECTIVE)[0]
        scope = body.open[-1]
        if directive == ".reg":
            self.declarations.registers(scope, line)
        elif directive in _SPACES:
            for variable in self.declarations.variables(directive[1:], ""):
                self._declare(scope, variable)
        elif directive == ".extern":
            space = reader.need(DIRECTIVE)[0]
            for variable in self.declarations.variables(space[1:], ".extern"):
                self._declare(scope, variable)
        elif directive == ".pragma":
            reader.need(_TO_SEMICOLON)
        elif directive in _PASSED_LINES:
            reader.take(_TO_LINE_END)
        else:
            reader.refuse(f"{directive} is not known here", TrapKind.UNSUPPORTED)


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
        With kind `PARSE` and the line, where the text is no PTX; with `UNSUPPORTED` and the line,
        where it is PTX of a kind that is not read.
    """
    return _Parser(text).module()
