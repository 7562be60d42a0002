"""Telling the kernels of PTX modules apart by what they do, and not by their comments."""

from __future__ import annotations

import hashlib
import re

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ENTRY = re.compile(
    r"^[ \t]*(?:\.visible|\.weak|\.extern)?[ \t]*\.entry[ \t]+([\w$]+)", re.MULTILINE
)
_VARIABLE = re.compile(r"([A-Za-z_$][\w$]*)\s*(?:\[[^\]]*\]\s*)*(?:=|;)")
_LABEL = re.compile(r"\$L_*|\bL(?=BB\d)")
"""What the names of labels of LLVM begin with: "LBB0_1" in 14, "$L__BB0_1" from 15 on."""
_WORD = re.compile(r"[A-Za-z_$][\w$]*")


def ptx_digests(ptx: str) -> dict[str, str]:
    """Return a hash of the text of each entry of a module, by its name.

    Comments, white space and the spelling of labels are left out; variables and functions that an
    entry names belong to it. Entries of two modules with one hash do the same.
    """
    text = _COMMENT.sub("", ptx)
    starts = list(_ENTRY.finditer(text))
    if not starts:
        return {}
    head = text[: starts[0].start()]
    ends = [match.start() for match in starts[1:]] + [len(text)]
    digests = {}
    for match, end in zip(starts, ends, strict=True):
        body = text[match.start() : end]
        named = set(_WORD.findall(body))
        # Functions have lines of their own; with one in the module, all of the head counts.
        whole = ".func" in head or ".func" in body
        parts = [
            line
            for line in head.splitlines()
            if whole or any(name in named for name in _VARIABLE.findall(line))
        ]
        words = _LABEL.sub("L", " ".join(" ".join([*parts, body]).split()))
        digests[match[1]] = hashlib.sha256(words.encode()).hexdigest()
    return digests
