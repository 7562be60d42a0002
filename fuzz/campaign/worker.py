"""A worker process: `python -m fuzz.campaign.worker SOCKET BEATS ROWS ROW PARENT`.

It opens a runner, says what that is, and carries out one job after the other until the
coordinator hangs up or is gone.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

from corpus import BrokenEntryError
from fuzz.campaign.heartbeat import Broken, Heartbeats, WorkerHeartbeat
from fuzz.campaign.pool import unpickled
from fuzz.checks.protocol import (
    Found,
    FoundState,
    Job,
    OpenCheck,
    Report,
    RoundJob,
    RoundReport,
)
from oracle.errors import DeviceLostError, UsageError, WarpfuzzError

_GARBAGE = 100_000
"""New objects after which a worker looks for cycles of them: with Python's own 700 that is a sixth
of the time of judging instructions, and an eighth of that of drawing programs (2026-11), for a
worker remembers much. They take some 20 MB."""
_HEALTH_SECONDS = 10.0  # between two looks at the device's temperature, clock and error counters
_PARENT_CHECK = 0.2  # seconds between looks at whether the coordinator still lives
_GRACE = 5.0  # seconds that a worker takes to end its runner and its tools before it ends at once
_EXAMINER_NICENESS = 5
"""Niceness of the process that replays and shrinks: it gets a third of a core beside a worker
(sched(7): each step is a factor of 1.25)."""
_MALLOPT = {-3: 32 << 20, -1: 128 << 20}
"""M_MMAP_THRESHOLD and M_TRIM_THRESHOLD (malloc.h), in bytes: from which size on memory comes from
the system and goes back at once (this is glibc's maximum), and how much free memory is kept. By
default glibc gets every array of 128 KiB and more from the system and gives it back, page by page:
a quarter of a worker's time (129,000 to 167,000 images/s, 2026-11-21)."""


def carry_out(check: OpenCheck, job: Job) -> Report:
    """Carry out a job of any sort."""
    if isinstance(job, RoundJob):
        return check.round(job)
    try:
        return check.examine(job)
    except (UsageError, BrokenEntryError):
        # A corpus is open to everybody: the finding may have been pruned in the meantime.
        return Found(bucket=job.bucket, state=FoundState.LEFT)


def serve(line: Connection[Any, Any], heartbeat: WorkerHeartbeat) -> None:
    """Carry out jobs until the coordinator hangs up, or something ends this worker's work."""
    # The coordinator is gone: there is nobody to tell.
    with suppress(EOFError, ConnectionError):
        data, device = line.recv()
        asked = -_HEALTH_SECONDS
        try:
            with unpickled(data).on(device).opened(heartbeat) as check:
                gc.freeze()
                gc.set_threshold(_GARBAGE, *gc.get_threshold()[1:])
                line.send(check.facts)
                while True:
                    report = carry_out(check, line.recv())
                    if isinstance(report, RoundReport):
                        report.device = device
                        if time.monotonic() - asked >= _HEALTH_SECONDS and not report.lost:
                            asked, report.health = time.monotonic(), check.health()
                    line.send(report)
                    if report.lost:
                        raise DeviceLostError(report.lost)
        except WarpfuzzError as error:
            line.send(Broken.of(error))


def _keep_memory() -> None:
    """Have the C library keep what arrays give back, to use it again."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if mallopt is not None:
        for parameter, value in _MALLOPT.items():
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
    if row == rows - 1:
        # The examiner: where all cores are taken, rounds go on.
        os.nice(_EXAMINER_NICENESS)
    serve(Connection(descriptor), WorkerHeartbeat(Heartbeats(rows, memory), row))


if __name__ == "__main__":
    main(sys.argv[1:])
