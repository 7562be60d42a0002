"""A corpus: a folder of findings that a person can read, git can diff and campaigns share.

Every finding is a folder `findings/<id>/`, written elsewhere, flushed and renamed into place, so
that it is there entirely or not at all; its name is a hash of what identifies it, so that two
campaigns that find the same thing write the same folder, and need no lock. A raw finding whose
smaller form is stored moves to `raw/<id>/`, and a broken one that is found again moves to
`broken/` before it is replaced.

What cannot be read or written raises an InfrastructureError, whatever is asked for; what was there
stays, and of what was to be written nothing is visible.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from corpus import durable
from corpus.durable import DESCRIPTION_BYTES, is_folder, read_plain
from corpus.entry import (
    DESCRIPTION,
    KERNEL,
    Entry,
    digest,
    finding_id,
    ids_in,
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
    Problem,
    RunnerVerdict,
    encode,
)
from oracle.errors import UsageError

FINDINGS, RAW, BROKEN = "findings", "raw", "broken"


@dataclass(frozen=True, kw_only=True)
class Saved:
    """What became of a finding that was added."""

    id: str
    """Its id, or that of the smaller form that has replaced it."""
    path: Path
    """The folder that holds it."""
    new: bool
    """False where the corpus had it already."""


class Corpus:
    """A corpus that is there; made by `open_corpus` and `create_corpus`."""

    def __init__(self, path: Path, generator: str) -> None:
        self.path = path
        self.generator = generator
        """What made the corpus, such as "warpfuzz 0.1.0"."""

    @property
    def findings(self) -> Path:
        """Folder of the findings."""
        return self.path / FINDINGS

    @property
    def raw(self) -> Path:
        """Folder of the raw findings that a smaller form has replaced."""
        return self.path / RAW

    def add(self, case: Case, files: Mapping[str, bytes]) -> Saved:
        """Store a finding, unless it is there; when this returns, it is on the disk.

        `files`, by name such as `module.ptx`, count for its identity, so they hold nothing that
        differs from one time to the next. Raises UsageError if the description or a file's name is
        not what the schema allows.
        """
        return self.deposit(_finding(case, files, None), files)

    def identity(self, case: Case, files: Mapping[str, bytes]) -> str:
        """Return the id that `add` would give a finding."""
        return _finding(case, files, None).id

    def replace(self, raw: str, case: Case, files: Mapping[str, bytes]) -> Saved:
        """Store the smaller form of a finding, and move the raw one to `raw/` once it is there.

        Killed at any moment, the corpus shows one of the two. Raises UsageError as `add`; also if
        there is no finding `raw`. `raw` is the full id of the finding that was shrunk; if it was
        shrunk before, its smaller form is replaced.
        """
        shrunk = _finding(case, files, raw)
        if shrunk.id == raw:
            shrunk = msgspec.structs.replace(shrunk, shrunk_from=None)
        with self.exclusively():
            before = self.get(raw)
            if before.id != raw:
                raise UsageError(f"{raw!r} is no whole id; that of the finding is {before.id}")
            # Another campaign may have shrunk it already: then its result is what is replaced.
            shown = self.smaller_form(before)
            if shown.id != shrunk.id:
                # The link first: it means nothing until the smaller form is there, and from
                # then on it hides this one.
                linked = msgspec.structs.replace(shown.finding, shrunk_to=shrunk.id)
                self.rewrite(shown, linked)
            saved = self.deposit(shrunk, files)
            there = self.sound(shrunk.id)
            if there is not None and not saved.new:
                better = preferred(there.finding, shrunk)
                better = msgspec.structs.replace(better, files=there.finding.files)
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
            name: folder / name
            for folder in (self.raw, self.findings)
            for name in ids_in(folder)
            if wanted and name.startswith(wanted)
        }
        if not paths:
            raise UsageError(
                f"{self.path} has no finding whose id starts with {prefix!r}; "
                "`warpfuzz corpus list` shows the ids"
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
        path = {entry.id: entry}
        last = entry
        while last.finding.shrunk_to is not None:
            found = self.sound(last.finding.shrunk_to)
            if found is None or found.id in path:
                break
            path[found.id] = last = found
        return Links(path.values()).shown(entry)

    def scan(self, *, checksums: bool = True) -> Iterator[Entry | Problem]:
        """Yield every finding, by id, and in between what is wrong with those that are broken.

        Raw findings whose smaller form is stored are left out. Without `checksums`, files of
        a finding have only to be there in their size.
        """
        found = list(scan_folders(self.findings, self.raw, checksums=checksums))
        links = Links(one for one in found if isinstance(one, Entry))
        for one in found:
            if isinstance(one, Problem) or not links.is_replaced(one):
                yield one

    def sound_entries(self, *, checksums: bool = True) -> list[Entry]:
        """Return every sound finding, raw ones included, by id."""
        found = scan_folders(self.findings, self.raw, checksums=checksums)
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
        if is_folder(self.findings):
            durable.sweep(self.findings)
        found = self.sound_entries()
        links = Links(found)
        for entry in found:
            self._move(entry.id, self.raw if links.is_replaced(entry) else self.findings)

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
        given = tuple(answers)
        named = {(one.runner, one.version, one.options) for one in given}
        with self.exclusively():
            there = self.sound(entry.id) or entry
            kept = (
                one for one in there.finding.bisected
                if (one.runner, one.version, one.options) not in named
            )  # fmt: skip
            every = sorted((*kept, *given), key=_age)
            self.rewrite(there, msgspec.structs.replace(there.finding, bisected=tuple(every)))

    def attach_kernel(self, entry: Entry, ptx: str) -> None:
        """Store the smallest kernel that shows a finding beside it, in place of an older one."""
        data = ptx.encode()
        record = FileRecord(sha256=digest(data), size=len(data))
        files = {**entry.finding.files, KERNEL: record}
        with self.exclusively(), durable.explained("update", entry.path):
            durable.replace_file(entry.path / KERNEL, data, self.findings)
            self.rewrite(entry, msgspec.structs.replace(entry.finding, files=files))

    def learn(self, case: Case, files: Mapping[str, bytes]) -> None:
        """Write down what is known by now of a stored finding: its identity and its details.

        Nothing happens if the case is not stored here.
        """
        wider = _finding(case, files, None)
        with self.exclusively():
            there = self.sound(wider.id)
            if there is None:
                return
            known = msgspec.structs.replace(
                there.finding,
                identity=wider.identity,
                details=wider.details,
                suspected=wider.suspected,
            )
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
        there = self._stored(finding.id)
        if there is not None:
            return there
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
        return Saved(id=finding.id, path=place, new=new)

    def _move_in(self, folder: Path, place: Path) -> bool:
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

    def _stored(self, identity: str) -> Saved | None:
        for folder in (self.findings, self.raw):
            try:
                entry = read_entry(folder / identity)
            except BrokenEntryError as error:
                if error.problem.cause is Cause.NEWER:
                    return Saved(id=identity, path=folder / identity, new=False)
                continue
            shown = self.smaller_form(entry)
            return Saved(id=shown.id, path=shown.path, new=False)
        return None

    def _move(self, identity: str, folder: Path) -> None:
        source = (self.findings if folder == self.raw else self.raw) / identity
        if not is_folder(source):
            return
        with durable.explained("move a finding in", self.path):
            durable.make_folder(folder)
            if not self._move_in(source, folder / identity):
                with durable.workspace(self.findings) as temporary:
                    source.rename(temporary / identity)
            durable.sync_folder(self.raw)
            durable.sync_folder(self.findings)


def _age(verdict: RunnerVerdict) -> tuple[bool, list[int], str]:
    """Return what orders compilers by version, the driver's last."""
    numbers = [int(one) for one in re.findall(r"\d+", verdict.version)]
    return verdict.runner != "ptxas", numbers, verdict.options


def _finding(case: Case, files: Mapping[str, bytes], shrunk_from: str | None) -> Finding:
    for name in files:
        if not is_file_name(name):
            raise UsageError(
                f"a finding's file cannot be called {name!r}; allowed are letters, digits, "
                f"'.', '_' and '-', a letter or digit first, and not {DESCRIPTION}"
            )
    records = {
        name: FileRecord(sha256=digest(data), size=len(data)) for name, data in files.items()
    }
    fields = {name: getattr(case, name) for name in Case.__struct_fields__}
    identity = finding_id(case, {name: record.sha256 for name, record in records.items()})
    return Finding(**fields, id=identity, files=records, shrunk_from=shrunk_from)


class Links:
    """The links among the findings of a corpus, each followed once.

    `entries` are all that are sound, raw or not.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = {entry.id: entry for entry in entries}
        self._shown: dict[str, Entry] = {}

    def shown(self, entry: Entry) -> Entry:
        """Return the finding that is shown in place of one of these: itself, or a smaller form.

        That is the last one that its links lead to. Where they lead in a ring, which merged
        campaigns may have made, it is the smallest of the ring.
        """
        path: dict[str, Entry] = {}
        while entry.id not in self._shown and entry.id not in path:
            path[entry.id] = entry
            entry = self._entries.get(entry.finding.shrunk_to or "", entry)
        last = self._shown.get(entry.id)
        if last is None:
            ids = list(path)
            ring = ids[ids.index(entry.id) :]
            last = min((path[one] for one in ring), key=lambda one: one.finding.size)
        self._shown |= dict.fromkeys(path, last)
        return last

    def is_replaced(self, entry: Entry) -> bool:
        """Whether another finding is shown in place of this one."""
        return self.shown(entry).id != entry.id

    def origins(self, entries: Iterable[Entry]) -> list[tuple[Entry, Entry]]:
        """Return what some findings were shrunk from, over all steps, each once.

        They come in pairs of a raw finding and the one of `entries` that came from it first.
        """
        found: dict[str, tuple[Entry, Entry]] = {}
        for entry in entries:
            origin = entry.finding.shrunk_from
            while origin in self._entries and origin != entry.id and origin not in found:
                raw = self._entries[origin]
                found[origin] = raw, entry
                origin = raw.finding.shrunk_from
        return list(found.values())


def preferred(one: Finding, other: Finding) -> Finding:
    """Return the description that was shrunk furthest, or else was made first.

    A link to a smaller form is kept from either. All of it is a minimum under a total order, so
    that neither order nor grouping nor repetition counts.
    """

    def rank(finding: Finding) -> tuple[int, float, bytes]:
        files = {name: record for name, record in finding.files.items() if name != KERNEL}
        unlinked = msgspec.structs.replace(finding, shrunk_to=None, files=files)
        return -finding.shrink.progress, finding.created.timestamp(), encode(unlinked)

    links = [link for link in (one.shrunk_to, other.shrunk_to) if link is not None]
    return msgspec.structs.replace(min(one, other, key=rank), shrunk_to=min(links, default=None))
