"""Operations that treat every element of a fragment alike: which types have them, what they do."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from operator import add, and_, mul, or_, xor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.isa.formats import Format, FormatKind


class Operation(StrEnum):
    """Operations that treat every element of a fragment alike (9.7.14.4.1).

    Each is one instruction per register, its constant replicated. NEGATE and ABSOLUTE of floats
    flip and clear the sign bit (`xor`, `and`), as PTX leaves the NaN that `neg` and `abs` return
    open.
    """

    COPY = "copy"
    NEGATE = "negate"
    ABSOLUTE = "absolute"
    MULTIPLY = "multiply"
    """By the constant; `mul.rn` of f16x2, f32 and f64, `mul.lo.s32`."""
    ADD = "add"
    """The constant; `add.rn` of f16x2, f32 and f64, `add.s32`."""
    AND = "and"
    OR = "or"
    XOR = "xor"
    NOT = "not"

    @property
    def takes_constant(self) -> bool:
        """Whether the operation has a constant operand."""
        return self in _WITH_CONSTANT

    def accepts(self, type_: Format) -> bool:
        """Whether the operation is defined on fragments of this element type.

        Arithmetic on what registers compute in, bits where they are untyped or integers. ABSOLUTE
        of s32 is left out: PTX does not say what it makes of -2^31.
        """
        match self:
            case Operation.COPY:
                return True
            case Operation.NEGATE:
                return type_.is_float or type_.name == "s32"
            case Operation.ABSOLUTE:
                return type_.is_float
            case Operation.MULTIPLY | Operation.ADD:
                return type_.name in ("f16", "f32", "f64", "s32")
            case _:
                return type_.kind is not FormatKind.FLOAT


_WITH_CONSTANT = frozenset(
    {Operation.MULTIPLY, Operation.ADD, Operation.AND, Operation.OR, Operation.XOR}
)


def operations(type_: Format) -> tuple[Operation, ...]:
    """Return the element-wise operations on fragments of this element type."""
    return tuple(operation for operation in Operation if operation.accepts(type_))


FLOATS: dict[str, type[np.floating[Any]]] = {
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
}
"""NumPy types of the formats that registers compute in."""

CANONICAL_NAN = {"f16": 0x7FFF, "f32": 0x7FFF_FFFF, "f64": 0xFFF8_0000_0000_0000}
"""What `mul` and `add` return for an invalid operation, and, in f16 and f32, for NaN operands.
PTX leaves it open (9.7.3). f16, f32: as wmma.mma returns them on an H200; f64: what its fused
multiply-add returns for 0 x inf (2026-11). Not measured for `mul` and `add` themselves."""


def apply(
    operation: Operation, type_: Format, values: NDArray[Any], constant: int = 0
) -> NDArray[Any]:
    """Apply an operation to every element, raw patterns of `type_`, with a raw constant.

    NaNs of floats become `CANONICAL_NAN`; in f64, a NaN operand comes back quieted, the element
    before the constant.
    """
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
    """Multiply by or add a constant, rounded to nearest even, subnormals kept.

    NumPy computes f16 in f32 and rounds again: exact for products, and harmless for sums: 24 >= 2 *
    11 + 2 (Figueroa, "When is double rounding innocuous?", 1995); subnormal f16 sums are exact.
    """
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
