"""Asking a ptxas about the findings of the record, always in the same way."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from corpus import Entry
from corpus.recorded import Answers
from fuzz.findings.case import MODULE
from oracle.targets import PtxVersion, parse_version
from runners.assemblers.assembler import Assembler
from runners.assemblers.judgements import Outcome, Verdict
from runners.assemblers.judging import judge_module

STAND_IN = "sm_80"
"""Known to every ptxas from 11.0 to 13.5, with every form that is not newer than its PTX ISA."""
WORDS = {
    Outcome.ACCEPTED: "accepted",
    Outcome.REJECTED: "rejected",
    Outcome.INTERNAL: "internal error",
    Outcome.CRASHED: "crash",
    Outcome.HUNG: "hang",
    Outcome.UNREADABLE: "unreadable",
}
_TARGET = re.compile(r"^(\s*\.target\s+)sm_\w+", re.MULTILINE)
_VERSION = re.compile(r"^(\s*\.version\s+)\d+\.\d+", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Said:
    """What an assembler made of a finding's module."""

    verdict: Verdict
    target: str
    """The finding's own, or `STAND_IN`."""
    version: PtxVersion
    """The finding's own, or the assembler's highest."""

    @property
    def words(self) -> str:
        """The outcome, as the record has it."""
        return WORDS[self.verdict.outcome]


def with_module(ptx: str, *, target: str, version: PtxVersion | str) -> str:
    """Return a module with another `.target` and `.version`."""
    text = _VERSION.sub(rf"\g<1>{version}", ptx, count=1)
    return _TARGET.sub(rf"\g<1>{target}", text, count=1)


def ask(assembler: Assembler, entry: Entry) -> Said | None:
    """Assemble a finding's module at -O3; None if the assembler takes neither target.

    Raises
    ------
    BrokenEntryError
        If the module is not as it was stored.
    InfrastructureError
        If the assembler cannot be started.
    """
    finding = entry.finding
    version = min(parse_version(finding.ptx_version), assembler.highest_version)
    for target in (finding.target, STAND_IN):
        if assembler.accepts(version, target):
            ptx = entry.read(MODULE).decode(errors="replace")
            text = with_module(ptx, target=target, version=version)
            verdict = judge_module(assembler, text, target=target)
            return Said(verdict=verdict, target=target, version=version)
    return None


def asked(
    answers: Answers, assembler: Assembler, entries: Sequence[Entry], *, jobs: int
) -> Answers:
    """Return the answers of a record with those of one more assembler.

    Parameters
    ----------
    jobs
        Processes that run at the same time.
    """
    name = assembler.version.removeprefix("V")
    entries = [entry for entry in entries if answers.of(entry.id)]
    with ThreadPoolExecutor(jobs) as pool:
        said = list(pool.map(lambda entry: ask(assembler, entry), entries))
    told = {
        entry.id: dict(zip(answers.asked, answers.of(entry.id), strict=True))
        | {name: None if one is None else one.words}
        for entry, one in zip(entries, said, strict=True)
    }
    order = sorted({*answers.asked, name}, key=lambda one: [int(part) for part in one.split(".")])
    return Answers(
        asked=tuple(order),
        answers={id_: tuple(row[one] for one in order) for id_, row in told.items()},
    )
