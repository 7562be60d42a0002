"""Arrays that are kept and used again, because fresh pages cost more than the arithmetic on them.

A large temporary array is new memory from the operating system every time: measured here
(2026-11, a virtual machine with 4 KiB pages), the page faults took a third of the time of a
matrix multiplication.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from oracle.transposition import transpose

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray


class Scratch:
    """Working memory, by name. What a name held before is lost when it is asked for again."""

    def __init__(self) -> None:
        self._buffers: dict[str, NDArray[np.uint8]] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return an array of this shape and dtype with unspecified contents."""
        wanted = np.dtype(dtype)
        size = prod(shape) * wanted.itemsize
        buffer = self._buffers.get(name)
        if buffer is None or buffer.nbytes < size:
            buffer = self._buffers[name] = np.empty(size, np.uint8)
        return buffer[:size].view(wanted).reshape(shape)

    def copy(self, name: str, values: NDArray[Any], dtype: DTypeLike | None = None) -> NDArray[Any]:
        """Return a C-contiguous copy, converted (unchecked) where a dtype is given."""
        copied = self.array(name, values.shape, values.dtype if dtype is None else dtype)
        np.copyto(copied, values, casting="unsafe")
        return copied

    def tiles_last(
        self, name: str, tiles: NDArray[Any], axes: tuple[int, int, int]
    ) -> NDArray[Any]:
        """Return matrices (tiles, rows, columns) with other axes, of which tiles are the last."""
        target = self.array(name, tuple(tiles.shape[axis] for axis in axes), tiles.dtype)
        transpose(target.transpose(np.argsort(axes)), tiles)
        return target
