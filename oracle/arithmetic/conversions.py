"""Working memory of products, and roundings: conversions on raw patterns, and exact sums."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike, NDArray

from oracle.isa.forms import FORMATS, Format

LINE_BYTES = 64
"""A cache line of x86-64 and of most 64-bit Arm processors."""


def in_order(matrices: NDArray[Any], order: tuple[int, int, int]) -> NDArray[Any]:
    """Copy matrices so that their axes lie in memory in an order, the largest stride first."""
    turned = matrices.transpose(1, 2, 0)
    if order == (0, 1, 2) and turned.flags.c_contiguous and matrices.size:
        copied, tiles = np.empty(matrices.shape, matrices.dtype), len(matrices)
        own_scratch().turn(copied.reshape(tiles, -1), turned.reshape(-1, tiles).T)
        return copied
    return np.array(matrices.transpose(order), order="C").transpose(np.argsort(order))


_REGION_BYTES = 16 << 20
"""Taken from the system at once: from 4 MiB on NumPy asks for large pages (Linux, madvise)."""
_LARGE_PAGE = 2 << 20
"""Bytes of a large page of x86-64, and of 64-bit Arm with small pages of 4 KiB."""
_TURNED = 512
"""Rows turned at once (of 32 to 2,048 the fastest for 8 to 64 bits, 2026-11-22)."""
_FEW_TILES = 64
"""Up to so many are as fast turned in one statement (16 x 16 of 8 to 64 bits, 2026-11-29)."""
_SHIFT = 4096 + 256
"""Granule of buffers, so that equal places do not fall into one set of the cache."""
_BUFFER = 64
"""Elements of NumPy's buffer; at the usual 8,192 repeated factors cost double (2026-11-22)."""


class Scratch:
    """Working memory, by name. What a name held before is lost when it is asked for again."""

    def __init__(self) -> None:
        self._buffers: dict[str, NDArray[np.uint8]] = {}
        self._free = np.empty(0, np.uint8)

    def array(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return an array of this shape and dtype with unspecified contents."""
        wanted = np.dtype(dtype)
        size = prod(shape) * wanted.itemsize
        buffer = self._buffers.get(name)
        if buffer is None or buffer.nbytes < size:
            buffer = self._buffers[name] = self._taken(size)
        return buffer[:size].view(wanted).reshape(shape)

    def _taken(self, size: int) -> NDArray[np.uint8]:
        if len(self._free) < size:
            region = np.empty(max(_REGION_BYTES, size + _LARGE_PAGE), np.uint8)
            self._free = region[-region.ctypes.data % _LARGE_PAGE :]
        taken, self._free = self._free[:size], self._free[-(-size // _SHIFT) * _SHIFT :]
        return taken

    def copy(self, name: str, values: NDArray[Any], dtype: DTypeLike | None = None) -> NDArray[Any]:
        """Return a C-contiguous copy, converted (unchecked) where a dtype is given."""
        copied = self.array(name, values.shape, values.dtype if dtype is None else dtype)
        np.copyto(copied, values, casting="unsafe")
        return copied

    def turn(self, target: NDArray[Any], source: NDArray[Any]) -> None:
        """Copy a matrix, (count, size), in C order to one whose rows lie side by side, or back.

        A few rows at a time, so that what is read across them lies in the cache.
        """
        gap = LINE_BYTES // source.itemsize
        apart = target.strides[0] == target.itemsize
        for start in range(0, len(source), _TURNED):
            here, there = source[start : start + _TURNED], target[start : start + _TURNED]
            read, write = (here, there) if apart else (here.T, there.T)
            count, size = read.shape
            spread = self.array("spread", (count, size + gap), source.dtype)[:, :size]
            np.copyto(spread, read)
            np.copyto(write, spread)

    def tiles_last(
        self, name: str, tiles: NDArray[Any], axes: tuple[int, int, int]
    ) -> NDArray[Any]:
        """Return matrices (tiles, rows, columns) with other axes, of which tiles are the last."""
        count, *shape = tiles.shape
        target = self.array(name, (*shape, count), tiles.dtype)
        if count > _FEW_TILES and tiles.flags.c_contiguous:
            self.turn(target.reshape(-1, count).T, tiles.reshape(count, -1))
        else:
            np.copyto(target, tiles.transpose(1, 2, 0))
        return target.transpose(axes[0] - 1, axes[1] - 1, 2)


_per_thread = threading.local()


def own_scratch() -> Scratch:
    """Return the working memory of this thread."""
    found: Scratch = _per_thread.__dict__.setdefault("scratch", Scratch())
    return found


@contextmanager
def small_buffer() -> Iterator[None]:
    """Have NumPy copy no factors that are repeated along an axis."""
    before = np.setbufsize(_BUFFER)
    try:
        yield
    finally:
        np.setbufsize(before)


Array = NDArray[Any]
Floats = NDArray[np.float64]

CANONICAL_NAN = {"f16": 0x7FFF, "f32": 0x7FFF_FFFF}
"""NaN that a floating-point dot product returns (measured on H200, 2026-11)."""


def widen(bits: NDArray[np.uint16]) -> NDArray[np.uint32]:
    """Return f16 values as f32 bit patterns: exact; NaNs stay NaNs, with any payload."""
    with np.errstate(invalid="ignore"):
        return bits.view(np.float16).astype(np.float32).view(np.uint32)


def narrow_to_bf16(bits: NDArray[np.uint32]) -> NDArray[np.uint16]:
    """Round f32 patterns to bf16's, to nearest even; any NaN becomes 0x7fff (not measured)."""
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    # The largest finite pattern plus half a unit carries into infinity, as it has to.
    rounded = ((bits + (np.uint32(0x7FFF) + odd)) >> np.uint32(16)).astype(np.uint16)
    nan = (bits & np.uint32(0x7FFF_FFFF)) > np.uint32(0x7F80_0000)
    return where(nan, np.uint16(0x7FFF), rounded)


_PIECE = 1 << 14
"""Elements narrowed together: a dozen working arrays of 64 KiB stay in the cache."""
_LEAST_NORMAL = (127 - 14) << 23
"""f32 pattern of 2^-14, the least normal f16."""
_TOO_LARGE = (127 + 16) << 23
"""f32 pattern of 2^16; everything from there on is infinite as f16, or NaN."""
_INFINITY = 0xFF << 23
"""f32 pattern of infinity, above which NaNs are."""


def narrow(bits: NDArray[np.uint32]) -> NDArray[np.uint16]:
    """Round f32 patterns to f16's, to nearest even; any NaN becomes 0x7fff (H200, 2026-11)."""
    halves = np.empty(bits.shape, np.uint16)
    source, target = bits.reshape(-1), halves.reshape(-1)
    for start in range(0, source.size, _PIECE):
        part = slice(start, start + _PIECE)
        target[part] = _narrow_piece(source[part])
    return halves


def _narrow_piece(bits: NDArray[np.uint32]) -> NDArray[np.uint32]:
    # Each element is the sum of two parts, one of which is constant: what it has beyond the least
    # normal number, and what it has of it. (A mask takes NumPy longer than all of this.)
    magnitude = bits & np.uint32(0x7FFF_FFFF)
    least, most = magnitude.min(initial=_LEAST_NORMAL), magnitude.max(initial=0)
    halves: NDArray[np.uint32] = np.maximum(magnitude, np.uint32(_LEAST_NORMAL))
    if most > _TOO_LARGE:
        np.minimum(halves, np.uint32(_TOO_LARGE), out=halves)
    # Subtract the difference of the biases, and add just less than half of a unit of f16; one
    # more where the last bit that stays is odd.
    odd = halves >> 13
    odd &= 1
    halves -= np.uint32(((127 - 15) << 23) - 0xFFF)
    halves += odd
    halves >>= 13
    if least < _LEAST_NORMAL:
        # Around 0.5, f32 has the spacing of subnormal f16: the addition rounds to nearest even.
        small = np.minimum(magnitude, np.uint32(_LEAST_NORMAL)).view(np.float32)
        small += np.float32(0.5)
        halves += small.view(np.uint32)
        halves -= np.uint32(0x3F00_0000 + 0x400)  # 0.5, and 2^-14 as f16
    sign = bits >> 16
    sign &= 0x8000
    if most > _INFINITY:
        nan = magnitude > _INFINITY
        halves |= nan * np.uint32(CANONICAL_NAN["f16"])
        sign *= ~nan
    halves |= sign
    return halves


def where(chosen: NDArray[np.bool_], yes: Any, no: Any) -> NDArray[Any]:
    """Do what np.where does, of integers or bools of one dtype, without a branch for each element.

    A tenth of the time where what is chosen is in no order (8,192 elements, 2026-11).
    """
    differ = yes ^ no
    mask = chosen if differ.dtype == np.bool_ else np.negative(chosen.astype(differ.dtype))
    found: NDArray[Any] = no ^ (differ & mask)
    return found


def flushed(bits: NDArray[Any], fmt: Format) -> NDArray[Any]:
    """Return patterns with zeros of their sign in place of subnormals."""
    kind = bits.dtype.type
    return where(bits & kind(fmt.infinity) == 0, bits & kind(fmt.magnitude + 1), bits)


def is_nan(bits: NDArray[Any], fmt: Format) -> NDArray[np.bool_]:
    """Tell which patterns of a format with infinities are NaNs."""
    nan: NDArray[np.bool_] = bits & bits.dtype.type(fmt.magnitude) > fmt.infinity
    return nan


FLOATS: dict[str, Any] = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "tf32": np.float32,
    "bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
    "e3m2": ml_dtypes.float6_e3m2fn, "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn, "e2m1b4": ml_dtypes.float4_e2m1fn,
}  # fmt: skip
"""Dtypes in which the patterns of a format, without padding, are its numbers."""


def integral(values: Floats, rounding: str) -> Floats:
    """Round to integers: "rn", "rz", "rm", "rp" or "rna" (nearest, ties away); zeros keep signs."""
    rounded: Floats
    match rounding:
        case "rn":
            rounded = np.rint(values)
        case "rz":
            rounded = np.trunc(values)
        case "rm":
            rounded = np.floor(values)
        case "rp":
            rounded = np.ceil(values)
        case _:
            # Exact, and so no tie is missed: what is rounded here is below 2^25.
            rounded = np.copysign(np.floor(np.abs(values) + 0.5), values)
    return rounded


def rounded(values: Floats, fmt: Format, rounding: str, overflow: str) -> NDArray[Any]:
    """Round finite doubles (exact, or rounded to odd) once, to bit patterns of a format but f64.

    `rounding`: One of `oracle.models.figures.ROUNDINGS`. Zeros keep their signs.
    `overflow`: What becomes too large: "infinity", "largest" (e4m3 has no other), or "IEEE"
    (whichever the rounding asks for, IEEE 754-2019, 7.4).
    """
    _, exponent = np.frexp(values)
    np.maximum(exponent, 2 - fmt.bias, out=exponent)  # frexp's significands are below 1
    quantum = np.ldexp(1.0, exponent - 1 - fmt.fraction_bits)
    numbers = integral(values / quantum, rounding) * quantum
    largest = fmt.largest
    over = np.abs(numbers) > largest
    if over.any():
        limit = np.full(numbers.shape, largest if overflow == "largest" else np.inf)
        if overflow == "IEEE" and rounding in ("rz", "rm", "rp"):
            inward = {"rz": over, "rm": numbers > 0, "rp": numbers < 0}[rounding]
            limit[inward] = largest
        numbers = np.where(over, np.copysign(limit, numbers), numbers)
    patterns: NDArray[Any] = numbers.astype(FLOATS[fmt.name]).view(fmt.raw)
    return patterns


Outputs = Sequence[Floats | None]
_NEW = (None, None, None)
_SPLITTER = 2.0**27 + 1.0
"""Veltkamp's constant for 53-bit significands."""


def split(x: Floats, *, out: Outputs = _NEW) -> tuple[Floats, Floats]:
    """Return parts of at most 26 bits whose sum is exactly x (Dekker 1971), in `out` if given."""
    product = np.multiply(x, _SPLITTER, out=out[0])
    rest = np.subtract(product, x, out=out[1])
    high = np.subtract(product, rest, out=product)
    return high, np.subtract(x, high, out=rest)


def two_sum(x: Floats, y: Floats, *, out: Outputs = _NEW) -> tuple[Floats, Floats]:
    """Return the rounded sum and its exact error (Knuth); `out`: for both, and to work in."""
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
    """Return x + y rounded to odd: rounded again, it is as if rounded once (Boldo 2008)."""
    total, error = two_sum(x, y)
    inexact, pattern = error != 0.0, total.view(np.int64)
    # One less where the rounded sum is farther from zero than the exact one: the signs differ.
    pattern += (error.view(np.int64) ^ pattern) >> 63 & -inexact.astype(np.int64)
    pattern |= inexact
    return total


def rounded_sum(head: Floats, tail: Floats, rounding: str) -> Floats:
    """Return the sum, rounded once, where it neither overflows nor is subnormal and inexact."""
    if rounding == "rn":
        return head + tail
    total, error = two_sum(head, tail)
    step_away(total, error < 0.0 if rounding == "rm" else error > 0.0, error == 0.0, rounding)
    return total


def step_away(nearest: Floats, beyond: Array, exact: Array, rounding: str) -> None:
    """Go from the nearest sums to those of rz, rm or rp. The masks are lost.

    `beyond`: Where the exact sum is greater, or with rm less. `exact`: Where it is the same.
    """
    inward = nearest > 0.0 if rounding == "rm" else nearest < 0.0
    steps = beyond.view(np.int8)
    if rounding == "rz":
        np.equal(beyond, inward, out=beyond)  # toward zero, or exact
        np.greater(beyond, exact, out=beyond)
        np.negative(steps, out=steps)
    else:
        # Upward is away from zero for positive numbers, and toward it for negative ones.
        inward &= beyond
        steps -= inward.view(np.int8)
        steps -= inward.view(np.int8)
    pattern = nearest.view(np.int64)
    pattern += steps.astype(np.int64)


def unpacked(bits: Array, name: str) -> Array:
    """Return elements of 8 bits as f16 patterns; others as they are."""
    if FORMATS[name].bits > 8:
        return bits
    turned = bits.T  # of operands with tiles last, as they lie in memory
    halves: Array = np.take(_halves(name), turned).T
    return halves


@cache
def _halves(name: str) -> NDArray[np.uint16]:
    """Return the f16 pattern of each element of a format of at most 8 bits, uint16 (patterns,)."""
    fmt = FORMATS[name]
    bits = np.arange(1 << fmt.bits, dtype=np.uint16)
    signs: NDArray[np.uint16] = (bits & (fmt.magnitude + 1) != 0) * np.uint16(0x8000)
    magnitude = (bits & np.uint16(fmt.magnitude)) >> np.uint16(fmt.ignored_bits)
    # As the fields of an f16, these are too small by a power of two: f16 has a bias of 15.
    values = (magnitude << np.uint16(10 - fmt.fraction_bits)).view(np.float16)
    if fmt.has_infinity:  # e5m2, the first byte of an f16
        return signs | values.view(np.uint16)
    halves = (values * np.float16(2.0 ** (15 - fmt.bias))).view(np.uint16)
    if fmt.has_nan:
        halves = np.where(magnitude == fmt.magnitude, np.uint16(0x7FFF), halves)
    return signs | halves


def result_type(fmt: Format) -> type[np.unsignedinteger[Any]]:
    """Return the NumPy type of a format's patterns."""
    kind: type[np.unsignedinteger[Any]] = np.dtype(fmt.raw).type
    return kind


def ieee_sum(x: Array, y: Array, fmt: Format, rounding: str) -> Array:
    """Return x + y, patterns of a format, as IEEE 754 adds; any NaN is canonical."""
    if rounding == "rn":
        # Of f16, a sum in f32 may be rounded twice: it has 2 x 11 + 2 bits (Figueroa 1995).
        wide = (widen(z) if fmt.name == "f16" else z for z in (x, y))
        with np.errstate(all="ignore"):
            total = np.add(*(np.ascontiguousarray(z).view(np.float32) for z in wide))
        bits = total.view(np.uint32)
        bits[np.isnan(total)] = CANONICAL_NAN["f32"]
        return narrow(bits) if fmt.name == "f16" else bits
    floats = {"f16": np.float16, "f32": np.float32}[fmt.name]
    with np.errstate(all="ignore"):
        left, right = (np.ascontiguousarray(z).view(floats).astype(np.float64) for z in (x, y))
        plain = left + right
        finite = np.isfinite(plain)
        exact = odd_sum(np.where(finite, left, 0.0), np.where(finite, right, 0.0))
        if rounding == "rm":
            # IEEE 754-2019, 6.3: x - x is -0 there.
            exact = np.where((exact == 0.0) & (np.signbit(left) | np.signbit(right)), -0.0, exact)
        result = rounded(exact, fmt, rounding, "IEEE")
        special = plain.astype(floats).view(fmt.raw)
    result = np.where(finite, result, special)
    nan = result_type(fmt)(CANONICAL_NAN[fmt.name])
    return np.where(np.isnan(plain), nan, result)


def narrowed(bits: NDArray[np.uint32], rounding: str, overflow: str) -> NDArray[np.uint16]:
    """Return f32 patterns as f16's, rounded once; parameters as of `rounded`."""
    if (rounding, overflow) == ("rn", "infinity"):
        return narrow(bits)
    with np.errstate(all="ignore"):
        values = np.ascontiguousarray(bits).view(np.float32).astype(np.float64)
        finite = np.isfinite(values)
        result = rounded(np.where(finite, values, 0.0), FORMATS["f16"], rounding, overflow)
        special = values.astype(np.float16).view(np.uint16)
    result = np.where(finite, result, special)
    nan = np.uint16(CANONICAL_NAN["f16"])
    return np.where(np.isnan(values), nan, result)
