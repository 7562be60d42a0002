"""Reading and writing on the disk, whoever else writes there, and whatever breaks in between.

What is written is flushed in a locked temporary folder, and renamed to where it belongs. What is
read may come from anybody: only plain files of a bounded size are opened, and no link.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from oracle.errors import InfrastructureError

_FOLDER_ITSELF = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
TEMPORARY = ".tmp-"  # what the name of a temporary folder starts with
FILE_BYTES = 64 << 20  # most bytes of one file of a finding: four images of the largest program
DESCRIPTION_BYTES = 4 << 20
"""Most bytes of a description; the longest of a campaign had 18 KB (2026-11)."""
LOCK_SECONDS = 60.0
"""How long to wait for a lock, in seconds: merging the largest corpus takes less."""

_REASONS = {
    errno.EWOULDBLOCK: "another process keeps it locked; wait for it, or end it, and try again",
    errno.ENOSPC: "the disk or its quota is full; free some space there and try again",
    errno.EROFS: "the file system is read-only; name a folder that can be written to",
    errno.EACCES: "permission denied; change its permissions, or name another folder",
    errno.ENOTDIR: "a file is in the way; name a folder, or one that does not exist yet",
    errno.ENOENT: "it, or a folder on the way there, is not there; put it back, or name another",
    errno.ELOOP: "a link is there, and links in a corpus are not followed; remove the link",
    errno.ENXIO: "it is no plain file; remove what is there",
    errno.EFBIG: "it is larger than any file of warpfuzz, or than `ulimit -f` allows; raise that, "
    "or give another",
}
_ALIKE = {errno.EDQUOT: errno.ENOSPC, errno.EPERM: errno.EACCES, errno.EEXIST: errno.ENOTDIR}


@contextmanager
def explained(doing: str, path: Path) -> Iterator[None]:
    """Turn an OSError of `doing` ("write") into an InfrastructureError: why, and what to do."""
    try:
        yield
    except OSError as error:
        other, number = f"{error.strerror or error}; mend that and try again", error.errno or 0
        # Of what is gone nobody knows.
        kept = "" if error.errno == errno.ENOENT else " (what was reported as saved is intact)"
        raise InfrastructureError(
            f"cannot {doing} {path}: {_REASONS.get(_ALIKE.get(number, number), other)}{kept}"
        ) from error


def is_folder(path: Path) -> bool:
    """Whether a folder is there; an OSError (ELOOP, ENOTDIR) if a link or something else is."""
    try:
        _check(path.lstat(), stat.S_IFDIR, errno.ENOTDIR, path)
    except FileNotFoundError:
        return False
    return True


def _check(found: os.stat_result, kind: int, number: int, path: Path) -> None:
    """Raise an OSError with a number, or ELOOP for a link, where something else was found."""
    if stat.S_IFMT(found.st_mode) != kind:
        raise _refused(errno.ELOOP if stat.S_ISLNK(found.st_mode) else number, path)


def _refused(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))


def open_plain(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a plain file as os.open; OSError is ELOOP for a link, ENXIO for no plain file."""
    # A pipe or a device is not even opened: that alone can wait, or do something.
    try:
        _check(path.lstat(), stat.S_IFREG, errno.ENXIO, path)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    extra = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags | extra, 0o666)
    try:
        _check(os.fstat(descriptor), stat.S_IFREG, errno.ENXIO, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_plain(path: Path, *, most: int = FILE_BYTES) -> bytes:
    """Return the contents of a plain file; OSError is EFBIG for more bytes, or of `open_plain`."""
    with os.fdopen(open_plain(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        data = b"" if size > most else file.read(most + 1)
        if max(size, len(data)) > most:
            raise _refused(errno.EFBIG, path)
        return data


def write_file(path: Path, data: bytes) -> None:
    """Write a new file and flush it to the disk; if that fails, part of it may be there."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Flush the names in a folder to the disk."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        # One that may not be listed, or of some file systems, cannot be flushed on its own.
        if error.errno not in (errno.EINVAL, errno.EACCES, errno.EPERM):
            raise


def make_folder(path: Path) -> None:
    """Make a folder durably, unless it is there; its parent has to be, and no link stands there."""
    if not is_folder(path):
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)


@contextmanager
def workspace(parent: Path) -> Iterator[Path]:
    """Give a locked temporary folder in `parent`, and remove it, unless it was renamed."""
    while True:
        path = parent / f"{TEMPORARY}{os.urandom(8).hex()}"
        path.mkdir()
        try:
            descriptor = os.open(path, _FOLDER_ITSELF)
        except FileNotFoundError:
            continue
        except OSError:
            with suppress(OSError):
                path.rmdir()
            raise
        # A file system without locks loses the sweeping, not the writing.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if path.is_dir():
            break
        # Somebody swept it between its making and its lock.
        os.close(descriptor)
    try:
        yield path
    finally:
        _remove_tree(path)
        os.close(descriptor)


def _lock(descriptor: int) -> bool | None:
    """Lock what was opened; whether nobody else has it, or None where there are no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, if its file system has any; an OSError after `LOCK_SECONDS`."""
    give_up = time.monotonic() + LOCK_SECONDS
    descriptor = os.open(folder, _FOLDER_ITSELF)
    try:
        while _lock(descriptor) is False:
            if time.monotonic() > give_up:
                raise _refused(errno.EWOULDBLOCK, folder)
            time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes, parent: Path) -> None:
    """Replace a file as a whole, by a temporary folder in `parent`, on the same file system."""
    with workspace(parent) as folder:
        fresh = folder / path.name
        write_file(fresh, data)
        fresh.replace(path)
        sync_folder(path.parent)


@contextmanager
def output_file(path: Path) -> Iterator[BinaryIO]:
    """Give a file that a user asked for, whole or as it was; a pipe is written as it is."""
    with explained("write", path):
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                yield file
            return
        # The user may have meant the file that a link of theirs leads to.
        whole = path.resolve()
        with workspace(whole.parent) as folder:
            fresh = folder / whole.name
            with fresh.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(whole)
            sync_folder(whole.parent)


def write_output(path: Path, data: bytes) -> None:
    """Write a file that a user asked for; see `output_file`."""
    with output_file(path) as file:
        file.write(data)


def _remove_tree(path: Path) -> None:
    # Imported late: it takes milliseconds that `warpfuzz --help` does not have.
    from shutil import rmtree

    rmtree(path, ignore_errors=True)  # which follows no link


def sweep(parent: Path) -> None:
    """Remove the temporary folders of writers that were killed."""
    for path in sorted(parent.glob(f"{TEMPORARY}*")):
        with suppress(OSError):
            descriptor = os.open(path, _FOLDER_ITSELF)
            try:
                if _lock(descriptor):
                    # Under its lock: a writer that has just made it waits, and makes another.
                    _remove_tree(path)
            finally:
                os.close(descriptor)
