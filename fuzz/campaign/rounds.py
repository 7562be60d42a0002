"""The rounds of a campaign: committed, being run, or to be run again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from fuzz.campaign.store import State
from fuzz.checks.protocol import RoundJob, RoundPlan, RoundReport
from oracle.errors import UsageError
from strategies.coverage import epoch_known

_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_MOST_SECONDS = 1e12
"""Above a million weeks; far longer times overflow what the system waits for."""


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


_ATTEMPTS = 2
"""Workers that may die over a round before it is skipped."""


class Rounds:
    """Rounds by number, from those that are committed to the next one.

    Of the campaign's state, rounds, parts, whole and skipped are kept up to date.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._given: dict[int, RoundJob] = {}
        """Rounds that are not committed and were given to somebody, or are to be given again."""
        self._again: list[int] = []
        """Those of them that nobody works on."""
        self._reports: dict[int, RoundReport] = {}
        """Those of them that wait for earlier rounds to be committed."""
        self._deaths: dict[int, int] = {}
        self._whole = set(state.whole)
        """The same as in the state, for looking up."""
        self._fresh = 0
        """No round from there on was given to anybody."""

    @property
    def next(self) -> int:
        """The first round that is not committed."""
        return self._state.rounds

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
        """Return the next round to be given; None if it has to wait for others.

        `left` cases are what the budget leaves to what is not committed; None without a limit.
        """
        if self._again:
            self._again.sort()
            return self._given[self._again.pop(0)]
        number = max(self.next, self._fresh)
        while number in self._given or number in self._whole:
            number += 1
        self._fresh = number
        if epoch_known(number) > self.next:
            return None
        if left is not None:
            left -= sum(job.size for earlier, job in self._given.items() if earlier < number)
            if left <= 0:
                return None
        drawn, skip = draw(number), self._state.parts.get(number, 0)
        if left is not None and left >= drawn.cases - skip:
            left = None
        job = RoundJob(number=number, plan=drawn, skip=skip, limit=left, settled=settled)
        self._given[number] = job
        return job

    def finished(self, report: RoundReport) -> None:
        """Keep a report until the rounds before it are committed."""
        self._reports[report.number] = report

    def lost(self, job: RoundJob, how: str, *, guilty: bool, nothing: RoundReport) -> None:
        """Have a round given again whose worker is gone; skip it if workers die over it.

        `nothing` is the report of a round that is skipped.
        """
        number = job.number
        self._deaths[number] = self._deaths.get(number, 0) + guilty
        if self._deaths[number] < _ATTEMPTS:
            self._again.append(number)
            return
        self._state.skipped[number] = f"the worker {how}"
        nothing.complete = True
        self._reports[number] = nothing

    def ready(
        self, left: Callable[[], int | None], settled: frozenset[str]
    ) -> Iterator[RoundReport]:
        """Iterate over the reports that can be committed now, in the order of the rounds.

        `left` returns the cases that the budget leaves; it is asked after each report was counted.
        """
        while True:
            self._advance()
            report = self._reports.pop(self.next, None)
            if report is None:
                return
            job, most = self._given[report.number], left()
            if most is not None and report.cases > most:
                # More than is wanted: again, and cut. Nothing of this one was counted.
                self._give_again(job, most, settled)
                return
            yield report
            self._state.parts[report.number] = report.skip + report.cases
            most = left()
            if report.complete:
                self._done(report.number)
            elif most != 0:
                # Cut too early, or by a device that is lost: the rest is for somebody else.
                self._give_again(job, most, settled)
            else:
                del self._given[report.number]

    def rest(self, left: Callable[[], int | None]) -> Iterator[RoundReport]:
        """Iterate over what there is of rounds that were interrupted, whatever is missing."""
        for number in sorted(self._reports):
            report, most = self._reports.pop(number), left()
            if most is not None and report.cases > most:
                continue
            yield report
            self._state.parts[number] = report.skip + report.cases
            if report.complete:
                self._done(number)

    def _give_again(self, job: RoundJob, limit: int | None, settled: frozenset[str]) -> None:
        skip = self._state.parts.get(job.number, 0)
        self._given[job.number] = replace(job, skip=skip, limit=limit, settled=settled)
        self._again.append(job.number)

    def _done(self, number: int) -> None:
        del self._given[number]
        self._state.parts.pop(number, None)
        self._deaths.pop(number, None)
        if number == self.next:
            self._state.rounds += 1
        else:
            self._state.whole.append(number)
            self._whole.add(number)
        self._advance()

    def _advance(self) -> None:
        while self.next in self._whole:
            self._state.whole.remove(self.next)
            self._whole.remove(self.next)
            self._state.rounds += 1
