"""Matrix descriptors: where a warpgroup's multiplication reads A and B in shared memory.

PTX ISA 9.0, 9.7.15.5.1.2, checked address by address on H200 (2026-11-28, 1,283 descriptors: all
swizzles, both orders, A and B, elements of 8, 16 and 32 bits, n from 8 to 256, sparse B, starts
inside a pattern, and all base offsets). `docs/oracle.md`, "Matrix descriptors".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from oracle import layouts
from oracle.errors import UsageError
from oracle.isa.forms import Matrix
from oracle.layouts import Tile

UNIT = 16
"""Bytes that starts and offsets are multiples of, and that a swizzle moves as a whole."""
REACH = 1 << 18
"""Bytes that a field reaches: `matrix-descriptor-encode(x) = (x & 0x3FFFF) >> 4`."""
SWIZZLES = {16: 0, 128: 1, 64: 2, 32: 3}
"""Value of bits 63-62 by the bytes of a row of the pattern; 16 is no swizzle."""
_FIELDS = {"start": 0, "leading": 16, "stride": 32}
"""Lowest bit of each field of 14 bits."""
_BASE_OFFSET, _SWIZZLE = 49, 62
_PATTERN_ROW = 128
"""Bytes from which on the next units are swapped: bits 7 to 9 of an address choose the swap."""


@dataclass(frozen=True, kw_only=True)
class MatrixDescriptor:
    """The 64 bits of a descriptor as what they mean (9.7.15.5.1.2.2); UsageError if they cannot."""

    start: int
    """Byte of the shared window at which the matrix starts."""
    leading: int
    """Leading dimension byte offset."""
    stride: int
    """Stride dimension byte offset."""
    base_offset: int = 0
    """0 to 7: row of 128 bytes at which the pattern starts, seen from a multiple of 1,024 bytes."""
    swizzle: int = UNIT
    """Bytes of a row of the pattern: 128, 64, 32, or 16 for no swizzle."""

    def __post_init__(self) -> None:
        for name in _FIELDS:
            value = getattr(self, name)
            if value % UNIT or not 0 <= value < REACH:
                text = f"{name} is {value} bytes; a descriptor has multiples of {UNIT} from 0 to"
                raise UsageError(f"{text} {REACH - UNIT}")
        if not 0 <= self.base_offset < 8:
            raise UsageError(f"base_offset is {self.base_offset}; give 0 to 7")
        if self.swizzle not in SWIZZLES:
            raise UsageError(f"swizzle is {self.swizzle} bytes; give 16 (none), 32, 64 or 128")

    @property
    def bits(self) -> int:
        """Value of the descriptor's register."""
        values: dict[str, int] = vars(self)
        fields = sum(values[name] // UNIT << bit for name, bit in _FIELDS.items())
        return fields | self.base_offset << _BASE_OFFSET | SWIZZLES[self.swizzle] << _SWIZZLE

    @classmethod
    def of_bits(cls, bits: int) -> Self:
        """Return what a register means; nothing is said of bits outside of the fields."""
        mode = bits >> _SWIZZLE & 3
        fields = {name: (bits >> bit & 0x3FFF) * UNIT for name, bit in _FIELDS.items()}
        swizzle = next(width for width, value in SWIZZLES.items() if value == mode)
        return cls(**fields, base_offset=bits >> _BASE_OFFSET & 7, swizzle=swizzle)


@lru_cache(maxsize=256)
def byte_addresses(
    matrix: Matrix, descriptor: MatrixDescriptor, transposed: bool = False
) -> NDArray[np.int64]:
    """Return the address of each byte of A or B, int64 (lines, bytes), read-only.

    Lines are the rows of A and the columns of B, and the bytes of a line follow k; of single bits
    each byte has eight. Addresses are those of the shared window, less any multiple of 1,024 that
    the start is less, too.
    `matrix`: Of a sparse A what is stored.
    `transposed`: Whether elements along m or n are neighbours, not those along k (imm-trans, of 16
    bits alone).
    """
    # As canonical layouts have it (9.7.15.5.1.2.1.3). They leave open where a sparse B has its
    # bytes 32 to 63 with a swizzle of 32: `leading` behind the others (H200, 2026-11-28).
    lines = matrix.columns if matrix.operand == "b" else matrix.rows
    depth = matrix.rows if matrix.operand == "b" else matrix.columns
    width, leading, stride = descriptor.swizzle, descriptor.leading, descriptor.stride
    line = np.arange(lines, dtype=np.int64)[:, None]
    byte = np.arange(depth * matrix.type.bits // 8, dtype=np.int64)
    if not transposed:
        offset = line % 8 * width + line // 8 * stride + byte // width * leading + byte % width
    else:
        size = matrix.type.bits // 8
        if size != 2:
            raise UsageError(
                f"a matrix of .{matrix.type.name} cannot be transposed; .f16 and .bf16 can"
            )
        along, outer = (stride, leading) if width == UNIT else (leading, stride)
        k, part, lines_of_row = byte // size, byte % size, width // size
        offset = line % lines_of_row * size + part + line // lines_of_row * along
        offset += k % 8 * width + k // 8 * outer
    place = descriptor.start + offset
    row = place // _PATTERN_ROW - descriptor.base_offset
    addresses = place ^ row % (width // UNIT) * UNIT
    addresses.flags.writeable = False
    return addresses


@lru_cache(maxsize=256)
def bytes_taken(
    matrix: Matrix, descriptor: MatrixDescriptor, transposed: bool = False
) -> NDArray[np.int64]:
    """Return the addresses of all bytes of A or B in order, each once, int64 (bytes,), read-only.

    Parameters as of `byte_addresses`.
    """
    addresses = byte_addresses(matrix, descriptor, transposed)
    least = addresses.min()
    found: NDArray[np.int64] = np.flatnonzero(np.bincount(addresses.ravel() - least)) + least
    found.flags.writeable = False
    return found


def read_matrix(
    memory: NDArray[np.uint8], matrix: Matrix, addresses: NDArray[np.int64], *,
    whole_units: bool = False,
) -> NDArray[Any]:  # fmt: skip
    """Return raw patterns (count, rows, columns) of memories (count, bytes), one element each.

    `addresses`: As of `byte_addresses`, counted from the first byte of the memories.
    `whole_units`: Whether units lie as a whole, at multiples of their size: no transposed matrix.
    """
    if whole_units:
        places, units = addresses[:, ::UNIT] // UNIT, memory.view(np.complex128)
        lines = units.take(places.ravel(), axis=1).view(np.uint8)
    else:
        lines = memory.take(addresses.ravel(), axis=1)
    return layouts.read(lines, 0, _lines_of(matrix))


def write_matrix(
    memory: NDArray[np.uint8], matrix: Matrix, addresses: NDArray[np.int64], values: NDArray[Any]
) -> None:
    """Write raw patterns (count, rows, columns) to memories (count, bytes): as `read_matrix`."""
    lines = np.empty((len(memory), addresses.size), np.uint8)
    layouts.write(lines, 0, _lines_of(matrix), values)
    memory[:, addresses.ravel()] = lines


def _lines_of(matrix: Matrix) -> Tile:
    return Tile(matrix=matrix, layout="col" if matrix.operand == "b" else "row")
