"""Opening what lies in a corpus: plain files of a bounded size, and never through a link.

A corpus may come from anybody. A link in it could lead to a file of the user's, a pipe or a device
would be read for ever, and a sparse file of a few blocks can claim gigabytes. All of them are
refused here, by an OSError that `durable.explained` turns into a sentence.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

FILE_BYTES = 64 << 20
"""Most bytes of one file of a finding: four images of the largest program (`oracle.program`)."""
DESCRIPTION_BYTES = 4 << 20
"""Most bytes of a description. The longest of a campaign had 18 KB (2026-11); decoded, the worst
JSON takes 40 times its size in memory."""


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

    Parameters
    ----------
    flags
        As for os.open; with O_CREAT the file is made where nothing is there.

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

    Parameters
    ----------
    most
        Bytes; a larger file is not read.

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
