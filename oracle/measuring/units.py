"""The units of a target that have figures, and random matrices that confirm the figures.

Integer and single-bit units are asked what a sum beyond 32 bits becomes.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.conversions import FLOATS
from oracle.arithmetic.scratch import own_scratch
from oracle.errors import UsageError
from oracle.execution.products import multiply, product
from oracle.isa.forms import Form, Format
from oracle.isa.lookup import FORMS, figures_of, is_available
from oracle.isa.targets import VERSIONS, Module, PtxVersion
from oracle.models import Model

Array = NDArray[Any]
Floats = NDArray[np.float64]


_FORMS = tuple(form for form in FORMS if form.is_product)
_EXACT_SEED = 0x696E_7473
_TOGETHER = 1024  # Matrices that the oracle multiplies in one go: bounds its working memory
_KINDS = 6  # Kinds of random images (`random_tiles`)


@dataclass(frozen=True, kw_only=True)
class MeasuredUnit:
    """What one set of figures is for: forms of the same types; of registers, of one shape."""

    name: str  # As it is shown: "wmma.mma f32.f16.f16.f32", "mma m16n8k8 f32.f16.f16.f32"
    types: str
    forms: tuple[Form, ...]  # The first is the one that the probes use

    @property
    def first(self) -> Form:
        """The form that takes the probes."""
        return self.forms[0]

    @property
    def shapes(self) -> tuple[str, ...]:
        """Names of the shapes for which the figures hold; an empty collection means all shapes."""
        return () if self.first.opaque else (self.first.shape.name,)

    @property
    def kind(self) -> str:
        """Return "dot", "scalar", "double" or "exact"."""
        if not self.first.a_type.is_float:
            return "exact"
        if self.first.groups > 1:
            return "scalar"
        return "double" if self.first.a_type.name == "f64" else "dot"


def module_of_all(target: str, most: PtxVersion | None = None) -> Module:
    """Return a target's module in the first version, up to `most`, that has all of its forms."""
    modules = [
        module
        for version in VERSIONS
        if (most is None or version <= most)
        and (module := Module.named(target, str(version))).exists
    ]
    if not modules:
        raise UsageError(
            f"no PTX ISA version up to {most}, the highest that the compiler reads, knows "
            f"{target}; name a newer compiler, or another --target"
        )
    return max(modules, key=lambda module: sum(is_available(form, module) for form in _FORMS))


def units_of(module: Module, only: str = "*") -> tuple[MeasuredUnit, ...]:
    """Return the units that a module's multiplications of a pattern "wmma.mma.*bf16*" reach."""
    # How many products a multiplication of registers adds up at once depends on the shape (measured
    # on H200, 2026-11-22), so each shape of floats is a unit of its own there.
    grouped: dict[tuple[str, str], list[Form]] = {}
    for form in _FORMS:
        if form.opaque and form.satfinite and form.a_type.is_float:
            continue  # removed in PTX ISA 6.5 (9.7.14.4.5, notes)
        if is_available(form, module) and fnmatchcase(form.opcode, only):
            grouped.setdefault(_unit_of(form), []).append(form)
    if not grouped:
        raise UsageError(
            f"no multiplication of {module} fits {only!r}; "
            "`warpfuzz isa --only '*mma*'` lists those that there are"
        )
    return tuple(
        MeasuredUnit(name=name, types=types, forms=tuple(forms))
        for (name, types), forms in grouped.items()
    )


def _unit_of(form: Form) -> tuple[str, str]:
    types = form.types
    if form.a_type.name == "f64":
        return f"{types} .{form.rounding or 'rn'}", types
    words = [f"{figures_of(form)}{f'.{form.op}.popc' if form.op else ''}"]
    if not form.opaque and form.a_type.is_float:
        words.append(form.shape.name)
    words.append(f"{types}{'.satfinite' if form.satfinite else ''}")
    return " ".join(words), types


def multiplied(form: Form, a: Array, b: Array, c: Array, model: Model) -> Array:
    """Return what a model says of some matrices, (count, m, n)."""
    if form.opaque:
        return multiply(form, a, b, c, model=model)
    d = np.empty((len(c), form.shape.m, form.shape.n), form.d_type.raw)
    # Of an A that metadata place, what is stored is multiplied, of B what it meets.
    for start in range(0, len(c), _TOGETHER):
        part = slice(start, start + _TOGETHER)
        d[part] = product(form, a[part], b[part], c[part], model, own_scratch())
    return d


def exact_tiles(form: Form, count: int, seed: int = _EXACT_SEED) -> tuple[Array, Array, Array]:
    """Return matrices of any elements; half of the C lie where sums leave 32 bits."""
    # Of an A that metadata place they are what is stored of it, and the B that this meets.
    rng = np.random.default_rng(seed)
    made = []
    for operand in "abc":
        matrix = form.stored.matrix(operand)
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


def random_tiles(form: Form, count: int, seed: int) -> tuple[Array, Array, Array]:
    """Return A, B and C of `count` images, (count, rows, columns), as bit patterns."""
    # In turn: any bits; exponents in a window somewhere; exponents near one; products in pairs of
    # both signs; C near minus the sum; small and zero elements. Of sparse forms as `exact_tiles`.
    if not form.a_type.is_float:
        return exact_tiles(form, count, seed)
    rng = np.random.default_rng(seed)
    shape = form.stored.shape
    a = _bits(rng, form.a_type, (count, shape.m, shape.k))
    b = _bits(rng, form.b_type, (count, shape.k, shape.n))
    c = _bits(rng, form.c_type, (count, shape.m, shape.n))
    part = -(-count // _KINDS)
    windows = (None, 12, 3, 2, 3, 4)
    for kind, window in enumerate(windows):
        at = slice(kind * part, (kind + 1) * part)
        if window is None or not len(c[at]):
            continue
        low = kind == 5
        left, right = (
            _center(rng, fmt, len(c[at]), low=low, anywhere=kind == 1)
            for fmt in (form.a_type, form.b_type)
        )
        _window(rng, a[at], form.a_type, left, window)
        _window(rng, b[at], form.b_type, right, window)
        # C where the products are: the sum of their exponents.
        middle = np.clip(
            left - form.a_type.bias + right - form.b_type.bias + form.c_type.bias,
            1, 2 * form.c_type.bias - window,
        )  # fmt: skip
        _window(rng, c[at], form.c_type, middle, window + 2)
        if kind == 3:
            half = shape.k // 2
            sign = a.dtype.type(1 << (form.a_type.bits - 1))
            a[at, :, half : 2 * half] = a[at, :, :half] ^ sign
            b[at, half : 2 * half] = b[at, :half]
            b[at, 0] ^= b.dtype.type(1)
        if kind == 4:
            c[at] = _cancelling(form, a[at], b[at])
        if kind == 5:
            a[at][rng.random(a[at].shape) < 0.3] = 0
            c[at][rng.random(c[at].shape) < 0.5] = 0
    return a, b, c


def _bits(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> Array:
    dtype = np.dtype(fmt.raw)
    return rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def _center(
    rng: np.random.Generator, fmt: Format, count: int, *, low: bool, anywhere: bool
) -> NDArray[np.int64]:
    if anywhere:
        return rng.integers(0, 2 * fmt.bias - 12, count)
    if low:
        # Products near the least numbers of the accumulator; of f16 the least there are.
        most = fmt.bias // 2 + 2 if fmt.exponent_bits > 5 else 5
        return rng.integers(max(0, most - 12), most, count)
    return rng.integers(fmt.bias - 2, fmt.bias + 2, count)


def _window(
    rng: np.random.Generator, bits: Array, fmt: Format, start: NDArray[np.int64], width: int
) -> None:
    """Put exponent fields into start .. start + width - 1, image by image."""
    shift = fmt.bits - 1 - fmt.exponent_bits
    kind = bits.dtype.type
    field = rng.integers(0, width, bits.shape, np.uint8).astype(bits.dtype)
    field += np.maximum(start, 0).astype(bits.dtype)[:, None, None]
    bits &= kind(~(((1 << fmt.exponent_bits) - 1) << shift) & (2**fmt.bits - 1))
    bits |= field << kind(shift)


def _cancelling(form: Form, a: Array, b: Array) -> Array:
    with np.errstate(all="ignore"):
        product = -np.matmul(_values(a, form.a_type), _values(b, form.b_type))
        patterns: Array = product.astype(f"f{form.c_type.bits // 8}").view(form.c_type.raw)
    return patterns


def _values(bits: Array, fmt: Format) -> Array:
    numbers: Array = bits.view(FLOATS[fmt.name])
    return numbers if fmt.name == "f64" else numbers.astype(np.float32)
