"""How child processes begin and end: the one place that starts any, and sees to it that none stays.

`run_tool` runs a program to its end, `SupervisedChild` is one that answers, `process_pool` carries
out functions. What is left when this process is killed, a reaper ends.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import multiprocessing
import os
import pickle
import queue
import re
import select
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import reduction
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

from oracle.errors import InfrastructureError, UsageError
from runners.allocation import keep_memory
from runners.protocol import Trouble

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Environment that limits NumPy to one thread: there is a process for every core already."""
OUTPUT_LIMIT = 64 << 20
"""Most bytes of a file that a tool writes, and of its output: machine code has below 10 MiB."""
WRITTEN_LIMIT = 512 << 20
"""Most bytes that a tool and what it starts write in all, to whatever files."""
_WATCH_SECONDS = 0.1
"""Between two looks at that. A disk takes 2 GB a second at most, most of them less."""
_TAIL_BYTES = 64 << 10  # bytes of a tool's messages that are kept: the end, where the errors stand
_GRACE = 10.0  # seconds that a killed process may take to go away
_MARK = "WARPFUZZ_TOOL"
"""Variable by which processes that a tool has started are known as its own, wherever they went."""
_BLOCK = 512  # bytes of a unit of `ulimit -f` (POSIX.1-2017, ulimit)
_MOST_BYTES = 256 << 20  # longest answer, in bytes: a thousand images of 128 KiB, before and after
_AT_ONCE_BYTES = 64 << 10
"""Longest request sent at once: a writable line has room for 156 KiB (Linux, unix_writable)."""
_REST_SECONDS = 10  # how long the next part of an answer may take, on a machine that is busy
_DYING_SECONDS = 10.0
"""How long a child that has closed its end of the line may take to be found dead."""
_numbers = itertools.count()
_LOOK_SECONDS = 0.001
"""Between two looks at a process that becomes another program, which takes less."""
_NEIGHBOURS = 1000  # numbers of processes that are looked at one by one
_ROUNDS = 20
"""Times that processes are looked for that a tool has left: one that is seen may fork once more."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """How a tool ended."""

    status: int | None  # exit status, or minus the signal; None: killed, because it took too long
    output: bytes  # standard output, of OUTPUT_LIMIT bytes where there was more
    errors: str = ""  # the end of standard error, undecodable bytes escaped
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
    """Say how a process ended, as "was killed by SIGSEGV"."""
    if status is None:
        return "did not end by its deadline"
    if status >= 0:
        return f"ended with status {status}"
    names = {number.value: number.name for number in signal.Signals}
    return f"was killed by {names.get(-status, f'signal {-status}')}"


class Tool:
    """A tool that is started in a process group of its own, within bounds.

    The bounds hold before it begins, so that nothing that it starts is without them: a shell sets
    them and becomes the tool (`preexec_fn` is not safe beside threads). It ends with this
    process, even if this one is killed.

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
            ["/bin/sh", "-c", script, "sh", *command], cwd=cwd,
            env={**(environment or os.environ), _MARK: self._mark}, start_new_session=True,
            stdin=stdin, stdout=stdout, stderr=stderr, pass_fds=pass_fds,
        )  # fmt: skip
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
                elif not variables:
                    # Neither has one that has ended, or one of the kernel (proc(5)).
                    stat = Path(f"/proc/{pid}/stat").read_bytes()
                    state, parent = stat.rpartition(b") ")[2].split()[:2]
                    unclear = unclear or (state not in (b"Z", b"X") and parent != b"2")
        return found, unclear

    def written(self) -> int:
        """Return how many bytes its processes have written, those that have ended included."""
        total = 0
        for pid in self._own()[0]:
            with contextlib.suppress(OSError, ValueError):
                counts = Path(f"/proc/{pid}/io").read_text().split()
                total += int(counts[counts.index("wchar:") + 1])
        return total

    def kill(self, grace: float = 0.0) -> bool:
        """Kill it and all that it has started; return whether it went away.

        With `grace`, it is asked first, and has so many seconds to end by itself.
        """
        if grace:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(grace)
        self.kill_group()
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

    def kill_group(self) -> None:
        """Kill it, and what is in its group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)


def _variables(pid: int) -> bytes:
    """Return the variables with which a process began; none while it becomes another program."""
    return Path(f"/proc/{pid}/environ").read_bytes()


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
    # The last word is the number that was given last (proc(5)).
    with contextlib.suppress(OSError, ValueError):
        last = int(Path("/proc/loadavg").read_text().split()[-1])
        if pid <= last < pid + _NEIGHBOURS:
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
import os, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for look in range(51):
    for group in list(groups):
        try:
            os.killpg(group, signal.SIGKILL if look == 50 else signal.SIGTERM)
        except OSError:
            groups.discard(group)
    time.sleep(0.1 if groups else 0)
"""


class _Reaper:
    """A process that ends the groups of tools which this process leaves when it is killed.

    It reads which there are from a pipe; the pipe's end is this process's end, however that came.
    They are asked to end, which takes along what they have started, and killed after 5 s.
    """

    _owner, _pipe = 0, -1
    _process: subprocess.Popen[bytes] | None = None

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def tell(self, line: str) -> None:
        with self._lock, contextlib.suppress(OSError):
            if self._owner != os.getpid():
                self._start()
            os.write(self._pipe, f"{line}\n".encode())

    def _start(self) -> None:
        theirs, self._pipe = os.pipe()
        self._owner = os.getpid()
        # Who kills this process as a tool leaves the reaper its work.
        unmarked = {name: value for name, value in os.environ.items() if name != _MARK}
        with os.fdopen(theirs) as source:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _REAP], stdin=source, cwd="/", env=unmarked,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip


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
        signs = [
            chr(byte) if 32 <= byte < 127 and byte not in b"\\'" else f"\\x{byte:02x}"
            for byte in os.fsencode(command)
        ]
        return f"$'{''.join(signs)}'"
    if "'" not in command:
        return f"'{command}'"
    plain = not re.search(r'["$`!]|\\\\', command)
    return f'"{command}"' if plain else shlex.quote(command)


def check_program(program: str | None, asked: str) -> None:
    """Raise UsageError if a program cannot be executed that an option asks for."""
    if program is not None and shutil.which(program) is None:
        said = "give its path, or put it in a folder of PATH, and make it executable"
        raise UsageError(f"{asked}: there is no program {program}; {said}")


def run_tool(
    command: Sequence[str], *, deadline: float, given: bytes = b"", cwd: Path | None = None,
    memory_bytes: int | None = None, stall: float | None = None, together: bool = False,
) -> Finished:  # fmt: skip
    """Run a command to its end or its deadline; nothing of it stays behind.

    `deadline`, `stall`: seconds that it may take, and without new output. `given`: standard input.
    `together`: whether standard error is part of the output. The others, and OSError: as of `Tool`.
    """
    with contextlib.ExitStack() as stack:
        source, output, errors = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        source.write(given)
        source.seek(0)
        tool = Tool(
            command, file_bytes=OUTPUT_LIMIT, memory_bytes=memory_bytes, cwd=cwd,
            stdin=source, stdout=output, stderr=subprocess.STDOUT if together else errors,
        )  # fmt: skip
        ended, what = threading.Event(), set[str]()

        def watch() -> None:
            moved = time.monotonic()
            end, size = moved + deadline, 0
            while not what and not ended.wait(min(_WATCH_SECONDS, max(0, end - time.monotonic()))):
                now, printed = time.monotonic(), os.fstat(output.fileno()).st_size
                if printed != size:
                    size, moved = printed, now
                if now >= end or (stall is not None and now - moved > stall):
                    what.add("late")
                if tool.written() > WRITTEN_LIMIT:
                    what.add("overflowed")
            if what:
                tool.kill_group()

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            status = tool.process.wait()
        finally:
            ended.set()
            watcher.join()
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


_Part = bytes | int | None  # what is sent: an object, a file descriptor; None: no more


def _send(line: Connection[Any, Any], part: bytes | int) -> None:
    if isinstance(part, int):
        reduction.send_handle(line, part, 0)  # no number of a process is needed on Linux
    else:
        line.send_bytes(part)


def _send_on(line: Connection[Any, Any], unsent: queue.Queue[_Part]) -> None:
    """Send what is to be sent, one after the other, until there is no more or nobody reads it."""
    with contextlib.suppress(OSError):
        while (part := unsent.get()) is not None:
            _send(line, part)
            unsent.task_done()


class NoAnswerError(Exception):
    """There is no answer, and the child was ended.

    `trouble`: HANG, CRASH or CORRUPTED_REPLY. `how`: how the child ended, or what it answered, as
    the end of a sentence. `log`: what it printed last.
    """

    def __init__(self, trouble: Trouble, how: str, log: str) -> None:
        super().__init__(how)
        self.trouble, self.how, self.log = trouble, how, log


class SupervisedChild:
    """A child in a session, and so a process group, of its own.

    It is told the descriptor of its end of the connection, and ends where that ends.

    `command`: the program and its first arguments; the descriptor follows, and the other arguments.
    `environment`: its variables; None: those of this process. `file_bytes`: most bytes of a file
    that it writes; None: no bound. Raises OSError if the process cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        file_bytes: int | None = None,
    ) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the child)
        self._socket, theirs = socket.socketpair()
        rest = struct.pack("ll", _REST_SECONDS, 0)  # socket(7), SO_RCVTIMEO
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, rest)
        with theirs, contextlib.ExitStack() as failed:
            failed.callback(self._socket.close)
            self._tool = Tool(
                [*command, str(theirs.fileno()), *arguments], file_bytes=file_bytes,
                environment=environment, stdout=self._log, stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
            )  # fmt: skip
            failed.pop_all()
        self.process = self._tool.process
        self._line: Connection[Any, Any] = Connection(os.dup(self._socket.fileno()))
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(self._line, select.POLLIN)
        self._writable.register(self._line, select.POLLOUT)
        self._unsent: queue.Queue[_Part] = queue.Queue()
        """What did not go at once: a child that hangs, or sends an answer that the line does not
        hold, reads nothing."""
        given = self._line, self._unsent
        self._sender = threading.Thread(target=_send_on, args=given, daemon=True)
        self._sender.start()
        # Whatever becomes of this object, the group goes with it, at the latest at exit.
        self._kill = weakref.finalize(self, self._tool.kill)
        weakref.finalize(self, self._unsent.put, None)

    def send(self, request: Any, *, descriptor: int | None = None) -> None:
        """Send a request, with a file descriptor if it needs one, without waiting for the child.

        The descriptor has to stay open until the child has answered. That the child is gone is
        for `receive` to say.
        """
        data = pickle.dumps(request)
        # The thread may have to wait 5 ms for its turn (sys.getswitchinterval).
        idle = not self._unsent.unfinished_tasks and self._writable.poll(0)
        at_once = idle and len(data) <= _AT_ONCE_BYTES
        for part in (data, descriptor) if descriptor is not None else (data,):
            if at_once:
                with contextlib.suppress(OSError):
                    _send(self._line, part)
            else:
                self._unsent.put(part)

    def receive(self, *, deadline: float) -> Any:
        """Wait for the next answer; raises NoAnswerError if there is none.

        `deadline` is on the clock of time.monotonic, in seconds: when it must have begun.
        """
        try:
            # Look once even if the deadline has passed: the answer may have come long ago.
            if not self._readable.poll(1000 * max(0.0, deadline - time.monotonic())):
                self.end()
                raise NoAnswerError(Trouble.HANG, describe_status(None), self.log())
            data = self._line.recv_bytes(_MOST_BYTES)
        except (EOFError, OSError) as error:
            # A part of an answer, too, is all that comes of a process that died meanwhile.
            if not isinstance(error, BlockingIOError) and "length" not in str(error):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(_DYING_SECONDS)
            gone, ending = self.process.poll() is not None, self.end()
            if gone or isinstance(error, EOFError):
                raise NoAnswerError(Trouble.CRASH, ending, self.log()) from error
            raise self._garbage(error) from error
        try:
            return pickle.loads(data)
        except Exception as error:
            self.end()
            raise self._garbage(error) from error

    def _garbage(self, error: Exception) -> NoAnswerError:
        how = f"answered garbage ({type(error).__name__}: {error})"
        return NoAnswerError(Trouble.CORRUPTED_REPLY, how, self.log())

    def fileno(self) -> int:
        """Return the descriptor that can be read when it has answered, or is gone."""
        return self._line.fileno()

    def end(self, grace: float = 0.0) -> str:
        """End the process and its group (`Tool.kill`); return how, as the end of a sentence.

        It may have been ended already.
        """
        if not self._kill.alive:
            # Its number may be another process's by now.
            return describe_status(self.process.returncode)
        gone_before = self.process.poll()
        gone = self._tool.kill(grace)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._unsent.put(None)
        self._sender.join()
        self._line.close()
        self._socket.close()
        if gone:
            self._kill.detach()
        return describe_status(self.process.returncode if gone_before is None else gone_before)

    def log(self) -> str:
        """Return the end of what the process printed."""
        return tail(self._log.fileno())

    def forget_log(self) -> None:
        """Cut off what the process printed so far."""
        os.ftruncate(self._log.fileno(), 0)
        # The process writes where this ends: both have the file open as one.
        os.lseek(self._log.fileno(), 0, os.SEEK_SET)


@contextlib.contextmanager
def process_pool(
    workers: int, begin: Callable[..., None] | None = None, *given: object
) -> Iterator[Executor]:
    """Yield processes that carry out functions of modules; each calls `begin(*given)` first.

    They end with this process, and with an exception that leaves the block; that one of them died
    is an InfrastructureError.
    """
    # Not forked: threads of NumPy and Rich would be cut off in the middle.
    context = multiprocessing.get_context("spawn")
    os.environ.update(ONE_THREAD)  # for those that are started here; NumPy has looked already
    pool = ProcessPoolExecutor(
        workers, mp_context=context, initializer=_begin, initargs=(begin, given)
    )
    done = False
    try:
        yield pool
        done = True
    except BrokenProcessPool as error:
        raise InfrastructureError(
            f"a worker process died ({error}); perhaps memory ran out: ask for fewer of them"
        ) from None
    finally:
        for child in () if done else multiprocessing.active_children():
            child.terminate()
        pool.shutdown(cancel_futures=True)


def _begin(begin: Callable[..., None] | None, given: tuple[object, ...]) -> None:
    # The terminal interrupts all processes at once; the parent alone says what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    assert parent is not None
    keep_memory()

    def end_with_the_parent() -> None:
        # Who waits for its next task waits for ever: each process holds both ends of the queues.
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_the_parent, daemon=True).start()
    if begin is not None:
        begin(*given)
