"""Matrices in memory (PTX ISA 9.7.14.4.2): row and column major, strides, packing.

Consecutive rows of a row-major matrix, or columns of a column-major one, here called *lines*, start
`stride` elements apart. Elements are little-endian; those of 4 bits and of one bit are packed from
the low bits of each byte up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.scratch import transpose
from oracle.errors import UsageError
from oracle.isa.formats import FormatKind
from oracle.isa.matrices import LAYOUTS, Matrix


@dataclass(frozen=True, kw_only=True)
class Tile:
    """A matrix as it lies in memory, apart from where; UsageError if lines start inside a byte."""

    matrix: Matrix
    layout: str
    """"row" or "col"."""
    stride: int | None = None
    """Elements from one line to the next; None stands for the default of the page."""

    def __post_init__(self) -> None:
        if self.layout not in LAYOUTS:
            raise UsageError(f"layout {self.layout!r} is none of {', '.join(LAYOUTS)}")
        if self.elements * self.matrix.type.bits % 8:
            raise UsageError(
                f"a stride of {self.elements} elements of {self.matrix.type.bits} bits is no whole "
                f"number of bytes; give a multiple of {8 // self.matrix.type.bits}"
            )

    @cached_property
    def elements(self) -> int:
        """Elements from one line to the next."""
        return self.matrix.default_stride(self.layout) if self.stride is None else self.stride

    @cached_property
    def pitch(self) -> int:
        """Bytes from one line to the next."""
        return self.elements * self.matrix.type.bits // 8

    @cached_property
    def lines(self) -> int:
        """Number of lines: rows of a row-major matrix, columns of a column-major one."""
        return self.matrix.leading_instances(self.layout)

    @cached_property
    def length(self) -> int:
        """Elements in a line."""
        return self.matrix.default_stride(self.layout)

    @cached_property
    def line_bytes(self) -> int:
        """Bytes in a line. A whole number for every matrix of the pages."""
        return self.length * self.matrix.type.bits // 8

    @cached_property
    def extent(self) -> int:
        """Bytes from the first of the tile to the last, both included."""
        return (self.lines - 1) * self.pitch + self.line_bytes

    @cached_property
    def unit(self) -> np.dtype[Any]:
        """What a line is cut into: its elements, or bytes where those are smaller."""
        type_ = self.matrix.type
        return np.dtype(type_.raw if type_.bits >= 8 else "uint8").newbyteorder("<")

    @cached_property
    def byte_offsets(self) -> NDArray[np.int64]:
        """Offset of every byte of the tile from its first, int64 (lines, line_bytes)."""
        starts = np.arange(self.lines, dtype=np.int64) * self.pitch
        return starts[:, None] + np.arange(self.line_bytes, dtype=np.int64)


def read(memory: NDArray[np.uint8], offset: int, tile: Tile) -> NDArray[Any]:
    """Read a matrix at a byte of each memory (count, bytes): (count, rows, columns), raw patterns.

    Narrow elements one each (s4 sign-extended). It may share memory. UsageError if outside.
    """
    view = _lines(memory, offset, tile)
    bits = tile.matrix.type.bits
    if bits >= 8:
        values = view
    elif bits == 1:
        values = np.unpackbits(view, axis=-1, bitorder="little")
    else:
        values = np.empty((*view.shape[:-1], tile.length), dtype=np.uint8)
        values[..., 0::2] = view & 0xF
        values[..., 1::2] = view >> 4
        if tile.matrix.type.kind is FormatKind.SIGNED:
            values = ((values ^ 8) - 8).view(np.int8)  # bit 3 is the sign
    return values if tile.layout == "row" else values.swapaxes(-1, -2)


def write(memory: NDArray[np.uint8], offset: int, tile: Tile, values: NDArray[Any]) -> None:
    """Write matrices of raw patterns, (count, rows, columns), at a byte of each memory."""
    view = _lines(memory, offset, tile)
    lines = values if tile.layout == "row" else values.swapaxes(-1, -2)
    bits = tile.matrix.type.bits
    if bits >= 8:
        transpose(view, lines)
    elif bits == 1:
        view[...] = np.packbits(lines & 1, axis=-1, bitorder="little")
    else:
        nibbles = lines.view(np.uint8) & 0xF
        view[...] = nibbles[..., 0::2] | nibbles[..., 1::2] << 4


def _lines(memory: NDArray[np.uint8], offset: int, tile: Tile) -> NDArray[Any]:
    """View the lines of a tile, without copying: (count, lines, elements or packed bytes)."""
    count, size = memory.shape
    if offset < 0 or offset + tile.extent > size:
        raise UsageError(
            f"a tile of {tile.extent} bytes at byte {offset} does not lie inside a memory of "
            f"{size} bytes"
        )
    first = memory[:, offset : offset + tile.line_bytes].view(tile.unit)
    return np.lib.stride_tricks.as_strided(
        first,
        shape=(count, tile.lines, tile.line_bytes // tile.unit.itemsize),
        strides=(memory.strides[0], tile.pitch, tile.unit.itemsize),
    )
