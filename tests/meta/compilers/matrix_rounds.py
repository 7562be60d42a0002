"""A round of a campaign that compares compilers, on any device, without a worker around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fuzz.checks.compilers import MatrixRounds
from fuzz.checks.protocol import RoundJob, RoundPlan, RoundReport
from fuzz.checks.rounds import Work
from fuzz.compilers.members import BuildMatrix, Member, RunPlace, device_of
from fuzz.runner import OpenRunner, RunnerChoice
from oracle.isa.forms import Form
from strategies.draws import Selection, only_version
from strategies.rounds import selected_forms

IMAGES = 16
FORMS = selected_forms(
    Selection(pattern="wmma.mma*row.col.m16n16k16.f32.f32"), target="sm_90", version="8.0"
)


class Quiet:
    """Is told what a worker does, and wants nothing."""

    interrupted = False

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


def report_of(
    runner: Any,
    members: Sequence[Member],
    *,
    forms: Sequence[Form] = FORMS,
    version: str = "8.0",
    images: int = IMAGES,
    limit: int = 4 * IMAGES,
    number: int = 0,
    name: str = "cuda",
) -> RoundReport:
    opened = OpenRunner(
        choice=RunnerChoice(name=name), runner=runner, target="sm_90", ptx_version=version,
        version="none", device="a stand-in", release="13.0" if version == "8.4" else "",
    )  # fmt: skip
    device = device_of(opened)
    place = RunPlace(
        device=device, opened=opened, target="sm_90", ptx_version=version, architecture="sm_90"
    )
    with BuildMatrix(device, tuple(members), jobs=2) as matrix:
        rounds = MatrixRounds(
            matrix, place, forms=forms, versions=only_version(version), seed=3,
            heartbeat=Quiet(),
        )  # fmt: skip
        plan = RoundPlan(round=number, work=Work(count=images), cases=32 * images)
        report = rounds.report(RoundJob(number=number, plan=plan, limit=limit))
    assert report.compared + report.failed + report.unasked == report.cases
    return report
