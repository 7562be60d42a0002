"""A campaign screens in idle time, and commits the same from its rounds as without."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from corpus import create_corpus
from corpus.known import known_with
from fuzz.bench import Silence
from fuzz.campaign.store import Triage
from fuzz.checks.programs import Programs
from fuzz.checks.protocol import OpenCheck, RoundJob, RoundPlan, RoundReport
from fuzz.runner import RunnerChoice
from fuzz.screening import examining
from fuzz.screening.examining import IdleScreening
from strategies.draws import Selection
from strategies.rounds import ProgramCoverage

_PATIENCE = 60.0
"""Seconds until something must have been screened, on a machine that does other things as well."""


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examining, "_IMAGES", 2)
    monkeypatch.setattr(examining, "_NEW_SECONDS", 0.0)


def check(*faults: str) -> Programs:
    """The check of a campaign on single-bit multiplications that screens."""
    return Programs(
        choice=RunnerChoice(name="sim", target="sm_90", faults=faults),
        seed=6,
        selection=Selection(pattern="wmma*popc*"),
        screening=partial(IdleScreening, seed=6),
        images=4,
    )


def job(programs: Programs, opened_check: OpenCheck, number: int = 0) -> RoundJob:
    """A round of it."""
    drawn: RoundPlan = programs.plan(opened_check.facts).round(number, ProgramCoverage())
    # Few programs: drawing them takes most of a round's time.
    few = replace(drawn.work, focuses=drawn.work.focuses[:3])
    return RoundJob(number=number, plan=replace(drawn, work=few))


def until(opened_check: OpenCheck, wanted: RoundJob, enough: Callable[[RoundReport], bool]) -> None:
    """Carry a round out again and again until a report has enough."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        if enough(opened_check.round(wanted)):
            return
    pytest.fail("nothing was screened")


def test_screening_is_reported_apart_and_rounds_are_what_they_are_without() -> None:
    def screened(report: RoundReport) -> bool:
        return report.screening is not None and report.screening.comparisons > 0

    programs = check()
    with programs.opened(Silence()) as opened_check:
        wanted = job(programs, opened_check)
        until(opened_check, wanted, screened)
        with_it = opened_check.round(wanted)
    with replace(programs, screening=None).opened(Silence()) as opened_check:
        without = opened_check.round(wanted)
    assert without.screening is None
    assert with_it.screening is not None
    assert not with_it.screening.wrong
    with_it.screening = None
    assert with_it.coverage.state() == without.coverage.state()
    with_it.coverage = without.coverage
    assert with_it == without


def test_a_multiprocessor_that_is_wrong_becomes_a_finding_that_is_replayed(tmp_path: Path) -> None:
    corpus = create_corpus(tmp_path / "corpus", generator="test")
    triage = Triage(corpus=corpus, known=known_with(None), shrinks=lambda _: True)

    def found(report: RoundReport) -> bool:
        for suspect in report.apart:
            triage.suspect(suspect)
        return bool(triage.announced)

    programs = check("stuck-bit-on-one-sm")
    with programs.opened(Silence()) as opened_check:
        until(opened_check, job(programs, opened_check), found)
    assert triage.waiting == 0
    (state,) = triage.announced
    assert "multiprocessor 1 of" in state.bucket.key
    assert state.saved is not None
    assert corpus.get(state.saved.id).finding.details["multiprocessor"] == 1


def test_one_process_alone_screens_a_device() -> None:
    programs = check()
    with programs.opened(Silence()) as one, programs.opened(Silence()) as other:
        wanted = job(programs, one)
        assert one.round(wanted).screening is not None
        assert other.round(wanted).screening is None
    with programs.opened(Silence()) as third:
        assert third.round(wanted).screening is not None


def test_idle_time_ends_when_no_more_rounds_are_wanted() -> None:
    heartbeat, programs, before = Silence(), check(), set(threading.enumerate())
    with programs.opened(heartbeat) as opened_check:
        opened_check.round(job(programs, opened_check))
        (thread,) = set(threading.enumerate()) - before
        assert thread.is_alive()
        heartbeat.interrupted = True
        thread.join(_PATIENCE)
        assert not thread.is_alive()
