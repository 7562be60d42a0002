"""Expands the syntax of a page, as it is printed there, into opcodes.

Shares nothing with `oracle.isa.lookup`: what is compared with it has to come from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

_SET = re.compile(r"^\.(\w+)\s*=\s*\{(.*)\}\s*;?\s*$")
_OPTIONAL = re.compile(r"\{([^{}]*)\}")


def opcodes(block: str) -> Iterator[str]:
    """Expand every instruction line of a block by the sets that the block gives."""
    lines = [part.strip() for part in re.split(r"[;\n]", block)]
    sets = {
        match[1]: [text for item in match[2].split(",") for text in _options(item.strip())]
        for match in map(_SET.match, lines)
        if match
    }
    for line in lines:
        if line and not line.startswith((".", "//")):
            for template in _options(line.split()[0]):
                yield from _filled(template, sets)


def _options(template: str) -> list[str]:
    """Return a template with each {optional part} left out and put in."""
    match = _OPTIONAL.search(template)
    if match is None:
        return [template]
    head, tail = template[: match.start()], template[match.end() :]
    return [text for part in ("", match[1]) for text in _options(head + part + tail)]


def _filled(template: str, sets: dict[str, list[str]]) -> Iterator[str]:
    words = template.split(".")
    choices = [sets.get(word, ["." + word]) for word in words[1:]]
    for texts in product(*choices):
        yield words[0] + "".join(texts)
