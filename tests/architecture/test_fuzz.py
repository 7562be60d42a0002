"""Who imports whom inside `fuzz`.

{cli, commands} -> options
cli -> commands -> {console, bench} -> campaign -> checks/protocol
commands, console -> screening -> {bench, checks}
checks -> {shrinking, compilers} -> findings
commands -> judging -> compilers -> diagnosis -> {runner, output}
commands, console -> explain -> findings
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from test_rooms import ROOT, imported

FUZZ = ROOT / "fuzz"
MODULES = sorted(FUZZ.rglob("*.py"))
BASE = {"runner", "output", "kinds", "reducer"}
FINDINGS = BASE | {"diagnosis", "findings"}
MAY_IMPORT: dict[str, set[str]] = {
    "kinds": set(),
    "reducer": set(),
    "output": {"kinds"},
    "options": set(),
    "runner": {"kinds", "output"},
    "diagnosis": BASE,
    "findings": BASE | {"diagnosis"},
    "shrinking": FINDINGS,
    "compilers": FINDINGS,
    "explain": FINDINGS,
    "measuring": BASE,
    "judging": FINDINGS | {"compilers", "options"},
    "checks": FINDINGS | {"shrinking", "compilers"},
    "campaign": FINDINGS,
    "bench": FINDINGS | {"checks", "campaign"},
    "fleet": FINDINGS | {"campaign"},
    "screening": FINDINGS | {"checks", "campaign", "bench"},
    "console": FINDINGS | {"explain", "campaign", "screening", "options"},
    "commands": FINDINGS
    | {"explain", "compilers", "measuring", "checks", "campaign", "bench", "screening", "console"}
    | {"fleet", "options", "judging"},
    "cli": FINDINGS | {"commands", "options"},
    "__main__": {"cli"},
}
SHARED = {"fuzz.checks.protocol"}
"""What campaigns, checks and views speak with each other."""


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def inside(path: Path) -> Iterator[str]:
    return (name for name in imported(path) if name.startswith("fuzz."))


def part(name: str) -> str:
    return name.split(".")[1]


def allowed(importer: str, name: str) -> bool:
    mine, its = part(importer), part(name)
    return mine == its or its in MAY_IMPORT[mine] or name in SHARED


def test_a_module_imports_nothing_against_the_order() -> None:
    for path in MODULES:
        if path != FUZZ / "__init__.py":
            importer = name_of(path)
            assert not [name for name in inside(path) if not allowed(importer, name)], importer


def check_of(name: str) -> str:
    """Programs are one check, whoever compiles them; instructions are another."""
    return "instructions" if name.split(".")[-1].startswith("instruction") else "programs"


def test_a_check_never_imports_another() -> None:
    for path in (FUZZ / "checks").glob("*.py"):
        for name in inside(path):
            if part(name) == "checks" and name not in SHARED:
                assert check_of(name) == check_of(name_of(path)), (path.name, name)


def test_a_command_never_imports_its_sibling() -> None:
    siblings = {
        (path.stem, name)
        for path in (FUZZ / "commands").glob("*.py")
        for name in inside(path)
        if part(name) == "commands"
    }
    assert not siblings


def test_no_import_is_for_types_alone() -> None:
    assert not [path for path in MODULES if "TYPE_CHECKING" in path.read_text(encoding="utf-8")]
