"""Where in its image a program loads bytes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from oracle.forms import Form
from oracle.image import position
from oracle.isa import chunks_of
from oracle.lane_code import LaneCode
from oracle.lane_fragments import places
from oracle.matrices import LANES
from oracle.matrix_moves import is_packed, moves
from oracle.operands import Use
from oracle.ops import AnyOp, Op, accesses_matrix, accesses_rows, multiplies
from oracle.places import Uniform, Word
from oracle.program import Program
from oracle.registers import Register
from oracle.steps import Barrier, Branch, Copy, Elementwise, Loop, PlainAccess, Scalar, Step
from oracle.storage import Tile

Provenance = NDArray[np.int64]
"""For each byte the byte of the image from which it comes; -1 where a step computed it."""


@dataclass(frozen=True, eq=False)
class Source:
    """A matrix that is loaded: its bytes in the image, line by line."""

    tile: Tile
    provenance: Provenance
    """(lines, line_bytes); none is -1."""

    @property
    def key(self) -> tuple[object, ...]:
        """What is equal for sources that are one matrix in the image."""
        matrix, layout = self.tile.matrix, self.tile.layout
        return matrix.type.name, layout, self.provenance.shape, self.provenance.tobytes()


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
    rows: list[Provenance] = field(default_factory=list)
    """Bytes that ldmatrix, and loads of registers, read."""
    registers: list[tuple[int, Provenance]] = field(default_factory=list)
    """Bits of the registers that scalar code reads, and their bytes."""
    metadata: list[tuple[tuple[int, ...], Provenance]] = field(default_factory=list)
    """What 4 bits of metadata may be, and their bytes."""


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
        self._lanes: dict[Register, Provenance] = {}
        """Where the bytes of each register that is known by lane come from, (32, bytes)."""
        self._memory: Mapping[str, Provenance] = {
            "global": np.arange(program.image_bytes, dtype=np.int64),
            "shared": np.full(program.shared_bytes, -1, np.int64),
        }
        self._fragments: dict[tuple[Register, ...], Source] = {}
        """Fragments that come from the image, by their registers in order."""

    def walk(self, steps: tuple[Step, ...]) -> None:
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

    def _keep(self, step: Step, provenance: Provenance | None) -> None:
        """Keep where the bytes of the registers that a step writes come from, (32, bytes)."""
        registers = self._forget(step)
        if provenance is not None:
            parts = np.split(provenance, len(registers), axis=1)
            self._lanes.update(zip(registers, parts, strict=True))

    def _held(self, use: Use) -> Provenance | None:
        """Return where the bytes of registers come from, (32, bytes); None if that is not known."""
        parts = [self._lanes.get(register) for register in use.registers]
        known = [part for part in parts if part is not None]
        return np.concatenate(known, axis=1) if len(known) == len(parts) else None

    def _step(self, step: Step) -> None:
        match step:
            case Op():
                self._op(step)
            case Elementwise():
                moved = self._fragments.get(step.reads[0].registers)
                registers = self._forget(step)
                if moved is not None:
                    self._fragments[registers] = moved
            case PlainAccess() if step.stores:
                self._store(step)
            case Copy():
                (before,), (after,) = step.bytes_read, step.bytes_written
                bytes_ = self._read(before.buffer, before.offsets)
                self._write(after.buffer, after.offsets, bytes_)
            case PlainAccess():
                (span,) = step.bytes_read
                provenance = self._read(span.buffer, span.offsets.ravel())
                self.found.rows.append(provenance[provenance >= 0])
                self._keep(step, provenance.reshape(LANES, -1))
            case LaneCode():
                held = self._held(step.reads[0]) if step.count else None
                if held is not None:
                    self.found.registers.append((step.bits, held))
                self._forget(step)
            case Scalar():
                self._keep(step, self._held(step.reads[0]) if step.copies else None)
            case Branch() | Loop():
                self._word(step.uniform)
                for inside in step.blocks.values():
                    self.walk(inside)
            case Barrier():
                pass
            case _:
                assert_never(step)

    def _op(self, step: AnyOp) -> None:
        if step.stores:
            self._store(step)
        elif accesses_matrix(step):
            (span,) = step.bytes_read
            provenance = self._read(span.buffer, span.offsets)
            registers = self._forget(step)
            if (provenance >= 0).all():
                source = self._fragments[registers] = Source(step.tile, provenance)
                self.found.loads.append(source)
        elif accesses_rows(step):
            rows = self._read(step.memory.buffer, step.memory.offsets(step.form))
            self.found.rows.append(rows[rows >= 0])
            # What is widened is no byte of the rows.
            packed = is_packed(step.form)
            self._keep(step, None if packed else rows.ravel()[moves(step.form)])
        elif multiplies(step):
            form = step.form
            if form.opaque:
                operands = {use.field: [self._fragments.get(use.registers)] for use in step.reads}
            else:
                operands = {use.field: self._matrices(form, use) for use in step.reads[:3]}
            for use in step.reads[3:]:
                metadata = self._held(use)
                if metadata is not None:
                    self.found.metadata.append((chunks_of(form), metadata[metadata >= 0]))
            for a, b, c in zip(*(operands[operand] for operand in "abc"), strict=True):
                self.found.products.append(Product(form, a, b, c))
            self._forget(step)
        else:
            held = self._held(step.reads[0])
            turned = None if held is None else held.ravel()[moves(step.form, step.count)]
            self._keep(step, turned)

    def _store(self, step: Step) -> None:
        for span in step.bytes_written:
            self._write(span.buffer, span.offsets, -1)

    def _matrices(self, form: Form, use: Use) -> list[Source | None]:
        """Return the matrices of an operand, one for each multiplication of the instruction."""
        provenance = self._held(use)
        if provenance is None or (provenance < 0).any():
            return [None] * form.groups
        tile = _tile(form, use.field)
        lines = provenance.ravel()[_gathered(form, use.field)]
        return [Source(tile, one) for one in lines]

    def _word(self, uniform: Uniform) -> None:
        if isinstance(uniform, Word):
            start = position(self._program, uniform.place)
            if 0 <= start <= self._program.image_bytes - 4:
                self.found.words.append((start, uniform.mask))

    def _places(
        self, buffer: str, offsets: NDArray[np.int64]
    ) -> tuple[Provenance, NDArray[np.int64], NDArray[np.bool_] | None]:
        """Return the memory, the bytes in it, and which of them exist; None: all."""
        memory = self._memory[self._program.buffer(buffer).space]
        places = self._program.offset(buffer) + offsets
        if places.min() >= 0 and places.max() < memory.size:
            return memory, places, None
        return memory, places, (places >= 0) & (places < memory.size)

    def _read(self, buffer: str, offsets: NDArray[np.int64]) -> Provenance:
        memory, places, exist = self._places(buffer, offsets)
        if exist is None:
            return memory[places]
        found = np.full(places.shape, -1, np.int64)
        found[exist] = memory[places[exist]]
        return found

    def _write(self, buffer: str, offsets: NDArray[np.int64], bytes_: Provenance | int) -> None:
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
