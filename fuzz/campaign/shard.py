"""A shard: one of several campaigns that divide the rounds of a seed, for clusters without Ray."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self

from fuzz.campaign.carried import AroundCheck
from fuzz.checks.protocol import Facts, Heartbeat, OpenCheck, Options, Plan, RoundJob, RoundReport
from oracle.errors import UsageError


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
class Sharded(AroundCheck):
    """A check of which a campaign carries out the rounds of one shard.

    The campaign counts its own rounds from 0. What they are about takes into account what the
    rounds of the same shard have reached: a shard needs to know nothing of the others.
    """

    shard: Shard

    @contextmanager
    def opened(self, heartbeat: Heartbeat) -> Iterator[OpenCheck]:
        """Open what a worker needs. Raises as that of the whole check does."""
        with self.check.opened(heartbeat) as whole:

            def carry_out(job: RoundJob) -> RoundReport:
                report = whole.round(replace(job, number=self.shard.number(job.number)))
                report.number = job.number
                return report

            yield replace(whole, round=carry_out)

    def plan(self, facts: Facts) -> Plan:
        """Return the coordinator's side. Raises as that of the whole check does."""
        whole = self.check.plan(facts)
        return replace(
            whole,
            words=replace(whole.words, where=f"{whole.words.where} · shard {self.shard}"),
            round=lambda number, known: whole.round(self.shard.number(number), known),
            summary={**whole.summary, "shard": str(self.shard)},
        )

    def options(self, facts: Facts) -> Options:
        """Return what decides which cases there are."""
        return {**self.check.options(facts), "--shard": str(self.shard)}
