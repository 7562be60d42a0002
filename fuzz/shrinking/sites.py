"""Steps of a program by where they stand, and programs with some of them changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from oracle.program import Branch, Loop, Step

Site = tuple[int | str, ...]
"""Where a step stands: (3,), or (3, "then", 0) for the first step in the arm of a branch."""
Steps = tuple[Step, ...]
Edits = Mapping[Site, Steps]
"""What stands in the place of some steps; () drops one."""


def visit(steps: Steps, prefix: Site = ()) -> Iterator[tuple[Site, Step]]:
    """Iterate over steps and those inside branches and loops, in the order of the text."""
    for index, step in enumerate(steps):
        site = (*prefix, index)
        yield site, step
        if isinstance(step, Branch):
            yield from visit(step.then, (*site, "then"))
            yield from visit(step.otherwise, (*site, "otherwise"))
        elif isinstance(step, Loop):
            yield from visit(step.body, (*site, "body"))


def edited(steps: Steps, edits: Edits, prefix: Site = ()) -> Steps:
    """Return steps with some of them changed; inside a step that is changed nothing else is."""
    result: list[Step] = []
    for index, step in enumerate(steps):
        site = (*prefix, index)
        if site in edits:
            result += edits[site]
        elif isinstance(step, Branch):
            result.append(
                replace(
                    step,
                    then=edited(step.then, edits, (*site, "then")),
                    otherwise=edited(step.otherwise, edits, (*site, "otherwise")),
                )
            )
        elif isinstance(step, Loop):
            result.append(replace(step, body=edited(step.body, edits, (*site, "body"))))
        else:
            result.append(step)
    return tuple(result)
