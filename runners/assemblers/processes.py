"""Running an assembler once: in bounded time, memory and output, with nothing left behind."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from oracle.errors import InfrastructureError

OUTPUT_NAME = "output.txt"
# 8,192 rejected instructions print 1.5 MB (measured with ptxas 13.5, 2026-11).
MAX_OUTPUT_BYTES = 32 << 20
# A cubin of 64 instructions has 20 kB (measured with ptxas 13.5, 2026-11); the limit also stops a
# process that writes faster than the watchdog looks.
MAX_FILE_BYTES = 512 << 20
# ptxas 13.5 stays below 120 MB with 8,192 instructions a process (measured, 2026-11).
MAX_MEMORY_BYTES = 4 << 30
WATCH_SECONDS = 0.1
_TEMPORARY_VARIABLES = ("TMPDIR", "TEMP", "TMP")  # what `tempfile` reads
_SHARED_MEMORY = Path("/dev/shm")
# A container may have 64 MiB; a batch takes below 20 MB, and several may run.
_SHARED_MEMORY_BYTES = 512 << 20


@dataclass(frozen=True, kw_only=True)
class Finished:
    """How a process ended, and what it printed."""

    exit_code: int | None
    """None where a signal ended the process."""
    signal: int | None
    """Number of the signal that ended the process, unless it was ours."""
    hung: bool
    """Whether it was killed because it did not end, or did not go on, in time."""
    overflowed: bool
    """Whether it was killed because it printed too much."""
    output: str
    """Standard output and standard error, together."""

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        if self.overflowed:
            return f"printed more than {MAX_OUTPUT_BYTES >> 20} MiB"
        if self.hung:
            return "did not end in time"
        if self.signal is not None:
            return f"killed by {signal_name(self.signal)}"
        return f"exit code {self.exit_code}"


def signal_name(number: int) -> str:
    """Return the name of a signal, such as "SIGSEGV"."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def run(
    command: Sequence[str | Path], *, folder: Path, deadline: float, stall: float | None = None
) -> Finished:
    """Run a command in `folder`, in a process group of its own that ends with it.

    Parameters
    ----------
    command : sequence of str or Path
        Program and arguments.
    folder : Path
        Working directory; the output is collected in a file there.
    deadline : float
        Seconds after which the group is killed.
    stall : float, optional
        Seconds without new output after which the group is killed.

    Raises
    ------
    InfrastructureError
        If the program cannot be started, or the folder not be written.
    """
    output = folder / OUTPUT_NAME
    with writing(folder), output.open("wb") as sink:
        try:
            process = subprocess.Popen(
                [str(part) for part in command],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise InfrastructureError(
                f"{command[0]} cannot be started: {error.strerror}; name a ptxas with --assembler, "
                "or fetch one with `warpfuzz compilers fetch`"
            ) from None
    watchdog = _Watchdog(process.pid, output, deadline, stall)
    try:
        _limit(process.pid)
        watchdog.start()
        status = process.wait()
    finally:
        watchdog.stop()
        # The leader may have left children behind; and an interrupt may have left the leader.
        _kill_group(process.pid)
        process.wait()
    with output.open("rb") as source:
        printed = source.read(MAX_OUTPUT_BYTES)
        overflowed = watchdog.overflowed or source.read(1) != b""
    ours = watchdog.hung or watchdog.overflowed
    return Finished(
        exit_code=status if status >= 0 else None,
        signal=-status if status < 0 and not ours else None,
        hung=watchdog.hung,
        overflowed=overflowed or status == -signal.SIGXFSZ,
        output=printed.decode(errors="replace"),
    )


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn the errors of writing below a folder into sentences.

    Raises
    ------
    InfrastructureError
        In place of an OSError.
    """
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
    """Make a private folder that is gone afterwards, whatever is in it.

    Parameters
    ----------
    base : Path, optional
        Where to make it; a place for small temporary files where it is not given.

    Raises
    ------
    InfrastructureError
        If none can be made.
    """
    base = base or _base()
    try:
        made = tempfile.mkdtemp(prefix="warpfuzz-", dir=base)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(base or Path(tempfile.gettempdir())) from None
        raise InfrastructureError(
            f"no temporary folder can be made: {error.strerror}; set TMPDIR to a folder that can "
            "be written"
        ) from None
    try:
        yield Path(made)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _base() -> Path | None:
    """Return where to make temporary folders; None for the default of `tempfile`.

    Thousands of small files a second are written: memory takes 0.05 ms for one, a busy disk 1 ms
    (measured 2026-11).
    """
    if any(os.environ.get(name) for name in _TEMPORARY_VARIABLES):
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
    """Raise InfrastructureError where the disk of the folder is full.

    An assembler that cannot write fails in ways that look like its own.
    """
    if shutil.disk_usage(folder).free < 1 << 20:
        raise disk_full(folder)


def _limit(pid: int) -> None:
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: MAX_FILE_BYTES,
        resource.RLIMIT_AS: MAX_MEMORY_BYTES,
    }
    for kind, most in limits.items():
        # The process may have ended, or the user have set a lower limit.
        with contextlib.suppress(OSError, ValueError):
            hard = resource.prlimit(pid, kind)[1]
            soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.prlimit(pid, kind, (soft, hard))


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


class _Watchdog:
    """Kill a process group that takes too long, stands still or prints too much."""

    def __init__(self, pid: int, output: Path, deadline: float, stall: float | None) -> None:
        self.hung = False
        self.overflowed = False
        self._pid = pid
        self._output = output
        self._deadline = deadline
        self._stall = stall
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        start = moved = time.monotonic()
        size = 0
        while not self._ended.wait(WATCH_SECONDS):
            now = time.monotonic()
            printed = self._output.stat().st_size
            if printed != size:
                size, moved = printed, now
            self.overflowed = size > MAX_OUTPUT_BYTES
            late = now - start > self._deadline
            self.hung = late or (self._stall is not None and now - moved > self._stall)
            if self.overflowed or self.hung:
                _kill_group(self._pid)
                return
