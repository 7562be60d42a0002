"""Compilers with a bug that one option brings out: found, named, replayed and dated with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from answering import address
from command_line import Ended, warpfuzz
from planted_ptxas import planted_ptxas

FAULT, OPTION = "store-layout-flipped", "maxrregcount=32"
FORM = "wmma.mma*row.col.m16n16k16.f32.f32"
ONLY = ("--opt", "2", "--cases", 6, "--seed", 5, "--workers", 1, "--only", FORM, "--json")


def plant(folder: Path, number: int, *faults: str, **others: str) -> None:
    planted_ptxas(folder / f"{number}", f"{number}.0", faults, answering=address(), **others)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with three versions, of which two have the bug with the option alone."""
    home = tmp_path_factory.mktemp("home")
    for number in (1, 2, 3):
        plant(home / "c", number, *([FAULT] if number > 1 else []), only_with=f"--{OPTION}")
    return home


@pytest.fixture(scope="module")
def campaign(home: Path) -> Ended:
    return warpfuzz(
        home, "run", "--runner", "sim", "--compilers", "c", "--variant", OPTION, "--corpus",
        "found", *ONLY,
    )  # fmt: skip


def one(campaign: Ended) -> dict[str, Any]:
    return next(row for row in campaign.findings if "wmma.store" in row["family"])


def test_the_family_names_the_compilers_with_the_option(campaign: Ended) -> None:
    assert campaign.code == 1, campaign.err
    versions = [f"V{number}.0.0" for number in (1, 2, 3)]
    assert campaign.summary["members"] == [
        f"{version}{option} -O2" for option in ("", f"+{OPTION}") for version in versions
    ]
    who = f"only V2.0.0+{OPTION} to V3.0.0+{OPTION} -O2"
    assert one(campaign)["compilers"] == who
    assert {row["compilers"] for row in campaign.findings} == {who}


@pytest.mark.slow
def test_replay_and_bisect_compile_with_the_option_of_the_finding(
    home: Path, campaign: Ended
) -> None:
    path = one(campaign)["path"]
    finding = json.loads((home / path / "finding.json").read_text())
    assert finding["details"]["assembler"].endswith(f"+{OPTION}")
    asked = [
        ((), "reproduced"),
        (("--assembler", "c/3/ptxas"), "reproduced"),
        (("--assembler", "c/1/ptxas"), "gone"),
        (("--variant", "none"), "gone"),
        (("--variant", "maxrregcount=64"), "gone"),
        (("--assembler", f"c/3/ptxas+{OPTION}", "--variant", "none"), "gone"),
    ]
    for options, verdict in asked:
        ended = warpfuzz(home, "replay", path, "--trust", *options, "--json")
        assert ended.rows[0]["verdict"] == verdict, options
    for options, first in (((), "V2.0.0"), (("--variant", "none"), None)):
        ended = warpfuzz(home, "bisect", path, "--compilers", "c", "--opt", "2", *options, "--json")
        told = ended.rows[0]["bisect"]["first"]
        assert (told and told["version"]) == (first and f"{first}+{OPTION}")


def test_a_bisection_says_on_how_many_executions_each_verdict_rests(
    home: Path, campaign: Ended
) -> None:
    said = warpfuzz(
        home, "bisect", one(campaign)["path"], "--compilers", "c/1,c/2", "--opt", "2", "--times", 4
    ).out
    assert f"ptxas 1.0.0+{OPTION} match (0/8 failed) " in said
    assert "ran at least 8 times without a failure. One that fails in 31.23%" in said


def test_the_folder_without_warpfuzz_compiles_with_the_option(home: Path, campaign: Ended) -> None:
    ended = warpfuzz(home, "repro", one(campaign)["path"], "--output", "out")
    assert ended.code == 0, ended.err
    assert json.loads((home / "out" / "repro.json").read_text())["flags"] == [f"--{OPTION}"]


def test_an_option_that_nobody_knows_is_refused_and_that_of_some_is_named(tmp_path: Path) -> None:
    plant(tmp_path / "c", 1, unknown="regAlloc")
    words = ("run", "--runner", "sim", "--compilers", "c", "--variant", "regAllocOptLevel=2", *ONLY)
    ended = warpfuzz(tmp_path, *words)
    assert ended.code == 2
    assert "nobody compiles with +regAllocOptLevel=2" in ended.err
    assert "Unknown option 'regAlloc'" in ended.err
    plant(tmp_path / "c", 2)
    ended = warpfuzz(tmp_path, *words)
    assert ended.code == 0, ended.err
    assert [one[:6] for one in ended.summary["members"]] == ["V1.0.0", "V2.0.0", "V2.0.0"]
    (left,) = ended.summary["left_out"]
    assert left.startswith("ptxas V1.0.0+regAllocOptLevel=2: ptxas fatal")
