"""A worker process: `python -m fuzz.engine.worker SOCKET BEATS ROWS ROW PARENT`.

It opens a runner, says what that is, and carries out one job after the other until the
coordinator hangs up or is gone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

_PARENT_CHECK = 0.2
"""Seconds between looks at whether the coordinator still lives."""
_GRACE = 5.0
"""Seconds that a worker takes to end its runner and its tools before it ends at once."""
_MMAP_THRESHOLD = -3, 32 << 20
_TRIM_THRESHOLD = -1, 128 << 20
"""Parameters of mallopt and their values, bytes: from which size on memory comes from the system
and goes back at once (this is glibc's maximum), and how much free memory is kept (malloc.h)."""


def _keep_memory() -> None:
    """Have the C library keep what arrays give back, to use it again.

    By default glibc gets every array of 128 KiB and more from the system and gives it back, page
    by page: a quarter of a worker's time (129,000 to 167,000 images/s, 2026-11-21).
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if mallopt is not None:
        for parameter, value in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
            mallopt(parameter, value)


def _watch(parent: int) -> None:
    """End this process when the coordinator is gone, whatever it does."""
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE)
    os.kill(os.getpid(), signal.SIGKILL)


def _end(number: int, frame: FrameType | None) -> None:
    """End in order: what is open is closed on the way out."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


def main(arguments: list[str]) -> None:
    """Serve the coordinator on a socket."""
    descriptor, memory, rows, row, parent = map(int, arguments)
    # An interrupt from the terminal goes to every process; the coordinator says what is to be done.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    _keep_memory()
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    line: Connection[Any, Any] = Connection(descriptor)
    # Imported when the coordinator can already be heard: this takes a second.
    from fuzz.engine.beats import Beats, Heart
    from fuzz.engine.serving import serve

    serve(line, Heart(Beats(rows, memory), row))


if __name__ == "__main__":
    main(sys.argv[1:])
