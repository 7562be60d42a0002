"""Programs a second and core from their draw through LLVM to the simulated device's verdict.

    python benchmarks/llvm_speed.py [--rounds N] [--level L] [--against FOLDER]

Rounds of a campaign, 8 programs of one module with 8 images each: they are drawn, filled, asked of
the oracle, written as LLVM IR, compiled by the newest LLVM that is here, read, run and compared.
Prints milliseconds of processor time of each stage for a program, of this process and of LLVM's,
and programs a second: of everything, without drawing, and from the IR to the result. A round
before them is not counted.

With `--against`, the same is done by another checkout of this repository, turn by turn with this
one; printed is the least of each stage, and the ratio is of this run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import psutil

from oracle.execution.execution import execute
from oracle.isa.targets import Module
from runners.emission import emit_all
from runners.front_ends.languages import Llvmlite
from runners.protocol import Failure, Trouble
from runners.simulated_runner import SimulatedRunner
from strategies.contents import expand
from strategies.draws import Selection
from strategies.rounds import round_batches, round_key, selected_forms

IMAGES = 8
TARGET, PTX_VERSION = "sm_80", "7.1"
"""What every LLVM from 14 on writes."""
DRAWING, FILLING, ORACLE = "drawing programs", "filling images", "oracle"
_TURNS = 5
"""Times that each of two checkouts is measured."""


@dataclass(kw_only=True)
class Figures:
    """What was measured."""

    llvm: str
    """Its version."""
    programs: int = 0
    wrong: int = 0
    """Programs that came out otherwise than the oracle says: findings of this LLVM, or of ours."""
    divergent: int = 0
    """Those of them whose PTX has a warp-level instruction under a condition on the lane."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Processor time, by stage."""

    def least(self, other: Figures) -> Figures:
        """Return the least of what was measured of the same programs."""
        seconds = {name: min(one, other.seconds[name]) for name, one in self.seconds.items()}
        return replace(self, seconds=seconds)

    def each(self, *left_out: str) -> float:
        """Return the seconds of a program, some stages left out."""
        return sum(s for name, s in self.seconds.items() if name not in left_out) / self.programs


def measured(rounds: int, level: int) -> Figures:
    """Measure so many rounds."""
    installed = Llvmlite.discover()[0]
    figures = Figures(llvm=installed.version)
    seconds = figures.seconds
    own = psutil.Process()

    @contextlib.contextmanager
    def stage(name: str) -> Iterator[None]:
        start = time.process_time()
        yield
        seconds[name] = seconds.get(name, 0.0) + time.process_time() - start

    def children() -> float:
        return sum(sum(one.cpu_times()[:2]) for one in own.children(recursive=True))

    module = Module.named(TARGET, PTX_VERSION)
    forms = selected_forms(Selection(pattern="*"), target=TARGET, version=PTX_VERSION)
    with installed.opened(level) as front_end, SimulatedRunner(TARGET) as runner:
        for number in range(-1, rounds):
            if number == 0:
                seconds.clear()
                figures.programs = figures.wrong = figures.divergent = 0
            before = children()
            with stage(DRAWING):
                batches = list(round_batches(
                    forms, target=TARGET, version=PTX_VERSION,
                    key=round_key(1, number), count=IMAGES,
                ))  # fmt: skip
            with stage(FILLING):
                images = [expand(batch.recipe, batch.program, IMAGES) for batch in batches]
            with stage(ORACLE):
                expected = [
                    execute(batch.program, filled, target=TARGET).images
                    for batch, filled in zip(batches, images, strict=True)
                ]
            with stage("writing LLVM IR"):
                whole = emit_all({one.entry: one.program for one in batches}, module=module)
                written = front_end(whole)
            if isinstance(written, Failure):
                raise SystemExit(f"round {number}: {written}")
            with stage("reading PTX"):
                compiled = runner.compile(written)
            if isinstance(compiled, Failure):
                raise SystemExit(f"round {number}: {compiled}")
            for batch, filled, wanted in zip(batches, images, expected, strict=True):
                with stage("running 8 images"):
                    result = runner.run(compiled, filled, entry=batch.entry)
                with stage("comparing"):
                    right = not isinstance(result, Failure) and np.array_equal(
                        result.images, wanted
                    )
                figures.wrong += not right
                if isinstance(result, Failure):
                    figures.divergent += result.trouble is Trouble.DIVERGENCE
            seconds["LLVM"] = seconds.get("LLVM", 0.0) + children() - before
            figures.programs += len(batches)
    return figures


def _of(folder: Path, given: argparse.Namespace) -> Figures:
    """Return what a checkout measures of itself, in a process of its own."""
    here = Path(__file__).resolve()
    command = [sys.executable, str(folder / here.parent.name / here.name), "--json"]
    command += ["--rounds", str(given.rounds), "--level", str(given.level)]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return Figures(**json.loads(done.stdout))


def _table(columns: list[Figures]) -> None:
    """Print stages and rates, a column for each checkout."""
    last = columns[-1]
    print(
        f"LLVM {last.llvm}, {last.programs} programs; otherwise than the oracle says: "
        f"{', '.join(f'{column.wrong} ({column.divergent} divergent)' for column in columns)}"
    )
    print("ms of processor for a program, and share")
    for name in sorted(last.seconds, key=lambda name: -last.seconds[name]):
        cells = [f"{1000 * column.seconds[name] / column.programs:7.2f}" for column in columns]
        share = last.seconds[name] / sum(last.seconds.values())
        print(f"{name:20}{' '.join(cells)}  {share:4.0%}")
    for what, left_out in (
        ("all of it", ()),
        ("without drawing", (DRAWING,)),
        ("from IR to result", (DRAWING, FILLING, ORACLE)),
    ):
        rates = [1 / column.each(*left_out) for column in columns]
        ratio = f"  ratio {rates[-1] / rates[0]:.2f}" if len(rates) > 1 else ""
        print(f"programs a second, {what}: {', '.join(f'{rate:.1f}' for rate in rates)}{ratio}")


def main() -> None:
    """Print the table, or what was measured as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--level", type=int, default=2)
    parser.add_argument("--against", type=Path, help="another checkout, measured in turn")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.json:
        print(json.dumps(asdict(measured(given.rounds, given.level))))
        return
    if given.against is None:
        _table([measured(given.rounds, given.level)])
        return
    columns: dict[Path, Figures] = {}
    for _ in range(_TURNS):
        for folder in (given.against, Path(__file__).resolve().parent.parent):
            figures = _of(folder, given)
            columns[folder] = columns.get(folder, figures).least(figures)
    _table(list(columns.values()))


if __name__ == "__main__":
    main()
