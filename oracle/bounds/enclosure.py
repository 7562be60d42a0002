"""What the ISA permits products of floats on any target: `docs/oracle.md`, "The enclosure"."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle import layouts
from oracle.arithmetic.conversions import own_scratch, two_sum
from oracle.arithmetic.dots import dot_product
from oracle.arithmetic.doubles import Decoded, at, decoded, two_product
from oracle.arithmetic.scaled import decoded_scales
from oracle.errors import UsageError
from oracle.execution.block_scale import block_scale_operands
from oracle.execution.chosen import Metadata, Scales
from oracle.execution.products import (
    S32_GREATEST,
    S32_LEAST,
    flat_operands,
    multiply,
    multiply_lanes,
)
from oracle.execution.warpgroups import multiply_warpgroup, warpgroup_operands
from oracle.isa.forms import FORMATS, Form, Format
from oracle.isa.lookup import another_needed, form_of
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


class _Doubles(NamedTuple):
    """Elements of one operand; infinite and NaN ones count as 0, but have their class."""

    decoded: Decoded
    grids: Floats
    """Largest power of two that divides the significand in [0.5, 1); infinite for 0."""
    classes: Classes


def _doubles(bits: NDArray[np.uint64]) -> _Doubles:
    values = bits.view(np.float64)
    finite = np.isfinite(values)
    made = decoded(np.where(finite, bits, np.uint64(0)))
    field = (bits >> np.uint64(52)).astype(np.int64) & 0x7FF
    fraction = bits.view(np.int64) & ((1 << 52) - 1)
    significand = fraction | ((field > 0).astype(np.int64) << 52)
    lowest = (significand & -significand).astype(np.float64)
    grids = np.ldexp(lowest, np.maximum(field, 1) - 1075 - made.exponent)
    present = finite & (values != 0.0)
    classes = np.where(finite, np.sign(values), values).astype(np.float32)
    return _Doubles(made, np.where(present, grids, np.inf), classes)


def _scaled(numbers: Decoded, frame: Ints) -> Floats:
    scaled: Floats = np.ldexp(numbers.significand, np.maximum(numbers.exponent - frame, _FAR))
    return scaled


def _double_chunk(
    form: Form, a_bits: NDArray[Any], b_bits: NDArray[Any], c_low_bits: NDArray[Any],
    c_high_bits: NDArray[Any],
) -> Bounds:  # fmt: skip
    """Bound one chunk of f64; shapes (k, m, tiles), (k, n, tiles), (m, n, tiles)."""
    a, b = _doubles(a_bits[:, :, None]), _doubles(b_bits[:, None])
    c_low, c_high = _doubles(c_low_bits), _doubles(c_high_bits)
    frame = np.maximum(c_low.decoded.exponent, c_high.decoded.exponent)
    for k in range(len(a_bits)):
        frame = np.maximum(frame, a.decoded.exponent[k] + b.decoded.exponent[k])
    frame = np.maximum(frame, _LEAST_FRAME)

    ends = _scaled(c_low.decoded, frame), _scaled(c_high.decoded, frame)
    apart = are_apart(c_low.classes, c_high.classes) | (c_low_bits != c_high_bits)
    positive, negative = _signed_parts(*ends, apart, c_low.classes, c_high.classes)
    scaled = np.ldexp(c_low.grids, np.maximum(c_low.decoded.exponent - frame, 2 * _FAR))
    grids = [np.where(apart, 0.0, scaled)]
    head, tail = np.zeros_like(positive), np.zeros_like(positive)
    for k in range(len(a_bits)):
        left, right = at(a.decoded, k), at(b.decoded, k)
        shift = left.exponent + right.exponent - frame
        scale = np.ldexp(1.0, np.maximum(shift, _FAR))
        product, error = (part * scale for part in two_product(left, right))
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
    low, high = _overflowing(low, high, positive, negative, over, under)
    classes = class_sum(a.classes, b.classes, c_low.classes, c_high.classes)
    return with_special((low, high, over & under), over, under, classes, classes)


def _signed_parts(
    low: Floats, high: Floats, apart: Bools, c_low: Classes, c_high: Classes
) -> tuple[Floats, Floats]:
    """Return what C adds at most to the sums of positive, and of negative, leaves."""
    positive, negative = np.maximum(high, 0.0), np.maximum(-low, 0.0)
    positive[apart & np.isposinf(c_high)] = np.inf
    negative[apart & np.isneginf(c_low)] = np.inf
    return positive, negative


def _overflowing(
    low: Floats, high: Floats, positive: Floats, negative: Floats, over: Bools, under: Bools
) -> tuple[Floats, Floats]:
    """Return bounds where the sums of positive or negative leaves may be too large."""
    low = np.where(under, -np.inf, np.where(over, -negative, low))
    return low, np.where(over, np.inf, np.where(under, positive, high))


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
    c_high: NDArray[Any] | None = None, scales: Scales | None = None,
) -> Bounds:  # fmt: skip
    """Return low, high and whether NaN is permitted, (..., m, n), of a product on any target.

    `a`, `b`, `c`: Raw bit patterns, (..., m, k), (..., k, n) and (..., m, n).
    `scales`: Where the form has them, of rows of A and columns of B, (tiles, m, s), (tiles, s, n).
    `c_high`: If given, each element of C may be any number from `c` to `c_high`. (Bounds at both
    ends do not bound the inside.) Bounds are float64, NaN where only NaN is permitted.
    """
    upper = c if c_high is None else c_high
    leading = layouts.check_operands(form, a, b, c)
    layouts.check_operands(form, a, b, upper)
    size = (prod(leading), form.shape.m, form.shape.n)
    low, high, nan_ok = np.empty(size), np.empty(size), np.empty(size, np.bool_)
    chunk = _double_chunk if form.a_type.name == "f64" else _chunk
    short = _short_sums(form)
    pairs = (layouts.chunks(form, _CHUNK_TILES, a, b, addend) for addend in (c, upper))
    with np.errstate(all="ignore"):
        for (part, left, right, least), (_, _, _, most) in zip(*pairs, strict=True):
            others = (one.transpose(1, 2, 0) for one in (right, least, most))
            turned = [np.ascontiguousarray(one) for one in (left.transpose(2, 1, 0), *others)]
            if scales is not None:
                turned += [scales[0][part].T, scales[1][part].transpose(1, 2, 0)]
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
    """Return the arithmetic that keeps less of a form's sums than the ISA promises.

    Of Ada; and of Hopper's warpgroups, which are that GPU's alone (9.7.15.6.3: "accumulation of the
    intermediate values is performed with at least single precision" where D is f32).
    """
    if form.a_type.bits > 8 or form.kind:  # neither has .kind
        return None
    base = built_in_model("sm_89" if form.warps == 1 else "sm_90")
    short = (row for row in base.only(TruncatedDot) if row.types == form.types)
    return next((row for row in short if row.sum_bits is not None), None)


class _Numbers(NamedTuple):
    values: Floats
    """Finite elements; 0 for infinite and NaN ones."""
    classes: Classes
    grids: Floats
    """Largest power of two that divides the element; infinite for 0."""
    powers: Floats
    """2^exponent, a subnormal's being the least normal exponent; 0 for 0."""
    subnormal: Bools

    @property
    def special(self) -> bool:
        """Whether some element is infinite or NaN."""
        return not np.isfinite(self.classes).all()


def _numbers(bits: NDArray[Any], fmt: Format) -> _Numbers:
    """Return what raw patterns stand for; narrow ones are looked up."""
    if bits.itemsize > 2:
        return _decoded(bits, fmt)
    index = bits.astype(np.intp)
    return _Numbers._make(column[index] for column in _every(fmt))


@cache
def _every(fmt: Format) -> _Numbers:
    return _decoded(np.arange(1 << 8 * np.dtype(fmt.raw).itemsize, dtype=fmt.raw), fmt)


def _decoded(bits: NDArray[Any], fmt: Format) -> _Numbers:
    magnitude = (bits.astype(np.int64) & fmt.magnitude) >> fmt.ignored_bits
    field = magnitude >> fmt.fraction_bits
    fraction = magnitude & ((1 << fmt.fraction_bits) - 1)
    negative = (bits & bits.dtype.type(fmt.magnitude + 1)).astype(np.bool_)
    significand = fraction | ((field > 0).astype(np.int64) << fmt.fraction_bits)
    exponent = np.maximum(field, 1) - fmt.bias
    infinite = field == (1 << fmt.exponent_bits) - 1
    if not fmt.has_infinity:  # its largest exponent has numbers, and a NaN behind them
        infinite &= fmt.has_nan & (fraction == (1 << fmt.fraction_bits) - 1)
    unit = np.ldexp(1.0, exponent - fmt.fraction_bits)
    size = np.where(infinite, 0.0, significand * unit)
    lowest = np.where(infinite, 0, significand & -significand) * unit
    kind = np.where(infinite, np.where(fraction, np.nan, np.inf), size != 0.0)
    return _Numbers(
        values=np.where(negative, -size, size),
        classes=np.where(negative, -kind, kind).astype(np.float32),
        grids=np.where(lowest == 0.0, np.inf, lowest),
        powers=np.where(size != 0.0, np.ldexp(1.0, exponent), 0.0),
        subnormal=(field == 0) & (fraction != 0),
    )


def _times_scales(numbers: _Numbers, scales: NDArray[np.uint8], name: str) -> _Numbers:
    """Return numbers (k, ...) times scales (s, ...), each of k / s neighbours: exact in doubles."""
    patterns = np.repeat(scales, len(numbers.values) // len(scales), axis=0)
    significands, exponents = decoded_scales(patterns, name)
    nan = np.isnan(significands)
    values = np.ldexp(np.where(nan, 0.0, significands), exponents)
    # of ue4m3, a significand has three bits below its point
    grids = np.ldexp(1.0, exponents - 3 * (name == "ue4m3"))
    kinds = np.where(nan, np.nan, values != 0.0).astype(np.float32)
    return _Numbers(
        values=numbers.values * values,
        classes=numbers.classes * kinds,
        grids=np.where(values == 0.0, np.inf, numbers.grids * grids),
        powers=np.where(values == 0.0, 0.0, np.ldexp(numbers.powers, exponents)),
        subnormal=numbers.subnormal | ((significands < 1.0) & (values != 0.0)),
    )


def _chunk(
    form: Form, a_bits: NDArray[Any], b_bits: NDArray[Any], c_low_bits: NDArray[Any],
    c_high_bits: NDArray[Any], *scales: NDArray[np.uint8],
) -> Bounds:  # fmt: skip
    """Bound one chunk; shapes (k, m, tiles), (k, n, tiles), (m, n, tiles), of scales s for k."""
    a, b = _numbers(a_bits[:, :, None], form.a_type), _numbers(b_bits[:, None], form.b_type)
    if scales:
        a = _times_scales(a, scales[0][:, :, None], form.texts["stype"])
        b = _times_scales(b, scales[1][:, None], form.texts["stype"])
    c_low = c_high = _numbers(c_low_bits, form.c_type)
    if not np.array_equal(c_low_bits, c_high_bits):
        c_high = _numbers(c_high_bits, form.c_type)
    half = form.c_type.name == form.d_type.name == "f16"
    accumulator = FORMATS["f16" if half else "f32"]
    short = _short_sums(form)
    precision: Any = accumulator.fraction_bits
    if short is not None:
        least = short.sum_format.fraction_bits
        precision = np.where(c_low_bits != c_high_bits, least, precision)
    low, high, positive, negative, power = _sums(a, b, c_low, c_high)
    total = positive + negative
    growth = 1 + 2 * (len(a.values) + 1) * 2.0**-precision + _MARGIN
    positive, negative = positive * growth, negative * growth
    _, exponent = np.frexp(np.maximum(np.maximum(positive, negative), power))
    unit = np.ldexp(1.0, exponent - (1 + precision))
    unit = np.maximum(unit, 2.0 ** (1 - accumulator.bias))
    # The sum over the leaves of max(unit - grid, 0); C that may be several numbers has no grid.
    differ = are_apart(c_low.classes, c_high.classes) | (c_low.values != c_high.values)
    error = np.maximum(unit - np.where(differ, 0.0, c_low.grids), 0.0)
    part = np.empty_like(error)
    for left, right in zip(a.grids, b.grids, strict=True):
        np.multiply(left, right, out=part)
        np.subtract(unit, part, out=part)
        error += np.maximum(part, 0.0, out=part)
    # Without an error all leaves are multiples of `unit`, and float64 adds them exactly.
    error = np.where(error > 0.0, (error + total * _MARGIN) * (1 + _MARGIN), 0.0)
    low = _toward(low - error, accumulator, np.inf)
    high = _toward(high + error, accumulator, -np.inf)

    greatest = float(np.finfo(_FLOATS[accumulator.name]).max)
    over, under = positive > greatest, negative > greatest
    low, high = _overflowing(low, high, positive, negative, over, under)
    if form.d_type != accumulator:
        low = _toward(low, form.d_type, -np.inf)
        high = _toward(high, form.d_type, np.inf)
    elif over.any() or under.any():
        low = _toward(low, accumulator, np.inf)
        high = _toward(high, accumulator, -np.inf)
    bounds = low, high, over & under
    if a.special or b.special or c_low.special or c_high.special:
        classes = c_low.classes, c_high.classes
        kept = class_sum(a.classes, b.classes, *classes)
        x, y = (np.where(one.subnormal, np.float32(0), one.classes) for one in (a, b))
        return with_special(bounds, over, under, kept, class_sum(x, y, *classes))
    return bounds


def _sums(
    a: _Numbers, b: _Numbers, c_low: _Numbers, c_high: _Numbers
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return sums of the products and C of each output over all choices of flushing.

    The least and the greatest; those of the positive leaves, and minus those of the negative ones;
    and 2^E, which is 0 where no leaf is below its own exponent.
    """
    low = np.where(c_low.subnormal, np.minimum(c_low.values, 0.0), c_low.values)
    high = np.where(c_high.subnormal, np.maximum(c_high.values, 0.0), c_high.values)
    differ = are_apart(c_low.classes, c_high.classes) | (c_low.values != c_high.values)
    positive, negative = _signed_parts(
        c_low.values, c_high.values, differ, c_low.classes, c_high.classes
    )
    subnormal = bool(a.subnormal.any() or b.subnormal.any())
    power = np.zeros_like(low)
    if subnormal or c_low.subnormal.any() or c_high.subnormal.any():
        power = np.maximum(c_low.powers, c_high.powers)
    part = np.empty_like(low)
    for k in range(len(a.values)):
        product = a.values[k] * b.values[k]
        positive += np.maximum(product, 0.0, out=part)
        negative -= np.minimum(product, 0.0, out=part)
        least = most = product
        if subnormal:
            np.maximum(power, a.powers[k] * b.powers[k], out=power)
            loose = a.subnormal[k] | b.subnormal[k]
            least = np.where(loose, np.minimum(product, 0.0), product)
            most = np.where(loose, np.maximum(product, 0.0), product)
        low += least
        high += most
    return low, high, positive, negative, power


def _toward(values: Floats, fmt: Format, toward: float) -> Floats:
    """Return the nearest numbers of a format in one direction; infinities are kept."""
    narrowed = values.astype(_FLOATS[fmt.name])
    short = narrowed < values if toward > 0 else narrowed > values
    direction = np.asarray(toward, narrowed.dtype)
    return np.where(short, np.nextafter(narrowed, direction), narrowed).astype(np.float64)


def _placed_enclosure(
    form: Form, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], metadata: Metadata | None,
    scales: Scales | None = None,
) -> Bounds:  # fmt: skip
    """Return the `enclosure` of matrices (tiles, rows, columns) of an A that metadata place."""
    if metadata is None:
        return enclosure(form, a, b, c, scales=scales)
    rows = layouts.by_row(a), layouts.met(form, b, *metadata), layouts.by_row(c)
    scales = None if scales is None else layouts.scales_by_row(*scales)
    low, high, nan_ok = enclosure(layouts.row_form(form), *rows, scales=scales)
    low, high, nan_ok = (layouts.of_rows(end, form.shape.m) for end in (low, high, nan_ok))
    return low, high, nan_ok


def permitted(
    opcode: str, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any],
    metadata: NDArray[Any] | None = None, selector: int | None = None, *,
    scale_a: NDArray[Any] | None = None, scale_b: NDArray[Any] | None = None,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:  # fmt: skip
    """Return low, high and nan_ok: what the ISA permits one multiplication on any target.

    Operands as `oracle.mma`, `mma_sync`, `mma_sp`, `wgmma` (`c` is its d), and of forms with scales
    `mma_block_scale` take them; wgmma negates none here, and adds d. Bounds are float64, NaN where
    only NaN is permitted, int64 of integers: of wmma.mma and with scales (..., m, n), else (..., 32
    or 128, elements), those of each thread's registers in order. Rows whose metadata have no
    meaning may be anything.
    """
    form = form_of(opcode)
    if not form.is_product:
        raise another_needed(form, "wmma.mma, mma, mma.sp or wgmma.mma_async")
    if form.has_metadata != (metadata is not None):
        takes = "takes metadata and a selector" if form.has_metadata else "has no metadata"
        raise UsageError(f"{form.opcode} {takes}")
    if not (form.is_scaled or scale_a is scale_b is None):
        raise UsageError(f"{form.opcode} has no scales; leave scale_a and scale_b out")
    # Integer arithmetic is the page's on every target that has the form; sm_90 has all of them.
    exact = model_for("sm_90")
    if form.opaque:
        if form.a_type.is_float:
            return enclosure(form, a, b, c)
        numbers = multiply(form, a, b, c, model=exact).astype(np.int64)
        return numbers, numbers.copy(), np.zeros(numbers.shape, np.bool_)
    ends: list[NDArray[Any]]
    group, row, column = np.moveaxis(layouts.places(form, "d"), -1, 0)
    flat: Callable[..., Any] = flat_operands if form.warps == 1 else warpgroup_operands
    given: tuple[Any, ...] = metadata, selector
    if form.is_scaled:
        flat, given = block_scale_operands, (scale_a, scale_b, metadata, selector or 0)
    leading, operands, chosen, *others = flat(form, a, b, c, *given)
    if form.is_scaled:
        left, right, addend = operands
        ends = [*_placed_enclosure(form, left, right, addend, chosen, *others)]
        row = np.arange(form.shape.m)[:, None]
    elif form.a_type.is_float:
        left, right, addend = (
            layouts.unpack(form, name, words) if form.warps == 1 or name == "c" else words
            for name, words in zip("abc", operands, strict=True)
        )
        # Of several multiplications side by side all tiles of the first come first.
        ends = [
            end.reshape(form.groups, -1, *end.shape[1:]).swapaxes(0, 1)[:, group, row, column]
            for end in _placed_enclosure(form, left, right, addend, chosen)
        ]
    else:
        multiply_all = multiply_lanes if form.warps == 1 else multiply_warpgroup
        d = multiply_all(form, *operands, model=exact, metadata=chosen)
        numbers = d.view(np.int32).astype(np.int64)
        ends = [numbers, numbers.copy(), np.zeros(numbers.shape, np.bool_)]
    if chosen is not None:
        open_ = ~layouts.defined_rows(form, *chosen)[:, row]
        floats = form.a_type.is_float
        most = (-np.inf, np.inf, True) if floats else (S32_LEAST, S32_GREATEST, False)
        ends = [np.where(open_, one, end) for one, end in zip(most, ends, strict=True)]
    low, high, nan_ok = (end.reshape(*leading, *end.shape[1:]) for end in ends)
    return low, high, nan_ok
