"""Elements between memory and values, for every instruction that touches memory."""

import numpy as np
from numpy.typing import NDArray

from runners.simulated.memory import ELEMENTS, Place, Space, check_alignment
from runners.simulated.traps import TrapKind, refuse
from runners.simulated.warps import Mask, Values, Warps, spread

Addresses = NDArray[np.uint64]
"""(rows, warps or 1) byte addresses."""


_WINDOW_BITS = 40
"""Of an address in a space other than global memory (`runners.simulated.memory.WINDOWS`)."""
_LARGEST_CHUNK = 16
"""Bytes: what the longest per-thread access moves, and a row of ldmatrix."""
_LONGEST_RUN = 256
"""Elements: more than any matrix has in a row."""
_SHIFTS = {1 << bits: np.array(bits, np.int64) for bits in range(5)}
"""By the bytes of a chunk."""
_NUMBERS = {number: np.arange(number)[None, :, None] for number in range(1, _LONGEST_RUN)}


def places(
    warps: Warps,
    space: Space,
    starts: Addresses,
    span: int,
    mask: Mask,
    writes: bool,
    alignment: int = 1,
) -> list[Place]:
    """Return where runs of `span` bytes lie.

    It traps where one that happens is nowhere, or no multiple of `alignment` bytes, a power of two.
    """
    found, missing, union = warps.memory.places(space, starts, span, warps.owners, mask, writes)
    if union & (alignment - 1):
        check_alignment(starts, alignment, warps.indices, mask)
    if missing is not None:
        bad = np.broadcast_to(missing, (max(starts.shape[0], missing.shape[0]), warps.indices.size))
        first = int(np.broadcast_to(starts, bad.shape)[bad][0])
        verb, where = "written" if writes else "read", "outside every buffer"
        if space not in (Space.GLOBAL, Space.GENERIC):
            where = f"outside what the kernel has of {space} memory"
            if first >> _WINDOW_BITS:
                where += ": a generic address of other memory may have become one of it (cvta.to)"
        said = f"{span} bytes at {space} address {first:#x} are {verb}, {where}"
        refuse(TrapKind.OUT_OF_BOUNDS, 0, said, warps.names(bad))
    return found


def read_runs(
    warps: Warps,
    space: Space,
    starts: Addresses,
    count: int,
    width: int,
    mask: Mask,
    *,
    alignment: int = 1,
) -> Values:
    """Read runs of `count` consecutive elements of `width` bytes (1, 2, 4 or 8).

    `starts` has the (rows, warps or 1) address of each run's first element, a multiple of `width`
    and of `alignment` bytes; the mask has its shape. Return (rows, count, warps or 1), unsigned, 0
    where nobody reads.
    """
    if starts.size == 1:
        found = warps.memory.everywhere(
            space, starts.item(), count, width, alignment, warps.indices.size, False
        )
        if found is not None:
            return found.copy()
    values: Values | None = None
    for place in places(warps, space, starts, count * width, mask, False, alignment):
        read = _gathered(place, count, width)
        if place.chosen is None:
            return read
        chosen = place.chosen[:, None, :]
        values = np.where(chosen, read, 0 if values is None else values).astype(read.dtype)
    if values is None:
        return np.zeros((starts.shape[0], count, starts.shape[1]), f"u{width}")
    return values


def write_runs(
    warps: Warps,
    space: Space,
    starts: Addresses,
    values: Values,
    mask: Mask,
    *,
    alignment: int = 1,
) -> None:
    """Write runs of consecutive elements; where several writes meet, a later row or warp wins.

    The (rows, count, warps or 1) unsigned values have the width of an element; for the rest see
    `read_runs`.
    """
    rows, count, _ = values.shape
    width = values.itemsize
    everyone = max(starts.shape[0], rows), count, warps.indices.size
    warps.memory.written = values
    for place in places(warps, space, starts, count * width, mask, True, alignment):
        chunk = _chunk(place, count, width)
        number, per_chunk = count * width // chunk, chunk // width
        moved, shape = values, (everyone[0], number, everyone[2])
        if per_chunk > 1:
            parts = spread(values, everyone).reshape(everyone[0], number, per_chunk, everyone[2])
            moved = np.ascontiguousarray(parts.swapaxes(2, 3)).view(ELEMENTS[chunk])[..., 0]
        target = place.segment.views(chunk)[0]
        index = spread(_chunks(place, number, chunk), shape)
        if place.chosen is None:
            target[index] = moved
        else:
            chosen = spread(place.chosen[:, None, :], shape)
            target[index[chosen]] = spread(moved, shape)[chosen]


def _chunk(place: Place, count: int, width: int) -> int:
    """Return the most bytes, up to 16, in which all runs of a place can be moved at once."""
    span = count * width
    if span == width:
        return width
    # The shares of owners are multiples of the largest chunk.
    low = place.union | span | _LARGEST_CHUNK
    # Who is not chosen may be between two elements.
    return max(width, low & -low)


def _chunks(place: Place, number: int, chunk: int) -> NDArray[np.int64]:
    """Return the (rows, number, warps) indices of a place's chunks."""
    index = (place.offsets >> _SHIFTS[chunk])[:, None, :]
    return index if number == 1 else index + _NUMBERS[number]


def _gathered(place: Place, count: int, width: int) -> Values:
    """Return the (rows, count, warps) elements of a place."""
    chunk = _chunk(place, count, width)
    number = count * width // chunk
    found: Values = place.segment.views(chunk)[0].take(_chunks(place, number, chunk))
    if chunk == width:
        return found
    # (rows, number, warps, elements of a chunk)
    parts = found[..., None].view(ELEMENTS[width]).swapaxes(2, 3)
    return parts.reshape(parts.shape[0], count, parts.shape[3])
