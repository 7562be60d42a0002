"""Rows in which lanes read each other, against the pages' loops over lanes."""

from __future__ import annotations

from functools import reduce

import pytest
from scalar_operands import operands
from slow_integers import number

from oracle.scalar import SCALARS, warp

REDUCE = {
    "add": lambda x, y: x + y, "min": min, "max": max, "and": lambda x, y: x & y,
    "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y,
}  # fmt: skip


def shuffled(mode: str, a: list[int], lane: int, b: int, c: int) -> tuple[int, bool]:
    bval, cval, segmask = b & 31, c & 31, c >> 8 & 31
    most = lane & segmask | cval & ~segmask & 31
    least = lane & segmask
    j = {
        "up": lane - bval, "down": lane + bval, "bfly": lane ^ bval,
        "idx": least | bval & ~segmask & 31,
    }[mode]  # fmt: skip
    pval = j >= most if mode == "up" else j <= most
    return a[j if pval else lane], pval


def slow(opcode: str, lanes: list[list[int]], lane: int) -> tuple[int, ...]:
    words = opcode.split(".")
    a = lanes[0]
    if words[0] == "shfl":
        return shuffled(words[2], a, lane, lanes[1][lane], lanes[2][lane])
    if words[0] == "vote":
        ballot = sum(bool(one) << at for at, one in enumerate(a))
        return (
            {"all": all(a), "any": any(a), "uni": len(set(a)) == 1, "ballot": ballot}[words[2]],
        )
    if words[0] == "redux":
        numbers = [number(one, words[3]) for one in a]
        return (reduce(REDUCE[words[2]], numbers) & 0xFFFFFFFF,)
    if words[1] == "any":
        return (sum((one == a[lane]) << at for at, one in enumerate(a)),)
    same = len(set(a)) == 1
    return 0xFFFFFFFF * same, same


@pytest.mark.parametrize("row", warp.ROWS, ids=lambda row: row.opcode)
def test_a_warp_computes_what_its_page_says(row) -> None:
    given = operands(row, 40)
    if given[0].dtype != bool:
        given[0][::3] %= 3  # lanes that match
    given[0][::5] = given[0][::5, :1]
    results = row.evaluate(*given)
    for at in range(len(given[0])):
        lanes = [one[at].tolist() for one in given]
        for lane in range(32):
            wanted = slow(row.opcode, lanes, lane)
            assert tuple(int(one[at, lane]) for one in results) == wanted, (row.opcode, at, lane)


def test_every_lane_takes_part() -> None:
    rows = [row for row in SCALARS.values() if row.warp]
    assert rows == list(warp.ROWS)
    for row in rows:
        last = row.immediates[len(row.sources) - 1]
        assert (last.low, last.high, last.required) == (0xFFFFFFFF, 0xFFFFFFFF, True)
        assert all((one == 0xFFFFFFFF).all() for one in operands(row, 3)[-1:])
