"""`warpfuzz run` and `replay` on values, as a person types them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import leave_as_found, warpfuzz

from fuzz.runner import RunnerChoice, drawn_versions, opened


def test_a_fault_ends_with_one_and_its_replays_with_one_and_zero(tmp_path: Path) -> None:
    fault = ("--fault", "accumulator-ignored")
    ran = warpfuzz(
        tmp_path, "run", "--runner", "sim", "--cases", 16, "--seed", 7, *fault,
        "--only", "wmma*m8n8k4*", "--json", prepare=leave_as_found,
    )  # fmt: skip
    assert ran.code == 1
    summary = ran.summary
    assert (summary["cases"], summary["seed"], summary["runner"]) == (16, 7, "sim")
    for finding in summary["findings"]:
        assert finding.keys() >= {"id", "family", "kind", "verdict", "known", "path"}
        assert Path(tmp_path, finding["path"], "program.json").is_file()
    # A finding remembers what was planted.
    again = warpfuzz(tmp_path, "replay", "warpfuzz-corpus", "--times", 2, "--json")
    assert again.code == 1
    assert again.ids == ran.ids
    assert {row["verdict"] for row in again.rows[:-1]} == {"reproduced"}
    gone = warpfuzz(tmp_path, "replay", "warpfuzz-corpus", "--fault", "none")
    assert gone.code == 0
    assert f"0 still wrong, {len(ran.ids)} no longer" in gone.out


def test_a_campaign_draws_versions_and_goes_on_with_the_same(tmp_path: Path) -> None:
    fault = ("--fault", "lanes-b-crossed")
    options = ("--runner", "sim", "--seed", 7, "--only", "mma.sync*e4m3*", *fault, "--json")
    ran = warpfuzz(tmp_path, "run", *options, "--cases", 16, prepare=leave_as_found)
    versions = ran.summary["ptx_versions"]
    assert (ran.summary["ptx_version"], versions[0], versions[-1]) == (None, "7.8", "9.5")
    # Of 12 forms, 9 are newer than 8.4.
    assert ran.summary["forms"]["documented"] == 12
    assert ran.findings
    for row in ran.findings:
        # fp8 came with 8.4: a round of 7.8 has the oldest version that has its forms.
        module = Path(tmp_path, row["path"], "module.ptx").read_text()
        assert f".version {row['ptx_version']}\n" in module
        assert row["ptx_version"] >= "8.4"
        stored = json.loads(Path(tmp_path, row["path"], "finding.json").read_text())
        assert stored["ptx_version"] == row["ptx_version"]
    words = ("run", "--resume", "--json", "--cases", 20)
    again = warpfuzz(tmp_path, *words, prepare=leave_as_found)
    assert again.summary["ptx_versions"] == versions
    other = warpfuzz(tmp_path, "run", "--resume", "--cases", 28, "--ptx-version", "8.7")
    assert other.code == 2
    assert "PTX ISA versions" in " ".join(other.err.split())


@pytest.mark.parametrize(
    ("cuda", "newest"), [("13.0", "9.0"), ("12.6", "8.5"), ("11.8", "7.8"), ("99.1", "9.5")]
)
def test_versions_end_with_what_the_driver_reads(cuda: str, newest: str) -> None:
    with opened(RunnerChoice(name="sim")) as ready:
        there = replace(ready, choice=replace(ready.choice, name="cuda"), cuda=cuda)
        assert drawn_versions(there).every[-1] == newest
        asked = replace(there, choice=replace(there.choice, ptx_version="8.0"))
        assert drawn_versions(asked).every == ("8.0",)


def test_without_assembler_and_gpu_the_default_is_the_simulated_device(tmp_path: Path) -> None:
    # An interpreter without this environment's packages finds no assembler among them.
    bare = warpfuzz(tmp_path, "compilers", "list", "--json")
    if bare.rows:
        pytest.skip("an assembler is installed in this environment")
    ran = warpfuzz(tmp_path, "run", "--cases", 20, "--seed", 2, "--json")
    assert (ran.code, ran.summary["runner"], ran.summary["cases"]) == (0, "sim", 20)
