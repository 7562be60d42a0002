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
from corpus.durable import DESCRIPTION_BYTES, FILE_BYTES, is_folder, read_plain
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
IDS = re.compile(f"[0-9a-f]{{{ID_DIGITS}}}")
"""What an id looks like."""
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
        if name not in self.finding.files:
            raise UsageError(
                f"finding {self.id} has no file {name!r}; it has "
                f"{', '.join(sorted(self.finding.files)) or 'none'}"
            )
        return _checked(self.path / name, self.finding.files[name])

    def files(self) -> dict[str, bytes]:
        """Return the contents of all of the finding's files, by name (see `read`)."""
        return {name: self.read(name) for name in sorted(self.finding.files)}


def is_file_name(name: str) -> bool:
    """Whether a finding's file may have this name: plain, portable, and not the description's."""
    return _FILE_NAME.fullmatch(name) is not None and name.lower() != DESCRIPTION


def read_entry(path: Path, *, checksums: bool = True) -> Entry:
    """Return the finding in a folder of a corpus; BrokenEntryError if it is not as it was stored.

    Without `checksums`, its files have only to be there in their size.
    """
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
        absent, strange = (missing, "the file is not there"), (Cause.STRANGE, _STRANGE)
        unreadable = Cause.UNREADABLE, f"it cannot be read ({error.strerror})"
        cause, said = {
            errno.ENOENT: absent, errno.ENOTDIR: absent, errno.ELOOP: strange, errno.ENXIO: strange,
            errno.EFBIG: (Cause.INVALID, f"it has more than {most >> 20} MiB"),
        }.get(error.errno or 0, unreadable)  # fmt: skip
        raise BrokenEntryError(path, cause, said) from error


_STRANGE = "it is not a plain file"


def _checked(path: Path, record: FileRecord, *, checksums: bool = True) -> bytes:
    """Return the contents of a file if they are as recorded; without `checksums`, none."""
    try:
        found = path.lstat()
    except OSError:
        raise BrokenEntryError(path, Cause.MISSING_FILE, "the file is not there") from None
    if not stat.S_ISREG(found.st_mode):
        raise BrokenEntryError(path, Cause.STRANGE, _STRANGE)
    if found.st_size != record.size:
        said = (
            f"it has {found.st_size} bytes and not the recorded {record.size}: it was cut off or "
        )
        said += "changed, by core.autocrlf of git, say"
        raise BrokenEntryError(path, Cause.CHANGED_FILE, said)
    if not checksums:
        return b""
    data = _read(path, Cause.MISSING_FILE, FILE_BYTES)
    if digest(data) != record.sha256:
        said = f"its SHA-256 is not the recorded {record.sha256[:ID_DIGITS]}…: it was changed"
        raise BrokenEntryError(path, Cause.CHANGED_FILE, said)
    return data


def finding_id(case: Case, digests: Mapping[str, str]) -> str:
    """Return the id of a case.

    What counts: the kind, the text, target and PTX version, which runners in which versions and
    with which options came to which outcome, and the files. What does not: times, seeds, the
    identity (triage may learn), `KERNEL`, messages (they may name temporary files), the shrink
    status, the version of warpfuzz and of the schema. `digests` has the SHA-256 of each file, in
    hexadecimal.
    """
    runners = sorted((*verdict.build, verdict.outcome) for verdict in case.runners)
    parts = (
        str(case.kind),
        case.text,
        case.target,
        case.ptx_version,
        _listed(map(_listed, runners)),
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


def scan_folders(*folders: Path, checksums: bool) -> Iterator[Entry | Problem]:
    """Yield every finding in some folders, by id, or what is wrong with it.

    Where a folder does not exist, there are none; a finding that is sound in an earlier one is left
    out of the later ones. Without `checksums`, files have only to be there in their size.
    """
    paths = [path for folder in folders for path in children(folder)]
    last = ""
    # Sorting is stable: among equal names, the earlier folder comes first.
    for path in sorted(paths, key=lambda path: path.name):
        if not IDS.fullmatch(path.name):
            yield from _stranger(path)
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


def _stranger(path: Path) -> Iterator[Problem]:
    if path.name.startswith(durable.TEMPORARY):
        with durable.claimed(path) as abandoned:
            if not abandoned:
                return
        said = "half written when its campaign was killed; it is nothing that was reported as "
        said += "saved, and the next campaign in this corpus removes it"
        yield Problem(path, Cause.LEFTOVER, said)
    elif not path.name.startswith("."):
        said = "no finding has this name; move it out of the corpus, or import it if it is a case "
        yield Problem(path, Cause.STRANGE, f"{said}written by hand")
