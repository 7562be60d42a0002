"""Contents of images: classes of values that tell wrong arithmetic from right.

A recipe is drawn; its expansion to a batch of images is a pure function of recipe and program, by a
counter-based generator. Every byte is random first, gaps and guards included; then each image's
matrices are filled by one of the recipe's classes. Which classes reveal what was measured on
20,000 dot products each (facts of the project, section 5): results of f16 hardly move with
ordinary inputs, and do where sums cancel or fall on ties.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from oracle.formats import Format, Kind
from oracle.image import position
from oracle.program import Program
from oracle.storage import write
from strategies.matrices import inputs

Matrices = dict[str, NDArray[np.float64]]
"""Values of "a", "b" and "c": float64 (images, rows, columns)."""
Formats = dict[str, Format]


class ValueClass(StrEnum):
    """What the matrices of an image hold; integers and single bits know the first three."""

    BITS = "bits"
    """Uniform bits; of floats only finite ones."""
    NORMAL = "normal"
    """Everyday numbers; small integers."""
    EXTREME = "extreme"
    """Large magnitudes whose sums pass the ends of the range, and come back."""
    CANCELLING = "cancelling"
    """C is about the negative of the product: the low bits of the sum are the result."""
    MIRRORED = "mirrored"
    """Pairs of products that cancel, one small term and a small C."""
    WIDE = "wide"
    """Exponents spread evenly over a window."""
    SUBNORMAL = "subnormal"
    """One of A, B and C subnormal, or all so small that the result is."""
    TIES = "ties"
    """A product on the middle between two results, nudged by tiny ones or not at all."""
    SPECIAL = "special"
    """Zeros of both signs, infinities, NaN, the ends of the range among everyday numbers."""


_OF_INTEGERS = (ValueClass.BITS, ValueClass.NORMAL, ValueClass.EXTREME)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What to fill a batch of images with."""

    classes: tuple[ValueClass, ...]
    """Dealt out to the images in turn; those that a format does not know count as BITS."""
    seed: int
    """Key of the counter-based generator, 64 bits."""


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    """Draw a recipe; it shrinks towards plain classes and a small seed."""
    left = draw(st.lists(st.booleans(), min_size=len(ValueClass), max_size=len(ValueClass)))
    classes = tuple(one for one, out in zip(ValueClass, left, strict=True) if not out)
    return Recipe(classes=classes or tuple(ValueClass), seed=draw(st.integers(0, 2**64 - 1)))


def expand(recipe: Recipe, program: Program, count: int) -> NDArray[np.uint8]:
    """Fill images for a program.

    Returns
    -------
    uint8 (count, image_bytes)
    """
    rng = np.random.Generator(np.random.Philox(key=recipe.seed))
    images = rng.integers(0, 256, (count, program.image_bytes), np.uint8)
    matrices = {placed.operand: placed for placed in inputs(program)}
    if not {"a", "b", "c"} <= matrices.keys():
        return images
    formats = {name: placed.tile.matrix.type for name, placed in matrices.items()}
    known = tuple(ValueClass) if formats["a"].is_float else _OF_INTEGERS
    for turn, class_ in enumerate(recipe.classes):
        chosen = images[turn :: len(recipe.classes)]
        shapes = {
            name: (len(chosen), placed.tile.matrix.rows, placed.tile.matrix.columns)
            for name, placed in matrices.items()
        }
        fill = _FILLS[class_ if class_ in known else ValueClass.BITS]
        values = fill(rng, shapes, formats)
        part = np.ascontiguousarray(chosen)
        for name, placed in matrices.items():
            raw = values[name]
            if raw.dtype == np.float64:
                raw = encode(raw, formats[name])
            write(part, position(program, placed.place), placed.tile, raw)
        images[turn :: len(recipe.classes)] = part
    return images


def encode(values: NDArray[np.float64], type_: Format) -> NDArray[Any]:
    """Round values to a format and return their bits, dtype `type_.raw`; integers are clipped."""
    if not type_.is_float:
        low, high = _range(type_)
        return np.clip(np.rint(values), low, high).astype(np.int64).astype(type_.raw)
    dtypes = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64}
    with np.errstate(all="ignore"):
        rounded = values.astype(dtypes.get(type_.name, np.float32))
    return np.ascontiguousarray(rounded).view(type_.raw)


def _range(type_: Format) -> tuple[int, int]:
    if type_.kind is Kind.SIGNED:
        return -(1 << (type_.bits - 1)), (1 << (type_.bits - 1)) - 1
    return 0, (1 << type_.bits) - 1


Shapes = dict[str, tuple[int, int, int]]
_Fill = Callable[[np.random.Generator, Shapes, Formats], dict[str, NDArray[Any]]]


def _raw_bits(
    rng: np.random.Generator, shape: tuple[int, ...], type_: Format, *, exponent: int | None = None
) -> NDArray[Any]:
    """Return uniform bits; of floats finite ones, or those with an exponent field."""
    if not type_.is_float:
        low, high = _range(type_)
        return rng.integers(low, high, shape, np.int64, endpoint=True).astype(type_.raw)
    raw = rng.integers(0, 1 << type_.bits, shape, np.uint64, endpoint=False) if (
        type_.bits < 64
    ) else rng.integers(0, (1 << 64) - 1, shape, np.uint64, endpoint=True)  # fmt: skip
    place = np.uint64(type_.bits - 1 - type_.exponent_bits)
    mask = np.uint64((1 << type_.exponent_bits) - 1) << place
    if exponent is not None:
        raw = (raw & ~mask) | (np.uint64(exponent) << place)
    # Clearing one bit of the field makes infinities and NaN finite.
    raw = np.where(raw & mask == mask, raw & ~(np.uint64(1) << place), raw)
    return raw.astype(type_.raw)


def _bits(rng: np.random.Generator, shapes: Shapes, formats: Formats) -> dict[str, NDArray[Any]]:
    return {name: _raw_bits(rng, shape, formats[name]) for name, shape in shapes.items()}


def _normals(rng: np.random.Generator, shapes: Shapes, scale: float = 1.0) -> Matrices:
    return {name: scale * rng.standard_normal(shape) for name, shape in shapes.items()}


def _normal(rng: np.random.Generator, shapes: Shapes, formats: Formats) -> dict[str, NDArray[Any]]:
    scale = 1.0 if formats["a"].is_float else 3.0
    values = _normals(rng, shapes, scale)
    if not formats["a"].is_float:
        low, _ = _range(formats["a"])
        values = {name: value if low else abs(value) for name, value in values.items()}
    return {**values}


def _extreme(rng: np.random.Generator, shapes: Shapes, formats: Formats) -> dict[str, NDArray[Any]]:
    type_, sum_ = formats["a"], formats["c"]
    count = shapes["a"][0]
    if not type_.is_float:
        low, high = _range(type_)
        values: dict[str, NDArray[Any]] = {
            name: np.where(rng.random(shapes[name]) < 0.5, low, high).astype(type_.raw)
            for name in "ab"
        }
        # Half of the images add up with one sign.
        values["a"][::2], values["b"][::2] = high, high
        near = rng.integers(0, 1 << 12, shapes["c"], np.int64)
        values["c"] = np.where(rng.random(shapes["c"]) < 0.5, 2**31 - 1 - near, near - 2**31)
        return {**values, "c": values["c"].astype(np.int32)}
    # Products just above or below the largest result: the exponents of A and B share it.
    top = float((1 << (min(type_.exponent_bits, sum_.exponent_bits) - 1)) - 1)
    power = rng.uniform(top - 4, top + 1, (count, 1, 1))
    values = _normals(rng, shapes)
    signs = np.where(rng.random(shapes["c"]) < 0.5, -1.0, 1.0)
    with np.errstate(all="ignore"):
        scale = np.exp2(np.floor(power / 2))
        return {
            "a": values["a"] * scale,
            "b": values["b"] * scale,
            "c": signs * np.exp2(np.minimum(np.floor(power), top)) * (1 + rng.random(shapes["c"])),
        }


def _cancelling(
    rng: np.random.Generator, shapes: Shapes, formats: Formats
) -> dict[str, NDArray[Any]]:
    values = _normals(rng, shapes)
    rounded = {name: _decode(encode(values[name], formats[name]), formats[name]) for name in "ab"}
    return {**rounded, "c": -(rounded["a"] @ rounded["b"])}


def _decode(raw: NDArray[Any], type_: Format) -> NDArray[np.float64]:
    """Return the values of finite floats; tf32 by the bits that count."""
    if type_.name == "tf32":
        raw = raw & np.uint32(0xFFFFE000)
    dtypes = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64}
    values: NDArray[np.float64] = raw.view(dtypes.get(type_.name, np.float32)).astype(np.float64)
    return values


def _mirrored(
    rng: np.random.Generator, shapes: Shapes, formats: Formats
) -> dict[str, NDArray[Any]]:
    values = _normals(rng, shapes)
    values["a"][:, :, 1::2] = values["a"][:, :, 0::2]
    values["b"][:, 1::2, :] = -values["b"][:, 0::2, :]
    depth = shapes["a"][2]
    # One term of each image is left over, at any place.
    images, odd = np.arange(shapes["a"][0]), rng.integers(0, depth, shapes["a"][0])
    values["b"][images, odd] *= 1 + np.exp2(-rng.integers(3, 10, (len(images), 1)))
    values["c"] *= np.exp2(-rng.integers(6, 24, shapes["c"]))
    return {**values}


def _wide(rng: np.random.Generator, shapes: Shapes, formats: Formats) -> dict[str, NDArray[Any]]:
    window = rng.integers(2, 15, (shapes["a"][0], 1, 1))
    return {
        name: rng.choice([-1.0, 1.0], shape) * rng.uniform(1, 2, shape)
        * np.exp2(rng.integers(-window, window + 1, shape))
        for name, shape in shapes.items()
    }  # fmt: skip


def _subnormal(
    rng: np.random.Generator, shapes: Shapes, formats: Formats
) -> dict[str, NDArray[Any]]:
    type_, sum_ = formats["a"], formats["c"]
    values = _normals(rng, shapes)
    raw = {name: encode(values[name], formats[name]) for name in "abc"}
    tiny = {name: _raw_bits(rng, shapes[name], formats[name], exponent=0) for name in "abc"}
    # In turn: A or B is subnormal with C of its size, C is with a product of zero, and the
    # product itself is where the range of A and B reaches so far.
    least = np.exp2(1.0 - type_.bias)
    for turn, name in enumerate("ab"):
        raw[name][turn::4] = tiny[name][turn::4]
        raw["c"][turn::4] = encode(least * values["c"][turn::4], sum_)
    raw["a"][2::4] = 0
    raw["c"][2::4] = tiny["c"][2::4]
    half = np.exp2(-(sum_.bias + rng.integers(0, sum_.fraction_bits)) / 2)
    for name in "ab":
        raw[name][3::4] = encode(half * values[name][3::4], type_)
    raw["c"][3::4] = 0
    raw["c"][7::8] = tiny["c"][7::8]
    return raw


def _ties(rng: np.random.Generator, shapes: Shapes, formats: Formats) -> dict[str, NDArray[Any]]:
    """Put one product of each sum half a unit in the last place of C, of D, or of the grid."""
    type_, sum_ = formats["a"], formats["c"]
    bits = rng.choice([sum_.fraction_bits, min(sum_.fraction_bits, 10)], (shapes["a"][0], 1, 1))
    count, rows, depth = shapes["a"]
    a, b = np.zeros(shapes["a"]), np.zeros(shapes["b"])
    images = np.arange(count)
    at = rng.integers(0, depth, count)
    # |C| in [1, 2) with all its bits; A's column and B's row multiply to half of its last place.
    half = np.exp2(-(bits + 1.0))
    c = rng.choice([-1.0, 1.0], shapes["c"])
    c *= 1 + np.floor(rng.random(shapes["c"]) * np.exp2(bits)) * np.exp2(-1.0 * bits)
    first = np.exp2(np.ceil(np.log2(half) / 2))
    a[images, :, at] = (first * rng.choice([-1, 1], (count, rows, 1)))[:, :, 0]
    b[images, at, :] = (half / first)[:, :, 0]
    # A third of the images: C is zero, and the product an odd multiple of half the least step of
    # subnormal results, beside products of two subnormals that lie far below.
    third = images[::3]
    c[third] = 0
    step = 2.0 ** -(sum_.bias + sum_.fraction_bits)
    root = 2.0 ** -((sum_.bias + sum_.fraction_bits) // 2)
    odd = 2.0 * rng.integers(0, 64, (len(third), rows)) + 1
    a[third, :, at[third]] = odd * root
    b[third, at[third], :] = step / root
    other = (at[third] + 1 + rng.integers(0, depth - 1, len(third))) % depth
    least = 2.0 ** (1 - type_.bias - type_.fraction_bits)
    low, high = (rng.integers(-3, 4, (len(third), width)) * least for width in (rows, c.shape[2]))
    a[third, :, other], b[third, other, :] = low * 8, high
    return {"a": a, "b": b, "c": c}


_SPECIALS = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan)


def _special(rng: np.random.Generator, shapes: Shapes, formats: Formats) -> dict[str, NDArray[Any]]:
    values = _normals(rng, shapes)
    raw = {}
    for name, shape in shapes.items():
        type_ = formats[name]
        fields = type_.bits - 1 - type_.exponent_bits
        ends = np.array(
            [
                1,  # the least subnormal
                (1 << fields) - 1,  # the largest
                1 << fields,  # the least normal
                (((1 << type_.exponent_bits) - 1) << fields) - 1,  # the largest finite
                (((1 << type_.exponent_bits) - 1) << fields) | 1,  # a signalling NaN
            ],
            np.uint64,
        )
        ends = np.concatenate([ends, ends | np.uint64(1 << (type_.bits - 1))]).astype(type_.raw)
        table = np.concatenate([encode(np.array(_SPECIALS), type_), ends])
        # From hardly any to one in eight: a NaN hides everything else in its sums.
        share = np.exp2(-rng.integers(3, 9, (shape[0], 1, 1)).astype(np.float64))
        hit = rng.random(shape) < share
        raw[name] = np.where(hit, rng.choice(table, shape), encode(values[name], type_))
        # Every fourth image: zeros of either sign only.
        sign = encode(np.array([0.0, -0.0]), type_)
        raw[name][::4] = rng.choice(sign, raw[name][::4].shape)
    return raw


_FILLS: dict[ValueClass, _Fill] = {
    ValueClass.BITS: _bits,
    ValueClass.NORMAL: _normal,
    ValueClass.EXTREME: _extreme,
    ValueClass.CANCELLING: _cancelling,
    ValueClass.MIRRORED: _mirrored,
    ValueClass.WIDE: _wide,
    ValueClass.SUBNORMAL: _subnormal,
    ValueClass.TIES: _ties,
    ValueClass.SPECIAL: _special,
}
