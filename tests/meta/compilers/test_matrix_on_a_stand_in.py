"""A matrix on stand-ins for a GPU: sound, broken, and wrong once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import fast_tool
from matrix_rounds import IMAGES, report_of

from corpus import Kind
from fuzz.compilers.members import Member
from runners.cuda.runner import CudaRunner
from runners.protocol import Collected, Compiled, Failure, Images, Ran, refused
from runners.simulated_runner import SimulatedRunner
from runners.toolchains import DRIVER

BREAKING = Path(__file__).parents[1] / "values" / "fakes"
DRIVERS = (Member(toolchain=DRIVER, level=1), Member(toolchain=DRIVER, level=3))


@pytest.fixture(autouse=True)
def started_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runners.processes.Tool", fast_tool)


def cuda_runner(**environment: str) -> CudaRunner:
    return CudaRunner(environment={"PYTHONPATH": str(BREAKING), **environment}, deadline=60.0)


def test_levels_of_the_driver_are_members_and_agree() -> None:
    with cuda_runner() as runner:
        assert runner.architecture("sm_80") == "sm_90"
        report = report_of(runner, DRIVERS)
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
def test_what_brings_the_device_down_with_every_compiler_is_said_so(
    tmp_path: Path, trouble: str, kind: Kind
) -> None:
    with cuda_runner(FAKE_TROUBLE=trouble, FAKE_CHOSEN=str(tmp_path / "chosen")) as runner:
        assert runner.architecture("sm_90") == "sm_90"
        report = report_of(runner, DRIVERS)
    kinds = {one.case and one.case.kind for one in report.suspects.values()}
    assert kinds <= {kind, Kind.FLAKY}
    assert kinds or report.counts["unconfirmed",]


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


@pytest.mark.parametrize(("wrong", "kinds"), [((1,), {Kind.FLAKY}), (range(1000), set())])
def test_what_comes_out_otherwise_in_the_same_launch_is_flaky(wrong: Any, kinds: set[Kind]) -> None:
    with Unsteady() as runner:
        runner.wrong = wrong
        report = report_of(runner, DRIVERS[:1], name="sim")
    assert runner.launches >= 4
    assert {one.case and one.case.kind for one in report.suspects.values()} == kinds
    # What is wrong in company every time, and right alone, is only counted.
    assert bool(report.counts["unconfirmed",]) is not bool(kinds)
    for one in report.suspects.values():
        assert one.case is not None
        assert one.files["expected.npy"] != one.files["actual.npy"]


class Refusing(SimulatedRunner):
    """Refuses, as a driver that loads PTX, each module with the second program that it gets."""

    said, guilty = "", None

    def load(self, compiled: Compiled) -> Collected[Compiled | Failure]:
        failure = self.refusal(compiled)
        return super().load(compiled) if failure is None else Collected(outcome=failure)

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran | Failure:
        return self.refusal(compiled) or super().run(compiled, images, entry=entry)

    def refusal(self, compiled: Compiled) -> Failure | None:
        programs = compiled.module.programs
        self.guilty = self.guilty or programs["r0_kernel_1"]
        bound = f"{compiled.module.ptx}\n// .maxnreg 80"
        guilty = self.guilty in programs.values()
        return refused("the driver refuses it", self.said, bound) if guilty else None


@pytest.mark.parametrize(
    ("said", "kinds"),
    [("a higher register target", set()), ("Internal error", {Kind.COMPILE_FAILURE})],
)
def test_a_program_that_the_driver_refuses_takes_no_others_along(
    said: str, kinds: set[Kind]
) -> None:
    with Refusing() as runner:
        runner.said = said
        report = report_of(runner, DRIVERS[:1], name="sim")
    assert report.compared > 2 * IMAGES
    assert bool(report.failed) is not bool(report.unasked)
    assert bool(report.failed) is bool(kinds)
    assert {one.case and one.case.kind for one in report.suspects.values()} == kinds
    assert report.counts["unsupported",] == (not kinds)
    assert report.counts["uncompiled",] == len(kinds)
