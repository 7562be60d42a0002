"""Scalar instructions of PTX, a row each: operands, what they compute, where they exist."""

from collections.abc import Mapping

from oracle.scalar import bits, floats, integers
from oracle.scalar.integers import CLASSES, Immediate, ScalarInstruction, constant

_ROWS = (
    *integers.ROWS, *bits.ROWS, *floats.ROWS, *bits.COMPARISONS, *bits.OF_WARPS
)  # fmt: skip
SCALARS: Mapping[str, ScalarInstruction] = {row.opcode: row for row in _ROWS}
"""Every scalar instruction that PTX defines to the bit, by its opcode."""

__all__ = ["CLASSES", "SCALARS", "Immediate", "ScalarInstruction", "constant"]
