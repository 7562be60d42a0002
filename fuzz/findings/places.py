"""Where the results of a program lie in its memory image, element by element."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oracle.image import position
from oracle.matrices import LANES
from oracle.places import Place
from oracle.program import Program, walk
from oracle.steps import Copy, StoreRegisters
from strategies.matrices import Placed, outputs

_WORD = 4
"""Bytes of a register that StoreRegisters writes."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """A matrix, or registers of all lanes, that a program leaves in its image."""

    name: str
    """"d", or "d1", "d2", … where there are several; "r" for the registers of ldmatrix."""
    type: str
    """Name of the format of an element; "b32" for registers."""
    bits: int
    """Size of an element: 16, 32 or 64."""
    start: int
    """Byte of the image at which element [0, 0] starts."""
    rows: int
    """Rows of the matrix, or lanes."""
    columns: int
    """Columns of the matrix, or registers of each lane."""
    row_bytes: int
    """Bytes from one row to the next."""
    column_bytes: int
    """Bytes from one column to the next."""

    @property
    def is_registers(self) -> bool:
        """Whether these are registers of ldmatrix: rows are lanes."""
        return self.type == "b32"

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
        parts = image[self.bytes].astype(np.uint64)
        shifts = 8 * np.arange(self.bits // 8, dtype=np.uint64)
        # Bytes of one element do not overlap, so that the sum is the word.
        words: NDArray[np.uint64] = (parts << shifts).sum(axis=2, dtype=np.uint64)
        return words

    def where(self, row: int, column: int) -> str:
        """Name an element: "d[3, 4]" (row, column), or "r[lane 5, 1]"."""
        if self.is_registers:
            return f"{self.name}[lane {row}, {column}]"
        return f"{self.name}[{row}, {column}]"


def results(program: Program) -> tuple[Result, ...]:
    """Return the results in a program's image: matrices first, then registers.

    Those in shared memory are found where they are copied to.
    """
    matrices = [_matrix(program, placed) for placed in outputs(program)]
    registers = [
        Result(
            name="r", type="b32", bits=8 * _WORD, start=position(program, place), rows=LANES,
            columns=step.count, row_bytes=_WORD * step.count, column_bytes=_WORD,
        )
        for step in walk(program.steps)
        if isinstance(step, StoreRegisters)
        for place in _seen(program, step.place)
    ]  # fmt: skip
    return (*_numbered(matrices), *_numbered(registers))


def _matrix(program: Program, placed: Placed) -> Result:
    tile = placed.tile
    element = tile.matrix.type.bits // 8  # accumulators have whole bytes (9.7.14.4.1)
    by_rows = tile.layout == "row"
    return Result(
        name=placed.operand,
        type=tile.matrix.type.name,
        bits=tile.matrix.type.bits,
        start=position(program, placed.place),
        rows=tile.matrix.rows,
        columns=tile.matrix.columns,
        row_bytes=tile.pitch if by_rows else element,
        column_bytes=element if by_rows else tile.pitch,
    )


def _numbered(found: list[Result]) -> list[Result]:
    """Give results of one name numbers, where there are several."""
    if len(found) < 2:
        return found
    return [replace(one, name=f"{one.name}{number}") for number, one in enumerate(found, start=1)]


def _seen(program: Program, place: Place) -> Iterator[Place]:
    """Find the places of the image at which the bytes of a place end up."""
    if program.buffer(place.buffer).space == "global":
        yield place
        return
    for step in walk(program.steps):
        if not isinstance(step, Copy) or step.source.buffer != place.buffer:
            continue
        moved = place.offset - step.source.offset
        destination = step.destination
        if 0 <= moved < step.size and program.buffer(destination.buffer).space == "global":
            yield replace(destination, offset=destination.offset + moved)
