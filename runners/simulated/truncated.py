"""The matrix product of f16, bf16 and tf32: chains of truncated fused dot products.

Measured on an H200 (November 2026): K is cut into blocks; the exact products of a block and the
running accumulator are aligned to the largest exponent among them, cut toward zero to F bits
below it, summed as integers, and rounded to the accumulator's format. The exponent of a product
is the sum of its factors' exponents, whatever its significand; a zero has a fixed one.

All arrays have the warps as their last axis.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from runners.simulated.binary import F16, F32, Binary, Rounding, flushed
from runners.simulated.fused import NanRule, multiply_add, round_words, unpack
from runners.simulated.units import FloatUnit, Matrix
from runners.simulated.warps import spread

Words = NDArray[Any]
"""Raw unsigned words."""
Terms = NDArray[np.int32]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

_AT_ONCE = 64
"""Warps computed together, more where D has few elements: the working set of one block then fits a
core's caches."""
_ELEMENTS_AT_ONCE = 64 * 128

# An exponent far below every other: a zero's term is found zero, and it never is the largest. The
# sum of two of them and every shift computed from them stay in 32 bits.
_ZERO_EXPONENT = -(1 << 14)

_DOUBLE_FRACTION = 52
_DOUBLE_BIAS = 1023
# A shift that empties any magnitude below 2^53 and is defined for 64-bit integers.
_LARGEST_SHIFT = 62


class _Factors(NamedTuple):
    """One matrix taken apart."""

    sign: Terms
    """1 or -1."""
    exponent: Terms
    significand: Terms
    infinite: Flags | None
    nan: Flags | None
    """None where the matrix holds no special value."""


def _take_apart(words: Words, binary: Binary, flush: bool, bottom: int | None = None) -> _Factors:
    """Take words apart; below the exponent `bottom`, if any, numbers are subnormal."""
    # 32-bit words need 64 bits for their sign bit to stay a bit.
    bits: NDArray[Any] = words.astype(np.int32 if words.itemsize < 4 else np.int64)
    bits = bits >> binary.unused
    fraction = bits & ((1 << binary.fraction) - 1)
    field = (bits >> binary.fraction) & ((1 << binary.exponent) - 1)
    normal = field > 0
    significand = np.where(normal, fraction | (1 << binary.fraction), 0 if flush else fraction)
    exponent = np.where(normal, field - binary.top, binary.bottom)
    if bottom is not None:
        if flush:
            significand[exponent < bottom] = 0
        # Nothing is lost: the elements have as many bits less.
        significand = significand >> np.maximum(bottom - exponent, 0)
        exponent = np.maximum(exponent, bottom)
    exponent[significand == 0] = _ZERO_EXPONENT
    special = field == (1 << binary.exponent) - 1
    any_special = bool(special.any())
    negative = (bits >> (binary.exponent + binary.fraction)) & 1
    return _Factors(
        sign=(1 - 2 * negative).astype(np.int32),
        exponent=exponent.astype(np.int32),
        significand=significand.astype(np.int32),
        infinite=special & (fraction == 0) if any_special else None,
        nan=special & (fraction != 0) if any_special else None,
    )


def _carry(
    rounding: Rounding, kept: Integers, shift: Integers | np.int64, negative: NDArray[np.bool_]
) -> Integers:
    """Return what to add below the cut, `shift` bits up, so that cutting rounds."""
    half: Integers | np.int64 = np.left_shift(np.int64(1), shift - 1)
    carry: Integers
    match rounding:
        case Rounding.ZERO:
            carry = np.zeros_like(kept)
        case Rounding.NEAREST_EVEN:
            carry = half - 1 + (kept & 1)
        case Rounding.NEAREST_AWAY:
            carry = np.broadcast_to(half, kept.shape)
        case Rounding.DOWN:
            carry = np.where(negative, 2 * half - 1, 0)
        case Rounding.UP:
            carry = np.where(negative, 0, 2 * half - 1)
    return carry


def _subnormal(
    magnitude: Integers,
    scale: Integers,
    negative: NDArray[np.bool_],
    binary: Binary,
    rounding: Rounding,
) -> Integers:
    shift = binary.bottom - binary.fraction - scale
    # Several times faster than np.clip on small arrays, and not slower on large ones.
    right, left = np.maximum(shift, 0), np.maximum(-shift, 0)
    np.minimum(right, _LARGEST_SHIFT, out=right)
    np.minimum(left, _LARGEST_SHIFT, out=left)
    kept = magnitude >> right
    up = _carry(rounding, kept, np.maximum(right, 1), negative)
    return np.where(shift > 0, (magnitude + up) >> right, magnitude << left)


def _rounded(
    magnitude: Integers,
    scale: Integers,
    negative: NDArray[np.bool_],
    binary: Binary,
    rounding: Rounding,
    saturating: bool,
) -> Integers:
    """Round magnitudes below 2^53 times 2^scale to the magnitude bits of words of a format.

    With `saturating`, what is too large gives the largest finite value, and not infinity. Rounding
    toward zero gives infinity too: it says how a significand is cut, and the matrix units measured
    overflow to infinity with it.
    """
    # An integer below 2^53 is exact as float64, which has its leading one found.
    # (Zero has the exponent field 0 there, and so is found among the subnormals.)
    image = magnitude.astype(np.float64).view(np.int64)
    drop = _DOUBLE_FRACTION - binary.fraction
    words: Integers = image >> drop
    if rounding is not Rounding.ZERO:
        words = (image + _carry(rounding, words, np.int64(drop), negative)) >> drop
    words += (scale + (binary.top - _DOUBLE_BIAS)) << binary.fraction
    low = (image >> _DOUBLE_FRACTION) + scale < _DOUBLE_BIAS + binary.bottom
    if low.any():
        words[low] = _subnormal(magnitude[low], scale[low], negative[low], binary, rounding)
    infinity = ((1 << binary.exponent) - 1) << binary.fraction
    over = words >= infinity
    if over.any():
        words[over] = infinity - saturating
    return words


def widened(words: Words) -> Words:
    """Return f32 words of the same values as f16 words; of NaN, some NaN."""
    with np.errstate(all="ignore"):
        return words.view(np.float16).astype(np.float32).view(np.uint32)


def narrowed(
    words: Words, nan: int, rounding: Rounding = Rounding.NEAREST_EVEN, saturating: bool = False
) -> Words:
    """Return f16 words of f32 words; a tiny negative gives -0, and any NaN the cut of `nan`."""
    x = unpack(words.astype(np.uint64), F32)
    most = F16.infinity - saturating
    magnitude = round_words(x, F16, rounding, beyond=most)
    # 0x7fffffff gives 0x7fff.
    cut = F16.infinity | (nan >> 13 & (1 << F16.fraction) - 1)
    magnitude = np.where(x.nan, np.uint64(cut), magnitude)
    return _signed(magnitude, np.where(x.nan, bool(nan >> 16 & F16.sign), x.negative), F16)


def _signed(magnitude: Any, negative: Any, binary: Binary) -> Words:
    words: Words = magnitude | (negative * magnitude.dtype.type(binary.sign))
    return words.astype(f"u{binary.word // 8}")


def _put_specials(words: Words, a: _Factors, b: _Factors, c: _Factors, unit: FloatUnit) -> Words:
    """Put the NaN and infinities that a block gives over a result as if all were finite."""
    narrow = not unit.wide_products
    if a.infinite is None and b.infinite is None and c.infinite is None and not narrow:
        return words
    shape = words.shape
    nan = np.zeros(shape, np.bool_)
    positive, negative = np.zeros_like(nan), np.zeros_like(nan)
    invalid = np.zeros_like(nan)
    if c.infinite is not None and c.nan is not None:
        nan |= c.nan
        positive |= c.infinite & (c.sign > 0)
        negative |= c.infinite & (c.sign < 0)
    if a.nan is not None:
        nan |= a.nan.any(axis=1, keepdims=True)
    if b.nan is not None:
        nan |= b.nan.any(axis=0, keepdims=True)
    nowhere: Flags = np.zeros((1, 1, 1), np.bool_)
    a_infinite = nowhere if a.infinite is None else a.infinite
    b_infinite = nowhere if b.infinite is None else b.infinite
    if narrow or a_infinite.any() or b_infinite.any():
        a_infinite = spread(a_infinite, a.sign.shape)
        b_infinite = spread(b_infinite, b.sign.shape)
        some = a_infinite.any(axis=(0, 2)) | b_infinite.any(axis=(1, 2)) | narrow
        for k in np.flatnonzero(some).tolist():
            infinite: Flags = np.logical_or(a_infinite[:, k, None], b_infinite[k][None])
            zero = (a.significand[:, k, None] == 0) | (b.significand[k][None] == 0)
            if narrow:
                exponent = a.exponent[:, k, None] + b.exponent[k][None]
                infinite = infinite | (exponent + _carries(a, b, k, unit) > F32.top)
            invalid |= infinite & zero
            infinite &= ~zero
            plus = a.sign[:, k, None] == b.sign[k][None]
            positive |= infinite & plus
            negative |= infinite & ~plus
    invalid |= positive & negative
    if unit.invalid_is_nan:
        nan |= invalid
    else:
        both = positive & negative
        positive, negative = positive & ~both, negative & ~both
    infinity = unit.accumulator.infinity
    words[positive], words[negative] = infinity, infinity | unit.accumulator.sign
    words[nan] = unit.nan
    return words


def _carries(a: _Factors, b: _Factors, k: int, unit: FloatUnit) -> Flags:
    """Return which products of significands are 2 or more."""
    product = a.significand[:, k, None] * b.significand[k][None]
    carries: Flags = product >> (2 * unit.multiplicand.fraction + 1) > 0
    return carries


def _largest_exponents(
    a: _Factors, b: _Factors, c: _Factors, unit: FloatUnit
) -> tuple[list[Terms], Terms]:
    """Return the exponent of each k's products, and the largest of each dot product's terms."""
    # The accumulator is always a term: where it or any product is zero, the fixed exponent takes
    # part. Below the accumulator's least it needs no question: where no term is zero, the
    # accumulator's own is larger than it.
    zeros_decide = unit.zero_exponent >= unit.accumulator.bottom
    if zeros_decide:
        top = np.where(c.significand == 0, np.int32(unit.zero_exponent), c.exponent)
    else:
        top = np.maximum(c.exponent, unit.zero_exponent)
    exponents = []
    for k in range(a.sign.shape[1]):
        exponent = a.exponent[:, k, None] + b.exponent[k][None]
        exponents.append(exponent)
        if unit.normalised_products:
            exponent = exponent + _carries(a, b, k, unit)
        if zeros_decide:
            absent = exponent < _ZERO_EXPONENT // 2
            exponent = np.where(absent, np.int32(unit.zero_exponent), exponent)
        np.maximum(top, exponent, out=top)
    return exponents, top


def _add_block(a: _Factors, b: _Factors, c_words: Words, unit: FloatUnit) -> Words:
    accumulator = unit.accumulator
    c = _take_apart(c_words, accumulator, flush=False)
    exponents, top = _largest_exponents(a, b, c, unit)
    # A term is below 2^(F + 2); 32 bits hold `group` of them.
    wide = unit.fraction > 28
    integers: type[np.signedinteger[Any]] = np.int64 if wide else np.int32
    group = len(exponents) + 1 if wide else 1 << (29 - unit.fraction)
    # A product has 2 * fraction bits below its point; F of them are wanted before the cut.
    surplus = 2 * unit.multiplicand.fraction - unit.fraction
    lifted = a.significand.astype(integers) << max(0, -surplus)
    total: Integers = _accumulator_term(c, top, unit)
    partial = np.zeros(top.shape, integers)
    term, sign = np.empty_like(partial), np.empty_like(partial)
    for k, exponent in enumerate(exponents):
        np.subtract(top, exponent, out=exponent)
        if surplus > 0:
            exponent += surplus
        np.multiply(lifted[:, k, None], b.significand[k][None], out=term)
        # The cut toward zero: magnitudes lose the bits beyond F. NumPy defines a shift beyond
        # the width as 0.
        np.right_shift(term, exponent, out=term)
        np.multiply(a.sign[:, k, None], b.sign[k][None], out=sign)
        np.multiply(term, sign, out=term)
        np.add(partial, term, out=partial)
        if (k + 1) % group == 0:
            total += partial
            partial[...] = 0
    total += partial
    words = _finish(total, top.astype(np.int64) - unit.fraction, unit)
    return _put_specials(words, a, b, c, unit)


def _accumulator_term(c: _Factors, top: Terms, unit: FloatUnit) -> Integers:
    # Lifted by 8 bits, which F can exceed the fraction of f32 by, and that of f16 by more.
    lift = max(8, unit.fraction - unit.accumulator.fraction)
    shift = top.astype(np.int64) - c.exponent + (lift + unit.accumulator.fraction - unit.fraction)
    return (c.significand.astype(np.int64) << lift >> shift) * c.sign


def _finish(total: Integers, scale: Integers, unit: FloatUnit) -> Words:
    binary = unit.accumulator
    negative = total < 0
    magnitude = np.abs(total)
    unused = 0 if unit.kept is None else binary.fraction - unit.kept
    short = replace(binary, fraction=binary.fraction - unused)
    words = _rounded(magnitude, scale, negative, short, unit.rounding, unit.saturating) << unused
    # A zero is positive, also where a negative sum was cut to it.
    zero = words == 0
    return _signed(words, np.where(zero, unit.zero_sign, negative), binary)


def _blocks(depth: int, unit: FloatUnit) -> list[slice] | list[list[int]]:
    """Return which products each block adds, in the order of the blocks."""
    starts = range(0, depth, unit.block)
    if unit.run is None:
        blocks = [slice(start, min(start + unit.block, depth)) for start in starts]
        return blocks[::-1] if unit.descending else blocks
    # Runs are dealt out like cards: the first run to the first block, the next to the next.
    dealt = [
        [k for first in range(hand * unit.run, depth, len(starts) * unit.run)
         for k in range(first, min(first + unit.run, depth))]
        for hand in range(len(starts))
    ]  # fmt: skip
    held = [cards for cards in dealt if cards]
    return held[::-1] if unit.descending else held


def _part(factors: _Factors, *index: Any) -> _Factors:
    found: Any = [None if field is None else field[index] for field in factors]
    return _Factors(*found)


def _cut_or_rounded(words: Words, unit: FloatUnit) -> Words:
    if not unit.rounded_multiplicands or unit.multiplicand.unused == 0:
        return words
    finite = (words & words.dtype.type(unit.multiplicand.infinity)) != unit.multiplicand.infinity
    half = words.dtype.type(1 << (unit.multiplicand.unused - 1))
    return np.where(finite, words + half, words)


def _product(a: Words, b: Words, c: Words, unit: FloatUnit) -> Words:
    """Return accumulator words of a chunk of warps."""
    depth = a.shape[1] if unit.products is None else unit.products
    left, right = (
        _take_apart(_cut_or_rounded(words, unit), unit.multiplicand, matrix in unit.flushed, bottom)
        for words, matrix, bottom in zip(
            (a, b), (Matrix.A, Matrix.B), unit.bottoms or (None, None), strict=True
        )
    )
    words = np.zeros_like(c) if unit.ignores_c or unit.accumulator_last else c
    first = True
    for chosen in _blocks(depth, unit):
        parts = _part(left, slice(None), chosen), _part(right, chosen)
        if unit.blocks_apart and not first:
            words = _added(words, _add_block(*parts, np.zeros_like(c), unit), unit)
        else:
            words = _add_block(*parts, words, unit)
        first = False
    return _added(words, c, unit) if unit.accumulator_last else words


def _added(x: Words, y: Words, unit: FloatUnit) -> Words:
    """Return x times one plus y, rounded once."""
    nan = NanRule(canonical=unit.nan, invalid=unit.nan)
    rounding = unit.addition or unit.rounding
    total = multiply_add(
        x, np.full_like(x, unit.accumulator.one), y, unit.accumulator, rounding, nan
    )
    words: Words = total.astype(x.dtype)
    return words


def multiply(a: Words, b: Words, c: Words, unit: FloatUnit, result: Binary) -> Words:
    """Return D = A times B plus C, as a unit computes it.

    A and B are (M, K, warps) and (K, N, warps) words of the unit's multiplicand format; C is
    (M, N, warps) words, uint16 for f16 and uint32 for f32, and so is D, whose format is `result`.
    """
    chunks = []
    together = max(_AT_ONCE, _ELEMENTS_AT_ONCE // (a.shape[0] * b.shape[1]))
    for start in range(0, a.shape[-1], together):
        chosen = slice(start, start + together)
        addend = c[..., chosen]
        if Matrix.C in unit.flushed:
            addend = flushed(addend, F16 if addend.itemsize == 2 else F32)
        if addend.itemsize < unit.accumulator.word // 8:
            addend = widened(addend)
        words = _product(a[..., chosen], b[..., chosen], addend, unit)
        if result != unit.accumulator:
            words = narrowed(words, unit.nan, unit.narrowing, unit.saturating)
        chunks.append(flushed(words, result) if Matrix.D in unit.flushed else words)
    return np.concatenate(chunks, axis=-1)
