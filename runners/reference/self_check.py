"""What a comparison finds, and whether a built interpreter finds a bit that was changed.

What it says of programs, the oracle judges while it is used: what differs, and a sample of the
rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InfrastructureError
from oracle.isa.forms import LANES
from oracle.models import model_for
from oracle.program.operands import Buffer, Place
from oracle.program.program import Program
from oracle.program.steps import plain_load, plain_store
from runners.protocol import Images
from runners.reference.encoding import Encoded, encode

_IMAGES, _CHANGED = 64, 41  # that are compared, and the one of which a bit is changed; any
_WORDS = 8  # of each lane
LISTED = 64  # images that differ of which the numbers come back; beyond these, their count


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What a comparison found."""

    images: int  # how many were compared
    differing: int  # how many of them differ
    numbers: tuple[int, ...]  # some of those, in rising order

    @classmethod
    def of(cls, images: int, found: NDArray[np.uint64]) -> Compared:
        """Read what `compare` in the interpreter found in so many images."""
        differing = int(found[0])
        numbers = sorted(found[2 : 2 + min(differing, LISTED)].tolist())
        return cls(images=images, differing=differing, numbers=tuple(numbers))


def nothing_found() -> NDArray[np.uint64]:
    """Return what a comparison adds to: how many images differ, most that are listed, numbers."""
    empty = np.zeros(2 + LISTED, np.uint64)
    empty[1] = LISTED
    return empty


Compare = Callable[[Encoded, Images, Images], Compared]
"""Executes a program on images and compares with what else was made of them."""


def check(compare: Compare) -> None:
    """Compare copies of words with what they are; InfrastructureError if an interpreter is wrong.

    One that finds nothing would call every program right.
    """
    size = 4 * _WORDS * LANES
    program = Program(
        buffers=tuple(Buffer(name=name, space="global", size=size) for name in "xd"),
        steps=tuple(
            access(registers="x", count=_WORDS, bits=32, place=Place(buffer=name))
            for name, access in (("x", plain_load), ("d", plain_store))
        ),
    )
    encoded = encode(program, model_for("sm_90"))
    before = np.random.default_rng(28).integers(0, 256, (_IMAGES, program.image_bytes), np.uint8)
    after, start, end = before.copy(), program.offset("x"), program.offset("d")
    after[:, end : end + size] = before[:, start : start + size]
    found = compare(encoded, before, after)
    after[_CHANGED, end] ^= 1
    changed = compare(encoded, before, after)
    if found.differing or changed.numbers != (_CHANGED,) or changed.differing != 1:
        raise InfrastructureError(
            "the reference on this device compares wrongly what is known (of "
            f"{_IMAGES} copies differ {found.numbers}; with one changed: {changed.numbers}); "
            "another driver may compile it rightly, so try one"
        )
