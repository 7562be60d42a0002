"""Progress bars: on a terminal, and nowhere else."""

from __future__ import annotations

import errno
import gc
import os
import sys
import threading
from io import StringIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.console.report import watching
from fuzz.output import console, fetcher, say, starting, tracked


@given(st.lists(st.integers()), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_pipe_sees_no_bar_and_all_things_pass(
    capsys: pytest.CaptureFixture[str], things: list[int], json: bool
) -> None:
    assert list(tracked(things, "doing", json=json)) == things
    assert capsys.readouterr() == ("", "")


def test_a_terminal_sees_a_bar_beside_the_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert list(tracked([1, 2], "doing", json=False)) == [1, 2]
    out, err = capsys.readouterr()
    assert not out
    assert "doing" in err
    assert list(tracked([1, 2], "doing", json=True)) == [1, 2]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("variable", ["FORCE_COLOR", "TTY_COMPATIBLE"])
def test_a_file_in_colour_is_no_terminal(
    variable: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logs of CI had the live view in them, with every movement of the cursor (2026-11-26)."""
    monkeypatch.setenv(variable, "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("COLUMNS", raising=False)  # a worker of pytest-xdist has it
    assert list(tracked([1, 2], "doing", json=False)) == [1, 2]
    with starting(lines=True) as tell:
        tell("beginning")
    with fetcher(str, json=True) as fetch_one:
        fetch_one("llvm:15")
    assert capsys.readouterr() == ("", "beginning\n")
    with watching(json=False) as watcher:
        assert watcher.live is None
    say("red", "bad")
    assert capsys.readouterr().out.endswith("\x1b[31mred\x1b[0m\n")
    assert console().width == 160


class Leaving(StringIO):
    """A terminal that is gone after a while."""

    gone = False

    def write(self, text: str) -> int:
        # Rich draws in a thread of its own now and then; here it is about the last time.
        if self.gone and threading.current_thread() is threading.main_thread():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().write(text)


def test_a_terminal_that_is_gone_leaves_no_traceback_of_the_bar(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ignored: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    out = Leaving()
    bar = tracked([1, 2], "doing", json=False, out=console(file=out, force_terminal=True))
    assert next(bar) == 1
    out.gone = True
    # As where the loop ends with an error of its own, and nobody holds the bar any more.
    del bar
    gc.collect()
    assert not ignored


def test_fetching_shows_a_bar_on_a_terminal_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with fetcher(str, json=False) as fetch_one:
        assert fetch_one("13.5") == "13.5"
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    with fetcher(str, json=True) as fetch_one:
        assert fetch_one("llvm:15") == "llvm:15"
    out, err = capsys.readouterr()
    assert not out
    assert "fetching llvm:15" in err
