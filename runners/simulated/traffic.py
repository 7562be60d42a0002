"""Elements between memory and values, for every instruction that touches memory."""

import numpy as np
from numpy.typing import NDArray

from runners.simulated.memory import Place, Space
from runners.simulated.warps import Mask, Values, Warps

Addresses = NDArray[np.uint64]
"""(rows, warps or 1) byte addresses."""


def _places(
    warps: Warps, space: Space, starts: Addresses, span: int, line: int, mask: Mask
) -> list[Place]:
    return warps.memory.places(space, starts, span, warps.blocks, warps.indices, line, mask)


def read_runs(
    warps: Warps, space: Space, starts: Addresses, count: int, width: int, line: int, mask: Mask
) -> Values:
    """Read runs of consecutive elements.

    Parameters
    ----------
    warps, space, line, mask
        Who reads, where, by which line; the mask is shaped like `starts`.
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
    steps = np.arange(count)[None, :, None]
    values: Values | None = None
    for place in _places(warps, space, starts, count * width, line, mask):
        read: Values = place.segment.view(width)[(place.index // width)[:, None, :] + steps]
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
    line: int,
    mask: Mask,
) -> None:
    """Write runs of consecutive elements; where several writes meet, a later row or warp wins.

    Parameters
    ----------
    warps, space, line, mask
        Who writes, where, by which line; the mask is shaped like `starts`.
    starts
        (rows, warps or 1) address of each run's first element, a multiple of the element's bytes.
    values
        (rows, count, warps or 1), unsigned, of the element's width.
    """
    rows, count, _ = values.shape
    width = values.itemsize
    steps = np.arange(count)[None, :, None]
    everyone = max(starts.shape[0], rows), count, warps.indices.size
    for place in _places(warps, space, starts, count * width, line, mask):
        target = place.segment.view(width)
        index = np.broadcast_to((place.index // width)[:, None, :] + steps, everyone)
        written = np.broadcast_to(values, everyone)
        if place.chosen is None:
            target[index] = written
        else:
            chosen = np.broadcast_to(place.chosen[:, None, :], everyone)
            target[index[chosen]] = written[chosen]
