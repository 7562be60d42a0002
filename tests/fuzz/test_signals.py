"""What signals do while something runs that ends with its report."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from command_line import ROOT

from fuzz.console.report import ended_by_signals

ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize("number", ENDING)
def test_the_first_signal_stops_and_its_echo_does_nothing(number: int) -> None:
    stopped: list[bool] = []

    def handler(number: int, frame: object) -> None: ...

    # Whoever runs the tests in the background lets them ignore SIGINT.
    before = signal.signal(number, handler)
    try:
        with ended_by_signals(lambda: stopped.append(True)):
            # As timeout(1) does: to the process, and then to its group.
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)
            assert stopped == [True]
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)


_TWICE = """
import os, signal, sys
from itertools import count
from types import SimpleNamespace
from fuzz.console import report as signals
number = int(sys.argv[1])
signal.signal(number, signal.SIG_DFL)
signals.time = SimpleNamespace(monotonic=count().__next__)
with signals.ended_by_signals(lambda: None):
    os.kill(os.getpid(), number)
    print("goes on", flush=True)
    os.kill(os.getpid(), number)
"""
"""The second signal comes a second after the first, by a clock of its own."""


def test_the_second_signal_does_what_it_always_does() -> None:
    number = signal.SIGTERM
    command = [sys.executable, "-c", _TWICE, str(int(number))]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-number, "goes on\n", "")


def test_an_ignored_signal_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda number: signal.SIG_IGN)
    monkeypatch.setattr(signal, "signal", lambda *_: pytest.fail("it was ignored"))
    with ended_by_signals(lambda: None):
        pass
