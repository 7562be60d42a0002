"""Corpora beside each other: grouped, compared, merged, pruned, checked, exported and imported."""

from __future__ import annotations

import re
import struct
import tempfile
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from corpus import durable, store
from corpus.durable import FILE_BYTES, read_plain
from corpus.finding import (
    MODULE,
    WRONG_RESULT,
    BrokenEntryError,
    Case,
    Cause,
    Finding,
    Identity,
    Kind,
    Problem,
    encode,
    explain,
    read_document,
    size_of,
    wrong_builds,
)
from corpus.store import Corpus, Entry, open_corpus, scan_folders, shown_forms
from oracle.errors import UsageError, WarpfuzzError
from oracle.isa.legality import directives, matrix_instructions, without_comments


class CauseGroup(NamedTuple):
    """Findings of one identity."""

    identity: Identity
    members: tuple[Entry, ...]
    """The worst kind first, the smallest of each kind first (`size_of`); never empty."""

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
        found.sort(key=lambda entry: (-entry.finding.kind.severity, *size_of(entry.finding)))
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

    Descriptions that are there stay: those of others are anybody's word. Returns the ids that were
    added, and what could not be read.
    """
    added: list[str] = []
    problems: list[Problem] = []
    with destination.exclusively():
        for source in sources:
            for found in scan_folders(source.findings, source.raw, checksums=True):
                if isinstance(found, Problem):
                    problems.append(found)
                elif destination.sound(found.id) is None:
                    try:
                        new = destination.deposit(found.finding, found.files()).new
                    except BrokenEntryError as error:  # changed in the meantime
                        problems.append(error.problem)
                    except UsageError as error:
                        said = f"{found.path}: {error}"
                        problems.append(Problem(found.path, Cause.INVALID, said))
                    else:
                        added += [found.id] if new else []
        destination.settle()
    return added, problems


class Pruned(NamedTuple):
    """What pruning kept and removed, or would."""

    kept: list[Entry]  # the smallest of each family
    removed: list[Entry]
    """The others, and raw findings from which none of the kept ones came (raw ones first)."""
    raw: set[str]  # ids of removed findings in place of which another one is shown
    problems: list[Problem]  # broken entries; they are left alone


def prune(corpus: Corpus, *, dry_run: bool = False) -> Pruned:
    """Remove all but the smallest of each family and its raw forms, or say what would go."""
    if dry_run:
        return _pruned(corpus)[0]
    with corpus.exclusively():
        plan, links = _pruned(corpus)
        # What is kept stays shown, and what it came from stays hidden, whatever other findings
        # their links lead to now: those are about to be removed.
        for entry, shown in links:
            if entry.finding.shrunk_to != shown:
                corpus.rewrite(entry, replace(entry.finding, shrunk_to=shown))
        for entry in plan.removed:
            corpus.remove(entry)
        corpus.settle()
    return plan


def _pruned(corpus: Corpus) -> tuple[Pruned, list[tuple[Entry, str | None]]]:
    """Return the plan, and what stays with the id of the finding that is shown in its place."""
    problems: list[Problem] = []
    groups = grouped(corpus.entries(problems.append), wrong_builds)
    everything = {entry.id: entry for entry in corpus.sound_entries()}
    kept = [group.smallest for group in groups]
    links: dict[str, str | None] = {entry.id: None for entry in kept}
    for entry in kept:
        origin = entry.finding.shrunk_from
        while origin is not None and origin in everything and origin not in links:
            links[origin] = entry.id
            origin = everything[origin].finding.shrunk_from
    shown = shown_forms(everything.values())
    gone = [entry for entry in everything.values() if entry.id not in links]
    raw = {entry.id for entry in gone if shown[entry.id] is not entry}
    # Raw ones first: without its smaller form, a raw finding would show again.
    gone.sort(key=lambda entry: entry.id not in raw)
    return Pruned(kept, gone, raw, problems), [(everything[k], to) for k, to in links.items()]


def verify(corpus: Corpus) -> Iterator[Problem]:
    """Yield all that is wrong with a corpus, unlisted files and what was set aside, too."""
    unlisted = (
        "the finding does not list it, and merging and exporting leave it out; move it out of the "
        "corpus"
    )
    for folder in (corpus.findings, corpus.raw):
        for found in scan_folders(folder, checksums=True):
            if isinstance(found, Problem):
                yield found
                continue
            for path in sorted(store.children(found.path)):
                if path.name != store.DESCRIPTION and path.name not in found.finding.files:
                    yield Problem(path, Cause.STRANGE, f"{path}: {unlisted}")
    for path in sorted(store.children(corpus.path / store.BROKEN)):
        said = "a broken entry, set aside when the same finding was stored again; remove it when "
        yield Problem(path, Cause.STRANGE, f"{path}: {said}nobody needs it")


def export_zip(corpus: Corpus, entries: Iterable[Entry], path: Path) -> None:
    """Write findings, and those they were shrunk from, as a corpus in a reproducible ZIP file."""
    chosen = {entry.id: (store.FINDINGS, entry) for entry in entries}
    for _, entry in list(chosen.values()):
        origin = entry.finding.shrunk_from
        while origin is not None and origin not in chosen and (raw := corpus.sound(origin)):
            chosen[origin] = store.RAW, raw
            origin = raw.finding.shrunk_from
    with (
        durable.output_file(path) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive,
    ):

        def write(name: str, data: bytes) -> None:
            member = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the earliest (APPNOTE, 4.4.6)
            member.create_system = 3  # Unix, wherever it is made (APPNOTE.TXT, 4.4.2)
            member.external_attr = 0o644 << 16
            archive.writestr(member, data)

        write(store.MANIFEST, store.manifest(corpus.generator))
        # One finding after the other, so that memory does not grow with the corpus.
        for folder, entry in sorted(chosen.values(), key=lambda pair: (pair[0], pair[1].id)):
            contents = {store.DESCRIPTION: encode(entry.finding), **entry.files()}
            for name, data in sorted(contents.items()):
                write(f"{folder}/{entry.id}/{name}", data)


def json_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the description of each finding as one line of JSON, without the line's end."""
    for entry in entries:
        yield msgspec.json.format(encode(entry.finding), indent=-1).decode()


ARCHIVE_BYTES = 512 << 20
"""Most bytes of an archive, unpacked; a finding of a program has about 10 KB (2026-11)."""
DIRECTORY_BYTES = 16 << 20
"""Most bytes of an archive's list of its files, which is held in memory: about 150,000 files."""
_PLACE = re.compile(rf"(?:{store.FINDINGS}|{store.RAW})/([^/]+)/([^/]+)")
_END, _LOCATOR, _ENDING_BYTES = b"PK\x05\x06", b"PK\x06\x07", 0xFFFF + 22 + 20
"""Ends of a ZIP file and of its ZIP64 form, and most bytes of both (APPNOTE.TXT, 4.3.15-16)."""


def is_archive(path: Path) -> bool:
    """Whether a path names a file that ends in .zip."""
    return path.suffix.lower() == ".zip" and path.is_file()


@contextmanager
def opened_archive(path: Path) -> Iterator[Corpus]:
    """Unpack an archive into a temporary folder, and open that; UsageError: no such."""
    with (
        durable.explained("unpack", path),
        tempfile.TemporaryDirectory(prefix="warpfuzz-") as folder,
    ):
        corpus = Path(folder, "corpus")
        corpus.mkdir()
        try:
            _check_directory(path)
            with zipfile.ZipFile(path) as archive:
                _unpack(archive, corpus)
            opened = open_corpus(corpus)
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as error:
            raise UsageError(
                f"{path} is no whole ZIP file ({error!s:.200}); export the corpus again"
            ) from error
        except WarpfuzzError as error:
            # It is not where the user knows it.
            said = str(error).replace(str(corpus), str(path))
            raise UsageError(f"{path} is no exported corpus: {said}") from None
        yield opened


def _check_directory(path: Path) -> None:
    """Check the size of the list of files before it is read."""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, 2) - _ENDING_BYTES))
        ending = file.read()
    # zipfile takes one at the end of the file before any other.
    at = len(ending) - 22 if ending[-22:-18] == _END else ending.rfind(_END)
    if at < 0 or at + 22 > len(ending):
        raise zipfile.BadZipFile("it has no list of its files")
    (listed,) = struct.unpack_from("<I", ending, at + 12)
    if listed > DIRECTORY_BYTES or ending[max(0, at - 20) :].startswith(_LOCATOR):
        raise _too_much()


def _unpack(archive: zipfile.ZipFile, folder: Path) -> None:
    room = ARCHIVE_BYTES
    for member in archive.infolist():
        if member.is_dir():
            continue
        name = member.filename
        place, target = _PLACE.fullmatch(name), folder / name
        belongs = name == store.MANIFEST or (
            place is not None
            and store.IDS.fullmatch(place[1])
            and (place[2] == store.DESCRIPTION or store.is_file_name(place[2]))
        )
        if not belongs or target.exists():
            raise UsageError(f"{name[:100]!r} is in it, or twice; unpack it yourself")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise zipfile.BadZipFile(f"it is packed by method {member.compress_type}")
        most = min(room, FILE_BYTES)
        with archive.open(member) as source:
            data = source.read(most + 1)
        if len(data) > most:
            raise _too_much()
        room -= len(data)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def _too_much() -> UsageError:
    return UsageError(
        f"it unpacks to more than {ARCHIVE_BYTES >> 20} MiB, or to a file of more than "
        f"{FILE_BYTES >> 20} MiB; unpack it yourself if you trust it, and merge the folder"
    )


CASE_FILE = "case.json"  # name of the file that describes the case
_CASE_BYTES = 16 << 20  # most bytes of all files of a case together


def read_case(folder: Path) -> tuple[Case, dict[str, bytes]]:
    """Read a case that a person wrote, and its files; UsageError if it is none.

    `case.json` holds fields of `corpus.finding.Case`, at least `kind`; the module gives the rest.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; name one that has a {CASE_FILE} and a PTX module")
    contents, room = dict[str, bytes](), _CASE_BYTES
    with durable.explained("read", folder):
        for path in sorted(folder.iterdir()):
            if not path.name.startswith("."):
                contents[path.name] = read_plain(path, most=room)
                room -= len(contents[path.name])
    path, modules = folder / CASE_FILE, [name for name in contents if name.endswith(".ptx")]
    if CASE_FILE not in contents or not modules:
        raise UsageError(f"{folder} has no {CASE_FILE} or no PTX module; write them")
    try:
        document = read_document(contents.pop(CASE_FILE), path)
        text = without_comments(contents[modules[0]].decode(errors="replace"))
        named = zip(("target", "ptx_version"), directives(text), strict=True)
        fields: dict[str, Any] = {name: value for name, value in named if value is not None}
        if instructions := [instruction for _, instruction in matrix_instructions(text)]:
            fields["instructions"] = instructions
        fields |= document
        if not fields.get("instructions"):
            raise UsageError(
                f"{path}: the module has no matrix instruction to call the case after; write "
                'instructions there, such as {"instructions": ["ld.global.u32", "st.global.u32"]}'
            )
        if "identity" not in fields:
            kind, opcode = document.get("kind"), fields["instructions"][0].split()[0]
            failure = Kind(kind).failure if kind in set(Kind) else WRONG_RESULT
            fields["identity"] = {"failure": failure, "instructions": [opcode]}
        case = msgspec.convert(fields, Case)
    except BrokenEntryError as error:
        raise UsageError(str(error)) from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{path} is not what a case asks for: {explain(error)}") from error
    if MODULE not in contents:
        # What is replayed and reproduced has this name.
        contents[MODULE] = contents.pop(modules[0])
    return case, contents
