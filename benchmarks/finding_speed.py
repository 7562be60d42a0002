"""The rate of a campaign that meets a fault in many images, beside that of one without a fault.

One process draws, runs and compares on the simulated device, and examines what it finds as a
campaign does: confirms, shrinks and attributes it. A campaign leaves that to a process of its own
with less priority, and the rate is that of the others: rates are images a second of processor time
without what was spent on findings, which stands beside them. With it is what one process alone
would do at the beginning of a campaign, when nothing is known yet. The fault that is planted by
default shows in about every tenth image. The worst case is one that no step has by itself, so that
everything is tried in vain: --ptx-pass 'PYTHON tests/meta/passes/foreign_passes.py
third-multiplication-broken'. Prints one JSON object. Usage:

    python benchmarks/finding_speed.py [--fault NAME | --ptx-pass COMMAND] [--seconds S] [--seed N]
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from corpus import create_corpus
from corpus.known import Known
from fuzz.bench import Silence
from fuzz.campaign.campaign import SHRINK_SECONDS
from fuzz.campaign.store import Triage
from fuzz.checks.programs import Programs
from fuzz.checks.protocol import RoundJob
from fuzz.runner import RunnerChoice, opened

FAULT = "sum-rounded-to-nearest"


def measured(seconds: float, *, seed: int, choice: RunnerChoice) -> dict[str, object]:
    """Run a campaign for a while."""
    check = Programs(choice=choice, seed=seed)
    with TemporaryDirectory() as folder, opened(check.choice) as ready, ExitStack() as stack:
        opened_check = check.on_runner(ready, Silence(), stack)
        plan = check.plan(opened_check.facts)
        triage = Triage(
            corpus=create_corpus(Path(folder) / "corpus", generator="bench"),
            known=Known(entries=()),
            shrinks=plan.shrinks,
        )
        reached = plan.coverage()
        images = bad = number = 0
        begun, examining = time.process_time(), 0.0
        while time.process_time() - begun < seconds:
            drawn = plan.round(number, reached)
            done = opened_check.round(RoundJob(number=number, plan=drawn, settled=triage.settled))
            images, number = images + done.cases, number + 1
            reached.merge(done.coverage)
            for suspect in done.suspects.values():
                bad += suspect.cases
                triage.suspect(suspect)
            at = time.process_time()
            while (job := triage.next_job(SHRINK_SECONDS)) is not None:
                triage.examined(job, opened_check.examine(job))
                triage.sweep()
            examining += time.process_time() - at
        spent = time.process_time() - begun
    return {
        "images": images,
        "wrong images": bad,
        "images a second": round(images / (spent - examining), 1),
        "images a second of one process": round(images / spent, 1),
        "seconds": round(spent, 1),
        "of which examining": round(examining, 1),
        "groups": len(triage.members),
    }


def main() -> None:
    """Print the rates and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    wrong = parser.add_mutually_exclusive_group()
    wrong.add_argument("--fault", default=FAULT)
    wrong.add_argument("--ptx-pass")
    parser.add_argument("--seconds", type=float, default=60.0, help="of processor time, for each")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    sound = RunnerChoice(name="sim", target="sm_90", ptx_version="8.6")
    faulty = replace(sound, faults=(given.fault,))
    if given.ptx_pass is not None:
        faulty = replace(sound, ptx_pass=given.ptx_pass)
    rows = {
        name: measured(given.seconds, seed=given.seed, choice=choice)
        for name, choice in (("sound", sound), ("faulty", faulty))
    }
    ratios = {
        f"ratio of {name}": round(
            float(str(rows["faulty"][name])) / float(str(rows["sound"][name])), 2
        )
        for name in ("images a second", "images a second of one process")
    }
    print(json.dumps({**rows, **ratios}))


if __name__ == "__main__":
    main()
