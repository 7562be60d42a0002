"""Running a tool in a process group of its own, with a deadline and bounded output."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

OUTPUT_LIMIT = 64 << 20
"""Most bytes of a tool's standard output, and of any other file that it writes: a module has below
1 MiB, and its machine code below 10 (2026-11)."""
_TAIL_BYTES = 64 << 10
"""Bytes of a tool's messages that are kept: the end, where the errors stand."""
_GRACE = 10.0
"""Seconds that a killed process may take to go away."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """How a tool ended."""

    status: int | None
    """Exit status, or minus the signal; None after the deadline."""
    output: bytes
    """Standard output, of OUTPUT_LIMIT bytes where there was more."""
    errors: str
    """The end of standard error, undecodable bytes escaped."""

    @property
    def ending(self) -> str:
        """Say how it ended, as the end of a sentence."""
        return describe_status(self.status)


def describe_status(status: int | None) -> str:
    """Say how a process ended: "ended with status 1", "was killed by SIGSEGV"."""
    if status is None:
        return "did not end by its deadline"
    if status < 0:
        try:
            return f"was killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"was killed by signal {-status}"
    return f"ended with status {status}"


def limit(pid: int, *, file_bytes: int, memory_bytes: int | None = None) -> None:
    """Bound what a process that was just started may write to one file, and take of memory."""
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: file_bytes}
    if memory_bytes is not None:
        limits[resource.RLIMIT_AS] = memory_bytes
    for kind, most in limits.items():
        # The process may have ended, or the user have set a lower limit.
        with contextlib.suppress(OSError, ValueError):
            hard = resource.prlimit(pid, kind)[1]
            soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.prlimit(pid, kind, (soft, hard))


def helper_environment() -> dict[str, str]:
    """Return the variables for a Python process that runs a module of warpfuzz by `helper`."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    root = str(Path(__file__).parent.parent)
    # An empty entry would be the current folder (Python, "Command line and environment").
    paths = os.pathsep.join([root, *filter(None, given)])
    return {**os.environ, "PYTHONPATH": paths}


def helper(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a Python module, with the variables of `helper_environment`.

    It finds these packages whatever the current folder is, and imports nothing from there: a
    folder may have a `numpy.py` that is not meant. (An option, and no variable, so that it does
    not change Python programs of the user's that a helper starts.)
    """
    return [sys.executable, "-P", "-m", module, *arguments]


_REAP = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""


class _Reaper:
    """A process that kills the groups of tools which this process leaves when it is killed.

    It reads which there are from a pipe; the pipe's end is this process's end, however that came.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._pipe = -1
        self._process: subprocess.Popen[bytes] | None = None

    def tell(self, line: str) -> None:
        # Without one, tools end by their deadlines, or live on; nothing else depends on it.
        with self._lock, contextlib.suppress(OSError):
            if self._owner != os.getpid():
                self._start()
            os.write(self._pipe, f"{line}\n".encode())

    def _start(self) -> None:
        theirs, self._pipe = os.pipe()
        self._owner = os.getpid()
        with os.fdopen(theirs) as source:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _REAP],
                stdin=source,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )


_reaper = _Reaper()


@contextlib.contextmanager
def leashed(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Have a process that leads its group end with this one, even if this one is killed."""
    _reaper.tell(f"+{process.pid}")
    try:
        yield
    finally:
        _reaper.tell(f"-{process.pid}")


def end_group(pid: int) -> None:
    """Kill a process group, if it is there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def kill_group(process: subprocess.Popen[bytes]) -> bool:
    """Kill a process that leads its group, and the group; return whether it went away."""
    end_group(process.pid)
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        return False
    return True


def run_tool(command: Sequence[str], *, deadline: float, given: bytes = b"") -> Finished:
    """Run a command to its end or its deadline; nothing of it stays behind.

    Parameters
    ----------
    deadline
        Seconds.
    given
        Standard input.

    Raises
    ------
    OSError
        If the command cannot be started.
    """
    with (
        tempfile.TemporaryFile() as source,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
    ):
        source.write(given)
        source.seek(0)
        process = subprocess.Popen(
            command, stdin=source, stdout=output, stderr=errors, start_new_session=True
        )
        status: int | None = None
        with leashed(process):
            try:
                limit(process.pid, file_bytes=OUTPUT_LIMIT)
                status = process.wait(deadline)
            except subprocess.TimeoutExpired:
                pass
            finally:
                kill_group(process)
        output.seek(0)
        return Finished(
            status=status, output=output.read(OUTPUT_LIMIT), errors=tail(errors.fileno())
        )


def tail(descriptor: int) -> str:
    """Return the end of an open file as text."""
    size = os.fstat(descriptor).st_size
    data = os.pread(descriptor, _TAIL_BYTES, max(0, size - _TAIL_BYTES))
    return data.decode(errors="backslashreplace")
