"""A matrix on a device that is wrong once: what the same binary does not do again is a finding."""

from __future__ import annotations

from typing import Any

import pytest
from test_matrix_on_a_stand_in import DRIVERS, IMAGES, Quiet

from corpus import Kind
from fuzz.checks.compilers import MatrixRounds
from fuzz.checks.protocol import RoundJob, RoundPlan, RoundReport
from fuzz.checks.rounds import Work
from fuzz.compilers.matrix import Matrix
from fuzz.compilers.members import Place
from fuzz.runner import OpenRunner, RunnerChoice
from runners.protocol import Compiled, Failure, Images, Ran
from runners.simulated_runner import SimulatedRunner
from strategies.draws import Selection
from strategies.rounds import Versions, selected_forms


class Unsteady(SimulatedRunner):
    """Leaves an image of some launches as it was."""

    launches = 0
    wrong: Any = ()

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran | Failure:
        ran = super().run(compiled, images, entry=entry)
        self.launches += 1
        if self.launches in self.wrong and len(images) > 1 and isinstance(ran, Ran):
            changed = ran.images.copy()
            changed[1] = images[1]
            return Ran(images=changed, sms=ran.sms, seconds=ran.seconds)
        return ran


def round_of(wrong: Any) -> tuple[RoundReport, int]:
    with Unsteady() as runner:
        runner.wrong = wrong
        opened = OpenRunner(
            choice=RunnerChoice(name="sim"), runner=runner, target="sm_90", ptx_version="8.0",
            version="none", device="a stand-in",
        )  # fmt: skip
        place = Place(
            device=runner, opened=opened, target="sm_90", ptx_version="8.0", architecture="sm_90"
        )
        selection = Selection(pattern="wmma.mma*row.col.m16n16k16.f32.f32")
        forms = selected_forms(selection, target="sm_90", version="8.0")
        with Matrix(place.device, DRIVERS[:1], jobs=1) as matrix:
            rounds = MatrixRounds(
                matrix, place, forms=forms, versions=Versions.only("8.0"), seed=3,
                disassembler=None, heartbeat=Quiet(),
            )  # fmt: skip
            drawn = RoundPlan(work=Work(count=IMAGES), cases=32 * IMAGES)
            report = rounds.report(RoundJob(number=0, plan=drawn, limit=4 * IMAGES))
        return report, runner.launches


@pytest.mark.parametrize(("wrong", "kinds"), [((2,), {Kind.FLAKY}), (range(1000), set())])
def test_what_comes_out_otherwise_in_the_same_launch_is_flaky(wrong: Any, kinds: set[Kind]) -> None:
    report, launches = round_of(wrong)
    assert launches >= 4
    assert {one.case and one.case.kind for one in report.suspects.values()} == kinds
    # What is wrong in company every time, and right alone, is only counted.
    assert bool(report.counts["unconfirmed",]) is not bool(kinds)
    for one in report.suspects.values():
        assert one.case is not None
        assert one.files["expected.npy"] != one.files["actual.npy"]
