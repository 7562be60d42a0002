"""Standard output that is closed, or cannot take any more."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from command_line import COMMAND, environment


def ended(home: Path, redirection: str, *arguments: str) -> tuple[int, str]:
    shell = ["sh", "-c", f'exec "$0" "$@" {redirection}', *COMMAND, *arguments]
    done = subprocess.run(
        shell, cwd=home, env=environment(home), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        check=False, timeout=600, text=True,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("redirection", "arguments"),
    [
        (">&-", ("isa", "--json")), (">&-", ("explain", "x")), (">&-", ("doctor",)),
        (">&- 2>&-", ("isa", "--json")), ("<&- >&-", ("isa",)), ("<&-", ("legal", "-")),
    ],
)  # fmt: skip
def test_a_closed_stream_takes_what_is_written(
    tmp_path: Path, redirection: str, arguments: tuple[str, ...]
) -> None:
    assert ended(tmp_path, redirection, *arguments) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
@pytest.mark.parametrize(
    ("redirection", "code", "arguments"),
    [("2>/dev/full", 2, ("run", "--runner", "nonsense")),
     (">/dev/full 2>&1", 2, ("corpus", "list", "missing")),
     ("2>/dev/full", 3, ("run", "--fleet", "127.0.0.1:1"))],
)  # fmt: skip
def test_an_error_that_cannot_be_said_has_its_code(
    tmp_path: Path, redirection: str, code: int, arguments: tuple[str, ...]
) -> None:
    assert ended(tmp_path, redirection, *arguments) == (code, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
@pytest.mark.parametrize(
    "arguments",
    [("isa", "--json"), ("--help",), ("replay", "record", "--runner", "sim", "--times", "1"),
     ("corpus", "list", "record")],
    ids=" ".join,
)  # fmt: skip
def test_a_full_disk_is_said(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    code, err = ended(tmp_path, ">/dev/full", *arguments)
    assert code == 3
    assert err.count("\n") == 1
    assert "no space is left" in err


@pytest.mark.parametrize(
    ("raised", "said"),
    [("MemoryError()", "more memory is needed"), ("SystemError('no exception')", "more memory"),
     ("ImportError('x.so: failed to map segment')", "more memory"), ("ValueError(7)", "fault")],
)  # fmt: skip
def test_what_cannot_be_imported_any_more_is_not_needed_to_say_so(
    tmp_path: Path, raised: str, said: str
) -> None:
    """With `ulimit -v 150000` there were three tracebacks (2026-11-24)."""
    script = f"""import sys
from fuzz import cli
sys.modules["fuzz.output"] = sys.modules["fuzz.commands.reference"] = None
def ends(*_): raise {raised}
cli.import_module = ends
cli.main(["isa"])"""
    done = subprocess.run(
        [*COMMAND[:2], script], cwd=tmp_path, env=environment(tmp_path), check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert said in done.stderr
