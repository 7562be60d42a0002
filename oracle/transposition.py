"""Copies of batches of matrices from memory with the batch first to memory with it last, and back.

The arithmetic runs over arrays with the batch last, memory images have it first. Copied naively,
each element of a row comes from another image, all of which fall into the same few sets of the
cache: seven times the time (512 images of 4 KiB, 2026-11-21). So the source is copied once more
on the way, in its own order, and each part of it a cache line further on than before.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

LINE_BYTES = 64
"""A cache line of x86-64 and of most 64-bit Arm processors."""

_BLOCK_BYTES = 1 << 18
"""Copied at once: little enough for the cache, and for memory that is not fresh from the system."""


def in_order(matrices: NDArray[Any], order: tuple[int, int, int]) -> NDArray[Any]:
    """Copy matrices (count, rows, columns) so that their axes lie in memory in an order.

    `order`: The axes, that with the largest stride first: (1, 2, 0) puts the batch last.
    """
    memory = np.empty([matrices.shape[axis] for axis in order], matrices.dtype)
    copy = memory.transpose(np.argsort(order))
    transpose(copy, matrices)
    return copy


def transpose(target: NDArray[Any], source: NDArray[Any]) -> None:
    """Copy a batch, (count, ...), into an array of its shape whose axes lie otherwise in memory."""
    if not _crosses(target, source):
        np.copyto(target, source)
        return
    count = max(1, _BLOCK_BYTES * len(source) // source.nbytes)
    for start in range(0, len(source), count):
        part = slice(start, start + count)
        np.copyto(target[part], _spread(source[part], _memory_order(target)))


def _crosses(target: NDArray[Any], source: NDArray[Any]) -> bool:
    """Whether the batch is first in one and not in the other."""
    return _memory_order(target)[0] != _memory_order(source)[0] and source.size > 0


def _memory_order(array: NDArray[Any]) -> list[int]:
    """Return the axes of an array, the one with the largest stride first."""
    return sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))


def _spread(source: NDArray[Any], order: list[int]) -> NDArray[Any]:
    """Copy an array with a cache line between what lies far apart.

    With the batch first in memory if it is so there; if it is last, with the other axes in `order`,
    for then a copy in that order reads and writes all of memory forward.
    """
    axes = _memory_order(source)
    if axes[0] != 0:
        axes = [axis for axis in order if axis != axes[-1]] + axes[-1:]
    shape = [source.shape[axis] for axis in axes]
    gap = max(1, LINE_BYTES // source.itemsize)
    if axes[0] == 0:  # a gap after each matrix
        size = prod(shape[1:])
        spread = np.empty((shape[0], size + gap), source.dtype)[:, :size].reshape(shape)
    else:  # a gap after the elements that one place has in the batch
        *outer, inner = shape
        spread = np.empty((*outer, inner + gap), source.dtype)[..., :inner]
    copy = spread.transpose(np.argsort(axes))
    np.copyto(copy, source)
    return copy
