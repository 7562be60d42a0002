"""Matrix products of f64: a chain of fused multiply-adds for each element of the result.

Tiles of ordinary operands, where nothing overflows or is rounded on the grid of subnormals, go a
quick way (`_ordinary_chain`), others the way of `oracle.arithmetic.fma`.

The quick way, for one step: x y = p + e exactly (Dekker's product), p + c = s + t exactly (Knuth's
sum), v = t + e rounded to nearest, and the result is s + v rounded. That is the sum of all three
rounded once, unless v is inexact and s + v lies on a boundary of the rounding: midway between two
doubles for .rn, on a double for the directed modes. Why: where v is inexact t is not 0, so that p
and c do not nearly cancel (Sterbenz), |s| >= |p| / 2 and |e| <= ulp(p) / 2 <= ulp(s). Boundaries
as near as t + e are then s + h with h a multiple of ulp(s) / 4 and not above 2 ulp(s): a double
with a significand of 4 bits. Rounding is monotonous, so v is on the same side of h as t + e, or
is h. Where that is not excluded, t + e is rounded to odd instead (Boldo and Melquiond 2008).
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from oracle.arithmetic.error_free import odd_sum, product_error, split, two_sum
from oracle.arithmetic.fma import Decoded, fma, rounded_sum

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from oracle.models import DoubleChain, NanRule
    from oracle.scratch import Scratch

    Floats = NDArray[np.float64]
    Bits = NDArray[np.uint64]
    Bools = NDArray[np.bool_]
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
_TILES = 512
"""Tiles of a block: length of the loops in which the factors of a product lie one after another."""
_BLOCK = 1 << 14
"""Elements of C that take a step together: arrays of 128 KiB, of which a few fit the cache, and
long enough that NumPy's calls cost little (the fastest of 2^13 to 2^15, 2026-11-22)."""
_BUFFER = 64
"""Elements of NumPy's buffer. A factor that is repeated along an axis is copied through it where
the axes within fit, which at the usual 8,192 doubles the time (NumPy 2.4, 2026-11-22)."""


def chain(a: Bits, b: Bits, c: Bits, *, rounding: str, rule: DoubleChain, scratch: Scratch) -> Bits:
    """Return a @ b + c as a chain of multiply-adds.

    Parameters
    ----------
    a, b, c
        Shapes (tiles, m, k), (tiles, k, n) and (tiles, m, n), raw bit patterns.
    rounding
        "rn", "rz", "rm" or "rp" (PTX ISA 9.7.14.4.5).
    rule
        The figures of the unit.
    scratch
        Working memory.

    Returns
    -------
    Raw bit patterns, shape (m, n, tiles): working memory, good until the next call.
    """
    if rule.order.value == "falling":
        a, b = a[:, :, ::-1], b[:, ::-1]
    left = scratch.tiles_last("f64 a", a, (2, 1, 0))
    right = scratch.tiles_last("f64 b", b, (1, 2, 0))
    total = scratch.tiles_last("f64 c", c, (1, 2, 0))
    for bits, figure in (
        (left, rule.a_subnormals), (right, rule.b_subnormals), (total, rule.c_subnormals)
    ):  # fmt: skip
        if figure.value == "flushed":
            _flush(bits)
    with np.errstate(all="ignore"):
        _add_products(left, right, total, rounding, rule, scratch)
    if rule.d_subnormals.value == "flushed":
        _flush(total)
    return total


def _flush(bits: Bits) -> None:
    """Put zeros of their sign in place of subnormals."""
    bits[bits & _EXPONENT == 0] &= _SIGN


def _add_products(
    left: Bits, right: Bits, total: Bits, rounding: str, rule: DoubleChain, scratch: Scratch
) -> None:
    """Add the products to `total`, tile by tile in the way that its operands allow."""
    nan, slow = rule.nan.value, _any_chain
    if rule.multiply_add.value == "separate":
        ordinary, slow = np.zeros(total.shape[2], np.bool_), _separate_chain
    else:
        ordinary = _are_ordinary(left, right, total, scratch)
    if ordinary.all():
        _ordinary_chain(left, right, total, rounding, scratch)
        return
    tiles = np.flatnonzero(ordinary)
    if tiles.size:
        x, y, some = (bits.take(tiles, axis=-1) for bits in (left, right, total))
        _ordinary_chain(x, y, some, rounding, scratch)
        total[..., tiles] = some
    tiles = np.flatnonzero(~ordinary)
    size = max(1, _BLOCK // total[..., 0].size)
    for start in range(0, len(tiles), size):
        part = tiles[start : start + size]
        x, y, some = (bits.take(part, axis=-1) for bits in (left, right, total))
        total[..., part] = slow(x, y, some, rounding, nan)


def _are_ordinary(left: Bits, right: Bits, total: Bits, scratch: Scratch) -> Bools:
    """Return for each tile whether nothing in it is special or can become so."""
    least, most, most_addend = (
        np.uint64((1023 + exponent) << 52) for exponent in (-_ORDINARY, _ORDINARY, _ORDINARY_ADDEND)
    )
    ordinary = np.ones(total.shape[2], np.bool_)
    for bits, low, high in ((left, least, most), (right, least, most), (total, 1, most_addend)):
        # Zero, minus one, is above all others.
        magnitude = scratch.array("f64 magnitudes", bits.shape, np.uint64)
        np.bitwise_and(bits, ~_SIGN, out=magnitude)
        if magnitude.max(initial=0) >= high:
            ordinary &= (magnitude < high).all(axis=(0, 1))
        if low > 1:
            magnitude -= np.uint64(1)
            if magnitude.min(initial=low) < low - np.uint64(1):
                ordinary &= (magnitude >= low - np.uint64(1)).all(axis=(0, 1))
    return ordinary


@dataclass(frozen=True)
class _Factors:
    """Elements of A or B with the parts of at most 26 bits that they are sums of."""

    values: Floats
    high: Floats
    low: Floats

    @classmethod
    def of(cls, name: str, bits: Bits, scratch: Scratch) -> _Factors:
        values = bits.view(np.float64)
        high, low = (scratch.array(f"f64 {name} {part}", bits.shape, np.float64) for part in "hl")
        split(values, out=(high, low))
        return cls(values, high, low)

    def at(self, index: tuple[int | slice | None, ...]) -> _Factors:
        """Return the elements at a NumPy index."""
        return _Factors(self.values[index], self.high[index], self.low[index])


def _ordinary_chain(left: Bits, right: Bits, total: Bits, rounding: str, scratch: Scratch) -> None:
    """Add products of ordinary operands to `total`; the signs of `left` may be lost."""
    if rounding == "rm":  # -(-a b - c), rounded upward
        left ^= _SIGN
        total ^= _SIGN
    mode = "rp" if rounding == "rm" else rounding
    row_parts, column_parts = _Factors.of("a", left, scratch), _Factors.of("b", right, scratch)
    depth, m, tiles = left.shape
    n = right.shape[1]
    size = max(1, min(m, _BLOCK // (n * min(_TILES, tiles))))
    with _small_buffer():
        for start in range(0, tiles, _TILES):
            within = slice(start, start + _TILES)
            for row in range(0, m, size):
                rows = slice(row, row + size)
                block = total[rows, :, within]
                step = _Step(block, mode, scratch)
                for k in range(depth):
                    x = row_parts.at((k, rows, None, within))
                    step.add(x, column_parts.at((k, None, slice(None), within)))
                block[...] = step.total.view(np.uint64)
    if rounding == "rm":
        total ^= _SIGN


@contextmanager
def _small_buffer() -> Iterator[None]:
    before = np.setbufsize(_BUFFER)
    try:
        yield
    finally:
        np.setbufsize(before)


class _Step:
    """A block of sums, to which one product after the other is added."""

    def __init__(self, start: Bits, mode: str, scratch: Scratch) -> None:
        self._mode = mode
        self.total: Floats
        self.total, *self._arrays = (
            scratch.array(f"f64 step {i}", start.shape, np.float64) for i in range(7)
        )
        self.total[...] = start.view(np.float64)

    def add(self, x: _Factors, y: _Factors) -> None:
        """Add the product of factors that broadcast to the block."""
        c, (p, e, s, t, v, z) = self.total, self._arrays
        np.multiply(x.values, y.values, out=p)
        product_error(p, (x.high, x.low), (y.high, y.low), out=(e, s))
        two_sum(p, c, out=(s, t, v))
        np.add(t, e, out=v)
        result = np.add(s, v, out=p)
        near = _near_midpoints(v) if self._mode == "rn" else self._step_away(result, s, v, z)
        if near is not None:
            _settle(result, near, s, t, e, self._mode)
        self.total, self._arrays[0] = result, c

    def _step_away(self, result: Floats, s: Floats, v: Floats, z: Floats) -> Places | None:
        """Go from the nearest sums to those of the mode; return where they were exact."""
        np.subtract(result, s, out=z)
        # What the result lacks, or has too much: +0 of an exact sum, which is no step upward.
        np.subtract(*((v, z) if self._mode == "rz" else (z, v)), out=z)
        exact = z == 0.0
        near = np.flatnonzero(exact) if exact.any() else None
        pattern, step = result.view(np.int64), z.view(np.int64)
        step ^= pattern
        step >>= 63  # -1 where the signs differ
        if self._mode == "rz":
            if near is not None:
                step *= ~exact
            pattern += step
        else:
            # Upward is away from zero for positive numbers, and toward it for negative ones.
            pattern -= step
            np.right_shift(pattern, 63, out=step)
            pattern += step
        return near


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


def _any_chain(left: Bits, right: Bits, total: Bits, rounding: str, nan: NanRule) -> Bits:
    """Return the sums of any operands."""
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
