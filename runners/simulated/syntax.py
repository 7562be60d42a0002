"""The parsed form of a PTX module: what the text says, before anything is judged."""

from collections import ChainMap
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

# Widths in bits of the types that the simulated device knows (PTX ISA 5.2.1, 5.2.3, 5.2.4).
# A predicate has no width of its own in the ISA; 1 marks it here.
TYPE_BITS = MappingProxyType(
    {
        "pred": 1,
        **dict.fromkeys(("b8", "u8", "s8"), 8),
        **dict.fromkeys(("b16", "u16", "s16", "f16", "bf16", "e4m3x2", "e5m2x2"), 16),
        **dict.fromkeys(("b32", "u32", "s32", "f32", "f16x2", "bf16x2", "tf32"), 32),
        **dict.fromkeys(("b64", "u64", "s64", "f64", "f32x2"), 64),
        "b128": 128,
        # Opaque (5.3): handles, that are only named.
        **dict.fromkeys(("texref", "samplerref", "surfref"), 64),
    }
)


CALLS = ("call", "call.uni")
"""Opcodes of calls."""

WARP_SIZE = 32
"""What WARP_SZ stands for (PTX ISA 4.5.3)."""


@dataclass(frozen=True, slots=True)
class Name:
    """A register, special register, label or variable used as an operand."""

    text: str
    offset: int = 0
    """Bytes added to the address of a variable."""
    negated: bool = False
    """A predicate with `!` in front."""


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant. Floating-point constants carry their bit pattern."""

    value: int
    float_bits: int = 0
    """Width of a floating-point constant in bits; 0 for an integer."""


@dataclass(frozen=True, slots=True)
class Address:
    """A bracketed address: a register or variable, if any, and a byte offset."""

    base: str
    """Empty where the address is a constant."""
    offset: int
    coordinates: "tuple[Operand, ...]" = ()
    """Of a texture, a surface or a tensor."""


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector expression in braces."""

    parts: tuple[Name | Immediate, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two destinations, `p|q`."""

    first: Name
    second: Name


@dataclass(frozen=True, slots=True)
class Group:
    """The parameters of a call, in parentheses."""

    parts: tuple[Name | Immediate, ...]


Operand = Name | Immediate | Address | Vector | Pair | Group


class Register(NamedTuple):
    """A register of one thread."""

    key: str
    """Where it lies among the registers: its name, and its scope where that is an inner one."""
    type: str
    parts: int = 1
    """Elements of a vector register, which are registers of their own: `key.x` and so on."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Variable:
    """A variable in memory, or a formal parameter."""

    line: int
    name: str
    space: str
    """`shared`, `local`, `param`, `global`, `const`, or `reg` for a parameter in a register."""
    type: str
    alignment: int
    """Bytes."""
    size: int
    """Bytes; 0 for an array whose size the launch decides."""
    initial: tuple["Initial", ...] = ()
    """What its first elements hold; the others are zero."""


@dataclass(frozen=True, slots=True)
class Initial:
    """The initial value of one element of a variable."""

    value: Name | Immediate
    """A number, or a variable whose address it is."""
    generic: bool = False
    """The variable's address is its generic one."""


_DIGITS = "0123456789"


@lru_cache(maxsize=1 << 14)
def member(name: str) -> tuple[str, int]:
    """Return the family that a name may be of, and its number there; %r0 and 12 for %r012."""
    digits = name[len(name.rstrip(_DIGITS)) :]
    number = digits.lstrip("0") or digits[-1:]
    if not 0 < len(number) < 10:
        return "", 0
    return name[: -len(number)], int(number)


@dataclass(eq=False)
class Scope:
    """What is declared between two braces (PTX ISA 4.3, 5.4)."""

    parent: "Scope | None" = None
    number: int = 0
    """Distinguishes the scopes of one body; 0 is the outermost."""
    registers: dict[str, Register] = field(default_factory=dict)
    families: dict[str, tuple[int, str, int]] = field(default_factory=dict)
    """Count, type and elements of registers that are declared together, as `%r<100>`, by their
    prefix."""
    variables: dict[str, Variable] = field(default_factory=dict)
    labels: ChainMap[str, int] = field(default_factory=ChainMap)
    """Index into the body that each label that is visible here stands before; one past the end at
    the end."""
    targets: ChainMap[str, tuple[str, ...]] = field(default_factory=ChainMap)
    """Labels of each list of branch targets that is visible here."""
    _found: dict[str, Register | Variable] = field(default_factory=dict)
    """What names were found to mean."""

    def declares(self, name: str) -> bool:
        """Return whether a name is a register or variable of this very scope."""
        return name in self.variables or self._own(name) is not None

    def _own(self, name: str) -> Register | None:
        found = self.registers.get(name)
        if found is None and self.families:
            whole = name.partition(".")[0]
            stem, number = member(whole)
            count, kind, parts = self.families.get(stem, (0, "", 1))
            if number < count:
                self.declare(whole, kind, parts)
                found = self.registers.get(name)
        return found

    def declare(self, name: str, kind: str, parts: int = 1) -> None:
        """Declare a register, and the elements that it has if it is a vector (PTX ISA 5.4.2)."""
        self.registers[name] = Register(self.key(name), kind, parts)
        for letter, color in zip("xyzw"[:parts], "rgba", strict=False) if parts > 1 else ():
            part = Register(f"{self.key(name)}.{letter}", kind)
            self.registers[f"{name}.{letter}"] = self.registers[f"{name}.{color}"] = part

    def key(self, name: str) -> str:
        """Return what tells apart the registers of this name in all scopes of the body."""
        return f"{name}#{self.number}" if self.number else name

    def find(self, name: str) -> Register | Variable | None:
        """Return the register or variable that a name means here, once all is declared."""
        found = self._found.get(name)
        scope: Scope | None = self
        while found is None and scope is not None:
            found = scope._own(name) or scope.variables.get(name)
            scope = scope.parent
        if found is not None:
            self._found[name] = found
        return found

    def inner(self, number: int) -> "Scope":
        """Return a new scope inside of this one."""
        return Scope(self, number, labels=self.labels.new_child(), targets=self.targets.new_child())


NOWHERE = Scope()
"""Where an instruction is that is not in its place."""


class Instruction(NamedTuple):
    """An instruction, by itself or in its place."""

    whole: str
    """What stands there, from the guard to the semicolon."""
    text: str
    """From the opcode to the semicolon."""
    guard: Name | None
    """The predicate in front of it."""
    opcode: str
    """What it does, with all qualifiers."""
    operands: tuple[Operand, ...]
    line: int = 0
    scope: Scope = NOWHERE


@dataclass(frozen=True, kw_only=True, eq=False)
class Function:
    """A kernel (`.entry`) or device function (`.func`)."""

    line: int
    name: str
    is_entry: bool
    results: tuple[Variable, ...]
    """Return parameters; none for a kernel."""
    parameters: tuple[Variable, ...]
    body: tuple[Instruction, ...] | None
    """None for a declaration."""
    scopes: tuple[Scope, ...]
    """All of the body, the outermost first."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Listing:
    """A module."""

    version: tuple[int, int]
    """PTX ISA version."""
    target: str
    entries: MappingProxyType[str, Function]
    functions: MappingProxyType[str, Function]
    scope: Scope
    """What is declared outside of all functions."""
