"""A matrix on a stand-in for a GPU: the driver's compiler at several levels, sound and broken."""

from pathlib import Path

import pytest
from command_line import CudaSubprocess

from corpus import Kind
from fuzz.checks.compilers import MatrixRounds
from fuzz.checks.protocol import RoundJob, RoundPlan
from fuzz.checks.rounds import Work
from fuzz.compilers.matrix import Matrix
from fuzz.compilers.members import Member, MemberRunner, Place, device_of
from fuzz.runner import OpenRunner, RunnerChoice
from runners.cuda.runner import CudaRunner
from runners.toolchains import DRIVER
from strategies.draws import Selection
from strategies.rounds import Versions, selected_forms

BREAKING = Path(__file__).parents[1] / "values" / "fakes"
DRIVERS = (Member(toolchain=DRIVER, level=1), Member(toolchain=DRIVER, level=3))
IMAGES = 16


class Quiet:
    """Is told what a worker does, and wants nothing."""

    interrupted = False

    def enter(self, stage, *, round=None):  # noqa: A002
        """Hear that a stage begins."""

    def count(self, cases):
        """Hear of cases."""

    def beat(self):
        """Hear a sign of life."""


@pytest.fixture(autouse=True)
def started_already(monkeypatch):
    monkeypatch.setattr("runners.children.subprocess", CudaSubprocess)


def round_of(*, programs=4, **environment):
    """Carry out a round over the driver's levels on the stand-in; return its report."""
    variables = {"PYTHONPATH": str(BREAKING), **environment}
    with CudaRunner(environment=variables, deadline=60.0) as runner:
        opened = OpenRunner(
            choice=RunnerChoice(name="cuda"), runner=runner, target="sm_90", ptx_version="8.0",
            version="none", device="a stand-in",
        )  # fmt: skip
        place = Place(
            device=device_of(opened), opened=opened, target="sm_90", ptx_version="8.0",
            architecture="sm_90",
        )  # fmt: skip
        selection = Selection(pattern="wmma.mma*row.col.m16n16k16.f32.f32")
        forms = selected_forms(selection, target="sm_90", version="8.0")
        with Matrix(place.device, DRIVERS, jobs=2) as matrix:
            assert matrix.device.architecture("sm_80") == "sm_90"
            rounds = MatrixRounds(
                matrix, place, forms=forms, versions=Versions.only("8.0"), seed=3,
                disassembler=None, heartbeat=Quiet(),
            )  # fmt: skip
            drawn = RoundPlan(work=Work(count=IMAGES), cases=32 * IMAGES)
            report = rounds.report(RoundJob(number=0, plan=drawn, limit=programs * IMAGES))
            assert report.compared + report.failed + report.unasked == report.cases
            return report


def test_levels_of_the_driver_are_members_and_agree():
    report = round_of()
    assert report.counts["programs",] >= 4
    assert report.counts["binaries",] == report.counts["distinct",]
    assert report.compared == report.cases == 4 * IMAGES
    assert report.counts["images",] == 2 * report.cases
    assert not report.suspects
    assert report.counts["differences",] == 0
    assert not report.complete


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [
        pytest.param("misaligned", Kind.LAUNCH_FAILURE, marks=pytest.mark.slow),
        ("kill", Kind.CRASH),
    ],
)
def test_what_brings_the_device_down_with_every_compiler_is_said_so(tmp_path, trouble, kind):
    chosen = str(tmp_path / "chosen")
    report = round_of(programs=4, FAKE_TROUBLE=trouble, FAKE_CHOSEN=chosen)
    kinds = {one.case and one.case.kind for one in report.suspects.values()}
    assert kinds <= {kind, Kind.FLAKY}
    assert kinds or report.counts["unconfirmed",]


def test_a_member_runs_on_the_device_of_the_others(tmp_path):
    with CudaRunner(environment={"PYTHONPATH": str(BREAKING)}) as runner:
        with MemberRunner(runner, DRIVERS[0]) as one:
            assert one.capabilities() == runner.capabilities()
        assert runner.pid is not None
