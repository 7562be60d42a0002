"""Sums of tensor cores, k first and tiles last: `docs/oracle.md`, "Truncated sums"."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.conversions import CANONICAL_NAN, narrow
from oracle.arithmetic.scratch import Scratch, small_buffer
from oracle.isa.forms import Format
from oracle.models import TruncatedDot

Array = NDArray[Any]
"""An array whose dtype depends on the format: float32 or float64, int8 or int16, ..."""

_FEW = 64
"""One in so many elements of f16 may be subnormal and go the way that is quick without them."""


@dataclass(frozen=True)
class Working:
    """Types in which the products of one multiplicand format are exact, and powers of two."""

    values: type[np.floating[Any]]
    integers: type[np.signedinteger[Any]]
    """Integers of the same size."""
    bias: int
    fraction_bits: int
    exponents: type[np.signedinteger[Any]]
    absent: int
    """Exponent of zero: with it no product is a block's largest, and twice it fits `exponents`."""
    smallest: int
    """Smallest exponent of a product without a zero."""

    def power(self, exponents: Array, scratch: Scratch) -> Array:
        """Return 2^exponents; they have to be within the normal range."""
        pattern = scratch.copy("power", exponents, self.integers)
        pattern += self.bias
        pattern <<= self.fraction_bits
        return pattern.view(self.values)

    def reciprocal(self, powers: Array, scratch: Scratch) -> Array:
        """Return 1 / powers for powers of two whose reciprocals are normal too."""
        pattern = scratch.array("reciprocal", powers.shape, self.integers)
        np.subtract(2 * self.bias << self.fraction_bits, powers.view(self.integers), out=pattern)
        return pattern.view(self.values)


# f16: 22-bit products from 2^-48 to 2^32 fit float32; exponents of products are -28 to 30 (32 for
# infinities), so that -64 + 16 < -28, and -128 fits int8.
# bf16 and tf32: products from 2^-272 to 2^256 need float64; exponents -252 to 256 need int16.
_HALF = Working(np.float32, np.int32, 127, 23, np.int8, -64, -28)
_WIDE = Working(np.float64, np.int64, 1023, 52, np.int16, -1024, -252)
_WORKING = {"f16": _HALF, "bf16": _WIDE, "tf32": _WIDE}


@dataclass(frozen=True)
class DotOperand:
    """A or B, decoded: k first, tiles last."""

    values: Array
    """(k, lines, tiles); infinities and NaNs are themselves."""
    exponents: Array
    """(k, lines, tiles)."""
    working: Working
    special: NDArray[np.bool_]
    """(tiles,): whether any element is infinite or NaN; (lines,) where they are last."""

    @classmethod
    def decode(
        cls, name: str, tiles: Array, axes: tuple[int, int, int], fmt: Format, scratch: Scratch,
        least: int | None = None,
    ) -> DotOperand:  # fmt: skip
        """Decode patterns (tiles, rows, columns), which are lost; `least`: exponent, not zeros'."""
        working = _WORKING[fmt.name]
        bits = tiles.transpose(axes)
        if not bits.flags.c_contiguous:
            bits = scratch.tiles_last(name, tiles, axes)
        if fmt.name == "f16" and _below(bits, fmt):
            values = bits.view(np.float32)
        else:
            values = scratch.array(f"{name} values", bits.shape, working.values)
        exponents = scratch.array(f"{name} exponents", bits.shape, working.exponents)
        _decode(bits, fmt, values, exponents, scratch)
        if least is not None:
            np.maximum(exponents, least, out=exponents, where=exponents != working.absent)
        special = np.zeros(bits.shape[2], np.bool_)
        if exponents.max(initial=0) > fmt.bias:
            np.greater(exponents.max(axis=(0, 1)), fmt.bias, out=special)
            if fmt.name == "f16":
                at = np.flatnonzero(exponents > fmt.bias)
                finite = values.take(at)  # 2^16 stands for infinity, more for NaN
                values.put(at, np.where(np.abs(finite) == 2.0**16, finite * np.inf, np.nan))
        return cls(values, exponents, working, special)

    def lines(self, part: slice) -> DotOperand:
        """Return some lines, with an axis for the other operand's lines after them."""
        return DotOperand(
            self.values[:, part, None], self.exponents[:, part, None], self.working, self.special
        )

    def ks(self, part: slice) -> DotOperand:
        """Return some ks."""
        return DotOperand(self.values[part], self.exponents[part], self.working, self.special)

    def has_zero(self) -> NDArray[np.bool_]:
        """Return for every line and tile whether an element is zero."""
        zero: NDArray[np.bool_] = np.any(self.exponents == self.working.absent, axis=0)
        return zero


def element_values(bits: Array, fmt: Format) -> Array:
    """Return elements as float32, which holds every format here; bits of f32 as a view."""
    if fmt.name == "f16":
        return bits.view(np.float16).astype(np.float32)
    words: Array = bits.astype(np.uint32, copy=False)
    if bits.itemsize == 2:  # bf16
        words = words << 16
    elif fmt.ignored_bits:
        words = words & np.uint32(2**32 - (1 << fmt.ignored_bits))
    return words.view(np.float32)


def _decode(bits: Array, fmt: Format, values: Array, exponents: Array, scratch: Scratch) -> None:
    """Write values and exponents: a zero's is `absent`; infinities and NaNs of f16 are finite."""
    below = fmt.ignored_bits + _below(bits, fmt)
    mask = (1 << (8 * bits.itemsize - 1)) - (1 << below)
    least, absent = 1 - fmt.bias, _WORKING[fmt.name].absent
    np.right_shift(bits, fmt.fraction_bits + below, out=exponents, casting="unsafe")
    exponents &= (1 << fmt.exponent_bits) - 1
    at = _few_zeros(exponents)
    exponents -= fmt.bias
    if at is not None:
        exponents.put(at, np.where(bits.take(at) & mask == 0, absent, least))
        _write_values(bits, fmt, values)
        return
    small = scratch.array("small", bits.shape, np.bool_)
    np.equal(exponents, -fmt.bias, out=small)
    count = np.count_nonzero(small)
    if fmt.name == "f16":
        bits, mask = _patterns(bits, fmt), 0x7FFF
    magnitude = scratch.array("magnitude", bits.shape, bits.dtype)
    np.bitwise_and(bits, mask, out=magnitude)
    zero = scratch.array("zero", bits.shape, np.bool_)
    np.equal(magnitude, 0, out=zero)
    exponents += small.view(np.int8)
    if fmt.name == "f16" and _FEW * (count - np.count_nonzero(zero)) > bits.size:
        _scale_halves(bits, magnitude, exponents, values, scratch)
    else:
        _write_values(bits, fmt, values)
    lower = scratch.array("lower", bits.shape, exponents.dtype)
    np.multiply(zero, exponents.dtype.type(least - absent), out=lower)
    exponents -= lower


def _below(bits: Array, fmt: Format) -> int:
    """Return how many bits lie below the patterns in their words: 16 in upper halves of uint32."""
    return 8 * bits.itemsize - fmt.bits


def _patterns(bits: Array, fmt: Format) -> Array:
    """Return patterns of 16 bits as uint16, wherever they lie in their words."""
    below = _below(bits, fmt)
    return (bits >> below).astype(np.uint16) if below else bits


def _few_zeros(exponents: Array) -> NDArray[np.intp] | None:
    """Return where natural numbers (k, lines, tiles) are zero, in memory order, if few are."""
    rows = exponents.reshape(len(exponents), -1)
    columns = np.flatnonzero(rows.min(axis=0, initial=1) == 0)
    if _FEW * len(columns) > rows.size:
        return None
    k, column = np.nonzero(rows.take(columns, axis=1) == 0)
    return None if _FEW * len(k) > rows.size else k * rows.shape[1] + columns[column]


def _write_values(bits: Array, fmt: Format, out: Array) -> None:
    """Write elements, of f16 few of them subnormal, as floats; special ones of f16 are finite."""
    if fmt.name != "f16":
        np.copyto(out, element_values(bits, fmt))
        return
    words = out.view(np.int32)
    if _below(bits, fmt):
        np.right_shift(bits.view(np.int32), 3, out=words)
    else:
        np.copyto(words, bits.view(np.int16))
        words <<= 13  # f16 has 10 bits of a fraction, f32 23
    words &= -(1 << 31) | (1 << 28) - 1  # the sign came along three times too often
    out *= np.float32(2.0 ** (127 - 15))  # the difference of the biases


def _scale_halves(
    bits: Array, magnitude: Array, exponents: Array, out: Array, scratch: Scratch
) -> None:
    """Write f16 without f32's subnormals, special ones finite: thrice as fast (2026-11-21)."""
    significand = scratch.copy("significand", exponents, np.int16)
    significand += 15 - 1  # the field, less one
    significand <<= 10
    np.subtract(magnitude.view(np.int16), significand, out=significand)
    sign = scratch.copy("sign", bits.view(np.int16))
    sign >>= 15
    sign |= 1
    significand *= sign
    np.copyto(out, significand)
    power = scratch.copy("power", exponents, np.int32)
    power += 127 - 10  # f32's bias, and f16's bits of a fraction
    power <<= 23
    out *= power.view(np.float32)


_CHUNK_ELEMENTS = 1 << 17
"""Outputs worked on together: 2^16 took 1 to 9 % longer with 512 KiB of cache (2026-11-22)."""

_LONG = 256
"""Tiles from which on NumPy's small buffer is quicker (of 128 to 512, 2026-11-27)."""

_CHUNK_MET = 1 << 15
"""The same of sparse A, where what the elements meet is gathered for each chunk. 2^13 took a sixth
longer, 2^17 as long (2026-11-27)."""


def truncated_dot(
    a: Array, b: Array, c: Array, *, multiplicand: Format, rule: TruncatedDot, blocks: list[slice],
    scratch: Scratch, keeps_c: bool = True, rows: NDArray[np.intp] | None = None,
) -> Array:  # fmt: skip
    """Return a @ b + c as the hardware chains it, (m, n, tiles): good until the next call.

    `a`, `b`: (tiles, m, k), (tiles, k, n); of 16 bits also in upper halves of uint32, then lost.
    `c`: (tiles, m, n), patterns of the accumulator. `blocks`: The ks that are added at once.
    `keeps_c`: Whether `c` is needed later; if not, it may become the result.
    `rows`: Of sparse A: which row of `b` each element meets, (k, m, tiles). None: the k-th.
    """
    with np.errstate(all="ignore"):  # special values are garbage until the end of a block
        least, least_b = rule.least_exponents
        left = DotOperand.decode("a", a, (2, 1, 0), multiplicand, scratch, least)
        if rows is not None:
            right = DotOperand.decode("b", b, (1, 0, 2), multiplicand, scratch, least_b)
            total = np.array(c.transpose(1, 0, 2), order="C")
            _add_met(left, right, total, rows, multiplicand, rule, blocks, scratch)
            return total.transpose(0, 2, 1)
        right = DotOperand.decode("b", b, (1, 2, 0), multiplicand, scratch, least_b)
        total = c.transpose(1, 2, 0)
        if keeps_c or not total.flags.c_contiguous:
            total = scratch.tiles_last("c", c, (1, 2, 0))
        m, n, tiles = total.shape
        size = max(1, min(m, _CHUNK_ELEMENTS // (n * tiles)))
        for row in range(0, m, size):
            part = slice(row, row + size)
            lines = left.lines(part)
            for ks in blocks:
                _add_block(lines.ks(ks), right.ks(ks), total[part], rule, scratch)
    return total


def _add_met(
    left: DotOperand, right: DotOperand, total: Array, rows: NDArray[np.intp], multiplicand: Format,
    rule: TruncatedDot, blocks: list[slice], scratch: Scratch,
) -> None:  # fmt: skip
    """Add the products of each element of A, (k, m, tiles), with the row of B that it meets."""
    m, tiles, n = total.shape
    places = rows * tiles + np.arange(tiles)
    any_special = left.special.any() or right.special.any()
    size = max(1, min(m, _CHUNK_MET // (n * tiles)))
    for row in range(0, m, size):
        part = slice(row, row + size)
        sums = total[part].reshape(1, 1, -1)
        for ks in blocks:
            met = places[ks, part]
            shape = (len(met), 1, sums.size)
            a, b = [], []
            for name, x, y in (
                ("values", left.values, right.values),
                ("exponents", left.exponents, right.exponents),
            ):
                gathered = scratch.array(f"met {name}", (*met.shape, n), y.dtype)
                y.reshape(-1, n).take(met, axis=0, out=gathered, mode="clip")
                a.append(x[ks, part].repeat(n, axis=-1).reshape(shape))
                b.append(gathered.reshape(shape))
            special = np.zeros(sums.size, np.bool_)
            if any_special:
                for exponents in (a[1], b[1]):
                    special |= exponents.max(axis=(0, 1)) > multiplicand.bias
            lines = DotOperand(a[0], a[1], left.working, special).lines(slice(None))
            _add_block(lines, DotOperand(b[0], b[1], left.working, special), sums, rule, scratch)


def _add_block(
    a: DotOperand, b: DotOperand, c: Array, rule: TruncatedDot, scratch: Scratch
) -> None:
    """Add a block, (block, rows, 1, tiles) x (block, n, tiles) to patterns `c` (rows, n, tiles)."""
    fmt = rule.accumulator_format
    field = scratch.copy("field", c)
    field >>= fmt.fraction_bits
    field &= (1 << fmt.exponent_bits) - 1
    special = _some((field.max(axis=(0, 1)) > 2 * fmt.bias) | a.special | b.special)
    plain = None if special is None else _plain_sum(a, b, c[..., special], fmt, special, scratch)
    largest = scratch.copy("largest", field, np.int16)
    largest -= fmt.bias
    products = _largest_exponents(a.exponents, b.exponents, scratch)
    # Where every product has a zero, even the smallest normal accumulator is larger.
    if products.min(initial=a.working.smallest) < a.working.smallest:
        none = scratch.array("none", products.shape, np.bool_)
        np.less(products, a.working.smallest, out=none)
        np.copyto(products, np.iinfo(products.dtype).min, where=none)
    np.maximum(largest, products, out=largest)
    # An accumulator that is zero or subnormal has so far counted as 2^-bias, which only shows
    # where nothing larger is there; and only there can `zero_exponent` be the largest.
    least = int(largest.min())
    if least <= 1 - fmt.bias:
        _settle_small(largest, a, b, c, products, rule)
        least = int(largest.min())
    largest -= rule.fraction_bits.value
    least -= rule.fraction_bits.value
    working = a.working
    normal = 1 - working.bias  # least exponent of a normal number
    low = None
    if least < normal:
        # No product but zeros, and an accumulator that is zero or that small; none of f16 is.
        low = np.flatnonzero((largest < normal) & (c << 1 != 0))
        # They are cut to multiples of powers that may be very small; zero is positive.
        power = np.ldexp(1.0, largest.take(low))
        alone = np.trunc(c.take(low).view(np.float32) / power) * power + 0.0
        alone = alone.astype(np.float32).view(np.uint32)
        np.maximum(largest, normal, out=largest)
        least = normal

    grid = working.power(largest, scratch)
    scale = working.reciprocal(grid, scratch)
    total = _truncated_sum(a.values, b.values, scale, rule.fraction_bits.value, scratch)
    scale *= element_values(c, fmt)
    np.trunc(scale, out=scale)
    exact = scratch.copy("exact", total, np.float64)
    exact += scale

    if fmt.name == "f32":
        _round_toward_zero(exact, grid, c, subnormal=least < -126)
    else:
        _round_to_nearest_half(exact, grid, c)
    if low is not None:
        c.put(low, alone)
    if rule.sum_bits is not None:
        c &= np.uint32(-1 << (fmt.fraction_bits - rule.sum_bits.value) & 0xFFFF_FFFF)
        np.copyto(c, 0, where=c == np.uint32(1 << 31))
    if plain is not None:
        patterns = c[..., special]
        _overwrite_special(patterns, plain, fmt)
        c[..., special] = patterns


def _some(mask: NDArray[np.bool_]) -> NDArray[np.intp] | slice | None:
    """Return an index of what is set: None if nothing is; everything if gathering costs more."""
    chosen = np.flatnonzero(mask)
    if not len(chosen):
        return None
    return slice(None) if 3 * len(chosen) > len(mask) else chosen


def _plain_sum(
    a: DotOperand,
    b: DotOperand,
    c: Array,
    fmt: Format,
    tiles: NDArray[np.intp] | slice,
    scratch: Scratch,
) -> Array:
    """Return the sum of `c` and the block's products of these tiles, as IEEE 754 adds them."""
    left, right = a.values[:, :, 0, :][..., tiles], b.values[..., tiles]
    total = scratch.array("plain", c.shape, a.working.values)
    np.einsum("krt,knt->rnt", left, right, out=total)
    total += element_values(c, fmt)
    return total


def _largest_exponents(a: Array, b: Array, scratch: Scratch) -> Array:
    shape = (a.shape[1], *b.shape[1:])
    largest = scratch.array("largest product", shape, a.dtype)
    term = scratch.array("exponent", shape, a.dtype)
    np.add(a[0], b[0], out=largest)
    for left, right in zip(a[1:], b[1:], strict=True):
        np.add(left, right, out=term)
        np.maximum(largest, term, out=largest)
    return largest


def _settle_small(
    largest: Array, a: DotOperand, b: DotOperand, c: Array, products: Array, rule: TruncatedDot
) -> None:
    fmt = rule.accumulator_format
    small = largest <= 1 - fmt.bias
    zero = np.broadcast_to(a.has_zero() | b.has_zero(), small.shape)[small]
    magnitude = c[small] & ((1 << (fmt.bits - 1)) - 1)
    field = (magnitude >> fmt.fraction_bits).astype(np.int16)
    zero_exponent = np.int16(rule.zero_exponent.value)
    own = np.where(magnitude == 0, zero_exponent, np.maximum(field, 1) - np.int16(fmt.bias))
    settled = np.maximum(own, products[small])
    largest[small] = np.where(zero, np.maximum(settled, zero_exponent), settled)


def _truncated_sum(a: Array, b: Array, scale: Array, fraction_bits: int, scratch: Scratch) -> Array:
    """Return the sum of the block's products times `scale`, each truncated to an integer."""
    # A product is below 4 * 2^E, so `block` truncated ones sum to less than
    # block * 2^(F + 2) in magnitude: 16 * 2^27 = 2^31 on sm_90, which int32 just holds, because
    # the accumulator is added later, in float64 (where sums below 2^53 are exact).
    integers = np.int32 if len(a) << (fraction_bits + 2) <= 1 << 31 else np.int64
    total = scratch.array("total", scale.shape, integers)
    term = scratch.array("term", scale.shape, integers)
    product = scratch.array("product", scale.shape, scale.dtype)
    with small_buffer() if scale.shape[-1] >= _LONG else nullcontext():
        for k, (left, right) in enumerate(zip(a, b, strict=True)):
            np.multiply(left, right, out=product)
            product *= scale
            if k == 0:
                np.copyto(total, product, casting="unsafe")
            else:
                np.copyto(term, product, casting="unsafe")
                total += term
    return total


def _round_toward_zero(
    exact: NDArray[np.float64], grid: Array, out: NDArray[np.uint32], *, subnormal: bool
) -> None:
    """Round exact * grid to f32 patterns toward zero; `subnormal`: below 2^-126 is possible."""
    # Clearing 29 of float64's 53 significant bits leaves f32's 24.
    pattern = exact.view(np.uint64)
    pattern &= np.uint64(2**64 - 2**29)
    values = out.view(np.float32)
    if not subnormal:
        # 24 bits times a power of two: exact, in float32 too, or too large.
        np.copyto(values, exact, casting="unsafe")
        np.multiply(values, grid, out=values, casting="unsafe")
        return
    exact *= grid
    fixed = np.trunc(exact * 2.0**149) * 2.0**-149
    values[...] = np.where(np.abs(exact) < 2.0**-126, fixed, exact) + 0.0


def _round_to_nearest_half(
    exact: NDArray[np.float64], grid: Array, out: NDArray[np.uint16]
) -> None:
    """Round exact * grid to f16 patterns, to nearest even; any zero is +0. `exact` is lost."""
    # Rounded to odd, f32 keeps what decides the rounding to f16's 11 bits: no double rounding.
    pattern = exact.view(np.uint64)
    low = np.uint64(2**29 - 1)
    pattern |= (pattern & low) + low
    pattern &= ~low
    single = np.multiply(exact, grid, dtype=np.float32, casting="unsafe")
    halves = narrow(single.view(np.uint32))
    np.copyto(out, np.where(halves == 0x8000, np.uint16(0), halves))


def _overwrite_special(result: Array, plain: Array, fmt: Format) -> None:
    """Put infinities and NaNs of the plain IEEE sum, special where a term is, into the result."""
    at = np.flatnonzero(~np.isfinite(plain))
    sums = plain.take(at)
    if fmt.name == "f32":
        patterns: Array = sums.astype(np.float32, copy=False).view(np.uint32)
    else:
        patterns = np.where(sums < 0.0, np.uint16(0xFC00), np.uint16(0x7C00))
    patterns[np.isnan(sums)] = CANONICAL_NAN[fmt.name]
    result.put(at, patterns)
