"""What a fill knows of the images that it fills, and what fills have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from oracle.formats import Format
from strategies.contents.float_fields import FloatFields, Raw, fields_of

Ints = NDArray[np.int64]

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


class Fill(Protocol):
    """Fills the matrices of images, each at its own time and in place.

    What matrices of one image have in common comes from `Setting.draws`; every other choice comes
    from the random bits that a matrix already holds.
    """

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A: (images, M, K) raw patterns."""

    def b(self, view: Raw, setting: Setting) -> None:
        """Fill B: (images, K, N) raw patterns."""

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C: (images, M, N) raw patterns."""


class Draws:
    """Random numbers of each image, beside the bits of its matrices."""

    def __init__(self, numbers: NDArray[np.uint16]) -> None:
        self.numbers = numbers
        self._below: dict[tuple[int, int], Ints] = {}

    def below(self, column: int, bound: int) -> Ints:
        """Return a number below a bound for each image, int64 (images,); not to be changed."""
        key = column, bound
        if key not in self._below:
            self._below[key] = self.numbers[:, column].astype(np.int64) % bound
        return self._below[key]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The images that are filled at once."""

    draws: Draws
    types: Types
    turn: int
    """Number of the first image among those of its class."""
    multiplicands: Callable[[], tuple[Raw, Raw]] | None = None
    """Gives A and B as they are in the end, where C belongs to just one product of them."""

    @cached_property
    def images(self) -> Ints:
        """0, 1, 2, … for each image: an index beside others."""
        return np.arange(len(self.draws.numbers))

    @property
    def depth(self) -> int:
        """K."""
        return self.types.depth

    @property
    def factor(self) -> FloatFields:
        """Fields of A and B."""
        return fields_of(self.types.multiplicand.name)

    @property
    def sum(self) -> FloatFields:
        """Fields of C."""
        return fields_of(self.types.accumulator.name)

    @property
    def result(self) -> FloatFields:
        """Fields of D."""
        return fields_of(self.types.result.name)

    def below(self, column: int, bound: int) -> Ints:
        """Return a number below a bound for each image, int64 (images,); not to be changed."""
        return self.draws.below(column, bound)

    def each_k(self) -> Ints:
        """Return a number below 2^16 for each image and k, int64 (images, K)."""
        return self.spots(EACH_K, self.depth)

    def spots(self, column: int, count: int) -> Ints:
        """Return some numbers below 2^16 for each image, int64 (images, count)."""
        return self.draws.numbers[:, column : column + count].astype(np.int64)

    def pair(self) -> tuple[Ints, Ints]:
        """Return two different places k of each image, one as likely as the other."""
        first = self.below(POSITION, self.depth)
        return first, first ^ (1 + self.below(PARTNER, self.depth - 1))

    def every(self, step: int, start: int) -> Setting:
        """Return the setting of every so manieth image."""
        draws = Draws(self.draws.numbers[start::step])
        return Setting(draws=draws, types=self.types, turn=self.turn + start)


@dataclass(frozen=True)
class Choice:
    """Fills images in several ways in turn."""

    ways: tuple[Fill, ...]

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A."""
        self._each(view, setting, "a")

    def b(self, view: Raw, setting: Setting) -> None:
        """Fill B."""
        self._each(view, setting, "b")

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C."""
        self._each(view, setting, "c")

    def _each(self, view: Raw, setting: Setting, operand: str) -> None:
        for number, fill in enumerate(self.ways):
            start = (number - setting.turn) % len(self.ways)
            part = view[start :: len(self.ways)]
            if len(part):
                getattr(fill, operand)(part, setting.every(len(self.ways), start))


def spread(view: Raw, keep: Any, base: Any) -> None:
    """Keep some bits of each pattern and add to them, in place."""
    np.bitwise_and(view, keep, out=view)
    np.add(view, base, out=view)


def per_image(values: Raw) -> Raw:
    """Return one value for each image as a factor of (images, rows, columns)."""
    return values[:, None, None]
