"""Disks and corpora that are not as they should be: what a campaign says of them, and keeps."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest
from command_line import leave_as_found, warpfuzz
from running_campaigns import CORPUS, fill_disk, without_capabilities

RUN = ("run", "--runner", "sim", "--workers", "1", "--only", "wmma*m8n8k32*u4*", "--json")
FAULT = ("--fault", "accumulator-ignored", "--seed", "5", "--cases", "32")


def families(home: Path) -> list[tuple[str, int]]:
    listed = warpfuzz(home, "corpus", "list", CORPUS, "--json")
    assert listed.code == 0, listed.err
    return [(row["family"], row["members"]) for row in listed.rows]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with the corpus of a campaign that nothing happened to."""
    home = tmp_path_factory.mktemp("whole")
    assert warpfuzz(home, *RUN, *FAULT, prepare=leave_as_found).code == 1
    return home


@pytest.fixture
def found(whole: Path, tmp_path: Path) -> Path:
    """Return a home of one's own with a copy of it."""
    shutil.copytree(whole / CORPUS, tmp_path / CORPUS)
    return tmp_path


@pytest.mark.parametrize(
    "folder", [pytest.param("**", marks=pytest.mark.slow), "campaign", "findings"]
)
def test_a_read_only_corpus_is_said_by_name_and_left_as_it_is(found: Path, folder: str) -> None:
    corpus = found / CORPUS
    before = {
        path: path.read_bytes() for path in corpus.rglob("*.json") if "campaign" not in str(path)
    }
    # Another fault has another finding, which has to be stored.
    options = ("--fault", "store-one-row-off", "--seed", "6", "--cases", "32", "--new")
    folders = [path for path in corpus.glob(folder) if path.is_dir()]
    for path in folders:
        path.chmod(0o555)
    try:
        refused = warpfuzz(found, *RUN, *options, prepare=without_capabilities)
    finally:
        for path in folders:
            path.chmod(0o755)
    assert refused.code == 3
    said = " ".join(refused.err.split())
    assert "permission denied; change its permissions, or name another folder" in said
    assert CORPUS in said
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(
    "room",
    [
        pytest.param(0, marks=pytest.mark.slow),
        pytest.param(3_000, marks=pytest.mark.slow),
        15_000,
        pytest.param(40_000, marks=pytest.mark.slow),
    ],
)
def test_a_full_disk_ends_a_campaign_with_a_sentence_and_a_resumption_finds_everything(
    tmp_path: Path, whole: Path, room: int
) -> None:
    full = warpfuzz(tmp_path, *RUN, *FAULT, prepare=partial(fill_disk, room))
    assert full.code == 3
    assert "is full; free some space" in " ".join(full.err.split())
    resumed = warpfuzz(tmp_path, *RUN, *FAULT, "--resume", prepare=leave_as_found)
    assert resumed.code == 1, resumed.err
    assert resumed.summary["cases"] == 32
    assert families(tmp_path) == families(whole) != []


def test_broken_and_half_written_entries_do_not_stop_a_campaign(found: Path) -> None:
    before = families(found)
    folders = sorted((found / CORPUS / "findings").iterdir())
    (folders[0] / "finding.json").write_bytes(b'{"schema":')
    half = found / CORPUS / "findings" / ("0" * 16)
    half.mkdir()
    (half / "module.ptx").write_text("//")
    listed = warpfuzz(found, "corpus", "list", CORPUS)
    assert listed.code == 3
    assert "0" * 16 in " ".join(listed.err.split())
    again = warpfuzz(found, *RUN, *FAULT, "--new", prepare=leave_as_found)
    assert again.code == 1, again.err
    shutil.rmtree(half)
    assert families(found) == before
