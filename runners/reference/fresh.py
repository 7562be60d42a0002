"""What a runner promises that makes images by their numbers, and compares what a program does.

Only the numbers of images that differ, those images and a sample come back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UsageError
from runners.ledger import ROWS
from runners.protocol import Compiled, Failure, ForwardingRunner, Images, Later, Runner
from runners.reference.encoding import Encoded
from runners.reference.self_check import LISTED, Compared

_LOW = (1 << 32) - 1
_DRAW_BLOCKS, _BATCH, _BATCHED, _SMALL = 8, 8, 512, 12 << 10
"""Blocks of 16 bytes of draws, most images and scalars of images that are begun together, and most
bytes of two images that are made at once, as contents.h has them."""
_KEPT_BYTES = 8 << 20  # most bytes of such images: 64 of 128 KiB, which few programs pass


@dataclass(frozen=True, kw_only=True, eq=False)
class FreshWork:
    """Images that a program is to be run on, and what says what must come out."""

    encoded: Encoded  # the program, for the reference
    contents: NDArray[np.uint64]  # how image n is made (`strategies.contents.device`)
    first: int  # number of the first image
    count: int
    sampled: tuple[int, ...] = ()  # numbers of images that come back even if they agree

    def kept(self, found: Compared, first: int, listed: int = 0) -> tuple[list[int], list[int]]:
        """Return numbers of images that differ and of the sample, of `found`, which come back."""
        room = max(1, min(LISTED, _KEPT_BYTES // self.encoded.image_bytes)) - listed
        some = list(found.numbers[: max(0, room)])
        if found.differing > len(found.numbers):
            return some, []  # which of the sample agree is not known
        there = range(first, first + found.images)
        return some, [one for one in self.sampled if one in there and one not in found.numbers]


@dataclass(frozen=True, kw_only=True, eq=False)
class FreshRan:
    """What came of it; arrays are of the images that came back, first of those that differ."""

    images: int  # how many were compared
    differing: int  # how many of them differ
    listed: int  # how many of these came back
    seconds: float
    finished: NDArray[np.uint32]
    """(ROWS,): images that each multiprocessor ran, up to the last one that is listed where others
    differ as well."""
    numbers: NDArray[np.uint64]  # (count,)
    sms: NDArray[np.uint32]  # (count,): number of the streaming multiprocessor that ran each
    before: Images  # (count, image_bytes), as the device made them
    after: Images  # (count, image_bytes), as the program under test left them


PendingFresh: TypeAlias = Later[FreshRan | Failure]


def fill_bytes(contents: NDArray[np.uint64]) -> int:
    """Return the bytes that images are made in, by `device_contents`: `wf_bytes` of contents.h."""
    blocks, scalars, factors = int(contents[3]) & _LOW, int(contents[4]) >> 32, int(contents[5])
    batch = min(_BATCH, max(1, _BATCHED // max(1, scalars)))
    image = (2 * blocks + _DRAW_BLOCKS) * 16 + factors
    shared = batch * 16 + -(-batch * scalars // 2) * 16
    return image * (2 if 2 * image + shared <= _SMALL else 1) + shared


def finished_by(sms: NDArray[np.uint32], count: int) -> NDArray[np.uint32]:
    """Return how many of the first images each multiprocessor ran, (ROWS,)."""
    some = sms[:count]
    return np.bincount(some[some < ROWS], minlength=ROWS).astype(np.uint32)


@runtime_checkable
class FreshRunner(Protocol):
    """A runner that can."""

    def fresh(
        self, compiled: Compiled, work: FreshWork, *, entry: str | None = None
    ) -> PendingFresh:
        """Start to run and compare images by numbers; InfrastructureError: no reference."""


def fresh_runner(runner: Runner) -> FreshRunner:
    """Return the runner that compares, of one that others may forward to; UsageError if none."""
    inner = runner
    while isinstance(inner, ForwardingRunner):
        inner = inner.inner
    if not isinstance(inner, FreshRunner):
        raise UsageError(
            f"{type(inner).__name__} does not compare with a reference on the device; choose "
            "--runner cuda or sim, or leave --device-reference out"
        )
    return inner
