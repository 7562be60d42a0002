"""A corpus in a ZIP file, as `corpus.export` writes it, opened without trusting a byte of it."""

from __future__ import annotations

import re
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from corpus import durable
from corpus.entry import DESCRIPTION, is_file_name, is_id
from corpus.opening import MANIFEST, open_corpus
from corpus.plain_files import FILE_BYTES
from corpus.store import FINDINGS, RAW, Corpus
from oracle.errors import UsageError, WarpfuzzError

ARCHIVE_BYTES = 512 << 20
"""Most bytes of an archive, unpacked; a finding of a program has about 10 KB (2026-11)."""
DIRECTORY_BYTES = 16 << 20
"""Most bytes of an archive's list of its files, which is held in memory: about 150,000 files."""

_PLACE = re.compile(rf"(?:{FINDINGS}|{RAW})/([^/]+)/([^/]+)")
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# The end of central directory record and the locator of its ZIP64 form (APPNOTE.TXT, 4.3.16 and
# 4.3.15): signature, and, at a distance, the size of the central directory.
_END, _END_BYTES, _SIZE_AT = b"PK\x05\x06", 22, 12
_LOCATOR, _LOCATOR_BYTES = b"PK\x06\x07", 20
_COMMENT_BYTES = 0xFFFF


def is_archive(path: Path) -> bool:
    """Whether a path names a file that ends in .zip."""
    return path.suffix.lower() == ".zip" and path.is_file()


@contextmanager
def opened_archive(path: Path) -> Iterator[Corpus]:
    """Unpack an archive into a temporary folder, and open that as a corpus.

    Raises
    ------
    UsageError
        If it is no archive of a corpus: no ZIP file, one with other things in it, or with more
        than `ARCHIVE_BYTES`.
    InfrastructureError
        If it cannot be read or unpacked.
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
        size = file.seek(0, 2)
        file.seek(max(0, size - _COMMENT_BYTES - _END_BYTES - _LOCATOR_BYTES))
        ending = file.read()
    at = len(ending) - _END_BYTES
    if at < 0 or ending[at : at + 4] != _END:
        at = ending.rfind(_END)
    if at < 0 or at + _END_BYTES > len(ending):
        raise zipfile.BadZipFile("it has no list of its files")
    (listed,) = struct.unpack_from("<I", ending, at + _SIZE_AT)
    if listed > DIRECTORY_BYTES or ending[max(0, at - _LOCATOR_BYTES) :].startswith(_LOCATOR):
        raise _too_much(path)


def _unpack(archive: zipfile.ZipFile, path: Path, folder: Path) -> None:
    room = ARCHIVE_BYTES
    for member in archive.infolist():
        name = member.filename
        if member.is_dir():
            continue
        if not _belongs(name) or (folder / name).exists():
            raise UsageError(
                f"{path} is no exported corpus: {name[:100]!r} is in it, or is in it twice; unpack "
                "it yourself, and merge the folder if you know what it is"
            )
        if member.compress_type not in _METHODS:
            raise zipfile.BadZipFile(f"it is packed by method {member.compress_type}")
        with archive.open(member) as source:
            data = source.read(min(room, FILE_BYTES) + 1)
        if len(data) > min(room, FILE_BYTES):
            raise _too_much(path)
        room -= len(data)
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


def _belongs(name: str) -> bool:
    place = _PLACE.fullmatch(name)
    if place is None:
        return name == MANIFEST
    return is_id(place[1]) and (place[2] == DESCRIPTION or is_file_name(place[2]))


def _too_much(path: Path) -> UsageError:
    return UsageError(
        f"{path} unpacks to more than {ARCHIVE_BYTES >> 20} MiB, or to a file of more than "
        f"{FILE_BYTES >> 20} MiB; unpack it yourself if you trust it, and merge the folder"
    )
