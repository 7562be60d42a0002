"""Global and shared memory of a launch, reached by address as a kernel reaches it.

Source: PTX ISA 5.1 (State Spaces), 6.4.1 (Generic Addressing). The places of the windows are free
for an implementation to choose; these keep the spaces far apart, so that an address of one taken
for an address of another is out of bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners.simulated.traps import TrapKind, refuse

_BASES = (0x7F10_0000_0000, 0x7F90_0000_0000, 0x7FA0_0000_0000, 0x7FB0_0000_0000)
"""Global addresses of the arrays that a launch is given. Aligned as cudaMalloc aligns, and more."""

SHARED_WINDOW = 0x7E00_0000_0000
"""Generic address of byte 0 of a block's shared memory."""

# Shared memory is never cleared by hardware: its first content is a pattern that shows.
_SHARED_POISON = 0xA5
# Buffers are padded so that they can be seen as elements of up to 16 bytes.
_PADDING = 16


class Space(StrEnum):
    """A state space that an address is in."""

    GENERIC = "generic"
    GLOBAL = "global"
    SHARED = "shared"


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A stretch of one state space that exists."""

    base: int
    size: int
    """Bytes that may be touched."""
    data: NDArray[np.uint8]
    """Flat bytes, padded beyond `size`; for shared memory, all blocks one after the other."""
    pitch: int = 0
    """Bytes from one block's share of `data` to the next; 0 for global memory."""

    def view(self, width: int) -> NDArray[Any]:
        """Return the flat bytes as elements of `width` bytes (1, 2, 4 or 8)."""
        return self.data.view(f"u{width}")


def laid_out(arrays: Sequence[NDArray[np.uint8]]) -> tuple[Segment, ...]:
    """Return global memory with copies of flat arrays of bytes, one segment each."""
    segments = []
    for base, array in zip(_BASES, arrays, strict=False):
        data = np.zeros(padded(array.size), np.uint8)
        data[: array.size] = array
        segments.append(Segment(base=base, size=array.size, data=data))
    return tuple(segments)


def padded(size: int) -> int:
    """Return the bytes of storage that a segment of this many bytes needs."""
    return -(-size // _PADDING) * _PADDING


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where part of the threads of an access go: a segment, byte indices into it, and who."""

    segment: Segment
    index: NDArray[np.int64]
    """(rows, warps) byte index into `segment.data`; 0 where not chosen."""
    chosen: NDArray[np.bool_] | None
    """Which of them go to this segment; None is all."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What a launch can address."""

    segments: tuple[Segment, ...]
    """The segments of global memory."""
    shared: Segment

    @classmethod
    def of(cls, segments: tuple[Segment, ...], shared_bytes: int, blocks: int) -> "Memory":
        """Lay out memory with segments of global memory and shared memory for so many blocks."""
        pitch = padded(shared_bytes)
        return cls(
            segments=segments,
            shared=Segment(
                base=0,
                size=shared_bytes,
                data=np.full(pitch * blocks, _SHARED_POISON, np.uint8),
                pitch=pitch,
            ),
        )

    def places(
        self,
        space: Space,
        address: NDArray[np.uint64],
        width: int,
        blocks: NDArray[np.int64],
        warps: NDArray[np.int64],
        line: int,
        mask: NDArray[np.bool_] | None,
    ) -> list[Place]:
        """Find the bytes that addresses stand for.

        Parameters
        ----------
        space
            The state space named by the instruction.
        address
            (rows, warps), in bytes.
        width
            Bytes that each access touches, from its address up.
        blocks, warps
            (warps,) block and index of each warp.
        line
            The instruction's line, for the trap.
        mask
            Which accesses happen; None is all.

        Raises
        ------
        SimulatedTrap
            Where an access that happens leaves the segments of its space.
        """
        found: list[Place] = []
        missing: NDArray[np.bool_] | None = mask
        for segment, base in self._candidates(space):
            offset = address - np.uint64(base)
            # An address below the base wraps to a huge offset, so one comparison bounds it on
            # both sides.
            limit = segment.size - width
            if limit < 0:
                continue
            inside = offset <= np.uint64(limit)
            if missing is not None:
                inside = inside & missing
            everywhere = bool(inside.all())
            if not everywhere and not inside.any():
                continue
            index = offset.view(np.int64)
            if segment.pitch:
                index = index + blocks * segment.pitch
            if everywhere:
                return [Place(segment=segment, index=index, chosen=None)]
            found.append(Place(segment=segment, index=np.where(inside, index, 0), chosen=inside))
            missing = ~inside if missing is None else missing & ~inside
        if missing is None:
            missing = np.ones(address.shape, np.bool_)
        if missing.any():
            bad = np.broadcast_to(missing, (address.shape[0], warps.size))
            first = int(np.broadcast_to(address, bad.shape)[bad][0])
            refuse(
                TrapKind.OUT_OF_BOUNDS,
                line,
                f"{width} bytes at {space} address {first:#x} are outside every buffer",
                tuple(int(i) for i in warps[bad.any(axis=0)]),
            )
        return found

    def _candidates(self, space: Space) -> list[tuple[Segment, int]]:
        """Pair the segments that a space can reach with their base in that space."""
        shared = (self.shared, 0 if space is Space.SHARED else SHARED_WINDOW)
        if space is Space.SHARED:
            return [shared]
        in_global = [(segment, segment.base) for segment in self.segments]
        return in_global if space is Space.GLOBAL else [*in_global, shared]


def check_alignment(
    address: NDArray[np.uint64],
    alignment: int,
    warps: NDArray[np.int64],
    line: int,
    mask: NDArray[np.bool_] | None,
) -> None:
    """Trap unless every (rows, warps) address that the mask lets through is aligned.

    `alignment` is in bytes, a power of two.
    """
    bad = (address & np.uint64(alignment - 1)) != 0
    if mask is not None:
        bad = bad & mask
    if bad.any():
        bad = np.broadcast_to(bad, (bad.shape[0], warps.size))
        first = int(np.broadcast_to(address, bad.shape)[bad][0])
        refuse(
            TrapKind.MISALIGNED,
            line,
            f"address {first:#x} is no multiple of {alignment}",
            tuple(int(i) for i in warps[bad.any(axis=0)]),
        )
