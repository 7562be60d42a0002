"""Cases a second of a whole campaign, with the share of each stage, beside the oracle alone.

Runs `warpfuzz run` for a while on f16 m16n16k16, C and D f32 (or what --only selects), all stages
counted: drawing, compiling, filling images, running, the oracle, comparing, reporting. In the same
run, the rate of the oracle alone and of filling images alone, on one core, for the smallest program
of the same form. Programs of a campaign have one multiplication or several, so their cost is given
per multiplication, too. Prints one JSON object. Usage:

    python benchmarks/campaign_speed.py [--runner sim|cuda] [--workers N] [--seconds S]
        [--only PATTERN] [--images N] [--fault NAME]

With --fault the rate is that of a campaign that meets the fault.

    python benchmarks/campaign_speed.py --rounds N [--images N] [--ptxas PATH] [--only PATTERN]
        [--target TARGET]

prints milliseconds of process time a program, by stage, of what a worker of a campaign on an H200,
by default the default one, does with N rounds beside the GPU, whose results are what the oracle
expects. With --ptxas modules are compiled at -O3 besides, in processes that begin anew.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from corpus import create_corpus
from corpus.known import Known
from fuzz.campaign.campaign import Campaign
from fuzz.campaign.pool import ProcessPool
from fuzz.campaign.status import CampaignStatus
from fuzz.campaign.store import Budget, CampaignStore
from fuzz.checks import rounds
from fuzz.checks.programs import Programs
from fuzz.checks.protocol import RoundJob, Stage
from fuzz.runner import OpenRunner, RunnerChoice, visible_devices
from oracle.execution.execution import Expectation, execute
from oracle.isa.targets import Module
from oracle.program.program import Program
from runners.allocation import keep_memory
from runners.cuda.compilation import DriverCompiler, PtxasCompiler
from runners.kernels import KernelModule
from runners.processes import ONE_THREAD
from runners.protocol import (
    Capabilities,
    ClosedAtTheEnd,
    Collected,
    Compiled,
    Failure,
    Images,
    Pending,
    Ran,
)
from strategies.contents import Recipe, ValueClass, expand
from strategies.draws import Selection, simplest
from strategies.features import Focus
from strategies.programs import programs
from strategies.rounds import ProgramCoverage, selected_forms

WARM, FIRST = 8, 60
"""Rounds that are not counted, and the first that is: from 48 on rounds are as all later ones."""
FORM = "*.row.row.m16n16k16.f32.f32"
ALONE = 4096
"""Images of a batch of which the oracle and the filling are measured alone."""


class Meter:
    """Remembers what the campaign was like when it was warm, and at its end."""

    def __init__(self, warm: float) -> None:
        self._warm = warm
        self.first: tuple[float, int] | None = None
        self.last: tuple[float, int] = (0.0, 0)
        self.shares: dict[str, float] = {}

    def update(self, status: CampaignStatus) -> None:
        """Take the figures of a moment."""
        now = (time.monotonic(), sum(worker.cases for worker in status.workers))
        if self.first is None and status.seconds >= self._warm and now[1]:
            self.first = now
        if not status.stopped:
            self.last = now
            workers = [worker for worker in status.workers if worker.cases]
            self.shares = {
                stage.value: sum(one.shares.get(stage, 0.0) for one in workers) / len(workers)
                for stage in Stage
                if workers
            }

    @property
    def rate(self) -> float:
        """Cases a second from when it was warm to the end."""
        if self.first is None or self.last[0] <= self.first[0]:
            return 0.0
        return (self.last[1] - self.first[1]) / (self.last[0] - self.first[0])


def alone(target: str, version: str, only: str) -> dict[str, float]:
    """Return cases a second of the oracle and of filling images, on one core."""
    form = selected_forms(Selection(pattern=only), target=target, version=version)[0]
    focus = Focus(form=form)
    program = simplest(programs(focus, module=Module.named(target, version), forms=(form,)))
    recipe = Recipe(classes=tuple(ValueClass), seed=1)
    images = expand(recipe, program, ALONE)
    execute(program, images, target=target)
    start = time.perf_counter()
    expand(recipe, program, ALONE)
    filled = time.perf_counter()
    execute(program, images, target=target)
    done = time.perf_counter()
    return {"filling": ALONE / (filled - start), "oracle": ALONE / (done - filled)}


class StageMeter:
    """Process time by stage; what `apart` does counts nowhere."""

    interrupted = False

    def __init__(self) -> None:
        self.spent = dict.fromkeys(Stage, 0.0)
        self._stage, self._since = Stage.WAIT, time.process_time()

    def enter(self, stage: Stage, *, round: int | None = None) -> None:  # noqa: A002
        """Take note of a stage."""
        now = time.process_time()
        self.spent[self._stage] += now - self._since
        self._stage, self._since = stage, now

    def apart(self, work: Callable[[], Any]) -> Any:
        """Return what somebody else's work returns."""
        self.enter(self._stage)
        made = work()
        self._since = time.process_time()
        return made

    def count(self, cases: int) -> None:
        """Cases are counted by the report."""

    def beat(self) -> None:
        """Nobody waits."""


class Echo(ClosedAtTheEnd):
    """In place of an H200: all images come out as the oracle has said a moment before."""

    def __init__(self, meter: StageMeter, ptxas: Path | None) -> None:
        self._meter, self._driver = meter, DriverCompiler()
        self._ptxas = None if ptxas is None else PtxasCompiler(ptxas)
        self.sent: list[tuple[Images, Images]] = []  # in this round, with what came of them

    def capabilities(self) -> Capabilities:
        """Say what an H200 runs, of what is drawn."""
        targets = frozenset({"sm_90", "sm_90a"})
        return Capabilities(name="cuda", targets=targets, description="an H200 that is not there")

    def compile(self, module: KernelModule) -> Compiled | Failure:
        """Do what a worker does of it, and have it compiled if there is an assembler."""
        own = replace(self._driver.compile(module, module.target), release="13.0")
        if self._ptxas is not None:
            ptxas = self._ptxas
            self._meter.apart(lambda: ptxas.compile(module, module.target))
        return own

    def submit(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Pending:
        """Take images; what the oracle says of them is put in their places."""
        after = self._meter.apart(lambda: np.empty_like(images))
        self.sent.append((images, after))
        sms = np.zeros(len(images), np.uint32)
        return Collected(outcome=Ran(images=after, sms=sms, seconds=0.0))

    def expect(self, program: Program, images: Images, *, target: str) -> Expectation:
        """Do what `execute` does, and take over what it says."""
        said = execute(program, images, target=target)
        self._meter.apart(lambda: self._put(images, said.images))
        return said

    def _put(self, images: Images, expected: NDArray[np.uint8]) -> None:
        for sent, after in self.sent:
            if np.shares_memory(sent, images):
                first = (images.ctypes.data - sent.ctypes.data) // sent.shape[1]
                after[first : first + len(images)] = expected

    def close(self) -> None:
        """Nothing is held open."""


def by_stage(
    count: int, images: int | None, ptxas: Path | None, selection: Selection, target: str
) -> dict[str, Any]:
    """Return milliseconds of process time a program of a worker that does so many rounds."""
    keep_memory()
    meter = StageMeter()
    choice = RunnerChoice(name="cuda")
    runner = Echo(meter, ptxas)
    ready = OpenRunner(
        choice=choice, runner=runner, target=target, ptx_version="9.0", version="", device="H200",
        uuid="none", cuda="13.0", groups="sm_90a" if target == "sm_90" else "", release="13.0",
    )  # fmt: skip
    check = Programs(choice=choice, seed=424242, selection=selection, images=images)
    with ExitStack() as stack, patch.object(rounds, "execute", runner.expect):
        opened = check.on_runner(ready, meter, stack)
        plan, known = check.plan(opened.facts), ProgramCoverage()
        gc.freeze()
        for number in range(FIRST - WARM, FIRST + count):
            if number <= FIRST:
                meter.spent, programs, cases = dict.fromkeys(Stage, 0.0), 0, 0
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
            runner.sent.clear()
            report = opened.round(RoundJob(number=number, plan=plan.round(number, known)))
            assert report.complete, "a round did not come to its end"
            assert not report.suspects, "the oracle contradicts itself"
            programs += report.counts["programs", "compiled"]
            cases += report.compared
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    each = 1000 / programs
    spent = {stage.value: round(each * seconds, 3) for stage, seconds in meter.spent.items()}
    del spent[Stage.WAIT]
    assembling = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"programs": programs, "cases": cases, "milliseconds": spent,
            "all": round(sum(spent.values()), 2),
            "ptxas": round(each * assembling, 2)}  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runner", choices=["sim", "cuda"], default="sim")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--warm", type=float, default=0.3, help="share that is not counted")
    parser.add_argument("--only", help=f"{FORM}, of --rounds all")
    parser.add_argument("--images", type=int)
    parser.add_argument("--fault", action="append", default=[], help="plant it; again for others")
    parser.add_argument("--rounds", type=int, help="of a GPU's worker, without the GPU")
    parser.add_argument("--target", default="sm_90", help="of --rounds")
    parser.add_argument("--ptxas", type=Path)
    options = parser.parse_args()
    only = options.only or FORM
    if options.rounds:
        if any(os.environ.get(name) != one for name, one in ONE_THREAD.items()):
            parser.error(f"--rounds needs {' '.join(f'{k}={v}' for k, v in ONE_THREAD.items())}")
        selection = Selection(pattern=options.only or "*")
        print(
            json.dumps(
                by_stage(options.rounds, options.images, options.ptxas, selection, options.target)
            )
        )
        return
    check = Programs(
        choice=RunnerChoice(name=options.runner, faults=tuple(options.fault)),
        seed=1,
        selection=Selection(pattern=only),
        images=options.images,
    )
    meter = Meter(options.warm * options.seconds)
    devices = tuple(range(visible_devices()))
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPool(check, workers=options.workers, devices=devices) as pool,
    ):
        facts = pool.facts()
        corpus = create_corpus(Path(folder) / "corpus", generator="benchmark")
        with CampaignStore(corpus.path) as store:
            campaign = Campaign(
                pool,
                facts,
                check=check,
                budget=Budget(seconds=options.seconds),
                corpus=corpus,
                known=Known(entries=()),
                observer=meter.update,
                store=store,
            )
            progress = campaign.run()
    raw = alone(facts.target, facts.ptx_version, only)
    both = 1 / (1 / raw["filling"] + 1 / raw["oracle"])
    row = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "device": facts.device,
        "only": only,
        "faults": options.fault,
        "workers": options.workers,
        "cases_per_second": round(meter.rate),
        "shares": {name: round(share, 4) for name, share in meter.shares.items()},
        "programs": progress.counts["programs", "compiled"],
        "cases": progress.cases,
        "rounds": progress.rounds,
        "families": len(progress.families),
        "one_core_alone": {name: round(rate) for name, rate in raw.items()},
        "part_of_what_filling_and_oracle_allow": round(meter.rate / (both * options.workers), 3),
    }
    print(json.dumps(row))


if __name__ == "__main__":
    main()
