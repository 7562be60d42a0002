"""Keeping the smallest finding of each family."""

from __future__ import annotations

from dataclasses import dataclass

from corpus.entry import Entry
from corpus.families import families
from corpus.problems import Problem
from corpus.store import Corpus


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """What pruning kept and removed, or would."""

    kept: tuple[Entry, ...]
    """The smallest of each family."""
    removed: tuple[Entry, ...]
    """The others, and the raw findings that none of the kept came from."""
    problems: tuple[Problem, ...]
    """Broken entries; they are left alone."""


def prune(corpus: Corpus, *, dry_run: bool = False) -> Pruned:
    """Remove all but the smallest finding of each family and kind.

    The raw findings that the kept ones were shrunk from are kept, too.

    Parameters
    ----------
    corpus
        Where.
    dry_run
        Only say what would be removed.

    Raises
    ------
    InfrastructureError
        If something cannot be read or removed.
    """
    if dry_run:
        return _plan(corpus)
    with corpus.exclusively():
        plan = _plan(corpus)
        for entry in plan.removed:
            corpus.remove(entry)
        corpus.settle()
    return plan


def _plan(corpus: Corpus) -> Pruned:
    problems: list[Problem] = []
    kept: list[Entry] = []
    others: list[Entry] = []
    for group in families(corpus.entries(problems.append)):
        kept.append(group.smallest)
        others.extend(group.members[1:])
    raw = {entry.id: entry for entry in corpus.replaced()}
    for entry in kept:
        origin = entry.finding.shrunk_from
        while origin is not None and origin in raw:
            origin = raw.pop(origin).finding.shrunk_from
    # Raw ones first: without its smaller form, a raw finding would show again.
    return Pruned(kept=tuple(kept), removed=(*raw.values(), *others), problems=tuple(problems))
