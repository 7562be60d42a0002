"""Instructions a second of the campaign against an assembler, on one core.

Runs rounds of the campaign (drawing, oracle, ptxas, comparison; a third of the instructions legal)
on one target and version, and prints for each round the instructions per second of wall time and
per second of processor time, this process and its assemblers together: the second figure holds on
a shared machine, too. Identical instructions are judged once, so later rounds cost less. The
families are shrunk and stored in the rounds that find them.

    python benchmarks/assembler_campaign_speed.py [--rounds N] [--assembler PATH] [--seed S]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from corpus import create_corpus
from corpus.known import load_known
from fuzz.campaign.draws import Selection
from fuzz.campaign.limits import Budget
from fuzz.campaign.progress import FamilyState, Progress
from fuzz.checks.instructions import InstructionCampaign
from runners.assemblers.discovery import find


class _Table:
    """Prints a line for each round."""

    def __init__(self) -> None:
        self._rounds = 0
        self._last = (0, time.perf_counter(), _processor_seconds())

    def progressed(self, progress: Progress) -> None:
        if progress.rounds == self._rounds:
            return
        self._rounds = progress.rounds
        now = (progress.cases, time.perf_counter(), _processor_seconds())
        cases, wall, processor = (new - old for new, old in zip(now, self._last, strict=True))
        self._last = now
        print(
            f"{progress.rounds:>5} {cases:>7} {cases / wall:>10,.0f}/s "
            f"{cases / processor:>10,.0f}/s {len(progress.families):>9}",
            flush=True,
        )

    def found(self, progress: Progress, family: FamilyState) -> None:
        """Say nothing: the number of families is in the table."""


def _processor_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main() -> None:
    """Print the table and the rate of the whole run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--assembler")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print("round  cases       wall  processor  families")
    with tempfile.TemporaryDirectory() as folder:
        campaign = InstructionCampaign(
            (find(options.assembler),),
            selection=Selection(),
            budget=Budget(cases=options.rounds * 5_500),
            seed=options.seed,
            corpus=create_corpus(Path(folder) / "corpus", generator="benchmark"),
            known=load_known(),
            observer=_Table(),
            target="sm_90",
            ptx_version="8.0",
        )
        progress = campaign.run()
    verdicts = progress.agreements
    legal = verdicts["legal"] / max(1, sum(verdicts.values()))
    print(
        f"{progress.cases:,} instructions ({legal:.0%} legal) in {progress.seconds:.1f} s of wall "
        f"time: {progress.cases / progress.seconds:,.0f}/s; "
        f"{progress.cases / _processor_seconds():,.0f} a second of processor time"
    )


if __name__ == "__main__":
    main()
