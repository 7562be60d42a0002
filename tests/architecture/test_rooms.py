"""Who imports whom, and what the repository must not name.

oracle  <-  strategies, runners, corpus  <-  fuzz
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from oracle.isa.lookup import INSTRUCTIONS, Instruction
from oracle.isa.targets import PtxVersion

ROOT = Path(__file__).parents[2]
MAY_IMPORT: dict[str, set[str]] = {
    "oracle": set(),
    "strategies": {"oracle"},
    "runners": {"oracle"},
    "corpus": {"oracle"},
    "fuzz": {"oracle", "strategies", "runners", "corpus"},
}
MODULES = [path for room in MAY_IMPORT for path in sorted((ROOT / room).rglob("*.py"))]
YOUNGER = [row for row in INSTRUCTIONS.values() if row.notes[0].since >= PtxVersion(7, 1)]
"""Those that came after wmma, ldmatrix and mma.sync, which have words of their own everywhere."""
# Distributions that are imported by another name than their own.
IMPORT_NAMES = {"nvidia-ml-py": "pynvml", "nvidia-cuda-nvcc": ""}


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return the imports, calls and classes in a file, wherever they stand."""
    asked = (ast.Import, ast.ImportFrom, ast.Call, ast.ClassDef)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(node for node in ast.walk(tree) if isinstance(node, asked))


@cache
def imported(path: Path) -> tuple[str, ...]:
    """Name every module that a file imports, wherever in it, also by a constant text."""
    return tuple(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    package = path.relative_to(ROOT).parent.parts
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            whole = (*base, *(node.module or "").split("."))
            for alias in node.names:
                inner = (ROOT.joinpath(*whole) / f"{alias.name}.py").is_file()
                yield ".".join(filter(None, (*whole, *[alias.name] * inner)))
        elif isinstance(node, ast.Call) and node.args:
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            argument = node.args[0]
            if name in ("import_module", "__import__") and isinstance(argument, ast.Constant):
                yield str(argument.value)


def tops(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imported(path)}


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_a_module_imports_its_own_room_and_those_behind_it() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in MODULES} == set(MAY_IMPORT)
    for path in MODULES:
        room = path.relative_to(ROOT).parts[0]
        # What users import from strategies is made by fuzz, and nothing here imports it from there.
        may = {"fuzz"} if relative(path) == "strategies/api.py" else {room, *MAY_IMPORT[room]}
        assert tops(path) & {*MAY_IMPORT, "tests"} <= may, relative(path)


def test_the_names_of_users_are_imported_by_the_package_itself_alone() -> None:
    for room in MAY_IMPORT:
        found = [relative(path) for path in MODULES if f"{room}.api" in imported(path)]
        assert set(found) <= {f"{room}/__init__.py"}


def test_pycuda_and_nvml_are_imported_by_the_cuda_runner_alone() -> None:
    found = {relative(path) for path in MODULES if tops(path) & {"pycuda", "pynvml"}}
    # A program that is copied into other people's folders, and that nothing here imports.
    copied = "fuzz/explain/standalone.py"
    assert copied in found
    assert all(name.startswith("runners/cuda/") for name in found - {copied})
    assert not [path for path in MODULES if "fuzz.explain.standalone" in imported(path)]


TAKEN = {"simulated": {"oracle.errors"}, "faults": {"oracle.errors", "oracle.isa.legality"}}
"""What the simulated device and its faults have of other rooms: exceptions, and of comments alone
what is known of PTX as a text. They share no layout, no arithmetic and no table."""


@pytest.mark.parametrize("package", TAKEN)
def test_the_simulated_device_shares_nothing_with_the_oracle(package: str) -> None:
    paths = [path for path in MODULES if relative(path).startswith(f"runners/{package}/")]
    assert not any("ml_dtypes" in tops(path) for path in paths)
    names = {name for path in paths for name in imported(path)}
    assert {one for one in names if one.split(".")[0] in {*MAY_IMPORT} - {"runners"}} == TAKEN[
        package
    ]


def test_hypothesis_is_imported_by_strategies_alone() -> None:
    found = {path.relative_to(ROOT).parts[0] for path in MODULES if "hypothesis" in tops(path)}
    assert found == {"strategies"}


@pytest.mark.parametrize("row", YOUNGER, ids=lambda row: row.mnemonic)
def test_an_instruction_is_named_in_at_most_eight_files(row: Instruction) -> None:
    """What else is said of it is read from its rows: others are to name its kind, not the name."""
    name = re.compile(re.escape(row.mnemonic.partition("::")[0]).replace(r"\.", "[._]"), re.I)
    found = [relative(path) for path in MODULES if name.search(path.read_text(encoding="utf-8"))]
    assert len(found) <= 8, found


def test_the_oracle_knows_no_processes_no_network_and_no_console() -> None:
    unknown = {"subprocess", "socket", "urllib", "multiprocessing", "click", "rich", "msgspec"}
    for path in MODULES:
        if path.is_relative_to(ROOT / "oracle"):
            assert not tops(path) & unknown, relative(path)


def test_every_package_that_is_imported_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    own = ("cuda", "llvm", "ptxas", "metrics", "fleet")
    lines = [*project["dependencies"], *(line for name in own for line in extras[name])]
    names = [re.match(r"[\w-]+", line)[0] for line in lines]  # type: ignore[index]
    declared = {IMPORT_NAMES.get(name, name.replace("-", "_")) for name in names}
    allowed = declared | set(MAY_IMPORT) | set(sys.stdlib_module_names)
    for path in MODULES:
        assert tops(path) <= allowed, relative(path)


def test_no_two_modules_of_tests_have_one_name() -> None:
    # pytest imports them by their names alone: the second one would be an error.
    paths = (ROOT / "tests").rglob("test_*.py")
    names = Counter(path.name for path in paths)
    assert [name for name, count in names.items() if count > 1] == []


def test_the_five_rooms_are_the_packages_that_are_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    include = project["tool"]["setuptools"]["packages"]["find"]["include"]
    assert sorted(pattern.rstrip("*.") for pattern in include) == sorted(MAY_IMPORT)


# Written in pieces, so that this file does not name them.
FORBIDDEN = {
    "the host of a package index": "|".join(
        re.escape("".join(pieces))
        for pieces in (
            ("pypi", ".org"), ("pypi", ".python.org"), ("python", "hosted.org"),
            ("pypi", ".nvidia.com"), ("conda", ".anaconda"), ("repo", ".anaconda"),
            ("download", ".pytorch"), ("index", "-url"), ("index", "_url"),
        )
    ),
    "an absolute path of one machine": r"(?<![\w.\-*])/" + "(?:work|root|home|Users)" + r"/\w",
    "a folder of one machine's wheels": "/tmp/" + r"(?:wheels|h\d)",
    "a tool of one workplace": r"\bissues" + r" show\b|" + r"\.lib" + r"rary/|" + "ANTH" + "ROPIC",
}  # fmt: skip


@pytest.fixture(scope="module")
def tracked() -> dict[str, str]:
    """Every file of the repository, as text; what is no text by its bytes."""
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout: the files of the repository cannot be listed")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True
    ).stdout.decode()
    names = [name for name in listed.split("\0") if (ROOT / name).is_file() and name]
    return {name: (ROOT / name).read_bytes().decode("latin-1") for name in names}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_of_the_repository_names(what: str, tracked: dict[str, str]) -> None:
    pattern = re.compile(FORBIDDEN[what])
    found = [f"{name}: {match[0]}" for name, text in tracked.items()
             if (match := pattern.search(text))]  # fmt: skip
    assert not found


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import a.b", {"a.b"}), ("from a import b", {"a"}), ("from . import b", {"tests.x"}),
        ("from ..c import d", {"tests.c"}), ("def f():\n import a", {"a"}),
        ("import_module('a.b')", {"a.b"}), ("importlib.import_module('a')", {"a"}),
        ("if TYPE_CHECKING:\n from a.b import c", {"a.b"}), ("x = 'import a'", set()),
    ],
)  # fmt: skip
def test_imports_are_found_wherever_they_stand(
    source: str, expected: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    file = tmp_path / "tests" / "x" / "module.py"
    file.parent.mkdir(parents=True)
    file.write_text(source)
    assert set(imported(file)) == expected


def test_a_class_name_stands_once_in_the_tree() -> None:
    names = Counter(
        node.name for path in MODULES for node in nodes(path) if isinstance(node, ast.ClassDef)
    )
    assert not [name for name, count in names.items() if count > 1]


def test_a_file_name_stands_at_most_four_times_and_no_module_is_above_600_lines() -> None:
    names = Counter(path.name for path in MODULES if path.name != "__init__.py")
    assert not [name for name, count in names.items() if count > 4]
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in MODULES}
    assert not [path for path, count in lines.items() if count > 600]
