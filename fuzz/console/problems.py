"""What is wrong with a corpus, for people."""

from __future__ import annotations

from collections.abc import Iterable

from corpus import Cause, Problem
from fuzz.output import console
from oracle.errors import InfrastructureError


def report_problems(problems: Iterable[Problem], *, fail: bool = True) -> None:
    """Print what is wrong with a corpus, behind all that is right.

    Raises
    ------
    InfrastructureError
        If findings are broken, and `fail` is set. What a killed writer left is no finding.
    """
    errors = console(stderr=True)
    broken = 0
    for problem in problems:
        errors.print(f"warpfuzz: {problem.sentence}", style="odd", markup=False, soft_wrap=True)
        broken += problem.cause is not Cause.LEFTOVER
    if broken and fail:
        entries = "entry of the corpus is" if broken == 1 else "entries of the corpus are"
        raise InfrastructureError(
            f"{broken} {entries} broken and left out; mend or remove what is named above"
        )
