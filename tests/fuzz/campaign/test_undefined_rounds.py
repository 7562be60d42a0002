"""The same seed gives the same cases, findings and counts, by any workers, at once or in parts.

Undefined programs are run apart and counted; nothing else notices them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Ended, leave_as_found, warpfuzz

FAULT = ("--seed", 14, "--fault", "store-one-row-off", "--only", "wmma*m8n8k32*u4*")
CASES = 80
"""A round and a bit: undefined programs follow the first."""


def ran(home: Path, *options: object) -> Ended:
    ended = warpfuzz(home, "run", "--runner", "sim", *FAULT, *options, prepare=leave_as_found)
    assert ended.code == 1, ended.err
    return ended


def judged(summary: dict[str, Any]) -> tuple[object, ...]:
    found = {(one["family"], one["cases"], one["kind"]) for one in summary["findings"]}
    kept = ("cases", "compared", "not_asked", "programs", "forms", "verdicts", "rounds")
    return found, *(summary[name] for name in kept)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("with")


@pytest.fixture(scope="module")
def included(home: Path) -> dict[str, Any]:
    ended = ran(home, "--include-undefined", "--json", "--cases", CASES, "--workers", 1)
    summary: dict[str, Any] = ended.summary
    return summary


def test_they_are_counted_by_reason_and_outcome_and_traps_do_not_end_the_campaign(
    home: Path, included: dict[str, Any]
) -> None:
    counts = included["undefined"]
    assert sum(sum(outcomes.values()) for outcomes in counts.values()) == 8
    assert {outcome for outcomes in counts.values() for outcome in outcomes} >= {"ran", "trap"}
    # Multiples of 4 bytes run, on an H200 as well (2026-11-21); others trap.
    assert counts["address not aligned"]["trap"]
    assert set(counts["address not aligned"]) <= {"ran", "trap"}
    assert (included["cases"], included["stopped"]) == (CASES, "budget spent")
    kept = home / "warpfuzz-corpus" / "campaign"
    assert json.loads((kept / "state.json").read_text())["counts"]["undefined"] == counts
    last = (kept / "statistics.jsonl").read_text().splitlines()[-1]
    assert json.loads(last)["undefined"] == counts


def test_without_them_cases_and_findings_are_the_same(
    tmp_path: Path, included: dict[str, Any]
) -> None:
    without = ran(tmp_path, "--json", "--cases", CASES, "--workers", 1).summary
    assert "undefined" not in without
    assert judged(without) == judged(included)


def test_neither_the_number_of_workers_nor_a_resumption_changes_what_is_counted_and_found(
    tmp_path: Path, included: dict[str, Any]
) -> None:
    options = ("--include-undefined", "--json", "--workers", 2)
    # Ended in the middle of a program.
    ran(tmp_path, *options, "--cases", 43)
    there = ran(tmp_path, *options, "--cases", CASES, "--resume").summary
    assert there["undefined"] == included["undefined"]
    assert judged(there) == judged(included)
