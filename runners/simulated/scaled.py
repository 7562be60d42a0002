"""Multiplications whose blocks of A and B have scales (PTX ISA 9.7.14.3, and .5.14 and .6.3).

Every term is an integer: of significands of A, B and their two scales, at an exponent. Terms and C
are cut toward zero below the largest exponent among them, added up, and rounded once. What the unit
of sm_120 does is published (MMA-Sim); of sparse A, its stored elements are taken the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from runners.simulated.fused import F16, F32, as_f16
from runners.simulated.operands import OperandReader, Source
from runners.simulated.products import (
    ProductTypes,
    Words,
    finish,
    in_chunks,
    put_specials,
    take_apart,
)
from runners.simulated.silicon import BOTTOMS, FloatUnit, ScaledUnit
from runners.simulated.syntax import ImmediateText, TrapKind, refuse
from runners.simulated.warps import LANES, Mask, Values, WarpState, spread

Exact = NDArray[np.int64]
_COLUMNS = 8
_TOGETHER = 64  # warps whose terms stay in a core's caches


class _Scale(NamedTuple):
    """Scales taken apart: eighths, exponents, and which are NaN."""

    eighths: Exact
    exponent: Exact
    nan: NDArray[np.bool_]


def _read(words: Values, kind: str, unit: ScaledUnit) -> _Scale:
    held = words.astype(np.int64)
    if kind == "ue8m0" or unit.as_powers:
        eighths, exponent, nan = np.full_like(held, 8), held - 127, held == 0xFF
        if unit.flushed_scales:
            eighths[held == 0] = 0
    else:
        field, eighths = held >> 3 & 15, held & 7
        if unit.flushed_scales:
            eighths = np.where(field > 0, eighths, 0)
        eighths, exponent = eighths + 8 * (field > 0), np.maximum(field, 1) - 7
        nan = held & 0x7F == 0x7F
    return _Scale(eighths, exponent, nan & (not unit.quiet_nan))


def multiply_scaled(
    unit: ScaledUnit, sums: FloatUnit, types: ProductTypes, kind: str,
    a: Words, b: Words, c: Words, of_a: Values, of_b: Values,
) -> Words:  # fmt: skip
    """Return D, (M, N, warps), of A, B and C and their scales (M, S, warps) and (S, N, warps).

    `sums`: Whose sums are rounded alike. `kind`: Format of the scales.
    """

    def chunk(a: Words, b: Words, c: Words, of_a: Values, of_b: Values) -> Words:
        left = take_apart(as_f16(a, types.a), F16, False, BOTTOMS[types.a])
        right = take_apart(as_f16(b, types.b), F16, False, BOTTOMS[types.b])
        addend = take_apart(c, F32, flush=False)
        rows, columns = _read(of_a, kind, unit), _read(of_b, kind, unit)
        if unit.ignored:
            columns = _read(np.full_like(of_b, 127), "ue8m0", unit)
        depth, blocks = a.shape[1], of_a.shape[1]
        own_of_c = addend.exponent.astype(np.int64)
        top: Exact = np.where(addend.significand == 0, unit.zero_exponent, own_of_c)
        terms = []
        for start in range(0, depth, unit.group):
            block = start * blocks // depth
            # Of 2^-6 of a unit, each with the sign of its element.
            scale = rows.eighths[:, block, None] * columns.eighths[block]
            exponent = rows.exponent[:, block, None] + columns.exponent[block]
            total, some = np.zeros(c.shape, np.int64), np.zeros(c.shape, np.bool_)
            for k in range(start, min(start + unit.group, depth)):
                product = left.significand[:, k, None].astype(np.int64) * right.significand[k]
                some |= product != 0
                product *= left.sign[:, k, None] * right.sign[k]
                own = left.exponent[:, k, None] + right.exponent[k]
                # A sum of several is one of multiples of 2^-2: the least e2m1 is a half.
                total += product if unit.of_products else product << np.maximum(own, 0) >> 18
            if unit.of_products:
                exponent = exponent + own
            absent = ~some | (scale == 0)
            exponent = np.where(absent, unit.zero_exponent, exponent)
            np.maximum(top, exponent, out=top)
            terms.append((total * scale, exponent))
        below = (20 if unit.of_products else 2) + 6
        whole = addend.significand.astype(np.int64) * addend.sign
        result = _cut(whole, 23, own_of_c, top, unit)
        for term, exponent in terms:
            result += _cut(term, below, exponent, top, unit)
        words = finish(result, top - unit.fraction, sums)
        words = put_specials(words, left, right, addend, sums)
        for axis, one in ((1, rows), (0, columns)):
            words[spread(np.any(one.nan, axis=axis, keepdims=True), c.shape)] = unit.nan
        return words

    return in_chunks(_TOGETHER, chunk, a, b, c, of_a, of_b)


def _cut(term: Exact, below: int, exponent: Exact, top: Exact, unit: ScaledUnit) -> Exact:
    """Return a term, with so many bits below its point, in units of the last bit that is kept."""
    up = unit.fraction - below - (top - exponent)
    size: Exact = np.abs(term)
    # Beyond 62 nothing is left of it; what is zero stands at no exponent of its own.
    size = np.where(up >= 0, size << np.clip(up, 0, 62), size >> np.clip(-up, 0, 62))
    cut: Exact = np.where(term < 0, -size, size)
    return cut


Fetch = Callable[[WarpState, Mask], Values]


def scale_sources(
    operands: OperandReader, given: tuple[Any, ...], blocks: int, unit: ScaledUnit
) -> tuple[Fetch, Fetch]:
    """Return what fetches the scales of A, (16, blocks, warps), and of B, (blocks, 8, warps).

    `given`: The last four operands: scales of A, their byte and lanes, and the same of B.
    """
    fetches = []
    for turn, (data, ids) in enumerate((given[:2], given[2:])):
        known = range(0, 4, blocks), range(4 if turn else 2)
        for part, some in zip(operands.parts(ids, 2), known, strict=True):
            if isinstance(part, ImmediateText) and part.value not in some:
                operands.unsupported("no such selectors of scales are known")
        (held,), places = operands.sources(data, 1, 32), operands.sources(ids, 2, 16)
        fetches.append(partial(_fetched_scales, held, places, known, turn, unit))
    return fetches[0], fetches[1]


def _fetched_scales(
    held: Source, places: tuple[Source, ...], known: tuple[range, range], turn: int,
    unit: ScaledUnit, warps: WarpState, mask: Mask,
) -> Values:  # fmt: skip
    chosen = []
    for place, some in zip(places, known, strict=True):
        number = warps.uniform(place(warps), "a selector of scales", mask).astype(np.int64)
        wrong = ~np.isin(number, some)
        wrong = wrong if mask is None else wrong & mask
        if wrong.any():
            said = "a register with a selector of scales holds none that is known"
            refuse(TrapKind.STOPPED, 0, said, warps.names(wrong))
        chosen.append(number & some[-1])
    byte, thread = (one * (not off) for one, off in zip(
        chosen, (unit.first_byte, unit.first_lanes), strict=True
    ))  # fmt: skip
    # 9.7.14.3: two lanes of each four hold those of A, one of each four those of B.
    quad = np.arange(_COLUMNS)[:, None] * 4
    lanes = quad + thread
    if not turn:
        pair = [quad + 2 * thread, quad + 2 * thread + 1]
        lanes = np.concatenate(pair[::-1] if unit.next_row else pair)
    words = spread(held(warps), (LANES, warps.indices.size))
    words = np.take_along_axis(words, lanes, axis=0) if lanes.shape[1] > 1 else words[lanes[:, 0]]
    below = 8 * byte.astype(np.uint32)
    blocks = [words >> (below + np.uint32(8 * at)) & 0xFF for at in range(known[0].step)]
    if unit.next_block:
        blocks = [*blocks[1:], blocks[0]]
    return np.stack(blocks, axis=0 if turn else 1)
