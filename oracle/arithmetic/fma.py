"""The f64 fused multiply-add in four rounding modes, vectorised and exact without hardware help.

Method: error-free transforms on normalised significands. A product of two significands is the
unevaluated sum of two doubles (Dekker 1971, "A floating-point technique for extending the
available precision"), the addend is scaled into the same frame, and the three are summed with one
rounding to odd in between (Boldo and Melquiond 2008, "Emulation of a FMA and correctly rounded
sums: proved algorithms using rounding to odd"). The sign of the error that the final addition
leaves says which neighbour a directed mode takes. In the frame nothing can overflow or
underflow; results that are subnormal once the frame's exponent is put back are rounded again
from the exact parts, on the grid of 2^-1074.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from oracle.models import NanRule

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int32]
    Bits = NDArray[np.uint64]

_SIGN = 1 << 63
_INFINITY = 0x7FF0_0000_0000_0000
_QUIET = 0x0008_0000_0000_0000
"""Quiet bit of a binary64 NaN (IEEE 754-2019, 6.2.1)."""
_SIGN_AND_FRACTION = -(1 << 63) | (1 << 52) - 1
_HALF = 1022 << 52
"""Exponent field of numbers in [0.5, 1)."""
_LARGEST_FINITE = 0x7FEF_FFFF_FFFF_FFFF
_SPLITTER = 2.0**27 + 1.0
"""Veltkamp's constant for 53-bit significands."""
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
    high: Floats
    """Upper 26 bits of the significand; high + low, of magnitude in [0.5, 1), is exact."""
    low: Floats
    exponent: Ints
    """value = (high + low) * 2^exponent; _ABSENT for zero."""
    special: bool
    """Whether any element is infinite or NaN."""

    @classmethod
    def of(cls, bits: Bits) -> Decoded:
        """Split raw bit patterns."""
        significand, exponent, special = _normalise(bits)
        product = significand * _SPLITTER
        high = product - (product - significand)
        return cls(bits, high, significand - high, exponent, special)

    def at(self, index: Any) -> Decoded:
        """Return the elements at a NumPy index."""
        return Decoded(
            self.bits[index], self.high[index], self.low[index], self.exponent[index], self.special
        )


def _normalise(bits: Bits) -> tuple[Floats, Ints, bool]:
    """Return significands in [0.5, 1) with sign, exponents, and whether any is special."""
    pattern = bits.view(np.int64)
    exponent = (pattern >> 52).astype(np.int32)
    exponent &= 0x7FF
    significand = (pattern & _SIGN_AND_FRACTION) | _HALF
    special = bool(exponent.max(initial=0) == 0x7FF)
    least = int(exponent.min(initial=1))
    exponent -= 1022
    values = significand.view(np.float64)
    if least == 0:
        small = exponent == -1022
        subnormal = bits[small].view(np.float64)
        values[small], exponent[small] = np.frexp(subnormal)
        exponent[small] = np.where(subnormal == 0.0, _ABSENT, exponent[small])
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
        if special or a.special or b.special:
            _overwrite_special(result, a.bits, b.bits, c, nan)
    return result


def two_sum(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the rounded sum and its exact error (Knuth, TAOCP 2, 4.2.2, theorem B)."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def two_product(a: Decoded, b: Decoded) -> tuple[Floats, Floats]:
    """Return the rounded product of significands and its exact error (Dekker 1971)."""
    product = (a.high + a.low) * (b.high + b.low)
    error = ((a.high * b.high - product) + a.high * b.low + a.low * b.high) + a.low * b.low
    return product, error


def _odd_sum(x: Floats, y: Floats) -> Floats:
    """Return x + y rounded to odd: inexact sums go to the neighbour with an odd significand."""
    total, error = two_sum(x, y)
    pattern = total.view(np.int64)
    # The nearest neighbour is even and not exact: the odd one is its neighbour toward the error.
    toward = np.where((error > 0.0) == (total > 0.0), 1, -1)
    pattern += toward * ((error != 0.0) & (pattern & 1 == 0))
    return total


def _finite(
    a: Decoded, b: Decoded, addend: Floats, addend_exponent: Ints, c: Bits, rounding: str
) -> Bits:
    """Return the fused multiply-add of finite operands."""
    exponent = a.exponent + b.exponent
    frame = np.maximum(np.maximum(exponent, addend_exponent - _SPAN), _LEAST_FRAME)
    product, error = two_product(a, b)
    shift = exponent - frame
    if shift.any():
        scale = _power(np.maximum(shift, -_SPAN - 100))
        product *= scale
        error *= scale
    scaled = addend * _power(np.maximum(addend_exponent - frame, -_SPAN))

    # Boldo and Melquiond 2008, figure 3 (Fmac): total = head + tail, tail rounded to odd.
    upper, lower = two_sum(scaled, error)
    head, rest = two_sum(product, upper)
    tail = _odd_sum(lower, rest)
    total, residue = two_sum(head, tail)

    pattern = total.view(np.int64)
    if rounding != "rn":
        pattern += _directed_step(total, residue, rounding)
    result = _scaled_up(total, frame)
    # Within one step of the least normal number, one rounding to 53 bits may be one too many.
    small = np.flatnonzero(np.abs(result) <= 2.0**-1022)
    out: Bits = result.view(np.uint64)
    if small.size:
        flat = out.reshape(-1)
        flat[small] = _subnormal(
            head.reshape(-1)[small], tail.reshape(-1)[small], frame.reshape(-1)[small], rounding
        )
        _sign_zeros(out, a.bits, b.bits, c, head, tail, rounding)
    if rounding != "rn":
        over = np.isinf(result)
        if over.any():
            kept = over & ~_away(np.signbit(total), rounding)
            out[kept] = (out[kept] & _SIGN) | _LARGEST_FINITE
    return out


def _scaled_up(total: Floats, frame: Ints) -> Floats:
    """Return total * 2^frame where that is normal; what is subnormal is computed again."""
    near = np.clip(frame, -1000, 1000)
    result = total * _power(near)
    rest = frame - near
    if rest.any():
        # Frames reach from -1300 to 2250; beyond 2000 anything but 0 overflows.
        result *= _power(np.minimum(rest, 1000))
    return result


def _away(negative: NDArray[np.bool_], rounding: str) -> NDArray[np.bool_]:
    """Return whether a directed mode rounds numbers of this sign away from zero."""
    if rounding == "rz":
        return np.zeros_like(negative)
    return negative if rounding == "rm" else ~negative


def _directed_step(total: Floats, residue: Floats, rounding: str) -> NDArray[np.int64]:
    """Return how many patterns away from zero the directed result lies from the nearest one."""
    outside = (residue > 0.0) == (total > 0.0)  # the exact value is farther from zero
    away = _away(np.signbit(total), rounding)
    step = np.where(away, outside.astype(np.int64), outside.astype(np.int64) - 1)
    return np.where(residue != 0.0, step, 0)


def _subnormal(head: Floats, tail: Floats, frame: Ints, rounding: str) -> Bits:
    """Round head + tail, times 2^frame and at most 2^-1022, on the grid of 2^-1074."""
    value = head + tail
    negative = np.signbit(value)
    sign = np.where(negative, -1.0, 1.0)
    # Doubles from `anchor` to 2 * anchor lie exactly 2^(-1074 - frame) apart.
    anchor = np.ldexp(1.0, -1022 - frame)
    upper, lower = two_sum(anchor, head * sign)
    rest = _odd_sum(lower, tail * sign)
    total, residue = two_sum(upper, rest)
    steps = total.view(np.int64) - anchor.view(np.int64)
    if rounding == "rn":
        return steps.view(np.uint64) | np.where(negative, np.uint64(_SIGN), np.uint64(0))
    away = _away(negative, rounding)
    steps += away & (residue > 0.0)
    steps -= ~away & (residue < 0.0)
    return steps.view(np.uint64) | np.where(negative, np.uint64(_SIGN), np.uint64(0))


def _sign_zeros(
    out: Bits, a: Bits, b: Bits, c: Bits, head: Floats, tail: Floats, rounding: str
) -> None:
    """Give exact zeros the sign of IEEE 754-2019, 6.3."""
    zero = (head == 0.0) & (tail == 0.0)
    product_sign = (a ^ b) & np.uint64(_SIGN)
    addend_sign = c & np.uint64(_SIGN)
    otherwise = np.uint64(_SIGN if rounding == "rm" else 0)
    sign = np.where(product_sign == addend_sign, addend_sign, otherwise)
    out[zero] = sign[zero]


def _overwrite_special(out: Bits, a: Bits, b: Bits, c: Bits, nan: NanRule) -> None:
    """Put in the results of infinite and NaN operands."""
    operands = dict(zip("abc", np.broadcast_arrays(a, b, c), strict=True))
    exponents = np.uint64(_INFINITY)
    chosen = np.zeros(out.shape, np.bool_)
    for pattern in operands.values():
        chosen |= (pattern & exponents) == exponents
    picked = {name: pattern[chosen] for name, pattern in operands.items()}
    values = {name: pattern.view(np.float64) for name, pattern in picked.items()}
    # No finite overflow may meet an infinite addend: with finite a and b, c alone decides.
    product = np.where(
        np.isfinite(values["a"]) & np.isfinite(values["b"]), 0.0, values["a"] * values["b"]
    )
    result = (product + values["c"]).view(np.uint64)
    result[np.isnan(product + values["c"])] = nan.invalid
    for name in reversed(nan.order):
        is_nan = np.isnan(values[name])
        result[is_nan] = picked[name][is_nan] | np.uint64(_QUIET)
    out[chosen] = result


def chain(
    a: NDArray[np.uint64],
    b: NDArray[np.uint64],
    c: NDArray[np.uint64],
    *,
    rounding: str,
    nan: NanRule,
) -> NDArray[np.uint64]:
    """Return a @ b + c as fused multiply-adds with rising k (measured on H200, 2026-11).

    Shapes (tiles, m, k), (tiles, k, n) and (tiles, m, n), raw bit patterns. The result has the
    tiles last in memory.
    """
    with np.errstate(all="ignore"):
        left = Decoded.of(np.ascontiguousarray(a.transpose(2, 1, 0)))
        right = Decoded.of(np.ascontiguousarray(b.transpose(1, 2, 0)))
        total = np.ascontiguousarray(c.transpose(1, 2, 0))
        for k in range(a.shape[2]):
            multiplicand = left.at((k, slice(None), None))
            total = fma(multiplicand, right.at(k), total, rounding=rounding, nan=nan)
    return total.transpose(2, 0, 1)
