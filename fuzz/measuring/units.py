"""The units of a target, and how probes reach them: as matrices of ordinary programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.measuring.dots import Dots
from oracle.availability import is_available
from oracle.errors import InfrastructureError, UsageError
from oracle.forms import LoadForm, MmaForm, StoreForm
from oracle.isa import LOAD_FORMS, MMA_FORMS, STORE_FORMS
from oracle.places import Buffer, Place
from oracle.program import Program
from oracle.steps import Load, Multiply, Step, Store
from oracle.storage import Tile, read, write
from oracle.targets import Module
from runners.emission import emit_all
from runners.protocol import Compiled, Failure, Images, Runner

Array = NDArray[Any]

_SPACE = "global"
_BATCH = 8192
"""Images of one launch: enough to fill a GPU, and few enough to bound memory at 32 MiB."""


@dataclass(frozen=True, kw_only=True)
class MeasuredUnit:
    """What one set of figures is for: all forms of the same types, whatever their shapes."""

    name: str
    """As it is shown: "wmma.mma f32.f16.f16.f32"."""
    types: str
    """Formats of D, A, B and C."""
    forms: tuple[MmaForm, ...]
    """The first is the one that the probes use."""

    @property
    def first(self) -> MmaForm:
        """The form that takes the probes."""
        return self.forms[0]

    @property
    def kind(self) -> str:
        """Return "dot", "double" or "exact"."""
        if not self.first.a_type.is_float:
            return "exact"
        return "double" if self.first.a_type.name == "f64" else "dot"


def units_of(module: Module, only: str = "*") -> tuple[MeasuredUnit, ...]:
    """Return the units that a target's forms of wmma.mma reach.

    Parameters
    ----------
    module
        Which target, and which PTX ISA version.
    only
        Pattern of the opcodes that count: "wmma.mma.*bf16*".

    Raises
    ------
    UsageError
        If no form fits.
    """
    grouped: dict[tuple[str, str], list[MmaForm]] = {}
    for form in MMA_FORMS:
        if form.satfinite and form.a_type.is_float:
            continue  # removed in PTX ISA 6.5 (9.7.14.4.5, notes)
        if not is_available(form, module) or not fnmatchcase(form.opcode, only):
            continue
        types = ".".join(one.name for one in (form.d_type, form.a_type, form.b_type, form.c_type))
        words = [form.mnemonic]
        words += [f".{form.op}.popc"] if form.op else []
        words += [f" .{form.rounding or 'rn'}"] if form.a_type.name == "f64" else []
        words += [f" {types}"] + ([".satfinite"] if form.satfinite else [])
        grouped.setdefault(("".join(words), types), []).append(form)
    if not grouped:
        raise UsageError(
            f"no form of wmma.mma of {module} fits {only!r}; `warpfuzz isa --only 'wmma.mma*'` "
            "lists those that there are"
        )
    return tuple(
        MeasuredUnit(name=name, types=types, forms=tuple(forms))
        for (name, types), forms in grouped.items()
    )


@dataclass(frozen=True, kw_only=True)
class Bench:
    """One multiplication, ready to run: where its matrices lie in an image."""

    form: MmaForm

    @cached_property
    def program(self) -> Program:
        """Load A, B and C, multiply, store D."""
        layouts = {"a": self.form.a_layout, "b": self.form.b_layout, "c": "row"}
        steps: list[Step] = [
            Load(
                form=_load_forms()[name, layout, self.form.shape.name, self._type(name)],
                fragment=name,
                place=Place(buffer=name),
            )
            for name, layout in layouts.items()
        ]
        steps.append(Multiply(form=self.form, d="r", a="a", b="b", c="c"))
        store = _store_forms()["row", self.form.shape.name, self._type("d")]
        steps.append(Store(form=store, fragment="r", place=Place(buffer="d")))
        buffers = tuple(
            Buffer(name=name, space="global", size=self.tile(name).extent) for name in "abcd"
        )
        return Program(buffers=buffers, steps=tuple(steps))

    def _type(self, operand: str) -> str:
        return self.form.matrix(operand).type.name

    def tile(self, operand: str) -> Tile:
        """Return how a matrix lies."""
        layouts = {"a": self.form.a_layout, "b": self.form.b_layout}
        return Tile(matrix=self.form.matrix(operand), layout=layouts.get(operand, "row"))

    def images(self, a: Array, b: Array, c: Array) -> Images:
        """Return the images that hold some matrices, (count, rows, columns) each."""
        images = np.zeros((len(c), self.program.image_bytes), np.uint8)
        for name, values in (("a", a), ("b", b), ("c", c)):
            write(images, self.program.offset(name), self.tile(name), values)
        return images

    def result(self, images: Images) -> Array:
        """Return D of some images, (count, m, n)."""
        return read(images, self.program.offset("d"), self.tile("d"))

    @property
    def diagonal(self) -> int:
        """Dot products of one image: those of the diagonal, each with a row and a column."""
        return min(self.form.shape.m, self.form.shape.n)

    def tiles(self, dots: Dots) -> tuple[Array, Array, Array]:
        """Return matrices with dot products on their diagonals, and zeros elsewhere."""
        shape, size = self.form.shape, self.diagonal
        count = -(-len(dots) // size)
        a = np.zeros((count, shape.m, shape.k), dots.a.dtype)
        b = np.zeros((count, shape.k, shape.n), dots.b.dtype)
        c = np.zeros((count, shape.m, shape.n), dots.c.dtype)
        tile, place = np.divmod(np.arange(len(dots)), size)
        a[tile, place], b[tile, :, place], c[tile, place, place] = dots.a, dots.b, dots.c
        return a, b, c

    def diagonals(self, d: Array, count: int) -> Array:
        """Return what became of the dot products of `tiles`."""
        tile, place = np.divmod(np.arange(count), self.diagonal)
        return np.asarray(d[tile, place, place])


def _load_forms() -> Mapping[tuple[str, str, str, str], LoadForm]:
    return {
        (form.operand, form.layout, form.shape.name, form.type.name): form
        for form in LOAD_FORMS
        if form.space == _SPACE
    }


def _store_forms() -> Mapping[tuple[str, str, str], StoreForm]:
    return {
        (form.layout, form.shape.name, form.type.name): form
        for form in STORE_FORMS
        if form.space == _SPACE
    }


class Device:
    """A runner that multiplies matrices.

    Parameters
    ----------
    runner
        Where it runs.
    module
        What the modules are written for.
    forms
        What it has to be able to multiply; they are compiled together.

    Raises
    ------
    InfrastructureError
        If the runner does not take the module.
    """

    def __init__(self, runner: Runner, module: Module, forms: Sequence[MmaForm]) -> None:
        self.runner = runner
        self.benches = {form.opcode: Bench(form=form) for form in forms}
        self._entries = {opcode: f"unit_{i}" for i, opcode in enumerate(self.benches)}
        programs = {self._entries[opcode]: bench.program for opcode, bench in self.benches.items()}
        compiled = runner.compile(emit_all(programs, module=module))
        if isinstance(compiled, Failure):
            raise InfrastructureError(f"the probes do not compile: {compiled} {compiled.detail}")
        self.compiled: Compiled = compiled

    def multiply(self, form: MmaForm, a: Array, b: Array, c: Array) -> Array:
        """Return what the device makes of some matrices, (count, m, n).

        Raises
        ------
        InfrastructureError
            If it fails on them.
        """
        bench = self.benches[form.opcode]
        parts = list(self._parts(bench, a, b, c))
        return np.concatenate(parts) if len(parts) != 1 else parts[0]

    def _parts(self, bench: Bench, a: Array, b: Array, c: Array) -> Iterator[Array]:
        entry = self._entries[bench.form.opcode]
        for start in range(0, len(c), _BATCH):
            part = slice(start, start + _BATCH)
            ran = self.runner.run(
                self.compiled, bench.images(a[part], b[part], c[part]), entry=entry
            )
            if isinstance(ran, Failure):
                raise InfrastructureError(f"{bench.form.opcode}: {ran} {ran.detail}")
            yield np.array(bench.result(ran.images))

    def dots(self, form: MmaForm, dots: Dots) -> Array:
        """Return what the device makes of dot products, patterns (count,)."""
        bench = self.benches[form.opcode]
        return bench.diagonals(self.multiply(form, *bench.tiles(dots)), len(dots))
