"""The f64 fused multiply-add in four rounding modes, vectorised and exact without hardware help.

Method: error-free transforms. A product is the unevaluated sum of two doubles (Dekker 1971, "A
floating-point technique for extending the available precision"), and with the addend the three
are summed with one rounding to odd in between (Boldo and Melquiond 2008, "Emulation of a FMA and
correctly rounded sums: proved algorithms using rounding to odd"). The sign of the error that the
final addition leaves says which neighbour a directed mode takes.

With ordinary operands that is all (`_ordinary_chain`). With others it is done on normalised
significands, the addend scaled into the frame of the product (`fma`): in the frame nothing can
overflow or underflow, and results that are subnormal once the frame's exponent is put back are
rounded again from the exact parts, on the grid of 2^-1074. `chain` sends each tile one of the two
ways.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from oracle.arithmetic.error_free import directed_step, odd_sum, product_error, split, two_sum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from oracle.models import DoubleChain, NanRule

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int32]
    Bits = NDArray[np.uint64]
    Bools = NDArray[np.bool_]
    Places = tuple[NDArray[np.intp], ...]
    """Indices along each axis, as of np.nonzero."""

_SIGN = 1 << 63
_ONE = 0x3FF0_0000_0000_0000
_QUIET = 0x0008_0000_0000_0000
"""Quiet bit of a binary64 NaN (IEEE 754-2019, 6.2.1)."""
_SIGN_AND_FRACTION = -(1 << 63) | (1 << 52) - 1
_HALF = 1022 << 52
"""Exponent field of numbers in [0.5, 1)."""
_LARGEST_FINITE = 0x7FEF_FFFF_FFFF_FFFF
_ABSENT = -10_000
"""Exponent of zero: below that of every product and addend."""
_LEAST_FRAME = -1300
"""Frames below this are raised to it, so that 2^-1074 is representable inside the frame. A term
then lies at most at 2^-1300, far below half of the least subnormal, where only its sign counts."""
_SPAN = 200
"""A term whose exponent is this far from the other's only counts by its sign: 53-bit addend,
106-bit product, one bit to tell a tie; 160 would do."""


_ORDINARY = 480
"""Exponents of ordinary multiplicands lie between -480 and 480: a product is then a multiple of
2^-1064 or zero, so that its error is a double, and is below 2^960."""
_ORDINARY_ADDEND = 900
"""Addends below 2^900 and a few such products are far from overflow."""


_BLOCK = 1 << 14
"""Elements of C that go through a chain together: 15 arrays of 128 KiB, which stay in the cache.
Of 2^11 to 2^17 the fastest for m16n8k16 (1.3 to 2 times, 2 cores, November 2026)."""


@dataclass(frozen=True)
class Decoded:
    """Doubles split once, so that they can take part in many multiplications."""

    bits: Bits
    significand: Floats
    """Of magnitude in [0.5, 1), with the sign."""
    high: Floats
    """Upper 26 bits of the significand, which high + low is exactly."""
    low: Floats
    exponent: Ints
    """value = significand * 2^exponent; _ABSENT for zero."""
    special: Bools | None
    """Which elements are infinite or NaN; None if there is none."""

    @classmethod
    def of(cls, bits: Bits) -> Decoded:
        """Split raw bit patterns."""
        significand, exponent, special = _normalise(bits)
        return cls(bits, significand, *split(significand), exponent, special)

    def at(self, index: Any) -> Decoded:
        """Return the elements at a NumPy index."""
        return Decoded(
            self.bits[index],
            self.significand[index],
            self.high[index],
            self.low[index],
            self.exponent[index],
            None if self.special is None else self.special[index],
        )


def _normalise(bits: Bits) -> tuple[Floats, Ints, Bools | None]:
    """Return significands in [0.5, 1) with sign, exponents, and which are special, if any are."""
    pattern = bits.view(np.int64)
    exponent = (pattern >> 52).astype(np.int32)
    exponent &= 0x7FF
    significand = pattern & _SIGN_AND_FRACTION
    significand |= _HALF
    special = exponent == 0x7FF if exponent.max(initial=0) == 0x7FF else None
    least = int(exponent.min(initial=1))
    exponent -= 1022
    values = significand.view(np.float64)
    if least == 0:
        small = exponent == -1022
        subnormal = bits[small].view(np.float64)
        values[small], exponents = np.frexp(subnormal)
        exponents[subnormal == 0.0] = _ABSENT
        exponent[small] = exponents
    # Special elements go another way; here they count as [0.5, 1) * 2^1025.
    return values, exponent, special


def _power(exponents: Ints) -> Floats:
    """Return 2^exponents, from -1022 to 1023."""
    pattern = exponents.astype(np.int64)
    pattern += 1023
    pattern <<= 52
    return pattern.view(np.float64)


def fma(a: Decoded, b: Decoded, c: Bits, *, rounding: str, nan: NanRule) -> Bits:
    """Return a * b + c, rounded once, as bit patterns.

    Parameters
    ----------
    a, b
        Decoded multiplicands of shapes that broadcast to the shape of `c`.
    c
        Bit patterns of the addends.
    rounding
        "rn", "rz", "rm" or "rp" (PTX ISA 9.7.14.4.5).
    nan
        Which NaN is returned where the result is one.
    """
    with np.errstate(all="ignore"):
        addend, addend_exponent, special = _normalise(c)
        result = _finite(a, b, addend, addend_exponent, c, rounding)
        masks = [mask for mask in (a.special, b.special, special) if mask is not None]
        if masks:
            chosen = np.zeros(c.shape, np.bool_)
            for mask in masks:
                chosen |= mask
            _overwrite_special(result, np.nonzero(chosen), a.bits, b.bits, c, nan)
    return result


def two_product(a: Decoded, b: Decoded) -> tuple[Floats, Floats]:
    """Return the rounded product of significands and its exact error."""
    product = a.significand * b.significand
    return product, product_error(product, (a.high, a.low), (b.high, b.low))


def _fused(product: Floats, error: Floats, addend: Floats) -> tuple[Floats, Floats]:
    """Return two doubles whose rounded sum is that of all three, in any mode.

    Boldo and Melquiond 2008, figure 3 (Fmac): the second is rounded to odd.
    """
    upper, lower = two_sum(addend, error)
    head, rest = two_sum(product, upper)
    return head, odd_sum(lower, rest)


def _finite(
    a: Decoded, b: Decoded, addend: Floats, addend_exponent: Ints, c: Bits, rounding: str
) -> Bits:
    """Return the fused multiply-add of finite operands."""
    exponent = a.exponent + b.exponent
    frame = np.maximum(exponent, addend_exponent - _SPAN)
    np.maximum(frame, _LEAST_FRAME, out=frame)
    product, error = two_product(a, b)
    exponent -= frame
    if exponent.any():
        scale = _power(np.maximum(exponent, -_SPAN - 100, out=exponent))
        product *= scale
        error *= scale
    np.subtract(addend_exponent, frame, out=exponent)
    scaled = _power(np.maximum(exponent, -_SPAN, out=exponent))
    scaled *= addend
    head, tail = _fused(product, error, scaled)
    total = _sum(head, tail, rounding)
    result = _scaled_up(total, frame)
    # Within one step of the least normal number, one rounding to 53 bits may be one too many.
    out: Bits = result.view(np.uint64)
    small = np.abs(result) <= 2.0**-1022
    if small.any():
        at = np.nonzero(small)
        out[at] = _subnormal(head[at], tail[at], frame[at], rounding)
        at = np.nonzero((head == 0.0) & (tail == 0.0))
        _sign_zeros(out, at, a.bits, b.bits, c, rounding)
    if rounding != "rn":
        over = np.isinf(result)
        if over.any():
            kept = over & ~_away(np.signbit(total), rounding)
            out[kept] = (out[kept] & _SIGN) | _LARGEST_FINITE
    return out


def _sum(head: Floats, tail: Floats, rounding: str) -> Floats:
    """Return the sum, rounded once, where it neither overflows nor is subnormal and inexact."""
    if rounding == "rn":
        return head + tail
    total, error = two_sum(head, tail)
    pattern = total.view(np.int64)
    pattern += directed_step(total, error, rounding)
    return total


def _scaled_up(total: Floats, frame: Ints) -> Floats:
    """Return total * 2^frame where that is normal; what is subnormal is computed again."""
    near = np.minimum(frame, 1000)
    np.maximum(near, -1000, out=near)
    result = _power(near)
    result *= total
    np.subtract(frame, near, out=near)
    if near.any():
        # Frames reach from -1300 to 2250; beyond 2000 anything but 0 overflows.
        result *= _power(np.minimum(near, 1000, out=near))
    return result


def _away(negative: NDArray[np.bool_], rounding: str) -> NDArray[np.bool_]:
    """Return whether a directed mode rounds numbers of this sign away from zero."""
    if rounding == "rz":
        return np.zeros_like(negative)
    return negative if rounding == "rm" else ~negative


def _subnormal(head: Floats, tail: Floats, frame: Ints, rounding: str) -> Bits:
    """Round head + tail, times 2^frame and at most 2^-1022, on the grid of 2^-1074."""
    value = head + tail
    negative = np.signbit(value)
    sign = np.where(negative, -1.0, 1.0)
    # Doubles from `anchor` to 2 * anchor lie exactly 2^(-1074 - frame) apart.
    anchor = np.ldexp(1.0, -1022 - frame)
    upper, lower = two_sum(anchor, head * sign)
    rest = odd_sum(lower, tail * sign)
    total, residue = two_sum(upper, rest)
    steps = total.view(np.int64) - anchor.view(np.int64)
    if rounding == "rn":
        return steps.view(np.uint64) | np.where(negative, np.uint64(_SIGN), np.uint64(0))
    away = _away(negative, rounding)
    steps += away & (residue > 0.0)
    steps -= ~away & (residue < 0.0)
    return steps.view(np.uint64) | np.where(negative, np.uint64(_SIGN), np.uint64(0))


def _sign_zeros(out: Bits, at: Places, a: Bits, b: Bits, c: Bits, rounding: str) -> None:
    """Give exact zeros the sign of IEEE 754-2019, 6.3."""
    a, b, c = (pattern[at] for pattern in np.broadcast_arrays(a, b, c))
    product_sign = (a ^ b) & np.uint64(_SIGN)
    addend_sign = c & np.uint64(_SIGN)
    otherwise = np.uint64(_SIGN if rounding == "rm" else 0)
    out[at] = np.where(product_sign == addend_sign, addend_sign, otherwise)


def _overwrite_special(out: Bits, at: Places, a: Bits, b: Bits, c: Bits, nan: NanRule) -> None:
    """Put in the results of infinite and NaN operands."""
    operands = zip("abc", np.broadcast_arrays(a, b, c), strict=True)
    picked = {name: pattern[at] for name, pattern in operands}
    values = {name: pattern.view(np.float64) for name, pattern in picked.items()}
    # No finite overflow may meet an infinite addend: with finite a and b, c alone decides.
    product = np.where(
        np.isfinite(values["a"]) & np.isfinite(values["b"]), 0.0, values["a"] * values["b"]
    )
    total = product + values["c"]
    result = total.view(np.uint64)
    result[np.isnan(total)] = nan.invalid
    for name in reversed(nan.order or "abc"):
        is_nan = np.isnan(values[name])
        given = picked[name][is_nan] | np.uint64(_QUIET)
        result[is_nan] = given if nan.order else nan.canonical
    out[at] = result


def chain(a: Bits, b: Bits, c: Bits, *, rounding: str, rule: DoubleChain) -> Bits:
    """Return a @ b + c as a chain of multiply-adds.

    Shapes (tiles, m, k), (tiles, k, n) and (tiles, m, n), raw bit patterns. The result has the
    tiles last in memory.
    """
    if rule.order.value == "falling":
        a, b = a[:, :, ::-1], b[:, ::-1]
    a, b, c = (
        _flushed(bits) if figure.value == "flushed" else bits
        for bits, figure in (
            (a, rule.a_subnormals), (b, rule.b_subnormals), (c, rule.c_subnormals)
        )
    )  # fmt: skip
    d = np.empty((*c.shape[1:], len(c)), np.uint64).transpose(2, 0, 1)
    tiles = max(1, _BLOCK // max(1, c[:1].size))
    with np.errstate(all="ignore"):
        for start in range(0, len(c), tiles):
            part = slice(start, start + tiles)
            d[part] = _any_chain(a[part], b[part], c[part], rounding, rule)
    return _flushed(d) if rule.d_subnormals.value == "flushed" else d


def _flushed(bits: Bits) -> Bits:
    """Return patterns with zeros of their sign in place of subnormals."""
    return np.where(bits & np.uint64(0x7FF << 52) == 0, bits & np.uint64(_SIGN), bits)


def _any_chain(a: Bits, b: Bits, c: Bits, rounding: str, rule: DoubleChain) -> Bits:
    """Return the chain, tile by tile in the way that its operands allow."""
    nan = rule.nan.value
    if rule.multiply_add.value == "separate":
        return _separate_chain(a, b, c, rounding, nan).transpose(2, 0, 1)
    ordinary = _are_ordinary(a, b, c)
    if ordinary.all():
        return _ordinary_chain(a, b, c, rounding).transpose(2, 0, 1)
    if not ordinary.any():
        return _chain(a, b, c, rounding, nan).transpose(2, 0, 1)
    result = np.empty((*c.shape[1:], len(c)), np.uint64)
    tiles = np.flatnonzero(ordinary)
    result[..., tiles] = _ordinary_chain(a[tiles], b[tiles], c[tiles], rounding)
    tiles = np.flatnonzero(~ordinary)
    result[..., tiles] = _chain(a[tiles], b[tiles], c[tiles], rounding, nan)
    return result.transpose(2, 0, 1)


def _are_ordinary(a: Bits, b: Bits, c: Bits) -> Bools:
    """Return for each tile whether nothing in it is special or can become so."""
    least, most, most_addend = (
        np.uint64((1023 + exponent) << 52) for exponent in (-_ORDINARY, _ORDINARY, _ORDINARY_ADDEND)
    )
    magnitudes = np.uint64(_SIGN - 1)
    ordinary: Bools = np.all((c & magnitudes) < most_addend, axis=(1, 2))
    for factor in (a, b):
        magnitude = factor & magnitudes
        near = magnitude - least < most - least
        near |= magnitude == 0
        ordinary &= np.all(near, axis=(1, 2))
    return ordinary


def _ordinary_chain(a: Bits, b: Bits, c: Bits, rounding: str) -> Bits:
    """Return the chain of ordinary operands, with the tiles last."""
    left = np.ascontiguousarray(a.transpose(2, 1, 0)).view(np.float64)[:, :, None]
    right = np.ascontiguousarray(b.transpose(1, 2, 0)).view(np.float64)
    total = np.ascontiguousarray(c.transpose(1, 2, 0)).view(np.float64)
    (left_high, left_low), (right_high, right_low) = split(left), split(right)
    for k, (x, y) in enumerate(zip(left, right, strict=True)):
        product = x * y
        x_parts, y_parts = (left_high[k], left_low[k]), (right_high[k], right_low[k])
        head, tail = _fused(product, product_error(product, x_parts, y_parts), total)
        result = _sum(head, tail, rounding)
        # Exact sums of subnormals, and of what cancels down to them: no second rounding.
        zero = result == 0.0
        if zero.any():
            x_bits, y_bits, bits = (array.view(np.uint64) for array in (x, y, total))
            out = result.view(np.uint64)
            _sign_zeros(out, np.nonzero(zero), x_bits, y_bits, bits, rounding)
        total = result
    return total.view(np.uint64)


def _chain(a: Bits, b: Bits, c: Bits, rounding: str, nan: NanRule) -> Bits:
    """Return the chain of any operands, with the tiles last."""
    left = Decoded.of(np.ascontiguousarray(a.transpose(2, 1, 0)))
    right = Decoded.of(np.ascontiguousarray(b.transpose(1, 2, 0)))
    total = np.ascontiguousarray(c.transpose(1, 2, 0))
    for k in range(a.shape[2]):
        multiplicand = left.at((k, slice(None), None))
        total = fma(multiplicand, right.at(k), total, rounding=rounding, nan=nan)
    return total


def _separate_chain(a: Bits, b: Bits, c: Bits, rounding: str, nan: NanRule) -> Bits:
    """Return the chain with every product rounded before it is added, with the tiles last."""
    left = np.ascontiguousarray(a.transpose(2, 1, 0))
    right = np.ascontiguousarray(b.transpose(1, 2, 0))
    total = np.ascontiguousarray(c.transpose(1, 2, 0))
    one = Decoded.of(np.full((1, 1, 1), _ONE, np.uint64))
    for k in range(a.shape[2]):
        x, y = np.ascontiguousarray(left[k][:, None]), right[k]
        # A zero of the product's own sign changes no product.
        zero = (x ^ y) & np.uint64(_SIGN)
        product = fma(Decoded.of(x), Decoded.of(y), zero, rounding=rounding, nan=nan)
        total = fma(Decoded.of(product), one, total, rounding=rounding, nan=nan)
    return total
