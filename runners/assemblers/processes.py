"""Running an assembler once: in bounded time, memory and output, with nothing left behind."""

from __future__ import annotations

import errno
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from oracle.errors import InfrastructureError
from runners.folders import writing
from runners.processes import WRITTEN_LIMIT, Tool, end_group, leashed, signal_name

OUTPUT_NAME = "output.txt"
# 8,192 rejected instructions print 1.5 MB (measured with ptxas 13.5, 2026-11).
MAX_OUTPUT_BYTES = 32 << 20
# A cubin of 64 instructions has 20 kB (measured with ptxas 13.5, 2026-11); the limit also stops a
# process that writes faster than the watchdog looks.
MAX_FILE_BYTES = 512 << 20
# ptxas 13.5 stays below 120 MB with 8,192 instructions a process (measured, 2026-11).
MAX_MEMORY_BYTES = 4 << 30
WATCH_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class ToolEnd:
    """How a process ended, and what it printed."""

    exit_code: int | None
    """None where a signal ended the process."""
    signal: int | None
    """Number of the signal that ended the process, unless it was ours."""
    hung: bool
    """Whether it was killed because it did not end, or did not go on, in time."""
    overflowed: bool
    """Whether it was killed because it printed or wrote too much."""
    output: str
    """Standard output and standard error, together."""

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        if self.overflowed:
            return (
                f"printed more than {MAX_OUTPUT_BYTES >> 20} MiB, or wrote more than "
                f"{WRITTEN_LIMIT >> 20}"
            )
        if self.hung:
            return "did not end in time"
        if self.signal is not None:
            return f"killed by {signal_name(self.signal)}"
        return f"exit code {self.exit_code}"


def run(
    command: Sequence[str | Path],
    *,
    folder: Path,
    deadline: float,
    stall: float | None = None,
    memory_bytes: int = MAX_MEMORY_BYTES,
) -> ToolEnd:
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
    memory_bytes : int
        Most bytes of address space.

    Raises
    ------
    InfrastructureError
        If the program cannot be started, or the folder not be written.
    """
    output = folder / OUTPUT_NAME
    with writing(folder), output.open("wb") as sink:
        try:
            tool = Tool(
                [str(part) for part in command],
                file_bytes=MAX_FILE_BYTES,
                memory_bytes=memory_bytes,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise InfrastructureError(
                f"{command[0]} cannot be started: {error.strerror}; name a ptxas with --assembler, "
                "or fetch one with `warpfuzz compilers fetch VERSION`"
            ) from None
    process = tool.process
    watchdog = _Watchdog(tool, output, deadline, stall)
    with leashed(process):
        try:
            watchdog.start()
            status = process.wait()
        finally:
            watchdog.stop()
            # The leader may have left children behind; and an interrupt may have left the leader.
            tool.kill()
            process.wait()
    with output.open("rb") as source:
        printed = source.read(MAX_OUTPUT_BYTES)
        overflowed = watchdog.overflowed or source.read(1) != b""
    ours = watchdog.hung or watchdog.overflowed
    return ToolEnd(
        exit_code=status if status >= 0 else None,
        signal=-status if status < 0 and not ours else None,
        hung=watchdog.hung,
        overflowed=overflowed or status == -signal.SIGXFSZ,
        output=printed.decode(errors="replace"),
    )


class _Watchdog:
    """Kill a process group that takes too long, stands still or prints too much."""

    def __init__(self, tool: Tool, output: Path, deadline: float, stall: float | None) -> None:
        self.hung = False
        self.overflowed = False
        self._tool = tool
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
            self.overflowed = size > MAX_OUTPUT_BYTES or self._tool.written() > WRITTEN_LIMIT
            late = now - start > self._deadline
            self.hung = late or (self._stall is not None and now - moved > self._stall)
            if self.overflowed or self.hung:
                end_group(self._tool.process.pid)
                return
