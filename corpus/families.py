"""Findings grouped by what they share, so that one cause is one line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from corpus.entry import Entry
from corpus.finding import Kind

_ONE_CAUSE = (Kind.DEVIATION, Kind.VIOLATION, Kind.LAUNCH_FAILURE, Kind.FLAKY)
"""Kinds that one cause shows in, depending on what it is fed and on what lies around its memory."""


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
        merged = self.key != self.smallest.finding.family.key
        return None if merged else self.kind, self.key


def cause_key(kind: Kind, key: str) -> str:
    """Return what groups a family with others: its key, without the kind that it starts with.

    Only for kinds that one cause shows in: "deviation/wmma.store" and "launch failure/wmma.store"
    are one then. All others are kept apart by kind.
    """
    if kind in _ONE_CAUSE and key.startswith(f"{kind}/"):
        return key.removeprefix(f"{kind}/")
    return key


def group_identity(kind: Kind, key: str) -> tuple[Kind | None, str]:
    """Return what the families of one group have in common: their cause, or kind and key."""
    cause = cause_key(kind, key)
    return None if cause != key else kind, cause


def families(entries: Iterable[Entry]) -> list[Group]:
    """Group findings by family: worst kind first, then by key."""
    members: defaultdict[tuple[Kind | None, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        finding = entry.finding
        members[group_identity(finding.kind, finding.family.key)].append(entry)
    groups = []
    for (_, key), found in members.items():
        found.sort(key=lambda one: (-one.finding.kind.severity, *one.finding.size))
        groups.append(Group(kind=found[0].finding.kind, key=key, members=tuple(found)))
    return sorted(groups, key=lambda group: (-group.kind.severity, group.key))
