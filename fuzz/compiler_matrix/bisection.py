"""Which compiler version changed a result: the search, whatever is asked of each version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What one run showed."""

    label: str
    """Equal for results that are the same: "accepted", "match", "violation 3f2a91c0"."""
    bad: bool
    """Whether this is a disagreement with the ISA."""


Probe = Callable[[int, int], Sample | None]
"""Run once with the version of this index at this -O level; None if it cannot be asked there."""


@dataclass(kw_only=True)
class Cell:
    """What one version does at one level."""

    samples: Counter[Sample] = field(default_factory=Counter)
    """Empty where the version cannot be asked."""

    @property
    def known(self) -> bool:
        """Whether the version can be asked."""
        return bool(self.samples)

    @property
    def flaky(self) -> bool:
        """Whether its runs were not alike."""
        return len(self.samples) > 1

    @property
    def bad(self) -> bool:
        """Whether any of its runs disagreed with the ISA."""
        return any(sample.bad for sample in self.samples)

    @property
    def runs(self) -> int:
        """Number of runs."""
        return self.samples.total()

    @property
    def label(self) -> str:
        """What it did, in words."""
        if not self.known:
            return UNKNOWN
        if not self.flaky:
            return next(iter(self.samples)).label
        failed = sum(count for sample, count in self.samples.items() if sample.bad)
        return f"flaky ({failed} of {self.runs} bad)"

    def same(self, other: Cell) -> bool:
        """Whether two versions do the same; of what is flaky, whether it is ever bad."""
        if self.known and other.known and (self.flaky or other.flaky):
            return self.bad == other.bad
        return self.label == other.label


UNKNOWN = "cannot be asked"
"""Label of a version that does not know the module's target or PTX ISA version."""


class Course(StrEnum):
    """How the result goes from the oldest version to the newest."""

    NEVER = "never"
    """The same everywhere, and as the ISA says."""
    ALWAYS = "always was so"
    """The same everywhere, and not as the ISA says."""
    CHANGED = "changed"
    """One change."""
    NOT_MONOTONIC = "not monotonic"
    """Several changes."""
    UNKNOWN = "no version can be asked"


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
    cells: dict[int, Cell]
    """By the index of the version, oldest first; those that were asked."""
    changes: tuple[Change, ...]

    @property
    def course(self) -> Course:
        """How the result goes."""
        known = [cell for cell in self.cells.values() if cell.known]
        if not known:
            return Course.UNKNOWN
        if not self.changes:
            return Course.ALWAYS if known[0].bad else Course.NEVER
        return Course.CHANGED if len(self.changes) == 1 else Course.NOT_MONOTONIC

    @property
    def flaky(self) -> bool:
        """Whether some version was not the same every time."""
        return any(cell.flaky for cell in self.cells.values())


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
    times
        Runs of each.
    """
    cells: dict[int, Cell] = {}
    for index in sorted({0, versions - 1, *at_hand}):
        cells[index] = ask(Cell(), probe, index, level, times)
    verified: set[int] = set()
    while True:
        middle = _between(cells)
        if middle is not None:
            cells[middle] = ask(Cell(), probe, middle, level, times)
            continue
        sides = {index for one in _changes(cells) for index in (one.before, one.after)}
        if sides <= verified:
            break
        for index in sorted(sides - verified):
            verified.add(index)
            ask(cells[index], probe, index, level, times)
    ordered = dict(sorted(cells.items()))
    return Column(level=level, cells=ordered, changes=tuple(_changes(ordered)))


def ask(cell: Cell, probe: Probe, index: int, level: int, times: int) -> Cell:
    """Ask a version some times and add what it says to a cell, which is returned."""
    for _ in range(times):
        sample = probe(index, level)
        if sample is None:
            break
        cell.samples[sample] += 1
    return cell


def _between(cells: dict[int, Cell]) -> int | None:
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


def _changes(cells: dict[int, Cell]) -> list[Change]:
    known = [index for index in sorted(cells) if cells[index].known]
    return [
        Change(before=before, after=after)
        for before, after in pairwise(known)
        if not cells[before].same(cells[after])
    ]
