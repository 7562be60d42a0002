"""What there is to fill in the images of a program, and with what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from oracle.formats import FORMATS, Format
from oracle.program import Program
from strategies.contents.float_fields import Raw
from strategies.contents.origins import Origins, Product, Readings, Source, readings
from strategies.contents.settings import Types
from strategies.contents.windows import Opened, Window

_PLANS = 64
"""Plans that are kept; one has a number for every byte that is loaded."""
_SHORT_GAP = 128
"""Bytes: gaps shorter than this are filled with what is around them."""


@dataclass(frozen=True, eq=False)
class Filling:
    """One matrix to fill."""

    window: Window
    operand: str
    """"a", "b" or "c"."""
    types: Types
    multiplicands: tuple[Window, Window] | None = None
    """A and B of the product that a C belongs to."""

    def given(self, opened: Opened, some: slice) -> Callable[[], tuple[Raw, Raw]] | None:
        """Return what reads A and B of some images."""
        if self.multiplicands is None:
            return None
        a, b = self.multiplicands
        return lambda: (opened.view(a, some), opened.view(b, some))


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that a program reads from its image.

    Places of bytes are those in a *row*, which holds the runs `read` of an image back to back:
    what is worked on together then lies close together.
    """

    fillings: tuple[Filling, ...]
    """In the order in which they are filled: all C after all A and B, which they are made for."""
    words: tuple[tuple[int, int], ...]
    """First byte and mask of each control word."""
    rows: Origins
    """Bytes that ldmatrix reads, in order."""
    read: tuple[slice, ...]
    """Runs of bytes that anything reads, and short gaps between them."""
    unread: tuple[slice, ...]
    """The other bytes."""

    @staticmethod
    def total(runs: tuple[slice, ...]) -> int:
        """Return the number of bytes in some runs."""
        return sum(run.stop - run.start for run in runs)


@lru_cache(maxsize=_PLANS)
def plan_of(program: Program) -> Plan:
    """Find what to fill in the images of a program."""
    found = readings(program)
    is_read = np.zeros(program.image_bytes, np.bool_)
    for origins in found.rows:
        is_read[origins] = True
    rows = np.flatnonzero(is_read)
    for source in found.loads:
        is_read[source.origins] = True
    for start, _ in found.words:
        is_read[start : start + 4] = True
    read, unread = _runs(is_read)
    for run in read:
        is_read[run] = True
    places = np.cumsum(is_read) - 1
    return Plan(
        fillings=tuple(_fillings(found, places)),
        words=tuple((int(places[start]), mask) for start, mask in dict.fromkeys(found.words)),
        rows=places[rows],
        read=read,
        unread=unread,
    )


def _runs(is_read: NDArray[np.bool_]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Cut an image into runs that are read and runs that are not."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_read, [False]]).astype(np.int8)))
    read: list[slice] = []
    for start, stop in edges.reshape(-1, 2).tolist():
        if read and start - read[-1].stop < _SHORT_GAP:
            read[-1] = slice(read[-1].start, stop)
        else:
            read.append(slice(start, stop))
    starts = [0, *(run.stop for run in read)]
    stops = [*(run.start for run in read), len(is_read)]
    gaps = (slice(start, stop) for start, stop in zip(starts, stops, strict=True))
    return tuple(read), tuple(gap for gap in gaps if gap.start < gap.stop)


def _fillings(found: Readings, places: NDArray[np.int64]) -> list[Filling]:
    windows: dict[tuple[object, ...], Window] = {}

    def window(source: Source) -> Window:
        return windows.setdefault(source.key, Window(source.tile, places[source.origins]))

    filled: dict[tuple[object, ...], Filling] = {}
    for product in found.products:
        for operand, source in (("a", product.a), ("b", product.b)):
            if source is not None and _fits(source, product, operand):
                filling = Filling(window(source), operand, _types(product))
                filled.setdefault(source.key, filling)
    for product in found.products:
        a, b, c = product.a, product.b, product.c
        if c is None or c.key in filled or not _fits(c, product, "c"):
            continue
        both = None
        if a is not None and b is not None and _fits(a, product, "a") and _fits(b, product, "b"):
            both = window(a), window(b)
        filled[c.key] = Filling(window(c), "c", _types(product), both)
    for source in found.loads:
        filled.setdefault(source.key, Filling(window(source), *_alone(source)))
    return sorted(filled.values(), key=lambda filling: filling.operand == "c")


def _fits(source: Source, product: Product, operand: str) -> bool:
    """Whether what is loaded is the matrix that is multiplied.

    It is not where a name is loaded anew on a path that is not taken before the product.
    """
    return source.tile.matrix == product.form.matrix(operand)


def _types(product: Product) -> Types:
    form = product.form
    return Types(
        multiplicand=form.a_type,
        accumulator=form.c_type,
        result=form.d_type,
        depth=form.shape.k,
        operation=form.op,
    )


def _alone(source: Source) -> tuple[str, Types]:
    """Return operand and types for a matrix that is loaded and not multiplied."""
    matrix = source.tile.matrix
    multiplicand, accumulator = matrix.type, matrix.type
    if matrix.operand == "c":
        multiplicand = _MULTIPLICANDS[matrix.type.name]
    else:
        accumulator = _ACCUMULATORS[matrix.type.name]
    return matrix.operand, Types(
        multiplicand=multiplicand,
        accumulator=accumulator,
        result=accumulator,
        depth=matrix.shape.k,
    )


# Where nothing says what a fragment is multiplied with: types of some form (PTX ISA 9.7.14.4.5).
_MULTIPLICANDS: dict[str, Format] = {
    name: FORMATS[other]
    for name, other in (("f16", "f16"), ("f32", "f16"), ("f64", "f64"), ("s32", "s8"))
}
_ACCUMULATORS: dict[str, Format] = {
    name: FORMATS["f32" if FORMATS[name].is_float else "s32"] for name in FORMATS
} | {"f64": FORMATS["f64"]}
