"""Offsets of which each lane has its own, as text."""

from __future__ import annotations

from collections.abc import Sequence

from runners.emission.descriptors import Text


def lane_offsets(text: Text, offsets: Sequence[int]) -> str:
    """Append what makes a 64-bit register that holds, in each lane, its own offset of the 32."""
    lane, distance, predicate = text.use("%lane"), text.scratch("b64"), text.scratch("pred")
    text.add(f"mov.b64 {distance}, {offsets[0]}")
    for index, offset in enumerate(offsets):
        if offset != offsets[0]:
            text.add(
                f"setp.eq.u32 {predicate}, {lane}, {index}",
                f"selp.b64 {distance}, {offset}, {distance}, {predicate}",
            )
    return distance


def progression(offsets: Sequence[int]) -> tuple[int, int] | None:
    """Return the first of the lanes' offsets and their pitch; None where there is no one pitch."""
    first, pitch = offsets[0], offsets[1] - offsets[0]
    regular = [first + lane * pitch for lane in range(len(offsets))] == [*offsets]
    return (first, pitch) if regular else None
