"""Matrix products of f64: a chain of fused multiply-adds for each element of the result.

Elements go a quick way (`_Steps`). Where a tile has unusual operands, so that something may
overflow or a product be so small that its error is no double, each step is checked, and elements
that it may get wrong take it in the way of `oracle.arithmetic.fma` (`_Checks`).

The quick way, for one step: x y = p + e exactly (Dekker's product), p + c = s + t exactly (Knuth's
sum), v = t + e rounded to nearest, and the result is s + v rounded. That is the sum of all three
rounded once, unless v is inexact and s + v lies on a boundary of the rounding: midway between two
doubles for .rn, on a double for the directed modes. (Subnormal sums are exact.) Why: where v is
inexact t is not 0, so that p and c do not nearly cancel (Sterbenz), |s| >= |p| / 2 and
|e| <= ulp(p) / 2 <= ulp(s). Boundaries as near as t + e are then s + h with h a multiple of
ulp(s) / 4 and not above 2 ulp(s): a double with a significand of 4 bits. Rounding is monotonous, so
v is on the same side of h as t + e, or is h. Where that is not excluded, t + e is rounded to odd
instead (Boldo and Melquiond 2008).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.conversions import flushed
from oracle.arithmetic.fma import (
    QUIET,
    Decoded,
    fma,
    odd_sum,
    product_error,
    rounded_sum,
    split,
    two_sum,
)
from oracle.arithmetic.scratch import Scratch, small_buffer
from oracle.isa.formats import FORMATS
from oracle.models import DoubleChain, NanRule

Floats = NDArray[np.float64]
Bits = NDArray[np.uint64]
Bools = NDArray[np.bool_]
Parts = tuple[Floats, Floats, Floats]
"""Elements, their upper and their lower parts."""
Places = NDArray[np.intp]
"""Indices of elements in the order of memory."""

_SIGN = np.uint64(1 << 63)
_EXPONENT = np.uint64(0x7FF << 52)
_ONE = 0x3FF0_0000_0000_0000

_ORDINARY = 480
"""Exponents of ordinary multiplicands lie between -480 and 480: a product is then a multiple of
2^-1064 or zero, so that its error is a double, and is below 2^960."""
_ORDINARY_ADDEND = 900
"""Addends below 2^900 and a few such products are far from overflow."""
_BLOCK = 1 << 16
"""Elements of C that take a step together: five arrays of 512 KiB, and so long that NumPy's calls
cost little. 2^14 took a fifth longer, 2^15 a tenth, 2^17 as long (2026-11-22)."""
_TINY = 2.0**-968
"""The error of a product that is at least so large is a multiple of 2^-1074, and so a double."""
_BESIDE_TINY = 2.0**-900
"""Beside an addend of this, over 2^53 times as large, of a tiny product the sign counts."""
_FEW = 1 << 13
"""Unusual elements of C that are fewer go wholly the slow way: looking for what the quick one gets
wrong takes as many calls again (2026-11-28)."""
_LEAST_NORMAL = 2.0**-1022
_GRID = 2.0**-1074
"""Subnormal doubles, and normal ones below 2^-1021, are its multiples."""
_UP = 2.0**600
"""Factors of a subnormal product stay finite times this (the other one is at least 2^-1074), and
its error becomes a double."""
_SLOW_BLOCK = 1 << 14
"""Elements of C that take a step together in a slow way, whose arrays are more."""


def chain(
    a: Bits, b: Bits, c: Bits, *, rounding: str, rule: DoubleChain, scratch: Scratch,
    keeps_c: bool = True,
) -> Bits:  # fmt: skip
    """Return a @ b + c as a chain of multiply-adds, (m, n, tiles): good until the next call.

    `a`, `b`, `c`: Shapes (tiles, m, k), (tiles, k, n) and (tiles, m, n), raw bit patterns.
    `rounding`: "rn", "rz", "rm" or "rp" (PTX ISA 9.7.14.4.5).
    `keeps_c`: Whether `c` is needed later; if not, and with tiles last in memory, it becomes the
    result.
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
    return flushed(total, FORMATS["f64"]) if rule.d_subnormals.value == "flushed" else total


def _tiles_last(
    name: str, bits: Bits, axes: tuple[int, int, int], subnormals: str, scratch: Scratch
) -> Bits:
    """Return matrices with other axes, of which tiles are the last, as they reach the unit."""
    turned = bits.transpose(axes)
    if bits.flags.c_contiguous:
        size = bits.shape[1] * bits.shape[2]
        rows = scratch.array(name, (size, len(bits)), np.uint64)
        scratch.turn(rows.T, bits.reshape(len(bits), size))
        turned = rows.reshape(*bits.shape[1:], len(bits)).transpose(*(i - 1 for i in axes[:2]), 2)
    return flushed(turned, FORMATS["f64"]) if subnormals == "flushed" else turned


def _chain(
    left: Bits, right: Bits, total: Bits, rounding: str, rule: DoubleChain, scratch: Scratch
) -> None:
    """Add the products to `total`, tile by tile in the way that the operands allow."""
    if rule.multiply_add.value == "separate":
        size = max(1, _SLOW_BLOCK // total[..., 0].size)
        for first in range(0, total.shape[2], size):
            x, y, z = (bits[..., first : first + size] for bits in (left, right, total))
            z[...] = _separate_chain(x, y, z, rounding, rule.nan.value)
        return
    ordinary = _are_ordinary(left, right, total, scratch)
    for mask, nan in ((ordinary, None), (~ordinary, rule.nan.value)):
        tiles, operands = np.flatnonzero(mask), (left, right, total)
        if not tiles.size:
            continue
        if tiles.size < mask.size:
            operands = (left.take(tiles, -1), right.take(tiles, -1), total.take(tiles, -1))
        sums = operands[2]
        if nan is not None and sums.size < _FEW:
            sums[...] = _any_chain(*operands, rounding, nan)
        else:
            _fused_chain(*operands, rounding, nan, scratch)
        if sums is not total:
            total[..., tiles] = sums


def _are_ordinary(left: Bits, right: Bits, total: Bits, scratch: Scratch) -> Bools:
    """Return for each tile whether nothing in it is special or can become so."""
    least, most, most_addend = (
        np.uint64((1023 + exponent) << 52) for exponent in (-_ORDINARY, _ORDINARY, _ORDINARY_ADDEND)
    )
    ordinary = np.ones(total.shape[2], np.bool_)
    for bits, low, high in ((left, least, most), (right, least, most)):
        # From the least on, zero is above all others; mostly there is none.
        distance = scratch.array("f64 magnitudes", bits.shape, np.uint64)
        np.bitwise_and(bits, ~_SIGN, out=distance)
        distance -= low
        if distance.max(initial=0) >= high - low:
            within = distance < high - low
            within |= distance == -low
            ordinary &= within.all(axis=(0, 1))
    addends, bound = total.view(np.float64), most_addend.view(np.float64)
    if not (addends.max(initial=0.0) < bound and addends.min(initial=0.0) > -bound):
        ordinary &= (np.abs(addends) < bound).all(axis=(0, 1))
    return ordinary


def _parts(name: str, values: Floats, scratch: Scratch) -> Parts:
    """Return elements of A or B with the parts of at most 26 bits that they are sums of."""
    high, low = (scratch.array(f"f64 {name} {part}", values.shape, np.float64) for part in "hl")
    return values, *split(values, out=(high, low))


def _at(parts: Parts, index: tuple[int | slice | None, ...]) -> Parts:
    values, high, low = parts
    return values[index], high[index], low[index]


def _fused_chain(
    left: Bits, right: Bits, total: Bits, rounding: str, nan: NanRule | None, scratch: Scratch
) -> None:
    """Add the products to `total`; `nan` is None where nothing is special or can become so."""
    mode, a, c = rounding, left.view(np.float64), total.view(np.float64)
    if rounding == "rm":  # -(-a b - c), rounded upward
        mode, a = "rp", np.negative(a, out=scratch.array("f64 -a", a.shape, np.float64))
        total ^= _SIGN
    rows, columns = _parts("a", a, scratch), _parts("b", right.view(np.float64), scratch)
    depth, m, tiles = left.shape
    size = max(1, min(m, _BLOCK // (right.shape[1] * tiles)))
    for row in range(0, m, size):
        block = slice(row, row + size)
        steps = _Steps(c[block], mode, scratch)
        checks = nan and _Checks(left[:, block], right, total[block], rounding, nan, scratch)
        for k in range(depth):
            steps.multiply(_at(rows, (k, block, None)), _at(columns, (k, None)))
            if checks:
                checks.before(k, steps)
            steps.add()
            if checks:
                checks.after(k, steps)
        if depth % 2:  # sums alternate between two arrays
            c[block] = steps.total
        if checks:
            checks.end(total[block])
    if rounding == "rm":
        total ^= _SIGN


class _Steps:
    """A block of sums, to which one product after the other is added."""

    def __init__(self, start: Floats, mode: str, scratch: Scratch) -> None:
        """`start` is lost; after an even number of steps it holds the sums."""
        self._mode = mode
        self.total = start
        self._arrays = [scratch.array(f"f64 step {i}", start.shape, np.float64) for i in range(5)]
        self._flags = [scratch.array(f"f64 flags {i}", start.shape, np.bool_) for i in range(3)]
        self.product, self.error, *_ = self._arrays

    def multiply(self, x: Parts, y: Parts) -> None:
        self.product, self.error, spare, *_ = self._arrays
        with small_buffer():
            np.multiply(x[0], y[0], out=self.product)
            product_error(self.product, x[1:], y[1:], out=(self.error, spare))

    def add(self) -> None:
        c, (p, e, s, free, rest) = self.total, self._arrays
        s, t = two_sum(p, c, out=(s, c, free))
        v = np.add(t, e, out=p)
        if self._mode == "rn":
            near, spare = _near_midpoints(v), 0
            result = np.add(s, v, out=p)
        else:
            result, spare = np.add(s, v, out=free), 3
            near = self._step_away(result, s, v, rest)
        if near is not None:
            _settle(result, near, s, t, e, self._mode)
        self.total, self._arrays[spare] = result, c

    def _step_away(self, result: Floats, s: Floats, v: Floats, rest: Floats) -> Places | None:
        """Go from the nearest sums to those of the mode; return where they were exact."""
        below, exact, negative = self._flags
        added = np.subtract(result, s, out=rest)  # as if it were v
        np.less(added, v, out=below)
        np.equal(added, v, out=exact)
        np.less(result, 0.0, out=negative)
        steps = below.view(np.int8)
        if self._mode == "rz":
            np.equal(below, negative, out=below)  # toward zero, or exact
            np.greater(below, exact, out=below)
            np.negative(steps, out=steps)
        else:
            # Upward is away from zero for positive numbers, and toward it for negative ones.
            negative &= below
            steps -= negative.view(np.int8)
            steps -= negative.view(np.int8)
        wide = rest.view(np.int64)
        np.copyto(wide, steps)
        pattern = result.view(np.int64)
        pattern += wide
        return np.flatnonzero(exact) if np.count_nonzero(exact) else None


def _near_midpoints(v: Floats) -> Places | None:
    """Return where s + v may lie midway between doubles: v has 4 bits, and so a lower word of 0."""
    words = v.reshape(-1).view(np.uint32)
    if words.min():
        return None
    return np.flatnonzero(v.reshape(-1).view(np.uint64).astype(np.uint32) == 0)


def _settle(result: Floats, at: Places, s: Floats, t: Floats, e: Floats, mode: str) -> None:
    """Round s + t + e once, where that may not have been done; zeros get the sign of s."""
    flat = result.reshape(-1)
    s, t, e = (part.reshape(-1).take(at) for part in (s, t, e))
    zero = np.flatnonzero((s == 0.0) & (e == 0.0))
    flat[at[zero]] = s[zero]
    inexact = np.flatnonzero((t != 0.0) & (e != 0.0))
    if inexact.size:
        rest = odd_sum(t[inexact], e[inexact])
        flat[at[inexact]] = rounded_sum(s[inexact], rest, mode)


class _Checks:
    """Find and put right what the steps of a block may get wrong.

    Sums that are infinite or NaN are kept apart; 1 runs along in their place.
    """

    def __init__(
        self, left: Bits, right: Bits, start: Bits, rounding: str, nan: NanRule, scratch: Scratch
    ) -> None:
        """`start`, of the other sign where `rounding` is "rm", loses what is kept apart."""
        self._left, self._right, self._rounding, self._nan = left, right, rounding, nan
        self._sign = _SIGN if rounding == "rm" else np.uint64(0)
        self._addend = scratch.array("f64 addend", start.shape, np.uint64)
        self._apart = scratch.array("f64 apart", start.shape, np.uint64)
        masks = (scratch.array(f"f64 mask {i}", start.shape, np.bool_) for i in range(4))
        self._is_apart, self._finite, self._below, self._above = masks
        factors = left.view(np.float64)[:, :, None], right.view(np.float64)[:, None]
        self._numbers = [np.isfinite(factor) & (factor != 0.0) for factor in factors]
        """Which factors are neither special nor zero."""
        least = [
            np.abs(factor).min(initial=np.inf, where=numbers)
            for factor, numbers in zip(factors, self._numbers, strict=True)
        ]
        self._any_tiny = least[0] * least[1] < _TINY
        self._is_apart[...] = False
        special = np.flatnonzero(~np.isfinite(start.view(np.float64)))
        sums = start.reshape(-1)[special]
        is_nan = np.isnan(sums.view(np.float64))
        sums[is_nan] = sums[is_nan] | np.uint64(QUIET) if nan.order else nan.canonical ^ self._sign
        self._put(start, special, sums)

    def before(self, k: int, steps: _Steps) -> None:
        """Keep the addend; put an exact product of the same sign in place of each tiny one."""
        np.copyto(self._addend, steps.total.view(np.uint64))
        # That of a special factor is not, nor of a product that overflows.
        np.isfinite(steps.error, out=self._finite)
        self._small = self._subnormal = np.empty(0, np.intp)
        if not self._any_tiny:
            return
        tiny = np.less(steps.product, _TINY, out=self._below)
        tiny &= np.greater(steps.product, -_TINY, out=self._above)
        for numbers in self._numbers:
            tiny &= numbers[k]
        at = np.flatnonzero(tiny)
        product, addend = steps.product.take(at), self._addend.view(np.float64).take(at)
        # A product that is rounded to zero, too, has its sign.
        steps.product.put(at, np.copysign(_TINY, product))
        steps.error.put(at, 0.0)
        magnitude = np.abs(addend)
        subnormal = np.maximum(magnitude, np.abs(product)) < _LEAST_NORMAL
        self._subnormal = at[subnormal]
        self._small = at[(magnitude < _BESIDE_TINY) & ~subnormal]

    def after(self, k: int, steps: _Steps) -> None:
        at, finite = self._small, self._finite
        finite &= np.isfinite(steps.total, out=self._below)
        if not finite.all():
            at = np.concatenate([at, np.flatnonzero(~finite)])
        for step, places in ((self._step_slowly, at), (self._step_below_normal, self._subnormal)):
            for first in range(0, places.size, _SLOW_BLOCK):
                step(k, steps.total.view(np.uint64), places[first : first + _SLOW_BLOCK])

    def _factors(self, k: int, at: Places) -> tuple[Bits, Bits]:
        _, columns, tiles = self._addend.shape
        row, tile = at // (columns * tiles), at - at // tiles * tiles
        x = self._left[k].take(row * tiles + tile)
        return x, self._right[k].take(at - row * (columns * tiles))

    def _step_below_normal(self, k: int, total: Bits, at: Places) -> None:
        """Take a step where product and addend are subnormal: their sum is exact."""
        x, y = self._factors(k, at)
        x ^= self._sign
        c = self._addend.view(np.float64).take(at)
        mode = "rp" if self._rounding == "rm" else self._rounding
        sums = _sum_below_normal(x.view(np.float64), y.view(np.float64), c, mode)
        total.put(at, sums.view(np.uint64))

    def _step_slowly(self, k: int, total: Bits, at: Places) -> None:
        x, y = self._factors(k, at)
        apart, addend, kept = (
            array.take(at) for array in (self._is_apart, self._addend, self._apart)
        )
        c = np.where(apart, kept, addend) ^ self._sign
        sums = fma(Decoded.of(x), Decoded.of(y), c, rounding=self._rounding, nan=self._nan)
        self._put(total, at, sums ^ self._sign)

    def end(self, total: Bits) -> None:
        at = np.flatnonzero(self._is_apart)
        total.reshape(-1)[at] = self._apart.reshape(-1)[at]

    def _put(self, total: Bits, at: Places, sums: Bits) -> None:
        finite = np.isfinite(sums.view(np.float64))
        total.reshape(-1)[at] = np.where(finite, sums, np.uint64(_ONE))
        self._apart.reshape(-1)[at] = sums
        self._is_apart.reshape(-1)[at] = ~finite


def _sum_below_normal(x: Floats, y: Floats, c: Floats, mode: str) -> Floats:
    """Return x y + c, rounded once ("rn", "rz" or "rp"); x y is not 0, and both are subnormal.

    The rounded product is a multiple of 2^-1074, and then the sum is exact: what is left is what
    the product lacks, at most half of that, which decides ties and directed roundings.
    """
    product = x * y
    start = product + c
    x, y = x * _UP, y * _UP
    upper = x * y
    rest = upper - product * _UP * _UP
    error = product_error(upper, split(x), split(y))
    lacking = rest + error
    if mode == "rn":
        tie = (np.abs(rest) == _GRID * _UP * _UP / 2) & (error == 0.0)
        moved = tie & (start.view(np.uint64) & np.uint64(1) != 0)
    elif mode == "rp":
        moved = lacking > 0.0
    else:
        moved = lacking * (start * _UP * _UP) < 0.0
    total = start + np.copysign(_GRID, lacking) * moved
    # The sign of a zero is that of the exact sum.
    signed: Floats = np.copysign(total, np.where((start == 0.0) & (lacking != 0.0), lacking, start))
    return signed


def _any_chain(left: Bits, right: Bits, total: Bits, rounding: str, nan: NanRule) -> Bits:
    rows, columns = Decoded.of(left), Decoded.of(right)
    for k in range(len(left)):
        multiplicand = rows.at((k, slice(None), None))
        total = fma(multiplicand, columns.at(k), total, rounding=rounding, nan=nan)
    return total


def _separate_chain(left: Bits, right: Bits, total: Bits, rounding: str, nan: NanRule) -> Bits:
    """Return the sums with every product rounded before it is added."""
    one = Decoded.of(np.full((1, 1, 1), _ONE, np.uint64))
    for row, column in zip(left, right, strict=True):
        x, y = row[:, None], column
        # A zero of the product's own sign changes no product.
        zero = (x ^ y) & _SIGN
        product = fma(Decoded.of(x), Decoded.of(y), zero, rounding=rounding, nan=nan)
        total = fma(Decoded.of(product), one, total, rounding=rounding, nan=nan)
    return total
