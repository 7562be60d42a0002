"""Offsets of which each lane has its own, as text."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from runners.emission.descriptors import Text


def lane_offsets(text: Text, offsets: Sequence[int]) -> str:
    """Append what makes a 64-bit register that holds, in each lane, its own offset of the 32."""
    lane, distance = text.use("%lane"), text.scratch("b64")
    if regular := progression(offsets):
        first, pitch = regular
        text.add(f"mul.wide.s32 {distance}, {lane}, {pitch}")
        if first:
            text.add(f"add.s64 {distance}, {distance}, {first}")
        return distance
    # A table in registers, of so many bits a lane, in which each lane shifts to its own number:
    # a comparison and a choice for each lane were 6 % of a compiler's time (2026-11-29).
    low = min(offsets)
    unit = gcd(*(offset - low for offset in offsets))
    numbers = [(offset - low) // unit for offset in offsets]
    bits = next(bits for bits in (1, 2, 4, 8, 16, 32) if max(numbers) >> bits == 0)
    each, chosen, place = 64 // bits, text.scratch("b64"), text.scratch("b32")
    for first in range(0, len(numbers), each):
        own = enumerate(numbers[first : first + each])
        word = sum(number << index * bits for index, number in own)
        if not first:
            text.add(f"mov.b64 {chosen}, {word:#x}")
            continue
        predicate = text.scratch("pred")
        text.add(
            f"setp.ge.u32 {predicate}, {lane}, {first}",
            f"selp.b64 {chosen}, {word:#x}, {chosen}, {predicate}",
        )
    text.add(
        f"and.b32 {place}, {lane}, {each - 1}",
        f"shl.b32 {place}, {place}, {bits.bit_length() - 1}",
        f"shr.u64 {chosen}, {chosen}, {place}",
        f"cvt.u32.u64 {place}, {chosen}",
        f"and.b32 {place}, {place}, {(1 << bits) - 1:#x}",
        f"mul.wide.u32 {distance}, {place}, {unit}",
    )
    if low:
        text.add(f"add.s64 {distance}, {distance}, {low}")
    return distance


def progression(offsets: Sequence[int]) -> tuple[int, int] | None:
    """Return the first of the lanes' offsets and their pitch; None where there is no one pitch."""
    first, pitch = offsets[0], offsets[1] - offsets[0]
    regular = [first + lane * pitch for lane in range(len(offsets))] == [*offsets]
    return (first, pitch) if regular else None
