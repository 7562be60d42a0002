"""A device that multiplies matrices, and how it is compared with a model on random images.

What runs is ordinary programs of one multiplication each. Images are compared in this process, or
in many with a GPU.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from multiprocessing.util import Finalize
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.runner import RunnerChoice, open_runner
from oracle.errors import InfrastructureError
from oracle.forms import Form
from oracle.held import Registers
from oracle.lane_fragments import pack, unpack
from oracle.lane_steps import LoadRegisters, StoreRegisters
from oracle.matrices import LANES
from oracle.measuring.dots import Dots
from oracle.measuring.units import multiplied, random_tiles
from oracle.models import Model
from oracle.ops import Op
from oracle.places import Buffer, Place
from oracle.program import Program
from oracle.steps import Step
from oracle.storage import Tile, read, write
from oracle.targets import Module
from runners.emission import emit_all
from runners.protocol import Compiled, Failure, Images, Runner
from strategies.programs.bare import alone

Array = NDArray[Any]

_BATCH = 8192
"""Images of one launch: enough to fill a GPU, and few enough to bound memory at 32 MiB."""
CHUNK = 4096
"""Images that are made, run and compared together."""
_SHOWN = 32
"""Differing dot products of a chunk that are kept, to be explained."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """One multiplication, ready to run: where its matrices lie in an image."""

    form: Form

    @cached_property
    def program(self) -> Program:
        """Load A, B and C, multiply, store D: each matrix lies plainly in a buffer of its own."""
        plain = alone(self.form)
        loads = tuple(plain.loads.values())
        buffers = tuple(
            Buffer(name=one.memory.place.buffer, space="global", size=one.tile.extent)
            for one in (*loads, plain.store)
        )
        return Program(buffers=buffers, steps=(*loads, plain.multiply, plain.store))

    def tile(self, operand: str) -> Tile:
        """Return how a matrix lies."""
        plain = alone(self.form)
        return plain.store.tile if operand == "d" else plain.loads[operand].tile

    def images(self, a: Array, b: Array, c: Array) -> Images:
        """Return the images that hold some matrices, (count, rows, columns) each."""
        images = np.zeros((len(c), self.program.image_bytes), np.uint8)
        for name, values in (("a", a), ("b", b), ("c", c)):
            write(images, self.program.offset(name), self.tile(name), values)
        return images

    def result(self, images: Images) -> Array:
        """Return D of some images, (count, m, n)."""
        return read(images, self.program.offset("d"), self.tile("d"))


@dataclass(frozen=True, kw_only=True)
class LaneBench:
    """One mma.sync, ready to run: its operands lie in an image as registers, lane by lane."""

    form: Form

    @cached_property
    def program(self) -> Program:
        """Load the registers of A, B and C, multiply, store those of D."""
        steps: list[Step] = []
        for name in "abc":
            held = Registers.of(self.form.vector(name))
            steps.append(
                LoadRegisters(
                    registers=name, count=held.registers, bits=held.bits, place=Place(buffer=name)
                )
            )
        steps.append(Op.of(form=self.form, d="d", a="a", b="b", c="c"))
        held = Registers.of(self.form.vector("d"))
        steps.append(
            StoreRegisters(
                registers="d", count=held.registers, bits=held.bits, place=Place(buffer="d")
            )
        )
        buffers = tuple(
            Buffer(name=name, space="global", size=LANES * 4 * self.form.words(name))
            for name in "abcd"
        )
        return Program(buffers=buffers, steps=tuple(steps))

    def _words(self, images: Images, operand: str) -> NDArray[np.uint32]:
        offset, words = self.program.offset(operand), self.form.words(operand)
        part = images[:, offset : offset + LANES * 4 * words]
        return np.ascontiguousarray(part).view(np.uint32).reshape(len(images), LANES, words)

    def images(self, a: Array, b: Array, c: Array) -> Images:
        """Return the images that hold some matrices, (count, rows, columns) each."""
        groups = self.form.groups
        images = np.zeros((-(-len(c) // groups), self.program.image_bytes), np.uint8)
        for name, values in (("a", a), ("b", b), ("c", c)):
            matrices = np.zeros((groups * len(images), *values.shape[1:]), values.dtype)
            matrices[: len(values)] = values
            words = np.empty((len(images), LANES, self.form.words(name)), np.uint32)
            pack(self.form, matrices, words, name)
            offset = self.program.offset(name)
            images[:, offset : offset + words[0].nbytes] = words.view(np.uint8).reshape(
                len(images), -1
            )
        return images

    def result(self, images: Images) -> Array:
        """Return D of some images, (form.groups * count, m, n)."""
        return unpack(self.form, "d", self._words(images, "d"))


def diagonal(form: Form) -> int:
    """Return the dot products of one image: those of the diagonal, each with a row and a column."""
    return min(form.shape.m, form.shape.n)


def tiles_of(form: Form, dots: Dots) -> tuple[Array, Array, Array]:
    """Return matrices with dot products on their diagonals, and zeros elsewhere."""
    shape, size = form.shape, diagonal(form)
    count = -(-len(dots) // size)
    a = np.zeros((count, shape.m, shape.k), dots.a.dtype)
    b = np.zeros((count, shape.k, shape.n), dots.b.dtype)
    c = np.zeros((count, shape.m, shape.n), dots.c.dtype)
    tile, place = np.divmod(np.arange(len(dots)), size)
    a[tile, place], b[tile, :, place], c[tile, place, place] = dots.a, dots.b, dots.c
    return a, b, c


class Device:
    """A runner that multiplies matrices.

    Raises
    ------
    InfrastructureError
        If the runner does not take the module.
    """

    def __init__(self, runner: Runner, module: Module, forms: Sequence[Form]) -> None:
        self.runner = runner
        self.benches: dict[str, Bench | LaneBench] = {
            form.opcode: Bench(form=form) if form.mnemonic == "wmma.mma" else LaneBench(form=form)
            for form in forms
        }
        self._entries = {opcode: f"unit_{i}" for i, opcode in enumerate(self.benches)}
        programs = {self._entries[opcode]: bench.program for opcode, bench in self.benches.items()}
        compiled = runner.compile(emit_all(programs, module=module))
        if isinstance(compiled, Failure):
            raise InfrastructureError(f"the probes do not compile: {compiled} {compiled.detail}")
        self.compiled: Compiled = compiled

    def multiply(self, form: Form, a: Array, b: Array, c: Array) -> Array:
        """Return what the device makes of some matrices, (count, m, n)."""
        parts = list(self._parts(form, a, b, c))
        return np.concatenate(parts) if len(parts) != 1 else parts[0]

    def _parts(self, form: Form, a: Array, b: Array, c: Array) -> Iterator[Array]:
        bench, entry = self.benches[form.opcode], self._entries[form.opcode]
        for start in range(0, len(c), _BATCH):
            part = slice(start, start + _BATCH)
            ran = self.runner.run(
                self.compiled, bench.images(a[part], b[part], c[part]), entry=entry
            )
            if isinstance(ran, Failure):
                raise InfrastructureError(f"{form.opcode}: {ran} {ran.detail}")
            yield np.array(bench.result(ran.images)[: len(c[part])])

    def dots(self, form: Form, dots: Dots) -> Array:
        """Return what the device makes of dot products, patterns (count,)."""
        d = self.multiply(form, *tiles_of(form, dots))
        tile, place = np.divmod(np.arange(len(dots)), diagonal(form))
        return np.asarray(d[tile, place, place])


@dataclass(frozen=True, kw_only=True)
class Task:
    """Random images of one form."""

    form: Form
    model: Model
    count: int
    seed: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What became of them."""

    images: int
    differing: int
    """Images in which the device returned something else than the model."""
    a: Array
    """Rows of some dot products that differ, (count, k); likewise the columns, and C and D."""
    b: Array
    c: Array
    d: Array


def confirm(task: Task, device: Device) -> Outcome:
    """Compare the device with the model on random images."""
    form = task.form
    a, b, c = random_tiles(form, task.count, task.seed)
    found = device.multiply(form, a, b, c)
    different = multiplied(form, a, b, c, task.model) != found
    tile, row, column = (index[:_SHOWN] for index in np.nonzero(different))
    return Outcome(
        images=len(c),
        differing=int(np.count_nonzero(different.any(axis=(1, 2)))),
        a=a[tile, row], b=b[tile, :, column], c=c[tile, row, column], d=found[tile, row, column],
    )  # fmt: skip


_DEVICE: list[Device] = []
"""The device of this process of a pool; set once by `_open`."""


def _open(choice: RunnerChoice, module: Module, forms: tuple[Form, ...]) -> None:
    opened = open_runner(choice)
    # A process of a pool ends without `atexit`; this is what it does run.
    Finalize(None, opened.runner.close, exitpriority=10)
    _DEVICE[:] = [Device(opened.runner, module, forms)]


def confirmed_there(task: Task) -> Outcome:
    """Compare the device of this process of a pool with the model."""
    return confirm(task, _DEVICE[0])


def pool_of(
    choice: RunnerChoice, module: Module, forms: tuple[Form, ...], workers: int
) -> ProcessPoolExecutor:
    """Return processes that can multiply forms, each with a runner of its own."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(
        workers, mp_context=context, initializer=_open, initargs=(choice, module, forms)
    )
