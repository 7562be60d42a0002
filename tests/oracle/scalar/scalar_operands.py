"""Operands of scalar instructions: edges of every format, near pairs, and random patterns."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from oracle.isa.forms import FORMATS, Format
from oracle.scalar import CLASSES, ScalarInstruction

_EXPONENTS = (7, 8, 9, 10, 11, 12, 15, 16, 31, 32, 63, 64, -1, -14, -24, -25)
"""Where integers of 8 to 64 bits end, and f16 begins."""


@cache
def edges(bits: int) -> NDArray[np.uint64]:
    """Return patterns at which something changes.

    Of integers 0, powers of two and their neighbours, all ones, alternating bits; of floats zeros,
    subnormals, the least normal, 0.5, 1, 1.5, 2, ties, ends of integers, the largest, NaNs.
    """
    every = (1 << bits) - 1
    found = {8, 0xFF, every // 3, every // 3 * 2}
    for at in range(bits):
        found |= {1 << at, (1 << at) - 1, -1 << at}
    for fmt in FORMATS.values():
        if not fmt.is_float or fmt.bits > bits:
            continue
        unit, step = 1 << fmt.ignored_bits, 1 << fmt.fraction_bits + fmt.ignored_bits
        one = fmt.bias * step
        for middle in (0, step, one, one + step, one - step, one + step // 2, fmt.infinity):
            found |= {middle + near * unit for near in (-1, 0, 1, 2)} | {middle | unit >> 1}
        for exponent in _EXPONENTS:
            if abs(exponent) < fmt.bias:
                power = one + exponent * step
                found |= {power, power - unit, power + unit, power + step // 2}
        found |= {one | fmt.magnitude + 1 for one in found if one >= 0}
    found = {one & every for one in found}
    if bits == 32:
        found |= {int(one) | int(one) << 16 for one in edges(16)}
    return np.array(sorted(found), np.uint64)


_LISTED = 1 << 12
"""Patterns of each kind in `_patterns`, more than there are edges: 12 bits choose one."""


@cache
def _patterns(bits: int) -> NDArray[np.uint64]:
    """Return small numbers, then ends, then edges, each again and again."""
    top = 1 << (bits - 1)
    ends = [0, 1, top - 1, top, top + 1, 2 * top - 1]
    kinds = np.arange(70, dtype=np.uint64), np.array(ends, np.uint64), edges(bits)
    return np.concatenate([np.resize(one, _LISTED) for one in kinds])


@cache
def _halves() -> NDArray[np.uint16]:
    """Return an edge for each of 16 random bits."""
    return np.resize(edges(16), 1 << 16).astype(np.uint16)


def _register(random: np.random.Generator, bits: int, shape: tuple[int, ...]) -> NDArray[np.uint64]:
    """Draw registers: small numbers, ends, edges, edges in each half, and any patterns."""
    drawn = random.integers(0, (1 << 64) - 1, shape, np.uint64, endpoint=True)
    kind = random.integers(0, 5, shape, np.uint16)
    at = (drawn >> np.uint64(52)).astype(np.uint16) + np.minimum(kind, 2) * np.uint16(_LISTED)
    together = _halves().take(drawn.view(np.uint16)).view(np.uint64)
    any_ = np.where(kind == 3, together, drawn) & np.uint64((1 << bits) - 1)
    return np.where(kind < 3, _patterns(bits).take(at), any_)


def _factors(fmt: Format, random: np.random.Generator, count: int) -> list[NDArray[np.uint64]]:
    """Draw pairs of numbers whose product is a little below the least normal number."""
    bits = fmt.fraction_bits + 1
    unit, least = 1 << fmt.fraction_bits, 1 - fmt.bias
    x = random.integers(unit, 2 * unit, count)
    y = np.maximum(((1 << 2 * bits - 1) - 1) // x - random.integers(0, 3, count), unit)
    # x y is below 2^(2 bits - 1), and a significand of 1 is `unit`.
    exponent = least // 2 + random.integers(-3, 4, count)
    fields = (exponent + fmt.bias, least - 1 - exponent + fmt.bias)
    return [
        (field * unit + one - unit + random.integers(0, 2, count) * 2**bits * (fmt.bias + 1))
        .astype(np.uint64)
        for one, field in zip((x, y), fields, strict=True)
    ]  # fmt: skip


def _tiny(row: ScalarInstruction, random: np.random.Generator, given: list[NDArray]) -> None:
    """Let an eighth of the results be a little below the least normal number, where `.ftz` acts."""
    words = row.opcode.split(".")
    fmt = FORMATS[words[-1].removesuffix("x2")]
    elements = [one.view(fmt.raw) for one in given]
    there = random.random(elements[0].shape) < 0.125
    count = int(there.sum())
    if words[0] == "cvt":
        size = 2.0**-126 * (1.0 - random.integers(0, 64, count) * 2.0**-27)
        made = [np.where(random.random(count) < 0.5, size, -size).view(np.uint64)]
    else:
        made = _factors(fmt, random, count)
        if len(given) == 3:
            made.append(random.integers(0, 2, count).astype(np.uint64) << np.uint64(fmt.bits - 1))
    for one, new in zip(elements, made, strict=True):
        one[there] = new.astype(fmt.raw)


def operands(row: ScalarInstruction, count: int, seed: int = 0) -> list[NDArray]:
    """Draw `count` warps of operands, (count, 32), and a carry where the row reads one.

    Constants that are required are in their range, one for a warp. An eighth of the others equals
    the one before it or lies near it, as numbers do that cancel. Of what flushes its results, an
    eighth is about to be flushed.
    """
    random = np.random.default_rng([seed, *row.opcode.encode()])
    shape = (count, 32)
    drawn: list[NDArray] = []
    for at, name in enumerate(row.sources):
        if name == "pred":
            drawn.append(random.random(shape) < 0.5)
            continue
        bits, kind = int(name[1:]), CLASSES[name]
        wanted = row.immediates.get(at)
        if wanted is not None and wanted.required:
            some = random.integers(wanted.low, wanted.high, (count, 1), np.uint64, endpoint=True)
            some[::5] = random.choice(np.array(wanted[:2], np.uint64), some[::5].shape)
            drawn.append(np.broadcast_to(some, shape).astype(kind))
            continue
        register = _register(random, bits, shape)
        if drawn and drawn[-1].dtype == kind:
            flips = np.array([0, 1, 2, 1 << (bits - 1), (1 << bits) - 1, 0xFF], np.uint64)
            near = drawn[-1] ^ flips.take(random.integers(0, len(flips), shape, np.uint8))
            register = np.where(random.integers(0, 8, shape, np.uint8) == 0, near, register)
        drawn.append(register.astype(kind))
    if row.carry_in:
        drawn.append(random.random(shape) < 0.5)
    if "ftz" in row.opcode and (row.family in ("mul", "fma") or row.opcode.endswith("f32.f64")):
        _tiny(row, random, drawn)
    return drawn
