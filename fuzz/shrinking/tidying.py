"""Taking out of a program what nothing needs any more."""

from __future__ import annotations

from fuzz.shrinking.draft import Draft
from fuzz.shrinking.names import read_buffers, read_names, written_buffer, written_name
from fuzz.shrinking.sites import Steps, edited, visit
from oracle.program import Barrier, Branch, Buffer, Copy, LoadRows, Loop, Multiply, Step, walk


def tidied(draft: Draft) -> Draft:
    """Return a draft without steps and buffers that have no use.

    These are steps whose fragment nothing reads, but never the last multiplication or ldmatrix;
    copies into shared memory that nothing reads, and out of shared memory that nothing writes;
    empty branches and loops; barriers at the ends, or two in a row; buffers that no step names.
    """
    steps = draft.program.steps
    while True:
        useless = [
            site for site, step in visit(steps) if _is_useless(step, steps, draft.program.buffers)
        ]
        if not useless:
            break
        steps = edited(steps, {useless[-1]: ()})
    steps = _without_idle_barriers(steps)
    return draft.with_program(used_buffers(draft.program.buffers, steps), steps)


def used_buffers(buffers: tuple[Buffer, ...], steps: Steps) -> tuple[Buffer, ...]:
    """Return the buffers that steps name; the first global one if there is no other."""
    named: set[str | None] = set()
    for step in walk(steps):
        named |= {*read_buffers(step), written_buffer(step)}
    used = tuple(buffer for buffer in buffers if buffer.name in named)
    if any(buffer.space == "global" for buffer in used):
        return used
    first = next(buffer for buffer in buffers if buffer.space == "global")
    return (first, *used)


def _is_useless(step: Step, steps: Steps, buffers: tuple[Buffer, ...]) -> bool:
    every = list(walk(steps))
    name = written_name(step)
    if name is not None:
        main = (Multiply, LoadRows)
        if isinstance(step, main) and sum(isinstance(other, main) for other in every) == 1:
            return False
        return not any(name in read_names(other) for other in every)
    match step:
        case Copy():
            shared = {buffer.name for buffer in buffers if buffer.space == "shared"}
            read = any(step.destination.buffer in read_buffers(other) for other in every)
            written = any(written_buffer(other) == step.source.buffer for other in every)
            return (step.destination.buffer in shared and not read) or (
                step.source.buffer in shared and not written
            )
        case Branch():
            return not step.then and not step.otherwise
        case Loop():
            return not step.body
        case _:
            return False


def _without_idle_barriers(steps: Steps) -> Steps:
    kept: list[Step] = []
    for step in steps:
        if not (isinstance(step, Barrier) and (not kept or isinstance(kept[-1], Barrier))):
            kept.append(step)
    while kept and isinstance(kept[-1], Barrier):
        kept.pop()
    return tuple(kept)
