"""Between a matrix's elements and the registers of its fragment."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from runners.simulated.layouts import Layout
from runners.simulated.warps import DTYPES, LANES, Values, spread

Elements = NDArray[Any]
"""(elements, warps): raw elements, the matrix row by row, each in an unsigned word of its own."""


def scatter(elements: Elements, layout: Layout) -> list[Values]:
    """Return the registers, (lanes, warps) each, that hold a matrix's elements."""
    dtype = DTYPES[layout.width]
    whole = elements.astype(dtype, copy=False)
    # `take` of whole rows is several times faster than an index, where there are few warps.
    words = whole.take(layout.slots[0], axis=0)
    for position, slots in enumerate(layout.slots[1:], 1):
        words |= whole.take(slots, axis=0) << dtype.type(position * layout.bits)
    return list(words)


def gather(words: list[Values], layout: Layout, warps: int) -> Elements:
    """Return a matrix's elements from the registers of its fragment."""
    stacked = np.concatenate([spread(word, (LANES, warps)) for word in words])
    held: Elements = stacked.take(layout.homes[0], axis=0)
    if layout.bits == layout.width:
        return held
    dtype = held.dtype.type
    held >>= layout.shifts
    held &= dtype((1 << layout.bits) - 1)
    elements: Elements = held.astype(DTYPES[max(8, layout.bits)])
    return elements
