"""Running a tool in a process group of its own, with a deadline and bounded output."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from oracle.errors import UsageError

OUTPUT_LIMIT = 64 << 20
"""Most bytes of a file that a tool writes, and of its output: machine code has below 10 MiB."""
WRITTEN_LIMIT = 512 << 20
"""Most bytes that a tool and what it starts write in all, to whatever files."""
_WATCH_SECONDS = 0.1
"""Between two looks at that. A disk takes 2 GB a second at most, most of them less."""
_TAIL_BYTES = 64 << 10
"""Bytes of a tool's messages that are kept: the end, where the errors stand."""
_GRACE = 10.0
"""Seconds that a killed process may take to go away."""
_MARK = "WARPFUZZ_TOOL"
"""Variable by which processes that a tool has started are known as its own, wherever they went."""
_BLOCK = 512
"""Bytes of a unit of `ulimit -f` (POSIX.1-2017, ulimit)."""
_numbers = itertools.count()
_LOOK_SECONDS = 0.001
"""Between two looks at a process that becomes another program, which takes less."""
_ROUNDS = 20
"""Times that processes are looked for that a tool has left: one that is seen may fork once more."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """How a tool ended."""

    status: int | None
    """Exit status, or minus the signal; None where it was killed because it did not end, or did
    not go on, in time."""
    output: bytes
    """Standard output, of OUTPUT_LIMIT bytes where there was more."""
    errors: str = ""
    """The end of standard error, undecodable bytes escaped."""
    overflowed: bool = False
    """Whether it wrote more than OUTPUT_LIMIT, or, with all its files, than WRITTEN_LIMIT."""

    @property
    def text(self) -> str:
        """Standard output as text."""
        return self.output.decode(errors="replace")

    @property
    def failed(self) -> bool:
        """Whether it did not end with success, or what it wrote is not whole."""
        return self.status != 0 or self.overflowed

    @property
    def ending(self) -> str:
        """Say how it ended, as the end of a sentence."""
        if self.overflowed:
            return f"wrote {OUTPUT_LIMIT >> 20} MiB and more, or {WRITTEN_LIMIT >> 20} in all"
        return describe_status(self.status)


def describe_status(status: int | None) -> str:
    """Say how a process ended: "ended with status 1", "was killed by SIGSEGV"."""
    if status is None:
        return "did not end by its deadline"
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


class Tool:
    """A tool that is started in a process group of its own, within bounds.

    The bounds hold before it begins, so that nothing that it starts is without them: a shell sets
    them and becomes the tool. (Set from here, they would come too late for one that forks at once;
    set between fork and exec by Python code, they are not safe in a process with threads.) It ends
    with this process, even if this one is killed.

    `file_bytes`, `memory_bytes`: most bytes of a file that it writes, and of address space; None:
    no bound. `environment`: its variables; None: this process's. `cwd`, `stdin`, `stdout`,
    `stderr`, `pass_fds`: as of `subprocess.Popen`. Raises OSError if the command cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        file_bytes: int | None = None,
        memory_bytes: int | None = None,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stdout: int | IO[bytes],
        stderr: int | IO[bytes],
        pass_fds: Sequence[int] = (),
    ) -> None:
        _check_program(command[0], cwd or Path.cwd())
        bounds = ["-c 0"]
        if file_bytes is not None:
            bounds.append(f"-f {-(-file_bytes // _BLOCK)}")
        if memory_bytes is not None:
            bounds.append(f"-v {memory_bytes >> 10}")
        # A bound that is lower already stays.
        script = "".join(f"ulimit {bound} 2>/dev/null; " for bound in bounds) + 'exec "$@"'
        self._mark = f"{os.getpid()}-{next(_numbers)}"
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            ["/bin/sh", "-c", script, "sh", *command],
            cwd=cwd,
            env={**(environment or os.environ), _MARK: self._mark},
            start_new_session=True,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=pass_fds,
        )
        _reaper.tell(f"+{self.process.pid}")

    def _own(self) -> tuple[list[int], bool]:
        """Return the tool's processes, wherever they are, and whether some are unclear yet."""
        found, unclear, mark = [], False, f"{_MARK}={self._mark}".encode()
        for pid in _since(self.process.pid):
            # Those that are gone, and those of others.
            with contextlib.suppress(OSError):
                variables = _variables(pid)
                if mark in variables.split(b"\0"):
                    found.append(pid)
                unclear = unclear or (not variables and _may_have_variables(pid))
        return found, unclear

    def written(self) -> int:
        """Return how many bytes its processes have written, those that have ended included."""
        total = 0
        for pid in self._own()[0]:
            with contextlib.suppress(OSError, ValueError):
                counts = Path(f"/proc/{pid}/io").read_text().split()
                total += int(counts[counts.index("wchar:") + 1])
        return total

    def kill(self) -> bool:
        """Kill it and all that it has started; return whether it went away."""
        self._kill_group()
        gone = True
        try:
            self.process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            gone = False
        for _ in range(_ROUNDS):
            left, unclear = self._own()
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            if not left and not unclear:
                break
            if not left:
                time.sleep(_LOOK_SECONDS)
        _reaper.tell(f"-{self.process.pid}")
        return gone

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    @contextlib.contextmanager
    def watched(
        self, output: IO[bytes], deadline: float, stall: float | None
    ) -> Iterator[set[str]]:
        """Kill its group meanwhile if it takes too long, stands still or writes too much.

        It yields what becomes true of it, "late" and "overflowed"; `output` is where it writes.
        """
        ended, what = threading.Event(), set[str]()

        def watch() -> None:
            moved = time.monotonic()
            end, size = moved + deadline, 0
            while not ended.wait(max(0.0, min(_WATCH_SECONDS, end - time.monotonic()))):
                now, printed = time.monotonic(), os.fstat(output.fileno()).st_size
                if printed != size:
                    size, moved = printed, now
                if now >= end or (stall is not None and now - moved > stall):
                    what.add("late")
                if self.written() > WRITTEN_LIMIT:
                    what.add("overflowed")
                if what:
                    self._kill_group()
                    return

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield what
        finally:
            ended.set()
            thread.join()


def _variables(pid: int) -> bytes:
    """Return the variables with which a process began; none while it becomes another program."""
    return Path(f"/proc/{pid}/environ").read_bytes()


def _may_have_variables(pid: int) -> bool:
    """Whether a process has not ended and is none of the kernel (proc(5), /proc/pid/stat)."""
    state, parent = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()[:2]
    return state not in (b"Z", b"X") and parent != b"2"


def _check_program(name: str, folder: Path) -> None:
    """Raise OSError for what cannot be executed, as `exec` does, which a shell may make good."""
    path = shutil.which(name) if os.sep not in name else os.path.join(folder, name)  # noqa: PTH118
    if path is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    with open(path, "rb") as file:  # noqa: PTH123 (of the name as it is given)
        begin = file.readline(256)
    if not os.access(path, os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
    if begin[:2] == b"#!":
        words = begin[2:].split()
        if not words or not os.access(words[0], os.X_OK):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    elif begin[:4] != b"\x7fELF":
        raise OSError(errno.ENOEXEC, os.strerror(errno.ENOEXEC), name)


def _since(pid: int) -> Iterable[int]:
    """Return numbers that processes may have which were started since one of them."""
    try:
        # The last word is the number that was given last (proc(5)).
        last = int(Path("/proc/loadavg").read_text().split()[-1])
    except (OSError, ValueError):
        return ()
    if pid <= last:
        return range(pid, last + 1)
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208


def helper_environment() -> dict[str, str]:
    """Return the variables for a Python process that runs a module of warpfuzz by `helper`."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    # An empty entry would be the current folder (Python, "Command line and environment").
    paths = os.pathsep.join([str(Path(__file__).parent.parent), *filter(None, given)])
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
        self._lock = threading.RLock()
        self._owner, self._pipe = 0, -1
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


def words_of(command: str) -> list[str]:
    """Return the words of a command, as in a shell; UsageError if its quotes do not match."""
    try:
        return shlex.split(command)
    except ValueError as error:
        said = f"{quoted(command)} is no command ({error}); quote it as in a shell"
        raise UsageError(said) from None


def quoted(command: str) -> str:
    """Return a command as one word of a shell, in quotes, such as a message shows it.

    Of POSIX's shell of 2024 (`$'...'`), where it has signs that cannot be printed.
    """
    if not command.isprintable():
        signs = (
            chr(byte) if 32 <= byte < 127 and byte not in b"\\'" else f"\\x{byte:02x}"
            for byte in os.fsencode(command)
        )
        return f"$'{''.join(signs)}'"
    if "'" not in command:
        return f"'{command}'"
    plain = not re.search(r'["$`!]|\\\\', command)
    return f'"{command}"' if plain else shlex.quote(command)


def check_program(program: str | None, asked: str) -> None:
    """Raise UsageError if a program cannot be executed that an option asks for."""
    if program is not None and shutil.which(program) is None:
        raise UsageError(
            f"{asked}: there is no program {program}; give its path, or put it in a folder of "
            "PATH, and make it executable"
        )


def run_tool(
    command: Sequence[str], *, deadline: float, given: bytes = b"", cwd: Path | None = None,
    memory_bytes: int | None = None, stall: float | None = None, together: bool = False,
) -> Finished:  # fmt: skip
    """Run a command to its end or its deadline; nothing of it stays behind.

    `deadline`, `stall`: seconds that it may take, and may take without new output. `given`:
    standard input. `cwd`, `memory_bytes`: as of `Tool`. Raises OSError if the command cannot be
    started. `together`: whether standard error is part of the output.
    """
    with contextlib.ExitStack() as stack:
        source, output, errors = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        source.write(given)
        source.seek(0)
        tool = Tool(
            command, file_bytes=OUTPUT_LIMIT, memory_bytes=memory_bytes, cwd=cwd,
            stdin=source, stdout=output, stderr=subprocess.STDOUT if together else errors,
        )  # fmt: skip
        try:
            with tool.watched(output, deadline, stall) as what:
                status = tool.process.wait()
        finally:
            tool.kill()
        output.seek(0)
        printed = output.read(OUTPUT_LIMIT)
        full = len(printed) == OUTPUT_LIMIT or status == -signal.SIGXFSZ
        return Finished(
            status=None if "late" in what else status,
            output=printed,
            errors=tail(errors.fileno()),
            overflowed=full or "overflowed" in what,
        )


def tail(descriptor: int) -> str:
    """Return the end of an open file as text."""
    size = os.fstat(descriptor).st_size
    data = os.pread(descriptor, _TAIL_BYTES, max(0, size - _TAIL_BYTES))
    return data.decode(errors="backslashreplace")
