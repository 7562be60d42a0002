"""Operands of an instruction, checked when it is decoded and fetched when it runs.

Here is, too, where variables lie, and what they hold when a launch begins.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import numpy as np

from runners.simulated.silicon import AnyUnit, Silicon
from runners.simulated.syntax import (
    TYPE_BITS,
    Address,
    Function,
    ImmediateText,
    Initial,
    InstructionText,
    Name,
    Operand,
    RegisterText,
    TextScope,
    TrapKind,
    Variable,
    VectorText,
    refuse,
)
from runners.simulated.warps import (
    DTYPES,
    LARGEST_SHARED,
    SPECIAL,
    UNKNOWN,
    VARIABLES_BASE,
    WINDOWS,
    Addresses,
    Key,
    Space,
    Static,
    Values,
    WarpState,
    constant_of,
)

SINK = "_"
"""Name of a destination that is not wanted (PTX ISA 6.4.3)."""
_LARGEST = {Space.SHARED: LARGEST_SHARED, Space.CONST: 1 << 16, Space.GLOBAL: 1 << 26}
_LARGEST[Space.LOCAL] = 1 << 14
"""Bytes of the variables in a space. Of shared memory and constants a device has no more (CUDA C++
Programming Guide, Technical Specifications); of the others the simulated one."""


@dataclass(slots=True, eq=False)
class FromRegister:
    """Fetches what lies among the registers."""

    key: Key

    def __call__(self, warps: WarpState) -> Values:
        """Return its bits."""
        return warps.registers[self.key]


Source = FromRegister | Callable[[WarpState], Values]
"""What fetches an operand: (1 or 32 lanes, warps or 1) raw bits."""


class Location(NamedTuple):
    """Where a variable lies: its address in a space."""

    space: Space
    offset: int


def _float_bits(given: ImmediateText, bits: int) -> int:
    """Return the bits of a floating-point constant in the format of this width."""
    if given.float_bits == bits:
        return given.value
    seen = np.array(given.value, f"u{given.float_bits // 8}").view(f"f{given.float_bits // 8}")
    with np.errstate(all="ignore"):
        return int(seen.astype(f"f{bits // 8}").view(f"u{bits // 8}"))


def _behind(end: int, variable: Variable, space: Space) -> int:
    """Return where a variable begins that lies behind the others of its space."""
    offset = -(-end // variable.alignment) * variable.alignment
    if offset + variable.size > _LARGEST[space]:
        said = f"{variable.name} makes {offset + variable.size} bytes of {space} memory; there are "
        refuse(TrapKind.UNSUPPORTED, variable.line, f"{said}{_LARGEST[space]}")
    return offset


class Statics:
    """The variables of one kernel that exist once for a block or a module, if they are used."""

    def __init__(self, module: TextScope, base: int, functions: Mapping[str, int]) -> None:
        self._module, self.base, self.functions = module, base, functions
        self._locations: dict[Variable, Location] = {}
        self._ends = dict.fromkeys((Space.SHARED, Space.CONST, Space.GLOBAL), 0)

    def location(self, variable: Variable) -> Location:
        """Return where a variable lies."""
        if (found := self._locations.get(variable)) is not None:
            return found
        space = Space(variable.space)
        if space not in self._ends:
            refuse(TrapKind.PARSE, variable.line, f"{variable.name} is declared outside functions")
        if space is Space.SHARED and not variable.size:
            found = Location(space, LARGEST_SHARED)  # dynamic: behind all static one
        else:
            offset = _behind(self._ends[space], variable, space)
            self._ends[space] = offset + variable.size
            found = Location(space, self._start(space) + offset)
        self._locations[variable] = found
        for value in variable.initial:
            self._initial(variable, value)  # may place other variables
        return found

    def _initial(self, variable: Variable, value: Initial) -> int:
        """Return an initial value as a number: addresses lie where their variables do."""
        width = TYPE_BITS[variable.type]
        if isinstance(value, ImmediateText):
            if value.float_bits and width < 16:
                refuse(TrapKind.UNSUPPORTED, variable.line, f"a float in {variable.name}")
            return _float_bits(value, width) if value.float_bits else value.value
        name = value.base if isinstance(value, Address) else value.text
        if name in self.functions:
            return self.functions[name]
        found = self._module.find(name)
        if not isinstance(found, Variable):
            refuse(TrapKind.UNSUPPORTED, variable.line, f"the address of {name} as a value")
        space, offset = self.location(found)
        return offset + value.offset + (WINDOWS[space] if isinstance(value, Address) else 0)

    def _start(self, space: Space) -> int:
        return self.base + (VARIABLES_BASE if space is Space.GLOBAL else 0)

    def static(self, local_bytes: int) -> Static:
        """Return what a launch needs."""
        content = {space: bytearray(self._ends[space]) for space in (Space.GLOBAL, Space.CONST)}
        for variable, (space, offset) in self._locations.items():
            if space in content:
                held, start = self._content(variable), offset - self._start(space)
                content[space][start : start + len(held)] = held
        return Static(
            shared_bytes=self._ends[Space.SHARED], base=self.base, local_bytes=local_bytes,
            variables=bytes(content[Space.GLOBAL]), constants=bytes(content[Space.CONST]),
        )  # fmt: skip

    def _content(self, variable: Variable) -> bytes:
        width = TYPE_BITS[variable.type] // 8
        if len(variable.initial) * width > variable.size:
            said = f"{variable.name} has more initial values than elements"
            refuse(TrapKind.PARSE, variable.line, said)
        held = bytearray()
        for value in variable.initial:
            number = self._initial(variable, value)
            held += (number & ((1 << 8 * width) - 1)).to_bytes(width, "little")
        return bytes(held)


@dataclass(kw_only=True, eq=False)
class Frame:
    """One expansion of a function: where its variables lie, and what its instructions share.

    Its local variables and call parameters lie in local memory from `base` to `end`; `prefix` is
    that of the keys of its registers, `meanings` has what names mean. `place_locals` finds `end`.
    """

    function: Function
    version: tuple[int, int]  # PTX ISA version of the module
    silicon: Silicon
    statics: Statics
    prefix: str
    base: int
    locations: dict[Variable, Location]
    meanings: dict[TextScope, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    end: int = 0


def place_locals(frame: Frame) -> None:
    """Place the variables and call parameters that a function has for itself."""

    def place(end: int, variables: Iterable[Variable]) -> int:
        for variable in variables:
            if variable.space in ("local", "param") and variable not in frame.locations:
                offset = _behind(end, variable, Space.LOCAL)
                end = offset + variable.size
                frame.locations[variable] = Location(Space.LOCAL, frame.statics.base + offset)
        return end

    function, scopes = frame.function, frame.function.scopes
    inside = [each for scope in scopes for each in scope.variables.values()]
    local = [each for each in inside if each.space == "local"]
    end = most = place(frame.base, (*function.results, *function.parameters, *local))
    ends = dict[TextScope | None, int]()
    for scope in scopes:
        # Behind the closing brace nobody has the parameters of a call any more.
        ends[scope] = end = place(ends.get(scope.parent, end), scope.variables.values())
        most = max(most, end)
    frame.end = -(-most // 16) * 16


class OperandReader:
    """The operands of one instruction in the expansion of its function."""

    def __init__(self, instruction: InstructionText, frame: Frame) -> None:
        self.instruction, self.frame = instruction, frame
        self.line, self.silicon = instruction.line, frame.silicon

    def location(self, variable: Variable) -> Location:
        """Return where a variable lies."""
        return self.frame.locations.get(variable) or self.frame.statics.location(variable)

    def meaning(self, names: Sequence[str]) -> tuple[object, ...] | None:
        """Return what names stand for; with the text, all that a decoder is told.

        None where that is not registers and variables alone.
        """
        frame, meanings = self.frame, self.frame.meanings[self.instruction.scope]
        for name in names:
            if name not in meanings:
                meanings[name] = self._meaning(name)
        found = tuple(map(meanings.__getitem__, names))
        return (frame.version, frame.function.is_entry, found) if all(found) else None

    def _meaning(self, name: str) -> str:
        """Return the register or variable that a name means; empty if it is neither."""
        known = self.instruction.scope.find(name)
        if isinstance(known, RegisterText):
            key = self.frame.prefix + known.key
            return known.type if key == name and known.parts == 1 else f"{key} {known}"
        if known is not None:
            return str(self.location(known))
        return name if name in SPECIAL or name == SINK else ""

    def unit(self, sound: AnyUnit) -> AnyUnit:
        """Return the unit that executes the instruction, as broken as it is, for a sound one."""
        for damage in self.silicon.damages:
            fits = damage.unit is type(sound) and damage.opcodes.search(self.instruction.opcode)
            if fits and damage.change:
                sound = damage.change(sound)
        return sound

    def unsupported(self, why: str) -> NoReturn:
        """Refuse the instruction."""
        refuse(TrapKind.UNSUPPORTED, self.line, f"{self.instruction.opcode}: {why}")

    def need(self, architecture: int) -> None:
        """Refuse the instruction unless the module's target is this architecture or a later one."""
        if self.silicon.target.architecture < architecture:
            self.lacks(f"sm_{architecture}")

    def lacks(self, needed: str) -> NoReturn:
        """Refuse the instruction, which other targets have."""
        said = f"{self.instruction.opcode} needs {needed}; the module is for "
        refuse(TrapKind.ILLEGAL, self.line, said + self.silicon.target.name)

    def expect(self, *counts: int) -> tuple[Any, ...]:
        """Return the operands if there are as many as one of `counts`, else refuse."""
        given = self.instruction.operands
        if len(given) not in counts:
            wanted = " or ".join(map(str, counts))
            self.unsupported(f"has {len(given)} operands where {wanted} are known")
        return given

    def register(self, name: str) -> RegisterText:
        """Return the register of this name."""
        found = self.instruction.scope.find(name)
        if not isinstance(found, RegisterText):
            refuse(TrapKind.PARSE, self.line, f"{name} is not declared")
        return found

    def width(self, name: str) -> int:
        """Return the declared width of a register in bits."""
        return TYPE_BITS[self.register(name).type]

    def guard(self) -> tuple[str | None, bool]:
        """Return the key of the predicate in front, and whether it is negated."""
        guard = self.instruction.guard
        if guard is None:
            return None, False
        register = self.register(guard.text)
        if TYPE_BITS[register.type] != 1:
            refuse(TrapKind.PARSE, self.line, f"guard {guard.text} is no predicate")
        return self.frame.prefix + register.key, guard.negated

    def destination(self, operand: Operand, bits: int, *, wider: bool = False) -> str:
        """Return the key of a register of this width, or `wider` (9.4.1), that is written."""
        if not isinstance(operand, Name) or operand.negated or operand.offset:
            self.unsupported("the destination is no register")
        name = operand.text
        return SINK if name == SINK else self._key(name, self.register(name), bits, wider)

    def _key(self, name: str, register: RegisterText, bits: int, wider: bool) -> str:
        """Return the key of a register that has so many bits; refuse others."""
        has = TYPE_BITS[register.type]
        if has != bits and not (wider and has > bits):
            self.unsupported(f"{name} is declared .{register.type}; {bits} bits are needed")
        if register.parts > 1:
            self.unsupported(f"{name} is a vector of {register.parts} registers")
        return self.frame.prefix + register.key

    def registers(self, operand: Operand, count: int, bits: int) -> tuple[str, ...]:
        """Return the keys of a vector of `count` registers of this width."""
        return tuple(self.destination(part, bits) for part in self.parts(operand, count))

    def sources(self, operand: Operand, count: int, bits: int) -> tuple[Source, ...]:
        """Return what fetches a vector of `count` registers of this width, or constants."""
        return tuple(self.source(part, bits) for part in self.parts(operand, count))

    def parts(self, operand: Operand, count: int) -> tuple[Any, ...]:
        """Return the elements of a vector: in braces, or a vector register."""
        parts = operand.parts if isinstance(operand, VectorText) else (operand,)
        if isinstance(operand, Name):
            name, many = operand.text, 4
            if f"{name}.w" not in SPECIAL:
                many = self.register(name).parts if count > 1 and name != SINK else 1
            if many > 1:
                parts = tuple(Name(f"{name}.{letter}") for letter in "xyzw"[:many])
        if len(parts) != count:
            self.unsupported(f"a vector of {len(parts)} registers where {count} are needed")
        return parts

    def source(
        self, operand: Operand, bits: int, *, wider: bool = False, copied: bool = False
    ) -> Source:
        """Return what fetches an operand of this width: a register, a constant or an address.

        With `wider`, a register may have more bits, whose low ones count. With `copied`, one that
        was never written is no trap: compilers copy what they know to be undefined.
        """
        if isinstance(operand, ImmediateText):
            if operand.float_bits and bits < 32:
                self.unsupported(f"a floating-point constant where {bits} bits are needed")
            value = _float_bits(operand, bits) if operand.float_bits else operand.value
            return FromRegister((value, bits))
        if not isinstance(operand, Name):
            self.unsupported("an operand is neither register nor constant")
        name, scope = operand.text, self.instruction.scope
        if name in SPECIAL:
            has, given = SPECIAL[name]
            if bits != has and 1 in (bits, has):
                self.unsupported(f"{name} has {has} bits, not {bits}")
            return given if bits == has else lambda warps: given(warps).astype(DTYPES[bits])
        found = scope.find(name)
        if isinstance(found, Variable):
            return FromRegister((self.location(found).offset + operand.offset, bits))
        if found is None:
            if UNKNOWN.fullmatch(name):
                self.unsupported(f"the special register {name} is not simulated")
            if name in self.frame.statics.functions:
                return FromRegister((self.frame.statics.functions[name], bits))
            found = self.register(name)
        key, has = self._key(name, found, bits, wider), TYPE_BITS[found.type]
        if operand.offset:
            self.unsupported(f"{name} with an offset")
        if operand.negated:
            if bits != 1:
                self.unsupported(f"! in front of {name}, which is no predicate")
            return lambda warps: ~warps.registers[key]
        fetch: Source = FromRegister(key)
        if copied:
            fetch = lambda warps: warps.read_copied(key, has)  # noqa: E731
        return fetch if has == bits else lambda warps: fetch(warps).astype(DTYPES[bits])

    def space(self, operand: Operand, named: Space) -> Space:
        """Return the space of an address, or a variable: parameters of functions are local."""
        if named is not Space.PARAM:
            return named
        name = operand.base if isinstance(operand, Address) else getattr(operand, "text", "")
        found = self.instruction.scope.find(name)
        if isinstance(found, Variable):
            return self.location(found).space
        return Space.PARAM if self.frame.function.is_entry else Space.LOCAL

    def address(self, operand: Operand, space: Space) -> Callable[[WarpState], Addresses]:
        """Return what computes a bracketed address as (1 or 32 lanes, warps or 1) uint64."""
        if not isinstance(operand, Address):
            self.unsupported("the address is not in brackets")
        if operand.coordinates:
            self.unsupported("an address with coordinates, of a texture, a surface or a tensor")
        base = operand.base
        found = self.instruction.scope.find(base) if base else None
        if not base or isinstance(found, Variable):
            where = Location(space, 0)
            if isinstance(found, Variable):
                where = self.location(found)
                if space not in (where.space, Space.GENERIC):
                    self.unsupported(f"{base} is in {where.space} memory")
            window = WINDOWS[where.space] if space is Space.GENERIC else 0
            return FromRegister((where.offset + window + operand.offset, 64))
        bits = self.width(base)
        if bits != 64 and not (bits == 32 and space not in (Space.GENERIC, Space.GLOBAL)):
            self.unsupported(f"an address of {bits} bits in {space} space")
        key = self.frame.prefix + self.register(base).key
        if bits == 64 and not operand.offset:
            return FromRegister(key)
        offset = constant_of(operand.offset)
        if bits == 64:
            return lambda warps: warps.registers[key] + offset
        # Base and offset make 32 bits, which wrap (H200, ptxas at -O0 and -O3, 2026-11-23).
        narrow = offset.astype(np.uint32)
        return lambda warps: (warps.registers[key] + narrow).astype(np.uint64)
