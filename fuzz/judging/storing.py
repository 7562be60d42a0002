"""A kernel that came out wrong, as the corpus keeps it: it is replayed like a case of a person."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from corpus import (
    Case,
    Family,
    OracleVerdict,
    RunnerVerdict,
    Versions,
)
from corpus.images import pack
from fuzz import warpfuzz_version
from fuzz.findings.case import ACTUAL, EXPECTED, INPUT, LAUNCH, MODULE, ORIGINAL, REWRITTEN
from fuzz.findings.making import details_of
from fuzz.judging.comparing import Verdict
from fuzz.judging.reducing import Reduced, pieces_of
from fuzz.runner import OpenRunner
from runners.protocol import Compiled
from runners.ptx_text import header

_PLAIN = re.compile(r"(?:ld|st|mov|cvta|bra|ret|exit|bar|mul\.wide|add\.[us]64)\b")
"""What every kernel has, and what says nothing of what is wrong."""
_SHOWN = 4
"""Opcodes that a family names."""
_TEXT_CHARACTERS = 4000
"""Of what a tool said; the rest rarely helps."""


def case_of(
    verdict: Verdict, reduced: Reduced, ready: OpenRunner, *, referee: str, blame: str
) -> Case:
    """Describe a finding for the corpus.

    Parameters
    ----------
    referee
        What says what must come out.
    blame
        Who alone has it; "" where everybody does.
    """
    lines = [words for words, free in pieces_of(reduced.ptx) if free and words.endswith(";")]
    instructions = [words for words in lines if not words.startswith(".")]
    opcodes = [re.sub(r"^@\S+ ", "", words).split()[0].rstrip(";") for words in instructions]
    telling = [one for one in dict.fromkeys(opcodes) if not _PLAIN.match(one)] or opcodes[:1]
    about = ", ".join(telling[:_SHOWN]) + (", …" if len(telling) > _SHOWN else "")
    first = verdict.answerers[0]
    target, version = header(reduced.ptx)
    details: dict[str, str | int | float | bool] = {
        "runner": first.choice.name,
        "layout": first.choice.layout,
        "compilers": ", ".join(verdict.names)[:_TEXT_CHARACTERS],
        "referee": referee,
        "tries": reduced.tries,
        **details_of(first.choice),
    }
    if first.choice.level is not None:
        details["opt"] = first.choice.level
    return Case(
        kind=verdict.kind,
        family=Family.of(verdict.kind, "kernel", about, shown=about, blame=blame),
        instructions=tuple(instructions) or (MODULE,),
        target=target,
        ptx_version=version,
        oracle=OracleVerdict(verdict="not asked"),
        runners=(
            RunnerVerdict(
                runner=first.choice.label,
                version=ready.version,
                options=first.choice.options,
                outcome=verdict.kind.value,
                message=verdict.difference[:_TEXT_CHARACTERS],
                device=ready.device,
            ),
        ),
        versions=Versions(warpfuzz=warpfuzz_version()),
        shrink=reduced.status,
        complexity=int(np.count_nonzero(reduced.image)),
        details=details,
    )


def files_of(verdict: Verdict, reduced: Reduced, original: str) -> Mapping[str, bytes]:
    """Return the files of a finding by name."""
    files = {
        MODULE: reduced.ptx.encode(),
        ORIGINAL: original.encode(),
        LAUNCH: reduced.setup.toml.encode(),
        INPUT: pack(reduced.image[None]),
    }
    ran = verdict.answerers[0].runner.compile(reduced.setup.module(reduced.ptx))
    if isinstance(ran, Compiled) and ran.module.ptx != reduced.ptx:
        files[REWRITTEN] = ran.module.ptx.encode()
    if verdict.expected is not None:
        files[EXPECTED] = pack(verdict.expected[None])
    if verdict.actual is not None:
        files[ACTUAL] = pack(verdict.actual[None])
    return files
