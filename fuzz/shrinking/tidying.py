"""Taking out of a program what nothing needs any more."""

from __future__ import annotations

from fuzz.shrinking.draft import Draft, Steps, edited, visit
from oracle.lane_steps import LoadRows
from oracle.places import Buffer
from oracle.program import walk
from oracle.steps import Barrier, Copy, Multiply, Step


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
    named = {
        span.buffer for step in walk(steps) for span in (*step.bytes_read, *step.bytes_written)
    }
    used = tuple(buffer for buffer in buffers if buffer.name in named)
    if any(buffer.space == "global" for buffer in used):
        return used
    first = next(buffer for buffer in buffers if buffer.space == "global")
    return (first, *used)


def _is_useless(step: Step, steps: Steps, buffers: tuple[Buffer, ...]) -> bool:
    every = list(walk(steps))
    made = step.writes
    if made is not None:
        main = (Multiply, LoadRows)
        if isinstance(step, main) and sum(isinstance(other, main) for other in every) == 1:
            return False
        return not any(made.name == use.name for other in every for use in other.reads)
    if isinstance(step, Copy):
        shared = {buffer.name for buffer in buffers if buffer.space == "shared"}
        read = {span.buffer for other in every for span in other.bytes_read}
        written = {span.buffer for other in every for span in other.bytes_written}
        return step.destination.buffer in shared - read or step.source.buffer in shared - written
    return bool(step.blocks) and not any(step.blocks.values())


def _without_idle_barriers(steps: Steps) -> Steps:
    kept: list[Step] = []
    for step in steps:
        if not (isinstance(step, Barrier) and (not kept or isinstance(kept[-1], Barrier))):
            kept.append(step)
    while kept and isinstance(kept[-1], Barrier):
        kept.pop()
    return tuple(kept)
