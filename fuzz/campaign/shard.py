"""A shard: one of several campaigns that divide the rounds of a seed, for clusters without Ray."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

from corpus import Case
from fuzz.checks.protocol import (
    Check,
    Counts,
    DeviceStatus,
    Drawing,
    Drawn,
    Examination,
    Examined,
    Facts,
    Gone,
    NotExamined,
    Options,
    Pulse,
    RoundJob,
    RoundReport,
    Trier,
)
from oracle.errors import UsageError
from strategies.coverage import Coverage


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One of `count` campaigns with the same seed: the rounds `index` - 1, + `count`, and so on."""

    index: int
    """From 1 to `count`."""
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the shard that a text such as "3/8" names.

        Raises
        ------
        UsageError
            If it names none.
        """
        match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text.strip())
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise UsageError(
                f"--shard {text!r} is no shard; write I/N with I from 1 to N, such as 3/8 for the "
                "third of eight"
            )
        return cls(index=int(match[1]), count=int(match[2]))

    def __str__(self) -> str:
        """Return it as a person types it."""
        return f"{self.index}/{self.count}"

    def number(self, place: int) -> int:
        """Return the number of a round from its place, from 0, among those of the shard."""
        return place * self.count + self.index - 1


@dataclass(frozen=True, kw_only=True)
class Sharded:
    """A check of which a campaign carries out the rounds of one shard.

    The campaign counts its own rounds from 0. What they are about takes into account what the
    rounds of the same shard have reached: a shard needs to know nothing of the others.
    """

    check: Check
    shard: Shard

    @property
    def seed(self) -> int:
        """Of the campaign: the same for all shards."""
        return self.check.seed

    @property
    def patience(self) -> float:
        """Seconds of silence after which a worker is killed."""
        return self.check.patience

    def on(self, device: int) -> Sharded:
        """Return the same for a worker that has this device."""
        return replace(self, check=self.check.on(device))

    @contextmanager
    def opened(self, pulse: Pulse) -> Iterator[_Trier]:
        """Open what a worker needs. Raises as that of the whole check does."""
        with self.check.opened(pulse) as trier:
            yield _Trier(trier, self.shard)

    def drawing(self, facts: Facts) -> _Drawing:
        """Return the coordinator's side. Raises as that of the whole check does."""
        return _Drawing(self.check.drawing(facts), self.shard)

    def options(self, facts: Facts) -> Options:
        """Return what decides which cases there are."""
        return {**self.check.options(facts), "--shard": str(self.shard)}


class _Trier:
    def __init__(self, trier: Trier, shard: Shard) -> None:
        self._trier, self._shard = trier, shard
        self.facts = trier.facts

    def round(self, job: RoundJob) -> RoundReport:
        report = self._trier.round(replace(job, number=self._shard.number(job.number)))
        report.number = job.number
        return report

    def examine(self, job: Examination) -> Examined | NotExamined | Gone:
        return self._trier.examine(job)

    def health(self) -> DeviceStatus | None:
        return self._trier.health()


class _Drawing:
    def __init__(self, drawing: Drawing, shard: Shard) -> None:
        self._drawing, self._shard = drawing, shard
        where = f"{drawing.words.where} · shard {shard}"
        self.words = replace(drawing.words, where=where)
        self.forms, self.coverage = drawing.forms, drawing.coverage

    def round(self, number: int, known: Coverage) -> Drawn:
        return self._drawing.round(self._shard.number(number), known)

    def shrinks(self, case: Case) -> bool:
        return self._drawing.shrinks(case)

    def trouble(self, counts: Counts, said: str) -> str:
        return self._drawing.trouble(counts, said)

    def summary(self) -> Mapping[str, Any]:
        return {**self._drawing.summary(), "shard": str(self._shard)}
