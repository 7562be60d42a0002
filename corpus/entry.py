"""One finding on disk: a folder with `finding.json` and the files that it lists."""

from __future__ import annotations

import errno
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from corpus.finding import FileRecord, Finding
from corpus.identity import ID_DIGITS, digest, finding_id
from corpus.plain_files import DESCRIPTION_BYTES, FILE_BYTES, read_plain
from corpus.problems import BrokenEntryError, Cause
from corpus.schema import decode
from oracle.errors import UsageError

DESCRIPTION = "finding.json"
"""Name of the file that describes the finding."""

_ID = re.compile(f"[0-9a-f]{{{ID_DIGITS}}}")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_RESTORE = "restore the folder from a backup or another corpus (`warpfuzz corpus merge INTO FROM`)"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A finding and the folder that holds it."""

    path: Path
    """The folder."""
    finding: Finding

    @property
    def id(self) -> str:
        """The finding's id."""
        return self.finding.id

    def read(self, name: str) -> bytes:
        """Return the contents of one of the finding's files.

        Raises
        ------
        UsageError
            If the finding has no file of this name.
        BrokenEntryError
            If the file is missing, or is not the one that was stored.
        """
        try:
            record = self.finding.files[name]
        except KeyError:
            raise UsageError(
                f"finding {self.id} has no file {name!r}; it has "
                f"{', '.join(sorted(self.finding.files)) or 'none'}"
            ) from None
        return _read_checked(self.path / name, record)

    def files(self) -> dict[str, bytes]:
        """Return the contents of all of the finding's files, by name (see `read`)."""
        return {name: self.read(name) for name in sorted(self.finding.files)}


def is_id(name: str) -> bool:
    """Whether this is what an id looks like."""
    return _ID.fullmatch(name) is not None


def is_file_name(name: str) -> bool:
    """Whether a finding's file may have this name: plain, portable, and not the description's."""
    return _FILE_NAME.fullmatch(name) is not None and name.lower() != DESCRIPTION


def read_entry(path: Path, *, checksums: bool = True) -> Entry:
    """Return the finding in a folder of a corpus.

    Parameters
    ----------
    path
        The folder.
    checksums
        Whether the contents of its files are checked; without, only that they are there in
        their size.

    Raises
    ------
    BrokenEntryError
        If anything of it is not as it was stored.
    """
    description = path / DESCRIPTION
    if path.is_symlink():
        raise BrokenEntryError(
            path, Cause.STRANGE, "it is a link, and links in a corpus are not followed", "remove it"
        )
    data = _read(description, Cause.NO_DESCRIPTION, most=DESCRIPTION_BYTES)
    finding = decode(data, description)
    if finding.id != path.name:
        raise BrokenEntryError(
            path,
            Cause.MISNAMED,
            f"the folder's name is not the id {finding.id} in its {DESCRIPTION}",
            "give the folder that name again",
        )
    for name, record in sorted(finding.files.items()):
        # A corpus may come from anybody: a name must not lead out of the folder.
        if not is_file_name(name):
            raise BrokenEntryError(
                description,
                Cause.INVALID,
                f"it lists a file {name!r}, which is no plain file name",
                "remove the folder",
            )
        if checksums:
            _read_checked(path / name, record)
        else:
            _check_size(path / name, record)
    digests = {name: record.sha256 for name, record in finding.files.items()}
    if finding_id(finding, digests) != finding.id:
        raise BrokenEntryError(
            description,
            Cause.MISNAMED,
            f"what it describes does not have the id {finding.id}: it was edited",
            "undo the edit, or import it as a case of its own",
        )
    return Entry(path=path, finding=finding)


def _read(path: Path, missing: Cause, *, most: int) -> bytes:
    try:
        return read_plain(path, most=most)
    except (FileNotFoundError, NotADirectoryError):
        raise BrokenEntryError(path, missing, "the file is not there", _RESTORE) from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise BrokenEntryError(
                path, Cause.STRANGE, "it is not a plain file", _RESTORE
            ) from None
        if error.errno == errno.EFBIG:
            raise BrokenEntryError(
                path, Cause.INVALID, f"it has more than {most >> 20} MiB", _RESTORE
            ) from None
        raise BrokenEntryError(
            path,
            Cause.UNREADABLE,
            f"it cannot be read ({error.strerror})",
            "mend its permissions or the disk",
        ) from error


def _read_checked(path: Path, record: FileRecord) -> bytes:
    _check_size(path, record)
    data = _read(path, Cause.MISSING_FILE, most=FILE_BYTES)
    if len(data) != record.size:
        raise _wrong_size(path, len(data), record)
    if digest(data) != record.sha256:
        raise BrokenEntryError(
            path,
            Cause.CHANGED_FILE,
            f"its SHA-256 is not the recorded {record.sha256[:ID_DIGITS]}…: it was changed",
            _RESTORE,
        )
    return data


def _check_size(path: Path, record: FileRecord) -> None:
    try:
        found = path.lstat()
    except OSError:
        raise BrokenEntryError(
            path, Cause.MISSING_FILE, "the file is not there", _RESTORE
        ) from None
    if not stat.S_ISREG(found.st_mode):
        raise BrokenEntryError(path, Cause.STRANGE, "it is not a plain file", _RESTORE)
    if found.st_size != record.size:
        raise _wrong_size(path, found.st_size, record)


def _wrong_size(path: Path, size: int, record: FileRecord) -> BrokenEntryError:
    return BrokenEntryError(
        path,
        Cause.CHANGED_FILE,
        f"it has {size} bytes and not the recorded {record.size}: it was cut off or changed",
        _RESTORE,
    )
