"""Plans: which parts of a program's images are filled, and with what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.formats import FORMATS, Format
from oracle.program import Program
from strategies.contents.expressions import NOISE, Fill, Raw, pattern, wide
from strategies.contents.fills import fills_of, of_registers, of_rows, word
from strategies.contents.operands import Operand, Types
from strategies.contents.provenance import Product, Provenance, Readings, Source, readings
from strategies.contents.recipes import ValueClass

BLOCK = 16
"""Bytes of an image that one value of a counter fills."""
_PLANS = 64
"""Plans that are kept; one has a number for every byte that is loaded."""


@dataclass(frozen=True, eq=False)
class Window:
    """Lines of elements in each row: opened as an array of patterns, closed when they are filled.

    Patterns are unsigned. Those of 4 bits are one to a byte; single bits stay packed.
    """

    bits: int
    """Bits of an element."""
    places: Provenance
    """Bytes in each row of the batch, those that are neighbours in memory next to each other."""
    is_turned: bool = False
    """Whether the lines of elements lie across those of `places`."""

    @property
    def unit_bytes(self) -> int:
        """Bytes of an element in memory, at least one."""
        return max(8, self.bits) // 8

    @property
    def shape(self) -> tuple[int, int]:
        """Lines and positions; of single bits eight to a position."""
        lines, positions = self.places.shape[0], self.places.shape[1] // self.unit_bytes
        positions *= 2 if self.bits == 4 else 1
        return (positions, lines) if self.is_turned else (lines, positions)

    @cached_property
    def pitch(self) -> int | None:
        """Bytes between lines, if lines are whole, apart and at one distance, else None."""
        places, width = self.places, self.places.shape[1]
        if (np.diff(places, axis=1) != 1).any():
            return None
        steps = np.diff(places[:, 0])
        pitch = int(steps[0]) if steps.size else width
        return pitch if pitch >= width and (steps == pitch).all() else None

    @cached_property
    def last(self) -> NDArray[np.bool_]:
        """Which bytes are in no line a second time further on: what is written there stays."""
        reverse = self.places.ravel()[::-1]
        last = np.zeros(reverse.size, np.bool_)
        last[np.unique(reverse, return_index=True)[1]] = True
        return last[::-1].reshape(self.places.shape)

    @cached_property
    def shared(self) -> bool:
        """Whether what `open` returns shares memory with the rows, so that nothing is to close."""
        return self.pitch is not None and self.bits != 4

    def open(self, rows: NDArray[np.uint8]) -> Raw:
        """Return patterns (images, lines, positions); `shared` says whether in the rows' memory.

        Of the rows, uint8 (images, bytes), the last axis is contiguous.
        """
        lines = self._lines(rows)
        if self.bits == 4:
            lines = np.stack([lines & np.uint8(0xF), lines >> np.uint8(4)], axis=3)
            lines = lines.reshape(*lines.shape[:2], -1)
        return lines.swapaxes(1, 2) if self.is_turned else lines

    def _lines(self, rows: NDArray[np.uint8]) -> Raw:
        # Unsigned and little-endian; bytes where elements are packed.
        places, pitch, dtype = self.places, self.pitch, np.dtype(f"<u{self.unit_bytes}")
        if pitch is None:
            # NumPy may lay out what it gathers in another order.
            return np.ascontiguousarray(rows[:, places]).view(dtype)
        start, size = int(places[0, 0]), dtype.itemsize
        (lines, width), end = places.shape, start + len(places) * pitch
        if end <= rows.shape[1] and pitch % size == 0:
            whole = rows[:, start:end].view(dtype)
            return whole.reshape(len(rows), lines, pitch // size)[:, :, : width // size]
        return np.lib.stride_tricks.as_strided(
            rows[:, start : start + width].view(dtype),
            shape=(len(rows), lines, width // size),
            strides=(rows.strides[0], pitch, size),
        )

    def close(self, rows: NDArray[np.uint8], patterns: Raw) -> None:
        """Write patterns back that `open` returned, where they do not share memory."""
        if self.shared:
            return
        lines = patterns.swapaxes(1, 2) if self.is_turned else patterns
        if self.bits == 4:
            lines = lines[:, :, 0::2] & np.uint8(0xF) | lines[:, :, 1::2] << np.uint8(4)
        bytes_ = np.ascontiguousarray(lines).view(np.uint8)
        if self.last.all():
            rows[:, self.places] = bytes_
        else:
            rows[:, self.places[self.last]] = bytes_[:, self.last]


class Opened:
    """Windows of a batch of rows, of which parts are filled one after the other.

    Of `rows`, uint8 (images, bytes), the last axis is contiguous.
    """

    def __init__(self, rows: NDArray[np.uint8]) -> None:
        self.rows = rows
        self._views: dict[Window, Raw] = {}

    def view(self, window: Window, some: slice) -> Raw:
        """Open a window of some of the rows; what shares their memory is opened once for all."""
        if not window.shared:
            return window.open(self.rows[some])
        if window not in self._views:
            self._views[window] = window.open(self.rows)
        return self._views[window][some]


@dataclass(frozen=True, eq=False)
class Filling:
    """What to fill: a matrix, a control word, or the bytes that ldmatrix reads."""

    window: Window
    fills: Mapping[ValueClass, Sequence[Fill]]
    """For each class those that take turns."""
    multiplicands: tuple[Window, Window] | None = None
    """A and B of the product that a C belongs to."""
    is_c: bool = False

    def given(self, opened: Opened, some: slice) -> tuple[Raw, Raw] | None:
        """Return A and B of some images, (images, lines, k)."""
        if self.multiplicands is None:
            return None
        a, b = self.multiplicands
        return opened.view(a, some), opened.view(b, some)


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that a program reads from its image.

    Places of bytes are those in a *row*, which holds the blocks of an image that anything reads
    back to back: what is worked on together then lies close together.
    """

    fillings: tuple[Filling, ...]
    """In the order in which they are filled: all C after all A and B, which they are made for.
    Each is made of the random bits of its bytes; where several meet, the last one stays."""
    overlap: bool
    """Whether some of them meet."""
    blocks: NDArray[np.uint64]
    """Numbers of the blocks of an image that anything reads; the others are gaps."""
    read: tuple[slice, ...]
    """Runs of bytes of these blocks."""
    gaps: tuple[slice, ...]
    """Runs of the other bytes."""


@lru_cache(maxsize=_PLANS)
def plan_of(program: Program) -> Plan:
    """Find what to fill in the images of a program."""
    found = readings(program)
    uses = np.zeros(program.image_bytes, np.bool_)
    for provenance in found.rows:
        uses[provenance] = True
    registers = _registers(found, program.image_bytes)
    alone = uses.copy()
    for _, bytes_ in registers:
        alone[bytes_], uses[bytes_] = False, True
    rows = np.flatnonzero(alone)
    for source in found.loads:
        uses[source.provenance] = True
    for start, _ in found.words:
        uses[start : start + 4] = True
    is_read: NDArray[np.bool_] = np.any(uses.reshape(-1, BLOCK), axis=1)
    places = np.cumsum(np.repeat(is_read, BLOCK)) - 1
    fillings = list[Filling]()

    def fill(bits: int, bytes_: Any, fills: Callable[[ValueClass], Sequence[Fill]]) -> None:
        made = {class_: fills(class_) for class_ in ValueClass}
        fillings.append(Filling(Window(bits, places[bytes_].reshape(1, -1)), made))

    if rows.size:
        fill(8, rows, of_rows)
    for bits, bytes_ in registers:
        fill(bits, bytes_, partial(of_registers, bits=bits))
    for number, (start, mask) in enumerate(dict.fromkeys(found.words)):
        fill(32, slice(start, start + 4), partial(lambda one, _: one, (word(number, mask),)))
    fillings += _matrices(found, places)
    # Bytes of metadata: of those that several products read, the last ones are such
    # as the product allows that allows fewest.
    known = [one for one in found.metadata if one[1].size]
    for pairs, bytes_ in sorted(known, key=lambda one: -len(one[0])):
        legal = Fill(pattern(metadata_bytes(pairs).tolist(), wide(NOISE)))
        fill(8, bytes_, partial(lambda one, _: one, (legal,)))
    covered = np.zeros(program.image_bytes, np.int64)
    for one in fillings:
        np.add.at(covered, one.window.places, 1)
    return Plan(
        fillings=tuple(fillings),
        overlap=bool((covered > 1).any()),
        blocks=np.flatnonzero(is_read).astype(np.uint64),
        read=_runs(is_read),
        gaps=_runs(~is_read),
    )


def _registers(found: Readings, image_bytes: int) -> list[tuple[int, NDArray[np.intp]]]:
    """Return bits and bytes of the registers that scalar code reads as they lie in the image."""
    made, free = [], np.ones(image_bytes, np.bool_)
    for bits in (64, 32):
        bytes_, starts = np.arange(bits // 8), np.zeros(image_bytes, np.bool_)
        for units in (read.reshape(-1, bits // 8) for of, read in found.registers if of == bits):
            first = units[:, 0]
            whole = (units == first[:, None] + bytes_).all(axis=1)
            starts[first[whole & (first >= 0) & (first % (bits // 8) == 0)]] = True
        some = (np.flatnonzero(starts & free)[:, None] + bytes_).ravel()
        free[some] = False
        if some.size:
            made.append((bits, some))
    return made


@cache
def metadata_bytes(chunks: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return a byte of metadata of such chunks of 4 bits for each byte, uint8 (256,)."""
    half = np.resize(np.array(chunks, np.uint8), 16)
    return (half[:, None] << np.uint8(4) | half).ravel()


def _runs(chosen: NDArray[np.bool_]) -> tuple[slice, ...]:
    """Return runs of bytes of the blocks that are chosen."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], chosen, [False]]).astype(np.int8)))
    return tuple(slice(start, stop) for start, stop in (BLOCK * edges).reshape(-1, 2).tolist())


def _matrices(found: Readings, places: NDArray[np.int64]) -> list[Filling]:
    windows: dict[tuple[object, ...], Window] = {}
    filled: dict[tuple[object, ...], Filling] = {}

    def window(source: Source) -> Window:
        tile, lines = source.tile, places[source.provenance]
        turned = (tile.layout == "col") != (tile.matrix.operand == "b")
        return windows.setdefault(source.key, Window(tile.matrix.type.bits, lines, turned))

    def fill(source: Source, operand: str, types: Types, product: Product | None = None) -> None:
        if source.key in filled:
            return
        here, both, run = window(source), None, 0
        if product is not None and "e" in product.form.operands:
            # How many elements of B metadata choose together.
            run = 2 if product.form.b_type.bits == 4 else 1
        if product is not None and operand == "c" and product.a and product.b:
            a, b = window(product.a), window(product.b)
            apart = not any(np.isin(here.places, one.places).any() for one in (a, b))
            if apart and _fits(product.a, product, "a") and _fits(product.b, product, "b"):
                both = a, b
        lines, positions = here.shape
        x = Operand(
            name=operand, types=types, lines=lines,
            positions=types.depth if run and operand == "b" else positions,
            is_of_sum=both is not None, run=run,
        )  # fmt: skip
        filled[source.key] = Filling(here, fills_of(x), both, operand == "c")

    for operands in ("ab", "c"):
        for product in found.products:
            form = product.form
            types = Types(
                a=form.a_type, b=form.b_type, c=form.c_type, d=form.d_type,
                depth=form.matrix("a").columns, operation=form.op,
            )  # fmt: skip
            for operand in operands:
                source: Source | None = getattr(product, operand)
                if source is not None and _fits(source, product, operand):
                    fill(source, operand, types, product)
    for source in found.loads:
        # A matrix that is loaded and not multiplied.
        matrix = source.tile.matrix
        of_c = matrix.operand == "c"
        factor = _MULTIPLICANDS[matrix.type.name] if of_c else matrix.type
        term = matrix.type if of_c else _ACCUMULATORS[matrix.type.name]
        types = Types(a=factor, b=factor, c=term, d=term, depth=matrix.shape.k)
        fill(source, matrix.operand, types)
    return sorted(filled.values(), key=lambda one: one.is_c)


def _fits(source: Source, product: Product, operand: str) -> bool:
    """Whether what is loaded is the matrix that is multiplied.

    It is not where a name is loaded anew on a path that is not taken before the product.
    """
    return source.tile.matrix == product.form.matrix(operand)


# Where nothing says what a fragment is multiplied with: types of some form (PTX ISA 9.7.14.4.5).
_MULTIPLICANDS: dict[str, Format] = {
    name: FORMATS[other]
    for name, other in (("f16", "f16"), ("f32", "f16"), ("f64", "f64"), ("s32", "s8"))
}
_ACCUMULATORS: dict[str, Format] = {
    name: FORMATS["f32" if FORMATS[name].is_float else "s32"] for name in FORMATS
} | {"f64": FORMATS["f64"]}
