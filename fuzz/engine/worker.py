"""A worker process: `python -m fuzz.engine.worker SOCKET BEATS ROWS ROW PARENT`.

It opens a runner, says what that is, and carries out one job after the other until the
coordinator hangs up or is gone.
"""

from __future__ import annotations

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
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    line: Connection[Any, Any] = Connection(descriptor)
    # Imported when the coordinator can already be heard: this takes a second.
    from fuzz.engine.beats import Beats, Heart
    from fuzz.engine.serving import serve

    serve(line, Heart(Beats(rows, memory), row))


if __name__ == "__main__":
    main(sys.argv[1:])
