"""Arrays as files of a finding: the same bytes for the same array, on any machine."""

from __future__ import annotations

import math
import re
import struct
from typing import Any

from numpy.typing import NDArray

from corpus.entry import Entry
from oracle.errors import InfrastructureError, UsageError

# The `.npy` format, version 1.0 (NumPy reference, numpy.lib.format): magic, version, the length
# of the header in two bytes, and a Python literal padded by spaces to a multiple of 64 bytes.
_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    rb"\{'descr': '([|<][a-z][0-9]{1,2})', 'fortran_order': False, "
    rb"'shape': \(((?:[0-9]{1,9}(?:, [0-9]{1,9}){1,7}|[0-9]{1,9},)?)\), \} *\n"
)
_DTYPES = frozenset(
    {"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"}
)
"""The numbers that memory and matrices are made of."""


def pack(array: NDArray[Any]) -> bytes:
    """Return an array as the contents of a `.npy` file.

    A `.npy` file holds shape, dtype and the bare bytes in row-major order, and no time and no
    compressor's choices as a `.npz` file does.

    Parameters
    ----------
    array
        Of any shape, and a dtype of numbers; memory images are uint8 (images, bytes).

    Raises
    ------
    UsageError
        If its elements are no integers, floats or truth values.
    """
    dtype = array.dtype.newbyteorder("<")
    if dtype.str not in _DTYPES:
        raise UsageError(
            f"an array of dtype {array.dtype} cannot be stored; allowed are numbers, such as uint8"
        )
    header = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': {array.shape}, }}"
    ending = -(len(_MAGIC) + 2 + len(header) + 1) % 64 * " " + "\n"
    text = (header + ending).encode()
    return _MAGIC + struct.pack("<H", len(text)) + text + array.astype(dtype).tobytes()


def unpack(entry: Entry, name: str) -> NDArray[Any]:
    """Return the array in one of a finding's `.npy` files, as `pack` writes them and not others.

    Raises
    ------
    UsageError
        If the finding has no file of this name.
    InfrastructureError
        If it is missing, was changed, or holds no array.
    """
    import numpy as np

    data = entry.read(name)
    length = int.from_bytes(data[len(_MAGIC) : len(_MAGIC) + 2], "little")
    start = len(_MAGIC) + 2 + length
    header = _HEADER.fullmatch(data[len(_MAGIC) + 2 : start])
    if not data.startswith(_MAGIC) or header is None or header[1].decode() not in _DTYPES:
        raise _no_array(entry, name, "its header is not that of a plain array of numbers")
    dtype = np.dtype(header[1].decode())
    shape = tuple(int(side) for side in header[2].split(b",") if side)
    addressable = math.prod(max(1, side) for side in shape) < 1 << 48
    if not addressable or math.prod(shape) * dtype.itemsize != len(data) - start:
        raise _no_array(entry, name, f"{len(data) - start} bytes are no {shape} of {dtype}")
    return np.frombuffer(data, dtype, offset=start).reshape(shape).copy()


def _no_array(entry: Entry, name: str, why: str) -> InfrastructureError:
    return InfrastructureError(
        f"{entry.path / name} holds no array ({why}); read it as bytes, or store arrays with "
        "corpus.images.pack"
    )
