"""Who watches: lines in a pipe, JSON alone with --json, four redraws a second on a terminal."""

from __future__ import annotations

import io
import json
import time

import pytest
from console_statuses import FEW, family, on_a_gpu, statuses
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from corpus import Kind
from fuzz.campaign.status import CampaignStatus
from fuzz.console.report import HEARTBEAT_SECONDS, heartbeat, watching
from fuzz.output import console

OPCODE = "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 (PTX ISA 8.0)"


class _Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    made = _Clock()
    monkeypatch.setattr("time.monotonic", made)
    return made


def test_a_pipe_gets_one_line_for_each_new_family(
    clock: _Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = family(Kind.VIOLATION, "one", 1), family(Kind.DEVIATION, "two", 1)
    with watching(json=False) as watcher:
        for families in ([], [first], [first], [first, second], [second]):
            watcher(on_a_gpu(families=families))
    how_to_stop, *lines = capsys.readouterr().out.splitlines()
    assert how_to_stop.startswith("Ctrl-C ends the campaign")
    assert [line.partition("; ")[0] for line in lines] == ["violation: one", "deviation: two"]
    assert all(line.endswith(f"({first.saved.id}): {OPCODE}") for line in lines)  # type: ignore[union-attr]


def test_what_is_being_made_smaller_was_found() -> None:
    shrinking = [family(Kind.VIOLATION, "wmma.mma", 1)]
    status = on_a_gpu(families=[], shrinking=shrinking, waiting=1)
    assert "; 1 family found; " in heartbeat(status)
    assert "nothing found yet" in heartbeat(replace(status, shrinking=()))


def test_a_pipe_gets_a_sign_of_life_now_and_then(
    clock: _Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    status = on_a_gpu(families=[])
    with watching(json=False) as watcher:
        for _ in range(100):
            clock.now += HEARTBEAT_SECONDS / 10
            watcher(status)
    _, *lines = capsys.readouterr().out.splitlines()
    assert 9 <= len(lines) <= 10
    assert set(lines) == {heartbeat(status)}


def test_what_is_left_when_the_time_is_over_is_told_at_once(
    clock: _Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    status = replace(on_a_gpu(families=[]), finishing=True, stopped="", waiting=3)
    with watching(json=False) as watcher:
        for _ in range(3):
            watcher(status)
    _, *lines = capsys.readouterr().out.splitlines()
    assert lines == [heartbeat(status)]
    assert "3 findings to be made smaller" in lines[0]


def test_json_has_a_line_of_state_every_ten_seconds(
    clock: _Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    status = on_a_gpu(families=[])
    with watching(json=True) as watcher:
        for _ in range(100):
            clock.now += 1.0
            watcher(status)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [list(row) for row in rows] == [["state"]] * 10
    assert rows[0]["state"]["cases"] == status.cases


@given(statuses())
@settings(FEW, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_json_is_one_object_for_each_family_and_nothing_else(
    capsys: pytest.CaptureFixture[str], status: CampaignStatus
) -> None:
    assert heartbeat(status).isprintable()
    capsys.readouterr()
    with watching(json=True) as watcher:
        watcher(status)
        watcher(status)
    out, err = capsys.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert not err
    assert all(list(row) == ["finding"] for row in rows)
    assert len(rows) == len({family.bucket.key for family in status.families})


def test_a_terminal_is_redrawn_about_four_times_a_second() -> None:
    file = io.StringIO()
    with watching(json=False, out=console(file=file, force_terminal=True, width=80)) as watcher:
        end = time.monotonic() + 0.6
        while time.monotonic() < end:
            watcher(on_a_gpu())
            time.sleep(0.005)
    # A second or a little more, whatever the number of updates, and the first and last drawing.
    assert 2 <= file.getvalue().count("slowest part") <= 30


def test_a_dumb_terminal_gets_lines_without_escape_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    file = io.StringIO()
    with watching(json=False, out=console(file=file, force_terminal=True)) as watcher:
        watcher(on_a_gpu())
    assert "\x1b" not in file.getvalue()
