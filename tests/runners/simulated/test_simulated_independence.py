"""The simulated device shares no layout, no arithmetic and no table with the oracle."""

import ast
from pathlib import Path

import runners.faults
import runners.simulated

ALLOWED = {"oracle.errors"}
MODULES = [
    *Path(runners.simulated.__file__).parent.rglob("*.py"),
    *Path(runners.faults.__file__).parent.rglob("*.py"),
]


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


def test_nothing_but_exceptions_is_imported_from_the_other_rooms() -> None:
    rooms = ("oracle", "strategies", "corpus", "fuzz")
    taken = {name for path in MODULES for name in imported(path) if name.split(".")[0] in rooms}
    assert taken <= ALLOWED
    assert taken, "the exceptions are the project's own"


def test_no_library_of_number_formats_does_the_arithmetic() -> None:
    assert all("ml_dtypes" not in imported(path) for path in MODULES)
