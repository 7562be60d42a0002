"""A set is read as it was written, and nothing else is taken for one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

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
        for name in ("entry", "program", "recipe", "count", "module"):
            assert getattr(one, name) == getattr(other, name)


@pytest.mark.parametrize("cut", [0, 1, 1000, -1])
def test_what_is_cut_short_or_something_else_is_refused(file: Path, cut: int) -> None:
    damaged = file.with_name("damaged.set")
    damaged.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(UsageError, match="no screening set of this version"):
        read_set(damaged)
    with pytest.raises(UsageError, match="cannot be read"):
        read_set(file.with_name("nowhere.set"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("count", 0), ("count", -1), ("count", 1 << 40), ("count", "1"),
        ("recipe", {"classes": [], "seed": 1}),
        ("recipe", {"classes": ["bits"], "seed": -1}), ("recipe", {"classes": ["?"], "seed": 1}),
        ("entry", "k(){}"), ("entry", "\x1b]0;x"), ("program", "["), ("program", [[]]),
        ("program", {"format": 9}),
    ],
)  # fmt: skip
def test_what_somebody_made_is_checked(file: Path, field: str, value: object) -> None:
    stored = msgspec.json.decode(file.read_bytes())
    stored["rows"][0][field] = value
    changed = file.with_name("made.set")
    changed.write_bytes(msgspec.json.encode(stored))
    with pytest.raises(UsageError, match=r"made\.set") as raised:
        read_set(changed)
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize("copies", [0, 2])
def test_a_set_has_programs_and_each_once(
    small_set: ScreeningSet, tmp_path: Path, copies: int
) -> None:
    write_set(tmp_path / "odd.set", replace(small_set, programs=small_set.programs[:1] * copies))
    with pytest.raises(UsageError, match="it has no programs, or two of one name"):
        read_set(tmp_path / "odd.set")
