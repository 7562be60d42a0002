"""Reading and writing on the disk, whoever else writes there, and whatever breaks in between.

What is written is written in a temporary folder, flushed to the disk, and only then renamed to
where it belongs, so that neither a killed process nor a full disk leaves half of anything. A
temporary folder is locked for as long as its writer lives, so that one whose writer was killed is
told from one in use.

What is read may come from anybody. A link could lead to a file of the user's, a pipe or a device
would be read for ever, and a sparse file of a few blocks can claim gigabytes: only plain files of a
bounded size are opened, and never through a link.
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

TEMPORARY = ".tmp-"
"""What the name of a temporary folder starts with."""

_FOLDER_ITSELF = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

FILE_BYTES = 64 << 20
"""Most bytes of one file of a finding: four images of the largest program (`oracle.program`)."""
DESCRIPTION_BYTES = 4 << 20
"""Most bytes of a description. The longest of a campaign had 18 KB (2026-11); decoded, the worst
JSON takes 40 times its size in memory."""
LOCK_SECONDS = 60.0
"""How long to wait for a lock, in seconds: merging the largest corpus takes less."""

_REMEDIES = {
    errno.EWOULDBLOCK: (
        "another process keeps it locked",
        "wait for it, or end it, and try again",
    ),
    errno.ENOSPC: ("the disk is full", "free some space there and try again"),
    errno.EDQUOT: ("the disk quota is used up", "free some space there and try again"),
    errno.EROFS: ("the file system is read-only", "name a folder that can be written to"),
    errno.EACCES: ("permission denied", "change its permissions, or name another folder"),
    errno.EPERM: ("permission denied", "change its permissions, or name another folder"),
    errno.EEXIST: ("a file is in the way", "name a folder, or one that does not exist yet"),
    errno.ENOTDIR: ("a file is in the way", "name a folder, or one that does not exist yet"),
    errno.EMFILE: ("too many files are open", "raise the limit (ulimit -n) and try again"),
    errno.ENFILE: ("too many files are open", "close other programs and try again"),
    errno.ENAMETOOLONG: ("the name is too long", "name a folder with a shorter path"),
    errno.ELOOP: ("a link is there, and links in a corpus are not followed", "remove the link"),
    errno.ENXIO: ("it is no plain file", "remove what is there"),
    errno.EFBIG: ("it is larger than any file of warpfuzz", "remove it, or give another one"),
}


@contextmanager
def explained(doing: str, path: Path) -> Iterator[None]:
    """Turn an OSError into an InfrastructureError: what failed, why, and what to do.

    `doing` is what is being done to `path`, such as "write".
    """
    try:
        yield
    except OSError as error:
        reason, remedy = _REMEDIES.get(
            error.errno or 0, (error.strerror or str(error), "mend that and try again")
        )
        if error.errno == errno.EFBIG and error.filename is None:
            # Of a file that is written, and not of one that was opened.
            reason, remedy = "files may not become so large", "raise the limit (ulimit -f)"
        if error.errno == errno.ENOENT and (gone := _missing(path)) is not None:
            raise InfrastructureError(
                f"cannot {doing} {path}: {gone} is not there; if it was, something has removed or "
                "moved it, with all that it held"
            ) from error
        raise InfrastructureError(
            f"cannot {doing} {path}: {reason}; {remedy} (what was reported as saved is intact)"
        ) from error


def _missing(path: Path) -> Path | None:
    """Return the first part of a path that is not there; None if all is."""
    return next((one for one in (*reversed(path.parents), path) if not os.path.lexists(one)), None)


def is_folder(path: Path) -> bool:
    """Whether a folder is there, and no link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def check_folder(path: Path) -> None:
    """Check that a path, if anything is there, is a folder and no link to one.

    Raises
    ------
    OSError
        ELOOP for a link, ENOTDIR for anything else that is no folder.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISLNK(mode):
        raise _refused(errno.ELOOP, path)
    if not stat.S_ISDIR(mode):
        raise _refused(errno.ENOTDIR, path)


def open_plain(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a plain file; return its descriptor.

    `flags` are as for os.open; with O_CREAT the file is made where nothing is there.

    Raises
    ------
    OSError
        ELOOP for a link, ENXIO for anything else that is no plain file, or as os.open.
    """
    # A pipe or a device is not even opened: that alone can wait, or do something.
    try:
        _check_plain(path.lstat(), path)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    extra = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags | extra, 0o666)
    try:
        _check_plain(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_plain(path: Path, *, most: int = FILE_BYTES) -> bytes:
    """Return the contents of a plain file.

    A file of more than `most` bytes is not read.

    Raises
    ------
    OSError
        EFBIG where it is larger, or as `open_plain`.
    """
    with os.fdopen(open_plain(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        data = b"" if size > most else file.read(most + 1)
        if max(size, len(data)) > most:
            raise _refused(errno.EFBIG, path)
        return data


def _check_plain(status: os.stat_result, path: Path) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise _refused(errno.ELOOP, path)
    if not stat.S_ISREG(status.st_mode):
        raise _refused(errno.ENXIO, path)


def _refused(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))


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
    except PermissionError:
        # A folder that may be entered and not listed cannot be flushed either.
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some file systems cannot flush a folder on its own, and need not.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Make a folder durably, unless it is there; its parent has to be, and no link stands there."""
    check_folder(path)
    if not is_folder(path):
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)


@contextmanager
def workspace(parent: Path) -> Iterator[Path]:
    """Give a locked temporary folder inside `parent`, and remove it with what is left in it.

    It may be renamed in the meantime: then it is kept.
    """
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
        try:
            remove_tree(path)
        finally:
            os.close(descriptor)


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder; its owner's death releases it.

    An OSError says that somebody else holds it for longer than `LOCK_SECONDS`.
    """
    descriptor = os.open(folder, _FOLDER_ITSELF)
    try:
        give_up = time.monotonic() + LOCK_SECONDS
        while not _locked(descriptor):
            if time.monotonic() > give_up:
                raise OSError(errno.EWOULDBLOCK, "another process keeps it locked")
            time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # A file system without locks: as before locks, one writer at a time is up to the user.
        return True
    return True


def replace_file(path: Path, data: bytes, parent: Path) -> None:
    """Replace a file as a whole: a reader sees the old or the new one.

    Temporary folders are made in `parent`, a folder on the same file system.
    """
    with workspace(parent) as folder:
        fresh = folder / path.name
        write_file(fresh, data)
        fresh.replace(path)
        sync_folder(path.parent)


@contextmanager
def output_file(path: Path) -> Iterator[BinaryIO]:
    """Give a file that a user asked for; what was there before stays until all of it is written.

    A pipe or a device, such as /dev/stdout, is written to as it is.
    """
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


def remove_tree(path: Path) -> None:
    """Remove a folder and what is in it as far as possible; what resists is left to a sweep.

    A link is not followed, neither in place of the folder nor inside it.
    """
    if not is_folder(path):
        return
    with suppress(OSError):
        for child in path.iterdir():
            with suppress(OSError):
                if is_folder(child):
                    remove_tree(child)
                else:
                    child.unlink()
        path.rmdir()


def sweep(parent: Path) -> None:
    """Remove the temporary folders of writers that were killed."""
    for path in sorted(parent.glob(f"{TEMPORARY}*")):
        with claimed(path) as abandoned:
            if abandoned:
                # Under its lock: a writer that has just made it waits, and makes another.
                remove_tree(path)


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Lock a temporary folder if its writer is gone; whether it is (False if nobody can tell)."""
    try:
        descriptor = os.open(path, _FOLDER_ITSELF)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
