"""Standard output that is closed, or cannot take any more."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from command_line import COMMAND, environment

NO_DEVICE = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
FULL = "no space is left"


@pytest.mark.parametrize(
    ("redirection", "code", "said", "arguments"),
    [
        (">&-", 0, "", ("explain", "x")),
        (">&- 2>&-", 0, "", ("explain", "x")),
        ("<&-", 0, "", ("legal", "-")),
        pytest.param(">/dev/full 2>&1", 2, "", ("legal", "missing"), marks=NO_DEVICE),
        pytest.param(">/dev/full", 3, FULL, ("isa", "--json"), marks=NO_DEVICE),
        pytest.param(">/dev/full", 3, FULL, ("--help",), marks=NO_DEVICE),
    ],
)
def test_a_stream_that_takes_nothing_ends_no_command_with_a_traceback(
    tmp_path: Path, redirection: str, code: int, said: str, arguments: tuple[str, ...]
) -> None:
    shell = ["sh", "-c", f'exec "$0" "$@" {redirection}', *COMMAND, *arguments]
    done = subprocess.run(
        shell, cwd=tmp_path, env=environment(tmp_path), stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, check=False, timeout=600, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (code, bool(said))
    assert said in done.stderr


def test_what_cannot_be_imported_any_more_is_not_needed_to_say_so(tmp_path: Path) -> None:
    """With `ulimit -v 150000` there were three tracebacks (2026-11-24)."""
    script = """import sys
from fuzz import cli
sys.modules["fuzz.output"] = sys.modules["fuzz.commands.reference"] = None
raised = [MemoryError(), SystemError("no exception"), ImportError("x.so: failed to map segment"),
          ValueError(7)]
def ends(*_): raise raised.pop(0)
cli.import_module = ends
while raised:
    print(cli._exit_code(["isa"]))"""
    done = subprocess.run(
        [*COMMAND[:2], script], cwd=tmp_path, env=environment(tmp_path), check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.split() == ["3"] * 4
    *memory, fault = done.stderr.splitlines()
    assert all("more memory is needed" in line for line in memory)
    assert "this is a fault" in fault
