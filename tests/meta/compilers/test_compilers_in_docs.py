"""Scripts of docs on stand-ins for compilers: one of them breaks what it is given."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from answering import address
from planted_ptxas import planted_ptxas

ROOT = Path(__file__).parents[3]
SAME = "same_ptx.py"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with two compilers; the newer one has a bug."""
    for version, faults in (("12.4", []), ("12.5", ["store-layout-flipped"])):
        folder = tmp_path / "c" / version
        planted_ptxas(folder, version, faults, levels=(0, 3), answering=address())
    return tmp_path


def script(name: str, home: Path, *words: object) -> str:
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / name, *map(str, words)],
        cwd=home, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(home)},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_is_built_without_a_gpu_runs_elsewhere_and_shows_who_differs(home: Path) -> None:
    script(
        SAME, home, "build", "--compilers", "c", "--opt", "0,3", "--programs", 3, "--only",
        "wmma.mma*row.col.m16n16k16.f32.f32", "--output", "x.tar.xz",
    )  # fmt: skip
    script(SAME, home, "run", "x.tar.xz", "--runner", "sim", "--images", 4, "--output", "x.json")
    told = json.loads((home / "x.json").read_text())["programs"]
    assert len(told) == 3
    for row in told:
        right, wrong = row["outputs"]
        assert right["members"] == ["V12.4.0 -O0", "V12.4.0 -O3"]
        assert (right["wrong"], right["other"]) == (0, 4)
        assert wrong["members"] == ["V12.5.0 -O0", "V12.5.0 -O3"]
        assert (wrong["wrong"], wrong["other"]) == (4, 0)
    page = script(SAME, home, "page", "x.tar.xz", "x.json")
    assert "3 of 3 programs give other bits with some compilers" in page
    assert "| 12.5.0 -O0 -O3 | 0 of 12 | 12 |" in page


def test_what_is_wrong_about_scalar_code_names_what_its_programs_have_in_common(
    home: Path,
) -> None:
    planted_ptxas(
        home / "c" / "12.5", "12.5", ["selp-operands-exchanged"], levels=(0, 3), answering=address()
    )
    script(
        SAME, home, "build", "--compilers", "c", "--opt", "0,3", "--programs", 12, "--scalar-code",
        "--output", "x.tar.xz",
    )  # fmt: skip
    script(SAME, home, "run", "x.tar.xz", "--runner", "sim", "--images", 4, "--output", "x.json")
    rows = [
        line.strip("| ").split(" | ")
        for line in script(SAME, home, "page", "x.tar.xz", "x.json").splitlines()
        if line.startswith("| ") and "-O" in line
    ]
    assert rows
    for _, wrong_with, right_with, opcodes in rows:
        assert (wrong_with, right_with) == ("12.5.0 -O0 -O3", "12.4.0 -O0 -O3")
        assert opcodes.startswith("`selp.")


@pytest.mark.slow
def test_programs_that_share_registers_are_findings_where_a_compiler_is_wrong(home: Path) -> None:
    said = script(
        "shared_registers.py", home, "--compilers", "c", "--opt", "3", "--runner", "sim",
        "--corpus", "four",
    ).splitlines()  # fmt: skip
    assert len(said) == 4
    assert all("V12.5.0 -O3 wrong" in line for line in said[:2])
    assert all("right with all" in line for line in said[2:])  # they store by plain stores
    found = [json.loads(path.read_text()) for path in (home / "four").rglob("finding.json")]
    assert len(found) == 2
    for one in found:
        assert one["details"]["agree with the oracle"] == "V12.4.0 -O3"
        assert one["family"]["key"].endswith("only V12.5.0 -O3")
