"""Running a tool in a process group of its own, with a deadline and bounded output."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

OUTPUT_LIMIT = 256 << 20
"""Bytes of a tool's standard output that are read."""
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
    """Standard output; longer than OUTPUT_LIMIT where there was more."""
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


def kill_group(process: subprocess.Popen[bytes]) -> bool:
    """Kill a process that leads its group, and the group; return whether it went away."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
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
        try:
            status = process.wait(deadline)
        except subprocess.TimeoutExpired:
            pass
        finally:
            kill_group(process)
        output.seek(0)
        return Finished(
            status=status, output=output.read(OUTPUT_LIMIT + 1), errors=tail(errors.fileno())
        )


def tail(descriptor: int) -> str:
    """Return the end of an open file as text."""
    size = os.fstat(descriptor).st_size
    data = os.pread(descriptor, _TAIL_BYTES, max(0, size - _TAIL_BYTES))
    return data.decode(errors="backslashreplace")
