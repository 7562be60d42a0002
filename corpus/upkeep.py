"""Whole corpora: findings grouped by cause; merged, pruned, compared, checked.

Merging leaves what a corpus has as it is, and adds what it lacks. What cannot be read or changed
raises an InfrastructureError; what was copied until then is whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import msgspec

from corpus import durable
from corpus.builds import wrong_builds
from corpus.entry import DESCRIPTION, Entry, scan_folders
from corpus.finding import BrokenEntryError, Cause, Finding, Identity, Kind, Problem
from corpus.store import BROKEN, Corpus, Links
from oracle.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Group:
    """Findings of one identity."""

    identity: Identity
    members: tuple[Entry, ...]
    """Findings, those of the worst kind first, the smallest of each kind first (`Finding.size`);
    never empty."""

    @property
    def kind(self) -> Kind:
        """The worst of its members."""
        return self.smallest.finding.kind

    @property
    def smallest(self) -> Entry:
        """The member to show."""
        return self.members[0]


def grouped(
    entries: Iterable[Entry], apart: Callable[[Finding], object] = lambda finding: None
) -> list[Group]:
    """Group findings by identity, worst kind first, and what `apart` tells apart."""
    members: defaultdict[tuple[Identity, object], list[Entry]] = defaultdict(list)
    for entry in entries:
        members[entry.finding.identity, apart(entry.finding)].append(entry)
    groups = []
    for (identity, _), found in members.items():
        found.sort(key=lambda one: (-one.finding.kind.severity, *one.finding.size))
        groups.append(Group(identity=identity, members=tuple(found)))
    return sorted(groups, key=lambda group: (-group.kind.severity, group.identity.text))


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Two corpora, compared by the identities of their findings."""

    only_left: tuple[Group, ...]
    """Findings of an identity of which the right one has none."""
    only_right: tuple[Group, ...]
    common: tuple[str, ...]
    """Ids of the findings in both."""
    problems: tuple[Problem, ...]
    """Broken entries, which were left out."""


def compare(left: Corpus, right: Corpus) -> Difference:
    """Compare two corpora; raw findings whose smaller form is stored do not count."""
    problems: list[Problem] = []
    ours = {entry.id: entry for entry in left.entries(problems.append)}
    theirs = {entry.id: entry for entry in right.entries(problems.append)}
    return Difference(
        only_left=_missing(ours, theirs),
        only_right=_missing(theirs, ours),
        common=tuple(sorted(ours.keys() & theirs.keys())),
        problems=tuple(problems),
    )


def _missing(these: Mapping[str, Entry], those: Mapping[str, Entry]) -> tuple[Group, ...]:
    there = {entry.finding.identity for entry in those.values()}
    return tuple(group for group in grouped(these.values()) if group.identity not in there)


@dataclass(frozen=True, kw_only=True)
class Merged:
    """What merging changed."""

    added: tuple[str, ...]
    """Ids of the findings that were not there."""
    problems: tuple[Problem, ...]
    """What could not be read in the others."""


def merge(destination: Corpus, sources: Iterable[Corpus]) -> Merged:
    """Copy the findings of other corpora, raw ones included, into `destination`.

    In any order the same findings are there in the end. Where several have a finding, the
    description of the first stays, `destination` before all: titles, comments and links are
    anybody's word, and no hash of them is part of the id.
    """
    added: list[str] = []
    problems: list[Problem] = []
    with destination.exclusively():
        for found in chain.from_iterable(
            scan_folders(source.findings, source.raw, checksums=True) for source in sources
        ):
            if isinstance(found, Problem):
                if found.cause is not Cause.LEFTOVER:
                    problems.append(found)
            elif destination.sound(found.id) is None:
                try:
                    new = destination.deposit(found.finding, found.files()).new
                except BrokenEntryError as error:  # changed in the meantime
                    problems.append(error.problem)
                except UsageError as error:
                    problems.append(Problem.of(found.path, Cause.INVALID, str(error)))
                else:
                    added.extend([found.id] if new else [])
        destination.settle()
    return Merged(added=tuple(added), problems=tuple(problems))


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """What pruning kept and removed, or would."""

    kept: tuple[Entry, ...]
    """The smallest of each family."""
    removed: tuple[Entry, ...]
    """Findings that are removed: the others of each family, and raw findings from which none of
    the kept ones came (raw ones first)."""
    raw: tuple[Entry, ...]
    """Removed findings in place of which another one is shown."""
    problems: tuple[Problem, ...]
    """Broken entries; they are left alone."""


def prune(corpus: Corpus, *, dry_run: bool = False) -> Pruned:
    """Remove all but the smallest finding of each family and kind, or only say what would go.

    The raw findings that the kept ones were shrunk from are kept, too.
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
    for group in grouped(corpus.entries(problems.append), wrong_builds):
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


def verify(corpus: Corpus) -> list[Problem]:
    """Return everything that is wrong with a corpus, by finding; nothing is changed.

    Beyond what a scan reports: files that no description lists, smaller forms whose raw finding
    is gone, and broken entries that were set aside.
    """
    problems: list[Problem] = []
    for folder in (corpus.findings, corpus.raw):
        for found in scan_folders(folder, checksums=True):
            problems += [found] if isinstance(found, Problem) else _odd_in(corpus, found)
    aside = corpus.path / BROKEN
    with durable.explained("read", aside):
        problems += [
            Problem.of(
                path,
                Cause.STRANGE,
                "a broken entry, set aside when the same finding was stored again; remove it when "
                "nobody needs it",
            )
            for path in (sorted(aside.iterdir()) if aside.is_dir() else ())
        ]
    return problems


def _odd_in(corpus: Corpus, entry: Entry) -> Iterator[Problem]:
    with durable.explained("read", entry.path):
        for path in sorted(entry.path.iterdir()):
            if path.name != DESCRIPTION and path.name not in entry.finding.files:
                yield Problem.of(
                    path,
                    Cause.STRANGE,
                    f"the finding's {DESCRIPTION} does not list it, and merging and exporting "
                    "leave it out; move it out of the corpus",
                )
    raw = entry.finding.shrunk_from
    if raw is not None and corpus.sound(raw) is None:
        yield Problem.of(
            entry.path,
            Cause.DANGLING,
            f"the raw finding {raw} that it was shrunk from is not there; merge a corpus that has "
            "it, or leave it: the smaller form is whole",
        )
