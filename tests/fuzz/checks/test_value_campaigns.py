"""Campaigns on the simulated device, from the draw to the stored finding and its replay."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from value_runs import campaign, entries, found, replayed, run

from corpus import Entry, Kind
from corpus.finding import EXPECTED, INPUT, KERNEL
from corpus.programs import unpack
from fuzz.campaign.campaign import Campaign
from fuzz.campaign.pool import RoundEnd
from fuzz.campaign.store import Budget
from fuzz.checks.protocol import Examination, Found, Job
from fuzz.findings.case import ACTUAL, subject_of
from fuzz.findings.families import Bucket
from fuzz.findings.verdicts import COPIES, differences, in_a_line
from fuzz.runner import RunnerChoice, opened
from oracle.bounds.permission import allowed_bytes, permitted
from oracle.execution.execution import execute

REFUSES_S8 = """sh -c 'p=$(cat); case "$p" in *s32.s8.s8*) exit 3;; esac; echo "$p"'"""
SATURATED = r"sed -E 's/(wmma\.mma.*)\.satfinite/\1/'"


@pytest.mark.parametrize(
    "target", [pytest.param("sm_75", marks=pytest.mark.slow), "sm_90", "sm_100a"]
)
def test_a_sound_device_gives_no_finding(tmp_path: Path, target: str) -> None:
    progress = run(tmp_path, cases=72, seed=int(target[3:5]), target=target)
    assert not progress.families
    assert progress.compared == progress.cases == 72
    assert progress.unasked == 0
    assert progress.forms_reached > 5
    assert not entries(tmp_path)


def holds_together(entry: Entry) -> None:
    """Input and program give the expected image; the actual one differs as the description says."""
    subject, finding = subject_of(entry), entry.finding
    image, expected, actual = (unpack(entry, name) for name in (INPUT, EXPECTED, ACTUAL))
    assert np.array_equal(execute(subject.program, image).images, expected)
    found = differences(subject.program, expected[0], actual[0])
    assert finding.details["differing elements"] == len(found) > 0
    assert finding.details["difference 1"] == in_a_line(found[0])
    allowed = allowed_bytes(permitted(subject.program, image), actual).all()
    assert finding.kind is (Kind.DEVIATION if allowed else Kind.VIOLATION)
    assert finding.shrink == "complete"


SHRUNK = ("accumulator-ignored", "s4-as-u4")
"""Faults whose findings are shrunk as well: most of a campaign's time. `tests/meta/shrinking` has
the smallest cases of many."""


@pytest.mark.parametrize(
    ("fault", "only", "kinds"),
    [
        ("accumulator-ignored", "m16n16k16.f32.f32", {Kind.VIOLATION, Kind.DEVIATION}),
        ("store-one-row-off", "wmma*m8n8k4", {Kind.VIOLATION, Kind.LAUNCH_FAILURE}),
        ("s4-as-u4", "wmma*s4", {Kind.VIOLATION}),
        *(
            pytest.param(*row, marks=pytest.mark.slow)
            for row in (
                ("stuck-bit-on-one-sm", "m16n16k16*u8", {Kind.VIOLATION}),
                ("popcount-off-by-one", "mma*.b1.", {Kind.VIOLATION}),
                # What is loaded may be multiplied, and a product has bounds.
                ("ldmatrix-rotated-rows", "ldmatrix", {Kind.VIOLATION, Kind.DEVIATION}),
                ("rounding-turned-round", "rp.f64", {Kind.DEVIATION, Kind.VIOLATION}),
                ("subnormals-flushed-in-a", "m16n16k16.f32.f32", {Kind.DEVIATION}),
                ("alignment-one-bit-less", "m16n16k16.f16.f16", {Kind.DEVIATION}),
                ("tf32-rounded", "tf32", {Kind.DEVIATION, Kind.VIOLATION}),
            )
        ),
    ],
)
def test_a_fault_is_found_and_stored_and_gone_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, only: str, kinds: set[Kind]
) -> None:
    if fault not in SHRUNK:
        monkeypatch.setattr("fuzz.campaign.campaign.SHRINK_SECONDS", 0.001)
    pattern = f"*{only}*"
    # A fault of one multiprocessor needs launches that reach it.
    images = 128 if "one-sm" in fault else 16
    progress = run(tmp_path, cases=max(images, 32), images=images, only=pattern, faults=(fault,))
    assert {family.case.kind for family in progress.families} <= kinds
    if fault == "accumulator-ignored":
        assert entries(tmp_path)
        for entry in entries(tmp_path):
            holds_together(entry)
            # One element of C is enough to see that C is ignored.
            finding = entry.finding
            assert finding.complexity <= (3 if finding.kind is Kind.DEVIATION else 1)
    found = replayed(tmp_path, faults=(fault,))
    assert len(found) == len(progress.families) > 0
    assert set(found.values()) == {"reproduced"}
    assert set(replayed(tmp_path, faults=(), ptx_pass="none").values()) == {"gone"}


@pytest.mark.parametrize(("waiting", "given"), [(3, 0), (4, 4), (9, 4)])
def test_where_many_suspects_wait_all_who_are_idle_replay_them(
    waiting: int, given: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = list[Job]()
    with opened(RunnerChoice(name="sim")) as ready:
        crowded = campaign(ready, tmp_path, cases=8)
        crowded._take_suspects([found(number) for number in range(waiting)])
        pool = crowded.pool
        monkeypatch.setattr(pool, "give", jobs.append)
        monkeypatch.setattr(
            pool, "places_for_examinations", lambda _=1, *, everybody: 8 if everybody else 1
        )
        crowded._give_examinations(30.0, crowd=4)
        crowded._store.close()
    assert [job.seconds for job in jobs if isinstance(job, Examination)] == [None] * given


def test_when_its_time_is_over_a_campaign_goes_on_for_as_long_as_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, left = [], []
    with opened(RunnerChoice(name="sim", faults=("s4-as-u4",))) as ready:
        for resumed in (False, True):
            monkeypatch.setattr("fuzz.campaign.campaign.GRACE", 600.0 * resumed)
            late = campaign(
                ready, tmp_path, cases=10**6, only="wmma*s4*", images=16, resumed=resumed
            )
            late.budget = Budget(seconds=0.5)

            def giving(
                job: Job, give: Callable[[Job], None] = late.pool.give, late: Campaign = late
            ) -> None:
                if isinstance(job, Examination) and job.seconds is not None:
                    given.append((time.monotonic() - late._started, job.seconds))
                give(job)

            monkeypatch.setattr(late.pool, "give", giving)
            status = late.run()
            late._store.close()
            left.append(len(status.suspects))
    # What was not replayed by then waits for a resumption, which replays all of it.
    assert left[0] > left[1] == 0
    assert status.families
    assert given
    assert all(when + seconds < 600.6 for when, seconds in given)


def test_of_one_more_finding_of_a_cause_the_name_is_enough(tmp_path: Path) -> None:
    with opened(RunnerChoice(name="sim", faults=("s4-as-u4",))) as ready:
        begun = campaign(ready, tmp_path, cases=16, only="wmma*s4*", images=16)
        (family, *_) = begun.run().families
        assert family.saved is not None
        look = Bucket.of(family.case.kind, "what it looks like")
        for replayed in (frozenset[Bucket](), frozenset({family.bucket})):
            job = Examination(corpus=tmp_path, id=family.saved.id, bucket=look, replayed=replayed)
            begun.pool.give(job)
            (event,) = begun.pool.poll(0.0)
            assert isinstance(event, RoundEnd)
            assert isinstance(event.report, Found)
            assert event.report.bucket == family.bucket
            assert (KERNEL in event.report.files) is (not replayed)
            assert event.report.case is not None


def test_a_transient_is_flaky_with_its_rate(tmp_path: Path) -> None:
    progress = run(
        tmp_path, cases=320, only="wmma.mma*m8n8k32*", faults=("transient-often",), seed=2
    )
    assert {family.case.kind for family in progress.families} == {Kind.FLAKY}
    for entry in entries(tmp_path):
        # Some programs have several multiplications, of which one in 50 is hit.
        assert 1 / 150 < entry.finding.details["rate"] < 1 / 5
        assert entry.finding.details["copies"] == COPIES
    assert set(replayed(tmp_path, faults=(), ptx_pass="none").values()) == {"gone"}


@pytest.mark.parametrize(("copies", "said"), [(1, True), (64, True), (512, True), (COPIES, False)])
def test_what_it_takes_many_warpgroups_to_show_is_made_smaller(
    tmp_path: Path, copies: int, said: bool
) -> None:
    case = found(0).case
    assert case is not None
    case = msgspec.structs.replace(case, details={"copies": copies})
    with opened(RunnerChoice(name="sim", target="sm_90")) as ready:
        assert campaign(ready, tmp_path, cases=8).plan.shrinks(case) is said


def test_a_ptx_pass_that_breaks_programs_is_found(tmp_path: Path) -> None:
    progress = run(tmp_path, cases=32, images=8, only="*s8*satfinite", ptx_pass=SATURATED)
    assert {family.case.kind for family in progress.families} == {Kind.VIOLATION}
    assert set(replayed(tmp_path, ptx_pass=SATURATED).values()) == {"reproduced"}
    assert set(replayed(tmp_path, faults=(), ptx_pass="none").values()) == {"gone"}
    assert all("rewritten.ptx" in entry.finding.files for entry in entries(tmp_path))


def test_a_ptx_pass_that_fails_now_and_then_is_a_compile_failure(tmp_path: Path) -> None:
    progress = run(
        tmp_path, cases=64, images=8, only="*m16n16k16.s32*", ptx_pass=REFUSES_S8, seed=4
    )
    (failure,) = progress.families
    assert failure.case.kind is Kind.COMPILE_FAILURE
    assert progress.counts["programs", "compiled"]
    assert progress.counts["programs", "failed"]
    assert set(replayed(tmp_path, ptx_pass=REFUSES_S8).values()) == {"reproduced"}
