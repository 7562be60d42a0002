"""The parsed form of a PTX module: what the text says, before anything is judged."""

from dataclasses import dataclass
from types import MappingProxyType

# Widths in bits of the fundamental types that the simulated device knows (PTX ISA 5.2.1, 5.2.3).
# A predicate has no width of its own in the ISA; 1 marks it here.
TYPE_BITS = MappingProxyType(
    {
        "pred": 1,
        **dict.fromkeys(("b8", "u8", "s8"), 8),
        **dict.fromkeys(("b16", "u16", "s16", "f16", "bf16"), 16),
        **dict.fromkeys(("b32", "u32", "s32", "f32", "f16x2", "bf16x2"), 32),
        **dict.fromkeys(("b64", "u64", "s64", "f64"), 64),
    }
)


@dataclass(frozen=True, kw_only=True)
class Name:
    """A register, special register, label, parameter or shared variable used as an operand."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Immediate:
    """A constant. Floating-point constants carry their bit pattern."""

    value: int
    float_bits: int = 0
    """Width of a 0f or 0d constant in bits; 0 for an integer."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """A bracketed address: a register or symbol and a byte offset."""

    base: str
    offset: int


@dataclass(frozen=True, kw_only=True)
class Vector:
    """A brace-enclosed vector expression."""

    parts: tuple[Name | Immediate, ...]


Operand = Name | Immediate | Address | Vector


@dataclass(frozen=True, kw_only=True)
class Guard:
    """The predicate in front of an instruction."""

    register: str
    negated: bool


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """One instruction."""

    line: int
    guard: Guard | None
    opcode: str
    operands: tuple[Operand, ...]


@dataclass(frozen=True, kw_only=True)
class SharedArray:
    """A static array in shared memory."""

    line: int
    name: str
    alignment: int
    """Bytes."""
    size: int
    """Bytes."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A kernel parameter."""

    name: str
    type: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A kernel."""

    line: int
    name: str
    parameters: tuple[Parameter, ...]
    registers: MappingProxyType[str, str]
    """Type of each declared register."""
    shared: tuple[SharedArray, ...]
    """The entry's own arrays and the module's, in the order of declaration."""
    body: tuple[Instruction, ...]
    labels: MappingProxyType[str, int]
    """Index into `body` that each label stands before; one past the end at the end."""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """A module."""

    version: tuple[int, int]
    """PTX ISA version."""
    target: str
    entries: MappingProxyType[str, Entry]
