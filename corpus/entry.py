"""One finding on disk: a folder with `finding.json` and the files that it lists, and its id.

The id is a hash that does not depend on when, where or how the finding was made.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from corpus import durable
from corpus.durable import DESCRIPTION_BYTES, FILE_BYTES, check_folder, read_plain
from corpus.finding import BrokenEntryError, Case, Cause, FileRecord, Finding, Problem, decode
from oracle.errors import UsageError

DESCRIPTION = "finding.json"
"""Name of the file that describes the finding."""

MODULE, PROGRAM = "module.ptx", "program.json"
INPUT, EXPECTED = "input.npy", "expected.npy"
"""Files of a finding: what runs, and memory before and after."""

KERNEL = "kernel.ptx"
"""Name of the smallest kernel that shows a program's finding. It is made of the other files and may
come later, so that it does not count for the id."""

ID_DIGITS = 16
"""Hexadecimal digits of an id. By 64 bits, a collision among a million findings has a chance of
about 3e-8 (birthday bound)."""
_ID = re.compile(f"[0-9a-f]{{{ID_DIGITS}}}")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


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
        try:
            record = self.finding.files[name]
        except KeyError:
            raise UsageError(
                f"finding {self.id} has no file {name!r}; it has "
                f"{', '.join(sorted(self.finding.files)) or 'none'}"
            ) from None
        return _checked(self.path / name, record)

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
    """Return the finding in a folder of a corpus; BrokenEntryError if it is not as it was stored.

    Without `checksums`, its files have only to be there in their size.
    """
    description = path / DESCRIPTION
    if path.is_symlink():
        raise BrokenEntryError(
            path, Cause.STRANGE, "it is a link, and links in a corpus are not followed", "remove it"
        )
    data = _read(description, Cause.NO_DESCRIPTION, most=DESCRIPTION_BYTES)
    finding = decode(data, description)
    if finding.id != path.resolve().name:
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
        (_checked if checksums else _check_size)(path / name, record)
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
        raise _broken(path, missing, "the file is not there") from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _broken(path, Cause.STRANGE, "it is not a plain file") from None
        if error.errno == errno.EFBIG:
            raise _broken(path, Cause.INVALID, f"it has more than {most >> 20} MiB") from None
        what = f"it cannot be read ({error.strerror})"
        raise BrokenEntryError(
            path, Cause.UNREADABLE, what, "mend its permissions or the disk"
        ) from error


def _checked(path: Path, record: FileRecord) -> bytes:
    _check_size(path, record)
    data = _read(path, Cause.MISSING_FILE, most=FILE_BYTES)
    _compare_size(path, len(data), record)
    if digest(data) != record.sha256:
        recorded = f"{record.sha256[:ID_DIGITS]}…"
        raise _broken(
            path, Cause.CHANGED_FILE, f"its SHA-256 is not the recorded {recorded}: it was changed"
        )
    return data


def _check_size(path: Path, record: FileRecord) -> None:
    try:
        found = path.lstat()
    except OSError:
        raise _broken(path, Cause.MISSING_FILE, "the file is not there") from None
    if not stat.S_ISREG(found.st_mode):
        raise _broken(path, Cause.STRANGE, "it is not a plain file")
    _compare_size(path, found.st_size, record)


def _compare_size(path: Path, size: int, record: FileRecord) -> None:
    if size != record.size:
        what = f"it has {size} bytes and not the recorded {record.size}: it was cut off or changed"
        raise _broken(path, Cause.CHANGED_FILE, f"{what}, by core.autocrlf of git, say")


def _broken(path: Path, cause: Cause, what: str) -> BrokenEntryError:
    remedy = "restore the folder from a backup or another corpus"
    return BrokenEntryError(path, cause, what, f"{remedy} (`warpfuzz corpus merge INTO FROM`)")


def finding_id(case: Case, digests: Mapping[str, str]) -> str:
    """Return the id of a case.

    What counts: the kind, the text, target and PTX version, which runners in which versions and
    with which options came to which outcome, and the files. What does not: times, seeds, the
    identity (triage may learn), `KERNEL`, messages (they may name temporary files), the shrink
    status, the version of warpfuzz and of the schema. `digests` has the SHA-256 of each file, in
    hexadecimal.
    """
    runners = sorted(
        (verdict.runner, verdict.version, verdict.options, verdict.outcome)
        for verdict in case.runners
    )
    parts = (
        str(case.kind),
        case.text,
        case.target,
        case.ptx_version,
        _listed(_listed(runner) for runner in runners),
        _listed(_listed(item) for item in sorted(digests.items()) if item[0] != KERNEL),
    )
    return digest(_listed(parts).encode(errors="surrogatepass"))[:ID_DIGITS]


def digest(data: bytes) -> str:
    """Return the SHA-256 of `data`, in hexadecimal."""
    # Imported late: OpenSSL takes milliseconds that `warpfuzz --help` does not have.
    from hashlib import sha256

    return sha256(data).hexdigest()


def _listed(parts: Iterable[str]) -> str:
    # Each part with its length before it (a netstring), so that no two lists run together to
    # the same text and no library's formatting takes part in an id that has to last.
    return "".join(f"{len(part)}:{part}," for part in parts)


def ids_in(folder: Path) -> list[str]:
    """Return the ids of the findings in a folder, sound or not; none where it does not exist."""
    return sorted(child.name for child in _children(folder) if is_id(child.name))


def scan_folders(*folders: Path, checksums: bool) -> Iterator[Entry | Problem]:
    """Yield every finding in some folders, by id, or what is wrong with it.

    Parameters
    ----------
    folders
        Such as `findings/`; where one does not exist, there are none. A finding that is sound in
        an earlier one is left out of the later ones.
    checksums
        Whether the contents of the files are checked, and not only their size.
    """
    paths = [path for folder in folders for path in _children(folder)]
    last = ""
    # Sorting is stable: among equal names, the earlier folder comes first.
    for path in sorted(paths, key=lambda path: path.name):
        if not is_id(path.name):
            problem = _stranger(path)
            if problem is not None:
                yield problem
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


def _children(folder: Path) -> list[Path]:
    with durable.explained("read", folder):
        check_folder(folder)
        try:
            return list(folder.iterdir())
        except FileNotFoundError:
            return []


def _stranger(path: Path) -> Problem | None:
    if path.name.startswith(durable.TEMPORARY):
        with durable.claimed(path) as abandoned:
            if not abandoned:
                return None
        return Problem.of(
            path,
            Cause.LEFTOVER,
            "half written when its campaign was killed; it is nothing that was reported as saved, "
            "and the next campaign in this corpus removes it",
        )
    if path.name.startswith("."):
        return None
    return Problem.of(
        path,
        Cause.STRANGE,
        "no finding has this name; move it out of the corpus, or import it if it is a case "
        "written by hand",
    )
