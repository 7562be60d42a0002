"""Dot products as a model's unit computes them; figures that no GPU has had go a slow way here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic import conversions
from oracle.arithmetic.conversions import CANONICAL_NAN, flushed, is_nan, odd_sum, rounded
from oracle.arithmetic.scratch import Scratch, own_scratch
from oracle.arithmetic.truncated import element_values, truncated_dot
from oracle.isa.forms import Format, format_named
from oracle.models import ScalarDot, TruncatedDot

Array = NDArray[Any]
Floats = NDArray[np.float64]

_INFINITE = 2.0**128
"""Where products of limited range end: beyond the largest f32."""


class _Factors:
    def __init__(self, bits: Array, fmt: Format, least: int | None = None) -> None:
        self.values: Floats = element_values(bits, fmt).astype(np.float64)
        magnitude = (bits >> fmt.ignored_bits) & ((1 << fmt.exponent_bits + fmt.fraction_bits) - 1)
        field = (magnitude >> fmt.fraction_bits).astype(np.int32)
        self.exponents: NDArray[np.int32] = np.maximum(field, 1) - fmt.bias
        if least is not None:
            np.maximum(self.exponents, least, out=self.exponents)
        self.finite = bool((field <= 2 * fmt.bias).all())


def unusual_dot(
    a: Array, b: Array, c: Array, *, multiplicand: Format, rule: TruncatedDot, blocks: list[slice]
) -> Array:
    """Return a @ b + c, on raw bit patterns; parameters and result as of `truncated_dot`."""
    with np.errstate(all="ignore"):  # specials are garbage until the end of a block
        least, least_b = rule.least_exponents
        left = _Factors(a.transpose(2, 1, 0), multiplicand, least)
        right = _Factors(b.transpose(1, 2, 0), multiplicand, least_b)
        total = np.ascontiguousarray(c.transpose(1, 2, 0))
        for block in blocks:
            total = _add_block(left, right, total, block, rule)
    return total


def units_of(
    a: Array, b: Array, c: Array, *, multiplicand: Format, rule: TruncatedDot
) -> tuple[float, Sequence[float], Sequence[float]]:
    """Return the unit that terms are truncated to, the exact terms, and the units in each."""
    with np.errstate(all="ignore"):
        left, right = (
            _Factors(x[:, None, None], multiplicand, least)
            for x, least in zip((a, b), rule.least_exponents, strict=True)
        )
        addend, block = _Factors(c[None, None, None], rule.accumulator_format), slice(0, len(a))
        largest = _largest_exponents(left, right, addend, block, rule)
        unit = float(np.ldexp(1.0, largest - rule.fraction_bits.value)[0, 0, 0])
        values = [float(x[0, 0, 0] * y[0, 0, 0]) for x, y, _ in _products(left, right, block)]
        values.append(float(addend.values[0, 0, 0]))
        return unit, values, np.trunc(np.array(values) / unit).tolist()


def _largest_exponents(
    a: _Factors, b: _Factors, addend: _Factors, block: slice, rule: TruncatedDot
) -> Array:
    zero = rule.zero_exponent.value
    largest = np.where(addend.values == 0.0, zero, addend.exponents)
    for x, y, exponents in _products(a, b, block):
        product = x * y
        if rule.product_exponent.value == "normalised":
            exponents = exponents + (np.abs(product) >= np.ldexp(2.0, exponents))
        np.maximum(largest, np.where(product == 0.0, zero, exponents), out=largest)
    return largest


def _add_block(a: _Factors, b: _Factors, c: Array, block: slice, rule: TruncatedDot) -> Array:
    fmt = rule.accumulator_format
    addend = _Factors(c, fmt)
    largest = _largest_exponents(a, b, addend, block, rule)
    scale = np.ldexp(1.0, rule.fraction_bits.value - largest)
    total = np.trunc(addend.values * scale)
    for x, y, _ in _products(a, b, block):
        total += np.trunc(x * y * scale)
    total /= scale
    sign = -1.0 if rule.zero.value == "-" else 1.0
    finite = np.where(np.isfinite(total), total, 0.0)
    result = rounded(finite, rule.sum_format, rule.rounding.value, rule.overflow.value)
    magnitude = result & result.dtype.type(fmt.magnitude)
    signed_zero = rounded(np.array([sign * 0.0]), fmt, "rn", "infinity")[0]
    result = np.where(magnitude == 0, signed_zero, result)
    limited = rule.product_range.value == "f32"
    if limited or not (a.finite and b.finite and addend.finite):
        plain = _plain_sum(a, b, addend, block, limited=limited)
        result[plain == np.inf] = fmt.infinity
        result[plain == -np.inf] = fmt.infinity | (fmt.magnitude + 1)
        result[np.isnan(plain)] = CANONICAL_NAN[fmt.name]
    return result


def _products(a: _Factors, b: _Factors, block: slice) -> Any:
    """Return the factors of each product of a block, and the sums of their exponents."""
    for k in range(block.start, block.stop):
        exponents = a.exponents[k][:, None] + b.exponents[k][None]
        yield a.values[k][:, None], b.values[k][None], exponents


def _plain_sum(
    a: _Factors, b: _Factors, addend: _Factors, block: slice, *, limited: bool
) -> Floats:
    """Return the sum of a block as IEEE 754 adds, which is special exactly where the block's is."""
    total = addend.values.copy()
    for x, y, _ in _products(a, b, block):
        product = x * y
        if limited:
            over = np.abs(product) >= _INFINITE
            product = np.where(over, np.copysign(np.inf, product), product)
        total += product
    return total


def dot_product(
    a: Array, b: Array, c: Array, *, rule: TruncatedDot, scratch: Scratch, keeps_c: bool = True,
    rows: NDArray[np.intp] | None = None,
) -> Array:  # fmt: skip
    """Return a @ b + c, raw patterns (m, n, tiles): working memory, good until the next call.

    `a`, `b`, `c`: (tiles, m, k), (tiles, k, n), (tiles, m, n); parameters as of `truncated_dot`.
    """
    multiplicand, accumulator = format_named(rule.multiplicand), rule.accumulator_format
    a, b, c = _operands(a, b, c, rule)
    last = rule.addend.value == "last"
    start = np.zeros_like(c) if last else c
    members = rule.blocks(a.shape[2])
    chains = [members] if rule.sums is None else [(block,) for block in members]
    d = _chain(a, b, start, multiplicand, rule, scratch, chains[0], rows, keeps_c=keeps_c)
    for blocks in chains[1:]:
        so_far = d.copy()  # working memory that the next block takes
        d = _chain(a, b, np.zeros_like(c), multiplicand, rule, scratch, blocks, rows, keeps_c=False)
        assert rule.addition is not None
        d = _sum(so_far, d, accumulator, rule.addition.value)
    if rule.addition is not None and last:
        d = _sum(d, c.transpose(1, 2, 0), accumulator, rule.addition.value)
    result = format_named(rule.d_type)
    if rule.narrowing is not None:
        d = _narrowed(d, rule.narrowing.value, rule.overflow.value)
    if rule.d_subnormals.value == "flushed":
        d = flushed(d, result)
    if rule.nan.value != conversions.CANONICAL_NAN[result.name]:
        d = np.where(is_nan(d, result), result_type(result)(rule.nan.value), d)
    return d


def block_sums(
    a: Array, b: Array, c: Array, *, rule: TruncatedDot
) -> Iterator[tuple[tuple[int, ...], Array, Array, Array, int]]:
    """Yield what `dot_product` adds at once to an element of D: ks, factors, sum before, sum after.

    `a`, `b`, `c`: A row of A and a column of B, (k,), and the element of C, ().
    """
    multiplicand = format_named(rule.multiplicand)
    a, b, c = _operands(a[None, None, :], b[None, :, None], c[None, None, None], rule)
    total = np.zeros_like(c) if rule.addend.value == "last" else c
    for block in rule.blocks(a.shape[2]):
        d = _chain(a, b, total, multiplicand, rule, own_scratch(), (block,), None, keeps_c=True)
        after = d.transpose(2, 0, 1).copy()
        yield block, a[0, 0, block], b[0, block, 0], total[0, 0, 0], int(after[0, 0, 0])
        total = np.zeros_like(c) if rule.sums is not None else after


def _operands(a: Array, b: Array, c: Array, rule: TruncatedDot) -> tuple[Array, Array, Array]:
    """Return operands as they reach the unit: A and B prepared, C of the accumulator's format."""
    _, a_type, b_type, _ = rule.types.split(".")
    a = _prepared(a, format_named(a_type), rule, rule.a_subnormals.value)
    b = _prepared(b, format_named(b_type), rule, rule.b_subnormals.value)
    if rule.c_subnormals.value == "flushed":
        c = flushed(c, format_named(rule.c_type))
    if rule.c_type != rule.accumulator_format.name:
        c = conversions.widen(c)
    return a, b, c


def unpacked(bits: Array, name: str) -> Array:
    """Return elements of 8 bits as f16 patterns; others as they are."""
    if format_named(name).bits > 8:
        return bits
    turned = bits.T  # of operands with tiles last, as they lie in memory
    halves: Array = np.take(_halves(name), turned).T
    return halves


@cache
def _halves(name: str) -> NDArray[np.uint16]:
    """Return the f16 pattern of each element of e4m3 or e5m2, uint16 (256,)."""
    bits = np.arange(256, dtype=np.uint16)
    if name == "e5m2":
        return bits << np.uint16(8)  # the first byte of an f16
    fmt = format_named(name)
    magnitude = bits & np.uint16(0x7F)
    # As the fields of an f16, those of e4m3 are 2^8 times too small: the biases are 15 and 7.
    values = (magnitude << np.uint16(10 - fmt.fraction_bits)).view(np.float16) * np.float16(1 << 8)
    halves = np.where(magnitude == 0x7F, np.uint16(0x7FFF), values.view(np.uint16))
    signs: NDArray[np.uint16] = (bits & np.uint16(0x80)) << np.uint16(8)
    return halves | signs


def result_type(fmt: Format) -> type[np.unsignedinteger[Any]]:
    """Return the NumPy type of a format's patterns."""
    kind: type[np.unsignedinteger[Any]] = np.dtype(fmt.raw).type
    return kind


def _prepared(bits: Array, fmt: Format, rule: TruncatedDot, subnormals: str) -> Array:
    """Return multiplicands as they reach the multiplier, their low bits not cut yet."""
    if rule.subnormal_exponent is not None and subnormals == "flushed":
        bits = flushed(bits, fmt)
    if fmt.bits == 8:
        bits, fmt = unpacked(bits, fmt.name), format_named(rule.multiplicand)
    if rule.low_bits is not None and rule.low_bits.value == "rounded":
        field = bits.dtype.type(fmt.infinity)
        half = bits.dtype.type(1 << (fmt.ignored_bits - 1))
        bits = np.where(bits & field != field, bits + half, bits)
    return flushed(bits, fmt) if subnormals == "flushed" else bits


def _chain(
    a: Array, b: Array, c: Array, multiplicand: Format, rule: TruncatedDot, scratch: Scratch,
    members: tuple[tuple[int, ...], ...], rows: NDArray[np.intp] | None, *, keeps_c: bool,
) -> Array:  # fmt: skip
    """Return the chain of blocks with these ks, patterns of the accumulator's format."""
    ks = tuple(chain.from_iterable(members))
    if ks != tuple(range(a.shape[2])):
        a = a.T.take(ks, axis=0).T
        if rows is None:
            b = b.transpose(1, 2, 0).take(ks, axis=0).transpose(2, 0, 1)
        else:
            rows = rows.take(ks, axis=0)
    ends = accumulate(map(len, members), initial=0)
    blocks = [slice(start, end) for start, end in pairwise(ends)]
    if rule.is_usual:
        return truncated_dot(
            a, b, c, multiplicand=multiplicand, rule=rule, blocks=blocks, scratch=scratch,
            keeps_c=keeps_c, rows=rows,
        )  # fmt: skip
    return unusual_dot(a, b, c, multiplicand=multiplicand, rule=rule, blocks=blocks)


def _sum(x: Array, y: Array, fmt: Format, rounding: str) -> Array:
    """Return x + y, patterns of a format, as IEEE 754 adds; any NaN is canonical."""
    if rounding == "rn":
        # Of f16, a sum in f32 may be rounded twice: it has 2 x 11 + 2 bits (Figueroa 1995).
        wide = (conversions.widen(z) if fmt.name == "f16" else z for z in (x, y))
        with np.errstate(all="ignore"):
            total = np.add(*(np.ascontiguousarray(z).view(np.float32) for z in wide))
        bits = total.view(np.uint32)
        bits[np.isnan(total)] = conversions.CANONICAL_NAN["f32"]
        return conversions.narrow(bits) if fmt.name == "f16" else bits
    floats = {"f16": np.float16, "f32": np.float32}[fmt.name]
    with np.errstate(all="ignore"):
        left, right = (np.ascontiguousarray(z).view(floats).astype(np.float64) for z in (x, y))
        plain = left + right
        finite = np.isfinite(plain)
        exact = odd_sum(np.where(finite, left, 0.0), np.where(finite, right, 0.0))
        if rounding == "rm":
            # IEEE 754-2019, 6.3: x - x is -0 there.
            exact = np.where((exact == 0.0) & (np.signbit(left) | np.signbit(right)), -0.0, exact)
        result = rounded(exact, fmt, rounding, "IEEE")
        special = plain.astype(floats).view(fmt.raw)
    result = np.where(finite, result, special)
    nan = result_type(fmt)(conversions.CANONICAL_NAN[fmt.name])
    return np.where(np.isnan(plain), nan, result)


def _narrowed(bits: NDArray[np.uint32], rounding: str, overflow: str) -> NDArray[np.uint16]:
    if (rounding, overflow) == ("rn", "infinity"):
        return conversions.narrow(bits)
    with np.errstate(all="ignore"):
        values = np.ascontiguousarray(bits).view(np.float32).astype(np.float64)
        finite = np.isfinite(values)
        result = rounded(np.where(finite, values, 0.0), format_named("f16"), rounding, overflow)
        special = values.astype(np.float16).view(np.uint16)
    result = np.where(finite, result, special)
    nan = np.uint16(conversions.CANONICAL_NAN["f16"])
    return np.where(np.isnan(values), nan, result)


def scalar_dot(a: Array, b: Array, c: Array, *, rule: ScalarDot) -> Array:
    """Return a @ b + c, (m, n, tiles), each operation rounded to nearest even f32.

    A product of two f16 is exact in f32: a fused multiply-add returns no other number than these.
    """
    left, right, addend = (
        np.ascontiguousarray(x) for x in (a.T, b.transpose(1, 2, 0), c.transpose(1, 2, 0))
    )
    left, right = (conversions.widen(x).view(np.float32) for x in (left, right))
    addend = (conversions.widen(addend) if rule.c_type == "f16" else addend).view(np.float32)
    result = np.empty_like(addend)
    term, pair = np.empty((2, *addend.shape[1:]), np.float32)
    with np.errstate(all="ignore"):
        for row, total in enumerate(result):  # what one row needs lies in the cache
            factors = tuple(zip(left[:, row], right, strict=True))
            if rule.order.value == "serial":
                total[...] = 0.0
                for factor in factors:
                    total += np.multiply(*factor, out=term)
                total += addend[row]
            else:
                total[...] = addend[row]
                for k in (0, 2):
                    np.multiply(*factors[k], out=pair)
                    pair += np.multiply(*factors[k + 1], out=term)
                    total += pair
    bits = result.view(np.uint32)
    bits[np.isnan(result)] = conversions.CANONICAL_NAN["f32"]
    return conversions.narrow(bits) if rule.d_type == "f16" else bits
