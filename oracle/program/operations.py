"""What is done with registers outside of matrix instructions: element by element, or as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property, partial
from operator import add, and_, mul, or_, xor
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic import conversions
from oracle.isa.forms import Format, FormatKind, Matrix
from oracle.program import operands
from oracle.program.operands import Operation, Use, check

FLOATS: dict[str, type[np.floating[Any]]] = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
"""NumPy types of the formats that registers compute in."""

CANONICAL_NAN = {**conversions.CANONICAL_NAN, "f64": 0xFFF8_0000_0000_0000}
"""What `mul` and `add` return for an invalid operation, and, in f16 and f32, for NaN operands.
PTX leaves it open (9.7.3). f64: what an H200's fused multiply-add returns for 0 x inf (2026-11)."""


def apply(
    operation: Operation, type_: Format, values: NDArray[Any], constant: int = 0
) -> NDArray[Any]:
    """Apply an operation to every element, raw patterns; NaNs become canonical, or quiet of f64."""
    if operation is Operation.COPY:
        return values
    if operation in (Operation.MULTIPLY, Operation.ADD) and type_.is_float:
        return _arithmetic(operation, type_, values, constant)
    bits = values.view(f"u{values.dtype.itemsize}")
    kind, unused = bits.dtype.type, bits.dtype.itemsize * 8 - type_.bits
    sign = kind(1 << (type_.bits - 1))
    if operation in _BINARY:
        bits = _BINARY[operation](bits, kind(constant))
    elif operation is Operation.NEGATE:
        bits = bits ^ sign if type_.is_float else kind(0) - bits
    else:
        bits = bits & ~sign if operation is Operation.ABSOLUTE else ~bits
    if unused:  # sign- or zero-extended
        bits = bits & kind((1 << type_.bits) - 1)
    raw: NDArray[Any] = bits.view(type_.raw)
    return (raw << unused) >> unused if unused and type_.kind is FormatKind.SIGNED else raw


_BINARY: dict[Operation, Callable[[Any, Any], Any]] = {
    Operation.MULTIPLY: mul, Operation.ADD: add, Operation.AND: and_, Operation.OR: or_,
    Operation.XOR: xor,
}  # fmt: skip


def _arithmetic(
    operation: Operation, type_: Format, values: NDArray[Any], constant: int
) -> NDArray[Any]:
    """Multiply by or add a constant, rounded once (f16 in f32 is innocuous: Figueroa 1995)."""
    floats = FLOATS[type_.name]
    operand = np.array(constant, dtype=type_.raw).view(floats)
    numbers = values.view(floats)
    # overflow and invalid operations are results here, not accidents
    with np.errstate(all="ignore"):
        result = numbers * operand if operation is Operation.MULTIPLY else numbers + operand
    bits: NDArray[Any] = result.view(type_.raw)
    wrong = np.isnan(result)
    if not wrong.any():
        return bits
    canonical = bits.dtype.type(CANONICAL_NAN[type_.name])
    if type_.name == "f64":
        quiet = np.uint64(1 << (type_.fraction_bits - 1))
        fallback = operand.view(type_.raw) | quiet if np.isnan(operand) else canonical
        return np.where(wrong, np.where(np.isnan(numbers), values | quiet, fallback), bits)
    return np.where(wrong, canonical, bits)


class ScalarRow(NamedTuple):
    """An instruction that each lane executes for every register of its destination."""

    opcode: str
    """With places for the size of a register in bits, or for a type."""
    sources: int
    """Registers of the source for one of the destination; 0: it has a constant."""
    fields: tuple[str, ...]
    text: str
    """The step in a line, with places for its fields."""


SCALARS: Mapping[str, ScalarRow] = {
    # The only registers of which several can be a fragment of wmma in any order, or one of them all
    # of it, are those that hold the same number in every lane: zeros for accumulators, for one.
    "set_registers": ScalarRow(
        "mov.b{bits}", 0, ("destination", "count", "constant", "bits"),
        "set registers {destination} to {constant:#x}",
    ),
    "move_registers": ScalarRow(
        "mov.b{bits}", 1, ("source", "destination", "count", "bits"), "{destination} = {source}",
    ),
    # How attention kernels turn a D into the next A (9.7.9.23; sm_80 and PTX 7.0 on): register 2 i
    # goes to the low half of register i.
    "pack_registers": ScalarRow(
        "cvt.rn.{type}x2.f32", 2, ("type", "source", "destination", "count"),
        "{destination} = pairs of {source} as {type}",
    ),
}  # fmt: skip
"""Scalar instructions, by the action of their step."""


@dataclass(frozen=True, kw_only=True)
class Scalar(operands.StepBase):
    """A scalar instruction on registers of every lane, all of them read before one is written."""

    operation: str
    """A key of SCALARS."""
    source: str = ""
    destination: str
    count: int
    """Registers of the source in each lane, or of the destination: 1, 2, 4 or 8."""
    bits: int = 32
    """Size of one register: 32, or 64 for f64."""
    type: str = ""
    """What the halves of packed registers are: "f16" or "bf16"."""
    constant: int = 0
    """What each register gets that is set: its bits, as an unsigned number."""

    def __post_init__(self) -> None:
        known = ", ".join(SCALARS)
        check(self.operation in SCALARS, f"there is no {self.operation!r}; there are {known}")
        for field in fields(self):
            own = field.name in ("operation", *self.row.fields)
            text = f"{self.operation} has no {field.name}; leave it out"
            check(own or getattr(self, field.name) == field.default, text)
        for name in (self.destination, *([self.source] if self.row.sources else [])):
            operands.check_registers(name, self.count, self.bits)
        if self.row.sources > 1:
            check(self.count > 1, "1 register given; pairs are packed, so give 2, 4 or 8")
            text = f"registers are packed as f16 or bf16, not as {self.type!r}"
            check(self.type in ("f16", "bf16"), text)
        operands.check_range(self.constant, 0, (1 << self.bits) - 1, "constant of registers")

    @property
    def action(self) -> str:
        return self.operation

    @property
    def row(self) -> ScalarRow:
        """What there is to know of the instruction."""
        return SCALARS[self.operation]

    @property
    def opcode(self) -> str:
        """Text of the instruction without its operands."""
        return self.row.opcode.format(bits=self.bits, type=self.type)

    @property
    def fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.row.fields}

    @property
    def sets(self) -> int | None:
        return None if self.row.sources else self.constant

    @property
    def copies(self) -> bool:
        return self.row.sources == 1

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        sources = self.row.sources
        made = operands.Registers(registers=self.count // max(1, sources), bits=self.bits)
        written = Use(field="destination", name=self.destination, holds=made, written=True)
        holds = operands.Registers(registers=self.count, bits=self.bits)
        return (*([Use(field="source", name=self.source, holds=holds)] if sources else []), written)

    @property
    def carried(self) -> str | None:
        return self.source or None

    def __str__(self) -> str:
        return self.row.text.format(**self.fields)


set_registers = partial(Scalar, operation="set_registers")
move_registers = partial(Scalar, operation="move_registers")
pack_registers = partial(Scalar, operation="pack_registers")


@dataclass(frozen=True, kw_only=True)
class Elementwise(operands.StepBase):
    """The same operation on every register of a fragment ("Manipulating fragment contents")."""

    action: ClassVar[str] = "elementwise"

    operation: Operation
    matrix: Matrix
    """Accumulators are operand "c" (or "d", which is the same)."""
    source: str
    destination: str
    constant: int = 0
    """Raw pattern of one element, of which every one of a register gets it; 0 for none."""

    def __post_init__(self) -> None:
        operands.check_vector(self.source, "fragment")
        operands.check_vector(self.destination, "fragment")
        type_ = self.matrix.type
        text = f"{self.operation} is not an element-wise operation on {type_.name}; allowed are "
        allowed = operands.operations(type_)
        check(self.operation in allowed, text + ", ".join(map(str, allowed)))
        high = (1 << type_.bits) - 1 if self.operation in operands.WITH_CONSTANT else 0
        operands.check_range(
            self.constant, 0, high, f"constant of {self.operation} on {type_.name}"
        )

    @property
    def changes(self) -> Operation:
        return self.operation

    @property
    def copies(self) -> bool:
        return self.operation is Operation.COPY

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        holds = operands.Fragment.of(self.matrix, None)  # a multiplicand's layout stays what it is
        return (
            Use(field="source", name=self.source, holds=holds),
            Use(field="destination", name=self.destination, holds=holds, written=True),
        )

    @property
    def carried(self) -> str:
        return self.source

    def __str__(self) -> str:
        constant = f" {self.constant:#x}" if self.operation in operands.WITH_CONSTANT else ""
        return f"{self.destination} = {self.operation}{constant} of {self.source}, every element"


def copied(use: Use, source: str, destination: str) -> Elementwise | Scalar:
    """Return the step that copies what an operand holds from registers to others."""
    holds, names = use.holds, dict[str, Any](source=source, destination=destination)
    if isinstance(holds, operands.Fragment):
        return Elementwise(operation=Operation.COPY, matrix=holds.matrix, **names)
    return move_registers(count=holds.registers, bits=holds.bits, **names)
