"""What may happen to campaigns: signals, workers that die, folders in use, states that broke."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from command_line import Ended, leave_as_found, warpfuzz
from running_campaigns import (
    CORPUS,
    SOON,
    descendants,
    nothing_left,
    replay_nothing,
    started,
    state,
    wait_for_cases,
)

from fuzz.campaign.pool import Event, Lost, ProcessPool
from fuzz.checks.programs import Programs
from fuzz.checks.protocol import RoundJob, RoundPlan
from fuzz.checks.rounds import Work
from fuzz.runner import RunnerChoice
from oracle.errors import UsageError
from runners.processes import helper
from strategies import rounds
from strategies.draws import Selection, derived_seed
from strategies.features import Focus
from strategies.rounds import round_key

CALM = ("--seed", 3, "--only", "*m8n8k4*")
ENDLESS = ("--cases", 10**9, "--workers", 2)


SLOW = [pytest.param(one, marks=pytest.mark.slow) for one in (signal.SIGTERM, signal.SIGHUP)]


@pytest.mark.parametrize("number", [signal.SIGINT, *SLOW])
def test_a_signal_ends_a_campaign_cleanly_and_soon(tmp_path: Path, number: int) -> None:
    with started(tmp_path, "--cases", 10**9, "--workers", 1, *CALM) as process:
        wait_for_cases(tmp_path, process, 8)
        began = time.monotonic()
        process.send_signal(number)
        ended = process.ended()
        took = time.monotonic() - began
    assert ended.code == 0, ended.err
    summary = ended.summary
    assert summary["stopped"] == "stopped on request"
    assert summary["cases"] == state(tmp_path)["cases"]
    assert took < 120


@pytest.mark.parametrize("part", [pytest.param("", marks=pytest.mark.slow), "findings"])
def test_a_corpus_that_is_removed_under_a_campaign_is_no_clean_end(
    tmp_path: Path, part: str
) -> None:
    """One whose findings were removed ended with 0 (2026-11-27)."""
    with started(tmp_path, "--cases", 10**9, "--workers", 1, *CALM) as process:
        wait_for_cases(tmp_path, process, 8)
        gone = tmp_path / CORPUS / part
        # What is written meanwhile may have to be removed again.
        while gone.exists():
            shutil.rmtree(gone, ignore_errors=True)
        # One whose state cannot be kept may have ended already.
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        ended = process.ended()
    assert ended.code == 3
    said = " ".join(ended.err.split())
    assert CORPUS in said
    assert "is not there" in said
    assert "is intact" not in said


def test_a_campaign_that_is_told_to_end_replays_what_differed_first(tmp_path: Path) -> None:
    options = ("--cases", 10**9, "--workers", 1, "--only", "ldmatrix*", "--fault", "trans-lost")
    path = tmp_path / CORPUS / "findings"
    with started(tmp_path, *options, "--seed", 3) as process:
        while process.poll() is None and not [*path.glob("*/finding.json")]:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        ended = process.ended()
    assert ended.code == 1, ended.err
    assert ended.summary["stopped"] == "stopped on request"
    assert ended.findings
    assert ended.summary["suspects"] == []


def test_what_is_known_by_its_name_is_made_smaller_while_rounds_go_on(tmp_path: Path) -> None:
    """Of the kernel of a known line 214 lines were stored (2026-11-29)."""
    (tmp_path / "known.toml").write_text(
        'schema = 2\n[[known]]\nid = "planted"\nfailure = "wrong result"\ncause = "planted"\n'
        'instructions = ["ldmatrix"]\nevidence = "planted"\n'
        'compilers = [{ name = "sim --fault trans-lost" }]\n'
    )
    options = ("--workers", 1, "--only", "ldmatrix*", "--fault", "trans-lost", "--seed", 3)
    path = tmp_path / CORPUS / "raw"
    with started(tmp_path, "--time", "2m", "--known", "known.toml", *options) as process:
        # The first is the suspect, the second what was replayed.
        while process.poll() is None and len([*path.glob("*/finding.json")]) < 2:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        ended = process.ended()
    assert ended.code == 0, ended.err
    (finding,) = ended.findings
    assert finding["known_as"] == "planted"
    assert finding["shrink"] != "raw"
    assert ended.summary["suspects"] == []


def test_what_an_interrupted_campaign_did_not_replay_is_no_finding(tmp_path: Path) -> None:
    """With every suspect of it: nothing says which of them happen again."""
    options = ("--cases", 10**9, "--workers", 1, "--only", "ldmatrix*", "--fault", "trans-lost")
    path = tmp_path / CORPUS / "findings"
    with started(tmp_path, *options, "--seed", 3, prepare=replay_nothing) as process:
        while process.poll() is None and not [*path.glob("*/finding.json")]:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        ended = process.ended()
    assert ended.code == 3
    summary = ended.summary
    assert summary["findings"] == []
    assert summary["unreplayed"] == len(summary["suspects"]) > 0
    assert not any("finding" in row for row in ended.rows)
    assert "not known whether there is a finding" in " ".join(ended.err.split())
    words = ("run", "--resume", "--cases", 1, "--json")
    resumed = warpfuzz(tmp_path, *words, prepare=leave_as_found)
    assert resumed.code == 1
    assert resumed.summary["suspects"] == []
    assert resumed.findings


def test_a_killed_worker_is_replaced_and_nothing_is_missing(tmp_path: Path) -> None:
    options = ("--cases", 1200, "--workers", 1, *CALM)
    with started(tmp_path, *options) as process:
        wait_for_cases(tmp_path, process, 8)
        workers = [one for one in descendants(tmp_path) if one.pid != process.pid]
        assert workers
        workers[0].kill()
        ended = process.ended()
    assert ended.code == 0, ended.err
    summary = ended.summary
    assert (summary["cases"], summary["compared"], summary["skipped_rounds"]) == (1200, 1200, {})


def test_a_second_campaign_is_told_of_the_first_whose_workers_go_when_it_is_killed(
    tmp_path: Path,
) -> None:
    with started(tmp_path, *ENDLESS, *CALM) as process:
        wait_for_cases(tmp_path, process, 1)
        assert len(descendants(tmp_path)) == 3
        second = warpfuzz(tmp_path, "run", "--runner", "sim", "--cases", 8, "--workers", 1)
        assert second.code == 3
        assert f"already (process {process.pid})" in " ".join(second.err.split())
        assert process.poll() is None
        process.kill()
        assert nothing_left(tmp_path)


def campaign(home: Path, cases: int, *more: object, prepare: Any = None) -> Ended:
    words = ("--workers", 1, "--cases", cases, "--json", *CALM, *more)
    return warpfuzz(home, "run", "--runner", "sim", *words, prepare=prepare)


def test_a_state_that_broke_is_said_and_the_findings_stay(tmp_path: Path) -> None:
    campaign(tmp_path, 8)
    path = tmp_path / CORPUS / "campaign" / "state.json"
    for data in (path.read_bytes()[:-40], b""):
        path.write_bytes(data)
        resumed = campaign(tmp_path, 16, "--resume")
        assert resumed.code == 3
        said = " ".join(resumed.err.split())
        assert "state.json cannot be used: it is" in said
        assert "--new in place of --resume begins another there (the findings stay)" in said


def test_a_resumption_goes_on_with_the_options_that_are_not_given(tmp_path: Path) -> None:
    # A fault that these programs do not show.
    begun = campaign(tmp_path, 8, "--fault", "popcount-off-by-one")
    # Without --runner, where an assembler may be what is judged by default.
    resumed = warpfuzz(tmp_path, "run", "--resume", "--cases", 16, "--json")
    assert resumed.summary["runner"] == "sim"
    assert resumed.summary["options"] == "--fault popcount-off-by-one"
    assert resumed.summary["seed"] == begun.summary["seed"]
    assert resumed.summary["cases"] == 16


def test_a_campaign_is_not_overwritten_where_resume_was_forgotten(tmp_path: Path) -> None:
    campaign(tmp_path, 8)
    before = state(tmp_path)
    for check in ("sim", "ptxas"):
        refused = warpfuzz(tmp_path, "run", "--runner", check, "--cases", 16)
        assert refused.code == 2
        for option in ("--resume", "--new"):
            assert f"`warpfuzz run {option} --corpus {CORPUS}`" in " ".join(refused.err.split())
    assert state(tmp_path) == before
    assert campaign(tmp_path, 8, "--new").code == 0
    assert (tmp_path / CORPUS / "campaign" / "state.abandoned.json").is_file()


def draw_no_third_program_of_round_1() -> None:
    """Have strategies fail in one program of the campaign."""
    leave_as_found()
    third, draw_one = derived_seed(round_key(3, 1), 2), rounds.draw_one

    def draw(strategy: Any, key: int) -> Any:
        if key == third:
            raise UsageError("a buffer of 0 bytes; give it one at least")
        return draw_one(strategy, key)

    rounds.draw_one = draw


def draw_the_third_program_of_round_1_backwards() -> None:
    """Have strategies draw a program that reads what nothing has written."""
    leave_as_found()
    third, draw_one = derived_seed(round_key(3, 1), 2), rounds.draw_one

    def draw(strategy: Any, key: int) -> Any:
        drawn = draw_one(strategy, key)
        if key == third:
            program, recipe = drawn
            return replace(program, steps=program.steps[::-1]), recipe
        return drawn

    rounds.draw_one = draw


@pytest.mark.parametrize(
    ("prepare", "words"),
    {
        draw_no_third_program_of_round_1:
            "a program could not be drawn: a buffer of 0 bytes; give it one at least",
        draw_the_third_program_of_round_1_backwards:
            "a program was drawn that has no expectation: the ISA leaves this program undefined",
    }.items(),
)  # fmt: skip
def test_a_program_that_cannot_be_drawn_or_judged_costs_its_round_alone(
    tmp_path: Path, prepare: Callable[[], None], words: str
) -> None:
    """One of 5,000 programs ended a campaign after 104 s (2026-11-27), another (2026-11-30) did."""
    ended = campaign(tmp_path, 128, prepare=prepare)
    assert ended.code == 3
    said = " ".join(ended.err.split())
    assert "1 of 2 rounds could not be run, such as round 1: the worker " in said
    assert words in said
    assert state(tmp_path)["cases"] == 128


def test_a_worker_that_stalls_is_killed_with_its_tools_and_replaced(tmp_path: Path) -> None:
    """A PTX pass that never ends keeps a worker silent for longer than this plan allows."""
    # No other run of this test on this machine has the same one.
    endless = ["sleep", f"1000.{os.getpid()}"]
    check = Programs(
        choice=RunnerChoice(name="sim", ptx_pass=" ".join(endless)),
        seed=1,
        selection=Selection(pattern="*m8n8k4*"),
        stall_seconds=1.0,
    )
    with ProcessPool(check, workers=1) as pool:
        facts = pool.facts()
        drawn = RoundPlan(round=0, work=Work(focuses=(Focus(),), count=1), cases=1)
        job = RoundJob(number=0, plan=drawn)
        pool.give(job)
        events: list[Event] = []
        end = time.monotonic() + SOON
        while not events and time.monotonic() < end:
            events = [event for event in pool.poll(0.2) if isinstance(event, Lost)]
        (lost,) = events
        assert isinstance(lost, Lost)
        assert lost.job == job
        assert "gave no sign of life" in lost.how
        # Another one takes its place.
        assert pool.facts() == facts
        # A worker that takes too long to end is killed, and what it had running is ended by another
        # process, which then has to come to it.
        while any(one.info["cmdline"] == endless for one in psutil.process_iter(["cmdline"])):
            assert time.monotonic() < end
            time.sleep(0.1)


def test_a_worker_that_is_killed_while_it_starts_is_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four kills in a row: a worker that dies of itself is given up after three."""
    begun = []

    def command(*words: str) -> list[str]:
        begun.append(words)
        return ["sh", "-c", "kill -KILL $$"] if len(begun) <= 4 else helper(*words)

    monkeypatch.setattr("fuzz.campaign.pool.helper", command)
    check = Programs(
        choice=RunnerChoice(name="sim"), seed=1, selection=Selection(pattern="wmma*m8n8k4*")
    )
    with ProcessPool(check, workers=1) as pool:
        assert pool.facts().target == "sm_90"
        assert len(begun) == 5
        # The process for findings starts when one waits.
        assert not any(one.examiner for one in pool.statuses())
        end = time.monotonic() + SOON
        while not pool.places_for_examinations(everybody=False) and time.monotonic() < end:
            pool.poll(0.2)
        assert pool.places_for_examinations(everybody=True) == 2
