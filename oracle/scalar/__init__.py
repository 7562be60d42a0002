"""Scalar instructions of PTX, a row each: operands, what they compute, where they exist."""

from collections.abc import Mapping

from oracle.scalar import bits, comparisons, conversions, floats, integers, warp
from oracle.scalar.row import CLASSES, Immediate, ScalarInstruction

SCALARS: Mapping[str, ScalarInstruction] = {
    row.opcode: row
    for chapter in (integers, bits, floats, conversions, comparisons, warp)
    for row in chapter.ROWS
}
"""Every scalar instruction that PTX defines to the bit, by its opcode."""

__all__ = ["CLASSES", "SCALARS", "Immediate", "ScalarInstruction"]
