"""The same seed gives the same cases and findings, whoever runs them, at once or bit by bit."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import warpfuzz

FAULT = ("--seed", 11, "--fault", "store-one-row-off", "--only", "*m8n8k4*")


def outcome(home: Path, *options: object) -> tuple[object, ...]:
    ran = warpfuzz(home, "run", "--runner", "sim", "--json", *FAULT, *options)
    assert ran.code == 1
    summary = ran.summary
    found = {(one["family"], one["cases"], one["kind"]) for one in ran.findings}
    kept = ("cases", "compared", "not_asked", "programs", "forms", "verdicts")
    return found, *(summary[name] for name in kept)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    return outcome(tmp_path_factory.mktemp("alone"), "--cases", 200, "--workers", 1)


def test_the_number_of_workers_changes_nothing(tmp_path: Path, alone: tuple[object, ...]) -> None:
    assert outcome(tmp_path, "--cases", 200, "--workers", 2) == alone
    assert alone[1] == 200


def test_ended_in_the_middle_of_a_program_and_resumed_changes_nothing(
    tmp_path: Path, alone: tuple[object, ...]
) -> None:
    outcome(tmp_path, "--cases", 67, "--workers", 2)
    assert outcome(tmp_path, "--cases", 200, "--workers", 2, "--resume") == alone
