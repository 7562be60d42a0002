"""Instructions a second of a campaign against an assembler, over its first minute or longer.

Runs the campaign with one worker and with several, one after the other, and prints a JSON object:
instructions a second of wall time and of processor time until the time was over, who spent that,
and families. What is shrunk goes on beside the rounds; what is left is shrunk after the time, and
is not counted. Where other programs take turns on the cores, twice the instructions for each
processor second is what two quiet cores would do. Needs /proc, so Linux.

    python benchmarks/assembler_campaign_speed.py [--seconds S] [--workers 1,2] [--assembler PATH]
        [--seed S]
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections import defaultdict
from pathlib import Path

from corpus import create_corpus
from corpus.known import load_known
from fuzz.campaign.campaign import Campaign
from fuzz.campaign.pool import ProcessPool
from fuzz.campaign.status import CampaignStatus
from fuzz.campaign.store import Budget, CampaignStore
from fuzz.checks.instructions import Instructions
from runners.compilers import find_assembler


class Meter:
    """Remembers the campaign, and who spent processor time on it, when its time was over."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._before = _processor_seconds()
        self.last: CampaignStatus | None = None
        self.spent: dict[str, float] = {}

    def update(self, status: CampaignStatus) -> None:
        """Take the figures of a moment."""
        if self.last is None or status.seconds <= self._seconds:
            self.last = status
            now = _processor_seconds()
            self.spent = {who: now[who] - self._before.get(who, 0.0) for who in now}


def measured(check: Instructions, workers: int, seconds: float) -> dict[str, object]:
    """Run a campaign and return its figures."""
    meter = Meter(seconds)
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPool(check, workers=workers) as pool,
    ):
        facts = pool.facts()
        corpus = create_corpus(Path(folder) / "corpus", generator="benchmark")
        with CampaignStore(corpus.path) as store:
            campaign = Campaign(
                pool, facts, check=check, budget=Budget(seconds=seconds), corpus=corpus,
                known=load_known(), observer=meter.update, store=store,
            )  # fmt: skip
            ended = campaign.run()
    assert meter.last is not None
    return {
        "workers": workers,
        "instructions_per_second": round(meter.last.cases / meter.last.seconds),
        "per_processor_second": round(meter.last.cases / sum(meter.spent.values())),
        "processor_seconds": {who: round(spent, 1) for who, spent in meter.spent.items()},
        "compared": meter.last.compared,
        "not_asked": meter.last.unasked,
        "confirmed": len(meter.last.families),
        "families": len(ended.families),
    }


def _processor_seconds() -> dict[str, float]:
    """Return what the coordinator, its workers and its examiner have spent, with their tools."""
    spent: defaultdict[str, float] = defaultdict(float)
    ticks = os.sysconf("SC_CLK_TCK")
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # Behind the name, which may hold anything (proc(5)): parent, times of the process.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            words = (folder / "cmdline").read_text().split("\0")
        except OSError:
            continue
        own, tools = (sum(map(int, fields[at : at + 2])) / ticks for at in (11, 13))
        if int(folder.name) == os.getpid():
            spent["coordinator"] += own
        elif int(fields[1]) == os.getpid() and "fuzz.campaign.pool" in words:
            *_, rows, row, _parent, _end = words
            who = "examiner" if int(row) == int(rows) - 1 else "workers"
            spent[who] += own
            spent[f"assemblers of {who}"] += tools
    return spent


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--assembler")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    check = Instructions(assemblers=(find_assembler(options.assembler),), seed=options.seed)
    for workers in map(int, options.workers.split(",")):
        print(json.dumps(measured(check, workers, options.seconds)), flush=True)


if __name__ == "__main__":
    main()
