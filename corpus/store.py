"""A corpus: a folder of findings that a person can read, git can diff and campaigns share.

Every finding is a folder `findings/<id>/`, renamed into place whole; its name is a hash of what
identifies it. A raw one whose smaller form is stored moves to `raw/`, a broken one to `broken/`.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, NamedTuple

import msgspec
from msgspec.structs import replace

from corpus import durable
from corpus.durable import DESCRIPTION_BYTES, FILE_BYTES, is_folder, read_plain
from corpus.finding import (
    ID_DIGITS,
    KERNEL,
    BrokenEntryError,
    Case,
    Cause,
    FileRecord,
    Finding,
    Problem,
    RunnerVerdict,
    ShrinkStatus,
    decode,
    digest,
    encode,
    explain,
    finding_id,
    read_document,
    size_of,
    who_was_asked,
)
from oracle.errors import InfrastructureError, UsageError

FINDINGS, RAW, BROKEN = "findings", "raw", "broken"
DESCRIPTION = "finding.json"  # name of the file that describes a finding
MANIFEST = "corpus.json"
LAYOUT = 1  # version of the folder's layout, which `corpus.json` names
IDS = re.compile(f"[0-9a-f]{{{ID_DIGITS}}}")  # what an id looks like
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_STRANGE = "it is not a plain file"


def is_file_name(name: str) -> bool:
    """Whether a finding's file may have this name: plain, portable, and not the description's."""
    return _FILE_NAME.fullmatch(name) is not None and name.lower() != DESCRIPTION


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A finding and the folder that holds it."""

    path: Path
    finding: Finding

    @property
    def id(self) -> str:
        """The finding's id."""
        return self.finding.id

    def read(self, name: str) -> bytes:
        """Return the contents of one of the finding's files, if they are those that were stored."""
        if name not in self.finding.files:
            raise UsageError(f"finding {self.id} has no file {name!r}; see `corpus show`")
        return _checked(self.path / name, self.finding.files[name])

    def files(self) -> dict[str, bytes]:
        """Return the contents of all of the finding's files, by name (see `read`)."""
        return {name: self.read(name) for name in sorted(self.finding.files)}


def read_entry(path: Path, *, checksums: bool = True) -> Entry:
    """Return the finding in a folder; BrokenEntryError if it is not as stored."""
    description = path / DESCRIPTION
    if path.is_symlink():
        said = "it is a link, and links in a corpus are not followed"
        raise BrokenEntryError(path, Cause.STRANGE, said, "remove it")
    finding = decode(_read(description, Cause.NO_DESCRIPTION, DESCRIPTION_BYTES), description)
    if finding.id != path.resolve().name:
        said = f"the folder's name is not the id {finding.id} in its {DESCRIPTION}"
        raise BrokenEntryError(path, Cause.MISNAMED, said, "give the folder that name again")
    for name, record in sorted(finding.files.items()):
        # A corpus may come from anybody: a name must not lead out of the folder.
        if not is_file_name(name):
            said = f"it lists a file {name!r}, which is no plain file name"
            raise BrokenEntryError(description, Cause.INVALID, said, "remove the folder")
        _checked(path / name, record, checksums=checksums)
    digests = {name: record.sha256 for name, record in finding.files.items()}
    if finding_id(finding, digests) != finding.id:
        said = f"what it describes does not have the id {finding.id}: it was edited"
        remedy = "undo the edit, or import it as a case of its own"
        raise BrokenEntryError(description, Cause.MISNAMED, said, remedy)
    return Entry(path=path, finding=finding)


def _read(path: Path, missing: Cause, most: int) -> bytes:
    try:
        return read_plain(path, most=most)
    except OSError as error:
        match error.errno:
            case errno.ENOENT | errno.ENOTDIR:
                cause, said = missing, "the file is not there"
            case errno.ELOOP | errno.ENXIO:
                cause, said = Cause.STRANGE, _STRANGE
            case errno.EFBIG:
                cause, said = Cause.INVALID, f"it has more than {most >> 20} MiB"
            case _:
                cause, said = Cause.UNREADABLE, f"it cannot be read ({error.strerror})"
        raise BrokenEntryError(path, cause, said) from error


def _checked(path: Path, record: FileRecord, *, checksums: bool = True) -> bytes:
    """Return the contents of a file if they are as recorded; without `checksums`, none."""
    try:
        found = path.lstat()
    except OSError:
        raise BrokenEntryError(path, Cause.MISSING_FILE, "the file is not there") from None
    if not stat.S_ISREG(found.st_mode):
        raise BrokenEntryError(path, Cause.STRANGE, _STRANGE)
    data, changed = b"", found.st_size != record.size
    if checksums and not changed:
        data = _read(path, Cause.MISSING_FILE, FILE_BYTES)
        changed = digest(data) != record.sha256
    if changed:
        said = "its size or SHA-256 is not the recorded one: it was cut off or changed"
        raise BrokenEntryError(path, Cause.CHANGED_FILE, f"{said}, by core.autocrlf of git, say")
    return data


def scan_folders(*folders: Path, checksums: bool) -> Iterator[Entry | Problem]:
    """Yield every finding in some folders, by id, or what is wrong with it; of two, the earlier."""
    paths = [path for folder in folders for path in children(folder)]
    last = ""
    # Sorting is stable: among equal names, the earlier folder comes first.
    for path in sorted(paths, key=lambda path: path.name):
        if path.name.startswith("."):  # being written, or left by a killed writer, say
            continue
        if not IDS.fullmatch(path.name):
            said = "no finding has this name; move it out of the corpus, or import it if it is a "
            yield Problem(path, Cause.STRANGE, f"{path}: {said}case written by hand")
        elif path.name != last:
            try:
                entry = read_entry(path, checksums=checksums)
            except BrokenEntryError as error:
                # Gone in the meantime: pruned, or replaced by its smaller form.
                if os.path.lexists(path):
                    yield error.problem
            else:
                last = path.name
                yield entry


def children(folder: Path) -> list[Path]:
    """Return what is in a folder, which may be missing, and is no link."""
    with durable.explained("read", folder):
        return list(folder.iterdir()) if is_folder(folder) else []


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

        `files` count for its id. UsageError: the schema does not allow it, or a file's name.
        """
        return self.deposit(_finding(case, files), files)

    def identity(self, case: Case, files: Mapping[str, bytes]) -> str:
        """Return the id that `add` would give a finding."""
        return _finding(case, files).id

    def replace(self, raw: str, case: Case, files: Mapping[str, bytes]) -> Saved:
        """Store the smaller form of a finding (a full id), and move the raw one to `raw/`.

        Killed at any moment, the corpus shows one of the two. UsageError as `add`, or no such id.
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
            steps = list(ShrinkStatus)
            if there and steps.index(there.finding.shrink) < steps.index(shrunk.shrink):
                # It was there, and nobody knew that nothing can be taken away from it.
                kept = {"files": there.finding.files, "shrunk_to": there.finding.shrunk_to}
                self.rewrite(there, replace(shrunk, **kept))
            shown = self.sound(shown.id) or shown
            if self.smaller_form(shown).id != shown.id:
                self._move(shown.id, self.raw)
            return saved

    def get(self, prefix: str) -> Entry:
        """Return the finding whose id alone starts like this, raw ones too; else UsageError."""
        wanted = prefix.strip().lower()
        paths = {
            path.name: path
            for folder in (self.raw, self.findings)
            for path in children(folder)
            if wanted and path.name.startswith(wanted) and IDS.fullmatch(path.name)
        }
        if len(paths) != 1:
            several = f"several findings ({', '.join(sorted(paths)[:5])})"
            raise UsageError(
                f"{several if paths else 'no finding'} of {self.path} with an id that starts with "
                f"{prefix!r}; `warpfuzz corpus list {quote(str(self.path))}` shows the ids"
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
        """Return the finding that is shown in place of one, as `shown_forms` has it."""
        path: dict[str, Entry] = {}
        last: Entry | None = entry
        while last is not None and last.id not in path:
            path[last.id] = last
            last = self.sound(last.finding.shrunk_to) if last.finding.shrunk_to else None
        return shown_forms(path.values())[entry.id]

    def scan(self, *, checksums: bool = True) -> Iterator[Entry | Problem]:
        """Yield what is shown, by id, and what is wrong; `checksums` as in `read_entry`."""
        found = list(scan_folders(self.findings, self.raw, checksums=checksums))
        shown = shown_forms(each for each in found if isinstance(each, Entry))
        for each in found:
            if isinstance(each, Problem) or shown[each.id] is each:
                yield each

    def sound_entries(self) -> list[Entry]:
        """Return every sound finding, raw ones included, by id."""
        found = scan_folders(self.findings, self.raw, checksums=True)
        return [each for each in found if isinstance(each, Entry)]

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
        """Remove what killed writers left, and move findings; the caller has the lock."""
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

    def amend(self, identity: str, change: Callable[[Finding], Finding]) -> None:
        """Change what is told of a stored finding; nothing happens if it is not stored here."""
        with self.exclusively():
            there = self.sound(identity)
            if there is not None and (changed := change(there.finding)) != there.finding:
                self.rewrite(there, changed)

    def add_bisected(self, entry: Entry, answers: Iterable[RunnerVerdict]) -> None:
        """Keep what compilers did of a stored finding, in place of what they did before."""
        given = tuple(answers)

        def age(verdict: RunnerVerdict) -> tuple[bool, list[int], str]:
            numbers = [int(number) for number in re.findall(r"\d+", verdict.version)]
            return verdict.runner != "ptxas", numbers, verdict.options

        def change(finding: Finding) -> Finding:
            every = {who_was_asked(one): one for one in (*finding.bisected, *given)}
            return replace(finding, bisected=tuple(sorted(every.values(), key=age)))

        self.amend(entry.id, change)

    def attach_kernel(self, entry: Entry, ptx: str) -> None:
        """Store the smallest kernel that shows a finding beside it, in place of an older one."""
        data = ptx.encode()
        files = {**entry.finding.files, **_records({KERNEL: data})}
        with self.exclusively(), durable.explained("update", entry.path):
            durable.replace_file(entry.path / KERNEL, data, self.findings)
            self.rewrite(entry, replace(entry.finding, files=files))

    def learn(self, case: Case, files: Mapping[str, bytes]) -> None:
        """Write down what is known by now of a stored finding: its identity and its details."""
        told = {name: getattr(case, name) for name in ("identity", "details", "suspected")}
        self.amend(self.identity(case, files), lambda finding: replace(finding, **told))

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
            raise UsageError(f"a finding's file cannot be called {name!r}; take letters and digits")
    records = _records(files)
    fields = {name: getattr(case, name) for name in Case.__struct_fields__}
    identity = finding_id(case, {name: record.sha256 for name, record in records.items()})
    return Finding(**fields, id=identity, files=records)


def _records(files: Mapping[str, bytes]) -> dict[str, FileRecord]:
    return {name: FileRecord(sha256=digest(data), size=len(data)) for name, data in files.items()}


def shown_forms(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Map the id of each finding to the one that is shown in its place, where its links end.

    Where they lead in a ring, which merged campaigns may have made, it is the smallest of the ring.
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
            ring = (path[each] for each in ids[ids.index(at.id) :])
            last = min(ring, key=lambda member: size_of(member.finding))
        shown |= dict.fromkeys(path, last)
    return shown


class _Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of `corpus.json`; fields that are not known are left to later versions."""

    schema: Annotated[int, msgspec.Meta(ge=1, le=2**31)]
    generator: Annotated[str, msgspec.Meta(max_length=200)]


def manifest(generator: str) -> bytes:
    """Return the contents of `corpus.json`."""
    row = _Manifest(schema=LAYOUT, generator=generator)
    return msgspec.json.format(msgspec.json.encode(row, order="sorted"), indent=2) + b"\n"


def open_corpus(path: Path | str) -> Corpus:
    """Open a corpus that is there, without writing anything; UsageError if there is none."""
    folder = Path(path)
    file = folder / MANIFEST
    with durable.explained("open", file):
        try:
            data = read_plain(file, most=DESCRIPTION_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            raise UsageError(f"{folder} is no corpus: there is no {MANIFEST} in it") from None
    for place in (folder / FINDINGS, folder / RAW, folder / BROKEN):
        with durable.explained("open", place):
            is_folder(place)
    try:
        row = msgspec.convert(read_document(data, file), _Manifest)
    except (msgspec.ValidationError, BrokenEntryError) as error:
        raise InfrastructureError(f"{file} is broken ({explain(error)}); remove it") from error
    if row.schema > LAYOUT:
        raise InfrastructureError(f"{file}: a later warpfuzz made this corpus; upgrade")
    return Corpus(folder, row.generator)


def create_corpus(path: Path | str, *, generator: str) -> Corpus:
    """Open a corpus to write to it, and try; if there is none, it is made by a `generator`."""
    folder = Path(path)
    with durable.explained("write to", folder):
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder} is a file, and a corpus is a folder; name the folder")
        if not os.path.lexists(folder / MANIFEST):
            folder.parent.mkdir(parents=True, exist_ok=True)
            durable.make_folder(folder)
            ours = (FINDINGS, RAW, BROKEN)
            foreign = sorted(
                child.name
                for child in folder.iterdir()
                if child.name not in ours
                and not child.name.lower().startswith((".", "readme", "license"))
            )
            if foreign:
                raise UsageError(f"{folder} is not empty ({foreign[0]}…); name an empty folder")
            durable.make_folder(folder / FINDINGS)
            durable.replace_file(folder / MANIFEST, manifest(generator), folder / FINDINGS)
    opened = open_corpus(folder)
    with durable.explained("write to", folder):
        durable.make_folder(opened.findings)
        durable.sweep(opened.findings)
        with durable.workspace(opened.findings) as probe:
            durable.write_file(probe / "probe", b"can this be written?\n")
    return opened
