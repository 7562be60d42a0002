"""A corpus: a folder of findings that a person can read, git can diff and campaigns share.

Every finding is a folder `findings/<id>/`, written elsewhere, flushed and renamed into place, so
that it is there entirely or not at all; its name is a hash of what identifies it, so that two
campaigns that find the same thing write the same folder, and need no lock. A raw finding whose
smaller form is stored moves to `raw/<id>/`, and a broken one that is found again moves to
`broken/` before it is replaced.

What cannot be read or written raises an InfrastructureError, whatever is asked for; what was there
stays, and of what was to be written nothing is visible. Merging leaves what a corpus has as it is,
and adds what it lacks; what was copied until an error is whole.
"""

from __future__ import annotations

import errno
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from msgspec.structs import replace

from corpus import durable
from corpus.durable import DESCRIPTION_BYTES, read_plain
from corpus.entry import (
    DESCRIPTION,
    IDS,
    KERNEL,
    Entry,
    children,
    digest,
    finding_id,
    is_file_name,
    read_entry,
    scan_folders,
)
from corpus.finding import (
    BrokenEntryError,
    Case,
    Cause,
    FileRecord,
    Finding,
    Identity,
    Kind,
    Problem,
    RunnerVerdict,
    encode,
    wrong_builds,
)
from oracle.errors import UsageError

FINDINGS, RAW, BROKEN = "findings", "raw", "broken"


class Saved(NamedTuple):
    """What became of a finding that was added."""

    id: str  # its own, or that of the smaller form that has replaced it
    path: Path  # the folder that holds it
    new: bool  # False where the corpus had it already


class Corpus:
    """A corpus that is there; made by `open_corpus` and `create_corpus`."""

    def __init__(self, path: Path, generator: str) -> None:
        self.path, self.generator = path, generator
        self.findings, self.raw = path / FINDINGS, path / RAW

    def add(self, case: Case, files: Mapping[str, bytes]) -> Saved:
        """Store a finding, unless it is there; when this returns, it is on the disk.

        `files`, by name such as `module.ptx`, count for its identity, so they hold nothing that
        differs from one time to the next. Raises UsageError if the description or a file's name is
        not what the schema allows.
        """
        return self.deposit(_finding(case, files), files)

    def identity(self, case: Case, files: Mapping[str, bytes]) -> str:
        """Return the id that `add` would give a finding."""
        return _finding(case, files).id

    def replace(self, raw: str, case: Case, files: Mapping[str, bytes]) -> Saved:
        """Store the smaller form of a finding, and move the raw one to `raw/` once it is there.

        Killed at any moment, the corpus shows one of the two. Raises UsageError as `add`; also if
        there is no finding `raw`. `raw` is the full id of the finding that was shrunk; if it was
        shrunk before, its smaller form is replaced.
        """
        shrunk = _finding(case, files)
        if shrunk.id != raw:
            shrunk = replace(shrunk, shrunk_from=raw)
        with self.exclusively():
            before = self.get(raw)
            if before.id != raw:
                raise UsageError(f"{raw!r} is no whole id; that of the finding is {before.id}")
            # Another campaign may have shrunk it already: then its result is what is replaced.
            shown = self.smaller_form(before)
            if shown.id != shrunk.id:
                # The link first: it means nothing until the smaller form is there, and from
                # then on it hides this one.
                self.rewrite(shown, replace(shown.finding, shrunk_to=shrunk.id))
            saved = self.deposit(shrunk, files)
            there = self.sound(shrunk.id)
            if there is not None and not saved.new:
                better = _preferred(there.finding, shrunk)
                with durable.explained("read", there.path):
                    stored = read_plain(there.path / DESCRIPTION, most=DESCRIPTION_BYTES)
                if stored != encode(better):  # be it of an older schema
                    self.rewrite(there, better)
            shown = self.sound(shown.id) or shown
            if self.smaller_form(shown).id != shown.id:
                self._move(shown.id, self.raw)
            return saved

    def get(self, prefix: str) -> Entry:
        """Return the finding with this id, or whose id alone starts like this.

        Raw findings that were replaced are found, too. Raises UsageError if there is none, or more
        than one, and BrokenEntryError if it is there and cannot be used.
        """
        wanted = prefix.strip().lower()
        paths = {
            path.name: path
            for folder in (self.raw, self.findings)
            for path in children(folder)
            if wanted and path.name.startswith(wanted) and IDS.fullmatch(path.name)
        }
        if not paths:
            raise UsageError(
                f"{self.path} has no finding whose id starts with {prefix!r}; "
                f"`warpfuzz corpus list {quote(str(self.path))}` shows the ids"
            )
        if len(paths) > 1:
            some = ", ".join(sorted(paths)[:5])
            raise UsageError(
                f"{len(paths)} findings of {self.path} have an id that starts with {prefix!r} "
                f"({some}{', …' if len(paths) > 5 else ''}); give more of it"
            )
        (path,) = paths.values()
        return read_entry(path)

    def sound(self, identity: str) -> Entry | None:
        """Return the finding with exactly this id, or None where it is not there or broken."""
        # `findings/` before `raw/`: those that are replaced move from the one to the other.
        for folder in (self.findings, self.raw):
            with suppress(BrokenEntryError):
                return read_entry(folder / identity)
        return None

    def smaller_form(self, entry: Entry) -> Entry:
        """Return the finding that is shown in place of one: itself where there is no smaller form.

        That is the last one that its links lead to. Where they lead in a ring, the smallest
        member of the ring is shown.
        """
        path: dict[str, Entry] = {}
        last: Entry | None = entry
        while last is not None and last.id not in path:
            path[last.id] = last
            last = self.sound(last.finding.shrunk_to) if last.finding.shrunk_to else None
        return shown_forms(path.values())[entry.id]

    def scan(self, *, checksums: bool = True) -> Iterator[Entry | Problem]:
        """Yield every finding, by id, and in between what is wrong with those that are broken.

        Raw findings whose smaller form is stored are left out. Without `checksums`, files of
        a finding have only to be there in their size.
        """
        found = list(scan_folders(self.findings, self.raw, checksums=checksums))
        shown = shown_forms(one for one in found if isinstance(one, Entry))
        for one in found:
            if isinstance(one, Problem) or shown[one.id] is one:
                yield one

    def sound_entries(self) -> list[Entry]:
        """Return every sound finding, raw ones included, by id."""
        found = scan_folders(self.findings, self.raw, checksums=True)
        return [one for one in found if isinstance(one, Entry)]

    def entries(
        self, report: Callable[[Problem], object] = id, *, checksums: bool = True
    ) -> Iterator[Entry]:
        """Yield the sound findings, by id; `report` is told of the others."""
        for found in self.scan(checksums=checksums):
            if isinstance(found, Entry):
                yield found
            else:
                report(found)

    def settle(self) -> None:
        """Remove what killed writers left, and move every finding to the folder it belongs in.

        Whoever calls this holds the lock (`exclusively`).
        """
        durable.sweep(self.findings)
        found = self.sound_entries()
        shown = shown_forms(found)
        for entry in found:
            self._move(entry.id, self.findings if shown[entry.id] is entry else self.raw)

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Keep others from changing what is stored; adding needs no such lock, and goes on."""
        with durable.explained("lock", self.path):
            durable.make_folder(self.findings)
            with durable.exclusive(self.findings):
                yield

    def rewrite(self, entry: Entry, finding: Finding) -> None:
        """Replace the description of a stored finding by another one of the same identity."""
        data = encode(finding)
        with durable.explained("update", entry.path):
            durable.replace_file(entry.path / DESCRIPTION, data, self.findings)

    def add_bisected(self, entry: Entry, answers: Iterable[RunnerVerdict]) -> None:
        """Keep what compilers did of a stored finding, in place of what they did before."""

        def age(verdict: RunnerVerdict) -> tuple[bool, list[int], str]:
            numbers = [int(one) for one in re.findall(r"\d+", verdict.version)]
            return verdict.runner != "ptxas", numbers, verdict.options

        given = {one.build: one for one in answers}
        with self.exclusively():
            there = self.sound(entry.id) or entry
            every = {one.build: one for one in there.finding.bisected} | given
            bisected = tuple(sorted(every.values(), key=age))
            self.rewrite(there, replace(there.finding, bisected=bisected))

    def attach_kernel(self, entry: Entry, ptx: str) -> None:
        """Store the smallest kernel that shows a finding beside it, in place of an older one."""
        data = ptx.encode()
        files = {**entry.finding.files, **_records({KERNEL: data})}
        with self.exclusively(), durable.explained("update", entry.path):
            durable.replace_file(entry.path / KERNEL, data, self.findings)
            self.rewrite(entry, replace(entry.finding, files=files))

    def learn(self, case: Case, files: Mapping[str, bytes]) -> None:
        """Write down what is known by now of a stored finding: its identity and its details.

        Nothing happens if the case is not stored here.
        """
        with self.exclusively():
            there = self.sound(self.identity(case, files))
            if there is None:
                return
            told = {name: getattr(case, name) for name in ("identity", "details", "suspected")}
            known = replace(there.finding, **told)
            if known != there.finding:
                self.rewrite(there, known)

    def remove(self, entry: Entry) -> None:
        """Remove a finding: gone entirely or not at all."""
        with durable.explained("remove", entry.path), durable.workspace(self.findings) as folder:
            with suppress(FileNotFoundError):
                entry.path.rename(folder / entry.id)
            durable.sync_folder(entry.path.parent)

    def deposit(self, finding: Finding, files: Mapping[str, bytes]) -> Saved:
        """Store what already is a finding, of another corpus say, as `add` does."""
        data = encode(finding)
        for there in (self.findings / finding.id, self.raw / finding.id):
            try:
                shown = self.smaller_form(read_entry(there))
            except BrokenEntryError as error:
                if error.problem.cause is Cause.NEWER:
                    return Saved(finding.id, there, new=False)
            else:
                return Saved(shown.id, shown.path, new=False)
        place = self.findings / finding.id
        with durable.explained("store a finding in", self.path):
            durable.make_folder(self.findings)
            with durable.workspace(self.findings) as folder:
                for name, contents in sorted(files.items()):
                    durable.write_file(folder / name, contents)
                durable.write_file(folder / DESCRIPTION, data)
                durable.sync_folder(folder)
                new = self._move_in(folder, place)
            durable.sync_folder(self.findings)
        return Saved(finding.id, place, new)

    def _move_in(self, folder: Path, place: Path) -> bool:
        """Move a whole finding to its place; False where it is there already."""
        try:
            folder.rename(place)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
        else:
            return True
        try:
            read_entry(place)
        except BrokenEntryError as error:
            if error.problem.cause is Cause.NEWER:
                return False
            aside = self.path / BROKEN
            durable.make_folder(aside)
            with suppress(FileNotFoundError):
                place.rename(aside / f"{place.name}-{os.urandom(4).hex()}")
            folder.rename(place)
            return True
        # Another campaign stored the same finding a moment ago.
        return False

    def _move(self, identity: str, folder: Path) -> None:
        source = (self.findings if folder == self.raw else self.raw) / identity
        if source.is_symlink() or not source.is_dir():
            return
        with durable.explained("move a finding in", self.path):
            durable.make_folder(folder)
            if not self._move_in(source, folder / identity):
                with durable.workspace(self.findings) as temporary:
                    source.rename(temporary / identity)
            durable.sync_folder(self.raw)
            durable.sync_folder(self.findings)


def _finding(case: Case, files: Mapping[str, bytes]) -> Finding:
    for name in files:
        if not is_file_name(name):
            raise UsageError(
                f"a finding's file cannot be called {name!r}; allowed are letters, digits, "
                f"'.', '_' and '-', a letter or digit first, and not {DESCRIPTION}"
            )
    records = _records(files)
    fields = {name: getattr(case, name) for name in Case.__struct_fields__}
    identity = finding_id(case, {name: record.sha256 for name, record in records.items()})
    return Finding(**fields, id=identity, files=records)


def _records(files: Mapping[str, bytes]) -> dict[str, FileRecord]:
    return {name: FileRecord(sha256=digest(data), size=len(data)) for name, data in files.items()}


def shown_forms(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Map the id of each finding to the one that is shown in its place: itself, or a smaller form.

    That is the last one that its links lead to. Where they lead in a ring, which merged campaigns
    may have made, it is the smallest of the ring. Each link is followed once.
    """
    by_id = {entry.id: entry for entry in entries}
    shown: dict[str, Entry] = {}
    for entry in by_id.values():
        path: dict[str, Entry] = {}
        at = entry
        while at.id not in shown and at.id not in path:
            path[at.id] = at
            at = by_id.get(at.finding.shrunk_to or "", at)
        last = shown.get(at.id)
        if last is None:
            ids = list(path)
            ring = (path[one] for one in ids[ids.index(at.id) :])
            last = min(ring, key=lambda one: one.finding.size)
        shown |= dict.fromkeys(path, last)
    return shown


def _preferred(stored: Finding, other: Finding) -> Finding:
    """Return the description that was shrunk furthest, or else was made first, with stored files.

    A link to a smaller form is kept from either. All of it is a minimum under a total order, so
    that neither order nor grouping nor repetition counts.
    """

    def rank(finding: Finding) -> tuple[int, float, bytes]:
        files = {name: record for name, record in finding.files.items() if name != KERNEL}
        unlinked = encode(replace(finding, shrunk_to=None, files=files))
        return -finding.shrink.progress, finding.created.timestamp(), unlinked

    links = [one.shrunk_to for one in (stored, other) if one.shrunk_to is not None]
    better = min(stored, other, key=rank)
    return replace(better, shrunk_to=min(links, default=None), files=stored.files)


class CauseGroup(NamedTuple):
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
) -> list[CauseGroup]:
    """Group findings by identity, worst kind first, and what `apart` tells apart."""
    members: defaultdict[tuple[Identity, object], list[Entry]] = defaultdict(list)
    for entry in entries:
        members[entry.finding.identity, apart(entry.finding)].append(entry)
    groups = []
    for (identity, _), found in members.items():
        found.sort(key=lambda one: (-one.finding.kind.severity, *one.finding.size))
        groups.append(CauseGroup(identity, tuple(found)))
    return sorted(groups, key=lambda group: (-group.kind.severity, group.identity.text))


class CorpusDifference(NamedTuple):
    """Two corpora, compared by the identities of their findings."""

    only_left: list[CauseGroup]  # of an identity of which the right one has none
    only_right: list[CauseGroup]
    common: list[str]  # ids of the findings in both
    problems: list[Problem]  # broken entries, which were left out


def compare(left: Corpus, right: Corpus) -> CorpusDifference:
    """Compare two corpora; raw findings whose smaller form is stored do not count."""
    problems: list[Problem] = []
    ours, theirs = (
        {entry.id: entry for entry in corpus.entries(problems.append)} for corpus in (left, right)
    )

    def only(these: Mapping[str, Entry], those: Mapping[str, Entry]) -> list[CauseGroup]:
        there = {entry.finding.identity for entry in those.values()}
        return [group for group in grouped(these.values()) if group.identity not in there]

    common = sorted(ours.keys() & theirs.keys())
    return CorpusDifference(only(ours, theirs), only(theirs, ours), common, problems)


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
