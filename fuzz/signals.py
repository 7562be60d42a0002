"""Ending what runs for long when a signal asks for it, with its report."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop()

    heard = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = [(number, signal.signal(number, end)) for number in heard]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
