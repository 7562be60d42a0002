"""Families of a campaign as a person reads them: one line for one cause, as in the corpus.

A campaign keeps deviations and violations apart, because each has a smallest case of its own. The
same fault makes both, depending on what it is fed, so that `corpus.families` shows them as one
group; this does the same for families that a campaign has not ended yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from corpus import Kind, Saved, ShrinkStatus
from corpus.families import cause_key, group_identity
from corpus.known import KnownEntry


@dataclass(kw_only=True)
class FamilyState:
    """One family of findings in a campaign, and its smallest member."""

    kind: Kind
    key: str
    title: str
    text: str
    """The instruction that stands for the family: the smallest, once it is shrunk."""
    verdict: str
    """What the oracle says of it."""
    message: str
    """What the runner says of it."""
    known: KnownEntry | None = None
    cases: int = 0
    """Cases drawn so far that belong here."""
    saved: Saved | None = None
    shrink: ShrinkStatus = ShrinkStatus.RAW


@dataclass(frozen=True, kw_only=True)
class FindingGroup:
    """Families of one cause, all of them known under the same name, or none of them known."""

    members: tuple[FamilyState, ...]
    """Those of the worst kind first; never empty."""

    @property
    def shown(self) -> FamilyState:
        """The member that stands for all."""
        return self.members[0]

    @property
    def kind(self) -> Kind:
        """The worst of its members."""
        return self.shown.kind

    @property
    def title(self) -> str:
        """The line that a person reads."""
        return self.shown.title

    @property
    def known(self) -> KnownEntry | None:
        """Why it needs not be reported; None if nobody has explained it."""
        return self.shown.known

    @property
    def cases(self) -> int:
        """Cases of all members."""
        return sum(member.cases for member in self.members)


def finding_groups(families: Iterable[FamilyState]) -> list[FindingGroup]:
    """Group families by cause: worst first, what is known last."""
    members: dict[tuple[object, str | None], list[FamilyState]] = {}
    for family in families:
        members.setdefault(group_name(family), []).append(family)
    groups = [
        FindingGroup(members=tuple(sorted(found, key=lambda one: -one.kind.severity)))
        for found in members.values()
    ]
    return sorted(
        groups, key=lambda group: (group.known is not None, -group.kind.severity, group.title)
    )


def group_name(family: FamilyState) -> tuple[object, str | None]:
    """Return what a family has in common with the others of its group."""
    known = family.known.id if family.known is not None else None
    return group_identity(family.kind, family.key), known


def group_counts(families: Iterable[FamilyState]) -> tuple[int, int]:
    """Return how many groups nobody has explained yet, and how many are known."""
    known = {group_name(family): family.known is not None for family in families}
    return len(known) - sum(known.values()), sum(known.values())


def unknown_groups(families: Iterable[FamilyState]) -> int:
    """Return how many groups nobody has explained yet."""
    return group_counts(families)[0]


def finding_row(family: FamilyState) -> dict[str, object]:
    """Return a family as the summary lists it."""
    return {
        "id": family.saved.id if family.saved else None,
        "family": family.key,
        "group": cause_key(family.kind, family.key),
        "kind": family.kind.value,
        "verdict": family.verdict,
        "known": family.known is not None,
        "known_as": family.known.id if family.known else None,
        "path": str(family.saved.path) if family.saved else None,
        "title": family.title,
        "text": family.text,
        "cases": family.cases,
        "shrink": family.shrink.value,
        "message": family.message,
    }


def finding_rows(families: Iterable[FamilyState]) -> list[dict[str, object]]:
    """Return families as the summary lists them: those of one cause together, worst first."""
    return [finding_row(one) for group in finding_groups(families) for one in group.members]
