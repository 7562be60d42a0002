"""Findings as one file, to be sent to somebody, and read back.

The same findings give the same bytes.
"""

from __future__ import annotations

import re
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from corpus import durable
from corpus.durable import FILE_BYTES, read_plain
from corpus.entry import (
    DESCRIPTION,
    EXPECTED,
    IDS,
    INPUT,
    MODULE,
    PROGRAM,
    Entry,
    is_file_name,
)
from corpus.finding import (
    WRONG_RESULT,
    BrokenEntryError,
    Case,
    Kind,
    encode,
    explain,
    migrated,
    read_document,
)
from corpus.opening import MANIFEST, manifest, open_corpus
from corpus.programs import array_of
from corpus.store import FINDINGS, RAW, Corpus
from oracle.errors import UsageError, WarpfuzzError
from oracle.isa.legality import directives, matrix_instructions, without_comments


def export_zip(corpus: Corpus, entries: Iterable[Entry], path: Path) -> None:
    """Write findings, and the raw ones that they were shrunk from, as a corpus in a ZIP file.

    Unpacked, it is a corpus to open or to merge. Nothing is compressed, because what a compressor
    writes depends on its version; times and owners are left out. The file is replaced as a whole if
    it is there.
    """
    chosen = {entry.id: (FINDINGS, entry) for entry in entries}
    for _, entry in list(chosen.values()):
        origin = entry.finding.shrunk_from
        while origin is not None and origin not in chosen and (raw := corpus.sound(origin)):
            chosen[origin] = RAW, raw
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

        write(MANIFEST, manifest(corpus.generator))
        # One finding after the other, so that memory does not grow with the corpus.
        for folder, entry in sorted(chosen.values(), key=lambda one: (one[0], one[1].id)):
            contents = {DESCRIPTION: encode(entry.finding), **entry.files()}
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
_PLACE = re.compile(rf"(?:{FINDINGS}|{RAW})/([^/]+)/([^/]+)")
# The end of central directory record and the locator of its ZIP64 form (APPNOTE.TXT, 4.3.16 and
# 4.3.15): signature, and, at a distance, the size of the central directory.
_END, _END_BYTES, _SIZE_AT = b"PK\x05\x06", 22, 12
_LOCATOR, _LOCATOR_BYTES = b"PK\x06\x07", 20


def is_archive(path: Path) -> bool:
    """Whether a path names a file that ends in .zip."""
    return path.suffix.lower() == ".zip" and path.is_file()


@contextmanager
def opened_archive(path: Path) -> Iterator[Corpus]:
    """Unpack an archive into a temporary folder, and open that as a corpus.

    Raises UsageError if it is no archive of a corpus: no ZIP file, one with other things in it, or
    with more than `ARCHIVE_BYTES`, and InfrastructureError if it cannot be read or unpacked.
    """
    with (
        durable.explained("unpack", path),
        tempfile.TemporaryDirectory(prefix="warpfuzz-") as folder,
    ):
        corpus = Path(folder, "corpus")
        corpus.mkdir()
        try:
            _check_directory(path)
            with zipfile.ZipFile(path) as archive:
                _unpack(archive, path, corpus)
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as error:
            raise UsageError(
                f"{path} is no whole ZIP file ({error!s:.200}); export the corpus again"
            ) from error
        try:
            opened = open_corpus(corpus)
        except WarpfuzzError as error:
            # It is not where the user knows it.
            said = str(error).replace(str(corpus), str(path))
            raise UsageError(f"{path} is no exported corpus: {said}") from None
        yield opened


def _check_directory(path: Path) -> None:
    """Check the size of the list of files before it is read."""
    with path.open("rb") as file:
        # A comment may follow.
        file.seek(max(0, file.seek(0, 2) - 0xFFFF - _END_BYTES - _LOCATOR_BYTES))
        ending = file.read()
    at = len(ending) - _END_BYTES
    if not ending.startswith(_END, max(0, at)):
        at = ending.rfind(_END)
    if at < 0 or at + _END_BYTES > len(ending):
        raise zipfile.BadZipFile("it has no list of its files")
    (listed,) = struct.unpack_from("<I", ending, at + _SIZE_AT)
    if listed > DIRECTORY_BYTES or ending.startswith(_LOCATOR, max(0, at - _LOCATOR_BYTES)):
        raise _too_much(path)


def _unpack(archive: zipfile.ZipFile, path: Path, folder: Path) -> None:
    room = ARCHIVE_BYTES
    for member in archive.infolist():
        if member.is_dir():
            continue
        name = member.filename
        place, target = _PLACE.fullmatch(name), folder / name
        belongs = name == MANIFEST or (
            place is not None
            and IDS.fullmatch(place[1])
            and (place[2] == DESCRIPTION or is_file_name(place[2]))
        )
        if not belongs or target.exists():
            raise UsageError(
                f"{path} is no exported corpus: {name[:100]!r} is in it, or is in it twice; unpack "
                "it yourself, and merge the folder if you know what it is"
            )
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise zipfile.BadZipFile(f"it is packed by method {member.compress_type}")
        most = min(room, FILE_BYTES)
        with archive.open(member) as source:
            data = source.read(most + 1)
        if len(data) > most:
            raise _too_much(path)
        room -= len(data)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def _too_much(path: Path) -> UsageError:
    return UsageError(
        f"{path} unpacks to more than {ARCHIVE_BYTES >> 20} MiB, or to a file of more than "
        f"{FILE_BYTES >> 20} MiB; unpack it yourself if you trust it, and merge the folder"
    )


CASE_FILE = "case.json"
"""Name of the file that describes the case."""
_CASE_BYTES = 16 << 20
"""Most bytes of all files of a case together."""


def read_case(folder: Path) -> tuple[Case, dict[str, bytes]]:
    """Read a case that a person wrote, and its files.

    `case.json` holds the fields of `corpus.finding.Case`; only `kind` has to be there.
    `instructions`, `target` and `ptx_version` are taken from the module and the identity from the
    first instruction's opcode, if they are left out. All other files of the folder belong to the
    case.

    Raises UsageError if the folder is not such a case, and InfrastructureError if it cannot be
    read.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise UsageError(f"{folder} {what}; name a folder that has a {CASE_FILE} and a PTX module")
    with durable.explained("read", folder):
        contents = _contents(folder)
    path = folder / CASE_FILE
    if CASE_FILE not in contents:
        raise UsageError(
            f"{folder} has no {CASE_FILE}; write one, with at least "
            f'{{"kind": "{Kind.VIOLATION}"}} (a folder with a {DESCRIPTION} is a stored finding: '
            "merge its corpus)"
        )
    try:
        document = read_document(contents.pop(CASE_FILE), path)
        modules = [name for name in contents if name.endswith(".ptx")]
        if not modules:
            raise UsageError(f"{folder} has no PTX module; put it there, as module.ptx, say")
        text = without_comments(contents[modules[0]].decode(errors="replace"))
        named = zip(("target", "ptx_version"), directives(text), strict=True)
        fields: dict[str, Any] = {name: value for name, value in named if value is not None}
        if instructions := [instruction for _, instruction in matrix_instructions(text)]:
            fields["instructions"] = instructions
        fields |= migrated(document, 2)
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
    except (msgspec.ValidationError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"{path} is not what a case asks for: {explain(error)}; its fields are "
            f"{', '.join(Case.__struct_fields__)}"
        ) from error
    if PROGRAM not in contents and {INPUT, EXPECTED} <= contents.keys():
        _check_images(folder, contents)
    if MODULE not in contents:
        # What is replayed and reproduced has this name.
        contents[MODULE] = contents.pop(modules[0])
    return case, contents


def _check_images(folder: Path, contents: dict[str, bytes]) -> None:
    """Raise UsageError if there are images that the module cannot run on."""
    shapes = []
    for name in (INPUT, EXPECTED):
        try:
            image = array_of(contents[name])
        except ValueError as error:
            raise UsageError(
                f"{folder / name} holds no array ({error}); write it with numpy.save"
            ) from None
        if image.dtype.str != "|u1" or image.ndim != 2 or len(image) != 1:
            raise UsageError(
                f"{folder / name} holds {image.dtype} of shape {image.shape}; both images are "
                "uint8 of shape (1, bytes)"
            )
        shapes.append(image.shape)
    if shapes[0] != shapes[1]:
        raise UsageError(
            f"{folder / EXPECTED} has {shapes[1][1]:,} bytes, and {INPUT} {shapes[0][1]:,}; "
            "they are the same memory, before and after"
        )


def _contents(folder: Path) -> dict[str, bytes]:
    contents = {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_symlink() or not path.is_file():
            raise UsageError(f"{path} is not a plain file; a case is a folder of plain files")
        contents[path.name] = read_plain(path, most=_CASE_BYTES)
        if sum(map(len, contents.values())) > _CASE_BYTES:
            raise UsageError(
                f"{folder} has more than {_CASE_BYTES >> 20} MiB; a case is a module, its inputs "
                "and a description"
            )
    return contents
