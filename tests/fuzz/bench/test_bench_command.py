"""`warpfuzz bench`: finds what is planted, says what it did not find, and speaks JSON."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import warpfuzz

from runners.faults import CATALOGUE

QUICK = ("--seeds", 2, "--jobs", 1, "--limit", 160, "--baseline-limit", 16, "--json")


def test_a_planted_fault_is_found_and_counted(tmp_path: Path) -> None:
    ended = warpfuzz(tmp_path, "bench", "--only", "store-offset", *QUICK)
    assert ended.code == 0, ended.err
    row, summary = ended.rows[0], ended.summary
    assert {"cases", "seconds", "seed", "faults"} <= summary.keys()
    (fault,) = summary["faults"]
    assert fault["name"] == "store-offset"
    assert fault["found"] is True
    assert 1 <= fault["cases"] <= 160
    assert fault["seconds"] > 0
    assert row["found_in"] == row["seeds"] == 2
    assert set(row["baselines"]) == {"uniform", "normal"}
    assert summary["median"] == fault["cases"]


def test_a_fault_that_is_not_found_is_said_with_exit_code_1(tmp_path: Path) -> None:
    # The first image of all is hardly ever one of the one in 20,000 that this fault changes.
    limits = ("--seeds", 3, "--jobs", 1, "--limit", 1, "--json")
    ended = warpfuzz(tmp_path, "bench", "--only", "transient-rare", *limits)
    assert ended.code == 1, ended.err
    (fault,) = ended.summary["faults"]
    assert fault == {"name": "transient-rare", "found": False, "cases": None, "seconds": None}
    assert ended.summary["missed"] == ["transient-rare"]
    assert ended.summary["cases"] == 9


def test_what_no_program_can_show_is_listed_with_the_reason_and_not_missed(tmp_path: Path) -> None:
    where = ("--target", "sm_90", "--ptx-version", "8.0")
    ended = warpfuzz(tmp_path, "bench", "--only", "one-multi*-in-million", *where, *QUICK)
    assert ended.code == 0, ended.err
    row = ended.rows[0]
    assert row["observable"] is False
    assert "too rare" in row["reason"]
    assert ended.summary["missed"] == []
    assert ended.summary["cases"] == 0


@pytest.mark.parametrize(("only", "given", "told"), [
    ("group-*", (), "programs of sm_120a with PTX ISA 9.1 can show no fault like 'group-*'; those "
     "of sm_90a can, so add --target sm_90a"),
    ("b6-as-b4", ("--target", "sm_90", "--ptx-version", "8.0"), "so give another --ptx-version"),
])  # fmt: skip
def test_faults_that_no_program_of_a_target_shows_are_refused_with_the_targets_that_do(
    tmp_path: Path, only: str, given: tuple[str, ...], told: str
) -> None:
    ended = warpfuzz(tmp_path, "bench", "--only", only, *given, "--seeds", 1, "--limit", 1)
    assert ended.code == 2
    assert told in ended.err


@pytest.mark.slow
def test_the_same_seed_gives_the_same_cases_on_one_process_and_on_two(tmp_path: Path) -> None:
    options = ("bench", "--only", "f64-ties*", "--seed", 7, "--limit", 40, "--seeds", 2, "--json")
    alone = warpfuzz(tmp_path, *options, "--jobs", 1)
    together = warpfuzz(tmp_path, *options, "--jobs", 2)
    assert alone.code == together.code
    for one, other in zip(alone.rows[:-1], together.rows[:-1], strict=True):
        for row in (one, other, *one["baselines"].values(), *other["baselines"].values()):
            del row["seconds"]
        assert one == other


def test_all_faults_are_listed(tmp_path: Path) -> None:
    rows = warpfuzz(tmp_path, "bench", "--list", "--json").rows
    assert [row["name"] for row in rows] == [fault.name for fault in CATALOGUE]
    few = warpfuzz(tmp_path, "bench", "--list", "--only", "f64-*")
    assert "f64-not-fused" in few.out
    assert warpfuzz(tmp_path, "bench", "--list", "--only", "nonsense").code == 2


def test_a_campaign_with_a_planted_fault_ends_with_one_line_that_names_the_culprit(
    tmp_path: Path,
) -> None:
    options = ("--lines", "--images", 64, "--jobs", 1, "--target", "sm_90", "--json")
    ended = warpfuzz(tmp_path, "bench", "--only", "store-missing", *options)
    assert ended.code == 0, ended.err
    (row,) = ended.summary["faults"]
    assert (row["lines"], row["named"], row["known"], row["flaky"]) == (1, True, 0, 0)
    assert "wmma.store" in row["titles"][0]
