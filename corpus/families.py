"""Findings grouped by what they share, so that one cause is one line."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from corpus.entry import Entry
from corpus.finding import Finding, Kind

_ONE_CAUSE = (Kind.DEVIATION, Kind.VIOLATION, Kind.LAUNCH_FAILURE, Kind.FLAKY)
"""Kinds that one cause shows in, depending on what it is fed and on what lies around its memory."""
_COMPILERS = re.compile(r"/(only [^/]*|every compiler)$")
"""The end of a key of what compilers are compared for (`fuzz.checks.compiler_suspects`)."""


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
        return _identity(self.kind, self.smallest.finding.family.key)


def compilers_of(key: str) -> str:
    """Return the compilers that a family's key ends with: "only V11.8.89 -O3"; "" without any."""
    found = _COMPILERS.search(key)
    return found[1] if found else ""


def cause_key(kind: Kind, key: str) -> str:
    """Return what groups a family with others: its key, without its kind and its compilers.

    Without the kind only where it is one that one cause shows in: "deviation/wmma.store" and
    "launch failure/wmma.store" are one then. All others are kept apart by kind.
    """
    return group_identity(kind, key)[1]


def group_identity(kind: Kind, key: str) -> tuple[Kind | None, str]:
    """Return what the families of one cause have in common, whoever has it."""
    kept, key = _identity(kind, key)
    return kept, _COMPILERS.sub("", key)


def _identity(kind: Kind, key: str) -> tuple[Kind | None, str]:
    """Return what families have in common that differ in the kind alone."""
    if kind in _ONE_CAUSE and key.startswith(f"{kind}/"):
        return None, key.removeprefix(f"{kind}/")
    return kind, key


def families(entries: Iterable[Entry]) -> list[Group]:
    """Group findings by family, what each set of compilers has apart: worst kind first."""
    return _grouped(entries, lambda finding: _identity(finding.kind, finding.family.key))


def causes(entries: Iterable[Entry], is_known: Callable[[Finding], bool]) -> list[Group]:
    """Group findings by cause: worst kind first, then by key.

    Parameters
    ----------
    is_known
        Whether a finding needs no report: those that do are never in a group with those.
    """
    return _grouped(
        entries,
        lambda finding: (
            *group_identity(finding.kind, finding.family.key), is_known(finding),
        ),
    )  # fmt: skip


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
