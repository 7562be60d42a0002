"""`docs/same_ptx.py` on stand-ins for compilers: one of them breaks what it is given."""

import json
import subprocess
import sys
from pathlib import Path

from answering import address
from planted_ptxas import planted_ptxas

ROOT = Path(__file__).parents[3]


def script(folder: Path, *words: object) -> str:
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "same_ptx.py", *map(str, words)],
        cwd=folder, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(folder)},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_is_built_without_a_gpu_runs_elsewhere_and_shows_who_differs(tmp_path) -> None:
    for version, faults in (("12.4", []), ("12.5", ["store-layout-flipped"])):
        planted_ptxas(tmp_path / "c" / version, version, faults, levels=(0, 3), answering=address())
    script(
        tmp_path, "build", "--compilers", "c", "--opt", "0,3", "--programs", 3, "--only",
        "wmma.mma*row.col.m16n16k16.f32.f32", "--output", "x.tar.xz",
    )  # fmt: skip
    script(tmp_path, "run", "x.tar.xz", "--runner", "sim", "--images", 4, "--output", "x.json")
    told = json.loads((tmp_path / "x.json").read_text())["programs"]
    assert len(told) == 3
    for row in told:
        right, wrong = row["outputs"]
        assert right["members"] == ["V12.4.0 -O0", "V12.4.0 -O3"]
        assert (right["wrong"], right["other"]) == (0, 4)
        assert wrong["members"] == ["V12.5.0 -O0", "V12.5.0 -O3"]
        assert (wrong["wrong"], wrong["other"]) == (4, 0)
    page = script(tmp_path, "page", "x.tar.xz", "x.json")
    assert "3 of 3 programs give other bits with some compilers" in page
    assert "| 12.5.0 -O0 -O3 | 0 of 12 | 12 |" in page
    assert "Not run" in script(tmp_path, "page", "x.tar.xz")
