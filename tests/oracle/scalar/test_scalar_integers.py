"""Integer rows against the pages' own loops, on edges and on random numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scalar_operands import operands
from slow_integers import slow

from oracle.scalar import CLASSES, SCALARS, ScalarInstruction
from oracle.scalar import bits as bits_rows
from oracle.scalar import integers as integer_rows

ROWS = [*integer_rows.ROWS, *bits_rows.ROWS]
FAMILIES = sorted({row.family for row in ROWS})


def check(row: ScalarInstruction, given: list[np.ndarray]) -> None:
    results = row.evaluate(*given)
    assert len(results) == len(row.destinations) + row.carry_out
    classes = [*row.destinations, *(["pred"] if row.carry_out else [])]
    for result, name in zip(results, classes, strict=True):
        assert result.dtype == CLASSES[name], row.opcode
        assert result.shape == given[0].shape
    defined = np.ones(given[0].shape, bool) if row.defined is None else row.defined(*given)
    flat = [one[defined].tolist() for one in (*given, *results)]
    masks = [(1 << 8 * CLASSES[name]().itemsize) - 1 if name != "pred" else 1 for name in classes]
    for line in zip(*flat, strict=True):
        sources, found = line[: len(given)], line[len(given) :]
        wanted = slow(row.opcode, *map(int, sources))
        for one, want, mask in zip(found, wanted, masks, strict=False):
            assert int(one) == int(want) & mask, (row.opcode, [hex(s) for s in sources], wanted)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_row_computes_what_its_page_says(family: str) -> None:
    rows = [row for row in ROWS if row.family == family]
    for row in rows:
        check(row, operands(row, max(4, 64 // len(rows))))


def test_lop3_is_the_function_that_each_table_lists() -> None:
    # The pages' way to make a table: the operation on three constants.
    table = np.arange(256, dtype=np.uint32).reshape(8, 32)
    given = [np.full((8, 32), one, np.uint32) for one in (0xF0, 0xCC, 0xAA)]
    assert (SCALARS["lop3.b32"].evaluate(*given, table)[0] & 0xFF == table).all()


def test_carries_chain_to_sums_of_twice_the_size() -> None:
    random = np.random.default_rng(1)
    for name, wide in (("add", np.add), ("sub", np.subtract)):
        a, b = random.integers(0, 1 << 64, (2, 200, 32), np.uint64, endpoint=False)
        b[:50] = ~a[:50]  # carries that run through
        halves = [part.astype(np.uint32) for x in (a, b) for part in (x, x >> np.uint64(32))]
        low, carry = SCALARS[f"{name}.cc.u32"].evaluate(halves[0], halves[2])
        (high,) = SCALARS[f"{name}c.u32"].evaluate(halves[1], halves[3], carry)
        assert (high.astype(np.uint64) << np.uint64(32) | low == wide(a, b)).all()
