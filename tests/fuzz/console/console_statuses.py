"""Campaigns as a console is told of them: drawn ones, and some that are like real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from corpus import Case, Identity, Kind, RunnerVerdict, Saved, ShrinkStatus
from corpus.finding import WRONG_STEP
from corpus.known import RecordRow
from fuzz.campaign.status import CampaignStatus, WorkerStatus
from fuzz.checks.protocol import CheckWords, Counts, DeviceStatus, ShownCounter, Stage
from fuzz.findings.families import Bucket, FamilyState
from strategies.rounds import CoverageLine

FEW = settings(max_examples=30)
"""A drawn campaign is large, and each costs tens of milliseconds."""


def known_entry(name: str) -> RecordRow:
    return RecordRow(id=name, identity=Identity.of(Kind.CRASH, "x"), builds=frozenset())


def family(
    kind: Kind,
    what: str,
    cases: int,
    *,
    known: RecordRow | None = None,
    provisional: bool = False,
    text: str = "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32",
    message: str = "d[0, 0]: expected 0x3f800000, actual 0x3f800001",
    runners: tuple[RunnerVerdict, ...] = (),
) -> FamilyState:
    own = RunnerVerdict(runner="cuda", version="1", outcome=kind.value, message=message)
    case = Case(
        kind=kind,
        identity=Identity.of(kind, what),
        instructions=(text,),
        target="sm_90",
        ptx_version="8.0",
        runners=(*runners, own),
        shrink=ShrinkStatus.COMPLETE,
        details={} if provisional else {WRONG_STEP: what},
    )
    return FamilyState(
        bucket=Bucket(kind=kind, identity=case.identity),
        case=case,
        known=known,
        cases=cases,
        saved=Saved(id="0123456789ab", path=Path("corpus/findings/0123456789ab"), new=True),
    )


def worker(number: int, stage: Stage, *, stalled: bool = False) -> WorkerStatus:
    return WorkerStatus(
        number=number,
        device="NVIDIA H200",
        round=1200 + number,
        stage=stage,
        seconds=95.0 if stalled else 0.3,
        cases=9_123_456,
        stalled=stalled,
        shares={
            Stage.DRAW: 0.08,
            Stage.COMPILE: 0.11,
            Stage.EXPAND: 0.14,
            Stage.ORACLE: 0.43,
            Stage.RUN: 0.16,
            Stage.COMPARE: 0.06,
            Stage.WAIT: 0.02,
        },
    )


PROGRAMS, FAILED = ("programs", "compiled"), ("programs", "failed")


def words(**changes: Any) -> CheckWords:
    """Return how a campaign on values is told."""
    fields: dict[str, Any] = {
        "subject": "NVIDIA H200 (2 devices, driver 580.126, ptxas 13.5)",
        "where": "sm_90 · PTX ISA 8.0",
        "case": "image",
        "agreement": "every image that was compared is what the oracle says",
        "nothing_compared": "no program ran",
        "counters": (
            ShownCounter(words=PROGRAMS, one="program"),
            ShownCounter(words=FAILED, one="not compiled", many="not compiled", odd=True),
        ),
    }
    return CheckWords(**(fields | changes))


def counts(compiled: int, failed: int = 0) -> Counts:
    """Return the counters of programs."""
    return Counts({PROGRAMS: compiled, FAILED: failed})


def on_a_gpu(**changes: Any) -> CampaignStatus:
    """Return a campaign on two GPUs, with a worker that hangs and a device with errors."""
    stages = list(Stage) * 3
    fields: dict[str, Any] = {
        "words": words(),
        "seed": 1234567890,
        "seconds": 5025.0,
        "seconds_limit": 7200.0,
        "cases": 4_812_345_678,
        "cases_limit": None,
        "compared": 4_812_340_000,
        "answered": 3,
        "unasked": 512,
        "counts": counts(1_234_567, 3),
        "rounds": 9_876,
        "skipped": {},
        "recent_rate": 1_012_345.0,
        "seconds_since_new": 1_203.0,
        "forms": 1208,
        "forms_reached": 1208,
        "workers": [worker(index, stages[index], stalled=index == 5) for index in range(15)],
        "devices": [
            DeviceStatus(
                name="NVIDIA H200",
                uuid="GPU-8f3c2a10-77aa",
                temperature=61,
                sm_clock=1980,
                errors={"corrected ECC errors": 0, "uncorrected ECC errors": 0},
            ),
            DeviceStatus(
                name="NVIDIA H200",
                uuid="GPU-11d0be42-0001",
                temperature=67,
                sm_clock=1905,
                errors={"corrected ECC errors": 4, "uncorrected ECC errors": 0},
            ),
        ],
        "coverage": [
            CoverageLine(name="forms", reached=1208, total=1208),
            CoverageLine(
                name="value classes", reached=29, total=31, missing=("signaling NaN", "halfway")
            ),
            CoverageLine(name="stride classes", reached=8, total=9, missing=("maximal stride",)),
            CoverageLine(
                name="pairs", reached=3120, total=4096, missing=("f64 × subnormals", "b1 × loop")
            ),
        ],
        "families": [
            family(Kind.VIOLATION, "wmma.mma m16n16k16 f32 f32: as with rows swapped", 18_204),
            family(Kind.FLAKY, "wmma.mma m8n8k4 f64: not the same every time", 3),
            family(Kind.DEVIATION, "wmma.mma m16n16k8 f32 tf32: other result, last bits", 120),
            family(
                Kind.COMPILE_FAILURE,
                "a program: ptxas died",
                2,
                known=known_entry("ptxas-12.4-crash"),
            ),
        ],
        "waiting": 2,
        "gone": 0,
        "stopped": "",
    }
    fields |= changes
    crew = fields["workers"]
    fields["carrying_out"] = sum(not one.examiner for one in crew)
    fields["stalled"] = sum(one.stalled for one in crew)
    return CampaignStatus(**fields)


def at_its_start() -> CampaignStatus:
    return on_a_gpu(
        seconds=0.0, cases=0, compared=0, answered=0, unasked=0, counts=Counts(), rounds=0,
        recent_rate=0.0, seconds_since_new=0.0, workers=[], devices=[], coverage=[],
        families=[], waiting=0,
    )  # fmt: skip


_NAMES = st.text(max_size=40) | st.sampled_from(
    ["\x1b[31mred", "a\nb", "\r", "[bold]x[/]", "‮abc", "漢字" * 30, "\x9b2J", "é" * 50, "\udc80"]
)
_COUNTS = st.integers(0, 10**13)
_SECONDS = st.floats(0, 1e8, allow_nan=False)


def families() -> st.SearchStrategy[FamilyState]:
    known = st.none() | st.builds(known_entry, _NAMES)
    return st.builds(
        family, st.sampled_from(Kind), _NAMES, _COUNTS, known=known, text=_NAMES, message=_NAMES,
        provisional=st.booleans(),
    )  # fmt: skip


def statuses() -> st.SearchStrategy[CampaignStatus]:
    shares = st.dictionaries(st.sampled_from(Stage), st.floats(0, 1))
    workers = st.builds(
        WorkerStatus, number=st.integers(0, 500), device=_NAMES, round=st.integers(-1, 10**9),
        stage=st.sampled_from(Stage), seconds=_SECONDS, cases=_COUNTS, stalled=st.booleans(),
        shares=shares,
    )  # fmt: skip
    devices = st.builds(
        DeviceStatus, name=_NAMES, uuid=_NAMES, temperature=st.none() | st.integers(-10, 120),
        sm_clock=st.none() | st.integers(0, 5000), errors=st.dictionaries(_NAMES, _COUNTS),
    )  # fmt: skip
    coverage = st.builds(
        CoverageLine, name=_NAMES, reached=st.integers(0, 10**5), total=st.integers(0, 10**5),
        missing=st.lists(_NAMES, max_size=4),
    )  # fmt: skip
    return st.builds(
        CampaignStatus,
        words=st.builds(
            words, subject=_NAMES, where=_NAMES, agreement=_NAMES.filter(bool),
            nothing_compared=_NAMES,
        ),
        seed=_COUNTS, seconds=_SECONDS, seconds_limit=st.none() | st.floats(1, 1e8), cases=_COUNTS,
        cases_limit=st.none() | st.integers(1, 10**13), compared=_COUNTS, answered=_COUNTS,
        unasked=_COUNTS, counts=st.builds(counts, _COUNTS, _COUNTS), rounds=_COUNTS,
        skipped=st.just({}), recent_rate=st.floats(0, 1e9),
        seconds_since_new=_SECONDS, forms=_COUNTS,
        forms_reached=_COUNTS, workers=st.lists(workers, max_size=12),
        devices=st.lists(devices, max_size=4), coverage=st.lists(coverage, max_size=6),
        families=st.lists(families(), max_size=12), waiting=_COUNTS,
        gone=_COUNTS, stopped=_NAMES, left_out=st.lists(_NAMES, max_size=3),
    )  # fmt: skip
