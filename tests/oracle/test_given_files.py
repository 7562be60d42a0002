"""Files that a user names: read below a bound and never waited for, or refused by name."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from oracle.errors import UsageError
from oracle.given_files import TOML_BYTES, parse_toml, read_given, reason_of
from oracle.models.files import read_model


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize("put", [os.mkfifo, endless, sparse, Path.mkdir])
def test_what_is_no_file_of_bounded_size_is_refused_at_once(
    put: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "model.toml"
    put(path)
    with pytest.raises(UsageError, match=r"model\.toml cannot be read: it is"):
        read_model(path)


def test_a_pipe_without_a_name_is_read_to_its_end() -> None:
    end, start = os.pipe()
    os.write(start, b"wmma")
    os.close(start)
    try:
        assert read_given(Path(f"/dev/fd/{end}")) == b"wmma"
    finally:
        os.close(end)


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file") as raised:
        read_given(tmp_path / "nothing")
    assert reason_of(raised.value) == "No such file or directory"


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 100_000, "a = " + "{b=" * 100_000, "a = " + "9" * 6000, "a" + ".a" * 200_000,
        "[" + "a." * 200_000 + "a]", "'a'" + ".'a'" * 100_000 + " = 1", "\x00", "a = \xff",
    ],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_toml_that_no_person_writes_is_refused_soon(text: str) -> None:
    started = time.thread_time()
    with pytest.raises(UsageError, match=r"here\.toml is not TOML") as raised:
        parse_toml(text.encode("latin-1")[:TOML_BYTES], "here.toml")
    assert time.thread_time() - started < 5
    assert len(str(raised.value)) < 500


def test_a_mark_of_the_byte_order_is_no_part_of_a_file() -> None:
    """Editors of Windows write one."""
    assert parse_toml("a = 1\r\n".encode("utf-8-sig"), "here.toml") == {"a": 1}
