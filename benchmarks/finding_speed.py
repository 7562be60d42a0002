"""The rate of a campaign that meets a fault in many images, beside that of one without a fault.

One process draws, runs and compares on the simulated device, and examines what it finds as a
campaign does: confirms, shrinks and attributes it. Rates are images a second of processor time,
with what was spent on findings and without it. The fault that is planted by default shows in about
every tenth image. Prints one JSON object. Usage:

    python benchmarks/finding_speed.py [--fault NAME] [--seconds S] [--seed N]
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from corpus import create_corpus
from corpus.known import Known
from fuzz.bench.campaigns import Silence
from fuzz.campaign.campaign import SHRINK_SECONDS
from fuzz.campaign.triage import Triage
from fuzz.checks.programs import Programs, ProgramTrier
from fuzz.checks.protocol import RoundJob
from fuzz.runner import RunnerChoice, opened

FAULT = "sum-rounded-to-nearest"


def measured(seconds: float, *, seed: int, faults: tuple[str, ...]) -> dict[str, object]:
    """Run a campaign for a while."""
    check = Programs(choice=RunnerChoice(name="sim", target="sm_90", faults=faults), seed=seed)
    with TemporaryDirectory() as folder, opened(check.choice) as ready, ExitStack() as stack:
        trier = ProgramTrier(ready, check, Silence(), stack)
        drawing = check.drawing(trier.facts)
        triage = Triage(
            corpus=create_corpus(Path(folder) / "corpus", generator="bench"),
            known=Known(entries=()),
            shrinks=drawing.shrinks,
        )
        reached = drawing.coverage()
        images = bad = number = 0
        begun, examining = time.process_time(), 0.0
        while time.process_time() - begun < seconds:
            drawn = drawing.round(number, reached)
            done = trier.round(RoundJob(number=number, drawn=drawn, settled=triage.settled))
            images, number = images + done.cases, number + 1
            reached.merge(done.coverage)
            for suspect in done.suspects.values():
                bad += suspect.cases
                triage.suspect(suspect)
            at = time.process_time()
            while (job := triage.next_job(SHRINK_SECONDS)) is not None:
                triage.examined(job, trier.examine(job))
            examining += time.process_time() - at
        spent = time.process_time() - begun
    return {
        "images": images,
        "wrong images": bad,
        "images a second": round(images / spent, 1),
        "seconds": round(spent, 1),
        "of which examining": round(examining, 1),
        "images a second of the rest": round(images / (spent - examining), 1),
        "groups": len(triage.families),
    }


def main() -> None:
    """Print the rates and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fault", default=FAULT)
    parser.add_argument("--seconds", type=float, default=60.0, help="of processor time, for each")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rows = {
        name: measured(given.seconds, seed=given.seed, faults=faults)
        for name, faults in (("sound", ()), (given.fault, (given.fault,)))
    }
    rates = [float(str(row["images a second"])) for row in rows.values()]
    print(json.dumps({**rows, "ratio": round(rates[1] / rates[0], 2)}))


if __name__ == "__main__":
    main()
