"""Where in its image the bytes come from that a program loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from oracle.forms import MmaForm
from oracle.image import position
from oracle.places import Uniform, Word
from oracle.program import Program
from oracle.steps import (
    Barrier,
    Branch,
    Copy,
    Elementwise,
    Load,
    LoadRows,
    Loop,
    Multiply,
    Step,
    Store,
    StoreRegisters,
)
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

    form: MmaForm
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
    """Bytes that ldmatrix reads."""


def readings(program: Program) -> Readings:
    """Follow bytes from the image through copies to where a program reads them.

    Loop bodies are followed once, and both arms of a branch one after the other: what is loaded
    behind them may come from elsewhere on another path.
    """
    walker = _Walker(program)
    walker.walk(program.steps, {})
    return walker.found


class _Walker:
    def __init__(self, program: Program) -> None:
        self.found = Readings()
        self._program = program
        self._memory: Mapping[str, Origins] = {
            "global": np.arange(program.image_bytes, dtype=np.int64),
            "shared": np.full(program.shared_bytes, -1, np.int64),
        }

    def walk(self, steps: tuple[Step, ...], fragments: dict[str, Source | None]) -> None:
        """Follow steps; `fragments` says where each comes from, and is changed."""
        for step in steps:
            self._step(step, fragments)

    def _step(self, step: Step, fragments: dict[str, Source | None]) -> None:
        match step:
            case Load():
                tile = _tile(step)
                (span,) = step.bytes_read
                origins = self._read(span.buffer, span.offsets)
                known = (origins >= 0).all()
                source = Source(tile, origins) if known else None
                fragments[step.fragment] = source
                if source is not None:
                    self.found.loads.append(source)
            case Multiply():
                a, b, c = (fragments.get(name) for name in (step.a, step.b, step.c))
                self.found.products.append(Product(step.form, a, b, c))
                fragments[step.d] = None
            case Elementwise():
                fragments[step.destination] = fragments.get(step.source)
            case Store() | StoreRegisters():
                for span in step.bytes_written:
                    self._computed(span.buffer, span.offsets)
            case Copy():
                (before,), (after,) = step.bytes_read, step.bytes_written
                bytes_ = self._read(before.buffer, before.offsets)
                self._write(after.buffer, after.offsets, bytes_)
            case LoadRows():
                for row in step.bytes_read:
                    origins = self._read(row.buffer, row.offsets.ravel())
                    self.found.rows.append(origins[origins >= 0])
            case Branch():
                self._word(step.condition)
                self.walk(step.then, fragments)
                self.walk(step.otherwise, fragments)
            case Loop():
                self._word(step.count)
                self.walk(step.body, fragments)
            case Barrier():
                pass
            case _:
                assert_never(step)

    def _word(self, uniform: Uniform) -> None:
        if isinstance(uniform, Word):
            start = position(self._program, uniform.place)
            if 0 <= start <= self._program.image_bytes - 4:
                self.found.words.append((start, uniform.mask))

    def _inside(
        self, buffer: str, offsets: NDArray[np.int64]
    ) -> tuple[Origins, NDArray[np.int64], NDArray[np.bool_]]:
        """Return the memory, the bytes in it, and which of them exist."""
        memory = self._memory[self._program.buffer(buffer).space]
        places = self._program.offset(buffer) + offsets
        return memory, places, (places >= 0) & (places < memory.size)

    def _read(self, buffer: str, offsets: NDArray[np.int64]) -> Origins:
        memory, places, exist = self._inside(buffer, offsets)
        return (
            np.where(exist, memory.take(places, mode="clip"), -1) if memory.size else places * 0 - 1
        )

    def _write(self, buffer: str, offsets: NDArray[np.int64], bytes_: Origins) -> None:
        memory, places, exist = self._inside(buffer, offsets)
        memory[places[exist]] = bytes_[exist]

    def _computed(self, buffer: str, offsets: NDArray[np.int64]) -> None:
        self._write(buffer, offsets, np.full(offsets.shape, -1, np.int64))


def _tile(step: Load | Store) -> Tile:
    return Tile(matrix=step.form.matrix, layout=step.form.layout, stride=step.stride)
