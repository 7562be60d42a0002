"""Instructions in which the lanes of a warp read each other: 9.7.9.6 and 9.7.13.9 to 9.7.13.12."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from oracle.scalar.integers import S32, U32, Integer, patterns
from oracle.scalar.row import Bits, Function, Immediate, ScalarInstruction, Since, row, single

_LANES = np.arange(32, dtype=np.uint32)
_ALL = 0xFFFF_FFFF
"""Membermask of a whole warp."""
_SM_30 = ((6, 0), 30)


def _source_lane(mode: str, b: Bits, clamp: Bits) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return from which lane each lane reads, and whether that lane is in range."""
    offset, bound, segment = b & 31, clamp & 31, clamp >> 8 & 31
    lane = _LANES.astype(np.int64)
    least = lane & segment
    most = least | bound & ~segment
    offset = offset.astype(np.int64)
    at = {
        "up": lane - offset,
        "down": lane + offset,
        "bfly": lane ^ offset,
        "idx": least | offset & ~segment.astype(np.int64),
    }[mode]
    inside = at >= most if mode == "up" else at <= most
    return np.where(inside, at, lane), inside


def _shuffled(mode: str, a: Bits, b: Bits, clamp: Bits, _: Bits) -> tuple[Bits, ...]:
    at, inside = _source_lane(mode, b, clamp)
    return np.take_along_axis(a, at, axis=-1), inside


def _spread(result: Bits, like: Bits) -> Bits:
    """Give every lane the result of its warp, (..., 1)."""
    return np.broadcast_to(result, like.shape).copy()


def _reduced(function: np.ufunc, a: Bits) -> Bits:
    return np.asarray(function.reduce(a, axis=-1, keepdims=True, dtype=a.dtype))


_VOTES: dict[str, Function] = {
    "all.pred": lambda a: _reduced(np.logical_and, a),
    "any.pred": lambda a: _reduced(np.logical_or, a),
    "uni.pred": lambda a: _reduced(np.logical_and, a) | ~_reduced(np.logical_or, a),
    "ballot.b32": lambda a: _reduced(np.bitwise_or, a.astype(np.uint32) << _LANES),
}
_REDUCTIONS: dict[str, np.ufunc] = {
    "add": np.add, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def _voted(function: Function, a: Bits, _: Bits) -> Bits:
    return _spread(function(a), a)


def _equal(a: Bits, _: Bits) -> Bits:
    same = (a[..., :, None] == a[..., None, :]).astype(np.uint32)
    return _reduced(np.bitwise_or, same << _LANES)[..., 0]


def _all_equal(a: Bits, _: Bits) -> tuple[Bits, ...]:
    same = _spread(_reduced(np.logical_and, a == a[..., :1]), a)
    return np.where(same, np.uint32(_ALL), np.uint32(0)), same


def _row(
    opcode: str, section: str, destinations: str, sources: str,
    evaluate: Callable[..., tuple[Bits, ...]], since: Since,
    immediates: dict[int, Immediate] | None = None,
) -> ScalarInstruction:  # fmt: skip
    members = {len(sources.split()): Immediate(_ALL, _ALL, True)}
    return row(
        opcode, section, destinations, f"{sources} b32", evaluate, since,
        immediates=(immediates or {}) | members, warp=True,
    )  # fmt: skip


def _shuffles() -> Iterator[ScalarInstruction]:
    # Five bits of each part of c count; the mask of segments stands in bits 8 to 12.
    constants = {1: Immediate(0, 31), 2: Immediate(0, 0x1F1F)}
    for mode in ("up", "down", "bfly", "idx"):
        evaluate, opcode = partial(_shuffled, mode), f"shfl.sync.{mode}.b32"
        yield _row(opcode, "9.7.9.6", "b32 pred", "b32 b32 b32", evaluate, _SM_30, constants)


def _votes() -> Iterator[ScalarInstruction]:
    for mode, function in _VOTES.items():
        destination = mode.partition(".")[2]
        evaluate = single(_voted, function)
        yield _row(f"vote.sync.{mode}", "9.7.13.9", destination, "pred", evaluate, _SM_30)
    for register in ("b32", "b64"):
        any_, all_ = f"match.any.sync.{register}", f"match.all.sync.{register}"
        yield _row(any_, "9.7.13.10", "b32", register, single(_equal), ((6, 0), 70))
        yield _row(all_, "9.7.13.10", "b32 pred", register, _all_equal, ((6, 0), 70))


def _reductions() -> Iterator[ScalarInstruction]:
    numbers = product(("add", "min", "max"), ("u32", "s32"))
    for name, type_ in (*numbers, ("and", "b32"), ("or", "b32"), ("xor", "b32")):
        evaluate = single(_reduced_numbers, _REDUCTIONS[name], S32 if type_ == "s32" else U32)
        opcode = f"redux.sync.{name}.{type_}"
        yield _row(opcode, "9.7.13.12", "b32", "b32", evaluate, ((7, 0), 80))


def _reduced_numbers(function: np.ufunc, t: Integer, a: Bits, _: Bits) -> Bits:
    return _spread(patterns(_reduced(function, t.of(a)), 32), a)


ROWS = (*_shuffles(), *_votes(), *_reductions())
