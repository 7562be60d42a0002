"""What there is to fill in the images of a program, and with what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.formats import FORMATS, Format
from oracle.forms import Form
from oracle.program import Program
from oracle.sparse import legal_bytes
from oracle.storage import Tile
from strategies.contents.float_fields import Raw
from strategies.contents.image_groups import Types
from strategies.contents.provenance import Product, Provenance, Readings, Source, readings

_PLANS = 64
"""Plans that are kept; one has a number for every byte that is loaded."""
_SHORT_GAP = 128
"""Bytes: gaps shorter than this are filled with what is around them."""


@dataclass(frozen=True, eq=False)
class Window:
    """A matrix in each row: opened as an array of patterns, and closed when it is filled.

    Patterns are unsigned. Those of 4 bits are one to a byte; single bits stay packed, in
    (images, rows of A or columns of B, K / 8).
    """

    tile: Tile
    places: Provenance
    """Bytes of the matrix in each row of the batch, (lines, line_bytes)."""

    @cached_property
    def _dtype(self) -> np.dtype[Any]:
        """Unsigned and little-endian; bytes where elements are packed."""
        bits = self.tile.matrix.type.bits
        return np.dtype(f"<u{max(8, bits) // 8}")

    @cached_property
    def _pitch(self) -> int | None:
        """Bytes between lines, if lines are whole, apart and at one distance, else None."""
        places, width = self.places, self.places.shape[1]
        if (np.diff(places, axis=1) != 1).any():
            return None
        steps = np.diff(places[:, 0])
        pitch = int(steps[0]) if steps.size else width
        return pitch if pitch >= width and (steps == pitch).all() else None

    @cached_property
    def shared(self) -> bool:
        """Whether what `open` returns shares memory with the rows, so that nothing is to close."""
        return self._pitch is not None and self.tile.matrix.type.bits != 4

    def open(self, rows: NDArray[np.uint8]) -> Raw:
        """Return patterns (images, rows, columns); `shared` says whether in the rows' memory.

        Parameters
        ----------
        rows : uint8 (images, bytes)
            The last axis is contiguous.
        """
        lines = self._lines(rows)
        bits = self.tile.matrix.type.bits
        if bits == 1:
            return lines
        if bits == 4:
            lines = np.stack([lines & np.uint8(0xF), lines >> np.uint8(4)], axis=3)
            lines = lines.reshape(*lines.shape[:2], -1)
        return lines if self.tile.layout == "row" else lines.swapaxes(1, 2)

    def _lines(self, rows: NDArray[np.uint8]) -> Raw:
        places, pitch = self.places, self._pitch
        if pitch is None:
            # NumPy may lay out what it gathers in another order.
            return np.ascontiguousarray(rows[:, places]).view(self._dtype)
        start, size = int(places[0, 0]), self._dtype.itemsize
        (lines, width), end = places.shape, start + len(places) * pitch
        if end <= rows.shape[1] and pitch % size == 0:
            whole = rows[:, start:end].view(self._dtype)
            return whole.reshape(len(rows), lines, pitch // size)[:, :, : width // size]
        return np.lib.stride_tricks.as_strided(
            rows[:, start : start + width].view(self._dtype),
            shape=(len(rows), lines, width // size),
            strides=(rows.strides[0], pitch, size),
        )

    def close(self, rows: NDArray[np.uint8], patterns: Raw) -> None:
        """Write patterns back that `open` returned, where they do not share memory."""
        if self.shared:
            return
        lines, bits = patterns, self.tile.matrix.type.bits
        if bits >= 4 and self.tile.layout == "col":
            lines = lines.swapaxes(1, 2)
        if bits == 4:
            lines = lines[:, :, 0::2] & np.uint8(0xF) | lines[:, :, 1::2] << np.uint8(4)
        rows[:, self.places] = np.ascontiguousarray(lines).view(np.uint8)


class Opened:
    """Windows of a batch of rows, of which parts are filled one after the other.

    Parameters
    ----------
    rows : uint8 (images, bytes)
        Of which the last axis is contiguous.
    """

    def __init__(self, rows: NDArray[np.uint8]) -> None:
        self.rows = rows
        self._views: dict[Window, Raw] = {}

    def view(self, window: Window, some: slice) -> Raw:
        """Open a window of some of the rows; what shares their memory is opened once for all."""
        if not window.shared:
            return window.open(self.rows[some])
        view = self._views.get(window)
        if view is None:
            view = self._views[window] = window.open(self.rows)
        return view[some]


Halves = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Rows of the B of a sparse A, two for each stored column of A. Each half is filled as the B of
what is stored, so that most elements meet what was made for them, whatever the metadata say."""


@dataclass(frozen=True, eq=False)
class Filling:
    """One matrix to fill."""

    window: Window
    operand: str
    """"a", "b" or "c"."""
    types: Types
    multiplicands: tuple[Window, Window] | None = None
    """A and B of the product that a C belongs to."""
    halves: Halves | None = None
    """Rows of the B of a sparse A, of that product."""

    def given(self, opened: Opened, some: slice) -> Callable[[], tuple[Raw, Raw]] | None:
        """Return what reads A and B of some images."""
        if self.multiplicands is None:
            return None
        a, b = self.multiplicands
        rows = slice(None) if self.halves is None else self.halves[0]
        return lambda: (opened.view(a, some), opened.view(b, some)[:, rows])


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
    rows: Provenance
    """Bytes that ldmatrix reads, in order."""
    metadata: tuple[tuple[Provenance, NDArray[np.uint8]], ...]
    """Bytes of metadata of a sparse A, and for each byte there is one that is allowed; filled last,
    those that fewer allow behind those that more do."""
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
    for provenance in found.rows:
        is_read[provenance] = True
    rows = np.flatnonzero(is_read)
    for source in found.loads:
        is_read[source.provenance] = True
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
        metadata=tuple(
            (places[bytes_], legal_bytes(pairs))
            for pairs, bytes_ in sorted(found.metadata, key=lambda one: -len(one[0]))
        ),
        read=read,
        unread=unread,
    )


@cache
def _halves(form: Form) -> Halves | None:
    """Return the rows of B of a sparse A, in halves; of other forms None."""
    if not form.is_sparse:
        return None
    # Two 4-bit elements are placed together.
    run = 2 if form.b_type.bits == 4 else 1
    rows = np.arange(form.shape.k).reshape(-1, 2, run)
    return rows[:, 0].ravel(), rows[:, 1].ravel()


def _runs(is_read: NDArray[np.bool_]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
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
        return windows.setdefault(source.key, Window(source.tile, places[source.provenance]))

    filled: dict[tuple[object, ...], Filling] = {}
    for product in found.products:
        for operand, source in (("a", product.a), ("b", product.b)):
            if source is not None and _fits(source, product, operand):
                halves = _halves(product.form) if operand == "b" else None
                filling = Filling(window(source), operand, _types(product), halves=halves)
                filled.setdefault(source.key, filling)
    for product in found.products:
        a, b, c = product.a, product.b, product.c
        if c is None or c.key in filled or not _fits(c, product, "c"):
            continue
        both = None
        if a is not None and b is not None and _fits(a, product, "a") and _fits(b, product, "b"):
            both = window(a), window(b)
        halves = _halves(product.form)
        filled[c.key] = Filling(window(c), "c", _types(product), both, halves)
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
        depth=form.matrix("a").columns,
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
