"""Findings grouped by what they share, so that one cause is one line; two corpora compared so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from corpus.entry import Entry
from corpus.finding import Finding, Kind
from corpus.problems import Problem
from corpus.store import Corpus


@dataclass(frozen=True, kw_only=True)
class Group:
    """The findings of one family: of one kind, or of several kinds and one cause."""

    kind: Kind
    """The worst of its members."""
    key: str
    members: tuple[Entry, ...]
    """Those of the worst kind first, the smallest of each first (`Finding.size`); never empty."""

    @property
    def smallest(self) -> Entry:
        """The member to show."""
        return self.members[0]

    @property
    def title(self) -> str:
        """The line that a person reads: that of the smallest member."""
        return self.smallest.finding.family.title

    @property
    def identity(self) -> tuple[Kind | None, str]:
        """What this and the group of the same family in another corpus have in common."""
        return self.smallest.finding.family.identity(self.kind)


def families(entries: Iterable[Entry]) -> list[Group]:
    """Group findings by family, what each set of compilers has apart: worst kind first."""
    return _grouped(entries, lambda finding: finding.family.identity(finding.kind))


def causes(entries: Iterable[Entry], is_known: Callable[[Finding], bool]) -> list[Group]:
    """Group findings by cause: worst kind first, then by key.

    Parameters
    ----------
    is_known
        Whether a finding needs no report: those that do are never in a group with those.
    """
    return _grouped(
        entries,
        lambda finding: (*finding.family.cause(finding.kind), is_known(finding)),
    )


def _grouped(
    entries: Iterable[Entry],
    identity: Callable[[Finding], tuple[Kind | None, str, *tuple[bool, ...]]],
) -> list[Group]:
    members: defaultdict[tuple[Kind | None, str, *tuple[bool, ...]], list[Entry]] = defaultdict(
        list
    )
    for entry in entries:
        members[identity(entry.finding)].append(entry)
    groups = []
    for (_, key, *_), found in members.items():
        found.sort(key=lambda one: (-one.finding.kind.severity, *one.finding.size))
        groups.append(Group(kind=found[0].finding.kind, key=key, members=tuple(found)))
    return sorted(groups, key=lambda group: (-group.kind.severity, group.key))


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Two corpora, compared by finding and by family."""

    only_left: tuple[Entry, ...]
    only_right: tuple[Entry, ...]
    common: tuple[str, ...]
    """Ids of the findings in both."""
    families_only_left: tuple[Group, ...]
    """Families of which the right one has no finding at all."""
    families_only_right: tuple[Group, ...]
    problems: tuple[Problem, ...]
    """Broken entries, which were left out."""


def compare(left: Corpus, right: Corpus) -> Difference:
    """Compare two corpora; raw findings whose smaller form is stored do not count.

    Raises
    ------
    InfrastructureError
        If one of them cannot be read.
    """
    problems: list[Problem] = []
    ours = {entry.id: entry for entry in left.entries(problems.append)}
    theirs = {entry.id: entry for entry in right.entries(problems.append)}
    our_families = {group.identity: group for group in families(ours.values())}
    their_families = {group.identity: group for group in families(theirs.values())}
    return Difference(
        only_left=_missing(ours, theirs),
        only_right=_missing(theirs, ours),
        common=tuple(sorted(ours.keys() & theirs.keys())),
        families_only_left=_missing(our_families, their_families),
        families_only_right=_missing(their_families, our_families),
        problems=tuple(problems),
    )


def _missing(these: dict[_Key, _Value], those: dict[_Key, _Value]) -> tuple[_Value, ...]:
    return tuple(value for key, value in these.items() if key not in those)
