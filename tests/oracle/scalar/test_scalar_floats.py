"""Rows of floats, comparisons and conversions against fractions."""

from __future__ import annotations

import numpy as np
import pytest
from scalar_operands import operands
from slow_floats import slow

from oracle.arithmetic.conversions import is_nan
from oracle.formats import FORMATS
from oracle.scalar import CLASSES, ScalarInstruction, comparisons, conversions, floats

ROWS = [*floats.ROWS, *comparisons.ROWS, *conversions.ROWS]


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


@pytest.mark.parametrize("family", sorted({row.family for row in ROWS}))
def test_a_row_computes_what_its_page_says(family: str) -> None:
    rows = [row for row in ROWS if row.family == family]
    for row in rows:
        check(row, operands(row, 2 if len(rows) > 300 else 8))


@pytest.mark.slow
def test_a_row_computes_what_its_page_says_on_many_operands() -> None:
    for row in ROWS:
        check(row, operands(row, 60))
