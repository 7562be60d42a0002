"""Buffers, places in them, runs of bytes, and words that steer a program."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UsageError

IMAGE_ALIGNMENT = 256
"""Alignment of every image and of a warp's shared memory, in bytes: what cuMemAlloc guarantees
(CUDA C++ Programming Guide, "Device Memory Accesses"), and more than any fragment asks for."""

SPACES = ("global", "shared")

WORD_BYTES = 4

_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")


def check(condition: bool, message: str) -> None:
    """Raise UsageError with a message unless a condition holds."""
    if not condition:
        raise UsageError(message)


def check_name(name: str, what: str) -> None:
    """Raise UsageError unless a text can name a buffer, a fragment or registers."""
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"{name!r} cannot name a {what}: a name is a lower-case letter followed by at most 30 "
            "lower-case letters, digits and underscores"
        )


def check_range(value: int, low: int, high: int, what: str) -> None:
    """Raise UsageError unless a number lies in low to high, both included."""
    if not low <= value <= high:
        raise UsageError(f"{what} is {value}; it must lie in {low} to {high}")


@dataclass(frozen=True, kw_only=True)
class Buffer:
    """A run of bytes in global or shared memory."""

    name: str
    space: str
    size: int
    alignment: int = IMAGE_ALIGNMENT
    """Bytes; a power of two, at most IMAGE_ALIGNMENT."""

    def __post_init__(self) -> None:
        check_name(self.name, "buffer")
        check(self.space in SPACES, f"space {self.space!r} is none of {', '.join(SPACES)}")
        check_range(self.size, 1, 1 << 24, f"size of buffer {self.name}, in bytes,")
        check(
            1 <= self.alignment <= IMAGE_ALIGNMENT and self.alignment & (self.alignment - 1) == 0,
            f"alignment of buffer {self.name} is {self.alignment}; it must be a power of two, "
            f"at most {IMAGE_ALIGNMENT}",
        )


@dataclass(frozen=True, kw_only=True)
class Place:
    """A byte in a buffer. It may lie outside of the buffer: an access there is undefined."""

    buffer: str
    offset: int = 0

    def __post_init__(self) -> None:
        check_range(self.offset, -(1 << 31), (1 << 31) - 1, "offset of a place, in bytes,")

    def __str__(self) -> str:
        return f"{self.buffer}+{self.offset}" if self.offset else self.buffer


@dataclass(frozen=True, kw_only=True)
class Word:
    """The 32-bit little-endian word at a place of the image, under a mask; every lane reads it.

    A branch takes its first arm if it is not zero; a loop runs as many iterations as it says.
    """

    place: Place
    mask: int

    def __post_init__(self) -> None:
        check_range(self.mask, 0, (1 << 32) - 1, "mask of a word")

    def __str__(self) -> str:
        return f"(word at {self.place} & {self.mask:#x})"


Uniform = int | Word
"""A constant, which a compiler can fold, or a word of the image, which it cannot."""


@dataclass(frozen=True, slots=True)
class Span:
    """Runs of bytes, equally far apart, in one buffer."""

    buffer: str
    start: int
    run: int
    """Bytes of one."""
    pitch: int
    """Bytes from one to the next."""
    runs: int

    @staticmethod
    def block(buffer: str, start: int, size: int) -> Span:
        """Return bytes that lie next to each other."""
        return Span(buffer, start, size, size, 1)

    @property
    def end(self) -> int:
        """Byte behind the last."""
        return self.start + (self.runs - 1) * self.pitch + self.run

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Every byte, counted from the start of the buffer, int64 (runs, run)."""
        import numpy as np

        starts = self.start + self.pitch * np.arange(self.runs, dtype=np.int64)
        return starts[:, None] + np.arange(self.run, dtype=np.int64)

    def meets(self, other: Span) -> bool:
        """Tell whether a byte belongs to both.

        Exact where the pitches are the same and no run reaches into the next, or one of the two
        is a single run; else True as soon as one reaches behind the start of the other.
        """
        if self.buffer != other.buffer or self.start >= other.end or other.start >= self.end:
            return False
        if self.runs == 1 or other.runs == 1:
            block, comb = (self, other) if self.runs == 1 else (other, self)
            return comb._meets_block(block.start, block.end)
        if self.pitch != other.pitch or max(self.run, other.run) > self.pitch:
            return True
        # The distance between the two starts decides, up to whole pitches.
        distance = (other.start - self.start) % self.pitch
        return distance < self.run or distance + other.run > self.pitch

    def _meets_block(self, start: int, end: int) -> bool:
        if self.runs == 1 or self.run >= self.pitch:
            return start < self.end and self.start < end
        # The first run that ends behind the start of the block.
        index = max(0, (start - self.start - self.run) // self.pitch + 1)
        return index < self.runs and self.start + index * self.pitch < end
