"""Where in its image the bytes come from that a program loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from oracle.forms import ROW_BYTES, Form
from oracle.held import Use
from oracle.image import position
from oracle.lane_fragments import places
from oracle.lane_steps import (
    LoadRegisters,
    LoadRows,
    MoveRegisters,
    MultiplyLanes,
    PackRegisters,
    SetRegisters,
    StoreRegisters,
    StoreRows,
    TransposeRegisters,
)
from oracle.matrices import LANES
from oracle.matrix_moves import distribute, transposed
from oracle.places import Uniform, Word
from oracle.program import Program
from oracle.registers import Register
from oracle.steps import Barrier, Branch, Copy, Elementwise, Load, Loop, Multiply, Step, Store
from oracle.storage import Tile

Origins = NDArray[np.int64]
"""For each byte the byte of the image from which it comes; -1 where a step computed it."""


@dataclass(frozen=True, eq=False)
class Source:
    """A matrix that is loaded: its bytes in the image, line by line."""

    tile: Tile
    origins: Origins
    """(lines, line_bytes); none is -1."""

    @property
    def key(self) -> tuple[object, ...]:
        """What is equal for sources that are one matrix in the image."""
        matrix, layout = self.tile.matrix, self.tile.layout
        return matrix.type.name, layout, self.origins.shape, self.origins.tobytes()


@dataclass(frozen=True, eq=False)
class Product:
    """A multiplication, and where its operands come from."""

    form: Form
    a: Source | None
    b: Source | None
    c: Source | None
    """None where a step computed it."""


@dataclass(frozen=True)
class Readings:
    """What a program reads from its image."""

    loads: list[Source] = field(default_factory=list)
    products: list[Product] = field(default_factory=list)
    words: list[tuple[int, int]] = field(default_factory=list)
    """First byte and mask of each control word."""
    rows: list[Origins] = field(default_factory=list)
    """Bytes that ldmatrix, and loads of registers, read."""


def readings(program: Program) -> Readings:
    """Follow bytes from the image through copies to where a program reads them.

    Loop bodies are followed once, and both arms of a branch one after the other: what is loaded
    behind them may come from elsewhere on another path.
    """
    walker = _Walker(program)
    walker.walk(program.steps)
    return walker.found


class _Walker:
    def __init__(self, program: Program) -> None:
        self.found = Readings()
        self._program = program
        self._lanes: dict[Register, Origins] = {}
        """Where the bytes of each register that is known by lane come from, (32, bytes)."""
        self._memory: Mapping[str, Origins] = {
            "global": np.arange(program.image_bytes, dtype=np.int64),
            "shared": np.full(program.shared_bytes, -1, np.int64),
        }
        self._fragments: dict[tuple[Register, ...], Source] = {}
        """Fragments that come from the image, by their registers in order."""

    def walk(self, steps: tuple[Step, ...]) -> None:
        """Follow steps."""
        for step in steps:
            self._step(step)

    def _forget(self, step: Step) -> tuple[Register, ...]:
        """Forget what the destination of a step held; return its registers."""
        if step.writes is None:
            return ()
        registers = step.writes.registers
        for register in registers:
            self._lanes.pop(register, None)
        if self._fragments:
            gone = set(registers)
            for vector in [one for one in self._fragments if not gone.isdisjoint(one)]:
                del self._fragments[vector]
        return registers

    def _keep(self, step: Step, origins: Origins | None) -> None:
        """Keep where the bytes of the registers that a step writes come from, (32, bytes)."""
        registers = self._forget(step)
        if origins is not None:
            parts = np.split(origins, len(registers), axis=1)
            self._lanes.update(zip(registers, parts, strict=True))

    def _held(self, use: Use) -> Origins | None:
        """Return where the bytes of registers come from, (32, bytes); None if that is not known."""
        parts = [self._lanes.get(register) for register in use.registers]
        known = [part for part in parts if part is not None]
        return np.concatenate(known, axis=1) if len(known) == len(parts) else None

    def _step(self, step: Step) -> None:
        match step:
            case Load():
                tile = step.tile
                (span,) = step.bytes_read
                origins = self._read(span.buffer, span.offsets)
                known = (origins >= 0).all()
                source = Source(tile, origins) if known else None
                registers = self._forget(step)
                if source is not None:
                    self._fragments[registers] = source
                    self.found.loads.append(source)
            case Multiply():
                a, b, c = (self._fragments.get(use.registers) for use in step.reads)
                self.found.products.append(Product(step.form, a, b, c))
                self._forget(step)
            case Elementwise():
                moved = self._fragments.get(step.reads[0].registers)
                registers = self._forget(step)
                if moved is not None:
                    self._fragments[registers] = moved
            case Store() | StoreRegisters() | StoreRows():
                for span in step.bytes_written:
                    self._write(span.buffer, span.offsets, -1)
            case Copy():
                (before,), (after,) = step.bytes_read, step.bytes_written
                bytes_ = self._read(before.buffer, before.offsets)
                self._write(after.buffer, after.offsets, bytes_)
            case LoadRows():
                starts = np.array([row.start for row in step.bytes_read], np.int64)
                rows = self._read(step.buffer, starts[:, None] + np.arange(ROW_BYTES))
                self.found.rows.append(rows[rows >= 0])
                dealt = _dealt(step.form)
                self._keep(step, np.where(dealt < 0, -1, rows.ravel()[dealt]))
            case LoadRegisters():
                (span,) = step.bytes_read
                origins = self._read(span.buffer, span.offsets.ravel())
                self.found.rows.append(origins[origins >= 0])
                self._keep(step, origins.reshape(LANES, -1))
            case MultiplyLanes():
                operands = {use.field: self._matrices(step.form, use) for use in step.reads}
                for group in range(step.form.groups):
                    a, b, c = (operands[operand][group] for operand in "abc")
                    self.found.products.append(Product(step.form, a, b, c))
                self._forget(step)
            case TransposeRegisters():
                held = self._held(step.reads[0])
                self._keep(step, None if held is None else _turned(held))
            case MoveRegisters():
                self._keep(step, self._held(step.reads[0]))
            case PackRegisters() | SetRegisters():
                self._forget(step)
            case Branch():
                self._word(step.condition)
                self.walk(step.then)
                self.walk(step.otherwise)
            case Loop():
                self._word(step.count)
                self.walk(step.body)
            case Barrier():
                pass
            case _:
                assert_never(step)

    def _matrices(self, form: Form, use: Use) -> list[Source | None]:
        """Return the matrices of an operand, one for each multiplication of the instruction."""
        origins = self._held(use)
        if origins is None or (origins < 0).any():
            return [None] * form.groups
        tile = _tile(form, use.field)
        lines = origins.ravel()[_gathered(form, use.field)]
        return [Source(tile, one) for one in lines]

    def _word(self, uniform: Uniform) -> None:
        if isinstance(uniform, Word):
            start = position(self._program, uniform.place)
            if 0 <= start <= self._program.image_bytes - 4:
                self.found.words.append((start, uniform.mask))

    def _places(
        self, buffer: str, offsets: NDArray[np.int64]
    ) -> tuple[Origins, NDArray[np.int64], NDArray[np.bool_] | None]:
        """Return the memory, the bytes in it, and which of them exist; None: all."""
        memory = self._memory[self._program.buffer(buffer).space]
        places = self._program.offset(buffer) + offsets
        if places.min() >= 0 and places.max() < memory.size:
            return memory, places, None
        return memory, places, (places >= 0) & (places < memory.size)

    def _read(self, buffer: str, offsets: NDArray[np.int64]) -> Origins:
        memory, places, exist = self._places(buffer, offsets)
        if exist is None:
            return memory[places]
        found = np.full(places.shape, -1, np.int64)
        found[exist] = memory[places[exist]]
        return found

    def _write(self, buffer: str, offsets: NDArray[np.int64], bytes_: Origins | int) -> None:
        memory, places, exist = self._places(buffer, offsets)
        if exist is None:
            memory[places] = bytes_
        else:
            memory[places[exist]] = bytes_ if isinstance(bytes_, int) else bytes_[exist]


@cache
def _tile(form: Form, operand: str) -> Tile:
    """Return an operand as if it lay in memory."""
    # Neighbours in a byte are neighbours along k, so that lines run along k.
    return Tile(matrix=form.matrix(operand), layout="col" if operand == "b" else "row")


@cache
def _gathered(form: Form, operand: str) -> NDArray[np.int64]:
    """Return which bytes of all lanes' registers are the matrices of an operand.

    Returns
    -------
    int64 (form.groups, lines, line_bytes)
        Numbers of bytes, those of a lane's registers one after the other, lane by lane.
    """
    tile = _tile(form, operand)
    bits = tile.matrix.type.bits
    where = places(form, operand)  # (32, elements, 3): multiplication, row, column
    group, row, column = where.reshape(-1, 3).T
    line, along = (column, row) if tile.layout == "col" else (row, column)
    numbers = np.arange(LANES * 4 * form.words(operand)).reshape(LANES, -1)
    held = np.arange(where.shape[1]) * bits // 8  # first byte of each element in its lane
    found = np.full((form.groups, tile.lines, tile.line_bytes), -1, np.int64)
    for byte in range(max(1, bits // 8)):
        found[group, line, along * bits // 8 + byte] = numbers[:, held + byte].ravel()
    return found


@cache
def _dealt(form: Form) -> NDArray[np.int64]:
    """Return which byte of the rows each byte of the registers of ldmatrix is.

    Returns
    -------
    int64 (32, bytes)
        Numbers of bytes, row by row; -1 where what is loaded is no byte of them.
    """
    if form.element_bits < 8:  # widened to bytes
        return np.full((LANES, 4 * form.registers), -1, np.int64)
    numbers = np.arange(form.addresses * ROW_BYTES).reshape(form.addresses, -1)
    low, high = (
        distribute(form, part.astype(np.uint8)).view(np.uint8).astype(np.int64)
        for part in (numbers & 0xFF, numbers >> 8)
    )
    return low | high << 8


def _turned(origins: Origins) -> Origins:
    """Return where bytes come from behind movmatrix, (32, bytes)."""
    numbers = np.arange(2 * LANES, dtype=np.uint32).reshape(LANES, 2)
    words = transposed(numbers[:, :1] | numbers[:, 1:] << np.uint32(16))
    order = words.view("<u2").astype(np.int64).reshape(LANES, 2)
    flat = origins.reshape(LANES, -1, 2, 2)
    return flat[order // 2, :, order % 2].transpose(0, 2, 1, 3).reshape(LANES, -1)
