"""Where mma.sync keeps the elements of its matrices: documented, unlike wmma's (9.7.14.5.1 to .13).

With lane = 4 g + t, a register holds p neighbours along K (A, B) or N (C, D), the first in the
lowest bits. Eight rows of A make one register of every group of four lanes; further registers go
down M first, and then along K. Compared with an H200 (November 2026).
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from runners.simulated.layouts import Layout
from runners.simulated.units import FragmentUnit, Matrix
from runners.simulated.warps import LANES

BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "e4m3": 8, "e5m2": 8,
    "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "s32": 32,
}  # fmt: skip
"""Bits that an element occupies in a register."""

QUADS = 4
"""Multiplications of m8n8k4 of f16, one for each group of eight lanes (9.7.14.5.1)."""

Indices = NDArray[np.int64]


def lane_layout(
    role: str, sizes: tuple[int, int, int], kind: str, order: str, unit: FragmentUnit
) -> Layout:
    """Return the layout of an operand of mma.sync.

    Parameters
    ----------
    role
        `a`, `b`, `c` or `d`.
    sizes
        M, N and K.
    kind
        Type of the elements.
    order
        `row` or `col`; matters for m8n8k4 of f16 alone.
    unit
        How the lanes are wired.
    """
    return _layout(role, sizes, kind, order, unit)


@lru_cache(maxsize=512)
def _layout(
    role: str, sizes: tuple[int, int, int], kind: str, order: str, unit: FragmentUnit
) -> Layout:
    m, n, k = sizes
    rows, columns = {"a": (m, k), "b": (k, n)}.get(role, (m, n))
    bits = BITS[kind]
    in_register = max(32, bits) // bits
    quads = QUADS if is_quads(sizes, kind) else 1
    registers = quads * rows * columns // (LANES * in_register)
    register, lane, position = np.meshgrid(
        np.arange(registers), np.arange(LANES), np.arange(in_register), indexing="ij"
    )
    if Matrix(role) in unit.exchanged_registers and registers > 1:
        register = np.where(register < 2, 1 - register, register)
    if Matrix(role) in unit.crossed_lanes:
        lane = lane ^ 1
    if Matrix(role) in unit.reversed_parts:
        position = in_register - 1 - position
    if quads > 1:
        which, row, column = _quad_pair(role, kind, order, lane, register * in_register + position)
    else:
        row, column = _whole_warp(role, m, in_register, register, lane, position)
        which = np.zeros_like(row)
    elements = (which * rows + row) * columns + column
    return Layout(count=registers, bits=bits, elements=elements, last_copy=False)


def is_quads(sizes: tuple[int, int, int], kind: str) -> bool:
    """Return whether an operand is one of m8n8k4 of f16: f64 has that shape, too."""
    return sizes == (8, 8, 4) and kind != "f64"


def _whole_warp(
    role: str, m: int, in_register: int, register: Indices, lane: Indices, position: Indices
) -> tuple[Indices, Indices]:
    group, thread = lane >> 2, lane & 3
    neighbour = in_register * thread + position
    match role:
        case "a":
            down = register % (m // 8)
            along = register // (m // 8)
            return group + 8 * down, 4 * in_register * along + neighbour
        case "b":
            return 4 * in_register * register + neighbour, group
        case _:
            # Two neighbours along N to each row, whether they share a register or not.
            element = register * in_register + position
            return group + 8 * (element >> 1), 2 * thread + (element & 1)


def _quad_pair(
    role: str, kind: str, order: str, lane: Indices, element: Indices
) -> tuple[Indices, Indices, Indices]:
    """Return multiplication, row and column for m8n8k4 of f16.

    Lanes 4 q to 4 q + 3 and those 16 further on do multiplication q.
    """
    which = (lane >> 2) & 3
    mine = (lane & 3) + np.where(lane < 16, 0, 4)
    half = np.where(lane < 16, 0, 4)
    if role in "cd":
        if kind == "f16":
            return which, mine, element
        row = (lane & 1) + (element & 2) + half
        return which, row, (element & 4) + (lane & 2) + (element & 1)
    if role == "a":
        if order == "row":
            return which, mine, element
        return which, element + half, lane & 3
    if order == "row":
        return which, lane & 3, element + half
    return which, element, mine
