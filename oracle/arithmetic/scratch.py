"""Arrays that are kept and used again: page faults took a third of a product's time (2026-11)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

LINE_BYTES = 64
"""A cache line of x86-64 and of most 64-bit Arm processors."""

_BLOCK_BYTES = 1 << 18
"""Copied at once: little enough for the cache, and for memory that is not fresh from the system."""


def in_order(matrices: NDArray[Any], order: tuple[int, int, int]) -> NDArray[Any]:
    """Copy matrices so that their axes lie in memory in an order, the largest stride first."""
    memory = np.empty([matrices.shape[axis] for axis in order], matrices.dtype)
    copy = memory.transpose(np.argsort(order))
    transpose(copy, matrices)
    return copy


def transpose(target: NDArray[Any], source: NDArray[Any]) -> None:
    """Copy a batch, (count, ...), into an array of its shape whose axes lie otherwise in memory.

    Copied naively, each element of a row comes from another image, all of which fall into few sets
    of the cache: seven times the time (512 images of 4 KiB, 2026-11-21).
    """
    if _memory_order(target)[0] == _memory_order(source)[0] or not source.size:
        np.copyto(target, source)
        return
    count = max(1, _BLOCK_BYTES * len(source) // source.nbytes)
    for start in range(0, len(source), count):
        part = slice(start, start + count)
        np.copyto(target[part], _spread(source[part], _memory_order(target)))


def _memory_order(array: NDArray[Any]) -> list[int]:
    """Return the axes of an array, the one with the largest stride first."""
    return sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))


def _spread(source: NDArray[Any], order: list[int]) -> NDArray[Any]:
    """Copy an array with a cache line between what lies far apart, and the batch where it was."""
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


_REGION_BYTES = 16 << 20
"""Taken from the system at once: from 4 MiB on NumPy asks for large pages (Linux, madvise)."""
_LARGE_PAGE = 2 << 20
"""Bytes of a large page of x86-64, and of 64-bit Arm with small pages of 4 KiB."""
_TURNED = 512
"""Rows turned at once (of 32 to 2,048 the fastest for 8 to 64 bits, 2026-11-22)."""
_SHIFT = 4096 + 256
"""Granule of buffers, so that equal places do not fall into one set of the cache."""
_BUFFER = 64
"""Elements of NumPy's buffer; at the usual 8,192 repeated factors cost double (2026-11-22)."""


class Scratch:
    """Working memory, by name. What a name held before is lost when it is asked for again."""

    def __init__(self) -> None:
        self._buffers: dict[str, NDArray[np.uint8]] = {}
        self._free = np.empty(0, np.uint8)

    def array(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return an array of this shape and dtype with unspecified contents."""
        wanted = np.dtype(dtype)
        size = prod(shape) * wanted.itemsize
        buffer = self._buffers.get(name)
        if buffer is None or buffer.nbytes < size:
            buffer = self._buffers[name] = self._taken(size)
        return buffer[:size].view(wanted).reshape(shape)

    def _taken(self, size: int) -> NDArray[np.uint8]:
        if len(self._free) < size:
            region = np.empty(max(_REGION_BYTES, size + _LARGE_PAGE), np.uint8)
            self._free = region[-region.ctypes.data % _LARGE_PAGE :]
        taken, self._free = self._free[:size], self._free[-(-size // _SHIFT) * _SHIFT :]
        return taken

    def copy(self, name: str, values: NDArray[Any], dtype: DTypeLike | None = None) -> NDArray[Any]:
        """Return a C-contiguous copy, converted (unchecked) where a dtype is given."""
        copied = self.array(name, values.shape, values.dtype if dtype is None else dtype)
        np.copyto(copied, values, casting="unsafe")
        return copied

    def turn(self, target: NDArray[Any], source: NDArray[Any]) -> None:
        """Copy rows to where they lie side by side, element by element, or back.

        `target`, `source`: One (count, size) in C order; the other (count, ...), the first axis the
        last in memory. A few rows at a time, so that what is read across them lies in the cache.
        """
        gap = LINE_BYTES // source.itemsize
        apart = target.strides[0] == target.itemsize
        for start in range(0, len(source), _TURNED):
            here, there = source[start : start + _TURNED], target[start : start + _TURNED]
            if apart:
                count, size = here.shape
                spread = self.array("spread", (count, size + gap), source.dtype)[:, :size]
                np.copyto(spread, here)
                np.copyto(there, spread.reshape(there.shape))
            else:
                count, size = there.shape
                spread = self.array("spread", (size, count + gap), source.dtype)[:, :count]
                elements = np.moveaxis(here, 0, -1)
                np.copyto(spread.reshape(elements.shape), elements)
                np.copyto(there, spread.T)

    def tiles_last(
        self, name: str, tiles: NDArray[Any], axes: tuple[int, int, int]
    ) -> NDArray[Any]:
        """Return matrices (tiles, rows, columns) with other axes, of which tiles are the last."""
        target = self.array(name, tuple(tiles.shape[axis] for axis in axes), tiles.dtype)
        transpose(target.transpose(np.argsort(axes)), tiles)
        return target


class _PerThread(threading.local):
    def __init__(self) -> None:
        self.scratch = Scratch()


_per_thread = _PerThread()


def own_scratch() -> Scratch:
    """Return the working memory of this thread."""
    return _per_thread.scratch


@contextmanager
def small_buffer() -> Iterator[None]:
    """Have NumPy copy no factors that are repeated along an axis."""
    before = np.setbufsize(_BUFFER)
    try:
        yield
    finally:
        np.setbufsize(before)
