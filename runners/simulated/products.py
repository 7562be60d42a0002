"""The product of two matrices by the unit that a device has for it.

f16, bf16 and tf32 are chains of truncated fused dot products. Measured on an H200 (November 2026):
K is cut into blocks; the exact products of a block and the running accumulator are aligned to the
largest exponent among them, cut toward zero to F bits below it, summed as integers, and rounded to
the accumulator's format. The exponent of a product is the sum of its factors' exponents, whatever
its significand; a zero has a fixed one.

Beside these there are chains of fused multiply-adds (f64; measured on an H200, November 2026: k
runs upward, and every step is rounded in the instruction's mode), sums that are exact (small
integers and single bits, plus C in 32 bits), and scalar arithmetic in place of a unit
(mma.sync.m8n8k4 of f16).

All arrays have the warps as their last axis: A is (M, K, warps), B (K, N, warps), C and D
(M, N, warps), raw unsigned words or elements.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from runners.simulated.fused import (
    F16,
    F32,
    F64,
    NAMED,
    BinaryNumber,
    FusedNan,
    Product,
    Rounding,
    add,
    as_f16,
    flushed,
    is_negative,
    is_no_number,
    multiply_add,
    products,
    round_words,
    rounded,
    unpack,
    widened,
)
from runners.simulated.integers import population
from runners.simulated.silicon import (
    BITS,
    BitOperation,
    BitUnit,
    DoubleUnit,
    FloatUnit,
    IntegerUnit,
    MultiplyUnit,
    QuadUnit,
    UnitMatrix,
)
from runners.simulated.warps import spread

Words = NDArray[Any]
"""Raw unsigned words."""
Terms = NDArray[np.int32]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

# An exponent far below every other: a zero's term is found zero, and it never is the largest. The
# sum of two of them and every shift computed from them stay in 32 bits.
_ZERO_EXPONENT = -(1 << 14)
_WRAP = (1 << 32) - 1


def in_chunks(together: int, multiply: Callable[..., Words], *given: Words) -> Words:
    """Multiply so many warps together, that the intermediate arrays stay in a core's caches."""
    return np.concatenate([
        multiply(*[each[..., start : start + together] for each in given])
        for start in range(0, given[0].shape[-1], together)
    ], axis=-1)  # fmt: skip


class ProductFactors(NamedTuple):
    """One matrix taken apart."""

    sign: Terms  # 1 or -1
    exponent: Terms
    significand: Terms
    infinite: Flags | None
    nan: Flags | None  # None where the matrix holds no special value


def take_apart(
    words: Words, binary: BinaryNumber, flush: bool, bottom: int | None = None
) -> ProductFactors:
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
    return ProductFactors(
        sign=(1 - 2 * negative).astype(np.int32),
        exponent=exponent.astype(np.int32),
        significand=significand.astype(np.int32),
        infinite=special & (fraction == 0) if any_special else None,
        nan=special & (fraction != 0) if any_special else None,
    )


def narrowed(
    words: Words, nan: int, rounding: Rounding = Rounding.NEAREST_EVEN, saturating: bool = False
) -> Words:
    """Return f16 words of f32 words; a tiny negative gives -0, and any NaN the cut of `nan`."""
    x = unpack(words.astype(np.uint64), F32)
    magnitude = round_words(x, F16, rounding, beyond=F16.infinity - saturating)
    # 0x7fffffff gives 0x7fff.
    cut = F16.infinity | (nan >> 13 & (1 << F16.fraction) - 1)
    gone = is_no_number(x)
    magnitude = np.where(gone, np.uint64(cut), magnitude)
    return _signed(magnitude, np.where(gone, bool(nan >> 16 & F16.sign), is_negative(x)), F16)


def _signed(magnitude: Any, negative: Any, binary: BinaryNumber) -> Words:
    words: Words = magnitude | (negative * magnitude.dtype.type(binary.sign))
    return words.astype(f"u{binary.word // 8}")


def put_specials(
    words: Words, a: ProductFactors, b: ProductFactors, c: ProductFactors, unit: FloatUnit
) -> Words:
    """Put the NaN and infinities that a block gives over a result as if all were finite."""
    narrow = not unit.wide_products
    if a.infinite is None and b.infinite is None and c.infinite is None and not narrow:
        return words
    (a_nan, a_infinite), (b_nan, b_infinite), (c_nan, c_infinite) = (
        [spread(np.zeros((1, 1, 1), np.bool_) if flags is None else flags, each.sign.shape)
         for flags in (each.nan, each.infinite)] for each in (a, b, c)
    )  # fmt: skip
    nan = c_nan | a_nan.any(axis=1, keepdims=True) | b_nan.any(axis=0, keepdims=True)
    positive, negative = c_infinite & (c.sign > 0), c_infinite & (c.sign < 0)
    invalid = np.zeros(words.shape, np.bool_)
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
    both = positive & negative
    if unit.invalid_is_nan:
        nan |= invalid | both
    else:
        positive, negative = positive & ~both, negative & ~both
    infinity = unit.accumulator.infinity
    words[positive], words[negative] = infinity, infinity | unit.accumulator.sign
    words[nan] = unit.nan
    return words


def _carries(a: ProductFactors, b: ProductFactors, k: int, unit: FloatUnit) -> Flags:
    """Return which products of significands are 2 or more."""
    product = a.significand[:, k, None] * b.significand[k][None]
    carries: Flags = product >> (2 * unit.multiplicand.fraction + 1) > 0
    return carries


def _largest_exponents(
    a: ProductFactors, b: ProductFactors, c: ProductFactors, unit: FloatUnit
) -> tuple[list[Terms], Terms]:
    """Return the exponent of each k's products, and the largest of each dot product's terms."""
    # The accumulator is always a term: where it or any product is zero, the fixed exponent takes
    # part. Below the accumulator's least it needs no question: its own is larger than that.
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


def _add_block(a: ProductFactors, b: ProductFactors, c_words: Words, unit: FloatUnit) -> Words:
    accumulator = unit.accumulator
    c = take_apart(c_words, accumulator, flush=False)
    exponents, top = _largest_exponents(a, b, c, unit)
    # A term is below 2^(F + 2); 32 bits hold `group` of them.
    wide = unit.fraction > 28
    integers: type[np.signedinteger[Any]] = np.int64 if wide else np.int32
    group = len(exponents) + 1 if wide else 1 << (29 - unit.fraction)
    # A product has 2 * fraction bits below its point; F of them are wanted before the cut.
    surplus = 2 * unit.multiplicand.fraction - unit.fraction
    lifted = a.significand.astype(integers) << max(0, -surplus)
    # C is lifted by 8 bits, which F can exceed the fraction of f32 by, and that of f16 by more.
    lift = max(8, unit.fraction - accumulator.fraction)
    down = top.astype(np.int64) - c.exponent + (lift + accumulator.fraction - unit.fraction)
    total: Integers = (c.significand.astype(np.int64) << lift >> down) * c.sign
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
    words = finish(total, top.astype(np.int64) - unit.fraction, unit)
    return put_specials(words, a, b, c, unit)


def finish(total: Integers, scale: Integers, unit: FloatUnit) -> Words:
    """Round sums below 2^53 times 2^scale to words of the accumulator."""
    short = binary = unit.accumulator
    if unit.kept is not None:
        short = BinaryNumber(binary.word, binary.exponent, unit.kept)
    negative, size, drop = total < 0, np.abs(total), 52 - short.fraction
    # An integer below 2^53 is exact as float64, which has its leading one found; zero has none.
    image = size.astype(np.float64).view(np.int64)
    field = (image >> 52) + scale
    odd = field < short.bottom + 1023
    if unit.rounding is Rounding.NEAREST_EVEN:
        image += (image >> drop & 1) + ((1 << drop - 1) - 1)
    elif unit.rounding is not Rounding.ZERO:
        odd[...] = True
    words = (image >> drop) + (scale + (short.top - 1023) << short.fraction)
    # Rounding toward zero gives infinity, too, as the matrix units measured do.
    most = (short.infinity >> short.unused) - unit.saturating
    np.minimum(words, most, out=words)
    if unit.kept is not None:
        words <<= short.unused
    if odd.any():
        signs, exponents = negative[odd], field[odd] - 1023
        whole = (size[odd] << (61 + scale[odd] - exponents)).view(np.uint64)
        words[odd] = rounded(signs, whole, exponents, short, unit.rounding, beyond=most)
    # A zero is positive, also where a negative sum was cut to it.
    return _signed(words, np.where(words == 0, unit.zero_sign, negative), binary)


def _blocks(depth: int, unit: FloatUnit) -> list[Any]:
    """Return which products each block adds, in the order of the blocks."""
    starts = range(0, depth, unit.block)
    blocks: list[Any] = [slice(start, min(start + unit.block, depth)) for start in starts]
    if unit.run is not None:
        # Runs are dealt out like cards: the first run to the first block, the next to the next.
        dealt = [
            [k for first in range(hand * unit.run, depth, len(starts) * unit.run)
             for k in range(first, min(first + unit.run, depth))]
            for hand in range(len(starts))
        ]  # fmt: skip
        blocks = [cards for cards in dealt if cards]
    return blocks[::-1] if unit.descending else blocks


def _part(factors: ProductFactors, index: Any) -> ProductFactors:
    found: Any = [None if field is None else field[index] for field in factors]
    return ProductFactors(*found)


def _chain_of_blocks(a: Words, b: Words, c: Words, unit: FloatUnit) -> Words:
    """Return accumulator words of a chunk of warps."""
    binary = unit.multiplicand
    if unit.rounded_multiplicands and binary.unused:
        half, infinity = np.uint32(1 << (binary.unused - 1)), np.uint32(binary.infinity)
        a, b = (np.where(x & infinity != infinity, x + half, x) for x in (a, b))
    depth = a.shape[1] if unit.products is None else unit.products
    left, right = (
        take_apart(words, binary, matrix in unit.flushed, bottom)
        for words, matrix, bottom in zip(
            (a, b), (UnitMatrix.A, UnitMatrix.B), unit.bottoms or (None, None), strict=True
        )
    )
    words = np.zeros_like(c) if unit.ignores_c or unit.accumulator_last else c
    for turn, chosen in enumerate(_blocks(depth, unit)):
        parts = _part(left, (slice(None), chosen)), _part(right, (chosen,))
        if unit.blocks_apart and turn:
            words = _added(words, _add_block(*parts, np.zeros_like(c), unit), unit)
        else:
            words = _add_block(*parts, words, unit)
    return _added(words, c, unit) if unit.accumulator_last else words


def _added(x: Words, y: Words, unit: FloatUnit) -> Words:
    """Return x times one plus y, rounded once."""
    one = np.full_like(x, unit.accumulator.one)
    rounding, rule = unit.addition or unit.rounding, FusedNan(unit.nan, unit.nan)
    words: Words = multiply_add(x, one, y, unit.accumulator, rounding, rule).astype(x.dtype)
    return words


def multiply(a: Words, b: Words, c: Words, unit: FloatUnit, result: BinaryNumber) -> Words:
    """Return D = A times B plus C, as a unit computes it.

    A and B are words of the unit's multiplicand format; C is uint16 for f16 and uint32 for f32, and
    so is D, whose format is `result`.
    """

    def chunk(a: Words, b: Words, c: Words) -> Words:
        if UnitMatrix.C in unit.flushed:
            c = flushed(c, F16 if c.itemsize == 2 else F32)
        if c.itemsize < unit.accumulator.word // 8:
            c = widened(c)
        words = _chain_of_blocks(a, b, c, unit)
        if result != unit.accumulator:
            words = narrowed(words, unit.nan, unit.narrowing, unit.saturating)
        return flushed(words, result) if UnitMatrix.D in unit.flushed else words

    # More where D has few elements.
    return in_chunks(max(64, 64 * 128 // (a.shape[0] * b.shape[1])), chunk, a, b, c)


class ProductTypes(NamedTuple):
    """The element types of a product, in the order of an opcode."""

    d: str
    a: str
    b: str
    c: str


def multiply_on(unit: MultiplyUnit, a: Words, b: Words, c: Words, types: ProductTypes) -> Words:
    """Return D = A times B plus C as a unit computes it."""
    match unit:
        case FloatUnit():
            return multiply(as_f16(a, types.a), as_f16(b, types.b), c, unit, NAMED[types.d])
        case IntegerUnit():
            return _multiply_integers(a, b, c, BITS[types.a], unit)
        case BitUnit():
            return _count_bits(a, b, c, unit)
        case DoubleUnit():
            return multiply_doubles(a, b, c, unit)
        case QuadUnit():
            return _multiply_scalar(a, b, c, unit, types.d)


def _multiply_scalar(a: Words, b: Words, c: Words, unit: QuadUnit, result: str) -> Words:
    """Multiply f16 matrices in f32 operations, each rounded to nearest even."""
    rule = FusedNan(unit.nan, unit.nan)

    def fused(product: Product, z: Words) -> Words:
        return add(product, z, Rounding.NEAREST_EVEN, rule)

    def plus(x: Words, y: Words) -> Words:
        return multiply_add(x, np.array(F32.one), y, F32, Rounding.NEAREST_EVEN, rule)

    exact = products(widened(a), widened(b), F32)
    addend = (widened(c) if c.itemsize == 2 else c).astype(np.uint64)
    order = range(a.shape[1])
    if unit.pairs:
        total = addend
        for k in order[::2]:
            pair = fused(exact[k + 1], fused(exact[k], np.full_like(addend, F32.sign)))
            total = plus(pair, total)
    else:
        total = np.zeros_like(addend)
        for k in order:
            total = fused(exact[k], total)
        total = plus(total, addend)
    words = total.astype(np.uint32)
    return narrowed(words, unit.nan) if result == "f16" else words


def multiply_doubles(a: Words, b: Words, c: Words, unit: DoubleUnit) -> Words:
    """Return D = A times B plus C of f64, a chain of fused multiply-adds for each element."""
    a, b, c = (
        flushed(words, F64) if matrix in unit.flushed else words
        for words, matrix in ((a, UnitMatrix.A), (b, UnitMatrix.B), (c, UnitMatrix.C))
    )
    depth = a.shape[1] if unit.products is None else unit.products
    order = range(depth - 1, -1, -1) if unit.descending else range(depth)

    def plus(x: Words, y: Words) -> Words:
        return multiply_add(x, np.array([F64.one], np.uint64), y, F64, unit.rounding, unit.nan)

    def step(product: Product, total: Words) -> Words:
        if unit.fused:
            return add(product, total, unit.rounding, unit.nan)
        # A zero of the product's own sign leaves every product as it is, zeros too.
        zero = (product.x.words ^ product.y.words) & np.uint64(F64.sign)
        return plus(add(product, zero, unit.rounding, unit.nan), total)

    def chain(a: Words, b: Words, c: Words) -> Words:
        exact = products(a, b, F64)
        if unit.pairwise:
            halves = [np.zeros_like(c)] * 2
            for k in order:
                halves[k % 2] = step(exact[k], halves[k % 2])
            return plus(plus(*halves), c)
        for k in order:
            c = step(exact[k], c)
        return c

    words = in_chunks(128, chain, a, b, c)
    return flushed(words, F64) if UnitMatrix.D in unit.flushed else words


def _extended(elements: Words, bits: int, signed: bool) -> NDArray[np.int16]:
    """Return the numbers that elements of so many bits, in unsigned words, stand for."""
    numbers, sign = elements.astype(np.int16), 1 << (bits - 1)
    return (numbers ^ sign) - sign if signed else numbers


def _multiply_integers(a: Words, b: Words, c: Words, bits: int, unit: IntegerUnit) -> Words:
    """Return D = A times B plus C, in 32 bits, of integers of 4 or 8 bits."""
    left, right = _extended(a, bits, unit.signed_a), _extended(b, bits, unit.signed_b)
    depth = a.shape[1] if unit.products is None else unit.products
    total: Integers = c.astype(np.uint32).view(np.int32).astype(np.int64)
    if unit.clamps_each_step:
        for k in range(depth):
            total = total + left[:, k, None].astype(np.int64) * right[k][None]
            if unit.saturating:
                total = np.clip(total, unit.lowest, unit.highest)
        return (total & _WRAP).astype(np.uint32)
    # At most 64 products of at most 16 bits: float32 holds every partial sum exactly.
    rows = left[:, :depth].transpose(2, 0, 1).astype(np.float32)
    columns = right[:depth].transpose(2, 0, 1).astype(np.float32)
    partial = np.matmul(rows, columns).astype(np.int32).transpose(1, 2, 0)
    if unit.carry_break is None:
        total = partial + total
    else:
        # No carry comes from below a bit into it.
        low = (1 << unit.carry_break) - 1
        sums = partial.astype(np.int64)
        total = ((sums & low) + (total & low) & low) | ((sums & ~low) + (total & ~low))
    if unit.saturating:
        total = np.clip(total, unit.lowest, unit.highest)
    return (total & _WRAP).astype(np.uint32)


def _packed(bits: Words, axis: int) -> NDArray[np.uint64]:
    """Pack single bits along an axis, moved to the front, into words of 64."""
    packed = np.packbits(np.moveaxis(bits, axis, -1).astype(np.uint8), axis=-1, bitorder="little")
    return np.moveaxis(np.ascontiguousarray(packed).view(np.uint64), -1, 0)


def _count_bits(a: Words, b: Words, c: Words, unit: BitUnit) -> Words:
    """Return counts of the set bits of rows of A met with columns of B, plus C in 32 bits."""
    if unit.width is not None:
        a, b = a[:, : unit.width], b[: unit.width]
    total = np.zeros(c.shape, np.int64)
    for left, right in zip(_packed(a, 1), _packed(b, 0), strict=True):
        x, y = left[:, None], right[None]
        met = x & y if unit.operation is BitOperation.AND else x ^ y
        total += population(~met if unit.operation is BitOperation.XNOR else met)
    total += np.where(total > 0, unit.bias, 0)
    if not unit.ignores_c:
        total += c.astype(np.uint32).view(np.int32)
    if unit.saturating:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return (total & _WRAP).astype(np.uint32)
