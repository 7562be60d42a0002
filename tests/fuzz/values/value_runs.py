"""Campaigns on values, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from corpus import Entry, create_corpus, open_corpus
from corpus.known import Known
from fuzz.budget import Budget
from fuzz.commands.value_replays import ReplayOptions, ValueReplays
from fuzz.instruction_rounds import Selection
from fuzz.runner_choice import OpenRunner, RunnerChoice, opened
from fuzz.value_campaign import ValueCampaign, ValueProgress


class Nobody:
    """Watches nothing."""

    def progressed(self, progress: object) -> None: ...

    def found(self, progress: object, family: object) -> None: ...


def campaign(
    ready: OpenRunner, folder: Path, *, cases: int, seed: int = 1, only: str = "*"
) -> ValueCampaign:
    return ValueCampaign(
        ready,
        selection=Selection(pattern=only),
        budget=Budget(cases=cases),
        seed=seed,
        corpus=create_corpus(folder, generator="test"),
        known=Known(entries=()),
        observer=Nobody(),
    )


def run(
    folder: Path, *, cases: int, seed: int = 1, only: str = "*", **planted: Any
) -> ValueProgress:
    """Run a campaign on the simulated device."""
    with opened(RunnerChoice(name="sim", layout=seed % 2, **planted)) as ready:
        return campaign(ready, folder, cases=cases, seed=seed, only=only).run()


def entries(folder: Path) -> list[Entry]:
    problems: list[object] = []
    found = list(open_corpus(folder).entries(problems.append))
    assert not problems
    return found


def replayed(folder: Path, *, times: int = 2, **options: Any) -> dict[str, str]:
    """Return the verdict of each finding of a corpus, by id."""
    with ValueReplays(ReplayOptions(**options)) as replays:
        return {
            entry.id: str(replays.replay(entry, times=times)["verdict"])
            for entry in entries(folder)
        }
