"""Recipes: what a batch of images is filled with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from oracle.errors import UsageError
from strategies.contents.value_classes import ValueClass


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What to fill images with.

    Raises
    ------
    UsageError
        If there is no class, or the seed does not fit.
    """

    classes: tuple[ValueClass, ...]
    """Dealt out to the images in turn: image i is of class i modulo their number."""
    seed: int
    """Key of the counter-based generator, 64 bits."""

    def __post_init__(self) -> None:
        if not self.classes:
            raise UsageError("a recipe has no class of values; give at least one")
        if not 0 <= self.seed < 1 << 64:
            raise UsageError(f"the seed is {self.seed}; it must lie in 0 to 2^64 - 1")


_OMITTED = st.sets(st.sampled_from(ValueClass), max_size=len(ValueClass) // 2)
_SEEDS = st.integers(0, (1 << 64) - 1)


@st.composite
def recipes(draw: st.DrawFn, wanted: tuple[ValueClass, ...] = ()) -> Recipe:
    """Draw a recipe; it shrinks towards all classes and a small seed.

    Parameters
    ----------
    wanted
        Classes that come first, whatever is drawn. The others follow in the order of `ValueClass`,
        which starts with those that reveal most.
    """
    omitted = draw(_OMITTED)
    others = (one for one in ValueClass if one not in wanted and one not in omitted)
    classes = (*dict.fromkeys(wanted), *others)
    return Recipe(classes=classes, seed=draw(_SEEDS))


_APART = frozenset(
    {
        ValueClass.SPECIAL,
        ValueClass.SUBNORMAL,
        ValueClass.PAYLOADS,
        ValueClass.ZEROS,
        ValueClass.ANY,
    }
)
"""Classes with values of which arithmetic is done apart: zeros, subnormals, infinities, NaN."""


def by_class(recipe: Recipe, count: int, *, first: int = 0) -> NDArray[np.intp]:
    """Return the numbers of images in another order: those of a class together.

    What works on many images at once, and slower where one of them holds special values, then
    does so for few of them.

    Returns
    -------
    (count,)
        `first` to `first + count - 1`: classes with special values last.
    """
    numbers = np.arange(first, first + count)
    slots = np.arange(len(recipe.classes))
    slots += len(slots) * np.array([one in _APART for one in recipe.classes])
    order: NDArray[np.intp] = np.argsort(slots[numbers % len(slots)], kind="stable")
    return numbers[order]
