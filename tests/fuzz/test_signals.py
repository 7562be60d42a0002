"""What signals do while something runs that ends with its report."""

from __future__ import annotations

import os
import signal

import pytest

from fuzz.signals import ended_by_signals

ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize("number", ENDING)
def test_the_first_signal_stops_and_the_second_does_what_it_always_does(number: int) -> None:
    stopped: list[bool] = []

    def handler(number: int, frame: object) -> None: ...

    # Whoever runs the tests in the background lets them ignore SIGINT.
    before = signal.signal(number, handler)
    try:
        with ended_by_signals(lambda: stopped.append(True)):
            os.kill(os.getpid(), number)
            assert stopped == [True]
            assert signal.getsignal(number) is signal.SIG_DFL
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_by_signals(lambda: pytest.fail("it was ignored")):
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
