"""Elements between memory and values, for every instruction that touches memory."""

import numpy as np
from numpy.typing import NDArray

from runners.simulated.memory import Place, Space
from runners.simulated.traps import TrapKind, refuse
from runners.simulated.warps import Mask, Values, Warps

Addresses = NDArray[np.uint64]
"""(rows, warps or 1) byte addresses."""


def places(
    warps: Warps, space: Space, starts: Addresses, span: int, mask: Mask, writes: bool
) -> list[Place]:
    """Return where runs of `span` bytes lie, or trap where one that happens is nowhere."""
    found, missing = warps.memory.places(space, starts, span, warps.owners, mask, writes)
    if missing is not None:
        bad = np.broadcast_to(missing, (max(starts.shape[0], missing.shape[0]), warps.indices.size))
        first = int(np.broadcast_to(starts, bad.shape)[bad][0])
        verb = "written" if writes else "read"
        refuse(
            TrapKind.OUT_OF_BOUNDS,
            0,
            f"{span} bytes at {space} address {first:#x} are {verb}, outside every buffer",
            warps.names(bad),
        )
    return found


def read_runs(
    warps: Warps, space: Space, starts: Addresses, count: int, width: int, mask: Mask
) -> Values:
    """Read runs of consecutive elements.

    Parameters
    ----------
    warps, space, mask
        Who reads, and where; the mask is shaped like `starts`.
    starts
        (rows, warps or 1) address of each run's first element, a multiple of `width`.
    count
        Elements of a run.
    width
        Bytes of an element: 1, 2, 4 or 8.

    Returns
    -------
    values
        (rows, count, warps or 1), unsigned, of the element's width; 0 where nobody reads.
    """
    values: Values | None = None
    for place in places(warps, space, starts, count * width, mask, False):
        index = (place.index // width)[:, None, :]
        if count > 1:
            index = index + np.arange(count)[None, :, None]
        read: Values = place.segment.view(width)[index]
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
) -> None:
    """Write runs of consecutive elements; where several writes meet, a later row or warp wins.

    Parameters
    ----------
    warps, space, mask
        Who writes, and where; the mask is shaped like `starts`.
    starts
        (rows, warps or 1) address of each run's first element, a multiple of the element's bytes.
    values
        (rows, count, warps or 1), unsigned, of the element's width.
    """
    rows, count, _ = values.shape
    width = values.itemsize
    everyone = max(starts.shape[0], rows), count, warps.indices.size
    for place in places(warps, space, starts, count * width, mask, True):
        target = place.segment.view(width)
        index = (place.index // width)[:, None, :]
        if count > 1:
            index = index + np.arange(count)[None, :, None]
        index = np.broadcast_to(index, everyone)
        written = np.broadcast_to(values, everyone)
        if place.chosen is None:
            target[index] = written
        else:
            chosen = np.broadcast_to(place.chosen[:, None, :], everyone)
            target[index[chosen]] = written[chosen]
