"""Dot products that a unit is asked for, as bit patterns: one in each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.conversions import FLOATS
from oracle.isa.forms import Format

Array = NDArray[Any]
Floats = NDArray[np.float64]


def encode(values: Floats, fmt: Format) -> Array:
    """Return the patterns of values that a format holds exactly (or rounds somehow)."""
    if fmt.bits == 8:
        most = fmt.largest
        values = np.where(np.isfinite(values), np.clip(values, -most, most), values)
        return np.asarray(values.astype(FLOATS[fmt.name]).view(np.uint8))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if fmt.name == "f64":
            return np.asarray(values, np.float64).view(np.uint64)
        if fmt.name == "f16":
            return np.asarray(values).astype(np.float16).view(np.uint16)
        words = np.asarray(values).astype(np.float32).view(np.uint32)
    if fmt.name == "bf16":
        return (words >> 16).astype(np.uint16)
    return words & np.uint32(2**32 - (1 << fmt.ignored_bits))


@dataclass(frozen=True, kw_only=True, eq=False)
class Dots:
    """Some dot products a . b + c, one in each row."""

    family: tuple[str, ...]
    """Which family of probes each belongs to."""
    a: Array
    """Patterns, (count, k)."""
    b: Array
    c: Array

    def __len__(self) -> int:
        return len(self.c)

    def where(self, chosen: Any) -> Dots:
        """Return some rows: a mask, a slice or indices."""
        index = np.arange(len(self))[chosen]
        return Dots(
            family=tuple(self.family[i] for i in index),
            a=self.a[index], b=self.b[index], c=self.c[index],
        )  # fmt: skip

    def of(self, *families: str) -> NDArray[np.bool_]:
        """Return which rows belong to one of these families."""
        return np.isin(np.array(self.family), families)

    def plus(self, other: Dots) -> Dots:
        """Return these rows and others behind them."""
        return Dots(
            family=self.family + other.family, a=np.concatenate([self.a, other.a]),
            b=np.concatenate([self.b, other.b]), c=np.concatenate([self.c, other.c]),
        )  # fmt: skip


class Sheet:
    """Rows in the making, for one unit's formats and depth.

    `multiplicand` is the format of A, and, where B has another, the narrower range of both.
    """

    def __init__(self, a: Format, b: Format, addend: Format, depth: int) -> None:
        self.a, self.b, self.addend, self.depth = a, b, addend, depth
        self.multiplicand = min(a, b, key=lambda fmt: fmt.exponent_bits)
        self._parts: list[Dots] = []

    def patterns(self, family: str, a: Array, b: Array, c: Array) -> None:
        """Add rows that are patterns already, as they are now; they are broadcast together."""
        count = max(len(a), len(b), len(c))
        shape = (count, self.depth)
        self._parts.append(
            Dots(
                family=(family,) * count,
                a=np.array(np.broadcast_to(a, shape), order="C"),
                b=np.array(np.broadcast_to(b, shape), order="C"),
                c=np.array(np.broadcast_to(c, (count,)), order="C"),
            )
        )

    def values(self, family: str, a: Floats, b: Floats, c: Floats | float) -> None:
        """Add rows of numbers, (count, k), (count, k) and (count,), or one row and a number."""
        left, right = encode(np.atleast_2d(a), self.a), encode(np.atleast_2d(b), self.b)
        self.patterns(family, left, right, encode(np.atleast_1d(c), self.addend))

    def products(self, family: str, products: Floats, c: Floats | float) -> None:
        """Add rows by their products, (count, k) or (k,): each a power of two, or zero."""
        products = np.atleast_2d(np.asarray(products, np.float64))
        sign = np.where(np.signbit(products), -1.0, 1.0)
        exponent = np.frexp(products)[1] - 1
        half = exponent // 2
        left = np.where(products == 0.0, 0.0, sign * np.ldexp(1.0, half))
        right = np.where(products == 0.0, 1.0, np.ldexp(1.0, exponent - half))
        self.values(family, left, right, c)

    def dots(self) -> Dots:
        """Return all rows."""
        return joined(self._parts)


def joined(parts: Sequence[Dots]) -> Dots:
    """Put the rows of several together."""
    first, *rest = parts
    for part in rest:
        first = first.plus(part)
    return first


def pairs(depth: int) -> Iterator[tuple[int, int]]:
    """Return every pair of places i < j below `depth`."""
    return ((i, j) for j in range(depth) for i in range(j))
