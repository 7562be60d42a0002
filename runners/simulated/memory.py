"""Memory of a launch, reached by address as a kernel reaches it.

Source: PTX ISA 5.1 (State Spaces), 6.4.1 (Generic Addressing). The places of the windows are free
for an implementation to choose; these keep the spaces far apart, so that an address of one taken
for an address of another is out of bounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from runners.simulated.syntax import WARP_SIZE

BASES = (0x7F10_0000_0000, 0x7F90_0000_0000, 0x7FA0_0000_0000, 0x7FB0_0000_0000)
"""Global addresses of the arrays that a launch is given. Aligned as cudaMalloc aligns, and more."""
VARIABLES_BASE = 0x7FC0_0000_0000
"""Global address of the module's own variables."""
LARGEST_SHARED = 0xC000
"""Static shared memory of a block: ptxas refuses more on every target (13.5, "uses too much shared
data (…, 0xc000 max)"). Dynamic shared memory lies behind it."""
MEMORY_GARBAGE = 0xA5
"""What shared and local memory holds, which hardware never clears: a pattern that shows."""
ELEMENTS = {width: np.dtype(f"u{width}") for width in (1, 2, 4, 8)} | {16: np.dtype(np.complex128)}
"""Storage of an element by its bytes. What has 16 is only moved: NumPy has no wider integer."""
_PADDING = 16
"""Bytes of the largest element as which a buffer can be seen."""
_LAST = (1 << 64) - 1

Addresses = NDArray[np.uint64]
"""(rows, warps or 1) byte addresses."""
Flags = NDArray[np.bool_]


class Space(StrEnum):
    """A state space that an address is in."""

    GENERIC = "generic"
    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"
    CONST = "const"
    PARAM = "param"  # parameters of a kernel; those of functions lie in local memory


WINDOWS = {
    Space.GLOBAL: 0,
    Space.SHARED: 0x7E00_0000_0000,
    Space.LOCAL: 0x7D00_0000_0000,
    Space.CONST: 0x7C00_0000_0000,
    Space.PARAM: 0x7B00_0000_0000,
}
"""Generic address of byte 0 of each space."""


class Owner(StrEnum):
    """Which threads share one copy of a segment."""

    LAUNCH = "launch"
    BLOCK = "block"
    THREAD = "thread"


Owners = Mapping[Owner, NDArray[np.int64]]
"""Numbers of the threads that access, as owners: int64 that can be broadcast to (lanes, warps)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Segment:
    """A stretch of one state space that exists.

    `data` are flat bytes, padded beyond `size`, all owners' one after the other, `pitch` apart.
    """

    base: int  # address in its space
    size: int  # bytes that may be touched
    data: NDArray[np.uint8]
    owner: Owner = Owner.LAUNCH
    pitch: int = 0
    read_only: bool = False

    @classmethod
    def holding(
        cls, base: int, content: bytes | NDArray[np.uint8], *, read_only: bool = False
    ) -> "Segment":
        """Return a segment that the launch has once, with what it holds."""
        data = np.zeros(_padded(len(content)), np.uint8)
        data[: len(content)] = np.frombuffer(content, np.uint8)
        return cls(base=base, size=len(content), data=data, read_only=read_only)

    @classmethod
    def shared_out(cls, base: int, size: int, owner: Owner, owners: int, garbage: int) -> "Segment":
        """Return a segment of which so many have a share each, with garbage in it."""
        pitch = _padded(size)
        data = np.full(pitch * owners, garbage, np.uint8)
        if garbage != MEMORY_GARBAGE:
            # No two places hold the same by rule, so that none cancels another.
            data += np.resize(_uneven(MEMORY_GARBAGE - garbage), data.size)
        return cls(base=base, size=size, data=data, owner=owner, pitch=pitch)

    def view(self, width: int) -> NDArray[Any]:
        """Return all of `data` as elements of `width` bytes (1, 2, 4, 8 or 16)."""
        return self.data.view(ELEMENTS[width])

    def indices(self, offset: Addresses, owners: Owners) -> NDArray[np.int64]:
        """Return the indices into `data` of byte offsets into each owner's share."""
        index = offset.view(np.int64)
        return index if self.owner is Owner.LAUNCH else index + owners[self.owner] * self.pitch


@cache
def _uneven(below: int) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(below, size=4099, dtype=np.uint8)


def _padded(size: int) -> int:
    return -(-size // _PADDING) * _PADDING


class MemoryPlace(NamedTuple):
    """Where part of the threads of an access go."""

    segment: Segment
    offsets: NDArray[np.int64]  # (rows, warps) into `segment.data`, of it where not chosen, too
    chosen: Flags | None  # (rows, warps or 1); None is all
    union: int  # low bits that any of the offsets, or of those into other segments, has


@dataclass(frozen=True, kw_only=True, eq=False)
class Static:
    """What a kernel needs beside the images, and what it holds before it runs."""

    shared_bytes: int  # static, of a block
    base: int  # of the first variable in each space; in global memory beyond `VARIABLES_BASE`
    local_bytes: int  # of a thread: its variables, and the parameters of the functions it calls
    variables: bytes  # of the module, in global memory
    constants: bytes


@cache
def constant_of(value: int) -> Addresses:
    """Return a number, modulo 2^64, as an array of no axes: NumPy is faster with those."""
    return np.array(value & _LAST, np.uint64)


class Memory:
    """What a launch can address; global memory has segments it is given, and the variables."""

    written: NDArray[Any] | None = None
    """(rows, elements, warps or 1): what the present access writes, where it is a plain store."""

    def __init__(
        self, segments: tuple[Segment, ...], *, static: Static, parameters: bytes, blocks: int,
        warps: int, dynamic_bytes: int = 0, garbage: int = MEMORY_GARBAGE,
    ) -> None:  # fmt: skip
        base, out, holding = static.base, Segment.shared_out, Segment.holding
        shared = [out(base, static.shared_bytes, Owner.BLOCK, blocks, garbage)]
        if dynamic_bytes:
            shared.append(out(LARGEST_SHARED, dynamic_bytes, Owner.BLOCK, blocks, garbage))
        found = {
            Space.GLOBAL: [*segments, holding(VARIABLES_BASE + base, static.variables)],
            Space.SHARED: shared,
            Space.LOCAL: [out(base, static.local_bytes, Owner.THREAD, WARP_SIZE * warps, garbage)],
            Space.CONST: [holding(base, static.constants, read_only=True)],
            Space.PARAM: [holding(0, parameters, read_only=True)],
        }
        self._candidates = {
            space: [(segment, constant_of(segment.base)) for segment in segments]
            for space, segments in found.items()
        }
        self._candidates[Space.GENERIC] = [
            (segment, constant_of(segment.base + WINDOWS[space]))
            for space, segments in found.items()
            for segment in segments
            if segment.size
        ]

    def synchronised(self, mask: Flags | None, *, waited: bool) -> None:
        """Take note that threads were at a barrier of their block, and whether they waited."""

    def places(
        self, space: Space, address: Addresses, width: int, owners: Owners, mask: Flags | None,
        writes: bool,
    ) -> tuple[list[MemoryPlace], Flags | None, int]:  # fmt: skip
        """Find the `width` bytes that (rows, warps) addresses stand for, where the mask is set.

        Return where they are; those that happen and are outside every segment, None if none is;
        the bits that say how the addresses are aligned, as those of the places.
        """
        found: list[MemoryPlace] = []
        missing: Flags | None = mask
        candidates = self._candidates[space]
        # Nearly always all addresses are in one segment: the one that was found last is the first.
        # An address below the base wraps to a huge offset, so one comparison bounds it on both
        # sides.
        segment, base = candidates[0]
        limit = segment.size - width
        offset = address - base
        # No offset is above the union of all. Segments start at multiples of 2^32.
        union = int(np.bitwise_or.reduce(offset, axis=None))
        inside_all = union <= limit or (
            int(np.maximum.reduce(offset, axis=None, initial=0)) <= limit
        )
        if inside_all and not (writes and segment.read_only):
            return [MemoryPlace(segment, segment.indices(offset, owners), mask, union)], None, union
        lowest = int(np.minimum.reduce(address, axis=None, initial=_LAST))
        highest = int(np.maximum.reduce(address, axis=None, initial=0))
        for number, (segment, base) in enumerate(candidates):
            start, limit = int(base), segment.size - width
            if limit < 0 or (writes and segment.read_only):
                continue
            if start > highest or start + limit < lowest:
                continue
            offset = address - base
            if start <= lowest and highest <= start + limit:
                candidates.insert(0, candidates.pop(number))
                found.append(MemoryPlace(segment, segment.indices(offset, owners), missing, union))
                return found, None, union
            inside = offset <= np.uint64(limit)
            if missing is not None:
                inside = inside & missing
            if inside.any():
                index = np.where(inside, segment.indices(offset, owners), 0)
                found.append(MemoryPlace(segment, index, inside, union))
                missing = ~inside if missing is None else missing & ~inside
        if missing is None:
            missing = np.ones(address.shape, np.bool_)
        return found, missing if missing.any() else None, union
