"""Progress bars: on a terminal, and nowhere else."""

from __future__ import annotations

import errno
import gc
import os
import sys
import threading
from io import StringIO

import pytest

from fuzz.output import console, fetcher, is_watched, say, starting, tracked


def used() -> None:
    """Do all that shows how far it is, half of it for a command with --json."""
    assert list(tracked([1, 2], "doing", json=False)) == [1, 2]
    with starting(lines=True) as tell:
        tell("beginning")
    with fetcher(lambda name: f"{name} is here", json=True) as fetch_one:
        assert fetch_one("llvm:15") == "llvm:15 is here"


def test_a_terminal_sees_a_bar_beside_the_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    used()
    out, err = capsys.readouterr()
    assert not out
    assert all(words in err for words in ("doing", "beginning", "fetching llvm:15"))
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
    used()
    assert capsys.readouterr() == ("", "beginning\n")
    assert not is_watched(console())
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
