"""Draw the README's pictures: a campaign on a GPU, and one of its findings.

    python docs/pictures.py [--runner cuda|sim] [--output FOLDER] [--seed 3512] [--seconds 75]

runs a campaign (on the simulated device with a planted fault) and writes campaign.svg, its
dashboard when the time was up, and finding.svg, the page of its worst finding that is fully shrunk.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Self

from corpus import ShrinkStatus, create_corpus, open_corpus
from corpus.known import known_with
from fuzz.campaign.campaign import Campaign
from fuzz.campaign.pool import ProcessPool
from fuzz.campaign.status import CampaignStatus
from fuzz.campaign.store import Budget, CampaignStore
from fuzz.checks.programs import Programs
from fuzz.console import dashboard
from fuzz.console.report import recording_console, save
from fuzz.explain.page import page_of
from fuzz.findings.families import finding_groups
from fuzz.output import generator
from fuzz.runner import RunnerChoice
from fuzz.screening.idle_time import IdleScreening
from strategies.draws import Selection

FAULTS = {"cuda": (), "sim": ("sum-rounded-up",)}
"""What is planted: what a GPU's compiler gets wrong needs no help."""
COLUMNS, ROWS = 100, 34
"""Of a terminal whose picture can be read in a README."""
HERE = Path(__file__).resolve().parent


class Photographer:
    """Watches a campaign and keeps its last status with findings before its time was up.

    Where findings came only while the campaign finished examining them, one of that time is kept.
    """

    status: CampaignStatus | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held open."""

    def update(self, status: CampaignStatus) -> None:
        """Keep a status with findings."""
        early = self.status is None or self.status.finishing or not status.finishing
        if status.families and not status.stopped and early:
            self.status = status


def main() -> None:
    """Run the campaign and draw."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runner", choices=FAULTS, default="cuda")
    parser.add_argument("--output", type=Path, default=HERE)
    parser.add_argument("--seed", type=int, default=3512)
    parser.add_argument("--seconds", type=float, default=75.0)
    options = parser.parse_args()
    output, faults = options.output.resolve(), FAULTS[options.runner]
    on_gpu = options.runner == "cuda"
    output.mkdir(parents=True, exist_ok=True)
    check = Programs(
        choice=RunnerChoice(name=options.runner, layout=options.seed % 2, faults=faults),
        seed=options.seed,
        selection=Selection(),
        # As the command of the title does.
        idle=partial(IdleScreening, seed=options.seed) if on_gpu else None,
        reference=on_gpu,
    )
    budget = Budget(seconds=options.seconds)
    photographer = Photographer()
    # A page names where its files are: no folder of this machine is to stand in a picture.
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        path = Path("warpfuzz-corpus")
        corpus = create_corpus(path, generator=generator())
        with (
            ProcessPool(check, workers=os.cpu_count() or 1, devices=(0,)) as pool,
            CampaignStore(corpus.path) as store,
        ):
            campaign = Campaign(
                pool,
                pool.facts(),
                check=check,
                budget=budget,
                corpus=corpus,
                known=known_with(None),
                observer=photographer,
                store=store,
            )
            campaign.run()
        groups = finding_groups(campaign.status().families)
        families = [family for group in groups for family in group.members]
        families.sort(key=lambda one: (one.provisional, one.shrink is not ShrinkStatus.COMPLETE))
        stored = [family.saved.id for family in families if family.saved is not None]
        if photographer.status is None or not stored:
            status = campaign.status()
            raise SystemExit(
                f"of {status.cases} cases the campaign found {len(families)} families, and stored "
                f"{len(stored)}; choose another --seed, or more --seconds"
            )
        live = recording_console(COLUMNS, ROWS)
        live.print(dashboard(photographer.status, budget))
        planted = "".join(f" --fault {one}" for one in faults)
        command = f"warpfuzz run --runner {options.runner}{planted}"
        save(live, output / "campaign.svg", title=command)
        page = recording_console(COLUMNS, ROWS)
        page.print(page_of(open_corpus(path).get(stored[0])))
        save(page, output / "finding.svg", title=f"warpfuzz corpus show {stored[0]}")


if __name__ == "__main__":
    main()
