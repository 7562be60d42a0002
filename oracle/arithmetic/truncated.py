"""Chains of truncated fused dot products: what tensor cores do with f16, bf16 and tf32.

The rule (measured on H200, 2026-11; for other targets MMA-Sim 2.1.1, `t_fdpa`). K is cut into
blocks; each block adds its products and the running accumulator in one go:

1. Products are exact. The exponent of a product is the sum of its operands' exponents (it is not
   normalised: its significand lies in [1, 4)), that of the accumulator is its own. A subnormal
   has its format's least normal exponent and a significand below 1. A term that is zero counts
   with the fixed exponent `zero_exponent`.
2. Every term is truncated toward zero to a multiple of 2^(E - F), E being the largest exponent
   in the block and F `fraction_bits`.
3. The truncated terms are summed exactly.
4. The sum is rounded to the accumulator's format: f32 toward zero, where a magnitude of 2^128 or
   more becomes infinity (MMA-Sim, `ldexp_and_normalize`); f16 to nearest even. Zero is +0.
5. NaN is canonical; infinities follow IEEE 754 (inf - inf and 0 * inf are NaN).

How it is computed here: arrays have the tile index last, so that every operation runs over long
contiguous rows. The product of two elements is one floating-point multiplication, exact in the
working type; truncation is one multiplication by 2^(F - E) and one conversion to an integer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from oracle.arithmetic.conversions import CANONICAL_NAN
from oracle.formats import Format

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from oracle.models import TruncatedDot

    Array = NDArray[Any]
    """An array whose dtype depends on the format: float32 or float64, int8 or int16, ..."""

_CHUNK_ELEMENTS = 1 << 16
"""Outputs that are worked on together: 256 KiB per float32 array, so that what one pass writes
the next one finds in the cache."""


@dataclass(frozen=True, kw_only=True)
class _Working:
    """Types in which the products of one multiplicand format are exact."""

    values: type[np.floating[Any]]
    exponents: type[np.signedinteger[Any]]
    absent: int
    """Exponent of an operand that is zero. Less than the least exponent of a product minus the
    greatest of an operand, so that a product with it never is the largest of a block that has
    another; and twice this still fits `exponents`."""


# f16: 22-bit products from 2^-48 to 2^32 fit float32; exponents of products are -28 to 30 (32 for
# infinities), so -64 + 16 < -28 and -128 fits int8.
# bf16 and tf32: products from 2^-272 to 2^256 need float64; exponents -252 to 256 need int16.
_WORKING = {
    "f16": _Working(values=np.float32, exponents=np.int8, absent=-64),
    "bf16": _Working(values=np.float64, exponents=np.int16, absent=-1024),
    "tf32": _Working(values=np.float64, exponents=np.int16, absent=-1024),
}

_LEAST_SCALED = -100
"""Largest exponents below this are treated as this where products are float32: there, every
product is zero (the least f16 product has exponent -28), and 2^(F - E) would overflow."""


def truncated_dot(
    a: Array, b: Array, c: Array, *, multiplicand: Format, rule: TruncatedDot
) -> Array:
    """Return a @ b + c as the hardware chains it, on raw bit patterns.

    Parameters
    ----------
    a, b
        Shapes (tiles, m, k) and (tiles, k, n), raw patterns of `multiplicand`.
    c
        Shape (tiles, m, n), raw patterns of the rule's accumulator format.

    Returns
    -------
    Raw patterns of the accumulator format, shape (tiles, m, n).
    """
    # Special values flow through the finite arithmetic as garbage and are overwritten at the end.
    with np.errstate(all="ignore"):
        left = _Operand.decode(np.ascontiguousarray(a.transpose(2, 1, 0)), multiplicand, rule)
        right = _Operand.decode(np.ascontiguousarray(b.transpose(1, 2, 0)), multiplicand, rule)
        start = np.ascontiguousarray(c.transpose(1, 2, 0))
        m, n, tiles = start.shape
        result = np.empty((m, n, tiles), start.dtype)
        rows = max(1, min(m, _CHUNK_ELEMENTS // (n * tiles)))
        for row in range(0, m, rows):
            part = slice(row, row + rows)
            result[part] = _chain(left.rows(part), right, start[part], rule)
    return np.ascontiguousarray(result.transpose(2, 0, 1))


@dataclass(frozen=True, kw_only=True)
class _Operand:
    """A or B, decoded: k first, tiles last."""

    values: Array
    """(k, lines, tiles); infinities and NaNs are themselves."""
    exponents: Array
    """(k, lines, tiles)."""
    has_zero: Array
    """(blocks, lines, tiles): whether the block of the line holds a zero."""
    special: bool
    """Whether any element is infinite or NaN."""

    @classmethod
    def decode(cls, bits: Array, fmt: Format, rule: TruncatedDot) -> _Operand:
        working = _WORKING[fmt.name]
        exponents, zero, special = _exponents(bits, fmt, working.exponents)
        exponents[zero] = working.absent
        starts = np.arange(0, bits.shape[0], rule.block.value)
        return cls(
            values=_values(bits, fmt, working.values),
            exponents=exponents,
            has_zero=np.logical_or.reduceat(zero, starts, axis=0),
            special=special,
        )

    def rows(self, part: slice) -> _Operand:
        """Return some lines, with an axis for the other operand's lines after them."""
        return _Operand(
            values=self.values[:, part, None],
            exponents=self.exponents[:, part, None],
            has_zero=self.has_zero[:, part, None],
            special=self.special,
        )


def _values(bits: Array, fmt: Format, dtype: type[np.floating[Any]]) -> Array:
    """Return elements as floats of a type that holds them exactly."""
    if fmt.name == "f16":
        return bits.view(np.float16).astype(dtype)
    words: Array = bits.astype(np.uint32, copy=False)
    if fmt.name == "bf16":
        words = words << 16
    elif fmt.ignored_bits:
        words = words & np.uint32(2**32 - (1 << fmt.ignored_bits))
    return words.view(np.float32).astype(dtype)


def _exponents(
    bits: Array, fmt: Format, dtype: type[np.signedinteger[Any]]
) -> tuple[Array, NDArray[np.bool_], bool]:
    """Return exponents (zeros like subnormals), where zeros are, and if any element is special."""
    stored = fmt.exponent_bits + fmt.fraction_bits
    magnitude = (bits >> fmt.ignored_bits) & ((1 << stored) - 1)
    field = (magnitude >> fmt.fraction_bits).astype(np.int16)
    special = bool(field.max(initial=0) == (1 << fmt.exponent_bits) - 1)
    np.maximum(field, 1, out=field)
    field -= fmt.bias
    return field.astype(dtype, copy=False), magnitude == 0, special


def _chain(a: _Operand, b: _Operand, c: Array, rule: TruncatedDot) -> Array:
    """Run the blocks one after the other; shapes (k, rows, 1, tiles), (k, n, tiles)."""
    block = rule.block.value
    for index, first in enumerate(range(0, len(b.values), block)):
        c = _block(a, b, c, slice(first, first + block), index, rule)
    return c


def _block(a: _Operand, b: _Operand, c: Array, ks: slice, index: int, rule: TruncatedDot) -> Array:
    """Add one block of products to the accumulator, given and returned as raw patterns."""
    fmt = rule.accumulator_format
    start = _values(c, fmt, np.float64)
    largest, c_zero, c_special = _exponents(c, fmt, np.int16)
    largest[c_zero] = rule.zero_exponent.value
    products = _largest_exponents(a.exponents[ks], b.exponents[ks])
    np.maximum(largest, products, out=largest)
    with_zero = np.flatnonzero(largest < rule.zero_exponent.value)
    if with_zero.size:
        zero = a.has_zero[index] | b.has_zero[index]
        largest[zero & (largest < rule.zero_exponent.value)] = rule.zero_exponent.value

    special = a.special or b.special or c_special
    plain = np.zeros(0)
    if special:
        plain = start.astype(a.values.dtype)
    total = _truncated_sum(
        a.values[ks], b.values[ks], largest, rule.fraction_bits.value, plain if special else None
    )
    grid = (largest.astype(np.int64) + (1023 - rule.fraction_bits.value)) << 52
    start *= ((2046 << 52) - grid).view(np.float64)
    np.trunc(start, out=start)
    start += total
    start *= grid.view(np.float64)
    result: Array
    if fmt.name == "f32":
        least = int(largest.min()) - rule.fraction_bits.value
        result = _toward_zero(start, subnormal=least < 1 - fmt.bias)
    else:
        result = _to_nearest_half(start)
    if special:
        _overwrite_special(result, plain, fmt)
    return result


def _largest_exponents(a: Array, b: Array) -> Array:
    """Return the largest exponent of a product of the block."""
    largest: Array = a[0] + b[0]
    term = np.empty_like(largest)
    for left, right in zip(a[1:], b[1:], strict=True):
        np.add(left, right, out=term)
        np.maximum(largest, term, out=largest)
    return largest


def _truncated_sum(
    a: Array, b: Array, largest: Array, fraction_bits: int, plain: Array | None
) -> Array:
    """Return the sum of the block's truncated products, in units of 2^(largest - fraction_bits).

    Where `plain` is given, the products are also added to it as IEEE 754 numbers.
    """
    dtype = a.dtype
    if dtype == np.float32:
        exponent = np.maximum(largest, _LEAST_SCALED).astype(np.int32)
        scale = ((fraction_bits + 127 - exponent) << 23).view(np.float32)
    else:
        scale = ((fraction_bits + 1023 - largest.astype(np.int64)) << 52).view(np.float64)
    # A product is below 4 * 2^largest, so `block` truncated ones sum to less than
    # block * 2^(fraction_bits + 2): 16 * 2^27 = 2^31 on sm_90, which int32 just holds, because
    # the accumulator is added later, in float64.
    fits = len(a) << (fraction_bits + 2) <= 1 << 31
    total = np.zeros(largest.shape, np.int32 if fits else np.int64)
    product = np.empty(largest.shape, dtype)
    term = np.empty_like(total)
    for left, right in zip(a, b, strict=True):
        np.multiply(left, right, out=product)
        if plain is not None:
            plain += product
        product *= scale
        np.copyto(term, product, casting="unsafe")
        total += term
    return total


def _toward_zero(values: NDArray[np.float64], *, subnormal: bool) -> NDArray[np.uint32]:
    """Round float64 to f32 patterns toward zero; 2^128 or more becomes infinity; zero is +0."""
    kept = (values.view(np.uint64) & np.uint64(2**64 - 2**29)).view(np.float64)
    if subnormal:
        fixed = np.trunc(values * 2.0**149) * 2.0**-149
        kept = np.where(np.abs(values) < 2.0**-126, fixed, kept) + 0.0
    return kept.astype(np.float32).view(np.uint32)


def _to_nearest_half(values: NDArray[np.float64]) -> NDArray[np.uint16]:
    """Round float64 to f16 patterns, to nearest even; any zero is +0."""
    result = values.astype(np.float16).view(np.uint16)
    result[result == 0x8000] = 0
    return result


def _overwrite_special(result: Array, plain: Array, fmt: Format) -> None:
    """Put the infinities and NaNs of the plain IEEE sum into the result.

    The plain sum is not finite exactly where a term is not: f16 products stay below 2^32, which
    leaves the largest f32 unchanged when added to it, and float64 holds all others.
    """
    special = ~np.isfinite(plain)
    values = plain[special]
    infinity = ((1 << fmt.exponent_bits) - 1) << fmt.fraction_bits
    patterns = np.where(np.signbit(values), infinity | 1 << (fmt.bits - 1), infinity)
    result[special] = np.where(np.isnan(values), CANONICAL_NAN[fmt.name], patterns)
