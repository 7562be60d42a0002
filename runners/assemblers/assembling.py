"""Taking the survivors of sifting through every phase, in groups that are halved where they fail.

A module with an error never reaches the later phases, so survivors are assembled apart from all
that is rejected. A group that assembles is accepted as a whole. Of one that does not, the lines
that the assembler names are judged alone, or else its halves are tried, down to one instruction.

Measured in 2026-11 with ptxas 13.5 on sm_90, milliseconds for each instruction of a module: 1.8
with an entry each and the results stored, 0.8 with eight in an entry; 1.0 and 0.5 where the results
are not stored, since the optimiser drops the instruction then. -O0 to -O3 take about the same.
Storing the results changed none of 2,185 verdicts (13.5 on sm_75 and sm_100a, 12.0 on sm_70 and
sm_75), nor did -O0 any of 406 (13.5 on sm_90). They are stored, at the default level, because that
is what programs do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runners.assemblers.judgements import Judgement, Outcome, Verdict
from runners.assemblers.messages import parse
from runners.assemblers.session import Session
from runners.instruction_modules import assembly_module

# A failing group costs log2 of its size in processes, a larger one less of the 10 ms that a
# process takes to start: 64 instructions take 60 ms.
GROUP = 64
_PER_ENTRY = 8
# An instruction takes below 2 ms. A group that is stopped early is halved, so that the limit
# decides only how long a hang takes to isolate.
_SECONDS_FOR_EACH, _LEAST_SECONDS = 0.02, 1.0


def assemble(session: Session, survivors: Sequence[str]) -> Iterator[Judgement]:
    """Judge instructions that sifting did not reject; they come in no particular order."""
    for start in range(0, len(survivors), GROUP):
        yield from _settle(session, survivors[start : start + GROUP])


def _settle(session: Session, group: Sequence[str]) -> Iterator[Judgement]:
    if len(group) == 1:
        yield session.judge_alone(group[0])
        return
    listing = assembly_module(
        group, per_entry=_PER_ENTRY, target=session.target, version=session.version
    )
    seconds = min(session.deadline, _LEAST_SECONDS + _SECONDS_FOR_EACH * len(group))
    tried = session.assemble(listing.text, deadline=seconds)
    told: dict[int, list[str]] = {}
    for message in parse(tried.output).messages:
        if message.line is not None and not message.is_foreign:
            told.setdefault(message.line, []).append(str(message))
    if tried.verdict.outcome is Outcome.ACCEPTED:
        for text, line in zip(group, listing.lines, strict=True):
            warnings = tuple(told.get(line, ()))
            yield session.judgement(text, Verdict(outcome=Outcome.ACCEPTED, messages=warnings))
        return
    named = [text for text, line in zip(group, listing.lines, strict=True) if line in told]
    if 0 < len(named) < len(group):
        for text in named:
            yield session.judge_alone(text)
        rest = [text for text in group if text not in named]
        yield from _settle(session, rest)
    else:
        middle = len(group) // 2
        yield from _settle(session, group[:middle])
        yield from _settle(session, group[middle:])
