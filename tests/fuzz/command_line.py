"""Runs the command line as a person does: in a process, with a home of its own."""

import atexit
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

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


def warpfuzz(home: Path, *arguments, stdin=b"", timeout=120, **more) -> Ended:
    """Run a command in `home`; whatever comes of it, no traceback does.

    A campaign has one worker, if it is not told another number. An environment that is not the
    usual one takes a new interpreter.
    """
    words = [os.fsdecode(_argument(argument)) for argument in arguments]
    if words[:1] == ["run"] and not {"--workers", "--help"} & set(words):
        words[1:1] = ["--workers", "1"]
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder, name) for name in ("stdin", "stdout", "stderr")]
        streams[0].write_bytes(stdin)
        run = _in_new_interpreter if more else _in_server
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
_SERVER.set_forkserver_preload(["fuzz.commands.run", "fuzz.console.view", "hypothesis"])


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


def _argument(argument):
    return argument if isinstance(argument, bytes) else str(argument)
