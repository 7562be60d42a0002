"""A matrix on a stand-in for a GPU: the driver's compiler at several levels, sound and broken."""

from pathlib import Path

import pytest

from corpus import Kind, create_corpus
from corpus.known import Known
from fuzz.campaign.draws import Selection
from fuzz.campaign.limits import Budget
from fuzz.checks.compilers import MatrixCampaign, Plan
from fuzz.compilers.matrix import Matrix
from fuzz.compilers.members import Member, MemberRunner, device_of
from fuzz.runner import OpenRunner, RunnerChoice
from runners.cuda.runner import CudaRunner

BREAKING = Path(__file__).parents[1] / "values" / "fakes"
DRIVERS = (Member(assembler=None, level=1), Member(assembler=None, level=3))


class Silent:
    """Watches a campaign and says nothing."""

    def progressed(self, progress):
        """Hear that counters changed."""

    def found(self, progress, family):
        """Hear of a family."""


def campaign(folder, *, programs=4, **environment):
    """Run a campaign over the driver's levels on the stand-in; return what it did."""
    variables = {"PYTHONPATH": str(BREAKING), **environment}
    with CudaRunner(environment=variables, deadline=2.0) as runner:
        opened = OpenRunner(
            choice=RunnerChoice(name="cuda"), runner=runner, target="sm_90", ptx_version="8.0",
            version="none", device="a stand-in",
        )  # fmt: skip
        with Matrix(device_of(opened), DRIVERS, jobs=2) as matrix:
            assert matrix.device.architecture("sm_80") == "sm_90"
            return MatrixCampaign(
                matrix,
                Plan(
                    target="sm_90", ptx_version="8.0", architecture="sm_90",
                    selection=Selection(pattern="wmma.mma*row.col.m16n16k16.f32.f32"),
                    budget=Budget(seconds=60.0, cases=None), seed=3, images=16, programs=programs,
                ),
                opened=opened,
                corpus=create_corpus(folder, generator="a test"),
                known=Known(entries=()),
                observer=Silent(),
            ).run()  # fmt: skip


def test_levels_of_the_driver_are_members_and_agree(tmp_path):
    progress = campaign(tmp_path / "corpus")
    assert progress.programs == 4
    assert progress.binaries == progress.distinct == 8
    assert progress.judged == 2 * progress.cases > 0
    assert not progress.families
    assert progress.differences == 0


@pytest.mark.parametrize(
    ("trouble", "kind"), [("misaligned", Kind.LAUNCH_FAILURE), ("kill", Kind.CRASH)]
)
def test_what_brings_the_device_down_with_every_compiler_is_said_so(tmp_path, trouble, kind):
    progress = campaign(tmp_path / "corpus", programs=8, FAKE_TROUBLE=trouble)
    kinds = {family.kind for family in progress.families.values()}
    assert kinds <= {kind, Kind.FLAKY}
    assert kinds or progress.unconfirmed


def test_a_member_runs_on_the_device_of_the_others(tmp_path):
    with CudaRunner(environment={"PYTHONPATH": str(BREAKING)}) as runner:
        with MemberRunner(runner, DRIVERS[0]) as one:
            assert one.capabilities() == runner.capabilities()
        assert runner.pid is not None
