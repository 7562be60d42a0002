"""Instructions by which lanes know of each other, against Python's lists, for any active lanes."""

import random

import numpy as np
import pytest
from simulated_kernels import kernel

from runners.simulated import SimulatedDevice

DEVICE = SimulatedDevice("sm_90")
ALL = range(32)


def ballot(lanes) -> int:
    return sum(1 << lane for lane in lanes)


def shuffled(mode: str, by: int, clamp: int):
    """Describe shfl.sync as its pseudocode has it: the value and whether it came from a lane."""

    def describe(values, active):
        result = {}
        for lane in active:
            segment, bound = clamp >> 8 & 31, clamp & 31
            highest = (lane & segment) | (bound & ~segment)
            lowest = lane & segment
            partner = {
                "up": lane - by, "down": lane + by, "bfly": lane ^ by,
                "idx": lowest | (by & ~segment),
            }[mode]  # fmt: skip
            valid = partner >= highest if mode == "up" else partner <= highest
            partner = partner if valid else lane
            # What a lane that does not take part would give is left open.
            result[lane] = values[partner] if partner in active else None
        return result

    return describe


def constant(f):
    """Describe what is the same in all active lanes."""
    return lambda values, active: dict.fromkeys(active, f([values[lane] for lane in active]))


def signed(value: int) -> int:
    return value - (value >> 31 << 32)


SELECT = "selp.u32 %out, 1, 0, %q;"
CASES = {
    f"shfl.sync.{mode}.b32 %out, %v, {by}, {clamp}, %m;": shuffled(mode, by, clamp)
    for mode, by, clamp in [
        ("up", 1, 0), ("up", 5, 0x1800), ("down", 3, 31), ("down", 7, 0x181F), ("bfly", 16, 31),
        ("bfly", 5, 0x1C1F), ("idx", 9, 31), ("idx", 6, 0x181F),
    ]
} | {
    "activemask.b32 %out;": lambda _, active: dict.fromkeys(active, ballot(active)),
    "vote.sync.ballot.b32 %out, %odd, %m;": lambda values, active: dict.fromkeys(
        active, ballot(lane for lane in active if values[lane] & 1)
    ),
    f"vote.sync.any.pred %q, %odd, %m; {SELECT}": constant(lambda v: int(any(x & 1 for x in v))),
    f"vote.sync.all.pred %q, %odd, %m; {SELECT}": constant(lambda v: int(all(x & 1 for x in v))),
    f"vote.sync.uni.pred %q, !%odd, %m; {SELECT}": constant(
        lambda v: int(len({x & 1 for x in v}) == 1)
    ),
    "redux.sync.add.u32 %out, %v, %m;": constant(lambda v: sum(v) % (1 << 32)),
    "redux.sync.min.s32 %out, %v, %m;": constant(lambda v: min(map(signed, v)) % (1 << 32)),
    "redux.sync.max.u32 %out, %v, %m;": constant(max),
    "match.any.sync.b32 %out, %v, %m;": lambda values, active: {
        lane: ballot(other for other in active if values[other] == values[lane]) for lane in active
    },
    "match.all.sync.b32 %out|%q, %v, %m; @!%q mov.u32 %out, 0;": lambda values, active: (
        dict.fromkeys(
            active, ballot(active) if len({values[lane] for lane in active}) == 1 else 0
        )
    ),
    f"elect.sync %out|%q, %m; {SELECT}": lambda _, active: {
        lane: int(lane == min(active)) for lane in active
    },
}  # fmt: skip


@pytest.mark.parametrize("line", CASES)
def test_active_lanes_know_of_each_other_and_of_no_others(line: str) -> None:
    draw = random.Random(line)
    masks = [(1 << 32) - 1, 1, 1 << 31] + [draw.getrandbits(32) | 4 for _ in range(9)]
    images = np.zeros((len(masks), 384), np.uint8)
    words = images.view(np.uint32)
    for row, mask in zip(words, masks, strict=True):
        few = draw.random() < 0.5
        row[:32] = [draw.randrange(2) if few else draw.getrandbits(32) for _ in ALL]
        row[32] = mask
    body = f"""
    mul.wide.u32 %rd10, %r7, 4;
    add.s64 %rd10, %rd2, %rd10;
    ld.global.u32 %v, [%rd10];
    ld.global.u32 %m, [%rd2+128];
    and.b32 %r20, %v, 1;
    setp.eq.u32 %odd, %r20, 1;
    shr.u32 %r20, %m, %r7;
    and.b32 %r20, %r20, 1;
    setp.eq.u32 %p4, %r20, 0;
    mov.u32 %out, 77;
    @%p4 bra OUT;
    {line}
OUT:
    st.global.u32 [%rd10+256], %out;
    """
    registers = "    .reg .b32 %v, %m, %out; .reg .pred %q, %odd;"
    ptx = kernel(body, image_bytes=384, registers=registers)
    after, _ = DEVICE.load(ptx).launch("kernel", images)
    for row, found, mask in zip(words, after.view(np.uint32)[:, 64:], masks, strict=True):
        active = [lane for lane in ALL if mask >> lane & 1]
        described = CASES[line]([int(value) for value in row[:32]], active)
        for lane in ALL:
            expected = described.get(lane, 77)
            assert expected is None or expected == found[lane], (lane, hex(mask))
