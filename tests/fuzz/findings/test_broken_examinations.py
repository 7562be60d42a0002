"""An experiment that breaks by a defect of warpfuzz costs a finding its name, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from matrix_rounds import Quiet
from repro_cases import half, multiplication, stored

from corpus import Entry, ShrinkStatus
from fuzz.checks import examining
from fuzz.checks.examining import BROKEN, Examiner
from fuzz.checks.protocol import Examination
from fuzz.findings.families import Bucket
from fuzz.runner import OpenRunner, RunnerChoice, open_runner

PLANTED = ("accumulator-ignored",)


@pytest.fixture(scope="module")
def entry(tmp_path_factory: pytest.TempPathFactory) -> Entry:
    return stored(tmp_path_factory.mktemp("found"), multiplication(half()), faults=PLANTED)


@pytest.fixture
def ready(entry: Entry) -> Iterator[OpenRunner]:
    there = open_runner(
        RunnerChoice(name="sim", faults=PLANTED, ptx_version=entry.finding.ptx_version)
    )
    with there.runner:
        yield there


@pytest.mark.parametrize(
    ("seconds", "what"), [(None, "culprit_of"), (1.0, "culprit_of"), (1.0, "shrink")]
)
def test_a_finding_survives_the_end_of_its_examination(
    entry: Entry,
    ready: OpenRunner,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float | None,
    what: str,
) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise ValueError("slice step cannot be zero")

    monkeypatch.setattr(examining, what, breaks)
    bucket = Bucket(kind=entry.finding.kind, identity=entry.finding.identity)
    job = Examination(corpus=entry.path.parents[1], id=entry.id, bucket=bucket, seconds=seconds)
    examined = Examiner(ready, Quiet()).examine(job)
    case = examined.case
    assert case is not None
    assert (examined.bucket, case.identity) == (bucket, bucket.identity)
    assert case.shrink is ShrinkStatus.RAW
    assert case.details[BROKEN] == (
        "ValueError in test_broken_examinations.py, line "
        f"{breaks.__code__.co_firstlineno + 1}: slice step cannot be zero"
    )


@pytest.mark.parametrize("error", [OSError("no space left"), MemoryError()])
def test_what_the_machine_lacks_is_no_defect_of_warpfuzz(
    entry: Entry, ready: OpenRunner, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(examining, "culprit_of", breaks)
    bucket = Bucket(kind=entry.finding.kind, identity=entry.finding.identity)
    job = Examination(corpus=entry.path.parents[1], id=entry.id, bucket=bucket)
    with pytest.raises(type(error)):
        Examiner(ready, Quiet()).examine(job)
