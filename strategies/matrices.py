"""Matrices and registers that a program reads and leaves, where they lie in its image.

Cells are the elements of every matrix that the program loads, each once, however often it is
loaded, and one for each byte that belongs to none of them. Bits are counted from bit 0 of byte 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from oracle.isa.forms import ROW_BYTES, Format, format_named
from oracle.layouts import Tile
from oracle.program.operands import Place
from oracle.program.program import Program, position, walk
from oracle.program.steps import (
    RowAccess,
    accesses_registers,
    copies_bytes,
    loads_fragment,
    stores_fragment,
    stores_rows,
)

Image = NDArray[np.uint8]  # uint8 (image_bytes,)
Ids = NDArray[np.intp]  # Numbers of cells
_RUNS = (16, 4, 2)  # Bytes zeroed together outside of matrices: rows of ldmatrix, words, elements
_AXES = {"a": ("row", "k"), "b": ("k", "column"), "c": ("row", "column")}
"""What rows and columns of a matrix stand for in the product that it takes part in."""


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A matrix that a program loads or stores, in the image."""

    operand: str  # "a", "b", "c" or "d"
    place: Place  # Place of its first byte, in a global buffer
    tile: Tile

    def firsts(self, program: Program) -> NDArray[np.int64]:
        """Return the first bit of each element, (rows, columns)."""
        tile = self.tile
        lines = 8 * (position(program, self.place) + tile.pitch * np.arange(tile.lines))
        firsts = lines[:, None] + tile.matrix.type.bits * np.arange(
            tile.matrix.default_stride(tile.layout)
        )
        return firsts if tile.layout == "row" else firsts.T


def inputs(program: Program) -> tuple[Placed, ...]:
    """Return the matrices that wmma.load reads, those in shared memory where they came from."""
    # Copies are followed one after another, and only such as take the matrix whole.
    return tuple(
        Placed(operand=step.form.matrix().operand, place=place, tile=step.tile)
        for step in walk(program.steps)
        if loads_fragment(step)
        for place in _ends(program, step.memory.place, step.tile.extent, stored=False)
    )


def outputs(program: Program) -> tuple[Placed, ...]:
    """Return the matrices that wmma.store writes, those in shared memory where they go to."""
    return tuple(
        Placed(operand="d", place=place, tile=step.tile)
        for step in walk(program.steps)
        if stores_fragment(step)
        for place in _ends(program, step.memory.place, step.tile.extent, stored=True)
    )


def _ends(program: Program, place: Place, size: int, *, stored: bool) -> Iterator[Place]:
    """Find the places of the image from or to which copies take some bytes; where they are, too."""
    seen = [place]
    for here in seen:
        if program.buffer(here.buffer).space == "global":
            yield here
        seen += [one for one in _copied(program, here, size, stored=stored) if one not in seen]


def _copied(program: Program, place: Place, size: int, *, stored: bool) -> Iterator[Place]:
    """Find where copies take bytes at a place from, or (`stored`) to, all of them together."""
    for copy in walk(program.steps):
        if copies_bytes(copy):
            ends = copy.destination, copy.source
            here, there = ends[::-1] if stored else ends
            moved = place.offset - here.offset
            if here.buffer == place.buffer and 0 <= moved <= copy.size - size:
                yield replace(there, offset=there.offset + moved)


def places_of(
    program: Program, place: Place, *, size: int = 1, stored: bool = False
) -> Iterator[Place]:
    """Find the places of the image from which bytes at a place come, or (`stored`) go to."""
    # A place in global memory is its own; one in shared memory has those that copies give it which
    # take all `size` bytes together.
    if program.buffer(place.buffer).space == "global":
        yield place
        return
    for there in _copied(program, place, size, stored=stored):
        if program.buffer(there.buffer).space == "global":
            yield there


@dataclass(frozen=True, kw_only=True)
class Result:
    """A matrix, or registers of all lanes, that a program leaves in its image."""

    name: str
    """"d", or "d1", "d2", … where there are several; "r" for registers, "s" for rows of
    moved matrices."""
    type: str  # Name of the format of an element; "b32" or "b64" for registers, "b16" for rows
    bits: int  # Size of an element: 16, 32 or 64
    start: int  # Byte of the image at which element [0, 0] starts
    rows: int  # Rows of the matrix, or lanes
    columns: int  # Columns of the matrix, or registers of each lane
    row_bytes: int  # Bytes from one row to the next
    column_bytes: int  # Bytes from one column to the next

    @property
    def is_registers(self) -> bool:
        """Whether these are registers that the lanes stored: rows are lanes."""
        return self.type in ("b32", "b64")

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """First byte of each element in the image, int64 (rows, columns)."""
        rows = np.arange(self.rows, dtype=np.int64)[:, None] * self.row_bytes
        return self.start + rows + np.arange(self.columns, dtype=np.int64) * self.column_bytes

    @property
    def bytes(self) -> NDArray[np.int64]:
        """Every byte of every element, int64 (rows, columns, bytes of an element)."""
        return self.offsets[:, :, None] + np.arange(self.bits // 8)

    def read(self, image: NDArray[np.uint8]) -> NDArray[np.uint64]:
        """Return the raw bits of the elements, uint64 (rows, columns)."""
        words = np.take(image, self.bytes).view(f"<u{self.bits // 8}")[:, :, 0]
        return words.astype(np.uint64)

    def where(self, row: int, column: int) -> str:
        """Name an element: "d[3, 4]" (row, column), or "r[lane 5, 1]"."""
        return f"{self.name}[{'lane ' if self.is_registers else ''}{row}, {column}]"


def results(program: Program) -> tuple[Result, ...]:
    """Return the results in a program's image: matrices first, then registers, then rows."""
    # Those in shared memory are found where they are copied to.
    matrices = [_matrix(program, placed) for placed in outputs(program)]
    registers = [
        Result(
            name="r", type=f"b{step.bits}", bits=step.bits, start=position(program, place),
            rows=step.lanes, columns=step.count, row_bytes=step.size // step.lanes,
            column_bytes=step.bits // 8,
        )
        for step in walk(program.steps)
        if accesses_registers(step) and step.stores
        for place in places_of(program, step.place, size=step.size, stored=True)
    ]  # fmt: skip
    rows = [
        one for step in walk(program.steps) if stores_rows(step) for one in _rows(program, step)
    ]
    return tuple(
        replace(one, name=f"{one.name}{number}") if len(found) > 1 else one
        for found in (matrices, registers, rows)
        for number, one in enumerate(found, start=1)
    )


def _rows(program: Program, step: RowAccess) -> Iterator[Result]:
    starts = sorted(
        position(program, place)
        for span in step.bytes_written
        for place in places_of(
            program, Place(buffer=span.buffer, offset=span.start), size=ROW_BYTES, stored=True
        )
    )
    runs: list[list[int]] = []
    for start in starts:
        last = runs[-1] if runs else []
        if last and (len(last) < 2 or start - last[-1] == last[1] - last[0]):
            last.append(start)
        else:
            runs.append([start])
    for run in runs:
        pitch = run[1] - run[0] if len(run) > 1 else ROW_BYTES
        yield Result(
            name="s", type="b16", bits=16, start=run[0], rows=len(run), columns=ROW_BYTES // 2,
            row_bytes=pitch, column_bytes=2,
        )  # fmt: skip


def _matrix(program: Program, placed: Placed) -> Result:
    tile, matrix = placed.tile, placed.tile.matrix
    element = matrix.type.bits // 8  # accumulators have whole bytes (9.7.14.4.1)
    row_bytes, column_bytes = tile.pitch, element
    if tile.layout == "col":
        row_bytes, column_bytes = element, tile.pitch
    return Result(
        name=placed.operand, type=matrix.type.name, bits=matrix.type.bits,
        start=position(program, placed.place), rows=matrix.rows, columns=matrix.columns,
        row_bytes=row_bytes, column_bytes=column_bytes,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """Where the elements of an image lie."""

    program: Program
    starts: NDArray[np.int64]  # (count,): first bit of each cell
    sizes: NDArray[np.int64]  # (count,): bits of each cell
    types: Sequence[Format]  # Format of each cell; u8 for bytes that belong to no matrix
    matrices: Sequence[tuple[str, NDArray[np.intp]]]
    """For each matrix, its operand and the cells of its elements, (rows, columns)."""

    @cached_property
    def elements(self) -> int:
        """Cells that are elements of matrices; they come first."""
        return 1 + max((int(ids.max()) for _, ids in self.matrices), default=-1)

    def nonzero(self, image: Image) -> Ids:
        """Return the cells with a bit that is set."""
        first, whole = self.starts // 8, self.sizes // 8
        counts = np.concatenate([[0], np.cumsum(image != 0)])
        low = (image[first] >> (self.starts % 8).astype(np.uint8)) & self._low_bits
        return np.flatnonzero((counts[first + whole] > counts[first]) | (low != 0))

    @cached_property
    def _low_bits(self) -> NDArray[np.uint8]:
        """Mask of a cell that is less than a byte, at bit 0; no bit for the others."""
        return np.where(self.sizes < 8, (1 << self.sizes % 8) - 1, 0).astype(np.uint8)

    def value(self, image: Image, cell: int) -> int:
        """Return the raw bits of a cell."""
        bytes_, shift, mask = self._bits(cell)
        return int.from_bytes(image[bytes_].tobytes(), "little") >> shift & mask

    def with_value(self, image: Image, cell: int, value: int) -> Image:
        """Return an image with other bits in one cell."""
        bytes_, shift, mask = self._bits(cell)
        changed = image.copy()
        before = changed[bytes_].tobytes()
        word = int.from_bytes(before, "little") & ~(mask << shift) | value << shift
        changed[bytes_] = np.frombuffer(word.to_bytes(len(before), "little"), np.uint8)
        return changed

    def _bits(self, cell: int) -> tuple[slice, int, int]:
        first, size = int(self.starts[cell]), int(self.sizes[cell])
        return slice(first // 8, -(-(first + size) // 8)), first % 8, (1 << size) - 1

    def without(self, image: Image, ids: Ids) -> Image:
        """Return an image with zeros in some cells."""
        cleared = image.copy()
        first, whole = self.starts[ids] // 8, self.sizes[ids] // 8
        within = np.arange(int(whole.max(initial=0)))
        cleared[(first[:, None] + within)[within < whole[:, None]]] = 0
        narrow = ids[self.sizes[ids] < 8]
        shifts = (self.starts[narrow] % 8).astype(np.uint8)
        np.bitwise_and.at(cleared, self.starts[narrow] // 8, ~(self._low_bits[narrow] << shifts))
        return cleared

    def of_matrix(self, placed: Placed) -> Ids:
        """Return the cells of one of the loaded matrices, (rows, columns)."""
        firsts, size = placed.firsts(self.program), placed.tile.matrix.type.bits
        cells = np.flatnonzero(self.sizes[: self.elements] == size)
        known = dict(zip(self.starts[cells].tolist(), cells.tolist(), strict=True))
        ids = [known[first] for first in firsts.ravel().tolist()]
        return np.array(ids, np.intp).reshape(firsts.shape)

    @cached_property
    def around(self) -> Ids:
        """The cells of bytes that belong to no matrix."""
        return np.arange(self.elements, len(self.starts))

    def groups(self) -> Iterator[list[Ids]]:
        """Iterate over ways to part the cells, from coarse to fine."""
        yield [np.arange(len(self.starts))]
        yield [self.around]
        buffers = [one for one in self.program.buffers if one.space == "global"]
        offsets = [(self.program.offset(one.name), one.size) for one in buffers]
        byte = self.starts[self.around] // 8
        yield [self.around[(byte >= at) & (byte < at + size)] for at, size in offsets]
        yield [np.unique(ids) for _, ids in self.matrices]
        # For each row of A and C, column of B and C, or k of A and B, its cells.
        for axis in ("row", "column", "k"):
            lines: dict[int, list[Ids]] = {}
            for operand, ids in self.matrices:
                if axis in _AXES[operand]:
                    for index, line in enumerate(ids if _AXES[operand][0] == axis else ids.T):
                        lines.setdefault(index, []).append(line)
            yield [np.unique(np.concatenate(lines[index])) for index in sorted(lines)]
        for size in _RUNS:
            yield self.runs(size)

    def runs(self, size: int) -> list[Ids]:
        """Part the bytes that belong to no matrix into aligned runs of some bytes."""
        run = self.starts[self.around] // (8 * size)
        return np.split(self.around, np.flatnonzero(np.diff(run)) + 1) if len(run) else []


@lru_cache(maxsize=8)
def cells_of(program: Program) -> Cells:
    """Return the cells of a program's images."""
    loaded = inputs(program)
    firsts = [placed.firsts(program) for placed in loaded]
    types = [placed.tile.matrix.type for placed in loaded]
    counts = [some.size for some in firsts]
    spans = np.zeros((sum(counts), 2), np.int64)
    spans[:, 0] = np.concatenate([np.zeros(0), *(some.ravel() for some in firsts)])
    spans[:, 1] = np.repeat(np.array([one.bits for one in types], np.int64), counts)
    unique, first, inverse = np.unique(spans, axis=0, return_index=True, return_inverse=True)
    parts = np.split(inverse.reshape(-1), np.cumsum(counts))
    covered = np.zeros(program.image_bytes + 1, np.int64)
    np.add.at(covered, unique[:, 0] // 8, 1)
    np.add.at(covered, -(-(unique[:, 0] + unique[:, 1]) // 8), -1)
    others = np.flatnonzero(np.cumsum(covered)[:-1] == 0)
    owners = np.repeat(np.arange(len(types)), counts)[first].tolist()
    return Cells(
        program=program,
        starts=np.concatenate([unique[:, 0], 8 * others]),
        sizes=np.concatenate([unique[:, 1], np.full(len(others), 8)]),
        types=[*(types[owner] for owner in owners), *[format_named("u8")] * len(others)],
        matrices=[
            (placed.operand, part.reshape(some.shape))
            for placed, part, some in zip(loaded, parts, firsts, strict=False)
        ],
    )


def complexity(program: Program, image: Image) -> int:
    """Return how many elements of the loaded matrices are not zero; without any, how many bytes."""
    cells = cells_of(program)
    nonzero = cells.nonzero(image)
    return int((nonzero < cells.elements).sum()) if cells.elements else len(nonzero)
