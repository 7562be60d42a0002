"""Screening names the multiprocessor that is wrong, how often, and goes on after disasters."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from command_line import started, warpfuzz
from small_sets import MODULE, MULTIPROCESSORS, programs_of

from corpus import Kind, create_corpus
from corpus.known import known_with
from fuzz.commands import run
from fuzz.commands import screen as screen_command
from fuzz.console.screening import (
    ScreenedDevice,
)
from fuzz.options import operating
from fuzz.runner import OpenRunner, RunnerChoice, opened
from fuzz.screening.examining import ScreenExaminer, ScreenFinding
from fuzz.screening.screen import ScreenRun, Sighting
from fuzz.screening.sets import ScreeningSet, candidates, describe, judged, numbered, write_set
from oracle.errors import InfrastructureError, UsageError
from oracle.program.steps import Op, PlainAccess
from runners.foreign import RewritingRunner
from runners.kernels import KernelModule
from runners.protocol import Compiled, Failure, Runner, Trouble
from strategies.draws import Selection
from strategies.rounds import selected_forms


@contextmanager
def screening(
    made: ScreeningSet, *faults: str, bursts: bool = False
) -> Iterator[tuple[ScreenRun, deque[Sighting]]]:
    """A screening of a simulated device, and what it has seen."""
    with opened(RunnerChoice(name="sim", target="sm_90", faults=faults)) as ready:
        screen = ScreenRun(ready, made.description, bursts=bursts)
        for program in programs_of(made):
            screen.add(program)
        yield screen, screen.sightings


@pytest.mark.parametrize("bursts", [False, True])
def test_a_sound_device_runs_every_image_everywhere_and_none_differs(
    small_set: ScreeningSet, bursts: bool
) -> None:
    with screening(small_set, bursts=bursts) as (screen, sightings):
        for _ in range(2 * len(small_set.programs)):
            screen.step()
        screen.finish()
        assert not sightings
        tally = screen.tally
        assert tally.multiprocessors.tolist() == list(range(MULTIPROCESSORS))
        assert (tally.cases[:MULTIPROCESSORS] >= small_set.images).all()
        assert tally.total.wrong == 0
        assert tally.total.bound == 3 / tally.total.cases
        assert tally.pattern == ""


@pytest.mark.parametrize(
    ("fault", "sm", "kind"),
    [
        ("stuck-bit-on-one-sm", 1, Kind.VIOLATION),
        ("transient-under-load", 7, Kind.FLAKY),
    ],
)
def test_a_fault_of_one_multiprocessor_is_given_its_number_and_becomes_a_finding(
    small_set: ScreeningSet, tmp_path: Path, fault: str, sm: int, kind: Kind
) -> None:
    corpus = create_corpus(tmp_path / "corpus", generator="test")
    with screening(small_set, fault) as (screen, sightings):
        screen.ready = replace(screen.ready, uuid="GPU-123")
        examiner = ScreenExaminer(screen, device="GPU 2")
        for _ in range(200):
            screen.step()
            if sightings:
                break
        tally = screen.tally
        assert tally.faulty.tolist() == [sm]
        assert tally.rate(sm).wrong == tally.total.wrong > 0
        assert f"always multiprocessor {sm}" in tally.pattern
        (finding,) = examiner.examine(sightings[0])
        assert finding.saved is None
        finding.keep(corpus, known_with(None))
        assert finding.saved.path.is_dir()
        assert not [*examiner.examine(sightings[0])], "nothing that is new"
    assert finding.case.kind is kind
    assert finding.case.identity.text == f"wrong result | multiprocessor {sm} of GPU-123"
    assert "GPU 2" in finding.sentence
    assert "0 errors in" in finding.sentence
    assert finding.saved is not None
    entry = corpus.get(finding.saved.id)
    assert entry.finding.details["multiprocessor"] == sm
    assert entry.finding.runners[0].device


def test_what_one_multiprocessor_gets_wrong_in_several_instructions_is_one_finding(
    tmp_path: Path,
) -> None:
    corpus, known = create_corpus(tmp_path / "corpus", generator="test"), known_with(None)
    forms = selected_forms(Selection(pattern="wmma.mma*m8n8*"), target="sm_90", version="8.0")
    description = describe(MODULE, seed=0)
    kept: list[ScreenFinding] = []
    with opened(RunnerChoice(name="sim", target="sm_90", faults=("stuck-bit-on-one-sm",))) as ready:
        screen = ScreenRun(ready, description)
        for number, batch in enumerate(next(candidates(forms, MODULE, 1))[:4]):
            screen.add(judged(numbered(batch, number, 8), number, "sm_90"))
        for _ in range(8):
            screen.step()
        for found in ScreenExaminer(screen, device="GPU 2").new():
            found.keep(corpus, known)
            kept.append(found)
    (one,) = kept
    assert one.saved is not None
    assert len(one.instructions) > 1
    assert [entry.id for entry in corpus.entries()] == [one.saved.id]
    device = ScreenedDevice(name="GPU 2", choice=ready.choice, screen=screen, kept=kept)
    assert device.is_wrong
    (tmp_path / "known.toml").write_text(
        'schema = 2\n[[known]]\nid = "rma"\nfailure = "wrong result"\ncause = "r"\n'
        'evidence = "e"\ninstructions = ["multiprocessor 1 of GPU 2"]\n'
        'compilers = [{ name = "sim --fault stuck-bit-on-one-sm" }]\n'
    )
    one.known = known_with(tmp_path / "known.toml").match(one.case)
    assert not device.is_wrong


class _Troubled(RewritingRunner):
    """A runner on which one kernel brings the device down."""

    def __init__(self, runner: Runner, name: str) -> None:
        super().__init__(runner, [])
        self._name = name

    def prepare(self, module: KernelModule) -> Compiled | Failure:
        if module.kernel().entry == self._name:
            return Failure(trouble=Trouble.HANG, message="loading did not end")
        return super().prepare(module)


def test_a_program_that_hangs_is_attributed_and_left_out_and_screening_goes_on(
    small_set: ScreeningSet,
) -> None:
    bad = small_set.programs[0].entry
    with opened(RunnerChoice(name="sim", target="sm_90")) as ready:
        troubled: OpenRunner = replace(ready, runner=_Troubled(ready.runner, bad))
        screen = ScreenRun(troubled, small_set.description)
        for program in programs_of(small_set):
            screen.add(program)
        for _ in range(3 * len(small_set.programs)):
            screen.step()
        screen.finish()
        assert [one.program for one in screen.left_out] == [bad]
        (finding,) = ScreenExaminer(screen, device="GPU 0").new()
        others = sum(one.count for one in small_set.programs[1:])
        assert (screen.tally.cases[:MULTIPROCESSORS] >= others).all()
        assert screen.tally.total.wrong == 0
    assert finding.case.kind is Kind.HANG
    assert finding.programs == [bad]


def test_a_trap_is_attributed_to_its_program_whatever_else_is_on_its_way(
    small_set: ScreeningSet,
) -> None:
    bad = small_set.programs[0].entry

    def trapping(ptx: str) -> str:
        start = "    mov.u32 %lane, %laneid;"
        return ptx.replace(start, f"{start}\n    trap;") if f".entry {bad}(" in ptx else ptx

    with opened(RunnerChoice(name="sim", target="sm_90")) as ready:
        troubled = replace(ready, runner=RewritingRunner(ready.runner, [trapping]))
        screen = ScreenRun(troubled, small_set.description)
        for program in programs_of(small_set):
            screen.add(program)
        while not screen.left_out:
            screen.step()
        screen.finish()
    assert [one.program for one in screen.left_out] == [bad]
    (sighting,) = screen.sightings
    assert sighting.failure is not None
    assert sighting.failure.trouble is Trouble.STICKY_ERROR
    assert screen.tally.cases.any()
    assert not screen.tally.wrong.any()


def test_a_set_for_another_architecture_is_refused(small_set: ScreeningSet) -> None:
    with opened(RunnerChoice(name="sim", target="sm_100")) as ready:
        screen = ScreenRun(ready, small_set.description)
        screen.add(programs_of(small_set)[0])
        with pytest.raises(UsageError, match="distill --target sm_100"):
            screen.step()


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="a GPU is here")
@pytest.mark.parametrize(
    "command",
    [
        ("screen", "--time", "0.1", "--junit", "out.xml"),
        ("run", "--fleet", "local", "--cases", "1"),
    ],
    ids=" ".join,
)
def test_without_a_gpu_a_command_about_hardware_fails_and_simulates_nothing(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    # What a fleet is asked for is seen where it is joined.
    ended = warpfuzz(tmp_path, *command, prepare=_no_cluster)
    assert ended.code == 3, ended.err
    assert "simulated" not in ended.out + ended.err
    assert "GPU" in ended.err or "PyCUDA" in ended.err or "driver" in ended.err
    if "--junit" in command:
        (case,) = ElementTree.parse(tmp_path / "out.xml").iter("testcase")
        assert case.find("error") is not None


def _no_cluster() -> None:
    """Have no Ray cluster started (`prepare`): the one that is asked for has no GPU."""

    def refuse(address: str, *, gpus: bool, **_: object) -> object:
        raise InfrastructureError(f"{address} has no GPU" if gpus else "simulated")

    run.cluster_at = refuse


def test_a_set_with_a_program_that_the_isa_leaves_undefined_is_not_screened(
    small_set: ScreeningSet, tmp_path: Path
) -> None:
    first, *others = small_set.programs
    steps = tuple(step for step in first.program.steps if not isinstance(step, Op | PlainAccess))
    bad = replace(first, program=replace(first.program, steps=(*steps, first.program.steps[-1])))
    write_set(tmp_path / "bad.set", replace(small_set, programs=[bad, *others]))
    ended = warpfuzz(tmp_path, "screen", "bad.set", "--runner", "sim", "--time", "60")
    assert ended.code == 3
    assert "the ISA leaves this program undefined; step " in ended.err


def test_a_screening_whose_fault_applies_to_no_program_has_tested_nothing(
    small_set: ScreeningSet, tmp_path: Path
) -> None:
    write_set(tmp_path / "small.set", small_set)
    words = ("screen", "small.set", "--runner", "sim", "--time", "0.3")
    ended = warpfuzz(tmp_path, *words, "--fault", "movmatrix-lost", "--junit", "out.xml")
    assert ended.code == 3
    assert "so not tested: --fault movmatrix-lost" in ended.err
    assert 'errors="1"' in (tmp_path / "out.xml").read_text()


def test_a_screening_that_is_stopped_before_anything_is_compared_is_not_sound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen_command._Job, "screen", lambda job, _: job.stop.set())
    with pytest.raises(InfrastructureError, match="stopped before anything was compared"):
        screen_command.screen(operating.Screen(runner="sim", corpus=tmp_path / "found", time="60"))


def never_ends() -> None:
    """Have a launch that is waited for without end."""

    def waits(job: screen_command._Job, device: ScreenedDevice) -> None:
        device.started = time.monotonic()
        Path("waits").touch()
        threading.Event().wait()

    screen_command._END_SECONDS = 0.1
    screen_command._Job.screen = waits


@pytest.mark.parametrize("number", [signal.SIGTERM, None])
def test_a_launch_that_does_not_come_back_keeps_no_screening_from_its_end(
    tmp_path: Path, number: int | None
) -> None:
    seconds = "0.1" if number is None else "600"
    words = ("screen", "--runner", "sim", "--time", seconds)
    with started(tmp_path, *words, prepare=never_ends) as command:
        while not (tmp_path / "waits").exists():
            time.sleep(0.01)
        if number is not None:
            command.send_signal(number)
        ended = command.ended(60)
    assert ended.code == 4
    assert "has not come back 0.1 s after the end" in ended.err


def test_the_command_tells_multiprocessors_apart_in_json_junit_and_report(
    small_set: ScreeningSet, tmp_path: Path
) -> None:
    write_set(tmp_path / "small.set", small_set)
    arguments = ("screen", "small.set", "--runner", "sim", "--time", "0.1", "--json")
    ended = warpfuzz(tmp_path, *arguments)
    assert ended.code == 0, ended.err
    (device,) = ended.summary["devices"]
    assert len(device["multiprocessors"]) == 132
    assert device["wrong"] == 0 < device["cases"] == ended.summary["cases"]
    ended = warpfuzz(
        tmp_path, *arguments, "--fault", "stuck-bit-on-one-sm", "--junit", "out.xml",
        "--report", "out.html",
    )  # fmt: skip
    assert ended.code == 1, ended.err
    (device,) = ended.summary["devices"]
    wrong = [one["number"] for one in device["multiprocessors"] if one["wrong"]]
    assert wrong == [1]
    assert "always multiprocessor 1" in device["pattern"]
    assert ended.findings
    failed = ElementTree.parse(tmp_path / "out.xml").iter("testcase")
    names = [case.get("name") for case in failed if case.find("failure") is not None]
    seconds = float(ElementTree.parse(tmp_path / "out.xml").getroot().get("time", ""))
    assert 0 < seconds < 1.5 * ended.summary["seconds"]
    assert names == ["multiprocessor 1"]
    assert "multiprocessor 1" in (tmp_path / "out.html").read_text()
    assert json.dumps(ended.rows)
