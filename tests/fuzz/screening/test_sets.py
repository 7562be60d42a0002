"""A set is read as it was written, and nothing else is taken for one."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.screening.sets import ScreeningSet, read_set, write_set
from oracle.errors import UsageError


@pytest.fixture(scope="module")
def file(small_set: ScreeningSet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small set in a file."""
    path = tmp_path_factory.mktemp("set") / "small.set"
    write_set(path, small_set)
    return path


def test_a_set_is_read_as_it_was_written(small_set: ScreeningSet, file: Path) -> None:
    read = read_set(file)
    assert read.description == small_set.description
    assert read.images == small_set.images
    for one, other in zip(read.programs, small_set.programs, strict=True):
        assert (one.entry, one.program) == (other.entry, other.program)
        assert np.array_equal(one.references.images, other.references.images)
        assert np.array_equal(one.references.expected, other.references.expected)


@given(data=st.data())
@settings(deadline=None, max_examples=20)
def test_a_damaged_byte_is_refused_wherever_it_is(file: Path, data: st.DataObject) -> None:
    contents = bytearray(file.read_bytes())
    place = data.draw(st.integers(0, len(contents) - 1))
    contents[place] ^= data.draw(st.integers(1, 255))
    damaged = file.with_name("damaged.set")
    damaged.write_bytes(contents)
    with pytest.raises(UsageError, match=r"damaged|no screening set|another version"):
        read_set(damaged)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("images", b""), ("images", b"0"), ("images", 3), ("expected", b""),
        ("entry", "k(){}"), ("entry", "\x1b]0;x"), ("program", b"["), ("program", b"[" * 100_000),
    ],
)  # fmt: skip
def test_what_somebody_made_with_the_hash_that_it_needs_is_checked(
    file: Path, field: str, value: object
) -> None:
    changed = file.with_name("made.set")
    changed.write_bytes(made_anew(file.read_bytes(), field, value))
    with pytest.raises(UsageError, match=r"made\.set") as raised:
        read_set(changed)
    assert len(str(raised.value)) < 1000


def made_anew(contents: bytes, field: str, value: object) -> bytes:
    """A set with another value in its first row, and the hash of that."""
    start = contents.index(b"\n") + 1
    stored = msgspec.msgpack.decode(contents[start + 32 :])
    stored["rows"][0][field] = value
    data = msgspec.msgpack.encode(stored)
    return contents[:start] + hashlib.sha256(data).digest() + data


@pytest.mark.parametrize("copies", [0, 2])
def test_a_set_has_programs_and_each_once(
    small_set: ScreeningSet, tmp_path: Path, copies: int
) -> None:
    write_set(tmp_path / "odd.set", replace(small_set, programs=small_set.programs[:1] * copies))
    with pytest.raises(UsageError, match="it has no programs, or two of one name"):
        read_set(tmp_path / "odd.set")
