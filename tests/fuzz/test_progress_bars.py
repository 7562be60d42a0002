"""Progress bars: on a terminal, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.output import fetcher, tracked


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
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert list(tracked([1, 2], "doing", json=False)) == [1, 2]
    out, err = capsys.readouterr()
    assert not out
    assert "doing" in err
    assert list(tracked([1, 2], "doing", json=True)) == [1, 2]
    assert capsys.readouterr() == ("", "")


def test_fetching_shows_a_bar_on_a_terminal_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(name, progress):
        progress(1, 2)
        return f"{name} is here"

    with fetcher(fetch, json=False) as fetch_one:
        assert fetch_one("13.5") == "13.5 is here"
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    with fetcher(fetch, json=True) as fetch_one:
        assert fetch_one("llvm:15") == "llvm:15 is here"
    out, err = capsys.readouterr()
    assert not out
    assert "fetching llvm:15" in err
