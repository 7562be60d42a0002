"""JUnit XML of a replay: a test for each finding, as Jenkins' and Ant's readers expect it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from corpus import durable
from oracle.errors import UsageError

_FORBIDDEN = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
"""Signs that XML 1.0 has not (XML 1.0, 2.2, production 2)."""


@dataclass(frozen=True, kw_only=True)
class Test:
    """One finding."""

    group: str
    """What it is about; dots make levels in some viewers."""
    name: str
    seconds: float
    result: str = "passed"
    """"passed", "failure", "error" or "skipped"."""
    message: str = ""
    """One line."""
    text: str = ""
    """All that is known."""


def check_junit(path: Path) -> None:
    """Raise UsageError for a file that could not be written after all replays."""
    if not path.parent.is_dir() or path.is_dir():
        raise UsageError(f"--junit {path} cannot be written: give a file in a folder that is there")


def write_junit(path: Path, tests: Sequence[Test], *, suite: str) -> None:
    """Write a file of JUnit XML.

    Raises
    ------
    InfrastructureError
        If it cannot be written.
    """
    counts = {
        "tests": str(len(tests)),
        "failures": str(sum(test.result == "failure" for test in tests)),
        "errors": str(sum(test.result == "error" for test in tests)),
        "skipped": str(sum(test.result == "skipped" for test in tests)),
        "time": f"{sum(test.seconds for test in tests):.3f}",
    }
    root = ElementTree.Element("testsuites", {"name": suite, **counts})
    inside = ElementTree.SubElement(root, "testsuite", {"name": suite, **counts})
    for test in tests:
        case = ElementTree.SubElement(
            inside,
            "testcase",
            {
                "classname": _clean(test.group),
                "name": _clean(test.name),
                "time": f"{test.seconds:.3f}",
            },
        )
        if test.result == "passed":
            continue
        result = ElementTree.SubElement(case, test.result, {"message": _clean(test.message)})
        if test.result != "skipped":
            result.set("type", _clean(test.group))
            result.text = _clean(test.text)
    ElementTree.indent(root)
    durable.write_output(path, ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("�", text)
