"""Matrices in a batch of images, to be filled in place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strategies.contents.float_fields import Raw
from strategies.contents.origins import Origins, Source


@dataclass(frozen=True, eq=False)
class Window:
    """A matrix in the image: opened as an array of patterns, and closed when it is filled.

    Patterns are unsigned. Those of 4 bits are one to a byte; single bits stay packed, in
    (images, rows of A or columns of B, K / 8).
    """

    source: Source

    @property
    def _dtype(self) -> np.dtype[Any]:
        """Unsigned and little-endian; bytes where elements are packed."""
        bits = self.source.tile.matrix.type.bits
        return np.dtype(f"<u{max(8, bits) // 8}")

    @cached_property
    def _pitch(self) -> int | None:
        """Bytes between lines, if lines are whole, apart and at one distance, else None."""
        origins, width = self.source.origins, self.source.origins.shape[1]
        if (np.diff(origins, axis=1) != 1).any():
            return None
        steps = np.diff(origins[:, 0])
        pitch = int(steps[0]) if steps.size else width
        return pitch if pitch >= width and (steps == pitch).all() else None

    @cached_property
    def bytes(self) -> Origins:
        """Bytes of the image that the matrix takes, sorted."""
        return np.unique(self.source.origins)

    def open(self, images: NDArray[np.uint8]) -> Raw:
        """Return patterns (images, rows, columns), which share memory with the images or do not.

        Parameters
        ----------
        images : uint8 (images, bytes)
            The last axis is contiguous.
        """
        origins = self.source.origins
        if self._pitch is None:
            lines = images[:, origins].view(self._dtype)
        else:
            start, width = int(origins[0, 0]), origins.shape[1]
            first = images[:, start : start + width].view(self._dtype)
            lines = np.lib.stride_tricks.as_strided(
                first,
                shape=(len(images), len(origins), first.shape[1]),
                strides=(images.strides[0], self._pitch, self._dtype.itemsize),
            )
        bits = self.source.tile.matrix.type.bits
        if bits == 1:
            return lines
        if bits == 4:
            lines = np.stack([lines & np.uint8(0xF), lines >> np.uint8(4)], axis=3)
            lines = lines.reshape(*lines.shape[:2], -1)
        return lines if self.source.tile.layout == "row" else lines.swapaxes(1, 2)

    def close(self, images: NDArray[np.uint8], patterns: Raw) -> None:
        """Write patterns back that `open` returned, where they do not share memory."""
        bits = self.source.tile.matrix.type.bits
        if self._pitch is not None and bits != 4:
            return
        lines = patterns
        if bits >= 4 and self.source.tile.layout == "col":
            lines = lines.swapaxes(1, 2)
        if bits == 4:
            lines = lines[:, :, 0::2] & np.uint8(0xF) | lines[:, :, 1::2] << np.uint8(4)
        images[:, self.source.origins] = np.ascontiguousarray(lines).view(np.uint8)
