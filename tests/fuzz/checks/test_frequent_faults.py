"""A fault that many images meet costs the rate little: a few are looked into, the rest counted."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from unittest.mock import Mock

import pytest

from corpus import Kind
from fuzz.bench import Silence
from fuzz.checks import program_rounds
from fuzz.checks.programs import Programs
from fuzz.checks.protocol import RoundJob, RoundReport
from fuzz.runner import OpenRunner, RunnerChoice, opened
from runners.kernels import KernelModule
from runners.protocol import Compiled, Failure, ForwardingRunner, Images, Pending, Trouble
from strategies.draws import Selection

ROUNDS = 2
FLIPPED = RunnerChoice(name="sim", layout=1, ptx_version="8.7", faults=("load-a-layout-flipped",))
OUTSIDE = RunnerChoice(
    name="sim",
    layout=1,
    ptx_version="8.7",
    ptx_pass=r"sed -E 's/(wmma\.store\.d\.sync\.aligned)\.row/\1.col/'",
)
WIDE = "wmma.mma*m8n32k16*"
"""A D of eight rows: by columns, with the stride of its rows, it ends behind its buffer."""


class Counting(ForwardingRunner):
    """A runner that counts what it is asked."""

    def __init__(self, ready: OpenRunner) -> None:
        super().__init__(ready.runner)
        self.compiled = self.ran = 0
        self.failed = Counter[str]()
        """Runs that failed, by the code of the kernel."""

    def compile(self, module: KernelModule) -> Compiled | Failure:
        self.compiled += 1
        return super().compile(module)

    def submit(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Pending:
        self.ran += 1
        return super().submit(compiled, images, entry=entry)

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None):
        ran = self.submit(compiled, images, entry=entry).collect()
        self.failed[f"{compiled.key} {entry}"] += isinstance(ran, Failure)
        return ran


class Refusing(Counting):
    """A runner that cannot be asked about anything."""

    def compile(self, module: KernelModule) -> Compiled | Failure:
        return Failure(trouble=Trouble.UNSUPPORTED, message="no words for that")


def reports(
    choice: RunnerChoice,
    settled: frozenset[str] = frozenset(),
    made: type[Counting] = Counting,
    only: str = "*",
) -> tuple[list[RoundReport], Counting]:
    """Carry out rounds, and count what the runner was asked."""
    check = Programs(choice=choice, seed=6, selection=Selection(pattern=only))
    with opened(choice) as ready, ExitStack() as stack:
        counting = made(ready)
        opened_check = check.on_runner(replace(ready, runner=counting), Silence(), stack)
        plan = check.plan(opened_check.facts)
        known = plan.coverage()
        jobs = [
            RoundJob(number=number, plan=plan.round(number, known), settled=settled)
            for number in range(ROUNDS)
        ]
        return [opened_check.round(job) for job in jobs], counting


@cache
def outside() -> tuple[list[RoundReport], Counting]:
    return reports(OUTSIDE, only=WIDE)


def families(made: list[RoundReport]) -> dict[str, Kind]:
    return {
        key: one.case.kind
        for report in made
        for key, one in report.suspects.items()
        if one.case is not None
    }


def test_of_settled_families_nothing_is_compiled_and_every_case_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    experiments = Mock(side_effect=program_rounds.shared_register_culprits)
    monkeypatch.setattr(program_rounds, "shared_register_culprits", experiments)
    first, _ = reports(FLIPPED)
    assert experiments.called
    experiments.reset_mock()
    settled = frozenset(families(first))
    again, asked = reports(FLIPPED, settled)
    assert asked.compiled == ROUNDS
    assert not experiments.called
    counts = [
        sum((Counter({key: one.cases}) for report in made for key, one in report.suspects.items()),
            Counter())
        for made in (first, again)
    ]  # fmt: skip
    assert counts[0] == counts[1]
    assert counts[0].total() > 10


def test_what_costs_the_device_is_not_looked_for_again() -> None:
    """On a GPU, each run that ends so takes the device a second or two."""
    first, before = outside()
    failed = {key for key, kind in families(first).items() if kind is Kind.LAUNCH_FAILURE}
    assert failed
    again, asked = reports(OUTSIDE, frozenset(failed), only=WIDE)
    assert asked.ran < before.ran
    for report in again:
        assert report.compared + report.failed + report.unasked == report.cases
    assert failed <= {key for report in again for key in report.suspects}


def test_what_fails_whatever_images_hold_is_run_once_more() -> None:
    made, asked = outside()
    assert sum(report.failed for report in made)
    assert set(asked.failed.values()) <= {0, 1}
    # Of each such program one image is shown, and the others are not asked about.
    assert sum(report.unasked for report in made) > sum(report.failed for report in made)


def test_a_program_that_cannot_be_asked_about_counts_once_and_is_no_finding() -> None:
    made, _ = reports(FLIPPED, made=Refusing)
    for report in made:
        assert not report.suspects
        assert report.counts["programs", "unsupported"] == report.cases == report.unasked > 0
        assert report.counts["programs", "compiled"] == report.compared == report.failed == 0
