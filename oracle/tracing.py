"""One warp's way through a program: what each step made, and which step wrote each byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.definedness import check_defined
from oracle.execution import run
from oracle.image import check_images, position
from oracle.matrix_moves import moves
from oracle.models import Model, model_for
from oracle.ops import MatrixAccess, accesses_matrix, accesses_rows, is_producer
from oracle.places import Place
from oracle.program import Program
from oracle.registers import Register
from oracle.steps import Straight, accesses_registers, copies_bytes
from oracle.warps import Warps

_NOBODY = -1


@dataclass(frozen=True, kw_only=True, eq=False)
class Event:
    """One step, as it was taken."""

    number: int
    """Its place in the order of execution."""
    step: Straight
    inputs: Mapping[str, NDArray[Any]]
    """Matrices (rows, columns), registers (32, count), ldmatrix's rows (addresses, 16)."""
    makers: Mapping[str, int]
    """Number of the event, of several the last, that made what was read, by the operand's text."""
    stored: frozenset[int]
    """Numbers of the events that stored bytes that it read, through copies, too."""
    result: NDArray[Any] | None
    """What it made; None for stores, copies and barriers."""


@dataclass(frozen=True, kw_only=True)
class Written:
    """Record of the last write to a byte of the image."""

    event: Event
    """The event in which the step stored the byte."""
    row: int
    """Row of the matrix, or the lane."""
    column: int
    """Column of the matrix, or the register's number."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """Everything that one warp did."""

    model: Model
    events: Sequence[Event]
    image: NDArray[np.uint8]
    """uint8 (image_bytes,) after the program."""
    _writers: NDArray[np.int32]
    _cells: NDArray[np.int32]

    def writer(self, byte: int) -> Written | None:
        """Return who wrote a byte of the image, None if nobody did or its bytes were copied in."""
        number = int(self._writers[byte])
        if number == _NOBODY:
            return None
        event = self.events[number]
        row, column = divmod(int(self._cells[byte]), _columns(event.step))
        return Written(event=event, row=row, column=column)

    def maker(self, event: Event, name: str | None) -> Event | None:
        """Return the event that made what another read as an operand; None if none did."""
        number = None if name is None else event.makers.get(name)
        return None if number is None else self.events[number]

    def history(self, written: Written) -> Sequence[Event]:
        """Return what led to a store's fragment, first to last: one source at each step."""
        found: list[Event] = []
        (stored,) = written.event.step.reads
        event = self.maker(written.event, stored.name)
        while event is not None:
            found.append(event)
            event = self.maker(event, event.step.carried)
        return tuple(reversed(found))

    def producer(self, written: Written) -> Event | None:
        """Return the last multiplication or ldmatrix behind a store, None if there is none."""
        for event in reversed(self.history(written)):
            if is_producer(event.step):
                return event
        return None


def trace(program: Program, image: NDArray[np.uint8], *, target: str) -> Trace:
    """Take one warp through a program on an image, uint8 (image_bytes,); raises as `execute`."""
    check_defined(program, target=target)
    images = np.array(image[None], order="C")
    check_images(program, images)
    model = model_for(target)
    warp = _Recorder(program, images, model)
    run(program.steps, warp)
    writers = warp.written["global"]
    return Trace(
        model=model, events=warp.events, image=images[0], _writers=writers.events,
        _cells=writers.cells,
    )  # fmt: skip


@dataclass(kw_only=True, eq=False)
class _Bytes:
    """Record of the last write to each byte of one memory."""

    events: NDArray[np.int32]
    """Number of the event; _NOBODY at the start."""
    cells: NDArray[np.int32]
    """Which element: row * columns + column."""

    @classmethod
    def of(cls, size: int) -> _Bytes:
        return cls(events=np.full(size, _NOBODY, np.int32), cells=np.zeros(size, np.int32))


class _Recorder(Warps):
    """One warp that keeps what passes by."""

    def __init__(self, program: Program, images: NDArray[np.uint8], model: Model) -> None:
        super().__init__(program, images, model)
        self.events: list[Event] = []
        self.written = {
            "global": _Bytes.of(program.image_bytes), "shared": _Bytes.of(program.shared_bytes),
        }  # fmt: skip
        self._makers: dict[Register, int] = {}

    def take(self, step: Straight) -> None:
        number, inputs, makers = len(self.events), dict[str, NDArray[Any]](), dict[str, int]()
        for use in step.reads:
            inputs[use.field] = self.held(use)["bits"][0]
            makers[use.name] = max(self._makers[register] for register in use.registers)
        if accesses_rows(step) and not step.stores:
            memory, rows = self.rows(step)
            inputs["rows"] = memory["bits"][0][rows]
        stored = set[int]()
        for span in step.bytes_read:
            written, start = self._bytes(Place(buffer=span.buffer, offset=0))
            stored.update(written.events[start + span.offsets].ravel().tolist())
        super().take(step)
        result = None
        if step.writes is not None:
            self._makers |= dict.fromkeys(step.writes.registers, number)
            result = self.held(step.writes)["bits"][0]
        self.events.append(
            Event(
                number=number, step=step, inputs=inputs, makers=makers,
                stored=frozenset(stored - {_NOBODY}), result=result,
            )
        )  # fmt: skip
        self._note_writes(step, number)

    def _note_writes(self, step: Straight, number: int) -> None:
        if copies_bytes(step):
            source, start = self._bytes(step.source)
            destination, offset = self._bytes(step.destination)
            for name in ("events", "cells"):
                part = getattr(source, name)[start : start + step.size].copy()
                getattr(destination, name)[offset : offset + step.size] = part
        elif accesses_matrix(step) and step.stores:
            self._note(step.memory.place, *_tile_cells(step), number)
        elif accesses_registers(step) and step.stores:
            offsets = np.arange(step.size)
            self._note(step.place, offsets, offsets // (step.bits // 8), number)
        elif accesses_rows(step) and step.stores:
            index = moves(step.form)
            cells = np.arange(index.size) // 4
            offsets = step.memory.offsets(step.form).ravel()[index.ravel()]
            self._note(Place(buffer=step.memory.buffer), offsets, cells, number)

    def _note(self, place: Place, offsets: NDArray[Any], cells: NDArray[Any], number: int) -> None:
        written, start = self._bytes(place)
        written.events[start + offsets] = number
        written.cells[start + offsets] = cells

    def _bytes(self, place: Place) -> tuple[_Bytes, int]:
        space = self.program.buffer(place.buffer).space
        return self.written[space], position(self.program, place)


def _columns(step: Straight) -> int:
    if accesses_matrix(step):
        return step.form.matrix().columns
    (stored,) = step.reads
    return stored.holds.registers


def _tile_cells(step: MatrixAccess) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Return the bytes of a stored tile, and the element to which each belongs."""
    tile = step.tile
    line = np.arange(tile.lines)[:, None]
    element = np.arange(tile.line_bytes)[None] * 8 // tile.matrix.type.bits
    row, column = (line, element) if tile.layout == "row" else (element, line)
    return tile.byte_offsets, (row * tile.matrix.columns + column).astype(np.int32)
