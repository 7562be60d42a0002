"""Findings grouped by what they share, so that one cause is one line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from corpus.entry import Entry
from corpus.finding import Finding, Kind


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
