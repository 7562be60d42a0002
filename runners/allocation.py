"""Memory that NumPy uses again: what a process asks of the C library."""

import ctypes

_MALLOPT = {-3: 32 << 20, -1: 128 << 20}
"""M_MMAP_THRESHOLD and M_TRIM_THRESHOLD (malloc.h), in bytes: by default glibc gets every array of
128 KiB from the system and gives it back, a quarter of a worker's time (2026-11-21)."""


def keep_memory() -> None:
    """Have the C library keep what arrays give back, to use it again; for a process of its own."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if mallopt is not None:
        for parameter, value in _MALLOPT.items():
            mallopt(parameter, value)
