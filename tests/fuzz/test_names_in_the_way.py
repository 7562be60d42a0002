"""Packages of the user's that have the name of one of warpfuzz's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from command_line import ROOT, environment

SCRIPT = [sys.executable, str(ROOT / "fuzz" / "_warpfuzz")]
MODULE = [sys.executable, "-m", "fuzz"]
NAMES = ("oracle", "strategies", "runners", "corpus", "fuzz")
EXPLAIN = ("explain", "ldmatrix")


def ended(
    command: list[str], home: Path, path: str, *, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder or home, env=environment(home, PYTHONPATH=path), check=False,
        capture_output=True, text=True,
    )  # fmt: skip


def package(folder: Path, name: str) -> Path:
    """Make a package of the user's; return its file."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text("x = 1\n")
    return folder / name / "__init__.py"


@pytest.mark.parametrize(("name", "kind"), [("corpus", "module"), ("fuzz", "package")])
def test_what_is_on_the_path_is_named(tmp_path: Path, name: str, kind: str) -> None:
    there = tmp_path / "own" / f"{name}.py"
    if kind == "module":
        there.parent.mkdir()
        there.write_text("x = 1\n")
    else:
        there = package(tmp_path / "own", name)
        # One with a `cli.py` ended with a traceback; one with a `__main__.py` would have run.
        for own in ("cli.py", "__main__.py"):
            there.with_name(own).write_text("raise SystemExit(77)\n")
    done = ended([*SCRIPT, "--version"], tmp_path, f"{tmp_path / 'own'}:{ROOT}")
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert done.stderr.startswith(f"warpfuzz: {there} is in the way: ")
    if name != "fuzz":
        done = ended([*MODULE, "--version"], tmp_path, f"{tmp_path / 'own'}:{ROOT}")
        assert (done.returncode, done.stderr.count("\n")) == (3, 1)
        assert str(there) in done.stderr


@pytest.mark.parametrize(
    ("command", "path", "arguments"),
    [
        (SCRIPT, f":{ROOT}", EXPLAIN),
        (MODULE, f"{ROOT}:", EXPLAIN),
        # Starts a process that imports everything, too.
        (SCRIPT, str(ROOT), ("run", "--runner", "sim", "--cases", "1", "--workers", "1")),
    ],
)
def test_what_is_in_the_current_folder_disturbs_nothing(
    tmp_path: Path, command: list[str], path: str, arguments: tuple[str, ...]
) -> None:
    home, folder = tmp_path / "home", tmp_path / "folder"
    home.mkdir()
    # Where it is to run the package `fuzz`, Python itself takes that of the current folder.
    for name in (*NAMES[: None if command == SCRIPT else -1], "click", "numpy", "json"):
        package(folder, name).write_text("raise SystemExit(77)\n")
    done = ended([*command, *arguments], home, path, folder=folder)
    assert done.returncode == 0, done.stderr


def test_a_current_folder_that_was_removed_is_said(tmp_path: Path) -> None:
    """It was a traceback, and code 1 (2026-11-24)."""
    gone = 'mkdir "$0" && cd "$0" && rmdir "$0" && exec "$@"'
    done = ended(["sh", "-c", gone, str(tmp_path / "gone"), *SCRIPT, *EXPLAIN], tmp_path, str(ROOT))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "warpfuzz: the current folder was removed; go to another one\n"


def test_a_process_that_the_command_spawns_does_not_begin_it_again(tmp_path: Path) -> None:
    """`warpfuzz bench` and `warpfuzz measure` died with several processes (2026-11-23)."""
    script = f"import runpy; runpy.run_path({SCRIPT[1]!r}, run_name='__mp_main__'); print('ready')"
    done = ended([sys.executable, "-c", script], tmp_path, str(ROOT))
    assert (done.stdout, done.stderr) == ("ready\n", "")
