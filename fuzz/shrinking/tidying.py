"""Taking out of a program what nothing needs any more."""

from __future__ import annotations

from dataclasses import replace

from fuzz.shrinking.draft import Draft, Steps, edited, visit
from oracle.places import Buffer, Word
from oracle.program import walk
from oracle.steps import (
    Barrier,
    Branch,
    Copy,
    Elementwise,
    Load,
    LoadRows,
    Loop,
    Multiply,
    Step,
    Store,
    StoreRegisters,
)


def read_names(step: Step) -> tuple[str, ...]:
    """Return the fragments and registers that a step itself reads."""
    match step:
        case Multiply():
            return (step.a, step.b, step.c)
        case Store():
            return (step.fragment,)
        case Elementwise():
            return (step.source,)
        case StoreRegisters():
            return (step.registers,)
        case _:
            return ()


def written_name(step: Step) -> str | None:
    """Return the fragment or the registers that a step itself writes."""
    match step:
        case Load():
            return step.fragment
        case Multiply():
            return step.d
        case Elementwise():
            return step.destination
        case LoadRows():
            return step.registers
        case _:
            return None


def reading_instead(step: Step, old: str, new: str) -> Step:
    """Return a step that reads one name where it read another."""
    match step:
        case Multiply():
            a, b, c = (new if name == old else name for name in (step.a, step.b, step.c))
            return replace(step, a=a, b=b, c=c)
        case Store(fragment=name) if name == old:
            return replace(step, fragment=new)
        case Elementwise(source=name) if name == old:
            return replace(step, source=new)
        case StoreRegisters(registers=name) if name == old:
            return replace(step, registers=new)
        case _:
            return step


def read_buffers(step: Step) -> tuple[str, ...]:
    """Return the buffers that a step itself reads."""
    match step:
        case Load():
            return (step.place.buffer,)
        case LoadRows():
            return (step.buffer,)
        case Copy():
            return (step.source.buffer,)
        case Branch(condition=Word() as word) | Loop(count=Word() as word):
            return (word.place.buffer,)
        case _:
            return ()


def written_buffer(step: Step) -> str | None:
    """Return the buffer that a step itself writes."""
    match step:
        case Store() | StoreRegisters():
            return step.place.buffer
        case Copy():
            return step.destination.buffer
        case _:
            return None


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
