"""A check on its way to workers, and one that has only the rounds of a shard.

A shard is one of several campaigns that divide the rounds of a seed, for clusters without Ray.
"""

from __future__ import annotations

import pickle
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self

from fuzz.checks.protocol import (
    Check,
    Facts,
    Heartbeat,
    OpenCheck,
    Options,
    Plan,
    RoundJob,
    RoundReport,
)
from oracle.errors import UsageError


def pickled(check: Check) -> bytes:
    """Return a check as bytes.

    Raises UsageError if it, or the runner that it names, cannot be made again in another process.
    """
    try:
        data = pickle.dumps(check)
        if b"\x8c\x08__main__" in data:
            raise AttributeError("it is defined in the script that was started")
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise _not_made_again(str(error)) from None
    return zlib.compress(data, 1)


def unpickled(data: bytes) -> Check:
    """Return a check that was sent. Raises UsageError if what it names is not there."""
    try:
        check: Check = pickle.loads(zlib.decompress(data))
    except (ImportError, AttributeError) as error:
        raise _not_made_again(str(error)) from None
    return check


def _not_made_again(why: str) -> UsageError:
    return UsageError(
        f"the runner cannot be made again in a worker process ({why:.300}); let RunnerChoice.maker "
        "be a function of a module that PYTHONPATH leads to, not of a script or of another function"
    )


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One of `count` campaigns with the same seed: the rounds `index` - 1, + `count`, and so on."""

    index: int
    """From 1 to `count`."""
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the shard that a text such as "3/8" names. Raises UsageError if it names none."""
        match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text.strip())
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise UsageError(
                f"--shard {text!r} is no shard; write I/N with I from 1 to N, and N at most "
                "999999, such as 3/8 for the third of eight"
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
        return self.check.seed

    @property
    def patience(self) -> float:
        return self.check.patience

    def on(self, device: int) -> Self:
        return replace(self, check=self.check.on(device))

    @contextmanager
    def opened(self, heartbeat: Heartbeat) -> Iterator[OpenCheck]:
        with self.check.opened(heartbeat) as whole:

            def carry_out(job: RoundJob) -> RoundReport:
                report = whole.round(replace(job, number=self.shard.number(job.number)))
                report.number = job.number
                return report

            yield replace(whole, round=carry_out)

    def plan(self, facts: Facts) -> Plan:
        whole = self.check.plan(facts)
        return replace(
            whole,
            words=replace(whole.words, where=f"{whole.words.where} · shard {self.shard}"),
            round=lambda number, known: whole.round(self.shard.number(number), known),
            summary={**whole.summary, "shard": str(self.shard)},
        )

    def options(self, facts: Facts) -> Options:
        return {**self.check.options(facts), "--shard": str(self.shard)}
