"""Scalar instructions of PTX, a row each: operands, what they compute, where they exist."""

from collections.abc import Mapping

from oracle.scalar import bits, comparisons, conversions, floats, integers, warp
from oracle.scalar.row import CLASSES, Immediate, ScalarInstruction, by_opcode

SCALARS: Mapping[str, ScalarInstruction] = by_opcode(
    *integers.ROWS, *bits.ROWS, *floats.ROWS, *conversions.ROWS, *comparisons.ROWS, *warp.ROWS
)
"""Every scalar instruction that PTX defines to the bit, by its opcode."""

__all__ = ["CLASSES", "SCALARS", "Immediate", "ScalarInstruction"]
