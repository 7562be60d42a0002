"""The units of a target, and what they are asked: dot products, as matrices of ordinary programs.

Integer and single-bit units are asked what a sum beyond 32 bits becomes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.availability import is_available
from oracle.errors import InfrastructureError, UsageError
from oracle.formats import Format
from oracle.forms import LoadForm, MmaForm, StoreForm
from oracle.isa import LOAD_FORMS, MMA_FORMS, STORE_FORMS
from oracle.models import Confidence, ExactSum, Figure, Model
from oracle.multiply import multiply
from oracle.places import Buffer, Place
from oracle.program import Program
from oracle.steps import Load, Multiply, Step, Store
from oracle.storage import Tile, read, write
from oracle.targets import Module
from runners.emission import emit_all
from runners.protocol import Compiled, Failure, Images, Runner

Array = NDArray[Any]
Floats = NDArray[np.float64]


def encode(values: Floats, fmt: Format) -> Array:
    """Return the patterns of values that a format holds exactly (or rounds somehow)."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if fmt.name == "f64":
            return np.asarray(values, np.float64).view(np.uint64)
        if fmt.name == "f16":
            return np.asarray(values).astype(np.float16).view(np.uint16)
        words = np.asarray(values).astype(np.float32).view(np.uint32)
    if fmt.name == "bf16":
        return (words >> 16).astype(np.uint16)
    return words & np.uint32(2**32 - (1 << fmt.ignored_bits))


@dataclass(frozen=True, kw_only=True, eq=False)
class Dots:
    """Some dot products a . b + c, one in each row."""

    family: tuple[str, ...]
    """Which family of probes each belongs to."""
    a: Array
    """Patterns, (count, k)."""
    b: Array
    c: Array
    """Patterns, (count,)."""

    def __len__(self) -> int:
        return len(self.c)

    def where(self, chosen: Any) -> Dots:
        """Return some rows: a mask, a slice or indices."""
        index = np.arange(len(self))[chosen]
        return Dots(
            family=tuple(self.family[i] for i in index),
            a=self.a[index], b=self.b[index], c=self.c[index],
        )  # fmt: skip

    def of(self, *families: str) -> NDArray[np.bool_]:
        """Return which rows belong to one of these families."""
        return np.isin(np.array(self.family), families)

    def plus(self, other: Dots) -> Dots:
        """Return these rows and others behind them."""
        return Dots(
            family=self.family + other.family,
            a=np.concatenate([self.a, other.a]),
            b=np.concatenate([self.b, other.b]),
            c=np.concatenate([self.c, other.c]),
        )


class Sheet:
    """A collection of rows in the making, for one unit's formats and depth."""

    def __init__(self, multiplicand: Format, addend: Format, depth: int) -> None:
        self.multiplicand, self.addend, self.depth = multiplicand, addend, depth
        self._parts: list[Dots] = []

    def patterns(self, family: str, a: Array, b: Array, c: Array) -> None:
        """Add rows that are patterns already; they are broadcast together."""
        count = max(len(a), len(b), len(c))
        shape = (count, self.depth)
        self._parts.append(
            Dots(
                family=(family,) * count,
                a=np.ascontiguousarray(np.broadcast_to(a, shape)),
                b=np.ascontiguousarray(np.broadcast_to(b, shape)),
                c=np.ascontiguousarray(np.broadcast_to(c, (count,))),
            )
        )

    def values(self, family: str, a: Floats, b: Floats, c: Floats) -> None:
        """Add rows of numbers, (count, k), (count, k) and (count,)."""
        a, b = (encode(np.atleast_2d(x), self.multiplicand) for x in (a, b))
        self.patterns(family, a, b, encode(np.atleast_1d(c), self.addend))

    def products(self, family: str, products: Floats, c: Floats) -> None:
        """Add rows by their products, (count, k): each a power of two, or zero."""
        products = np.atleast_2d(np.asarray(products, np.float64))
        sign = np.where(np.signbit(products), -1.0, 1.0)
        exponent = np.frexp(products)[1] - 1
        half = exponent // 2
        left = np.where(products == 0.0, 0.0, sign * np.ldexp(1.0, half))
        right = np.where(products == 0.0, 1.0, np.ldexp(1.0, exponent - half))
        self.values(family, left, right, c)

    def dots(self) -> Dots:
        """Return all rows."""
        return joined(self._parts)


def joined(parts: Sequence[Dots]) -> Dots:
    """Put the rows of several together."""
    first, *rest = parts
    for part in rest:
        first = first.plus(part)
    return first


def pairs(depth: int) -> Iterator[tuple[int, int]]:
    """Return every pair of places i < j below `depth`."""
    return ((i, j) for j in range(depth) for i in range(j))


OVERFLOWS = ("wrap", "clamp")
_EXACT_SEED = 0x696E_7473


def figure_of(form: MmaForm) -> str:
    """Return the name of the figure that a form's results depend on."""
    if form.op is not None:
        return "bits"
    return "satfinite" if form.satfinite else "plain"


def exact_tiles(form: MmaForm, count: int, seed: int = _EXACT_SEED) -> tuple[Array, Array, Array]:
    """Return matrices of any elements; half of the C lie where sums leave 32 bits."""
    rng = np.random.default_rng(seed)
    made = []
    for operand in "abc":
        matrix = form.matrix(operand)
        dtype = np.dtype(matrix.type.raw)
        bits = min(matrix.type.bits, 8 * dtype.itemsize)
        least = -(1 << (bits - 1)) if dtype.kind == "i" else 0
        shape = (count, matrix.rows, matrix.columns)
        made.append(rng.integers(least, least + (1 << bits), shape, np.int64).astype(dtype))
    a, b, c = made
    part = c[: count // 2]
    near = rng.integers(0, 64, part.shape, np.int64)
    low = rng.integers(0, 2, part.shape, np.bool_)
    part[...] = np.where(low, -(2**31) + near, 2**31 - 1 - near).astype(np.int32)
    return a, b, c


def exact_result(form: MmaForm, overflow: str, a: Array, b: Array, c: Array) -> Array:
    """Return D where sums beyond 32 bits wrap or are clamped."""
    figure = Figure(value=overflow, confidence=Confidence.MEASURED, source="")
    model = Model(
        target="sm_90", base="sm_90", dots=(), doubles=None,
        exact=ExactSum(plain=figure, satfinite=figure, bits=figure),
    )  # fmt: skip
    return multiply(form, a, b, c, model=model)


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
