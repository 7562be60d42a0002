"""Progress bars: on a terminal, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.output import tracked


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
