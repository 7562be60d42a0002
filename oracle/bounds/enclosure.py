"""What the ISA permits products of floats on any target: `docs/oracle.md`, "The enclosure"."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.conversions import own_scratch, two_sum
from oracle.arithmetic.dots import dot_product
from oracle.arithmetic.doubles import Decoded, two_product
from oracle.errors import UsageError
from oracle.execution.execution import (
    S32_GREATEST,
    S32_LEAST,
    flat_operands,
    multiply,
    multiply_lanes,
)
from oracle.isa.forms import FORMATS, Form, Format
from oracle.isa.lookup import another_needed, form_of
from oracle.layouts import (
    by_row,
    check_operands,
    chunks,
    defined_rows,
    met,
    of_rows,
    places,
    row_form,
    unpack,
)
from oracle.models import TruncatedDot, model_for
from oracle.models.files import built_in_model

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]
Bounds = tuple[Floats, Floats, Bools]
Classes = NDArray[np.float32]
"""0, 1, -1, infinities and NaN: their IEEE sum is special exactly where the operands' is."""

_LEAST_FRAME = -1300
"""Frames below this are raised to it, so that 2^-1074 is representable inside the frame."""
_FAR = -400
"""Terms this far below the frame are raised to it: what they add is far below the margin."""
_DOUBLE_MARGIN = 2.0**-95
_GROWTH = 1 + 2.0**-45
"""1 + 2 m 2^-52 with m of 17 at most, and the rounding of the sums of magnitudes."""


@dataclass(frozen=True)
class _Doubles:
    """Elements of one operand; infinite and NaN ones count as 0, but have their class."""

    decoded: Decoded
    grids: Floats
    """Largest power of two that divides the significand in [0.5, 1); infinite for 0."""
    classes: NDArray[np.float32]

    @classmethod
    def of(cls, bits: NDArray[np.uint64]) -> _Doubles:
        values = bits.view(np.float64)
        finite = np.isfinite(values)
        decoded = Decoded.of(np.where(finite, bits, np.uint64(0)))
        field = (bits >> np.uint64(52)).astype(np.int64) & 0x7FF
        fraction = bits.view(np.int64) & ((1 << 52) - 1)
        significand = fraction | ((field > 0).astype(np.int64) << 52)
        lowest = (significand & -significand).astype(np.float64)
        grids = np.ldexp(lowest, np.maximum(field, 1) - 1075 - decoded.exponent)
        present = finite & (values != 0.0)
        classes = np.where(finite, np.sign(values), values).astype(np.float32)
        return cls(decoded, np.where(present, grids, np.inf), classes)

    def scaled(self, frame: Ints) -> Floats:
        exponent = np.maximum(self.decoded.exponent - frame, _FAR)
        scaled: Floats = np.ldexp(self.decoded.significand, exponent)
        return scaled


def double_chunk(
    form: Form, a_bits: NDArray[Any], b_bits: NDArray[Any], c_low_bits: NDArray[Any],
    c_high_bits: NDArray[Any],
) -> Bounds:  # fmt: skip
    """Bound one chunk of f64; shapes (k, m, tiles), (k, n, tiles), (m, n, tiles)."""
    a, b = _Doubles.of(a_bits[:, :, None]), _Doubles.of(b_bits[:, None])
    c_low, c_high = _Doubles.of(c_low_bits), _Doubles.of(c_high_bits)
    frame = np.maximum(c_low.decoded.exponent, c_high.decoded.exponent)
    for left, right in zip(a.decoded.exponent, b.decoded.exponent, strict=True):
        frame = np.maximum(frame, left + right)
    frame = np.maximum(frame, _LEAST_FRAME)

    ends = c_low.scaled(frame), c_high.scaled(frame)
    apart = are_apart(c_low.classes, c_high.classes) | (c_low_bits != c_high_bits)
    positive, negative = np.maximum(ends[1], 0.0), np.maximum(-ends[0], 0.0)
    positive[apart & np.isposinf(c_high.classes)] = np.inf
    negative[apart & np.isneginf(c_low.classes)] = np.inf
    scaled = np.ldexp(c_low.grids, np.maximum(c_low.decoded.exponent - frame, 2 * _FAR))
    grids = [np.where(apart, 0.0, scaled)]
    head, tail = np.zeros_like(positive), np.zeros_like(positive)
    for k in range(len(a_bits)):
        left, right = a.decoded.at(k), b.decoded.at(k)
        shift = left.exponent + right.exponent - frame
        scale = np.ldexp(1.0, np.maximum(shift, _FAR))
        product, error = two_product(left, right)
        product, error = product * scale, error * scale
        head, rest = two_sum(head, product)
        tail += rest + error
        positive += np.maximum(product, 0.0)
        negative += np.maximum(-product, 0.0)
        grids.append(np.ldexp(a.grids[k] * b.grids[k], np.maximum(shift, 2 * _FAR)))

    total = positive + negative
    positive, negative = positive * _GROWTH, negative * _GROWTH
    _, exponent = np.frexp(np.maximum(positive, negative))
    unit = np.maximum(np.ldexp(1.0, exponent - 53), np.ldexp(1.0, -1074 - frame))
    error = sum((np.maximum(unit - grid, 0.0) for grid in grids), np.zeros_like(unit))
    down = 0.0 if form.rounding == "rp" else error
    up = 0.0 if form.rounding == "rm" else error
    # Without an error all leaves are multiples of `unit`, and the sum of doubles is exact.
    margin = np.where(error > 0.0, total * _DOUBLE_MARGIN, 0.0)
    low = _inward(*_sum(head, tail, ends[0], -down - margin), frame, np.inf)
    high = _inward(*_sum(head, tail, ends[1], up + margin), frame, -np.inf)

    positive, negative = np.ldexp(positive, frame), np.ldexp(negative, frame)
    over, under = np.isinf(positive), np.isinf(negative)
    low = np.where(under, -np.inf, np.where(over, -negative, low))
    high = np.where(over, np.inf, np.where(under, positive, high))
    classes = class_sum(a.classes, b.classes, c_low.classes, c_high.classes)
    return with_special((low, high, over & under), over, under, classes, classes)


def _sum(head: Floats, tail: Floats, c: Floats, error: Floats) -> tuple[Floats, Floats]:
    """Return head + tail + c + error as a double and what is left."""
    upper, rest = two_sum(head, c)
    return two_sum(upper, tail + rest + error)


def _inward(value: Floats, rest: Floats, frame: Ints, toward: float) -> Floats:
    """Return the nearest double to (value + rest) * 2^frame in one direction."""
    direction = 1.0 if toward > 0 else -1.0
    value = np.where(rest * direction > 0.0, np.nextafter(value, toward), value)
    result = np.ldexp(value, frame)
    short = np.ldexp(result, -frame) * direction < value * direction
    return np.where(short, np.nextafter(result, toward), result)


def are_apart(low: Classes, high: Classes) -> Bools:
    """Return where an element may be of several classes; two NaNs are one class."""
    apart: Bools = (low != high) & ~(np.isnan(low) & np.isnan(high))
    return apart


def class_sum(a: Classes, b: Classes, c_low: Classes, c_high: Classes) -> Classes:
    """Sum over k of a * b (k, m, 1, tiles), (k, 1, n, tiles), and c where that is of one class."""
    total = np.where(are_apart(c_low, c_high), np.float32(0), c_low)
    for left, right in zip(a, b, strict=True):
        total += left * right
    return total


def with_special(
    bounds: Bounds, over: Bools, under: Bools, kept: Classes, flushed: Classes
) -> Bounds:
    """Put what special operands permit over bounds; `kept`, `flushed`: subnormals in class sums."""
    low, high, nan_ok = bounds
    infinite, nan = np.isinf(kept), np.isnan(kept)
    decided = infinite | nan
    low, high = np.where(decided, kept, low), np.where(decided, kept, high)
    nan_ok = np.where(infinite, np.where(kept > 0, under, over), nan_ok) | nan | np.isnan(flushed)
    return low, high, nan_ok


_CHUNK_TILES = 64
"""Tiles bounded together: 128 KiB for each float64 array of 16 x 16 matrices, 4 MiB in all."""
_MARGIN = 2.0**-46
"""Relative allowance for sums of at most 33 terms, each off by 33 * 2^-53, and a few more."""
_FLOATS: dict[str, Any] = {"f16": np.float16, "f32": np.float32}


def enclosure(
    form: Form, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any],
    c_high: NDArray[Any] | None = None,
) -> Bounds:  # fmt: skip
    """Return low, high and whether NaN is permitted, (..., m, n), of a product on any target.

    `a`, `b`, `c`: Raw bit patterns, (..., m, k), (..., k, n) and (..., m, n).
    `c_high`: If given, each element of C may be any number from `c` to `c_high`. (Bounds at both
    ends do not bound the inside.) Bounds are float64, NaN where only NaN is permitted.
    """
    upper = c if c_high is None else c_high
    leading = check_operands(form, a, b, c)
    check_operands(form, a, b, upper)
    size = (prod(leading), form.shape.m, form.shape.n)
    low, high, nan_ok = np.empty(size), np.empty(size), np.empty(size, np.bool_)
    chunk = double_chunk if form.a_type.name == "f64" else _chunk
    short = _short_sums(form)
    pairs = (chunks(form, _CHUNK_TILES, a, b, addend) for addend in (c, upper))
    with np.errstate(all="ignore"):
        for (part, left, right, least), (_, _, _, most) in zip(*pairs, strict=True):
            others = (one.transpose(1, 2, 0) for one in (right, least, most))
            turned = map(np.ascontiguousarray, (left.transpose(2, 1, 0), *others))
            bounds = chunk(form, *turned)
            for whole, piece in zip((low, high, nan_ok), bounds, strict=True):
                whole[part] = piece.transpose(2, 0, 1)
            if short is not None:
                d = dot_product(left, right, least, rule=short, scratch=own_scratch())
                also = d.transpose(2, 0, 1).view(np.float32)
                np.fmin(low[part], also, out=low[part], where=~np.isnan(low[part]))
                np.fmax(high[part], also, out=high[part], where=~np.isnan(high[part]))
    shape = (*leading, *size[1:])
    return low.reshape(shape), high.reshape(shape), nan_ok.reshape(shape)


def _short_sums(form: Form) -> TruncatedDot | None:
    """Return the arithmetic of Ada that keeps less of a form's sums than the ISA promises."""
    if form.a_type.bits > 8:
        return None
    ada = (row for row in built_in_model("sm_89").dots if row.types == form.types)
    return next((row for row in ada if row.sum_bits is not None), None)


@dataclass(frozen=True, kw_only=True)
class _Numbers:
    values: Floats
    """Finite elements; 0 for infinite and NaN ones."""
    classes: NDArray[np.float32]
    """0, 1, -1, infinities and NaN: what matters where operands are special."""
    grids: Floats
    """Largest power of two that divides the element; infinite for 0."""
    powers: Floats
    """2^exponent, a subnormal's being the least normal exponent; 0 for 0."""
    subnormal: Bools
    special: bool

    @classmethod
    def of(cls, bits: NDArray[Any], fmt: Format) -> _Numbers:
        magnitude = (bits.astype(np.int64) & ((1 << (fmt.bits - 1)) - 1)) >> fmt.ignored_bits
        field = magnitude >> fmt.fraction_bits
        fraction = magnitude & ((1 << fmt.fraction_bits) - 1)
        negative = (bits >> (fmt.bits - 1)).astype(np.bool_)
        significand = fraction | ((field > 0).astype(np.int64) << fmt.fraction_bits)
        exponent = np.maximum(field, 1) - fmt.bias
        infinite = field == (1 << fmt.exponent_bits) - 1
        if not fmt.has_infinity:  # its largest exponent has numbers, and a NaN behind them
            infinite &= fraction == (1 << fmt.fraction_bits) - 1
        unit = np.ldexp(1.0, exponent - fmt.fraction_bits)
        size = np.where(infinite, 0.0, significand * unit)
        lowest = np.where(infinite, 0, significand & -significand) * unit
        kind = np.where(infinite, np.where(fraction, np.nan, np.inf), size != 0.0)
        return cls(
            values=np.where(negative, -size, size),
            classes=np.where(negative, -kind, kind).astype(np.float32),
            grids=np.where(lowest == 0.0, np.inf, lowest),
            powers=np.where(size != 0.0, np.ldexp(1.0, exponent), 0.0),
            subnormal=(field == 0) & (fraction != 0),
            special=bool(infinite.any()),
        )

    @property
    def flushed(self) -> NDArray[np.float32]:
        return np.where(self.subnormal, np.float32(0), self.classes)


def _chunk(
    form: Form, a_bits: NDArray[Any], b_bits: NDArray[Any], c_low_bits: NDArray[Any],
    c_high_bits: NDArray[Any],
) -> Bounds:  # fmt: skip
    """Bound one chunk; shapes (k, m, tiles), (k, n, tiles), (m, n, tiles)."""
    a = _Numbers.of(a_bits[:, :, None], form.a_type)
    b = _Numbers.of(b_bits[:, None], form.b_type)
    c_low = _Numbers.of(c_low_bits, form.c_type)
    c_high = _Numbers.of(c_high_bits, form.c_type)
    half = form.c_type.name == form.d_type.name == "f16"
    accumulator = FORMATS["f16" if half else "f32"]
    short = _short_sums(form)
    precision: Any = accumulator.fraction_bits
    if short is not None:
        least = short.sum_format.fraction_bits
        precision = np.where(c_low_bits != c_high_bits, least, precision)
    terms = len(a.values) + 1

    leaves = _Leaves(a, b, c_low, c_high)
    total = leaves.positive + leaves.negative
    growth = 1 + 2 * terms * 2.0**-precision + _MARGIN
    positive, negative = leaves.positive * growth, leaves.negative * growth
    _, exponent = np.frexp(np.maximum(np.maximum(positive, negative), leaves.power))
    unit = np.ldexp(1.0, exponent - (1 + precision))
    unit = np.maximum(unit, 2.0 ** (1 - accumulator.bias))
    error = leaves.error(unit)
    # Without an error all leaves are multiples of `unit`, and float64 adds them exactly.
    error = np.where(error > 0.0, (error + total * _MARGIN) * (1 + _MARGIN), 0.0)
    low = _toward(leaves.low - error, accumulator, np.inf)
    high = _toward(leaves.high + error, accumulator, -np.inf)

    greatest = float(np.finfo(_FLOATS[accumulator.name]).max)
    over, under = positive > greatest, negative > greatest
    nan_ok = over & under
    low = np.where(over, np.where(under, -np.inf, -negative), np.where(under, -np.inf, low))
    high = np.where(under, np.where(over, np.inf, positive), np.where(over, np.inf, high))
    if form.d_type != accumulator:
        low = _toward(low, form.d_type, -np.inf)
        high = _toward(high, form.d_type, np.inf)
    elif over.any() or under.any():
        low = _toward(low, accumulator, np.inf)
        high = _toward(high, accumulator, -np.inf)
    if a.special or b.special or c_low.special or c_high.special:
        kept = class_sum(a.classes, b.classes, c_low.classes, c_high.classes)
        flushed = class_sum(a.flushed, b.flushed, c_low.classes, c_high.classes)
        return with_special((low, high, nan_ok), over, under, kept, flushed)
    return low, high, nan_ok


class _Leaves:
    """The products and C of every output: their sums, magnitudes and grids."""

    def __init__(self, a: _Numbers, b: _Numbers, c_low: _Numbers, c_high: _Numbers) -> None:
        self.a, self.b = a, b
        self.low = np.where(c_low.subnormal, np.minimum(c_low.values, 0.0), c_low.values)
        """Least exact sum over all choices of flushing."""
        self.high = np.where(c_high.subnormal, np.maximum(c_high.values, 0.0), c_high.values)
        self.positive = np.maximum(c_high.values, 0.0)
        self.negative = np.maximum(-c_low.values, 0.0)
        """Minus the sum of the negative leaves."""
        apart = are_apart(c_low.classes, c_high.classes) | (c_low.values != c_high.values)
        self.positive[apart & np.isposinf(c_high.classes)] = np.inf
        self.negative[apart & np.isneginf(c_low.classes)] = np.inf
        self.grid = np.where(apart, 0.0, c_low.grids)
        """Grid of the element of C; 0, finer than any, where C may be several numbers."""
        subnormal = bool(a.subnormal.any() or b.subnormal.any())
        self.power = np.zeros_like(self.low)
        """2^E; 0 where no leaf is below its own exponent."""
        if subnormal or c_low.subnormal.any() or c_high.subnormal.any():
            self.power = np.maximum(c_low.powers, c_high.powers)
        part = np.empty_like(self.low)
        for k in range(len(a.values)):
            product = a.values[k] * b.values[k]
            self.positive += np.maximum(product, 0.0, out=part)
            self.negative -= np.minimum(product, 0.0, out=part)
            if subnormal:
                np.maximum(self.power, a.powers[k] * b.powers[k], out=self.power)
                loose = a.subnormal[k] | b.subnormal[k]
                self.low += np.where(loose, np.minimum(product, 0.0), product)
                self.high += np.where(loose, np.maximum(product, 0.0), product)
            else:
                self.low += product
                self.high += product

    def error(self, unit: Floats) -> Floats:
        """Return W, the sum over the leaves of max(unit - grid, 0)."""
        error = np.maximum(unit - self.grid, 0.0)
        part = np.empty_like(error)
        for left, right in zip(self.a.grids, self.b.grids, strict=True):
            np.multiply(left, right, out=part)
            np.subtract(unit, part, out=part)
            error += np.maximum(part, 0.0, out=part)
        return error


def _toward(values: Floats, fmt: Format, toward: float) -> Floats:
    """Return the nearest numbers of a format in one direction; infinities are kept."""
    narrowed = values.astype(_FLOATS[fmt.name])
    short = narrowed < values if toward > 0 else narrowed > values
    direction = np.asarray(toward, narrowed.dtype)
    return np.where(short, np.nextafter(narrowed, direction), narrowed).astype(np.float64)


def permitted(
    opcode: str, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any],
    metadata: NDArray[Any] | None = None, selector: int | None = None,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:  # fmt: skip
    """Return low, high and nan_ok: what the ISA permits one multiplication on any target.

    Operands as `oracle.mma`, `mma_sync` and `mma_sp` take them. Bounds are float64, NaN where only
    NaN is permitted, int64 of integers: of wmma.mma (..., m, n), else (..., 32, elements), those of
    each lane's registers in order. Rows whose metadata have no meaning may be anything.
    """
    form = form_of(opcode)
    if not form.is_product:
        raise another_needed(form, "wmma.mma, mma or mma.sp")
    if form.has_metadata != (metadata is not None):
        takes = "takes metadata and a selector" if form.has_metadata else "has no metadata"
        raise UsageError(f"{form.opcode} {takes}")
    # Integer arithmetic is the page's on every target that has the form; sm_90 has all of them.
    exact = model_for("sm_90")
    if form.opaque:
        if form.a_type.is_float:
            return enclosure(form, a, b, c)
        numbers = multiply(form, a, b, c, model=exact).astype(np.int64)
        return numbers, numbers.copy(), np.zeros(numbers.shape, np.bool_)
    leading, operands, chosen = flat_operands(form, a, b, c, metadata, selector)
    ends: list[NDArray[Any]]
    if form.a_type.is_float:
        left, right, addend = (
            unpack(form, name, words) for name, words in zip("abc", operands, strict=True)
        )
        bounds: tuple[NDArray[Any], ...]
        if chosen is None:
            bounds = enclosure(form, left, right, addend)
        else:
            rows = by_row(left), met(form, right, *chosen), by_row(addend)
            bounds = tuple(of_rows(end, form.shape.m) for end in enclosure(row_form(form), *rows))
        # Of several multiplications side by side all tiles of the first come first.
        group, row, column = np.moveaxis(places(form, "d"), -1, 0)
        ends = [
            end.reshape(form.groups, -1, *end.shape[1:]).swapaxes(0, 1)[:, group, row, column]
            for end in bounds
        ]
    else:
        d = multiply_lanes(form, *operands, model=exact, metadata=chosen)
        numbers = d.view(np.int32).astype(np.int64)
        ends = [numbers, numbers.copy(), np.zeros(numbers.shape, np.bool_)]
    if chosen is not None:
        open_ = ~defined_rows(form, *chosen)[:, places(form, "d")[..., 1]]
        floats = form.a_type.is_float
        most = (-np.inf, np.inf, True) if floats else (S32_LEAST, S32_GREATEST, False)
        ends = [np.where(open_, one, end) for one, end in zip(most, ends, strict=True)]
    low, high, nan_ok = (end.reshape(*leading, *end.shape[1:]) for end in ends)
    return low, high, nan_ok
