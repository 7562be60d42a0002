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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fuzz.campaign import campaign, crew, worker
from fuzz.cli import main

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
    kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
    return {
        **kept,
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        **more,
    }


def warpfuzz(home: Path, *arguments, stdin=b"", timeout=600, **more) -> Ended:
    """Run a command in `home`; whatever comes of it, no traceback does.

    A campaign has one worker, if it is not told another number. An environment that is not the
    usual one takes a new interpreter, but for the width of the terminal.
    """
    words = [os.fsdecode(_argument(argument)) for argument in arguments]
    if words[:1] == ["run"] and not {"--workers", "--help"} & set(words):
        words[1:1] = ["--workers", "1"]
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder, name) for name in ("stdin", "stdout", "stderr")]
        streams[0].write_bytes(stdin)
        run = _in_new_interpreter if more.keys() - {"COLUMNS"} else _in_server
        code = run(home, words, environment(home, **more), streams, timeout)
        out, err = (path.read_text(errors="replace") for path in streams[1:])
    assert "Traceback" not in err + out, err
    return Ended(code=code, out=out, err=err)


def _in_new_interpreter(home, words, env, streams, timeout):
    with streams[0].open("rb") as given, streams[1].open("wb") as out, streams[2].open("wb") as err:
        return subprocess.run(
            [*COMMAND, *words], cwd=home, env=env, stdin=given, stdout=out, stderr=err,
            timeout=timeout, check=False,
        ).returncode  # fmt: skip


def _in_server(home, words, env, streams, timeout):
    process = _SERVER.Process(target=_command, args=(home, words, env, streams))
    process.start()
    process.join(timeout)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise subprocess.TimeoutExpired(words, timeout)
    code = process.exitcode
    process.close()
    return code


_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    [
        "fuzz.commands.run",
        "fuzz.checks.compilers",
        "fuzz.checks.instructions",
        "fuzz.checks.undefined",
        "fuzz.console.view",
        "runners.simulated_runner",
    ]
)


def _command(home: Path, words: list[str], env: dict[str, str], streams: list[Path]) -> None:
    """Be the command, in a process that has imported it already: a start takes 2 s else."""
    os.chdir(home)
    sys.argv = ["-c", *words]
    os.environ.clear()
    os.environ.update(env)
    flags = (os.O_RDONLY, os.O_CREAT | os.O_WRONLY, os.O_CREAT | os.O_WRONLY)
    for number, (path, flag) in enumerate(zip(streams, flags, strict=True)):
        os.dup2(os.open(path, flag), number)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout, sys.stderr = (
        os.fdopen(number, "w", encoding="utf-8", closefd=False) for number in (1, 2)
    )
    code = 1
    crew.subprocess = _Subprocess
    os.fsync = lambda descriptor: None
    # Seconds by the clock, of which a busy machine gives a core few.
    campaign.SHRINK_SECONDS = 600.0
    try:
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

    It has what the campaign needs of `subprocess.Popen`.
    """

    def __init__(self, command, *, stdin, stdout, stderr, env, pass_fds):
        self.returncode = None
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._serve(command, stdout, env, pass_fds)
            finally:
                os._exit(1)

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
        at = command.index("fuzz.campaign.worker")
        code = 1
        try:
            worker.main(command[at + 1 :])
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
        self._tell(signal.SIGTERM)

    def kill(self):
        self._tell(signal.SIGKILL)

    def _tell(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)


class _Subprocess:
    """What a campaign needs of `subprocess`."""

    DEVNULL, STDOUT = subprocess.DEVNULL, subprocess.STDOUT
    TimeoutExpired = subprocess.TimeoutExpired
    Popen = _Worker


def _argument(argument):
    return argument if isinstance(argument, bytes) else str(argument)
