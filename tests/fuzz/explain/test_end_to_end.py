"""A planted fault from end to end: found, shrunk, stored, shown, replayed, exported, reproduced."""

from __future__ import annotations

import zipfile
from pathlib import Path

from command_line import warpfuzz
from repro_cases import by_python

FAULT = ("--fault", "accumulator-ignored")


def test_a_planted_fault_goes_all_the_way(tmp_path: Path) -> None:
    # Found, shrunk and stored.
    ran = warpfuzz(
        tmp_path, "run", "--runner", "sim", "--only", "wmma.mma*m16n16k16.f32.f32", "--cases", 6,
        "--seed", 3, *FAULT, "--corpus", "findings", "--json", timeout=600,
    )  # fmt: skip
    assert ran.code == 1
    assert ran.findings
    assert {finding["verdict"] for finding in ran.findings} <= {"violation", "deviation"}

    # One line in the corpus, whatever of it was met.
    listed = warpfuzz(tmp_path, "corpus", "list", "findings", "--json")
    assert listed.code == 0
    families = [row for row in listed.rows if "summary" not in row]
    assert len(families) == 1
    assert ran.findings[0]["id"] in listed.out

    # Shown, and small: C is what it takes.
    chosen = families[0]["id"]
    assert chosen in ran.ids
    shown = warpfuzz(tmp_path, "corpus", "show", chosen[:8], "--corpus", "findings", "--json")
    assert shown.code == 0
    (finding,) = shown.rows[:1]
    assert finding["shrink"] in ("complete", "capped")
    assert finding["complexity"] <= 40

    folder = Path("findings", "findings", chosen)

    # Replayed: there with the fault, gone without it.
    there = warpfuzz(tmp_path, "replay", folder, *FAULT, "--times", 3, "--json")
    assert (there.code, there.rows[0]["verdict"]) == (1, "reproduced")
    gone = warpfuzz(tmp_path, "replay", folder, "--fault", "none", "--json")
    assert (gone.code, gone.rows[0]["verdict"]) == (0, "gone")

    # Exported, and replayed from what was exported.
    exported = warpfuzz(tmp_path, "corpus", "export", "findings", "all.zip", "--json")
    assert exported.code == 0
    assert exported.rows == [{"path": "all.zip", "findings": ran.ids}]
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        archive.extractall(tmp_path / "elsewhere")
    assert warpfuzz(tmp_path, "replay", "elsewhere", *FAULT, "--quiet").code == 1

    # Reproduced by what needs nothing of warpfuzz.
    made = warpfuzz(tmp_path, "repro", chosen, "--corpus", "elsewhere", "--output", "repro")
    assert made.code == 0
    repro = tmp_path / "repro"
    wrong = by_python(repro)
    assert wrong.code == 1
    right = by_python(repro, "--ptx", repro / "module.ptx")
    assert (right.code, right.out.startswith("0 of ")) == (0, True)
    page = (repro / "README.md").read_text()
    assert "the build leaves 0x" in page
