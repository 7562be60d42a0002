"""Runs the command line as a person does: in a process, with a home of its own."""

import atexit
import gc
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path

from fuzz.campaign import campaign, pool
from fuzz.campaign.store import Triage
from fuzz.cli import main
from runners import processes
from runners.cuda import child
from strategies import instructions

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-c", "from fuzz.cli import main; main()")


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def rows(self):
        """The JSON objects on standard output, where nothing else may be."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def summary(self):
        """The object that ends the output."""
        return self.rows[-1]["summary"]

    @property
    def findings(self):
        return self.summary["findings"]

    @property
    def ids(self):
        return sorted(finding["id"] for finding in self.findings)


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return an environment in which no assembler is found, and nothing of the user is touched."""
    once = os.environ.get("COMPILE_ONCE", "/usr/bin")  # tests/conftest.py
    kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
    return {
        **kept,
        "PATH": f"{once}:/usr/bin:/bin",
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        **more,
    }


def warpfuzz(home: Path, *arguments, stdin=b"", timeout=600, prepare=None, **more) -> Ended:
    """Run a command in `home`; whatever comes of it, no traceback does.

    A campaign has one worker, if it is not told another number.

    Parameters
    ----------
    prepare
        Is called in the command's process before the command: a function of a module.
    more
        Variables of its environment.
    """
    with started(home, *arguments, stdin=stdin, prepare=prepare, **more) as command:
        ended = command.ended(timeout)
    assert "Traceback" not in ended.err + ended.out, ended.err
    return ended


class Started:
    """A command that goes on in a process of its own."""

    def __init__(self, process, folder: Path) -> None:
        self._process, self._folder = process, folder
        self.pid = process.pid

    @property
    def err(self):
        return (self._folder / "stderr").read_text(errors="replace")

    def poll(self):
        """Return its exit code, None while it goes on."""
        return self._process.exitcode

    def send_signal(self, number) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, and wait for its end."""
        self._process.kill()
        self._process.join()

    def ended(self, timeout=600) -> Ended:
        """Wait for its end."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            self.kill()
            raise subprocess.TimeoutExpired("warpfuzz", timeout)
        out = (self._folder / "stdout").read_text(errors="replace")
        return Ended(code=self._process.exitcode, out=out, err=self.err)


@contextmanager
def started(home: Path, *arguments, stdin=b"", prepare=None, **more) -> Iterator[Started]:
    """Start a command in `home` as `warpfuzz` does; it is killed in the end if it still goes on."""
    words = [os.fsdecode(_argument(argument)) for argument in arguments]
    if words[:1] == ["run"] and not {"--workers", "--help"} & set(words):
        words[1:1] = ["--workers", "1"]
    _start_server()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "stdin").write_bytes(stdin)
        process = _SERVER.Process(
            target=_command, args=(home, words, environment(home, **more), Path(folder), prepare)
        )
        process.start()
        try:
            yield Started(process, Path(folder))
        finally:
            process.kill()
            process.join()
            process.close()


_SERVER = multiprocessing.get_context("forkserver")


@cache
def _start_server() -> None:
    """Start the process whose children are commands; it has done already what takes them long."""
    _SERVER.set_forkserver_preload(["warm_command"])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(
        map(str, (ROOT, Path(__file__).parent, Path(__file__).parent / "checks"))
    )
    try:
        forkserver.ensure_running()
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


def _command(home: Path, words: list[str], env: dict[str, str], folder: Path, prepare) -> None:
    """Be the command, in a process that has imported it already: a start takes 2 s else."""
    os.chdir(home)
    sys.argv = ["-c", *words]
    os.environ.clear()
    os.environ.update(env)
    sys.path[:0] = env["PYTHONPATH"].split(os.pathsep)
    flags = (os.O_RDONLY, os.O_CREAT | os.O_WRONLY, os.O_CREAT | os.O_WRONLY)
    for number, (name, flag) in enumerate(zip(("stdin", "stdout", "stderr"), flags, strict=True)):
        os.dup2(os.open(folder / name, flag), number)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout, sys.stderr = (
        os.fdopen(number, "w", encoding="utf-8", closefd=False) for number in (1, 2)
    )
    # Whoever runs the tests in the background lets them ignore it, and their children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = 1
    processes.Tool, processes.multiprocessing = fast_tool, _Multiprocessing
    os.fsync = lambda descriptor: None
    # Seconds by the clock, of which a busy machine gives a core few.
    campaign.SHRINK_SECONDS = 600.0
    try:
        if prepare is not None:
            prepare()
        main(words)
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stderr.flush()
        os._exit(code)


class _Worker:
    """A worker of a campaign, in a process that has imported it already: a start takes 1 s else.

    It has what `runners.processes.SupervisedChild` needs of a `Tool`, and of its process.
    """

    def __init__(self, command, *, file_bytes, environment, stdout, stderr, pass_fds):
        self.returncode, self.process = None, self
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setpgid(0, 0)
                self._serve(command, stdout, environment, pass_fds)
            finally:
                os._exit(1)
        with suppress(OSError):
            os.setpgid(self.pid, self.pid)
        processes._reaper.tell(f"+{self.pid}")

    @staticmethod
    def _serve(command, stdout, env, kept):
        # What the campaign holds is not for the worker, and is not closed a second time.
        gc.freeze()
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(stdout.fileno(), 1)
        os.dup2(1, 2)
        for number in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
            if number > 2 and number not in kept:
                # The listing itself was open, too.
                with suppress(OSError):
                    os.close(number)
        os.environ.clear()
        os.environ.update(env)
        at = command.index("fuzz.campaign.pool")
        code = 1
        try:
            pool.main(command[at + 1 :])
            code = 0
        except SystemExit as end:
            code = end.code
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def poll(self):
        return self._reap(os.WNOHANG)

    def wait(self, timeout=None):
        if timeout is None:
            return self._reap(0)
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("worker", timeout)
            time.sleep(0.005)
        return self.returncode

    def _reap(self, options):
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def terminate(self):
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)

    def kill(self, grace=0.0):
        with suppress(subprocess.TimeoutExpired):
            self.terminate()
            self.wait(grace)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()
        processes._reaper.tell(f"-{self.pid}")
        return True


class CudaChild:
    """A child of the runner `cuda`, in a process that has imported it already: 0.25 s else.

    It has what `runners.processes.SupervisedChild` needs of a `Tool`, and of its process.
    """

    def __init__(self, command, *, file_bytes, environment, stdout, stderr, pass_fds):
        self.returncode, self.process, env = None, self, environment
        self._arguments = command[command.index("runners.cuda.child") + 1 :]
        _start_server()
        kept = [Connection(os.dup(number)) for number in (*pass_fds, stdout.fileno())]
        leads, tells = _SERVER.Pipe(duplex=False)
        self._process = _SERVER.Process(
            target=_serve_cuda, args=(*kept, tells, self._arguments, env), daemon=True
        )
        self._process.start()
        self.pid = self._process.pid
        for one in (*kept, tells):
            one.close()
        with leads:
            leads.recv()

    def poll(self):
        if self.returncode is None:
            self.returncode = self._process.exitcode
        return self.returncode

    def wait(self, timeout=None):
        if self.poll() is None:
            self._process.join(timeout)
        if self.poll() is None:
            raise subprocess.TimeoutExpired("child", timeout)
        return self.returncode

    def kill(self, grace=0.0):
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        return self.wait(10.0) is not None


def fast_tool(command, **options):
    """Be `runners.processes.Tool`, fast for what warpfuzz itself starts again and again."""
    made = {"fuzz.campaign.pool": _Worker}
    if multiprocessing.parent_process() is None:
        # The server of processes is this process's.
        made["runners.cuda.child"] = CudaChild
    return next((made[name] for name in made if name in command), _TOOL)(command, **options)


_TOOL = processes.Tool


def _serve_cuda(line, log, tells, arguments, env):
    """Be a child of the runner, in a session of its own."""
    os.setsid()
    tells.send("leads its group")
    tells.close()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number in (1, 2):
        os.dup2(log.fileno(), number)
    os.environ.clear()
    os.environ.update(env)
    sys.path[:0] = env["PYTHONPATH"].split(os.pathsep)
    words = [str(os.dup(line.fileno())), arguments[1]]
    sys.argv = ["-m", *words]
    code = 1
    try:
        child.main(words)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


class _Multiprocessing:
    """What a pool needs of `multiprocessing`: processes that have imported it already."""

    parent_process = staticmethod(multiprocessing.parent_process)
    active_children = staticmethod(multiprocessing.active_children)

    @staticmethod
    def get_context(name):
        return _SERVER


def draw_little() -> None:
    """Have rounds of instructions a sixth of what they hold (`prepare`), for small campaigns."""
    for name in ("_LEGAL", "_NEIGHBOURHOODS", "_NEAR", "_DAMAGED", "_SOUP"):
        setattr(instructions, name, getattr(instructions, name) // 6)


def leave_as_found() -> None:
    """The same; and shrink no finding, which takes most of a small campaign's time."""
    draw_little()
    Triage._shrinks = lambda triage, member: False


def _argument(argument):
    return argument if isinstance(argument, bytes) else str(argument)
