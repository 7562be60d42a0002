"""Ending what runs for long when a signal asks for it, with its report."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ECHO_SECONDS = 0.5
"""In which a signal that comes again is the same one: timeout(1) of GNU coreutils sends it to the
process and, at once, to the group to which that belongs."""


@contextmanager
def ended_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at SIGINT, SIGTERM or SIGHUP; the same signal again ends the program.

    A signal that is ignored, as SIGHUP under nohup, stays so. Works in the main thread alone.

    Parameters
    ----------
    stop
        Has what is in the `with` statement end soon. It is called between two steps of Python code
        of the main thread, whatever that does, so it may not wait for it.
    """
    first: dict[int, float] = {}

    def end(number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if number not in first:
            first[number] = now
            stop()
        elif now - first[number] > _ECHO_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    heard = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = [(number, signal.signal(number, end)) for number in heard]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
