"""Matrices in a batch of rows of bytes, to be filled in place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.storage import Tile
from strategies.contents.float_fields import Raw
from strategies.contents.origins import Origins


@dataclass(frozen=True, eq=False)
class Window:
    """A matrix in each row: opened as an array of patterns, and closed when it is filled.

    Patterns are unsigned. Those of 4 bits are one to a byte; single bits stay packed, in
    (images, rows of A or columns of B, K / 8).
    """

    tile: Tile
    places: Origins
    """Bytes of the matrix in each row of the batch, (lines, line_bytes)."""

    @cached_property
    def _dtype(self) -> np.dtype[Any]:
        """Unsigned and little-endian; bytes where elements are packed."""
        bits = self.tile.matrix.type.bits
        return np.dtype(f"<u{max(8, bits) // 8}")

    @cached_property
    def _pitch(self) -> int | None:
        """Bytes between lines, if lines are whole, apart and at one distance, else None."""
        places, width = self.places, self.places.shape[1]
        if (np.diff(places, axis=1) != 1).any():
            return None
        steps = np.diff(places[:, 0])
        pitch = int(steps[0]) if steps.size else width
        return pitch if pitch >= width and (steps == pitch).all() else None

    @cached_property
    def shared(self) -> bool:
        """Whether what `open` returns shares memory with the rows, so that nothing is to close."""
        return self._pitch is not None and self.tile.matrix.type.bits != 4

    def open(self, rows: NDArray[np.uint8]) -> Raw:
        """Return patterns (images, rows, columns); `shared` says whether in the rows' memory.

        Parameters
        ----------
        rows : uint8 (images, bytes)
            The last axis is contiguous.
        """
        lines = self._lines(rows)
        bits = self.tile.matrix.type.bits
        if bits == 1:
            return lines
        if bits == 4:
            lines = np.stack([lines & np.uint8(0xF), lines >> np.uint8(4)], axis=3)
            lines = lines.reshape(*lines.shape[:2], -1)
        return lines if self.tile.layout == "row" else lines.swapaxes(1, 2)

    def _lines(self, rows: NDArray[np.uint8]) -> Raw:
        places, pitch = self.places, self._pitch
        if pitch is None:
            # NumPy may lay out what it gathers in another order.
            return np.ascontiguousarray(rows[:, places]).view(self._dtype)
        start, size = int(places[0, 0]), self._dtype.itemsize
        (lines, width), end = places.shape, start + len(places) * pitch
        if end <= rows.shape[1] and pitch % size == 0:
            whole = rows[:, start:end].view(self._dtype)
            return whole.reshape(len(rows), lines, pitch // size)[:, :, : width // size]
        return np.lib.stride_tricks.as_strided(
            rows[:, start : start + width].view(self._dtype),
            shape=(len(rows), lines, width // size),
            strides=(rows.strides[0], pitch, size),
        )

    def close(self, rows: NDArray[np.uint8], patterns: Raw) -> None:
        """Write patterns back that `open` returned, where they do not share memory."""
        if self.shared:
            return
        lines, bits = patterns, self.tile.matrix.type.bits
        if bits >= 4 and self.tile.layout == "col":
            lines = lines.swapaxes(1, 2)
        if bits == 4:
            lines = lines[:, :, 0::2] & np.uint8(0xF) | lines[:, :, 1::2] << np.uint8(4)
        rows[:, self.places] = np.ascontiguousarray(lines).view(np.uint8)


class Opened:
    """Windows of a batch of rows, of which parts are filled one after the other.

    Parameters
    ----------
    rows : uint8 (images, bytes)
        Of which the last axis is contiguous.
    """

    def __init__(self, rows: NDArray[np.uint8]) -> None:
        self.rows = rows
        self._views: dict[Window, Raw] = {}

    def view(self, window: Window, some: slice) -> Raw:
        """Open a window of some of the rows; what shares their memory is opened once for all."""
        if not window.shared:
            return window.open(self.rows[some])
        view = self._views.get(window)
        if view is None:
            view = self._views[window] = window.open(self.rows)
        return view[some]
