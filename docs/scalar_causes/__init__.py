"""Known defects of ptxas in scalar code, each written out as other PTX.

A program with the defect written out gives what its machine code gives, byte by byte, where that
defect and no other is in it: so is a wrong program of the matrix (docs/same_ptx.py) explained.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from oracle.errors import UsageError
from oracle.lane_code import LaneCode
from oracle.program import Program, walk
from oracle.steps import Branch, Loop, Step
from scalar_causes import branches, instructions
from scalar_causes.branches import Written
from scalar_causes.cause import Cause

CAUSES = (*instructions.CAUSES, *branches.CAUSES)
"""All of them, those before first that a program is tried with."""
_TOGETHER = 3
"""Most defects that one program is asked for: of 1,000 programs two had two (2026-11-23)."""
BY_MACHINE_CODE = {
    "42/3456": "mad.hi loses an addend",
    "42/4101": "set to f16 and bf16",
    "42/7763": "set to f16 and bf16",
    "42/11138": "A loop that lanes enter at two places",
    "42/14723": "Lanes that a loop leaves apart",
    "42/18773": "mad.hi loses an addend",
    "42/19555": "mad.hi loses an addend",
    **dict.fromkeys(
        ("42/4442", "42/12355", "42/13189", "42/13268"),
        "selp.f32 by a predicate that a branch says",
    ),
}
"""Programs, by seed and number, whose defect PTX cannot say: sections of docs/findings.md."""


def _steps(steps: Sequence[Step], causes: Sequence[Cause]) -> tuple[Step, ...]:
    made: list[Step] = []
    for step in steps:
        match step:
            case LaneCode():
                made.append(replace(step, code=Written(causes).whole(step)))
            case Branch():
                then, otherwise = _steps(step.then, causes), _steps(step.otherwise, causes)
                made.append(replace(step, then=then, otherwise=otherwise))
            case Loop():
                made.append(replace(step, body=_steps(step.body, causes)))
            case _:
                made.append(step)
    return tuple(made)


def possible(program: Program) -> list[Cause]:
    """Return the defects that a program can show."""
    return [cause for cause in CAUSES if _shows(program, cause)]


def _shows(program: Program, cause: Cause) -> bool:
    # What one makes of constants, another one may find.
    folds = [one for one in CAUSES if one.folds and one.unrolls == cause.unrolls]
    written = Written(folds if cause.folds else (cause,))
    for step in walk(program.steps):
        if isinstance(step, LaneCode):
            written.whole(step)
    return cause.name in written.folded if cause.folds else written.seen


def with_defects(program: Program) -> Iterator[tuple[Sequence[str], Program]]:
    """Yield a program with each of the defects that it can show written out, then with several.

    Each comes with the names of the defects.
    """
    found = possible(program)
    for number in range(1, min(len(found), _TOGETHER) + 1):
        for causes in combinations(found, number):
            if len({cause.name for cause in causes}) < number:
                continue
            try:
                made = replace(program, steps=_steps(program.steps, causes))
            except UsageError:  # it takes too many statements
                continue
            yield list(dict.fromkeys(cause.name for cause in causes)), made
