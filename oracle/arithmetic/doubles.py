"""Matrix products of f64, chains of multiply-adds: `docs/oracle.md`, "Chains of f64"."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic import conversions
from oracle.arithmetic.conversions import Scratch, odd_sum, split, two_sum
from oracle.isa.forms import FORMATS
from oracle.models import DoubleChain, NanRule

Floats = NDArray[np.float64]
Bits = NDArray[np.uint64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int32]
Places = NDArray[np.intp]
"""Indices of elements in the order of memory."""

QUIET = 0x0008_0000_0000_0000
"""Quiet bit of a binary64 NaN (IEEE 754-2019, 6.2.1)."""
_SIGN = np.uint64(1 << 63)
_SIGN_AND_FRACTION = -(1 << 63) | (1 << 52) - 1
_ONE = 0x3FF0_0000_0000_0000
_HALF = 1022 << 52
"""Exponent field of numbers in [0.5, 1)."""
_ABSENT = -10_000
"""Exponent of zero: below that of every product and addend."""
_LEAST_FRAME = -1300
"""Frames are raised to this, in which 2^-1074 is representable; below, only signs count."""
_SPAN = 200
"""A term this far below only counts by its sign: addend 53, product 106, a tie 1 bit."""
_ORDINARY = 480
"""Ordinary exponents: products are below 2^960, and multiples of 2^-1064, or zero."""
_ORDINARY_ADDEND = 900
"""Addends below 2^900 and a few such products are far from overflow."""
_BLOCK = 1 << 15
"""Elements of C that take a step together; 2^14 and 2^16 took a tenth longer (L2 of 2 MiB,
2026-11-29)."""
_MANY = 2
"""A tile with more than one unusual element in so many goes a slow way as a whole (2026-11-29)."""
_LOWER = 0 if sys.byteorder == "little" else 1
"""Which word of a double is the lower one."""


class Decoded(NamedTuple):
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


def decoded(bits: Bits) -> Decoded:
    """Split raw bit patterns."""
    significand, exponent, special = _normalise(bits)
    return Decoded(bits, significand, *split(significand), exponent, special)


def at(numbers: Decoded, index: Any) -> Decoded:
    """Return the elements at a NumPy index."""
    return Decoded(*(None if part is None else part[index] for part in numbers))  # type: ignore[arg-type]


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
    """Return a * b + c, rounded once ("rn", "rz", "rm" or "rp"); `nan`: which NaN it returns."""
    with np.errstate(all="ignore"):
        addend, addend_exponent, special = _normalise(c)
        result = _finite(a, b, addend, addend_exponent, c, rounding)
        masks = [mask for mask in (a.special, b.special, special) if mask is not None]
        if masks:
            chosen = np.zeros(c.shape, np.bool_)
            for mask in masks:
                chosen |= mask
            _overwrite_special(result, np.flatnonzero(chosen), a.bits, b.bits, c, nan)
    return result


def two_product(a: Decoded, b: Decoded) -> tuple[Floats, Floats]:
    """Return the rounded product of significands and its exact error."""
    product = a.significand * b.significand
    return product, conversions.product_error(product, (a.high, a.low), (b.high, b.low))


def _finite(
    a: Decoded, b: Decoded, addend: Floats, addend_exponent: Ints, c: Bits, rounding: str
) -> Bits:
    exponent = a.exponent + b.exponent
    frame = np.maximum(exponent, addend_exponent - _SPAN)
    np.maximum(frame, _LEAST_FRAME, out=frame)
    product, error = two_product(a, b)
    exponent -= frame
    scale = _power(np.maximum(exponent, -_SPAN - 100, out=exponent))
    product *= scale
    error *= scale
    np.subtract(addend_exponent, frame, out=exponent)
    scaled = _power(np.maximum(exponent, -_SPAN, out=exponent))
    scaled *= addend
    arrays = [product, error, *np.empty((3, *frame.shape))]
    total = _add(scaled, rounding, arrays)
    result = np.ldexp(total, frame)
    # Within one step of the least normal number, one rounding to 53 bits may be one too many.
    out: Bits = result.view(np.uint64)
    small = np.flatnonzero(np.abs(result) <= 2.0**-1022)
    if small.size:
        head, lower, rest = (part.take(small) for part in (arrays[2], scaled, error))
        tail = odd_sum(lower, rest)
        out.put(small, _subnormal(head, tail, frame.take(small), rounding))
        zero = np.unravel_index(small[(head == 0.0) & (tail == 0.0)], c.shape)
        x, y, z = (pattern[zero] & _SIGN for pattern in np.broadcast_arrays(a.bits, b.bits, c))
        # Exact zeros have the sign of IEEE 754-2019, 6.3.
        out[zero] = np.where(x ^ y == z, z, _SIGN if rounding == "rm" else np.uint64(0))
    if rounding != "rn":  # toward zero, to the largest finite number
        over = {"rz": np.abs(result), "rm": result, "rp": -result}[rounding] == np.inf
        out -= over
    return out


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
        return steps.view(np.uint64) | np.where(negative, _SIGN, np.uint64(0))
    away = _away(negative, rounding)
    steps += away & (residue > 0.0)
    steps -= ~away & (residue < 0.0)
    return steps.view(np.uint64) | np.where(negative, _SIGN, np.uint64(0))


def _overwrite_special(out: Bits, at: Places, a: Bits, b: Bits, c: Bits, nan: NanRule) -> None:
    operands = zip("abc", np.broadcast_arrays(a, b, c), strict=True)
    picked = {name: pattern.reshape(-1).take(at) for name, pattern in operands}
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
    out.put(at, result)


def chain(
    a: Bits, b: Bits, c: Bits, *, rounding: str, rule: DoubleChain, scratch: Scratch,
    keeps_c: bool = True,
) -> Bits:  # fmt: skip
    """Return a @ b + c as a chain of multiply-adds, (m, n, tiles): good until the next call.

    `a`, `b`, `c`: Raw patterns (tiles, m, k), (tiles, k, n), (tiles, m, n).
    `keeps_c`: Whether `c` is needed later; if not, it may become the result.
    """
    if rule.order.value == "falling":
        a, b = a[:, :, ::-1], b[:, ::-1]
    left = _tiles_last("f64 a", a, (2, 1, 0), rule.a_subnormals.value, scratch)
    right = _tiles_last("f64 b", b, (1, 2, 0), rule.b_subnormals.value, scratch)
    total = _tiles_last("f64 c", c, (1, 2, 0), rule.c_subnormals.value, scratch)
    if not total.flags.c_contiguous or (keeps_c and np.may_share_memory(total, c)):
        total = scratch.copy("f64 c", total)
    with np.errstate(all="ignore"):
        _chain(left, right, total, rounding, rule, scratch)
    return (
        conversions.flushed(total, FORMATS["f64"])
        if rule.d_subnormals.value == "flushed"
        else total
    )


def _tiles_last(
    name: str, bits: Bits, axes: tuple[int, int, int], subnormals: str, scratch: Scratch
) -> Bits:
    """Return matrices with other axes, of which tiles are the last, as they reach the unit."""
    turned = bits.transpose(axes)
    if bits.flags.c_contiguous:
        turned = scratch.tiles_last(name, bits, axes)
    return conversions.flushed(turned, FORMATS["f64"]) if subnormals == "flushed" else turned


def _chain(
    left: Bits, right: Bits, total: Bits, rounding: str, rule: DoubleChain, scratch: Scratch
) -> None:
    """Add the products to `total`: quickly, and again what takes special or very large operands."""
    fused, tiles, nan = rule.multiply_add.value == "fused", total.shape[2], rule.nan.value
    unusual = _are_unusual(left, right, total, scratch) if fused else np.ones(total.shape, np.bool_)
    if not unusual.any():
        _fused_chain(left, right, total, rounding, scratch)
        return
    one = decoded(np.full(1, _ONE, np.uint64))

    def slowly(x: Bits, y: Bits, sums: Bits) -> Bits:
        rows, columns = decoded(x), decoded(y)
        for k in range(len(x)):
            row, column = at(rows, k), at(columns, k)
            if fused:
                sums = fma(row, column, sums, rounding=rounding, nan=nan)
            else:
                # A zero of the product's own sign changes no product.
                zero = (row.bits ^ column.bits) & _SIGN
                product = decoded(fma(row, column, zero, rounding=rounding, nan=nan))
                sums = fma(product, one, sums, rounding=rounding, nan=nan)
        return sums

    # A tile with many such elements goes the slow way as a whole, which decodes its lines once.
    whole = np.count_nonzero(unusual, axis=(0, 1)) * _MANY > total[..., 0].size
    usual, other = np.flatnonzero(~whole), np.flatnonzero(whole)
    single = np.nonzero(unusual & ~whole)
    begun = total[single]
    if usual.size == tiles:
        _fused_chain(left, right, total, rounding, scratch)
    elif usual.size:
        sums = total.take(usual, -1)
        _fused_chain(left.take(usual, -1), right.take(usual, -1), sums, rounding, scratch)
        total[..., usual] = sums
    size = max(1, _BLOCK // total[..., 0].size)
    for first in range(0, other.size, size):
        chosen = other[first : first + size]
        x, y, sums = (bits.take(chosen, -1) for bits in (left, right, total))
        total[..., chosen] = slowly(x[:, :, None], y[:, None], sums)
    for first in range(0, begun.size, _BLOCK):
        row, column, tile = (one[first : first + _BLOCK] for one in single)
        sums = begun[first : first + _BLOCK]
        total[row, column, tile] = slowly(left[:, row, tile], right[:, column, tile], sums)


def _are_unusual(left: Bits, right: Bits, total: Bits, scratch: Scratch) -> Bools:
    """Return for each element of C whether what it takes is special, or can become so."""
    least, most, most_addend = (
        np.uint64((1023 + exponent) << 52) for exponent in (-_ORDINARY, _ORDINARY, _ORDINARY_ADDEND)
    )
    unusual = np.zeros(total.shape, np.bool_)
    for bits, line in ((left, np.s_[:, None]), (right, np.s_[None])):
        # From the least on, zero is above all others; mostly there is none.
        distance = scratch.array("f64 magnitudes", bits.shape, np.uint64)
        np.bitwise_and(bits, ~_SIGN, out=distance)
        distance -= least
        if distance.max(initial=0) >= most - least:
            within = distance < most - least
            within |= distance == -least
            unusual |= ~np.asarray(within.all(axis=0))[line]
    addends, bound = total.view(np.float64), most_addend.view(np.float64)
    if not (addends.max(initial=0.0) < bound and addends.min(initial=0.0) > -bound):
        unusual |= ~(np.abs(addends) < bound)
    return unusual


def _fused_chain(left: Bits, right: Bits, total: Bits, rounding: str, scratch: Scratch) -> None:
    """Add the products to `total`, where nothing is special or can become so."""
    mode, a = rounding, left.view(np.float64)
    if rounding == "rm":  # -(-a b - c), rounded upward
        mode, a = "rp", np.negative(a, out=scratch.array("f64 -a", a.shape, np.float64))
        total ^= _SIGN
    # The elements, and the parts of at most 26 bits that they are sums of.
    rows, columns = (
        (values, *split(values, out=[
            scratch.array(f"f64 {name} {part}", values.shape, np.float64) for part in "hl"
        ]))
        for name, values in (("a", a), ("b", right.view(np.float64)))
    )  # fmt: skip
    c, (depth, m, tiles) = total.view(np.float64), left.shape
    size = max(1, min(m, _BLOCK // (right.shape[1] * tiles)))
    for row in range(0, m, size):
        block = slice(row, row + size)
        sums = c[block]
        arrays = [scratch.array(f"f64 step {i}", sums.shape, np.float64) for i in range(5)]
        for k in range(depth):
            x, y = [part[k, block, None] for part in rows], [part[k, None] for part in columns]
            with conversions.small_buffer():
                np.multiply(x[0], y[0], out=arrays[0])
                conversions.product_error(arrays[0], (x[1], x[2]), (y[1], y[2]), out=arrays[1:3])
            sums = _add(sums, mode, arrays)
        if depth % 2:  # sums alternate between two arrays
            c[block] = sums
    if rounding == "rm":
        total ^= _SIGN


def _add(c: Floats, mode: str, arrays: list[Floats]) -> Floats:
    """Return c and the first two arrays, a product and its error, added and rounded once.

    The second and third array and `c`, which becomes one of them, then have the exact sum.
    """
    p, e, s, free, rest = arrays
    s, t = two_sum(p, c, out=(s, c, free))
    v = np.add(t, e, out=p)
    if mode == "rn":
        # s + v may lie midway between doubles where v has 4 bits, and so a lower word of 0.
        words, spare = v.reshape(-1).view(np.uint32), 0
        near = None if words.min() else np.flatnonzero(words[_LOWER::2] == 0)
        result = np.add(s, v, out=p)
    else:
        result, spare = np.add(s, v, out=free), 3
        added = np.subtract(result, s, out=rest)  # as if it were v
        exact, beyond = added == v, added > v if mode == "rm" else added < v
        near = np.flatnonzero(exact) if np.count_nonzero(exact) else None
        conversions.step_away(result, beyond, exact, mode)
    if near is not None:
        _settle(result, near, s, t, e, mode)
    arrays[spare] = c
    return result


def _settle(result: Floats, at: Places, s: Floats, t: Floats, e: Floats, mode: str) -> None:
    """Round s + t + e once, where that may not have been done; zeros get the sign of s."""
    flat = result.reshape(-1)
    s, t, e = (part.reshape(-1).take(at) for part in (s, t, e))
    zero = np.flatnonzero((s == 0.0) & (e == 0.0))
    flat[at[zero]] = s[zero]
    inexact = np.flatnonzero((t != 0.0) & (e != 0.0))
    if inexact.size:
        rest = odd_sum(t[inexact], e[inexact])
        flat[at[inexact]] = conversions.rounded_sum(s[inexact], rest, mode)
