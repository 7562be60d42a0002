"""The images that are filled at once: what a fill knows of them, and what fills have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.formats import Format
from strategies.contents.float_fields import FloatFields, Ints, Raw, fields_of

DRAW_BYTES = 128
"""Random bytes of each image beside its own, for what its matrices have in common."""

# Columns of the draws; those from EACH_K on are one for each k.
POSITION, PARTNER, VARIANT, EXPONENT, DEPTH, OFFSET, SPOTS, EACH_K = 0, 1, 2, 3, 4, 5, 6, 32


@dataclass(frozen=True, kw_only=True)
class Types:
    """The formats of a multiplication, and how many products it sums."""

    multiplicand: Format
    accumulator: Format
    """Of C."""
    result: Format
    """Of D."""
    depth: int
    """K: products of each sum; a power of two."""
    operation: str | None = None
    """`.op` of single bits."""


@dataclass(frozen=True, kw_only=True)
class ImageGroup:
    """The images of one class that are filled at once."""

    draws: NDArray[np.uint16]
    """(images, columns): random numbers of each image, beside the bits of its matrices."""
    known: dict[tuple[int, int], Ints] = field(default_factory=dict)
    """Numbers below bounds that were asked for: shared by the matrices of the same images."""
    types: Types
    turn: int
    """Number of the first image among those of its class."""
    multiplicands: Callable[[], tuple[Raw, Raw]] | None = None
    """Gives A and B as they are in the end, where C belongs to just one product of them."""

    @cached_property
    def images(self) -> Ints:
        """0, 1, 2, … for each image: an index beside others."""
        return np.arange(len(self.draws))

    @property
    def depth(self) -> int:
        """K."""
        return self.types.depth

    def fields(self, operand: str) -> FloatFields:
        """Return the fields of A and B, of C, or of D."""
        types = self.types
        type_ = {"c": types.accumulator, "d": types.result}.get(operand, types.multiplicand)
        return fields_of(type_.name)

    def below(self, column: int, bound: int) -> Ints:
        """Return a number below a bound for each image, int64 (images,); not to be changed."""
        key = column, bound
        if key not in self.known:
            self.known[key] = self.draws[:, column].astype(np.int64) % bound
        return self.known[key]

    def spots(self, column: int, count: int) -> Ints:
        """Return some numbers below 2^16 for each image, int64 (images, count)."""
        return self.draws[:, column : column + count].astype(np.int64)

    def pair(self) -> tuple[Ints, Ints]:
        """Return two different places k of each image, one as likely as the other."""
        first = self.below(POSITION, self.depth)
        return first, first ^ (1 + self.below(PARTNER, self.depth - 1))


Fill = Callable[[Raw, ImageGroup, str], None]
"""Fills one operand of a group of images, each at its own time and in place.

It is given A as (images, M, K), B as (images, K, N) or C as (images, M, N) raw patterns, and which
of them as "a", "b" or "c". What matrices of one image have in common comes from `ImageGroup.draws`;
every other choice comes from the random bits that a matrix already holds.
"""


def fill_in_turn(fills: Sequence[Fill], view: Raw, group: ImageGroup, operand: str) -> None:
    """Fill images in several ways, each image in the one whose turn it is."""
    if len(fills) == 1:
        fills[0](view, group, operand)
        return
    for number, fill in enumerate(fills):
        start = (number - group.turn) % len(fills)
        some = slice(start, None, len(fills))
        if len(view[some]):
            turn = group.turn + start
            part = ImageGroup(draws=group.draws[some], types=group.types, turn=turn)
            fill(view[some], part, operand)


def spread(view: Raw, keep: Any, base: Any) -> None:
    """Keep some bits of each pattern and add to them, in place."""
    np.bitwise_and(view, keep, out=view)
    np.add(view, base, out=view)


def per_image(values: Raw) -> Raw:
    """Return one value for each image as a factor of (images, rows, columns)."""
    return values[:, None, None]
