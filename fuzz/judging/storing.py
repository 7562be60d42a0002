"""Stores a kernel that came out wrong; it is replayed like a case written by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from corpus import Case, Family, OracleVerdict, RunnerVerdict, Versions
from corpus.programs import pack
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
"""Characters that are kept of a tool's output; the rest rarely helps."""


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
    instructions = _instructions(reduced.ptx)
    opcodes = _opcodes(instructions)
    telling = [one for one in opcodes if not _PLAIN.match(one)] or opcodes[:1]
    about = shown = ", ".join(telling[:_SHOWN]) + (", …" if len(telling) > _SHOWN else "")
    ran = rewritten(verdict, reduced)
    kept = set(_instructions(ran or reduced.ptx))
    changed = _opcodes([one for one in instructions if one not in kept])
    if 0 < len(changed) <= _SHOWN:
        about = shown = ", ".join(changed)
    else:
        shown = f"a kernel with {about}"
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
        family=Family.of(verdict.kind, "kernel", about, shown=shown, blame=blame),
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


def _instructions(ptx: str) -> list[str]:
    lines = [words for words, free in pieces_of(ptx) if free and words.endswith(";")]
    return [words for words in lines if not words.startswith(".")]


def _opcodes(instructions: Sequence[str]) -> list[str]:
    found = [re.sub(r"^@\S+ ", "", words).split()[0].rstrip(";") for words in instructions]
    return list(dict.fromkeys(found))


def rewritten(verdict: Verdict, reduced: Reduced) -> str | None:
    """Return what a pass or a planted fault makes of a kernel; None where the text stays so."""
    ran = verdict.answerers[0].runner.compile(reduced.setup.module(reduced.ptx))
    if isinstance(ran, Compiled) and ran.module.ptx != reduced.ptx:
        return ran.module.ptx
    return None


def files_of(verdict: Verdict, reduced: Reduced, original: str) -> Mapping[str, bytes]:
    """Return the files of a finding by name."""
    files = {
        MODULE: reduced.ptx.encode(),
        ORIGINAL: original.encode(),
        LAUNCH: reduced.setup.toml.encode(),
        INPUT: pack(reduced.image[None]),
    }
    if (ran := rewritten(verdict, reduced)) is not None:
        files[REWRITTEN] = ran.encode()
    if verdict.expected is not None:
        files[EXPECTED] = pack(verdict.expected[None])
    if verdict.actual is not None:
        files[ACTUAL] = pack(verdict.actual[None])
    return files
