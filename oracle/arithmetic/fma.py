"""The f64 fused multiply-add in four rounding modes, vectorised and exact without hardware help.

Method: error-free transforms. A product is the unevaluated sum of two doubles (Dekker 1971, "A
floating-point technique for extending the available precision"), and with the addend the three
are summed with one rounding to odd in between (Boldo and Melquiond 2008, "Emulation of a FMA and
correctly rounded sums: proved algorithms using rounding to odd"). The sign of the error that the
final addition leaves says which neighbour a directed mode takes.

It is done on normalised significands, the addend scaled into the frame of the product: in the frame
nothing can overflow or underflow, and results that are subnormal once the frame's exponent is put
back are rounded again from the exact parts, on the grid of 2^-1074.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.models import NanRule

Floats = NDArray[np.float64]
Outputs = tuple[Floats | None, ...]

_SPLITTER = 2.0**27 + 1.0
"""Veltkamp's constant for 53-bit significands."""
_NEW = (None, None, None)


def split(x: Floats, *, out: Outputs = _NEW) -> tuple[Floats, Floats]:
    """Return parts of at most 26 bits whose sum is exactly x (Dekker 1971), in `out` if given."""
    product = np.multiply(x, _SPLITTER, out=out[0])
    rest = np.subtract(product, x, out=out[1])
    high = np.subtract(product, rest, out=product)
    return high, np.subtract(x, high, out=rest)


def two_sum(x: Floats, y: Floats, *, out: Outputs = _NEW) -> tuple[Floats, Floats]:
    """Return the rounded sum and its exact error (Knuth, TAOCP 2, 4.2.2, theorem B).

    `out` names arrays for the two and a third to work in, of which that of the error may be y.
    """
    total = np.add(x, y, out=out[0])
    part = np.subtract(total, x, out=out[2])
    rest = np.subtract(y, part, out=out[1])
    np.subtract(total, part, out=part)
    np.subtract(x, part, out=part)
    rest += part
    return total, rest


def product_error(
    product: Floats, a: tuple[Floats, Floats], b: tuple[Floats, Floats], *, out: Outputs = _NEW
) -> Floats:
    """Return what the rounded product of two split factors lacks (Dekker 1971)."""
    (a_high, a_low), (b_high, b_low) = a, b
    error = np.multiply(a_high, b_high, out=out[0])
    error -= product
    term = np.multiply(a_high, b_low, out=out[1])
    error += term
    error += np.multiply(a_low, b_high, out=term)
    error += np.multiply(a_low, b_low, out=term)
    return error


def odd_sum(x: Floats, y: Floats) -> Floats:
    """Return x + y rounded to odd: rounded again to fewer bits, it is as if rounded once.

    Inexact sums go to the neighbour with an odd significand (Boldo and Melquiond 2008).
    """
    total, error = two_sum(x, y)
    inexact = error != 0.0
    pattern = total.view(np.int64)
    pattern += _toward_zero(total, error, inexact)
    pattern |= inexact
    return total


def directed_step(total: Floats, error: Floats, rounding: str) -> NDArray[np.int64]:
    """Return how many patterns the directed sum is away from zero ("rz", "rm" or "rp").

    `total`, `error`: Of two_sum; `error` is lost.
    """
    if rounding == "rz":
        return _toward_zero(total, error, error != 0.0)
    moved = error < 0.0 if rounding == "rm" else error > 0.0
    step = error.view(np.int64)
    np.right_shift(total.view(np.int64), 63, out=step)
    step |= 1
    if rounding == "rm":
        np.negative(step, out=step)
    step *= moved
    return step


def _toward_zero(total: Floats, error: Floats, inexact: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return -1 where the rounded sum is farther from zero than the exact one; `error` is lost."""
    step = error.view(np.int64)
    step ^= total.view(np.int64)
    step >>= 63  # -1 where the signs differ
    step *= inexact
    return step


Ints = NDArray[np.int32]
Bits = NDArray[np.uint64]
Bools = NDArray[np.bool_]
Places = tuple[NDArray[np.intp], ...]
"""Indices along each axis, as of np.nonzero."""

_SIGN = 1 << 63
QUIET = 0x0008_0000_0000_0000
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


@dataclass(frozen=True)
class Decoded:
    """Doubles split once, so that they can take part in many multiplications."""

    bits: Bits
    significand: Floats
    """Significand with the sign, of a magnitude in [0.5, 1)."""
    high: Floats
    """Upper 26 bits of the significand, which high + low is exactly."""
    low: Floats
    exponent: Ints
    """value = significand * 2^exponent; _ABSENT for zero."""
    special: Bools | None
    """None if there is none."""

    @classmethod
    def of(cls, bits: Bits) -> Decoded:
        """Split raw bit patterns."""
        significand, exponent, special = _normalise(bits)
        return cls(bits, significand, *split(significand), exponent, special)

    def at(self, index: Any) -> Decoded:
        """Return the elements at a NumPy index."""
        return Decoded(
            self.bits[index], self.significand[index], self.high[index], self.low[index],
            self.exponent[index], None if self.special is None else self.special[index],
        )  # fmt: skip


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
    """Return a * b + c, rounded once ("rn", "rz", "rm" or "rp"), as bit patterns.

    `a`, `b`: Of shapes that broadcast to that of the patterns `c`.
    `nan`: Which NaN is returned where the result is one.
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


def _finite(
    a: Decoded, b: Decoded, addend: Floats, addend_exponent: Ints, c: Bits, rounding: str
) -> Bits:
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
    # Two doubles whose rounded sum is that of all three (Boldo, Melquiond 2008, fig. 3).
    upper, lower = two_sum(scaled, error)
    head, rest = two_sum(product, upper)
    tail = odd_sum(lower, rest)
    total = rounded_sum(head, tail, rounding)
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


def rounded_sum(head: Floats, tail: Floats, rounding: str) -> Floats:
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
    anchor = _power(-1022 - frame)
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
        given = picked[name][is_nan] | np.uint64(QUIET)
        result[is_nan] = given if nan.order else nan.canonical
    out[at] = result
