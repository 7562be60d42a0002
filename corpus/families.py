"""Findings grouped by what they share, so that one cause is one line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from corpus.entry import Entry
from corpus.finding import Kind


@dataclass(frozen=True, kw_only=True)
class Group:
    """The findings of one family and kind."""

    kind: Kind
    key: str
    members: tuple[Entry, ...]
    """Smallest first (`Finding.size`); never empty."""

    @property
    def smallest(self) -> Entry:
        """The member to show."""
        return self.members[0]

    @property
    def title(self) -> str:
        """The line that a person reads: that of the smallest member."""
        return self.smallest.finding.family.title


def families(entries: Iterable[Entry]) -> list[Group]:
    """Group findings by kind and family: worst kind first, then by key."""
    members: defaultdict[tuple[Kind, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        members[entry.finding.kind, entry.finding.family.key].append(entry)
    groups = [
        Group(kind=kind, key=key, members=tuple(sorted(found, key=lambda one: one.finding.size)))
        for (kind, key), found in members.items()
    ]
    return sorted(groups, key=lambda group: (-group.kind.severity, group.key))
