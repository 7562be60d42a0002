"""The parsed form of a PTX module, and the traps with which the device refuses or stops it."""

from collections import ChainMap
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, NoReturn

from oracle.errors import WarpfuzzError

# Widths in bits of the types that the simulated device knows (PTX ISA 5.2.1, 5.2.3, 5.2.4; 5.3:
# handles, that are only named). A predicate has no width of its own in the ISA; 1 marks it here.
TYPE_BITS = {
    kind: bits
    for bits, kinds in {
        1: "pred",
        8: "b8 u8 s8",
        16: "b16 u16 s16 f16 bf16 e4m3x2 e5m2x2",
        32: "b32 u32 s32 f32 f16x2 bf16x2 tf32",
        64: "b64 u64 s64 f64 f32x2 texref samplerref surfref",
        128: "b128",
    }.items()
    for kind in kinds.split()
}
CALLS = ("call", "call.uni")
WARP_SIZE = 32
"""What WARP_SZ stands for (PTX ISA 4.5.3)."""


class TrapKind(StrEnum):
    """Why a module was refused or a launch stopped."""

    PARSE = "parse error"
    UNSUPPORTED = "unsupported"
    ILLEGAL = "illegal for the target"
    MISALIGNED = "misaligned address"
    OUT_OF_BOUNDS = "out-of-bounds access"
    DIVERGENT = "divergent warp"
    UNINITIALISED = "uninitialised register"
    RACE = "race"  # what two threads do to the same memory has no order
    STOPPED = "trap instruction"
    HANG = "hang"

    @property
    def at_load(self) -> bool:
        """Whether the module is refused before anything runs, as an assembler would."""
        return self in (TrapKind.PARSE, TrapKind.UNSUPPORTED, TrapKind.ILLEGAL)


@dataclass(frozen=True, kw_only=True)
class Trap:
    """One refusal: what, in which line (0: none is to blame), and of which images of a launch."""

    kind: TrapKind
    line: int
    message: str
    warps: tuple[int, ...] = ()


class SimulatedTrap(WarpfuzzError):  # noqa: N818 (a trap is what a device calls it)
    """Carries a `Trap` out of the device; `trap` is the value to record."""

    def __init__(self, trap: Trap) -> None:
        super().__init__(f"line {trap.line}: {trap.kind}: {trap.message}")
        self.trap = trap

    def at(self, line: int) -> "SimulatedTrap":
        """Return the same trap at a line, if it has none: operations leave that to their caller."""
        return self if self.trap.line else SimulatedTrap(replace(self.trap, line=line))


def refuse(kind: TrapKind, line: int, message: str, warps: tuple[int, ...] = ()) -> NoReturn:
    """Raise `SimulatedTrap` with this trap."""
    raise SimulatedTrap(Trap(kind=kind, line=line, message=message, warps=warps))


@dataclass(frozen=True, slots=True)
class Name:
    """A register, special register, label or variable used as an operand."""

    text: str
    offset: int = 0  # bytes added to the address of a variable
    negated: bool = False  # a predicate with `!` in front


@dataclass(frozen=True, slots=True)
class ImmediateText:
    """A constant; one of floating point has so many bits, and its pattern as its value."""

    value: int
    float_bits: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """A bracketed address: a register or variable ("" for none), and a byte offset."""

    base: str
    offset: int
    coordinates: "tuple[Operand, ...]" = ()  # of a texture, a surface or a tensor


@dataclass(frozen=True, slots=True)
class VectorText:
    """A vector expression in braces."""

    parts: tuple[Name | ImmediateText, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two destinations, `p|q`."""

    first: Name
    second: Name


@dataclass(frozen=True, slots=True)
class Group:
    """The parameters of a call, in parentheses."""

    parts: tuple[Name | ImmediateText, ...]


Operand = Name | ImmediateText | Address | VectorText | Pair | Group
Initial = Name | ImmediateText | Address
"""An initial value; `generic(name)` is an address."""


class RegisterText(NamedTuple):
    """A register of one thread; a vector's elements are registers of their own, `key.x` and on."""

    key: str  # where it lies: its name, and its scope where that is an inner one
    type: str
    parts: int = 1


@dataclass(frozen=True, eq=False)
class Variable:
    """A variable in memory, or a formal parameter."""

    line: int
    name: str
    space: str  # `shared`, `local`, `param`, `global`, `const`, or `reg` for a parameter there
    type: str
    alignment: int  # bytes
    size: int  # bytes; 0 for an array whose size the launch decides
    initial: "tuple[Initial, ...]" = ()  # of its first elements; the others are zero


@lru_cache(maxsize=1 << 14)
def member(name: str) -> tuple[str, int]:
    """Return the family that a name may be of, and its number there; %r0 and 12 for %r012."""
    digits = name[len(name.rstrip("0123456789")) :]
    number = digits.lstrip("0") or digits[-1:]
    return (name[: -len(number)], int(number)) if 0 < len(number) < 10 else ("", 0)


@dataclass(eq=False)
class TextScope:
    """What is declared between two braces (PTX ISA 4.3, 5.4).

    `families` has count, type and elements of registers that are declared together, as `%r<100>`,
    by their prefix; `labels` the index into the body that each visible label stands before;
    `targets` the labels of each visible list of branch targets.
    """

    parent: "TextScope | None" = None
    number: int = 0  # among the scopes of one body; 0 is the outermost
    registers: dict[str, RegisterText] = field(default_factory=dict)
    families: dict[str, tuple[int, str, int]] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    labels: ChainMap[str, int] = field(default_factory=ChainMap)
    targets: ChainMap[str, tuple[str, ...]] = field(default_factory=ChainMap)
    _found: dict[str, RegisterText | Variable] = field(default_factory=dict)

    def own(self, name: str) -> RegisterText | Variable | None:
        """Return the register or variable of this very scope that has a name."""
        found = self.registers.get(name)
        if found is None and self.families:
            whole = name.partition(".")[0]
            stem, number = member(whole)
            count, kind, parts = self.families.get(stem, (0, "", 1))
            if number < count:
                self.declare(whole, kind, parts)
                found = self.registers.get(name)
        return found or self.variables.get(name)

    def declare(self, name: str, kind: str, parts: int = 1) -> None:
        """Declare a register, and the elements that it has if it is a vector (PTX ISA 5.4.2)."""
        key = f"{name}#{self.number}" if self.number else name
        self.registers[name] = RegisterText(key, kind, parts)
        for letter, color in zip("xyzw"[:parts], "rgba", strict=False) if parts > 1 else ():
            part = RegisterText(f"{key}.{letter}", kind)
            self.registers[f"{name}.{letter}"] = self.registers[f"{name}.{color}"] = part

    def find(self, name: str) -> RegisterText | Variable | None:
        """Return the register or variable that a name means here, once all is declared."""
        found = self._found.get(name)
        scope: TextScope | None = self
        while found is None and scope is not None:
            found = scope.own(name)
            scope = scope.parent
        if found is not None:
            self._found[name] = found
        return found


class InstructionText(NamedTuple):
    """An instruction, by itself or in its place."""

    whole: str  # what stands there, from the guard to the semicolon
    text: str  # from the opcode to the semicolon
    guard: Name | None
    opcode: str  # with all qualifiers
    operands: tuple[Operand, ...]
    line: int = 0
    scope: TextScope = TextScope()


@dataclass(frozen=True, eq=False)
class Function:
    """A kernel (`.entry`) or device function (`.func`)."""

    name: str
    is_entry: bool
    results: tuple[Variable, ...]
    parameters: tuple[Variable, ...]
    body: tuple[InstructionText, ...] | None  # None for a declaration
    scopes: tuple[TextScope, ...]  # all of the body, the outermost first


@dataclass(frozen=True, eq=False)
class KernelText:
    """A module, of a PTX ISA version; its scope is what is declared outside of all functions."""

    version: tuple[int, int]
    target: str
    entries: dict[str, Function]
    functions: dict[str, Function]
    scope: TextScope
