"""Cases a second of a whole campaign, with the share of each stage, beside the oracle alone.

Runs `warpfuzz run` for a while on f16 m16n16k16, C and D f32 (or what --only selects), all stages
counted: drawing, compiling, filling images, running, the oracle, comparing, reporting. In the same
run, the rate of the oracle alone and of filling images alone, on one core, for the smallest program
of the same form. Programs of a campaign have one multiplication or several, so their cost is given
per multiplication, too. Prints one JSON object. Usage:

    python benchmarks/campaign_speed.py [--runner sim|cuda] [--workers N] [--seconds S]
        [--only PATTERN] [--images N] [--fault NAME]

With --fault the rate is that of a campaign that meets the fault.
"""

from __future__ import annotations

import argparse
import datetime
import json
import tempfile
import time
from pathlib import Path

from corpus import create_corpus
from corpus.known import Known
from fuzz.campaign.campaign import Campaign
from fuzz.campaign.pool import ProcessPool
from fuzz.campaign.status import CampaignStatus
from fuzz.campaign.store import Budget, CampaignStore
from fuzz.checks.programs import Programs
from fuzz.checks.protocol import Stage
from fuzz.runner import RunnerChoice, visible_devices
from oracle.execution.execution import execute
from oracle.isa.targets import Module
from strategies.contents import Recipe, ValueClass, expand
from strategies.draws import Selection, simplest
from strategies.features import Focus
from strategies.programs import programs
from strategies.rounds import selected_forms

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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runner", choices=["sim", "cuda"], default="sim")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--warm", type=float, default=0.3, help="share that is not counted")
    parser.add_argument("--only", default=FORM)
    parser.add_argument("--images", type=int)
    parser.add_argument("--fault", action="append", default=[], help="plant it; again for others")
    options = parser.parse_args()
    check = Programs(
        choice=RunnerChoice(name=options.runner, faults=tuple(options.fault)),
        seed=1,
        selection=Selection(pattern=options.only),
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
    raw = alone(facts.target, facts.ptx_version, options.only)
    both = 1 / (1 / raw["filling"] + 1 / raw["oracle"])
    row = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "device": facts.device,
        "only": options.only,
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
