"""Draw the README's pictures: a campaign on a GPU, and a finding of a matrix instruction.

    python docs/pictures.py [campaign] [finding] [--runner cuda|sim] [--output FOLDER]

campaign.svg is the dashboard of a campaign when its time was up. finding.svg is the page of the
first fully shrunk finding of a campaign on the simulated device with a planted fault: what
compilers get wrong is scalar code.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from contextlib import chdir
from pathlib import Path

from corpus import ShrinkStatus, create_corpus, open_corpus
from corpus.known import known_with
from fuzz.campaign.campaign import Campaign
from fuzz.campaign.pool import ProcessPool
from fuzz.campaign.status import CampaignStatus
from fuzz.campaign.store import Budget, CampaignStore
from fuzz.checks.programs import Programs
from fuzz.console.report import dashboard
from fuzz.explain.document import rendered
from fuzz.explain.page import page_of
from fuzz.findings.families import finding_groups
from fuzz.output import generator, recording_console, save
from fuzz.runner import RunnerChoice
from strategies.draws import Selection

FAULT = "lanes-alignment-one-bit-less"
"""What is planted in the simulated device; what a GPU's compiler gets wrong needs no help."""
FORMS = "mma.sync.aligned.m16n8k16*f32.bf16*"
SEED, SECONDS = 3512, 75.0
COLUMNS, ROWS = 100, 34
"""Of a terminal whose picture can be read in a README."""
CORPUS = Path("warpfuzz-corpus")
HERE = Path(__file__).resolve().parent


class Photographer:
    """Watches a campaign and keeps its last status with findings before its time was up.

    Where findings came only while the campaign finished examining them, one of that time is kept.
    """

    status: CampaignStatus | None = None

    def update(self, status: CampaignStatus) -> None:
        """Keep a status with findings."""
        early = self.status is None or self.status.finishing or not status.finishing
        if status.families and not status.stopped and early:
            self.status = status


def campaign(runner: str, only: str, photographer: Photographer, budget: Budget) -> CampaignStatus:
    """Run a campaign in the current folder; return what it came to."""
    on_gpu = runner == "cuda"
    check = Programs(
        choice=RunnerChoice(name=runner, faults=() if on_gpu else (FAULT,)),
        seed=SEED,
        selection=Selection(pattern=only),
        # As the command of the title does.
        reference=on_gpu,
    )
    corpus = create_corpus(CORPUS, generator=generator())
    with (
        ProcessPool(check, workers=os.cpu_count() or 1, devices=(0,)) as pool,
        CampaignStore(corpus.path) as store,
    ):
        one = Campaign(
            pool, pool.facts(), check=check, budget=budget, corpus=corpus,
            known=known_with(None), observer=photographer.update, store=store,
        )  # fmt: skip
        return one.run()


def draw_campaign(runner: str, output: Path) -> None:
    """Draw the dashboard of a campaign."""
    photographer = Photographer()
    budget = Budget(seconds=SECONDS)
    campaign(runner, "*", photographer, budget)
    if photographer.status is None:
        raise SystemExit("the campaign found nothing; choose another SEED, or more SECONDS")
    live = recording_console(COLUMNS, ROWS)
    live.print(dashboard(photographer.status))
    planted = "" if runner == "cuda" else f" --fault {FAULT}"
    save(live, output / "campaign.svg", title=f"warpfuzz run --runner {runner}{planted}")


def draw_finding(output: Path) -> None:
    """Draw the page of a finding of a matrix instruction."""
    # Without a time, what is found is made as small as it gets.
    status = campaign("sim", FORMS, Photographer(), Budget(cases=256))
    for group in finding_groups(status.families):
        for one in group.members:
            if one.saved is not None and one.case.shrink is ShrinkStatus.COMPLETE:
                page = recording_console(COLUMNS, ROWS)
                told = page_of(open_corpus(CORPUS).get(one.saved.id))
                page.print(rendered(told, page.width))
                save(page, output / "finding.svg", title=f"warpfuzz corpus show {one.saved.id}")
                return
    raise SystemExit("no finding was fully shrunk; choose another SEED")


def main() -> None:
    """Draw what is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("pictures", nargs="*", default=["campaign", "finding"])
    parser.add_argument("--runner", choices=("cuda", "sim"), default="cuda")
    parser.add_argument("--output", type=Path, default=HERE)
    options = parser.parse_args()
    output = options.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    for picture in options.pictures:
        # A page names where its files are: no folder of this machine is to stand in a picture.
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            if picture == "campaign":
                draw_campaign(options.runner, output)
            else:
                draw_finding(output)


if __name__ == "__main__":
    main()
