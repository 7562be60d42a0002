"""What one corpus has and another has not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from corpus.entry import Entry
from corpus.families import Group, families
from corpus.problems import Problem
from corpus.store import Corpus

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
