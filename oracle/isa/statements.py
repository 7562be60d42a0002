"""The matrix instructions of a whole module, each with its line; everything else is left out."""

from __future__ import annotations

import re
from collections.abc import Iterator

from oracle.isa.tables import INSTRUCTIONS

# What is not ended reaches to the end of the text, so that every sign is looked at once.
_APART = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_INSTRUCTION = re.compile(
    rf"(?<![\w.$%])(?:{'|'.join(map(re.escape, INSTRUCTIONS))})(?![\w$])[^;]*(;|\Z)", re.ASCII
)
_TARGET = re.compile(r"\.target\s+(sm_\w+)")
_VERSION = re.compile(r"\.version\s+([0-9]+\.[0-9]+)")


def without_comments(module: str) -> str:
    """Return the text of a module with spaces for comments and strings, and the same lines."""
    return _APART.sub(_blank, module)


def matrix_instructions(text: str) -> Iterator[tuple[int, str]]:
    """Yield line number and text of each matrix instruction of a module `without_comments`."""
    line, place = 1, 0
    for match in _INSTRUCTION.finditer(text):
        if not match[1]:
            return
        line += text.count("\n", place, match.start())
        place = match.start()
        yield line, " ".join(match[0].split())


def directives(text: str) -> tuple[str | None, str | None]:
    """Return the values of `.target` and `.version`, as far as they are there."""
    found = (pattern.search(text) for pattern in (_TARGET, _VERSION))
    target, version = (None if one is None else one[1] for one in found)
    return target, version


def _blank(match: re.Match[str]) -> str:
    return " " + "\n" * match[0].count("\n")
