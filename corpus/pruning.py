"""Keeping the smallest finding of each family."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from corpus.entry import Entry
from corpus.families import families
from corpus.links import Links
from corpus.problems import Problem
from corpus.store import Corpus


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """What pruning kept and removed, or would."""

    kept: tuple[Entry, ...]
    """The smallest of each family."""
    removed: tuple[Entry, ...]
    """The others, and the raw findings that none of the kept came from (raw ones first)."""
    raw: tuple[Entry, ...]
    """Those of the removed that another finding is shown in place of."""
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
        _relink(corpus, plan.kept)
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
    everything = corpus.sound_entries()
    links = Links(everything)
    needed = {raw.id for raw, _ in links.origins(kept)}
    raw = [one for one in everything if one.id not in needed and links.is_replaced(one)]
    # Raw ones first: without its smaller form, a raw finding would show again.
    return Pruned(
        kept=tuple(kept),
        removed=(*raw, *(entry for entry in others if entry.id not in needed)),
        raw=tuple(raw),
        problems=tuple(problems),
    )


def _relink(corpus: Corpus, kept: tuple[Entry, ...]) -> None:
    # What is kept stays shown, and what it came from stays hidden, whatever other findings their
    # links lead to now: those are about to be removed.
    ids = {entry.id for entry in kept}
    for entry in kept:
        if entry.finding.shrunk_to is not None:
            corpus.rewrite(entry, msgspec.structs.replace(entry.finding, shrunk_to=None))
    links = Links(corpus.sound_entries())
    for raw, entry in links.origins(kept):
        if links.shown(raw).id not in ids:
            corpus.rewrite(raw, msgspec.structs.replace(raw.finding, shrunk_to=entry.id))
