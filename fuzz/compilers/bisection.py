"""Search for the compiler version that changed a result."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from corpus import Finding
from fuzz.findings.replay import Answer, Sample, Way, asked
from fuzz.findings.stored import words_of
from fuzz.kinds import level_words
from fuzz.output import counted


class First(NamedTuple):
    """Where a result first is what the finding says."""

    version: str
    level: int
    before: str | None
    """The version before it, with another result; None if the oldest that was asked is it."""


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """What several columns say together."""

    names: Sequence[str]
    """Versions, oldest first."""
    columns: Sequence[Column]
    """One for each level, lowest first."""
    driver: Mapping[int, Answer] = field(default_factory=dict)
    """What the driver's compiler does, by level; empty where it was not asked."""

    @property
    def progression(self) -> Progression:
        """The most eventful progression of all levels."""
        order = list(Progression)
        found = (column.progression for column in self.columns)
        return max(found, key=order.index, default=Progression.UNKNOWN)

    @property
    def flaky(self) -> bool:
        """Whether some version was not the same every time."""
        return any(cell.flaky for cell in self.answers)

    @property
    def answers(self) -> Sequence[Answer]:
        """Every answer: of all versions at all levels, and of the driver's compiler."""
        cells = [cell for column in self.columns for cell in column.cells.values()]
        return [*cells, *self.driver.values()]

    def count(self, way: Way) -> int:
        """Return how many versions at a level gave this much of an answer."""
        return sum(answer.way is way for answer in self.answers)

    @property
    def bad(self) -> bool:
        """Whether anything disagreed with the ISA."""
        return any(cell.bad for cell in self.answers)

    @property
    def first(self) -> First | None:
        """The first version and level that disagrees, where there is one and another does not.

        Where nothing disagrees with the ISA (assemblers differ, and both may), the first change.
        """
        agrees = any(
            cell.known and not cell.bad for column in self.columns for cell in column.cells.values()
        )
        found: list[tuple[int, int, int | None]] = []
        for column in self.columns:
            known = [index for index, cell in column.cells.items() if cell.known]
            bad = [index for index in known if column.cells[index].bad]
            if bad and agrees:
                before = known[: known.index(bad[0])]
                found.append((bad[0], column.level, before[-1] if before else None))
            elif not self.bad:
                found += [(one.after, column.level, one.before) for one in column.changes[:1]]
        if not found:
            return None
        index, level, last = min(found, key=lambda one: one[:2])
        return First(self.names[index], level, None if last is None else self.names[last])

    @property
    def sentence(self) -> str:
        """Everything in one sentence."""
        said: dict[str, list[int]] = {}
        for column in self.columns:
            said.setdefault(self._words_of(column), []).append(column.level)
        parts = [
            f"{'at all levels' if len(levels) == len(self.columns) else _levels(levels)}: {words}"
            for words, levels in said.items()
        ]
        if self.driver:
            parts.append(f"the driver's compiler: {self._of_driver}")
        end = "; flaky: not the same in every run" if self.flaky else ""
        return f"{'; '.join(parts)}{end}"

    @property
    def _of_driver(self) -> str:
        said: dict[str, list[int]] = {}
        for level, cell in self.driver.items():
            said.setdefault(self._state(cell), []).append(level)
        if len(said) == 1:
            return next(iter(said))
        return ", ".join(f"{words} {_levels(levels)}" for words, levels in said.items())

    def _words_of(self, column: Column) -> str:
        if column.progression is Progression.UNKNOWN:
            # The same words for every such level: they are told once.
            reasons = distinct(
                cell.reason
                for other in self.columns
                if other.progression is Progression.UNKNOWN
                for cell in other.cells.values()
            )
            return "; ".join(reasons) or "no version can be asked"
        known = [index for index, cell in column.cells.items() if cell.known]
        firsts = [known[0], *(change.after for change in column.changes)]
        lasts = [*(change.before for change in column.changes), known[-1]]
        parts = []
        for first, last in zip(firsts, lasts, strict=True):
            names = dict.fromkeys(self.names[index].removeprefix("V") for index in (first, last))
            since = first == firsts[-1] != firsts[0]
            where = f"from {next(iter(names))}" if since else f"in {' to '.join(names)}"
            parts.append(f"{self._state(column.cells[first])} {where}")
        return ", ".join(parts)

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
    found: dict[str, list[str]] = {}
    for reason in filter(None, reasons):
        found.setdefault(_VERSION.sub("#", reason), []).append(reason)
    return [
        first if len(others) == 0 else f"{first} (and so for {counted(len(others), 'other')})"
        for first, *others in (list(dict.fromkeys(some)) for some in found.values())
    ]


_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*")


def _levels(levels: Sequence[int]) -> str:
    return level_words([f"-O{level}" for level in levels])


MISSED = 1e-3
"""Probability with which a failure of the known rate may be overlooked."""
_LEAST = 2
"""Runs of what fails every time: one that is not repeated says nothing about being flaky."""
_MOST = 10_000
"""Runs after which the search gives up on rarer failures; the chance that is left is reported."""


def repeats_for(rate: float) -> int:
    """Return how many runs miss a failure of this rate with a probability below `MISSED`.

    All n runs pass with a probability of (1 - rate)^n. The rate is the share of runs that fail,
    above 0 and up to 1.
    """
    if rate >= 1:
        return _LEAST
    if rate <= 0:
        return _MOST
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
    if isinstance(rate, float) and 0 < rate <= 1:
        return rate
    return 1.0


Probe = Callable[[int, int, int], Counter[Sample] | None]
"""Run with the version of this index at this -O level, up to so many times at once; None, or
`CannotBeAskedError`, if it cannot be asked there."""


class Progression(StrEnum):
    """How the result goes from the oldest version to the newest, least eventful first."""

    UNKNOWN = "no version can be asked"
    NEVER = "never"
    """All versions agree, and agree with the ISA."""
    ALWAYS = "always was so"
    """All versions agree, and disagree with the ISA."""
    CHANGED = "changed"
    """One change."""
    NOT_MONOTONIC = "not monotonic"
    """Several changes."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """Two versions between which the result changes, with none between them that was asked."""

    before: int
    """Index of the last version with the old result."""
    after: int
    """Index of the first version with the new one."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """What the versions do at one level."""

    level: int
    cells: dict[int, Answer]
    """By the index of the version, oldest first; those that were asked."""
    changes: tuple[Change, ...]

    @property
    def progression(self) -> Progression:
        """How the result goes."""
        known = [cell for cell in self.cells.values() if cell.known]
        if not known:
            return Progression.UNKNOWN
        if not self.changes:
            return Progression.ALWAYS if known[0].bad else Progression.NEVER
        return Progression.CHANGED if len(self.changes) == 1 else Progression.NOT_MONOTONIC


def bisect(
    probe: Probe, *, versions: int, level: int, at_hand: Collection[int], times: int
) -> Column:
    """Find the changes of a result over versions, at one level.

    The oldest and the newest version are asked, and those at hand; then, wherever two neighbours
    differ, the one in the middle between them, until none is left between. What lies on both sides
    of a change is asked as often again.

    Parameters
    ----------
    versions
        How many there are; index 0 is the oldest.
    at_hand
        Those that cost nothing to ask.
    """
    cells: dict[int, Answer] = {}
    for index in sorted({0, versions - 1, *at_hand}):
        cells[index] = _ask(probe, index, level, times)
    verified: set[int] = set()
    while True:
        middle = _between(cells)
        if middle is not None:
            cells[middle] = _ask(probe, middle, level, times)
            continue
        sides = {index for one in _changes(cells) for index in (one.before, one.after)}
        if sides <= verified:
            break
        for index in sorted(sides - verified):
            verified.add(index)
            _ask(probe, index, level, times, into=cells[index])
    ordered = dict(sorted(cells.items()))
    return Column(level=level, cells=ordered, changes=tuple(_changes(ordered)))


def _ask(probe: Probe, index: int, level: int, times: int, *, into: Answer | None = None) -> Answer:
    return asked(lambda most: probe(index, level, most), times=times, into=into)


def _between(cells: dict[int, Answer]) -> int | None:
    """Return a version that was not asked and lies between two that differ."""
    asked = sorted(cells)
    for before, after in pairwise(asked):
        if after - before > 1 and not cells[before].same(cells[after]):
            return (before + after) // 2
    # What cannot be asked on both sides of a version says nothing of it.
    for change in _changes(cells):
        open_ones = [one for one in range(change.before, change.after) if one not in cells]
        if open_ones:
            return open_ones[len(open_ones) // 2]
    return None


def _changes(cells: dict[int, Answer]) -> list[Change]:
    known = [index for index in sorted(cells) if cells[index].known]
    return [
        Change(before=before, after=after)
        for before, after in pairwise(known)
        if not cells[before].same(cells[after])
    ]
