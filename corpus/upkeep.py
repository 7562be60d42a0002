"""Whole corpora: findings grouped by cause; merged, pruned, compared, checked.

Merging leaves what a corpus has as it is, and adds what it lacks. What cannot be read or changed
raises an InfrastructureError; what was copied until then is whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from corpus.entry import DESCRIPTION, Entry, children, scan_folders
from corpus.finding import BrokenEntryError, Cause, Finding, Identity, Kind, Problem
from corpus.known import wrong_builds
from corpus.store import BROKEN, Corpus, shown_forms
from oracle.errors import UsageError


class Group(NamedTuple):
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
        groups.append(Group(identity, tuple(found)))
    return sorted(groups, key=lambda group: (-group.kind.severity, group.identity.text))


class Difference(NamedTuple):
    """Two corpora, compared by the identities of their findings."""

    only_left: list[Group]  # of an identity of which the right one has none
    only_right: list[Group]
    common: list[str]  # ids of the findings in both
    problems: list[Problem]  # broken entries, which were left out


def compare(left: Corpus, right: Corpus) -> Difference:
    """Compare two corpora; raw findings whose smaller form is stored do not count."""
    problems: list[Problem] = []
    ours, theirs = (
        {entry.id: entry for entry in corpus.entries(problems.append)} for corpus in (left, right)
    )

    def only(these: Mapping[str, Entry], those: Mapping[str, Entry]) -> list[Group]:
        there = {entry.finding.identity for entry in those.values()}
        return [group for group in grouped(these.values()) if group.identity not in there]

    common = sorted(ours.keys() & theirs.keys())
    return Difference(only(ours, theirs), only(theirs, ours), common, problems)


def merge(destination: Corpus, sources: Iterable[Corpus]) -> tuple[list[str], list[Problem]]:
    """Copy the findings of other corpora, raw ones included, into `destination`.

    In any order the same findings are there in the end. Where several have a finding, the
    description of the first stays, `destination` before all: titles, comments and links are
    anybody's word, and no hash of them is part of the id. Returns the ids of the findings that
    were not there, and what could not be read in the others.
    """
    added: list[str] = []
    problems: list[Problem] = []
    with destination.exclusively():
        for source in sources:
            for found in scan_folders(source.findings, source.raw, checksums=True):
                if isinstance(found, Problem):
                    problems += [found] if found.cause is not Cause.LEFTOVER else []
                elif destination.sound(found.id) is None:
                    try:
                        new = destination.deposit(found.finding, found.files()).new
                    except BrokenEntryError as error:  # changed in the meantime
                        problems.append(error.problem)
                    except UsageError as error:
                        problems.append(Problem(found.path, Cause.INVALID, str(error)))
                    else:
                        added += [found.id] if new else []
        destination.settle()
    return added, problems


class Pruned(NamedTuple):
    """What pruning kept and removed, or would."""

    kept: list[Entry]  # the smallest of each family
    removed: list[Entry]
    """The others of each family, and raw findings from which none of the kept ones came (raw ones
    first)."""
    raw: set[str]  # ids of removed findings in place of which another one is shown
    problems: list[Problem]  # broken entries; they are left alone


def prune(corpus: Corpus, *, dry_run: bool = False) -> Pruned:
    """Remove all but the smallest finding of each family and kind, or only say what would go.

    The raw findings that the kept ones were shrunk from are kept, too.
    """
    if dry_run:
        return _plan(corpus)
    with corpus.exclusively():
        plan = _plan(corpus)
        # What is kept stays shown, and what it came from stays hidden, whatever other findings
        # their links lead to now: those are about to be removed.
        for entry in plan.kept:
            if entry.finding.shrunk_to is not None:
                corpus.rewrite(entry, replace(entry.finding, shrunk_to=None))
        everything, ids = corpus.sound_entries(), {entry.id for entry in plan.kept}
        shown = shown_forms(everything)
        for raw, entry in _origins(plan.kept, everything):
            if shown[raw.id].id not in ids:
                corpus.rewrite(raw, replace(raw.finding, shrunk_to=entry.id))
        for entry in plan.removed:
            corpus.remove(entry)
        corpus.settle()
    return plan


def _plan(corpus: Corpus) -> Pruned:
    problems: list[Problem] = []
    groups = grouped(corpus.entries(problems.append), wrong_builds)
    kept = [group.smallest for group in groups]
    everything = corpus.sound_entries()
    shown = shown_forms(everything)
    needed = {raw.id for raw, _ in _origins(kept, everything)}
    raw = [one for one in everything if one.id not in needed and shown[one.id] is not one]
    others = [one for group in groups for one in group.members[1:] if one.id not in needed]
    # Raw ones first: without its smaller form, a raw finding would show again.
    return Pruned(kept, [*raw, *others], {one.id for one in raw}, problems)


def _origins(kept: list[Entry], everything: list[Entry]) -> list[tuple[Entry, Entry]]:
    """Return what some findings were shrunk from, over all steps, each once.

    They come in pairs of a raw finding and the one of `kept` that came from it first.
    """
    by_id = {entry.id: entry for entry in everything}
    found: dict[str, tuple[Entry, Entry]] = {}
    for entry in kept:
        origin = entry.finding.shrunk_from
        while origin in by_id and origin != entry.id and origin not in found:
            found[origin] = by_id[origin], entry
            origin = by_id[origin].finding.shrunk_from
    return list(found.values())


def verify(corpus: Corpus) -> Iterator[Problem]:
    """Yield everything that is wrong with a corpus, by finding; nothing is changed.

    Beyond what a scan reports: files that no description lists, smaller forms whose raw finding
    is gone, and broken entries that were set aside.
    """
    unlisted = (
        f"the finding's {DESCRIPTION} does not list it, and merging and exporting leave it out; "
        "move it out of the corpus"
    )
    for folder in (corpus.findings, corpus.raw):
        for found in scan_folders(folder, checksums=True):
            if isinstance(found, Problem):
                yield found
                continue
            for path in sorted(children(found.path)):
                if path.name != DESCRIPTION and path.name not in found.finding.files:
                    yield Problem(path, Cause.STRANGE, unlisted)
            raw = found.finding.shrunk_from
            if raw is not None and corpus.sound(raw) is None:
                said = (
                    f"the raw finding {raw} that it was shrunk from is not there; merge a corpus "
                )
                said += "that has it, or leave it: the smaller form is whole"
                yield Problem(found.path, Cause.DANGLING, said)
    for path in sorted(children(corpus.path / BROKEN)):
        said = "a broken entry, set aside when the same finding was stored again; remove it when "
        yield Problem(path, Cause.STRANGE, f"{said}nobody needs it")
