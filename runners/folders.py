"""Temporary folders, the user's cache folder, full disks: what is written on this machine."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import platformdirs

from oracle.errors import InfrastructureError

PREFIX = "warpfuzz-"  # what the name of a temporary folder starts with
_SWEPT_AFTER = 60.0
"""Seconds after which a folder that nobody has locked is nobody's; making and locking one takes
less than a millisecond."""
_FULL_BYTES = 1 << 20  # free bytes below which a disk is full
_SHARED_MEMORY = Path("/dev/shm")
_SHARED_MEMORY_BYTES = 512 << 20
"""A container may have 64 MiB; a batch takes below 20 MB, and several may run."""


def cache_folder() -> Path:
    """Return this user's folder for fetched toolchains and for what is remembered of them."""
    return platformdirs.user_cache_path("warpfuzz")


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn an OSError of writing below a folder into an InfrastructureError."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(folder) from None
        raise InfrastructureError(
            f"{folder} cannot be written: {error.strerror}; make it writable, or choose another "
            "folder (TMPDIR for temporary files, XDG_CACHE_HOME for the cache)"
        ) from None


@contextlib.contextmanager
def temporary_folder(base: Path | None = None) -> Iterator[Path]:
    """Make a private folder, in `base` or for small files, that is gone afterwards."""
    base = base or _base() or Path(tempfile.gettempdir())
    _sweep_once(base)
    with writing(base):
        made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
        descriptor = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # As long as this process lives, so that what a killed one left is told from what is used.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(descriptor)


@cache
def _sweep_once(base: Path) -> None:
    """Remove the temporary folders of this user's processes that were killed."""
    with contextlib.suppress(OSError):
        for path in base.glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                descriptor = os.open(path, flags)
                stack.callback(os.close, descriptor)
                found = os.fstat(descriptor)
                if found.st_uid == os.getuid() and time.time() - found.st_mtime > _SWEPT_AFTER:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)


def _base() -> Path | None:
    """Return where temporary files take 0.05 ms, in memory: a busy disk takes 1 ms (2026-11)."""
    if any(map(os.environ.get, ("TMPDIR", "TEMP", "TMP"))):  # what `tempfile` reads
        return None
    try:
        free = shutil.disk_usage(_SHARED_MEMORY).free
    except OSError:
        return None
    fits = free > _SHARED_MEMORY_BYTES and os.access(_SHARED_MEMORY, os.W_OK | os.X_OK)
    return _SHARED_MEMORY if fits else None


def disk_full(folder: Path) -> InfrastructureError:
    """Return the error for a disk without space."""
    return InfrastructureError(
        f"no space is left on the disk of {folder}; free some, or choose another folder (TMPDIR "
        "for temporary files, XDG_CACHE_HOME for the cache)"
    )


def check_space(folder: Path) -> None:
    """Raise InfrastructureError where the disk is full: an assembler that cannot write fails."""
    if is_full(folder):
        raise disk_full(folder)


def is_full(folder: Path) -> bool:
    """Whether the disk of a folder has no space to speak of."""
    return shutil.disk_usage(folder).free < _FULL_BYTES
