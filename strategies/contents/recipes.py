"""Recipes: the classes of values that fill the matrices of images, and a seed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from oracle.errors import UsageError


class ValueClass(StrEnum):
    """What the matrices of an image hold.

    Each docstring says what floats hold; after "Integers:" and "Bits:" stands what the class
    becomes where its idea does not exist. The order is the order of a recipe's mix: first what
    reveals most.
    """

    MIRRORED = "mirrored"
    """A pair of large products that cancel, over many small ones and a small C: shows where terms
    are cut, and which are added at once. Integers: pairs that cancel, C near an end, so that the
    sum passes the end and comes back. Bits: B's columns are the complement of A's rows."""
    SPECIAL = "special"
    """Everyday numbers with a few zeros, infinities, NaN and ends of the range, zero times
    infinity among them. Integers: small ones with a few ends. Bits: a few lines all set or all
    clear."""
    TIES = "ties"
    """A sum on the middle between two results, nudged by minute products or not at all, also on
    the subnormal grid. Integers and bits: the sum is at, or next to, an end of 32 bits."""
    SUBNORMAL = "subnormal"
    """One of A, B, C and D subnormal. Integers: one bit set in each element. Bits: one set in
    each line."""
    CANCELLING = "cancelling"
    """C is the negative of the rounded product: the low bits of the sum are the result.
    Integers and bits: the sum is in -4 to 3."""
    EXTREME = "extreme"
    """Sums at and beyond the ends of the range, and such that pass them and come back.
    Integers and bits: every element at an end, C near one."""
    TINY = "tiny"
    """Products around the least subnormal of the sum, C zero. Integers: 0, 1 and -1. Bits: one
    set in the whole matrix."""
    BITS = "bits"  # Uniform bits; of floats only finite ones
    UNNORMALISED = "unnormalised"
    """As MIRRORED, but the large products have significands of 2 or more. Integers: the two
    highest bits set. Bits: all set but one in each line."""
    PAYLOADS = "payloads"
    """NaN, quiet and signalling, with payloads of their own. Integers and bits: all ones,
    alternating ones and the like."""
    CODED = "coded"
    """One of A and B has a single one in each row or column, the other and C tell each element's
    place. Bits: one set in each line, at a place that tells the line."""
    ZEROS = "zeros"
    """Zeros of both signs, beside nothing or everyday numbers. Integers and bits: A or B zero."""
    AIMED = "aimed"
    """The exponents of the products are chosen, and divided between A and B at random.
    Integers and bits: C is such that the sum carries into, or just not into, its high half."""
    SQUARES = "squares"
    """Large^2 - large^2 plus something small at every pair of places, zero elsewhere: shows which
    products are added at once. Integers: the same. Bits: two set in each line."""
    LADDER = "ladder"
    """X + YZ - YZ with YZ growing from row to row, X in C: a ladder of precision. Integers: the
    same. Bits: as many set as the line's number tells."""
    WIDE = "wide"
    """Exponents spread evenly over a window. Integers: all bit lengths. Bits: all densities."""
    ENDS = "ends"
    """Every element a zero, an end of the subnormals or normals, or next to a power of two.
    Integers: every element an end, or next to one. Bits: bytes all set or all clear."""
    NORMAL = "normal"  # Everyday numbers of both signs; small integers; sparse bits
    ANY = "any"  # Uniform bits, of floats with NaN and infinities


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What to fill images with; a UsageError says that there is no class, or a seed too large."""

    classes: tuple[ValueClass, ...]  # In turn: image i is of class i modulo their number
    seed: int  # Key of the counter-based generator, 64 bits

    def __post_init__(self) -> None:
        if not self.classes:
            raise UsageError("a recipe has no class of values; give at least one")
        if not 0 <= self.seed < 1 << 64:
            raise UsageError(f"the seed is {self.seed}; it must lie in 0 to 2^64 - 1")


_OMITTED = st.sets(st.sampled_from(ValueClass), max_size=len(ValueClass) // 2)
_SEEDS = st.integers(0, (1 << 64) - 1)


@st.composite
def recipes(draw: st.DrawFn, wanted: tuple[ValueClass, ...] = ()) -> Recipe:
    """Draw a recipe; it shrinks towards all classes and a small seed."""
    # Classes that are wanted come first, whatever is drawn; the others follow in the order of
    # `ValueClass`, which starts with those that reveal most.
    omitted = draw(_OMITTED)
    others = (one for one in ValueClass if one not in wanted and one not in omitted)
    classes = (*dict.fromkeys(wanted), *others)
    return Recipe(classes=classes, seed=draw(_SEEDS))


_APART = {
    ValueClass.SPECIAL, ValueClass.SUBNORMAL, ValueClass.PAYLOADS, ValueClass.ZEROS, ValueClass.ANY
}  # fmt: skip
"""Classes with values of which arithmetic is done apart: zeros, subnormals, infinities, NaN."""


def by_class(recipe: Recipe, count: int, *, first: int) -> NDArray[np.intp]:
    """Return the numbers of images from the first on in another order: those of a class together.

    What works on many images at once, and slower where one of them holds special values, then
    does so for few of them: classes with special values are last. Of shape (count,).
    """
    numbers = np.arange(first, first + count)
    slots = np.arange(len(recipe.classes))
    slots += len(slots) * np.array([one in _APART for one in recipe.classes])
    order: NDArray[np.intp] = np.argsort(slots[numbers % len(slots)], kind="stable")
    return numbers[order]
