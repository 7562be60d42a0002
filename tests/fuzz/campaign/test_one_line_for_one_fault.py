"""Faults in a simulated device: each is one line of the console, and one group of the corpus."""

from __future__ import annotations

import re
from pathlib import Path

from command_line import warpfuzz

FAULTS = ("--fault", "store-one-row-off", "--fault", "trans-added")


def test_the_console_has_a_line_for_every_group_of_the_corpus(tmp_path: Path) -> None:
    ran = warpfuzz(
        tmp_path, "run", "--runner", "sim", "--cases", 200, "--seed", 80, "--workers", 1,
        "--fault", "accumulator-ignored", "--fault", "trans-added", COLUMNS="300",
    )  # fmt: skip
    assert ran.code == 1
    groups = warpfuzz(tmp_path, "corpus", "list", "warpfuzz-corpus", "--json").rows
    # A sum without C is a deviation or a violation by what C holds: the test needs both kinds.
    assert max(group["members"] for group in groups) == 2
    assert len(groups) > 1
    titles = sorted(group["title"] for group in groups)
    told, _, closing = ran.out.partition("\nkind ")
    news = [line for line in told.splitlines() if "smallest case" in line]
    assert len({line.partition(";")[0].partition(": ")[2] for line in news}) == len(news)
    assert len(news) == len(groups)
    table = closing[: closing.index(" images compared")].splitlines()[1:-1]
    lines = [re.split(r"\s{2,}", line.strip()) for line in table]
    shown = [
        (*line[0].split(), line[1]) if " " in line[0] else (*line[:2], line[2]) for line in lines
    ]
    # How many cases are of each kind is said behind what is wrong.
    shown = [(kind, re.sub(r" \(\w.*", "", what)) for kind, _, what in shown]
    assert sorted(f"{kind}: {what}" for kind, what in shown) == titles
    ids = {group["id"] for group in groups}
    assert {line[-1] for line in lines} == ids
    assert f": {len(groups)} findings." in closing


def test_a_compiler_that_compiles_nothing_is_one_line(tmp_path: Path) -> None:
    """`--ptx-pass false` gave a line for each sort of program (2026-11-23)."""
    ran = warpfuzz(
        tmp_path, "run", "--runner", "sim", "--cases", 48, "--seed", 9, "--workers", 1,
        "--ptx-pass", "false", "--json",
    )  # fmt: skip
    assert len({finding["family"] for finding in ran.findings}) == len(ran.findings) == 1
    assert ran.summary["failed"] > 1
    assert ran.summary["accepted_or_rejected"] == 0


def test_a_fault_that_applies_to_no_program_is_not_called_harmless(tmp_path: Path) -> None:
    """Both faults are of instructions that are not selected, or one of the two is."""
    run = ("run", "--runner", "sim", "--cases", 24, "--seed", 3, "--report", "page.html", "--new")
    command = (*run, "--only", "ldmatrix*", "--fault", "lanes-a-register-slip")
    ran = warpfuzz(tmp_path, *command, COLUMNS="300")
    said = re.search(r"Applied to 0 of [\d,]+ programs, so not tested: (.*?); every image", ran.out)
    assert ran.code == 3
    assert "so not tested: --fault lanes-a-register-slip; `warpfuzz faults` says" in ran.err
    assert said is not None
    assert said[1] == "--fault lanes-a-register-slip"
    status = warpfuzz(tmp_path, "status", "warpfuzz-corpus", COLUMNS="300")
    assert "0 families of findings; applied to 0 of" in status.out
    page = (tmp_path / "page.html").read_text()
    assert "so not tested: --fault lanes-a-register-slip; every image" in page
    ran = warpfuzz(tmp_path, *command, "--fault", "trans-lost", "--json")
    assert ran.summary["untested"].endswith("not tested: --fault lanes-a-register-slip")
    assert ran.code == (1 if ran.findings else 3)
    faults = ran.summary["faults"]
    assert faults["lanes-a-register-slip"] == 0 < faults["trans-lost"]
    assert faults["trans-lost"] <= ran.summary["programs"]["compiled"]
