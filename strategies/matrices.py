"""Where the matrices and registers that a program reads and leaves lie in its memory image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oracle.forms import ROW_BYTES
from oracle.image import position
from oracle.ops import RowAccess, loads_fragment, stores_fragment, stores_rows
from oracle.places import Place
from oracle.program import Program, walk
from oracle.steps import accesses_registers, copies_bytes
from oracle.storage import Tile


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A matrix that a program loads or stores, in the image."""

    operand: str
    """"a", "b", "c" or "d"."""
    place: Place
    """Place of its first byte, in a global buffer."""
    tile: Tile


def inputs(program: Program) -> tuple[Placed, ...]:
    """Return the matrices that wmma.load reads, those in shared memory where they came from.

    Copies are followed one after another, and only such as take the matrix whole.
    """
    return tuple(
        Placed(operand=step.form.matrix().operand, place=place, tile=tile)
        for step in walk(program.steps)
        if loads_fragment(step)
        for tile in (step.tile,)
        for place in _ends(program, step.memory.place, tile.extent, backwards=True)
    )


def outputs(program: Program) -> tuple[Placed, ...]:
    """Return the matrices that wmma.store writes, those in shared memory where they go to."""
    return tuple(
        Placed(operand="d", place=place, tile=tile)
        for step in walk(program.steps)
        if stores_fragment(step)
        for tile in (step.tile,)
        for place in _ends(program, step.memory.place, tile.extent, backwards=False)
    )


def _ends(program: Program, place: Place, size: int, *, backwards: bool) -> Iterator[Place]:
    """Find the places of the image from or to which copies take some bytes; where they are, too."""
    copies = [step for step in walk(program.steps) if copies_bytes(step)]
    seen, open_ = {place}, [place]
    while open_:
        here = open_.pop(0)
        if program.buffer(here.buffer).space == "global":
            yield here
        for copy in copies:
            near, far = copy.source, copy.destination
            if backwards:
                near, far = far, near
            start = here.offset - near.offset
            if near.buffer == here.buffer and 0 <= start <= copy.size - size:
                there = replace(far, offset=far.offset + start)
                if there not in seen:
                    seen.add(there)
                    open_.append(there)


def places_of(
    program: Program, place: Place, *, size: int = 1, stored: bool = False
) -> Iterator[Place]:
    """Find the places of the image from which bytes at a place come, or to which they go.

    A place in global memory is its own; one in shared memory has those that copies give it.

    Parameters
    ----------
    size
        Bytes that a copy takes all of them together.
    stored
        Whether they go there; else they come from there.
    """
    if program.buffer(place.buffer).space == "global":
        yield place
        return
    for copy in walk(program.steps):
        if not copies_bytes(copy):
            continue
        here, there = copy.destination, copy.source
        if stored:
            here, there = there, here
        moved = place.offset - here.offset
        if (
            here.buffer == place.buffer
            and 0 <= moved <= copy.size - size
            and program.buffer(there.buffer).space == "global"
        ):
            yield replace(there, offset=there.offset + moved)


@dataclass(frozen=True, kw_only=True)
class Result:
    """A matrix, or registers of all lanes, that a program leaves in its image."""

    name: str
    """"d", or "d1", "d2", … where there are several; "r" for registers, "s" for rows of
    moved matrices."""
    type: str
    """Name of the format of an element; "b32" or "b64" for registers, "b16" for rows."""
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
    return (*_numbered(matrices), *_numbered(registers), *_numbered(rows))


def _rows(program: Program, step: RowAccess) -> Iterator[Result]:
    """Find the rows that a step leaves in the image, in runs that are equally far apart."""
    row = ROW_BYTES
    starts = sorted(
        position(program, place)
        for span in step.bytes_written
        for place in places_of(
            program, Place(buffer=span.buffer, offset=span.start), size=row, stored=True
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
        pitch = run[1] - run[0] if len(run) > 1 else row
        yield Result(
            name="s", type="b16", bits=16, start=run[0], rows=len(run), columns=row // 2,
            row_bytes=pitch, column_bytes=2,
        )  # fmt: skip


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
