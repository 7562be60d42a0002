"""Campaigns on runners that fail: the right verdict and exit code, soon, with nothing lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from command_line import ROOT, warpfuzz
from cuda_fakes import FAKES
from value_runs import campaign, entries, run

from corpus import Kind, ShrinkStatus
from fuzz.runner import OpenRunner, RunnerChoice, rewriters
from oracle.errors import DeviceLostError, InfrastructureError
from runners.cuda import supervisor
from runners.cuda.runner import CudaRunner
from runners.foreign import RewritingRunner

BREAKING = Path(__file__).parent / "fakes"
SOON = 90.0
"""Seconds in which all of this must be over, on a machine that does other things as well."""


@contextmanager
def ready(trouble: str = "", **environment: str) -> Iterator[OpenRunner]:
    """Open a runner over the stand-in; afterwards nothing of it is left."""
    start = time.monotonic()
    variables = {"PYTHONPATH": str(BREAKING), "FAKE_TROUBLE": trouble, **environment}
    with CudaRunner(environment=variables, deadline=1.0 if trouble == "hang" else 60.0) as runner:
        yield OpenRunner(
            choice=RunnerChoice(name="cuda"), runner=runner, target="sm_90", ptx_version="8.0",
            version="none", device="a stand-in",
        )  # fmt: skip
        pid = runner.pid
    if pid is not None:
        with pytest.raises(ProcessLookupError):
            os.killpg(pid, 0)
    assert time.monotonic() - start < SOON


def test_a_device_that_works_gives_no_finding(tmp_path: Path) -> None:
    with ready() as opened:
        progress = campaign(opened, tmp_path, images=8, cases=32).run()
    assert progress.compared == 32
    assert not progress.families


def test_another_level_is_tried_on_the_device_that_is_there(tmp_path: Path) -> None:
    with ready() as opened:
        fault = ("accumulator-ignored",)
        choice = replace(opened.choice, faults=fault)
        faulty = RewritingRunner(opened.runner, rewriters(fault, None))
        changed = replace(opened, choice=choice, runner=faulty)
        found = campaign(changed, tmp_path, images=2, cases=16, only="wmma.mma*m8n8k4*")
        found.triage.shrinks = lambda case: False
        assert found.run().families
    for entry in entries(tmp_path):
        assert entry.finding.details["at -O0"] == entry.finding.kind.value


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [("misaligned", Kind.LAUNCH_FAILURE), ("hang", Kind.HANG), ("kill", Kind.CRASH)],
)
def test_trouble_is_a_finding_with_the_image_that_made_it(
    tmp_path: Path, trouble: str, kind: Kind
) -> None:
    with ready(trouble, FAKE_CHOSEN=str(tmp_path / "chosen")) as opened:
        progress = campaign(opened, tmp_path, images=12, cases=24, only="*m8n8k4*").run()
    assert {family.case.kind for family in progress.families} == {kind}
    # Everything else of these batches was compared, and is right.
    assert progress.compared > 0
    assert progress.compared + progress.failed + progress.unasked == progress.cases == 24
    assert progress.failed > 0 or trouble not in ("misaligned", "refuse")
    for entry in entries(tmp_path):
        assert "input.npy" in entry.finding.files
        assert entry.finding.details["rate"] == 1
        # Each hang costs a deadline, each crash the process that drives the device.
        assert (entry.finding.shrink is ShrinkStatus.RAW) is (kind is not Kind.LAUNCH_FAILURE)


def test_a_child_killed_in_the_middle_costs_nothing_but_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is run again, and that something was flaky is kept."""
    with ready() as opened:
        runner = opened.runner
        assert isinstance(runner, CudaRunner)
        submit, batches = runner.submit, count(1)

        def killing(*arguments: Any, **options: Any) -> object:
            submitted = submit(*arguments, **options)
            if next(batches) == 3:
                assert runner.pid is not None
                os.killpg(runner.pid, signal.SIGKILL)
            return submitted

        monkeypatch.setattr(runner, "submit", killing)
        progress = campaign(opened, tmp_path, images=8, cases=32).run()
        assert runner.starts == 2
    assert progress.compared == progress.cases == 32
    assert {family.case.kind for family in progress.families} <= {Kind.FLAKY}


def test_a_device_that_does_not_come_back_ends_the_campaign_with_its_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_PAUSE", 0.01)
    with ready(
        "hang", FAKE_CHOSEN=str(tmp_path / "chosen"), FAKE_STATE=str(tmp_path / "state")
    ) as opened:
        running = campaign(opened, tmp_path / "corpus", images=8, cases=160)
        with pytest.raises(DeviceLostError):
            running.run()
    kinds = {family.case.kind for family in running.status().families}
    assert kinds == {Kind.DEVICE_LOST}
    assert [entry.finding.kind for entry in entries(tmp_path / "corpus")] == [Kind.DEVICE_LOST]


def test_a_compiler_that_compiles_nothing_ends_the_campaign(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="none of 24 programs was compiled"):
        run(tmp_path, cases=4000, only="*m8n8k4*", ptx_pass="false")
    assert {entry.finding.kind for entry in entries(tmp_path)} == {Kind.COMPILE_FAILURE}


@pytest.mark.parametrize(
    ("fake", "mode", "code", "words"),
    [
        pytest.param("driverless", "", 3, "install the driver", marks=pytest.mark.slow),
        ("working", "gone", 4, "finds no device"),
        ("working", "", 0, ""),
    ],
)
def test_what_is_missing_decides_the_exit_code(
    tmp_path: Path, fake: str, mode: str, code: int, words: str
) -> None:
    options = (
        "--runner",
        "cuda",
        "--cases",
        40,
        "--only",
        "*m8n8k4*",
        "--no-device-reference",
        "--json",
    )
    path = f"{FAKES / fake}:{ROOT}"
    ran = warpfuzz(tmp_path, "run", *options, PYTHONPATH=path, FAKE_DEVICE=mode)
    assert ran.code == code
    assert words in " ".join(ran.err.split())
    if code == 0:
        assert ran.summary["target"] == "sm_90"
        assert ran.summary["compared"] == 40


def test_an_assembler_that_prints_garbage_is_an_infrastructure_failure_with_findings(
    tmp_path: Path,
) -> None:
    broken = tmp_path / "ptxas"
    broken.write_text("#!/bin/sh\necho garbage\n")
    broken.chmod(0o755)
    ran = warpfuzz(
        tmp_path, "run", "--runner", "cuda", "--assembler", broken, "--target", "sm_90",
        "--cases", 60, "--json",
        PYTHONPATH=f"{FAKES / 'working'}:{ROOT}",
    )  # fmt: skip
    assert ran.code == 3
    assert "wrote no machine code" in ran.err
    assert {finding["kind"] for finding in ran.findings} == {"compile failure"}
