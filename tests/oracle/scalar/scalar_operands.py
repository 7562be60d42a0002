"""Operands of scalar instructions: edges of every format, and random patterns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oracle.scalar import CLASSES, ScalarInstruction

EDGES = {
    bits: sorted(
        {
            value & (1 << bits) - 1
            for at in range(bits)
            for value in (1 << at, (1 << at) - 1, -1 << at)
        }
        | {8, 0xFF, 31 & (1 << bits) - 1, (1 << bits) // 3, (1 << bits) // 3 * 2}
    )
    for bits in (16, 32, 64)
}
"""0, powers of two and their neighbours, all ones, alternating bits."""


def operands(
    row: ScalarInstruction, count: int, seed: int = 0, edges: dict[int, list[int]] = EDGES
) -> list[NDArray]:
    """Draw `count` warps of operands: a third edges, a third small numbers, the rest any pattern.

    Constants that are required are in their range; a carry comes last.
    """
    random = np.random.default_rng([seed, *row.opcode.encode()])
    shape = (count, 32)
    drawn = []
    for at, name in enumerate(row.sources):
        if name == "pred":
            drawn.append(random.random(shape) < 0.5)
            continue
        bits, kind = int(name[1:]), CLASSES[name]
        wanted = row.immediates.get(at)
        if wanted is not None and wanted.required:
            some = random.integers(wanted.low, wanted.high, (count, 1), np.uint64, endpoint=True)
            ends = np.array([wanted.low, wanted.high], np.uint64)
            some = np.where(random.random((count, 1)) < 0.2, random.choice(ends, (count, 1)), some)
            drawn.append(np.broadcast_to(some, shape).astype(kind))
            continue
        any_ = (
            random.integers(0, 1 << 64, shape, np.uint64, endpoint=False)
            if bits == 64
            else (random.integers(0, 1 << bits, shape, np.uint64))
        )
        small = random.integers(0, 70, shape, np.uint64)
        edge = random.choice(np.array(edges[bits], np.uint64), shape)
        which = random.integers(0, 3, shape)
        drawn.append(np.choose(which, [any_, small, edge]).astype(kind))
    if row.carry_in:
        drawn.append(random.random(shape) < 0.5)
    return drawn
