"""Instructions by which the lanes of a warp know of each other.

Source: PTX ISA 9.7.9.6 (shfl.sync), 9.7.13.9 to .12 (vote.sync, match.sync, activemask,
redux.sync), 9.7.13.15 (elect.sync), 9.7.13.2 (bar.warp.sync). Lanes wait for those that their mask
names; lanes that it does not name, and lanes that are elsewhere, have no say.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners.simulated.operands import SINK, Operands, Source
from runners.simulated.syntax import TYPE_BITS, Name
from runners.simulated.warps import LANES, Mask, Operation, Values, Warps

_LANE_BITS = (np.uint64(1) << np.arange(LANES, dtype=np.uint64))[:, None]


def members(operands: Operands) -> Source | None:
    """Return what fetches the lanes that an instruction waits for; None if it does not wait."""
    stem = operands.instruction.opcode.partition(".")[0]
    if stem == "activemask":
        return None
    return operands.source(operands.instruction.operands[-1], 32)


def _everybody(warps: Warps, values: Values) -> Any:
    return np.broadcast_to(values, (LANES, warps.indices.size))


def _active(warps: Warps, mask: Mask) -> NDArray[np.bool_]:
    return np.broadcast_to(np.True_ if mask is None else mask, (LANES, warps.indices.size))


def _bits(flags: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Return (1, warps) words with a bit for each lane."""
    words: NDArray[np.uint32] = (
        np.where(flags, _LANE_BITS, np.uint64(0)).sum(axis=0, keepdims=True).astype(np.uint32)
    )
    return words


def _named(warps: Warps, mask: Mask, source: Source) -> Any:
    """Return (lanes, warps) of the lanes that take part: active, and named by the mask."""
    named = _everybody(warps, source(warps)).astype(np.uint64)
    return np.logical_and(_active(warps, mask), (named & _LANE_BITS) != 0)


def _shuffle(operands: Operands, match: re.Match[str]) -> Operation:
    """Give each lane the register of another."""
    mode = match["mode"]
    given = operands.expect(5)
    first, second = operands.pair(given[0])
    key = operands.destination(first, 32)
    also = SINK if second is None else operands.destination(second, 1)
    value, distance, clamp = (operands.source(each, 32) for each in given[1:4])
    lane = np.arange(LANES)[:, None]

    def run(warps: Warps, mask: Mask) -> None:
        by = distance(warps).astype(np.int64) & 0x1F
        bound = clamp(warps).astype(np.int64)
        segment = (bound >> 8) & 0x1F
        highest = (lane & segment) | (bound & 0x1F & ~segment)
        lowest = lane & segment
        if mode == "up":
            partner = lane - by
            valid = partner >= highest
        elif mode == "down":
            partner = lane + by
            valid = partner <= highest
        elif mode == "bfly":
            partner = lane ^ by
            valid = partner <= highest
        else:
            partner = lowest | (by & ~segment)
            valid = partner <= highest
        partner = np.where(valid, partner, lane)
        held = _everybody(warps, value(warps))
        index = np.broadcast_to(partner, held.shape)
        warps.write(key, np.take_along_axis(held, index, axis=0), mask)
        if also != SINK:
            warps.write(also, np.broadcast_to(valid, held.shape), mask)

    return run


def _vote(operands: Operands, match: re.Match[str]) -> Operation:
    mode = match["mode"]
    given = operands.expect(3)
    bits = 32 if mode == "ballot" else 1
    if (match["type"] == "b32") != (mode == "ballot"):
        operands.unsupported("a ballot has 32 bits, and any other vote is a predicate")
    key = operands.destination(given[0], bits)
    predicate, named = operands.source(given[1], 1), operands.source(given[2], 32)

    def run(warps: Warps, mask: Mask) -> None:
        part = _named(warps, mask, named)
        held = _everybody(warps, predicate(warps))
        yes, no = (
            (held & part).any(axis=0, keepdims=True),
            (~held & part).any(axis=0, keepdims=True),
        )
        if mode == "ballot":
            warps.write(key, _bits(held & part), mask)
        else:
            found = np.asarray({"any": yes, "all": ~no, "uni": ~(yes & no)}[mode])
            warps.write(key, found, mask)

    return run


def _active_mask(operands: Operands, _: re.Match[str]) -> Operation:
    (target,) = operands.expect(1)
    key = operands.destination(target, 32)
    return lambda warps, mask: warps.write(key, _bits(_active(warps, mask)), mask)


def _elect(operands: Operands, _: re.Match[str]) -> Operation:
    """Choose the lowest of the lanes that take part."""
    target, named = operands.expect(2)
    first, second = operands.pair(target)
    if second is None:
        first, second = Name(SINK), first
    key, also = operands.destination(first, 32), operands.destination(second, 1)
    source = operands.source(named, 32)

    def run(warps: Warps, mask: Mask) -> None:
        part = _named(warps, mask, source)
        leader = part.argmax(axis=0)[None]
        warps.write(key, leader.astype(np.uint32), mask)
        warps.write(also, np.arange(LANES)[:, None] == leader, mask)

    return run


_REDUCE = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _reduce(operands: Operands, match: re.Match[str]) -> Operation:
    name, kind = match["name"], match["type"]
    if (name in ("and", "or", "xor")) != (kind == "b32"):
        operands.unsupported("this reduction does not exist")
    target, given, named = operands.expect(3)
    key = operands.destination(target, 32)
    source, who = operands.source(given, 32), operands.source(named, 32)
    dtype = np.dtype(np.int32 if kind == "s32" else np.uint32)
    compute = _REDUCE[name]
    limits = np.iinfo(dtype)
    neutral = {"min": limits.max, "max": limits.min, "and": limits.max}.get(name, 0)

    def run(warps: Warps, mask: Mask) -> None:
        part = _named(warps, mask, who)
        held = np.ascontiguousarray(_everybody(warps, source(warps))).view(dtype)
        held = np.where(part, held, dtype.type(neutral))
        found = compute.reduce(held, axis=0, keepdims=True, dtype=dtype)
        warps.write(key, found.view(np.uint32), mask)

    return run


def _match(operands: Operands, match: re.Match[str]) -> Operation:
    """Find the lanes that hold the same value."""
    target, given, named = operands.expect(3)
    first, second = operands.pair(target)
    key = operands.destination(first, 32)
    also = SINK if second is None else operands.destination(second, 1)
    source = operands.source(given, TYPE_BITS[match["type"]])
    who = operands.source(named, 32)

    def run(warps: Warps, mask: Mask) -> None:
        part = _named(warps, mask, who)
        held = _everybody(warps, source(warps))
        same = np.concatenate([_bits((held == held[lane]) & part) for lane in range(LANES)])
        if match["mode"] == "any":
            warps.write(key, same, mask)
            return
        everybody = _bits(part)
        agree = np.where(part, same == everybody, True).all(axis=0, keepdims=True)
        warps.write(key, np.where(agree, everybody, np.uint32(0)), mask)
        if also != SINK:
            warps.write(also, np.asarray(agree), mask)

    return run


def _meet(operands: Operands, _: re.Match[str]) -> Operation:
    operands.expect(1)
    return lambda _warps, _mask: None


FORMS: tuple[tuple[re.Pattern[str], Callable[[Operands, re.Match[str]], Operation]], ...] = tuple(
    (re.compile(pattern), decoder)
    for pattern, decoder in (
        (r"shfl\.sync\.(?P<mode>up|down|bfly|idx)\.b32", _shuffle),
        (r"vote\.sync\.(?P<mode>all|any|uni|ballot)\.(?P<type>pred|b32)", _vote),
        (r"activemask\.b32", _active_mask),
        (r"elect\.sync", _elect),
        (r"redux\.sync\.(?P<name>add|min|max|and|or|xor)\.(?P<type>[bus]32)", _reduce),
        (r"match\.(?P<mode>any|all)\.sync\.(?P<type>b(?:32|64))", _match),
        (r"bar\.warp\.sync", _meet),
    )
)
"""Every form that is known, as the pattern of its opcode and what decodes it."""
