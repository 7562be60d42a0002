"""Faults in a simulated device: each is one line of the console, and one group of the corpus."""

from __future__ import annotations

import re
from pathlib import Path

from command_line import leave_as_found, warpfuzz


def test_a_compiler_that_compiles_nothing_is_one_line(tmp_path: Path) -> None:
    """`--ptx-pass false` gave a line for each sort of program (2026-11-23)."""
    ran = warpfuzz(
        tmp_path, "run", "--runner", "sim", "--cases", 24, "--seed", 9, "--workers", 1,
        "--ptx-pass", "false", "--json",
    )  # fmt: skip
    assert len({finding["family"] for finding in ran.findings}) == len(ran.findings) == 1
    assert ran.summary["failed"] > 1
    assert ran.summary["accepted_or_rejected"] == 0


def test_a_fault_that_applies_to_no_program_is_not_called_harmless(tmp_path: Path) -> None:
    """Both faults are of instructions that are not selected, or one of the two is."""
    run = ("run", "--runner", "sim", "--cases", 16, "--seed", 3, "--report", "page.html", "--new")
    command = (*run, "--only", "ldmatrix*", "--fault", "lanes-a-register-slip")
    ran = warpfuzz(tmp_path, *command, COLUMNS="300")
    said = re.search(r"Applied to 0 of [\d,]+ programs, so not tested: (.*?); every image", ran.out)
    assert ran.code == 3
    assert "so not tested: --fault lanes-a-register-slip; `warpfuzz faults` says" in ran.err
    assert said is not None
    assert said[1] == "--fault lanes-a-register-slip"
    page = (tmp_path / "page.html").read_text()
    assert "so not tested: --fault lanes-a-register-slip; every image" in page
    ran = warpfuzz(tmp_path, *command, "--fault", "trans-lost", "--json", prepare=leave_as_found)
    assert ran.summary["untested"].endswith("not tested: --fault lanes-a-register-slip")
    assert ran.code == (1 if ran.findings else 3)
    faults = ran.summary["faults"]
    assert faults["lanes-a-register-slip"] == 0 < faults["trans-lost"]
    assert faults["trans-lost"] <= ran.summary["programs"]["compiled"]
