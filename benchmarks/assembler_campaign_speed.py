"""Instructions a second of a campaign against an assembler, over its first minute or longer.

Runs the campaign with one worker and with several, one after the other, and prints a JSON object:
instructions a second of wall time and of processor time, and families. What is shrunk goes on
beside the rounds; what is left is shrunk after the time, and is not counted.

    python benchmarks/assembler_campaign_speed.py [--seconds S] [--workers 1,2] [--assembler PATH]
        [--seed S]
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
from pathlib import Path

from corpus import create_corpus
from corpus.known import load_known
from fuzz.campaign.campaign import Campaign
from fuzz.campaign.crew import ProcessCrew
from fuzz.campaign.rounds import Budget
from fuzz.campaign.status import CampaignStatus
from fuzz.campaign.store import CampaignStore
from fuzz.checks.instructions import Instructions
from runners.assemblers.discovery import find


class Meter:
    """Remembers the campaign when its time was over."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.last: CampaignStatus | None = None

    def update(self, status: CampaignStatus) -> None:
        """Take the figures of a moment."""
        if self.last is None or status.seconds <= self._seconds + 1:
            self.last = status


def measured(check: Instructions, workers: int, seconds: float) -> dict[str, object]:
    """Run a campaign and return its figures."""
    meter = Meter(seconds)
    before = _processor_seconds()
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessCrew(check, workers=workers) as crew,
    ):
        facts = crew.facts()
        corpus = create_corpus(Path(folder) / "corpus", generator="benchmark")
        with CampaignStore(corpus.path) as store:
            campaign = Campaign(
                crew, facts, check=check, budget=Budget(seconds=seconds), corpus=corpus,
                known=load_known(), observer=meter, store=store,
            )  # fmt: skip
            ended = campaign.run()
    spent = _processor_seconds() - before
    assert meter.last is not None
    return {
        "workers": workers,
        "instructions_per_second": round(meter.last.cases / meter.last.seconds),
        "per_processor_second": round(ended.cases / spent),
        "compared": ended.compared,
        "not_asked": ended.unasked,
        "families": len(ended.families),
    }


def _processor_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--assembler")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    check = Instructions(assemblers=(find(options.assembler),), seed=options.seed)
    for workers in map(int, options.workers.split(",")):
        print(json.dumps(measured(check, workers, options.seconds)), flush=True)


if __name__ == "__main__":
    main()
