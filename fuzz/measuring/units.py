"""The units of a target, and what they are asked: dot products, as matrices of ordinary programs.

Integer and single-bit units are asked what a sum beyond 32 bits becomes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from oracle.availability import is_available
from oracle.errors import InfrastructureError, UsageError
from oracle.formats import Format
from oracle.forms import LoadForm, MmaForm, MmaSyncForm, ProductForm, StoreForm
from oracle.held import Registers
from oracle.isa import LOAD_FORMS, MMA_FORMS, MMA_SYNC_FORMS, STORE_FORMS
from oracle.lane_fragments import pack, unpack
from oracle.lane_steps import LoadRegisters, MultiplyLanes, StoreRegisters
from oracle.matrices import LANES
from oracle.models import Confidence, ExactSum, Figure, Model
from oracle.multiply import multiply, product
from oracle.places import Buffer, Place
from oracle.program import Program
from oracle.scratch import own_scratch
from oracle.steps import Load, Multiply, Step, Store
from oracle.storage import Tile, read, write
from oracle.targets import VERSIONS, Module
from runners.emission import emit_all
from runners.protocol import Compiled, Failure, Images, Runner

Array = NDArray[Any]
Floats = NDArray[np.float64]


NUMBERS: dict[str, Any] = {
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "f16": np.float16,
}  # fmt: skip
"""Dtypes of the formats of 8 and 16 bits that have one."""


_LARGEST = {"e4m3": 448.0, "e5m2": 57344.0}
"""Largest numbers (OCP 8-bit Floating Point Specification 1.0, table 1)."""


def encode(values: Floats, fmt: Format) -> Array:
    """Return the patterns of values that a format holds exactly (or rounds somehow)."""
    if fmt.bits == 8:
        most = _LARGEST[fmt.name]
        values = np.where(np.isfinite(values), np.clip(values, -most, most), values)
        return np.asarray(values.astype(NUMBERS[fmt.name]).view(np.uint8))
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
    """A collection of rows in the making, for one unit's formats and depth.

    `multiplicand` is the format of A, and, where B has another, the narrower range of both.
    """

    def __init__(self, a: Format, b: Format, addend: Format, depth: int) -> None:
        self.a, self.b, self.addend, self.depth = a, b, addend, depth
        self.multiplicand = min(a, b, key=lambda fmt: fmt.exponent_bits)
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
        left, right = encode(np.atleast_2d(a), self.a), encode(np.atleast_2d(b), self.b)
        self.patterns(family, left, right, encode(np.atleast_1d(c), self.addend))

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


_FORMS: tuple[ProductForm, ...] = (*MMA_FORMS, *MMA_SYNC_FORMS)
OVERFLOWS = ("wrap", "clamp")
_EXACT_SEED = 0x696E_7473


def multiplied(form: ProductForm, a: Array, b: Array, c: Array, model: Model) -> Array:
    """Return what a model says of some matrices, (count, m, n)."""
    if isinstance(form, MmaForm):
        return multiply(form, a, b, c, model=model)
    d = np.empty((len(c), form.shape.m, form.shape.n), form.d_type.raw)
    for start in range(0, len(c), _TOGETHER):
        part = slice(start, start + _TOGETHER)
        d[part] = product(form, a[part], b[part], c[part], model, own_scratch())
    return d


_TOGETHER = 1024
"""Matrices that the oracle multiplies in one go: bounds its working memory."""


def figure_of(form: ProductForm) -> str:
    """Return the name of the figure that a form's results depend on."""
    if form.op is not None:
        return "bits"
    return "satfinite" if form.satfinite else "plain"


def exact_tiles(
    form: ProductForm, count: int, seed: int = _EXACT_SEED
) -> tuple[Array, Array, Array]:
    """Return matrices of any elements; half of the C lie where sums leave 32 bits."""
    rng = np.random.default_rng(seed)
    made = []
    for operand in "abc":
        matrix = form.matrix(operand)
        dtype = np.dtype(matrix.type.raw)
        bits = min(matrix.type.bits, 8 * dtype.itemsize)
        least = -(1 << (bits - 1)) if dtype.kind == "i" else 0
        shape = (count, matrix.rows, matrix.columns)
        made.append(rng.integers(least, least + (1 << bits) - 1, shape, dtype, endpoint=True))
    a, b, c = made
    part = c[: count // 2]
    near = rng.integers(0, 64, part.shape, np.int64)
    low = rng.integers(0, 2, part.shape, np.bool_)
    part[...] = np.where(low, -(2**31) + near, 2**31 - 1 - near).astype(np.int32)
    return a, b, c


def exact_result(form: ProductForm, overflow: str, a: Array, b: Array, c: Array) -> Array:
    """Return D where sums beyond 32 bits wrap or are clamped."""
    figure = Figure(value=overflow, confidence=Confidence.MEASURED, source="")
    model = Model(
        target="sm_90", base="sm_90", dots=(), doubles=None,
        exact=ExactSum(plain=figure, satfinite=figure, bits=figure),
    )  # fmt: skip
    return multiplied(form, a, b, c, model)


_SPACE = "global"
_BATCH = 8192
"""Images of one launch: enough to fill a GPU, and few enough to bound memory at 32 MiB."""


@dataclass(frozen=True, kw_only=True)
class MeasuredUnit:
    """What one set of figures is for: forms of the same types; of mma.sync, of one shape."""

    name: str
    """As it is shown: "wmma.mma f32.f16.f16.f32", "mma m16n8k8 f32.f16.f16.f32"."""
    types: str
    """Formats of D, A, B and C."""
    forms: tuple[ProductForm, ...]
    """The first is the one that the probes use."""

    @property
    def first(self) -> ProductForm:
        """The form that takes the probes."""
        return self.forms[0]

    @property
    def shapes(self) -> tuple[str, ...]:
        """Names of the shapes that the figures are for; none stands for all."""
        return () if isinstance(self.first, MmaForm) else (self.first.shape.name,)

    @property
    def kind(self) -> str:
        """Return "dot", "scalar", "double" or "exact"."""
        if not self.first.a_type.is_float:
            return "exact"
        if isinstance(self.first, MmaSyncForm) and self.first.groups > 1:
            return "scalar"
        return "double" if self.first.a_type.name == "f64" else "dot"


def module_of_all(target: str) -> Module:
    """Return a target's module in the first PTX ISA version that has all of its forms."""
    modules = [
        module for version in VERSIONS if (module := Module.named(target, str(version))).exists
    ]
    return max(modules, key=lambda module: sum(is_available(form, module) for form in _FORMS))


def units_of(module: Module, only: str = "*") -> tuple[MeasuredUnit, ...]:
    """Return the units that a target's forms of wmma.mma and mma.sync reach.

    How many products mma.sync adds up at once depends on its shape (measured on H200,
    2026-11-22), so each shape of floats is a unit of its own there.

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
    grouped: dict[tuple[str, str], list[ProductForm]] = {}
    for form in _FORMS:
        if isinstance(form, MmaForm) and form.satfinite and form.a_type.is_float:
            continue  # removed in PTX ISA 6.5 (9.7.14.4.5, notes)
        if is_available(form, module) and fnmatchcase(form.opcode, only):
            grouped.setdefault(_unit_of(form), []).append(form)
    if not grouped:
        raise UsageError(
            f"no form of wmma.mma or mma.sync of {module} fits {only!r}; `warpfuzz isa --only "
            "'*mma*'` lists those that there are"
        )
    return tuple(
        MeasuredUnit(name=name, types=types, forms=tuple(forms))
        for (name, types), forms in grouped.items()
    )


def _unit_of(form: ProductForm) -> tuple[str, str]:
    """Return name and types of the unit of a form."""
    types = ".".join(one.name for one in (form.d_type, form.a_type, form.b_type, form.c_type))
    if form.a_type.name == "f64":
        return f"{types} .{form.rounding or 'rn'}", types
    words = [f"{form.mnemonic}{f'.{form.op}.popc' if form.op else ''}"]
    if isinstance(form, MmaSyncForm) and form.a_type.is_float:
        words.append(form.shape.name)
    words.append(f"{types}{'.satfinite' if form.satfinite else ''}")
    return " ".join(words), types


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


@dataclass(frozen=True, kw_only=True)
class LaneBench:
    """One mma.sync, ready to run: its operands lie in an image as registers, lane by lane."""

    form: MmaSyncForm

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
        steps.append(MultiplyLanes(form=self.form, d="d", a="a", b="b", c="c"))
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


def diagonal(form: ProductForm) -> int:
    """Return the dot products of one image: those of the diagonal, each with a row and a column."""
    return min(form.shape.m, form.shape.n)


def tiles_of(form: ProductForm, dots: Dots) -> tuple[Array, Array, Array]:
    """Return matrices with dot products on their diagonals, and zeros elsewhere."""
    shape, size = form.shape, diagonal(form)
    count = -(-len(dots) // size)
    a = np.zeros((count, shape.m, shape.k), dots.a.dtype)
    b = np.zeros((count, shape.k, shape.n), dots.b.dtype)
    c = np.zeros((count, shape.m, shape.n), dots.c.dtype)
    tile, place = np.divmod(np.arange(len(dots)), size)
    a[tile, place], b[tile, :, place], c[tile, place, place] = dots.a, dots.b, dots.c
    return a, b, c


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

    def __init__(self, runner: Runner, module: Module, forms: Sequence[ProductForm]) -> None:
        self.runner = runner
        self.benches: dict[str, Bench | LaneBench] = {
            form.opcode: Bench(form=form) if isinstance(form, MmaForm) else LaneBench(form=form)
            for form in forms
        }
        self._entries = {opcode: f"unit_{i}" for i, opcode in enumerate(self.benches)}
        programs = {self._entries[opcode]: bench.program for opcode, bench in self.benches.items()}
        compiled = runner.compile(emit_all(programs, module=module))
        if isinstance(compiled, Failure):
            raise InfrastructureError(f"the probes do not compile: {compiled} {compiled.detail}")
        self.compiled: Compiled = compiled

    def multiply(self, form: ProductForm, a: Array, b: Array, c: Array) -> Array:
        """Return what the device makes of some matrices, (count, m, n).

        Raises
        ------
        InfrastructureError
            If it fails on them.
        """
        parts = list(self._parts(form, a, b, c))
        return np.concatenate(parts) if len(parts) != 1 else parts[0]

    def _parts(self, form: ProductForm, a: Array, b: Array, c: Array) -> Iterator[Array]:
        bench, entry = self.benches[form.opcode], self._entries[form.opcode]
        for start in range(0, len(c), _BATCH):
            part = slice(start, start + _BATCH)
            ran = self.runner.run(
                self.compiled, bench.images(a[part], b[part], c[part]), entry=entry
            )
            if isinstance(ran, Failure):
                raise InfrastructureError(f"{form.opcode}: {ran} {ran.detail}")
            yield np.array(bench.result(ran.images)[: len(c[part])])

    def dots(self, form: ProductForm, dots: Dots) -> Array:
        """Return what the device makes of dot products, patterns (count,)."""
        d = self.multiply(form, *tiles_of(form, dots))
        tile, place = np.divmod(np.arange(len(dots)), diagonal(form))
        return np.asarray(d[tile, place, place])
