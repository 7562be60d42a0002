"""Time for shrinking the first failing case of every planted fault, on the simulated device.

For each fault of the catalogue programs and images are drawn, from fixed seeds, until an image
fails, and that case is shrunk. Finding it is not counted. In the end prints one JSON object per
case: seconds, and as a multiple of this run's median, cases that were tried, elements and steps
before and after, status; then one with median and maximum. Faults of which no case was found in
the given number of rounds, or that do not fail again on the same image, are listed at the end.
Usage:

    python benchmarks/shrinking_speed.py [--fault NAME]... [--seeds N] [--rounds N] [--limit S]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator

import numpy as np
from hypothesis import strategies as st

from corpus import Kind, ShrinkStatus
from fuzz.findings.verdicts import Subject, attempt
from fuzz.shrinking import shrink, verdicts_by
from oracle.execution.execution import execute
from oracle.isa.forms import Form
from oracle.isa.lookup import LDMATRIX_FORMS, MMA_FORMS, is_available
from oracle.isa.targets import Module, parse_target, parse_version
from oracle.program.program import walk
from runners.emission import emit
from runners.faults import CATALOGUE, Fault, by_name
from runners.protocol import Ran, Runner
from runners.simulated_runner import SimulatedRunner
from strategies.contents import expand, recipes
from strategies.draws import derived_seed, draw
from strategies.features import Focus
from strategies.programs import programs
from strategies.simplification.values import complexity

TARGETS = (("sm_90", "8.0"), ("sm_100a", "8.8"))
"""Where a fault is looked for: the second has forms of ldmatrix that the first has not."""
PROGRAMS = 8
"""Programs of one round."""
IMAGES = 256
"""Images of one program."""


def forms_of(fault: Fault, target: str, version: str) -> tuple[Form, ...]:
    """Return the multiplications and forms of ldmatrix that a fault touches; of none, all."""
    row, number = parse_target(target), parse_version(version)
    known = [
        form for form in (*MMA_FORMS, *LDMATRIX_FORMS) if is_available(form, Module(row, number))
    ]
    return tuple(form for form in known if fault.opcodes.search(form.opcode)) or tuple(known)


def failing(
    fault: Fault, runner: Runner, target: str, version: str, *, seed: int, rounds: int
) -> Iterator[tuple[Subject, Kind]]:
    """Iterate over cases that fail by themselves."""
    forms = forms_of(fault, target, version)
    drawn = st.lists(
        st.tuples(programs(Focus(), module=Module.named(target, version), forms=forms), recipes()),
        min_size=PROGRAMS,
        max_size=PROGRAMS,
    )
    for number in range(rounds):
        for program, recipe in draw(drawn, 2, derived_seed(seed, fault.name, number))[-1]:
            module = emit(program, module=Module.named(target, version))
            if not fault.applies(module.ptx):
                continue
            compiled = runner.compile(module)
            images = expand(recipe, program, IMAGES)
            wrong = np.arange(1)
            ran = runner.run(compiled, images)
            if isinstance(ran, Ran):
                expected = execute(program, images, target=compiled.architecture).images
                wrong = np.flatnonzero((ran.images != expected).any(axis=1))[:1]
            for index in wrong.tolist():
                subject = Subject(module=module, program=program, image=images[index].copy())
                kind = attempt(runner, subject).kind
                if kind is not None:
                    yield subject, kind


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fault", action="append", default=[], help="default: all")
    parser.add_argument("--seeds", type=int, default=1, help="cases of each fault")
    parser.add_argument("--rounds", type=int, default=20, help=f"of {PROGRAMS} programs each")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for one case")
    given = parser.parse_args()
    rows: list[dict[str, object]] = []
    seconds: list[float] = []
    missing = []
    for fault in [by_name(name) for name in given.fault] or CATALOGUE:
        for seed in range(given.seeds):
            for target, version in TARGETS:
                runner = SimulatedRunner(target, faults=[fault])
                case = next(
                    failing(fault, runner, target, version, seed=seed, rounds=given.rounds), None
                )
                if case is not None:
                    break
            if case is None:
                missing.append(fault.name)
                continue
            subject, kind = case
            begun = time.monotonic()
            shrunk = shrink(subject, verdicts_by(runner), wanted=kind, seconds=given.limit)
            seconds.append(time.monotonic() - begun)
            program = shrunk.subject.program
            rows.append(
                {
                    "fault": fault.name,
                    "kind": kind,
                    "status": shrunk.status,
                    "seconds": round(seconds[-1], 2),
                    "tried": shrunk.tried,
                    "elements before": complexity(subject.program, subject.image),
                    "elements": complexity(program, shrunk.subject.image),
                    "steps before": sum(1 for _ in walk(subject.program.steps)),
                    "steps": sum(1 for _ in walk(program.steps)),
                }
            )
            print(fault.name, file=sys.stderr, flush=True)
    for row, taken in zip(rows, seconds, strict=True):
        ratio = round(taken / statistics.median(seconds), 2)
        print(json.dumps({**row, "ratio to median": ratio}))
    if not seconds:
        print(json.dumps({"summary": {"cases": 0, "no case of": missing}}))
        return
    statuses = [row["status"] for row in rows]
    elements = [row["elements"] for row in rows]
    print(
        json.dumps(
            {
                "summary": {
                    "cases": len(rows),
                    "median seconds": round(statistics.median(seconds), 2),
                    "most seconds": round(max(seconds), 2),
                    **{status.value: statuses.count(status) for status in ShrinkStatus},
                    "with at most 3 elements": sum(
                        isinstance(count, int) and count <= 3 for count in elements
                    ),
                    "no case of": missing,
                }
            }
        )
    )


if __name__ == "__main__":
    main()
