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
from oracle.formats import Kind
from oracle.forms import Form
from oracle.isa import chunks_of
from oracle.lane_fragments import pack, unpack
from oracle.matrices import LANES
from oracle.measuring.dots import Dots
from oracle.measuring.units import multiplied, random_tiles
from oracle.models import Model
from oracle.ops import product_of
from oracle.program import Program
from oracle.sparse import rows_met
from oracle.storage import Tile, read, write
from oracle.targets import Module
from runners.emission import emit_all
from runners.protocol import Compiled, Failure, Images, Runner
from strategies.programs.single_instruction import (
    buffers_of,
    single_instruction,
)

Array = NDArray[Any]

_BATCH = 8192
"""Images of one launch: enough to fill a GPU, and few enough to bound memory at 32 MiB."""
CHUNK = 4096
"""Images that are made, run and compared together."""
_SHOWN = 32
"""Differing dot products of a chunk that are kept, to be explained."""


@dataclass(frozen=True, kw_only=True)
class ReadyProduct:
    """One multiplication, ready to run: where its operands lie in an image.

    Matrices lie there plainly, or as the registers of mma.sync, lane by lane. A sparse A is what is
    stored of it, and B what this meets; the other rows of B are NaN, or -1, and add nothing.
    """

    form: Form

    @cached_property
    def program(self) -> Program:
        """Load A, B and C, multiply, store D: each lies in a buffer of its own."""
        steps = single_instruction(product_of(self.form))
        return Program(buffers=buffers_of(steps), steps=steps)

    def _tile(self, operand: str) -> Tile:
        load_a, load_b, load_c, *_, store = self.program.steps
        access: Any = {"a": load_a, "b": load_b, "c": load_c, "d": store}[operand]
        tile: Tile = access.tile
        return tile

    def images(self, a: Array, b: Array, c: Array) -> Images:
        """Return the images that hold some matrices, (count, rows, columns) each."""
        form, groups = self.form, self.form.groups
        images = np.zeros((-(-len(c) // groups), self.program.image_bytes), np.uint8)
        for name, values in (("a", a), ("b", b), ("c", c)):
            offset = self.program.offset(name)
            if form.opaque:
                write(images, offset, self._tile(name), values)
                continue
            matrices = np.zeros((groups * len(images), *values.shape[1:]), values.dtype)
            matrices[: len(values)] = values
            if form.is_sparse and name == "b":
                matrices = self._placed(matrices, images)
            words = np.empty((len(images), LANES, form.words(name)), np.uint32)
            pack(form, matrices, words, name)
            end = offset + words[0].nbytes
            images[:, offset:end] = words.view(np.uint8).reshape(len(images), -1)
        return images

    def _placed(self, met: Array, images: Images) -> Array:
        """Return B of which a sparse A meets some rows, and write the metadata that say which."""
        form, offset = self.form, self.program.offset("e")
        pairs = np.resize(np.array(chunks_of(form), np.uint32), len(images))
        metadata = np.repeat(pairs[:, None] * np.uint32(0x1111_1111), LANES, axis=1)
        images[:, offset : offset + 4 * LANES] = metadata.view(np.uint8)
        signed = form.b_type.kind is Kind.SIGNED
        other = -1 if signed else (1 << form.b_type.bits) - 1
        b = np.full((len(met), form.shape.k, form.shape.n), other, met.dtype)
        # The same rows for every row of A.
        np.put_along_axis(b, rows_met(form, metadata, 0)[:, 0, :, None], met, axis=1)
        return b

    def result(self, images: Images) -> Array:
        """Return D of some images, (form.groups * count, m, n)."""
        form, offset = self.form, self.program.offset("d")
        if form.opaque:
            return read(images, offset, self._tile("d"))
        part = images[:, offset : offset + LANES * 4 * form.words("d")]
        words = np.ascontiguousarray(part).view(np.uint32)
        return unpack(form, "d", words.reshape(len(images), LANES, -1))


def diagonal(form: Form) -> int:
    """Return the dot products of one image: those of the diagonal, each with a row and a column."""
    return min(form.shape.m, form.shape.n)


def tiles_of(form: Form, dots: Dots) -> tuple[Array, Array, Array]:
    """Return matrices with dot products on their diagonals, and zeros elsewhere."""
    shape, size = form.stored.shape, diagonal(form)
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
        self._products = {form.opcode: ReadyProduct(form=form) for form in forms}
        self._entries = {opcode: f"unit_{i}" for i, opcode in enumerate(self._products)}
        programs = {self._entries[opcode]: one.program for opcode, one in self._products.items()}
        compiled = runner.compile(emit_all(programs, module=module))
        if isinstance(compiled, Failure):
            raise InfrastructureError(f"the probes do not compile: {compiled} {compiled.detail}")
        self.compiled: Compiled = compiled

    def multiply(self, form: Form, a: Array, b: Array, c: Array) -> Array:
        """Return what the device makes of some matrices, (count, m, n)."""
        parts = list(self._parts(form, a, b, c))
        return np.concatenate(parts) if len(parts) != 1 else parts[0]

    def _parts(self, form: Form, a: Array, b: Array, c: Array) -> Iterator[Array]:
        product, entry = self._products[form.opcode], self._entries[form.opcode]
        for start in range(0, len(c), _BATCH):
            part = slice(start, start + _BATCH)
            ran = self.runner.run(
                self.compiled, product.images(a[part], b[part], c[part]), entry=entry
            )
            if isinstance(ran, Failure):
                raise InfrastructureError(f"{form.opcode}: {ran} {ran.detail}")
            yield np.array(product.result(ran.images)[: len(c[part])])

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
