"""Instructions in which the lanes of a warp read each other: 9.7.9.6 and 9.7.13.9 to 9.7.13.12."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from oracle.scalar.integers import S32, U32, patterns
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


def _voted(function: Function, a: Bits, _: Bits) -> Bits:
    return _spread(function(a), a)


def _all(a: Bits) -> Bits:
    return np.logical_and.reduce(a, axis=-1, keepdims=True)


def _any(a: Bits) -> Bits:
    return np.logical_or.reduce(a, axis=-1, keepdims=True)


def _uniform(a: Bits) -> Bits:
    return _all(a) | ~_any(a)


def _ballot(a: Bits) -> Bits:
    return np.bitwise_or.reduce(a.astype(np.uint32) << _LANES, axis=-1, keepdims=True)


def _equal(a: Bits, _: Bits) -> Bits:
    same = (a[..., :, None] == a[..., None, :]).astype(np.uint32)
    return np.bitwise_or.reduce(same << _LANES, axis=-1, keepdims=True)[..., 0]


def _all_equal(a: Bits, _: Bits) -> tuple[Bits, ...]:
    same = _spread(_all(a == a[..., :1]), a)
    return np.where(same, np.uint32(_ALL), np.uint32(0)), same


_REDUCTIONS: dict[str, np.ufunc] = {
    "add": np.add, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def _reduced(name: str, signed: bool, a: Bits, _: Bits) -> Bits:
    numbers = (S32 if signed else U32).of(a)
    reduced = _REDUCTIONS[name].reduce(numbers, axis=-1, keepdims=True, dtype=numbers.dtype)
    return _spread(patterns(reduced, 32), a)


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
    modes: dict[str, Function] = {"all": _all, "any": _any, "uni": _uniform}
    for mode, function in modes.items():
        evaluate = single(_voted, function)
        yield _row(f"vote.sync.{mode}.pred", "9.7.13.9", "pred", "pred", evaluate, _SM_30)
    ballot = single(_voted, _ballot)
    yield _row("vote.sync.ballot.b32", "9.7.13.9", "b32", "pred", ballot, _SM_30)
    for register in ("b32", "b64"):
        any_, all_ = f"match.any.sync.{register}", f"match.all.sync.{register}"
        yield _row(any_, "9.7.13.10", "b32", register, single(_equal), ((6, 0), 70))
        yield _row(all_, "9.7.13.10", "b32 pred", register, _all_equal, ((6, 0), 70))


def _reductions() -> Iterator[ScalarInstruction]:
    numbers = product(("add", "min", "max"), ("u32", "s32"))
    for name, type_ in (*numbers, ("and", "b32"), ("or", "b32"), ("xor", "b32")):
        evaluate = single(_reduced, name, type_ == "s32")
        opcode = f"redux.sync.{name}.{type_}"
        yield _row(opcode, "9.7.13.12", "b32", "b32", evaluate, ((7, 0), 80))


ROWS = (*_shuffles(), *_votes(), *_reductions())
