"""Memory that the caller, the supervisor and its child share.

A slot is an anonymous file in memory (memfd_create): it has no name that could be left behind,
and goes away with the last process that maps it, however that process ends.
"""

from __future__ import annotations

import math
import mmap
import os
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import InfrastructureError

PAGE = 4096
_GRANULE = 1 << 20
"""Sizes of slots are multiples of this many bytes, so that batches of about one size share."""


class DeviceSlot:
    """A run of shared memory."""

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size
        try:
            self.descriptor = os.memfd_create(f"warpfuzz-{number}", os.MFD_CLOEXEC)
        except OSError as error:
            raise _no_memory(size, error) from error
        self._close = weakref.finalize(self, os.close, self.descriptor)
        try:
            os.ftruncate(self.descriptor, size)
            self._map = mmap.mmap(self.descriptor, size)
        except OSError as error:
            self._close()
            raise _no_memory(size, error) from error
        self.address: int = np.frombuffer(self._map, np.uint8).ctypes.data

    def close(self) -> None:
        """Give the memory up. No array over it may be left."""
        # The child may map it still; the pages go now.
        os.ftruncate(self.descriptor, 0)
        self._close()


def _no_memory(size: int, error: OSError) -> InfrastructureError:
    return InfrastructureError(
        f"{size} bytes of shared memory cannot be had ({error}); use smaller batches, or collect "
        "and drop earlier ones first"
    )


class Lease:
    """The right to use a slot: it lasts while any array over it is alive, of which it is the base.

    (NumPy's array interface, version 3.)
    """

    def __init__(self, slot: DeviceSlot, pool: SlotPool) -> None:
        self.slot, self.pool = slot, pool
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (slot.size,),
            "data": (slot.address, False),
        }
        weakref.finalize(self, pool.give_back, slot)

    def array(self, dtype: type[Any], shape: tuple[int, ...], offset: int = 0) -> NDArray[Any]:
        """Return an array over the slot's memory, `offset` bytes from its start."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        array: NDArray[Any] = np.asarray(self)[offset:][:size].view(dtype).reshape(shape)
        return array


def lease_of(array: NDArray[Any]) -> tuple[Lease, int] | None:
    """Return the lease over whose memory a contiguous array lies, and its offset in bytes."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if not isinstance(base, Lease) or not array.flags.c_contiguous:
        return None
    return base, array.ctypes.data - base.slot.address


class SlotPool:
    """Slots, kept for use again: registering memory with the driver costs more than a copy."""

    def __init__(self, *, keep_bytes: int = 1 << 30) -> None:
        self._keep_bytes = keep_bytes
        self._free: list[DeviceSlot] = []
        self._next = 0
        self._closed = False
        self.dropped: list[int] = []
        """Numbers of slots that were given up; the child has yet to be told."""

    def lease(self, size: int) -> Lease:
        """Return a lease of a slot with at least `size` bytes.

        Raises InfrastructureError if there is no memory.
        """
        wanted = max(1, -(-size // _GRANULE)) * _GRANULE
        fitting = [slot for slot in self._free if wanted <= slot.size <= 2 * wanted]
        if fitting:
            slot = min(fitting, key=lambda slot: slot.size)
            self._free.remove(slot)
        else:
            slot = DeviceSlot(self._next, wanted)
            self._next += 1
        return Lease(slot, self)

    def give_back(self, slot: DeviceSlot) -> None:
        """Take back a slot over which there is no array any more."""
        self._free.append(slot)
        while self._free and (self._closed or sum(s.size for s in self._free) > self._keep_bytes):
            dropped = self._free.pop(0)
            dropped.close()
            self.dropped.append(dropped.number)

    def close(self) -> None:
        """Drop all slots that are free, and the others as soon as they are."""
        self._closed = True
        for slot in self._free:
            slot.close()
        self._free.clear()
