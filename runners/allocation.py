"""What a process asks of the system: memory that NumPy uses again, and a share of the processor."""

import contextlib
import ctypes
import os
from pathlib import Path

_MALLOPT = {-3: 32 << 20, -1: 128 << 20}
"""M_MMAP_THRESHOLD and M_TRIM_THRESHOLD (malloc.h), in bytes: by default glibc gets every array of
128 KiB from the system and gives it back, a quarter of a worker's time (2026-11-21)."""
SESSION = Path("/proc/self/autogroup")
"""Niceness of a session. Where it is there, that of processes is only for those of one session
(sched(7), "The autogroup feature"): niceness 10 got as much of a core as 0 (2026-11-29)."""
_yielded: list[int] = []  # niceness of this process, if it has asked for one


def keep_memory() -> None:
    """Have the C library keep what arrays give back, to use it again; for a process of its own."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if mallopt is not None:
        for parameter, value in _MALLOPT.items():
            mallopt(parameter, value)


def be_nice(niceness: int) -> None:
    """Leave the processor to others, with all that this process starts from now on."""
    _yielded[:] = [os.nice(niceness)]
    with contextlib.suppress(OSError):
        SESSION.write_text(f"{_yielded[0]}")


def in_new_session() -> str:
    """Return what a shell that leads a session of its own has to do to be as nice."""
    return "".join(f"{{ echo {one} > {SESSION}; }} 2>/dev/null; " for one in _yielded)
