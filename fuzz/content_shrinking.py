"""Making the contents of a failing image smaller: elements to zero, in halves, many at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from corpus import ShrinkStatus
from fuzz.verdicts import Difference
from oracle.image import position
from oracle.program import Program
from runners.protocol import Images
from strategies.matrices import inputs

Bits = NDArray[np.intp]
"""Positions of bits in an image, bit 0 of byte 0 first."""
StillFails = Callable[[Images], NDArray[np.bool_]]
"""Images in, (count,) out: which of them fail as the first one did."""

_SECONDS = 4.0
"""Time for one image; what is not done by then is left."""
_CANDIDATES = 64
"""Images that are tried together, in one launch."""


def shrink_contents(
    program: Program,
    image: NDArray[np.uint8],
    still_fails: StillFails,
    *,
    first: Difference | None = None,
    seconds: float = _SECONDS,
) -> tuple[NDArray[np.uint8], ShrinkStatus]:
    """Set as many elements of the loaded matrices to zero as the failure allows.

    Parameters
    ----------
    image : uint8 (image_bytes,)
    first
        An element that differs: its row of A and its column of B are tried alone.
    seconds
        Time after which what is reached is returned.

    Returns
    -------
    image : uint8 (image_bytes,)
    status
        COMPLETE if no single element can be set to zero any more.
    """
    search = _Search(image, still_fails, time.monotonic() + seconds)
    elements = _elements(program)
    everything = [bits for bits in elements.values() if len(bits)]
    around = np.setdiff1d(np.arange(len(image) * 8), np.concatenate([[], *everything]))
    search.take([around.astype(np.intp)])
    if first is not None and first.row >= 0:
        rest = [bits for key, bits in elements.items() if not _decides(key, first)]
        search.take([np.concatenate(rest)] if rest else [])
    remaining = everything
    size = max(1, len(remaining) // 2)
    while search.in_time:
        remaining = [bits for bits in remaining if search.holds(bits)]
        groups = [
            np.concatenate(remaining[start : start + size])
            for start in range(0, len(remaining), size)
        ]
        taken = search.take(groups)
        if size == 1 and not taken:
            if search.in_time:
                return search.image, ShrinkStatus.COMPLETE
            break
        size = max(1, size // 2)
    return search.image, ShrinkStatus.CAPPED


def complexity(program: Program, image: NDArray[np.uint8]) -> int:
    """Return how many elements of the loaded matrices are not zero; without any, how many bytes."""
    bits = np.unpackbits(image, bitorder="little")
    return sum(bool(bits[positions].any()) for positions in _elements(program).values())


_Key = tuple[str, int, int]
"""Operand, row and column of an element."""


def _decides(key: _Key, result: Difference) -> bool:
    """Whether an element takes part in an element of the result."""
    operand, row, column = key
    in_row, in_column = row == result.row, column == result.column
    return {"a": in_row, "b": in_column}.get(operand, in_row and in_column)


def _elements(program: Program) -> dict[_Key, Bits]:
    """Return the bits of every element of every matrix that is loaded; of none, of every byte."""
    found: dict[_Key, Bits] = {}
    for placed in inputs(program):
        tile = placed.tile
        size = tile.matrix.type.bits
        start = position(program, placed.place)
        for line in range(tile.lines):
            for index in range(tile.length):
                first = (start + line * tile.pitch) * 8 + index * size
                row, column = (line, index) if tile.layout == "row" else (index, line)
                found[placed.operand, row, column] = np.arange(first, first + size)
    return found or {
        ("", 0, byte): np.arange(byte * 8, byte * 8 + 8) for byte in range(program.image_bytes)
    }


class _Search:
    """The smallest image so far."""

    def __init__(self, image: NDArray[np.uint8], still_fails: StillFails, end: float) -> None:
        self._bits = np.unpackbits(image, bitorder="little")
        self._still_fails = still_fails
        self._end = end

    @property
    def image(self) -> NDArray[np.uint8]:
        return np.packbits(self._bits, bitorder="little")

    @property
    def in_time(self) -> bool:
        return time.monotonic() < self._end

    def holds(self, bits: Bits) -> bool:
        """Whether any of these bits is set."""
        return bool(self._bits[bits].any())

    def take(self, groups: Sequence[Bits]) -> bool:
        """Clear groups of bits where the failure stays; return whether any was cleared."""
        taken = False
        for start in range(0, len(groups), _CANDIDATES):
            part = [bits for bits in groups[start : start + _CANDIDATES] if self.holds(bits)]
            if not part or not self.in_time:
                continue
            alone = self._try([[bits] for bits in part])
            good = [bits for bits, fails in zip(part, alone, strict=True) if fails]
            # What can go alone need not be able to go together: the longest run that can, does.
            runs = [good[: count + 1] for count in range(len(good))]
            together = self._try(runs)
            fitting = [run for run, fails in zip(runs, together, strict=True) if fails]
            if fitting:
                self._bits[np.concatenate(fitting[-1])] = 0
                taken = True
        return taken

    def _try(self, candidates: Sequence[Sequence[Bits]]) -> list[bool]:
        if not candidates:
            return []
        images = np.repeat(self._bits[None], len(candidates), axis=0)
        for image, cleared in zip(images, candidates, strict=True):
            image[np.concatenate(cleared)] = 0
        fails: list[bool] = self._still_fails(
            np.packbits(images, axis=1, bitorder="little")
        ).tolist()
        return fails
