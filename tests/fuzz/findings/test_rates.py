"""A binary that is wrong once in so many runs: its rate, and how sure it is that one is right."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matrix_rounds import Quiet
from repro_cases import half, multiplication, stored

from corpus import Entry, Kind, ShrinkStatus
from corpus.finding import WRONG_STEP
from fuzz.checks.examining import Examiner
from fuzz.checks.protocol import Examination
from fuzz.diagnosis.experiments import Culprit, ExperimentDevice
from fuzz.findings.case import Evidence, case_of, subject_for, subject_of
from fuzz.findings.families import Bucket
from fuzz.findings.replay import rate_of, repeats_for, shown_by
from fuzz.findings.verdicts import Answer, asked, probe
from fuzz.runner import BeatingRunner, OpenRunner, RunnerChoice, opened
from oracle.execution.execution import execute
from oracle.isa.lookup import form_of
from oracle.program.program import Program
from runners.kernels import KernelModule
from runners.protocol import (
    ClosedAtTheEnd,
    Collected,
    Compiled,
    Failure,
    ForwardingRunner,
    Images,
    Pending,
    Ran,
    Runner,
    Trouble,
)
from strategies.programs.warpgroups import plain_multiplication


class Rare(ClosedAtTheEnd):
    """Runs one program, each execution wrong with a probability, in one of a few ways."""

    def __init__(self, entry: Entry, rate: float) -> None:
        self.subject, self.rate = subject_of(entry), rate
        self.after = execute(self.subject.program, self.subject.image[None]).images
        self.random = np.random.Generator(np.random.Philox(1))
        self.executions = self.failed = self.launches = 0
        self.wrong_byte = int(np.flatnonzero(self.after[0] != self.subject.image)[0])

    def compile(self, module: KernelModule) -> Compiled:
        return Compiled(module=module, architecture="sm_90", compiler="rare", key="k", code=b"")

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran:
        made = np.repeat(self.after, len(images), axis=0)
        hit = self.random.random(len(images)) < self.rate
        made[hit, self.wrong_byte] ^= 1 << self.random.integers(0, 8, hit.sum(), np.uint8)
        self.launches, self.executions = self.launches + 1, self.executions + len(images)
        self.failed += int(hit.sum())
        return Ran(images=made, sms=np.zeros(len(images), np.uint32), seconds=0.0)

    def submit(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Collected:
        return Collected(outcome=self.run(compiled, images, entry=entry))

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def entry(tmp_path_factory: pytest.TempPathFactory) -> Entry:
    return stored(
        tmp_path_factory.mktemp("found"), multiplication(half()), faults=("accumulator-ignored",)
    )


def opened_as(runner: Rare, entry: Entry) -> OpenRunner:
    return OpenRunner(
        choice=RunnerChoice(name="sim"), runner=runner, target="sm_90",
        ptx_version=entry.finding.ptx_version, version="", device="",
    )  # fmt: skip


def answer(entry: Entry, runner: Rare, times: int) -> Answer:
    subject = subject_for(entry, target="sm_90", version=entry.finding.ptx_version)
    return asked(partial(probe, runner, subject), times=times)


@settings(max_examples=5, deadline=None)
@given(times=st.integers(1, 5000), rate=st.sampled_from([0, 1e-3, 0.3, 1]))
def test_each_execution_is_a_run_however_many_there_are_at_once(
    entry: Entry, times: int, rate: float
) -> None:
    runner = Rare(entry, rate)
    found = answer(entry, runner, times)
    assert found.runs == found.executions == runner.executions == times
    assert found.failed == runner.failed
    assert found.bad is bool(runner.failed)
    assert min(times, 10) <= runner.launches < 20
    assert len(found.samples) <= 1 + 8 + 1


class _Poisoned(Rare):
    def submit(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Collected:
        self.launches += 1
        return Collected(outcome=Failure(trouble=Trouble.STICKY_ERROR, message="poisoned"))


def test_an_experiment_that_fails_runs_no_copies_of_an_image_apart(entry: Entry) -> None:
    runner = _Poisoned(entry, 0.0)
    subject = runner.subject
    device = ExperimentDevice(BeatingRunner(runner, lambda: None), subject.module, copies=8)
    found = device.results(subject.program, np.repeat(subject.image[None], 2, axis=0))
    assert found is not None
    assert found.wrong.all()
    assert found.failed == dict.fromkeys(range(2), Kind.LAUNCH_FAILURE)
    assert runner.launches == 3  # of both, and of each


def test_once_in_a_thousand_is_found_in_as_many_runs_as_its_rate_asks_for(entry: Entry) -> None:
    found = answer(entry, Rare(entry, 1e-3), repeats_for(1e-3))
    assert found.bad
    assert found.flaky
    assert answer(entry, Rare(entry, 0), 20_000).executions == 20_000


@pytest.mark.parametrize("rate", [0, 1e-3, 1 / 20, 1])
def test_a_finding_that_did_not_come_again_is_told_with_its_rate(entry: Entry, rate: float) -> None:
    runner = Rare(entry, rate)
    ready = opened_as(runner, entry)
    examiner = Examiner(ready, Quiet())
    subject, attempts = examiner._measured(entry, runner.subject, [])
    finding = entry.finding
    made = Evidence(
        kind=Kind.FLAKY,
        bucket=Bucket(kind=finding.kind, identity=finding.identity),
        subject=subject,
        attempts=attempts,
    )
    assert finding.origin is not None
    case = case_of(made, ready, origin=finding.origin, status=finding.shrink)
    told = case.details["rate"]
    assert isinstance(told, float)
    if rate == 0:
        # It was seen once, and not again in 10,000 executions.
        assert 0 < told <= 1 / 10_000
    else:
        assert told == runner.failed / runner.executions
        assert rate / 2.5 < told < 2.5 * rate
    assert runner.executions <= 10_240
    launches = rate_of(msgspec.structs.replace(finding, details=case.details))
    assert launches == pytest.approx(case.details["failed runs"] / case.details["runs"])
    assert repeats_for(launches) * subject.copies >= 1 / max(told, 1e-3)


def test_what_so_many_runs_show_is_what_they_do_not_miss() -> None:
    for runs in (1, 2, 1000, 20_000):
        assert (1 - shown_by(runs)) ** runs == pytest.approx(0.05)


class Once(Rare):
    """Is wrong in its second launch alone, as what is in flight may be."""

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran:
        self.rate = float(self.launches == 1)
        return super().run(compiled, images, entry=entry)


def test_a_warpgroup_that_was_wrong_once_in_its_replays_is_no_false_alarm(tmp_path: Path) -> None:
    form = form_of("wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16")
    entry = stored(
        tmp_path, plain_multiplication(form), target="sm_90a", faults=("group-halves-exchanged",)
    )
    runner = Once(entry, 0.0)
    kind, _, attempts = Examiner(opened_as(runner, entry), Quiet())._replayed(entry, runner.subject)
    assert kind is Kind.FLAKY
    assert attempts[0].failed == 1


@pytest.mark.parametrize(
    ("rate", "most", "seed"), [*((1 / 3, 64, seed) for seed in range(8)), (1 / 64, 512, 0)]
)
def test_a_warpgroup_that_is_wrong_in_some_of_its_copies_is_run_in_enough_of_them(
    tmp_path: Path, rate: float, most: int, seed: int
) -> None:
    form = form_of("wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16")
    entry = stored(
        tmp_path, plain_multiplication(form), target="sm_90a", faults=("group-halves-exchanged",)
    )
    runner = Rare(entry, rate)
    runner.random = np.random.Generator(np.random.Philox(seed))
    kind, subject, attempts = Examiner(opened_as(runner, entry), Quiet())._replayed(
        entry, runner.subject
    )
    # In none of three copies, some, or all: what is made smaller needs more.
    assert kind not in (None, Kind.FLAKY)
    assert 8 <= subject.copies <= most
    assert all(one.failed for one in attempts)


class Racing(ForwardingRunner):
    """Is wrong as one device is in some of its executions, and in all others as another."""

    def __init__(self, wrong: Runner, right: Runner, rate: float) -> None:
        super().__init__(wrong)
        self.right, self.rate = right, rate
        self.random = np.random.Generator(np.random.Philox(1))

    def submit(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Pending:
        same = {image.tobytes(): number for number, image in reversed([*enumerate(images)])}
        own = sorted(same.values())
        copy = [own.index(same[image.tobytes()]) for image in images]
        ways = [one.run(compiled, images[own], entry=entry) for one in (self.inner, self.right)]
        made = np.stack([way.images[copy] for way in ways if isinstance(way, Ran)])
        late = (self.random.random(len(images)) >= self.rate).astype(int)
        sms = np.zeros(len(images), np.uint32)
        ran = Ran(images=made[late, np.arange(len(images))], sms=sms, seconds=0.0)
        return Collected(outcome=ran)

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran | Failure:
        return self.submit(compiled, images, entry=entry).collect()


def test_a_warpgroup_that_is_wrong_in_a_few_of_its_copies_is_made_smaller(tmp_path: Path) -> None:
    form = form_of("wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16")
    entry = stored(
        tmp_path, plain_multiplication(form), target="sm_90a", faults=("group-halves-exchanged",)
    )
    kind = entry.finding.kind
    with (
        opened(RunnerChoice(name="sim", target="sm_90a")) as right,
        opened(replace(right.choice, faults=("group-halves-exchanged",))) as wrong,
    ):
        racing = replace(wrong, runner=Racing(wrong.runner, right.runner, 1 / 64))
        job = Examination(
            corpus=tmp_path, id=entry.id, bucket=Bucket(kind=kind, identity=entry.finding.identity),
            seconds=60.0, replayed=frozenset(),
        )  # fmt: skip
        begin, end = subject_of(entry), time.monotonic() + 6
        found, status = Examiner(racing, Quiet())._shrunk(entry, begin, job, end)
    assert status is not ShrinkStatus.FLAKY
    assert found is not None
    assert found.kind is kind
    assert found.subject.copies > 64


@pytest.mark.parametrize("condition", ["in flight with a in registers", "in a loop"])
def test_of_a_warpgroup_that_has_its_name_no_experiment_is_made_before_it_is_smaller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, condition: str
) -> None:
    form = form_of("wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16")
    faults = ("group-halves-exchanged",)
    entry = stored(tmp_path, plain_multiplication(form), target="sm_90a", faults=faults)
    names = ("wgmma.mma_async",)
    bucket = Bucket.of(entry.finding.kind, *names, condition="in flight with a in registers")
    told = msgspec.structs.replace(
        entry.finding, identity=bucket.identity,
        details={**entry.finding.details, WRONG_STEP: "multiplication 2 of 3"},
    )  # fmt: skip
    asked = []

    def culprit(device: ExperimentDevice, program: Program, image: Images) -> Culprit:
        asked.append(program)
        return Culprit(instructions=names, condition=condition, which="multiplication 1 of 1")

    monkeypatch.setattr("fuzz.checks.examining.culprit_of", culprit)
    with opened(RunnerChoice(name="sim", target="sm_90a", faults=faults)) as wrong:
        job = Examination(corpus=tmp_path, id=entry.id, bucket=bucket, seconds=60.0)
        found, _ = Examiner(wrong, Quiet())._shrunk(
            replace(entry, finding=told), subject_of(entry), job, time.monotonic() + 2
        )
    assert found is not None
    assert asked == [found.subject.program]
    # What is left is named anew, but never by another's name.
    assert found.bucket == bucket
    same = condition == bucket.identity.condition
    assert found.culprit == f"multiplication {'1 of 1' if same else '2 of 3'}"
