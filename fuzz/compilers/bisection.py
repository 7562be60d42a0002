"""Search for the compiler version that changed a result."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from corpus import Finding
from fuzz.findings.replay import words_of
from fuzz.findings.verdicts import Answer, Rerun, asked
from fuzz.kinds import level_words

MISSED = 1e-3  # probability with which a failure of the known rate may be overlooked
_LEAST = 2  # runs of what fails every time: one that is not repeated says nothing of being flaky
_MOST = 10_000
"""Runs after which the search gives up on rarer failures; the chance that is left is reported."""


def repeats_for(rate: float) -> int:
    """Return how many runs miss a failure of this rate, 0 to 1, with a probability below `MISSED`.

    All n runs pass with a probability of (1 - rate)^n.
    """
    if not 0 < rate < 1:
        return _LEAST if rate >= 1 else _MOST
    return max(_LEAST, min(_MOST, math.floor(math.log(MISSED) / math.log1p(-rate)) + 1))


def missed(rate: float, times: int) -> float:
    """Return the probability that `times` runs all pass although each fails with this rate."""
    return float((1 - min(max(rate, 0.0), 1.0)) ** times)


def shown_by(runs: int) -> float:
    """Return the least rate of failures of which runs show one with a probability of 95 %."""
    return float(1 - 0.05 ** (1 / runs))


def rate_of(finding: Finding) -> float:
    """Return the share of a finding's runs that failed when it was confirmed; 1 if none is told."""
    runs, failed = finding.details.get("runs"), finding.details.get("failed runs")
    if isinstance(runs, int) and isinstance(failed, int) and 0 < failed <= runs:
        return failed / runs
    rate = finding.details.get("rate")
    return rate if isinstance(rate, float) and 0 < rate <= 1 else 1.0


class Progression(StrEnum):
    """How the result goes from the oldest version to the newest, least eventful first."""

    UNKNOWN = "no version can be asked"
    NEVER = "never"  # all versions agree, and agree with the ISA
    ALWAYS = "always was so"  # all versions agree, and disagree with the ISA
    CHANGED = "changed"  # one change
    NOT_MONOTONIC = "not monotonic"  # several changes


@dataclass(frozen=True)
class LevelColumn:
    """What the versions do at one level."""

    level: int
    cells: dict[int, Answer]  # by the index of the version; those that were asked

    @property
    def known(self) -> list[int]:
        """The versions that answered, oldest first."""
        return [index for index in sorted(self.cells) if self.cells[index].known]

    @property
    def changes(self) -> list[tuple[int, int]]:
        """Versions with different results, with none between them that was asked, oldest first."""
        return [pair for pair in pairwise(self.known) if not self._same(*pair)]

    @property
    def progression(self) -> Progression:
        """How the result goes."""
        known, changes = self.known, len(self.changes)
        if not known:
            return Progression.UNKNOWN
        if not changes:
            return Progression.ALWAYS if self.cells[known[0]].bad else Progression.NEVER
        return Progression.CHANGED if changes == 1 else Progression.NOT_MONOTONIC

    @property
    def between(self) -> int | None:
        """A version that was not asked and lies between two that differ."""
        for before, after in pairwise(sorted(self.cells)):
            if after - before > 1 and not self._same(before, after):
                return (before + after) // 2
        # What cannot be asked on both sides of a version says nothing of it.
        for change in self.changes:
            if free := [one for one in range(*change) if one not in self.cells]:
                return free[len(free) // 2]
        return None

    def _same(self, before: int, after: int) -> bool:
        return self.cells[before].same(self.cells[after])


Probe = Callable[[int, int, int], Counter[Rerun] | None]
"""Run with the version of this index at this -O level, up to so many times at once; None, or
`CannotBeAskedError`, if it cannot be asked there."""


def bisect(
    probe: Probe, *, versions: int, level: int, at_hand: Collection[int], times: int
) -> LevelColumn:
    """Find the changes of a result over versions, at one level.

    The oldest and the newest of so many `versions` are asked, and those `at_hand`, which cost
    nothing; then, wherever two neighbours differ, the one in the middle between them, until none is
    left between. What lies on both sides of a change is asked as often again.
    """
    column = LevelColumn(level, {})

    def ask(index: int) -> None:
        into = column.cells.get(index)
        column.cells[index] = asked(lambda most: probe(index, level, most), times=times, into=into)

    for index in sorted({0, versions - 1, *at_hand}):
        ask(index)
    verified: set[int] = set()
    while True:
        if (middle := column.between) is not None:
            ask(middle)
        elif sides := {index for one in column.changes for index in one} - verified:
            for index in sorted(sides):
                ask(index)
            verified |= sides
        else:
            return LevelColumn(level, dict(sorted(column.cells.items())))


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """What several columns say together."""

    names: Sequence[str]  # versions, oldest first
    columns: Sequence[LevelColumn]  # one for each level, lowest first
    driver: Mapping[int, Answer] = field(default_factory=dict)
    """What the driver's compiler does, by level; empty where it was not asked."""

    @property
    def progression(self) -> Progression:
        """The most eventful progression of all levels."""
        found = (column.progression for column in self.columns)
        return max(found, key=list(Progression).index, default=Progression.UNKNOWN)

    @property
    def answers(self) -> Sequence[Answer]:
        """Every answer: of all versions at all levels, and of the driver's compiler."""
        cells = [cell for column in self.columns for cell in column.cells.values()]
        return [*cells, *self.driver.values()]

    @property
    def flaky(self) -> bool:
        """Whether some version was not the same every time."""
        return any(cell.flaky for cell in self.answers)

    @property
    def bad(self) -> bool:
        """Whether anything disagreed with the ISA."""
        return any(cell.bad for cell in self.answers)

    @property
    def first(self) -> dict[str, str | int | None] | None:
        """The first version and level that disagrees, where there is one and another does not.

        Beside them, the version before it, with another result; None if the oldest that was asked
        is it. Where nothing disagrees, of the first change.
        """
        agrees = any(not column.cells[at].bad for column in self.columns for at in column.known)
        found: list[tuple[int, int, int | None]] = []
        for column in self.columns:
            bad = [at for at in column.known if column.cells[at].bad]
            if bad and agrees:
                before = [at for at in column.known if at < bad[0]]
                found.append((bad[0], column.level, before[-1] if before else None))
            elif not self.bad:
                found += [(after, column.level, before) for before, after in column.changes[:1]]
        if not found:
            return None
        index, level, last = min(found, key=lambda at: at[:2])
        previous = None if last is None else self.names[last]
        return {"version": self.names[index], "level": level, "before": previous}

    @property
    def sentence(self) -> str:
        """Everything in one sentence."""
        told = [(self._words_of(column), column.level) for column in self.columns]
        told += [
            (f"{self._state(cell)} by the driver's compiler", level)
            for level, cell in self.driver.items()
        ]
        levels: defaultdict[str, list[str]] = defaultdict(list)
        for words, level in told:
            levels[words].append(f"-O{level}")
        parts = [f"{level_words(names)}: {words}" for words, names in levels.items()]
        return "; ".join(parts) + "; flaky: not the same in every run" * self.flaky

    def _words_of(self, column: LevelColumn) -> str:
        firsts = [*column.known[:1], *(after for _, after in column.changes)]
        words = [
            f"{self._state(column.cells[at])} from {self.names[at].removeprefix('V')}"
            for at in firsts
        ]
        return ", ".join(words or distinct(cell.reason for cell in column.cells.values()))

    def _state(self, cell: Answer) -> str:
        """Say what a version does: wrong or right, where a finding has such a thing."""
        said = words_of(cell) or cell.label
        if cell.bad:
            return f"wrong ({said})"
        if said == "match":
            return "right"
        return f"right ({said})" if self.bad else said


def distinct(reasons: Iterable[str]) -> list[str]:
    """Return the first of all reasons that differ in versions and levels alone."""
    found: dict[str, str] = {}
    for reason in filter(None, reasons):
        found.setdefault(re.sub(r"[0-9]+(\.[0-9]+)*", "#", reason), reason)
    return [*found.values()]
