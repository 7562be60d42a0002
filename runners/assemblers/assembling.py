"""Assembles what sifting has left, in groups that are halved where they fail.

A module with an error never reaches the later phases, so survivors are assembled apart from all
that is rejected. A group that assembles is accepted as a whole. Of one that does not, the lines
that the assembler names are judged alone, or else its halves are tried, down to one instruction.
What is likely to fail is told by whoever asks (`Doubt`), and kept apart from the rest: half of the
illegal instructions that survive sifting fail, and next to none of the legal ones (ptxas 13.5).

Measured in 2026-11 with ptxas 13.5 on sm_90, milliseconds for each instruction of a module: 1.8
with an entry each and the results stored, 0.8 with eight in an entry; 1.0 and 0.5 where the results
are not stored, since the optimiser drops the instruction then. -O0 to -O3 take about the same.
Storing the results changed none of 2,185 verdicts (13.5 on sm_75 and sm_100a, 12.0 on sm_70 and
sm_75), nor did -O0 any of 406 (13.5 on sm_90). They are stored, at the default level, because that
is what programs do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum

from runners.assemblers.judgements import Judgement, Response, ToolVerdict
from runners.assemblers.messages import parse
from runners.assemblers.session import ToolSession
from runners.instruction_modules import assembly_module


class Doubt(IntEnum):
    """How likely an instruction fails that was not rejected in bulk: a hint for speed alone."""

    NONE = 0
    """The instruction is expected to assemble."""
    SOME = 1
    STRONG = 2
    """One like it failed."""


# A process takes 25 ms to start, as long as 25 instructions take in it (ptxas 13.5, 2026-11); a
# failing group costs log2 of its size in processes.
_GROUPS = {Doubt.NONE: 256, Doubt.SOME: 16, Doubt.STRONG: 1}
"""Most instructions of a group."""
_PER_ENTRY = 8
# An instruction takes below 2 ms. A group that is stopped early is halved, so that the limit
# decides only how long a hang takes to isolate.
_SECONDS_FOR_EACH, _LEAST_SECONDS = 0.02, 1.0


def assemble(
    session: ToolSession, survivors: Sequence[str], doubt: Callable[[str], Doubt]
) -> Iterator[Judgement]:
    """Judge instructions that sifting did not reject; they come in no particular order."""
    doubted = {text: doubt(text) for text in survivors}
    for level, size in _GROUPS.items():
        # Those that are alike stand together, where a group holds what fails or what does not.
        alike = sorted(text for text, its in doubted.items() if its is level)
        for start in range(0, len(alike), size):
            yield from _settle(session, alike[start : start + size])


def _settle(
    session: ToolSession, group: Sequence[str], *, fails: bool = False
) -> Iterator[Judgement]:
    """Judge a group; `fails`: it is known to, and need not be tried as a whole."""
    if len(group) == 1:
        yield session.judge_alone(group[0])
        return
    told: dict[int, list[str]] = {}
    named: list[str] = []
    if not fails:
        listing = assembly_module(
            group, per_entry=_PER_ENTRY, target=session.target, version=session.version
        )
        seconds = min(session.deadline, _LEAST_SECONDS + _SECONDS_FOR_EACH * len(group))
        tried = session.assemble(listing.text, deadline=seconds)
        for message in parse(tried.output).messages:
            if message.line is not None and not message.is_foreign:
                told.setdefault(message.line, []).append(str(message))
        if tried.verdict.outcome is Response.ACCEPTED:
            for text, line in zip(group, listing.lines, strict=True):
                warnings = tuple(told.get(line, ()))
                yield session.judgement(
                    text, ToolVerdict(outcome=Response.ACCEPTED, messages=warnings)
                )
            return
        named = [text for text, line in zip(group, listing.lines, strict=True) if line in told]
    if 0 < len(named) < len(group):
        for text in named:
            yield session.judge_alone(text)
        yield from _settle(session, [text for text in group if text not in named])
        return
    middle = len(group) // 2
    first = list(_settle(session, group[:middle]))
    yield from first
    at_fault = all(one.outcome is Response.ACCEPTED for one in first)
    yield from _settle(session, group[middle:], fails=at_fault)
