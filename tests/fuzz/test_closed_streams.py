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
        (">&- 2>&-", ("isa", "--json")), ("<&- >&-", ("isa",)),
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
