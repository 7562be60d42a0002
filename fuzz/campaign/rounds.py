"""The rounds of a campaign: committed, being run, or to be run again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from fuzz.campaign.store import State
from fuzz.checks.protocol import RoundJob, RoundPlan, RoundReport, Shard
from oracle.errors import UsageError
from strategies.coverage import epoch_known

_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_MOST_SECONDS = 1e12  # above a million weeks; longer times overflow what the system waits for
_ATTEMPTS = 2  # workers that may die over a round before it is skipped


def parse_duration(text: str) -> float:
    """Return the seconds that a text such as "90", "10m", "1.5h" or "2w" means.

    Raises UsageError if it means no duration above zero.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw]?)", text.strip())
    if match is None or float(match[1]) == 0:
        raise UsageError(
            f"{text!r} is not a duration; write seconds, or a number with s, m, h, d or w, "
            'such as "60", "10m" or "2w"'
        )
    seconds = float(match[1]) * _SECONDS[match[2]]
    if seconds > _MOST_SECONDS:
        raise UsageError(
            f"{text!r} is longer than can be waited for; at most 1000000w can be asked"
        )
    return seconds


class RoundQueue:
    """Rounds by number, from those that are committed to the next one.

    Of the campaign's state, rounds, parts, whole and skipped are kept up to date. Where cases are
    `left`, they are what the budget leaves to what is not committed; None without a limit.
    """

    def __init__(self, state: State, shard: Shard) -> None:
        self._state, self._shard = state, shard
        self._given: dict[int, RoundJob] = {}
        """Rounds that are not committed and were given to somebody, or are to be given again."""
        self._again: list[int] = []  # those of them that nobody works on
        self._reports: dict[int, RoundReport] = {}  # that wait for earlier rounds
        self._deaths: Counter[int] = Counter()
        self._fresh = 0  # no round from there on was given to anybody

    @property
    def committed(self) -> int:
        """Rounds that are committed."""
        return self._state.rounds + len(self._state.whole)

    @property
    def held(self) -> int:
        """Rounds that were carried out and wait for an earlier one to be committed."""
        return len(self._reports)

    @property
    def busy(self) -> bool:
        """Whether somebody works on a round."""
        return len(self._given) > len(self._again) + len(self._reports)

    def job(
        self, left: int | None, draw: Callable[[int], RoundPlan], settled: frozenset[str]
    ) -> RoundJob | None:
        """Return the next round to be given; None if it has to wait for others."""
        if self._again:
            self._again.sort()
            return self._given[self._again.pop(0)]
        state = self._state
        number = max(state.rounds, self._fresh)
        while number in self._given or number in state.whole:
            number += 1
        self._fresh = number
        if epoch_known(number) > state.rounds:
            return None
        if left is not None:
            left -= sum(job.size for earlier, job in self._given.items() if earlier < number)
            if left <= 0:
                return None
        drawn, skip = draw(number), state.parts.get(number, 0)
        if left is not None and left >= drawn.cases - skip:
            left = None
        job = self._given[number] = RoundJob(
            number=number, plan=drawn, shard=self._shard, skip=skip, limit=left, settled=settled
        )
        return job

    def finished(self, report: RoundReport) -> None:
        """Keep a report until the rounds before it are committed."""
        self._reports[report.number] = report

    def lost(self, job: RoundJob, how: str, *, guilty: bool, nothing: RoundReport) -> None:
        """Have a round given again whose worker is gone; skip it if workers die over it.

        `nothing` is the report of a round that is skipped.
        """
        self._deaths[job.number] += guilty
        if self._deaths[job.number] < _ATTEMPTS:
            self._again.append(job.number)
            return
        self._state.skipped[job.number] = f"the worker {how}"
        nothing.complete = True
        self._reports[job.number] = nothing

    def ready(
        self, left: Callable[[], int | None], settled: frozenset[str]
    ) -> Iterator[RoundReport]:
        """Iterate over the reports that can be committed now, in the order of the rounds.

        `left` is asked after each report was counted.
        """
        while report := self._reports.pop(self._state.rounds, None):
            job, most = self._given[report.number], left()
            if most is not None and report.cases > most:
                # More than is wanted: again, and cut. Nothing of this one was counted.
                self._give_again(job, most, settled)
                return
            yield from self._counted(report)
            most = left()
            if not report.complete and most != 0:
                # Cut too early, or by a device that is lost: the rest is for somebody else.
                self._give_again(job, most, settled)
            elif not report.complete:
                del self._given[report.number]

    def rest(self, left: Callable[[], int | None]) -> Iterator[RoundReport]:
        """Iterate over what there is of rounds that were interrupted, whatever is missing."""
        for number in sorted(self._reports):
            report, most = self._reports.pop(number), left()
            if most is None or report.cases <= most:
                yield from self._counted(report)

    def _counted(self, report: RoundReport) -> Iterator[RoundReport]:
        """Have a report counted, and note that."""
        yield report
        number, state = report.number, self._state
        state.parts[number] = report.skip + report.cases
        if report.complete:
            del self._given[number], state.parts[number]
            self._deaths.pop(number, None)
            state.whole.append(number)
        while state.rounds in state.whole:
            state.whole.remove(state.rounds)
            state.rounds += 1

    def _give_again(self, job: RoundJob, limit: int | None, settled: frozenset[str]) -> None:
        skip = self._state.parts.get(job.number, 0)
        self._given[job.number] = replace(job, skip=skip, limit=limit, settled=settled)
        self._again.append(job.number)
