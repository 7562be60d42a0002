"""Frames: how the supervisor and its child tell whole messages from broken ones.

A frame is a header of 16 bytes (magic, length and CRC-32 of the payload, CRC-32 of these three,
all little-endian) and the payload. Images never travel in frames: they lie in shared memory.
"""

from __future__ import annotations

import struct
import zlib

_MAGIC = 0x5A465057
"""The bytes "WPFZ"."""
_FIELDS = struct.Struct("<III")
_CHECK = struct.Struct("<I")
_HEADER_BYTES = _FIELDS.size + _CHECK.size
MAX_PAYLOAD = 256 << 20
"""Longest payload, in bytes: room for the machine code of thousands of kernels."""


class CorruptFrameError(Exception):
    """The bytes on the line are no frame."""


def encode(payload: bytes) -> bytes:
    """Return the frame of a payload."""
    if len(payload) > MAX_PAYLOAD:
        raise ValueError(f"a payload of {len(payload)} bytes is longer than {MAX_PAYLOAD}")
    fields = _FIELDS.pack(_MAGIC, len(payload), zlib.crc32(payload))
    return fields + _CHECK.pack(zlib.crc32(fields)) + payload


class FrameReader:
    """Cuts a stream of bytes into payloads."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self._buffer += data

    def next(self) -> bytes | None:
        """Return the next payload; None until more bytes come.

        Raises
        ------
        CorruptFrameError
            If magic, length or a checksum are wrong. Nothing after that can be trusted.
        """
        if len(self._buffer) < _HEADER_BYTES:
            return None
        magic, length, checksum = _FIELDS.unpack_from(self._buffer)
        if magic != _MAGIC:
            raise CorruptFrameError(f"a frame starts with {magic:#010x}, not {_MAGIC:#010x}")
        (check,) = _CHECK.unpack_from(self._buffer, _FIELDS.size)
        if check != zlib.crc32(self._buffer[: _FIELDS.size]) or length > MAX_PAYLOAD:
            raise CorruptFrameError("a frame has a damaged header")
        end = _HEADER_BYTES + length
        if len(self._buffer) < end:
            return None
        payload = bytes(self._buffer[_HEADER_BYTES:end])
        del self._buffer[:end]
        if zlib.crc32(payload) != checksum:
            raise CorruptFrameError(f"a frame of {length} bytes has a wrong checksum")
        return payload
