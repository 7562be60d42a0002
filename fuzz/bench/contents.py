"""What fills the images of a bench: a campaign's recipes, or one of two baselines."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from fuzz.value_rounds import Batch
from runners.protocol import Images
from strategies.contents import Recipe, ValueClass, expand


class Contents(StrEnum):
    """Where the values come from; the programs are the same."""

    WARPFUZZ = "warpfuzz"
    """The recipes of a campaign."""
    UNIFORM = "uniform"
    """Uniform random bits; of floating-point numbers only finite ones, as in section 5 of the
    measured facts: with others, NaN would hide most results of f16."""
    NORMAL = "normal"
    """Normally distributed numbers of variance 1; of integers, small ones."""


_CLASSES = {Contents.UNIFORM: ValueClass.BITS, Contents.NORMAL: ValueClass.NORMAL}


def filled(contents: Contents, batch: Batch, count: int) -> Images:
    """Return the first images of a batch, uint8 (count, image_bytes)."""
    if contents is Contents.WARPFUZZ:
        return batch.images(count)
    recipe: Recipe = replace(batch.recipe, classes=(_CLASSES[contents],))
    return expand(recipe, batch.program, count)
