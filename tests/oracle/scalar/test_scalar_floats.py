"""Rows of floats, comparisons and conversions against fractions."""

from __future__ import annotations

import numpy as np
import pytest
from scalar_operands import EDGES, operands
from slow_floats import slow

from oracle.arithmetic.conversions import is_nan
from oracle.formats import FORMATS
from oracle.scalar import CLASSES, ScalarInstruction, comparisons, conversions, floats

ROWS = [*floats.ROWS, *comparisons.ROWS, *conversions.ROWS]


def float_edges(bits: int) -> list[int]:
    """Zeros, subnormals, the least normal, 0.5, 1, 1.5, 2, integers' ends, the largest, NaNs."""
    found = set(EDGES[bits])
    for fmt in FORMATS.values():
        if fmt.is_float and fmt.bits <= bits:
            one, unit = fmt.bias << fmt.fraction_bits, 1 << fmt.ignored_bits
            step = 1 << fmt.fraction_bits
            for middle in (0, step, one, one + step, one - step, one + step // 2, fmt.infinity):
                for near in (-1, 0, 1, 2):
                    pattern = (middle + near * unit) & fmt.magnitude
                    found |= {pattern, pattern | fmt.magnitude + 1, pattern | unit >> 1}
            for exponent in (7, 8, 15, 16, 31, 32, 63, 64, 9, 10, 11, 12, -1, -14, -24, -25):
                if abs(exponent) < fmt.bias:
                    power = (fmt.bias + exponent) << fmt.fraction_bits + fmt.ignored_bits
                    found |= {power, power - 1, power + 1, power | fmt.magnitude + 1}
    return sorted(found | {one | one << 16 for one in found} if bits == 32 else found)


FLOAT_EDGES = {bits: [one & (1 << bits) - 1 for one in float_edges(bits)] for bits in (16, 32, 64)}


def open_nans(row: ScalarInstruction, result: np.ndarray) -> np.ndarray:
    """Tell in which elements of a result a NaN is open, (..., 32, elements)."""
    fmt = FORMATS[row.nan.removesuffix("x2")]
    elements = np.ascontiguousarray(result).view(fmt.raw).reshape(*result.shape, -1)
    return is_nan(elements, fmt)


def check(row: ScalarInstruction, given: list[np.ndarray]) -> None:
    results = row.evaluate(*given)
    assert len(results) == len(row.destinations)
    flat = [one.reshape(-1).tolist() for one in (*given, *results)]
    masks = [
        1 if name == "pred" else (1 << 8 * CLASSES[name]().itemsize) - 1
        for name in row.destinations
    ]
    bits = masks[0].bit_length()
    for line in zip(*flat, strict=True):
        sources, found = line[: len(given)], line[len(given) :]
        wanted = slow(row.opcode, *map(int, sources))
        assert len(wanted) == len(found), row.opcode
        for one, want, mask in zip(found, wanted, masks, strict=True):
            if row.nan and (want & mask) != one:
                kind = CLASSES[row.destinations[0]]
                pair = np.array([one, want & mask], kind)
                nan = open_nans(row, pair)
                assert (nan[0] == nan[1]).all(), (row.opcode, [hex(s) for s in sources])
                left, right = pair.view(f"u{bits // nan.shape[1] // 8}").reshape(nan.shape)
                assert ((left == right) | nan[0]).all(), (row.opcode, [hex(s) for s in sources])
                continue
            assert int(one) == int(want) & mask, (row.opcode, [hex(s) for s in sources], hex(want))


def drawn(row: ScalarInstruction, count: int) -> list[np.ndarray]:
    given = operands(row, count, edges=FLOAT_EDGES)
    if len(given) > 1 and given[0].dtype == given[1].dtype:
        # Close operands, which cancel, and equal ones.
        given[1][0] = given[0][0] ^ given[0].dtype.type(1)
        given[1][1, ::2] = given[0][1, ::2]
    return given


@pytest.mark.parametrize("family", sorted({row.family for row in ROWS}))
def test_a_row_computes_what_its_page_says(family: str) -> None:
    rows = [row for row in ROWS if row.family == family]
    for row in rows:
        check(row, drawn(row, 2 if len(rows) > 300 else 8))


@pytest.mark.slow
def test_a_row_computes_what_its_page_says_on_many_operands() -> None:
    for row in ROWS:
        check(row, drawn(row, 60))
