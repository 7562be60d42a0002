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


def ended(
    command: list[str], home: Path, path: str, *, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder or home, env=environment(home, PYTHONPATH=path), check=False,
        capture_output=True, text=True,
    )  # fmt: skip


def package(folder: Path, name: str, kind: str) -> Path:
    """Make a package of the user's; return what is named."""
    place = folder / name
    if kind == "module":
        place.with_suffix(".py").write_text("x = 1\n")
        return place.with_suffix(".py")
    place.mkdir()
    (place / "__init__.py").write_text("x = 1\n")
    return place / "__init__.py"


@pytest.mark.parametrize("kind", ["package", "module"])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_on_the_path_is_named(tmp_path: Path, name: str, kind: str) -> None:
    (tmp_path / "own").mkdir()
    there = package(tmp_path / "own", name, kind)
    done = ended([*SCRIPT, "--version"], tmp_path, f"{tmp_path / 'own'}:{ROOT}")
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"warpfuzz: {there} is in the way: ")
    if name != "fuzz":
        done = ended([*MODULE, "--version"], tmp_path, f"{tmp_path / 'own'}:{ROOT}")
        assert (done.returncode, done.stderr.count("\n")) == (3, 1)
        assert str(there) in done.stderr


def test_a_package_with_files_of_the_same_names_is_in_the_way_too(tmp_path: Path) -> None:
    """One with a `cli.py` ended with a traceback; one with a `__main__.py` would have run."""
    there = package(tmp_path, "fuzz", "package")
    for name in ("cli.py", "__main__.py"):
        there.with_name(name).write_text("raise SystemExit(77)\n")
    (there.parent / "commands").mkdir()
    done = ended([*SCRIPT, "--version"], tmp_path, f"{tmp_path}:{ROOT}")
    assert (done.returncode, done.stderr.count("\n")) == (3, 1), done.stderr
    assert str(there) in done.stderr


_EXPLAIN = ("explain", "ldmatrix")
_RUN = ("run", "--runner", "sim", "--cases", "8", "--workers", "1", "--only", "*f64*")
"""Starts a process that imports everything, too."""


@pytest.mark.parametrize(
    ("command", "path", "arguments"),
    [
        *((command, path, _EXPLAIN) for command in (SCRIPT, MODULE)
          for path in (f":{ROOT}", f"{ROOT}:")),
        (SCRIPT, str(ROOT), _RUN),
        pytest.param(MODULE, str(ROOT), _RUN, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_what_is_in_the_current_folder_disturbs_nothing(
    tmp_path: Path, command: list[str], path: str, arguments: tuple[str, ...]
) -> None:
    home, folder = tmp_path / "home", tmp_path / "folder"
    home.mkdir()
    folder.mkdir()
    # Where it is to run the package `fuzz`, Python itself takes that of the current folder.
    for name in (*NAMES[: None if command == SCRIPT else -1], "click", "numpy", "json"):
        package(folder, name, "package").write_text("raise SystemExit(77)\n")
    done = ended([*command, *arguments], home, path, folder=folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", [SCRIPT, MODULE])
def test_a_current_folder_that_was_removed_is_said(tmp_path: Path, command: list[str]) -> None:
    """It was a traceback, and code 1 (2026-11-24)."""
    gone = 'mkdir "$0" && cd "$0" && rmdir "$0" && exec "$@"'
    shell = ["sh", "-c", gone, str(tmp_path / "gone"), *command, *_EXPLAIN]
    done = ended(shell, tmp_path, str(ROOT))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "warpfuzz: the current folder was removed; go to another one\n"


def test_a_process_that_the_command_spawns_does_not_begin_it_again(tmp_path: Path) -> None:
    """`warpfuzz bench` and `warpfuzz measure` died with several processes (2026-11-23)."""
    script = f"import runpy; runpy.run_path({SCRIPT[1]!r}, run_name='__mp_main__'); print('ready')"
    done = ended([sys.executable, "-c", script], tmp_path, str(ROOT))
    assert (done.stdout, done.stderr) == ("ready\n", "")
