"""The elements of an image, each where its bits lie, and how many of them are not zero.

Cells are the elements of every matrix that the program loads, each once, however often it is
loaded, and one for each byte that belongs to none of them. Bits are counted from bit 0 of byte 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from oracle.formats import Format, format_named
from oracle.image import position
from oracle.program import Program
from strategies.matrices import Placed, inputs

Image = NDArray[np.uint8]
"""uint8 (image_bytes,)."""
Ids = NDArray[np.intp]
"""Numbers of cells."""

_BYTE = format_named("u8")
_RUNS = (16, 4, 2)
"""Bytes that are zeroed together outside of matrices: rows of ldmatrix, words, elements."""
_AXES = {"a": ("row", "k"), "b": ("k", "column"), "c": ("row", "column")}
"""What rows and columns of a matrix stand for in the product that it takes part in."""
AXES = ("row", "column", "k")


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """Where the elements of an image lie."""

    program: Program
    starts: NDArray[np.int64]
    """(count,): first bit of each cell."""
    sizes: NDArray[np.int64]
    """(count,): bits of each cell."""
    types: Sequence[Format]
    """Format of each cell; u8 for bytes that belong to no matrix."""
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
        masks: NDArray[np.uint8] = np.where(self.sizes < 8, (1 << self.sizes % 8) - 1, 0).astype(
            np.uint8
        )
        return masks

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
        """Return the bytes of a cell, its first bit in them, and a mask of as many bits."""
        first, size = int(self.starts[cell]), int(self.sizes[cell])
        return slice(first // 8, -(-(first + size) // 8)), first % 8, (1 << size) - 1

    def without(self, image: Image, ids: Ids) -> Image:
        """Return an image with zeros in some cells."""
        cleared = image.copy()
        first, whole = self.starts[ids] // 8, self.sizes[ids] // 8
        if len(ids):
            within = np.arange(int(whole.max()))
            chosen = within < whole[:, None]
            cleared[(first[:, None] + within)[chosen]] = 0
        narrow = ids[self.sizes[ids] < 8]
        shifts = (self.starts[narrow] % 8).astype(np.uint8)
        np.bitwise_and.at(cleared, self.starts[narrow] // 8, ~(self._low_bits[narrow] << shifts))
        return cleared

    def of_matrix(self, placed: Placed) -> Ids:
        """Return the cells of one of the loaded matrices, (rows, columns)."""
        firsts, size = _firsts(self.program, placed), placed.tile.matrix.type.bits
        known = {
            (first, bits): cell
            for cell, (first, bits) in enumerate(
                zip(
                    self.starts[: self.elements].tolist(),
                    self.sizes[: self.elements].tolist(),
                    strict=True,
                )
            )
        }
        ids = [known[first, size] for first in firsts.ravel().tolist()]
        return np.array(ids, np.intp).reshape(firsts.shape)

    @cached_property
    def around(self) -> Ids:
        """The cells of bytes that belong to no matrix."""
        return np.arange(self.elements, len(self.starts))

    def along(self, axis: str) -> list[Ids]:
        """Return, for each row of A and C, column of B and C, or k of A and B, its cells."""
        lines: dict[int, list[Ids]] = {}
        for operand, ids in self.matrices:
            if axis in _AXES[operand]:
                across = ids if _AXES[operand][0] == axis else ids.T
                for index, line in enumerate(across):
                    lines.setdefault(index, []).append(line)
        return [np.unique(np.concatenate(lines[index])) for index in sorted(lines)]

    def groups(self) -> Iterator[list[Ids]]:
        """Iterate over ways to part the cells, from coarse to fine."""
        yield [np.arange(len(self.starts))]
        yield [self.around]
        offsets = [(self.program.offset(b.name), b.size) for b in self.program.buffers
                   if b.space == "global"]  # fmt: skip
        byte = self.starts[self.around] // 8
        yield [self.around[(byte >= at) & (byte < at + size)] for at, size in offsets]
        yield [np.unique(ids) for _, ids in self.matrices]
        for axis in AXES:
            yield self.along(axis)
        for size in _RUNS:
            yield self.runs(size)

    def runs(self, size: int) -> list[Ids]:
        """Part the bytes that belong to no matrix into aligned runs of some bytes."""
        run = self.starts[self.around] // (8 * size)
        return np.split(self.around, np.flatnonzero(np.diff(run)) + 1) if len(run) else []


def _firsts(program: Program, placed: Placed) -> NDArray[np.int64]:
    """Return the first bit of each element of a matrix, (rows, columns)."""
    tile = placed.tile
    lines = 8 * (position(program, placed.place) + tile.pitch * np.arange(tile.lines))
    firsts = lines[:, None] + tile.matrix.type.bits * np.arange(tile.length)
    return firsts if tile.layout == "row" else firsts.T


@lru_cache(maxsize=8)
def cells_of(program: Program) -> Cells:
    """Return the cells of a program's images."""
    starts, sizes, types, shapes = [], [], [], []
    for placed in inputs(program):
        firsts = _firsts(program, placed)
        starts.append(firsts.ravel())
        sizes.append(np.full(firsts.size, placed.tile.matrix.type.bits))
        types += [placed.tile.matrix.type] * firsts.size
        shapes.append((placed.operand, firsts.shape))
    spans = np.stack([np.concatenate([[], *starts]), np.concatenate([[], *sizes])], axis=1).astype(
        np.int64
    )
    unique, first, inverse = np.unique(spans, axis=0, return_index=True, return_inverse=True)
    inverse = inverse.reshape(-1)
    matrices, done = [], 0
    for operand, shape in shapes:
        count = shape[0] * shape[1]
        matrices.append((operand, inverse[done : done + count].reshape(shape)))
        done += count
    covered = np.zeros(program.image_bytes + 1, np.int64)
    np.add.at(covered, unique[:, 0] // 8, 1)
    np.add.at(covered, -(-(unique[:, 0] + unique[:, 1]) // 8), -1)
    others = np.flatnonzero(np.cumsum(covered)[:-1] == 0)
    return Cells(
        program=program,
        starts=np.concatenate([unique[:, 0], 8 * others]),
        sizes=np.concatenate([unique[:, 1], np.full(len(others), 8)]),
        types=[*(types[index] for index in first.tolist()), *[_BYTE] * len(others)],
        matrices=matrices,
    )


def complexity(program: Program, image: Image) -> int:
    """Return how many elements of the loaded matrices are not zero; without any, how many bytes."""
    cells = cells_of(program)
    nonzero = cells.nonzero(image)
    return int((nonzero < cells.elements).sum()) if cells.elements else len(nonzero)
