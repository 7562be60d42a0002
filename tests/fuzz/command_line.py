"""Runs the command line as a person does: in a process, with a home of its own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

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
    """Run a command in `home`; whatever comes of it, no traceback does."""
    ended = subprocess.run(
        [*COMMAND, *map(os.fsdecode, map(_argument, arguments))],
        cwd=home,
        env=environment(home, **more),
        input=stdin,
        capture_output=True,
        timeout=timeout,
        check=False,
    )
    result = Ended(
        code=ended.returncode,
        out=ended.stdout.decode(errors="replace"),
        err=ended.stderr.decode(errors="replace"),
    )
    assert "Traceback" not in result.err + result.out, result.err
    assert "internal error" not in result.err, result.err
    return result


def _argument(argument):
    return argument if isinstance(argument, bytes) else str(argument)
