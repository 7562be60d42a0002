"""Shorter buffers and copies: what no step reaches goes, but for a guard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from fuzz.shrinking.draft import Draft
from fuzz.shrinking.sites import Site, Steps, edited, visit
from fuzz.shrinking.tidying import tidied, used_buffers
from fuzz.shrinking.tiles import room_for, tile_of
from oracle.isa import LdmatrixForm
from oracle.program import (
    Branch,
    Copy,
    Load,
    LoadRows,
    Loop,
    Program,
    Store,
    StoreRegisters,
    Word,
    walk,
)

_GUARD_BYTES = 32
"""Bytes kept behind rows and registers; behind matrices it is a line more."""


def trims(draft: Draft) -> Iterator[Draft]:
    """Iterate over drafts with shorter buffers: all of them, then one at a time; never longer."""
    program = draft.program
    used = used_buffers(program.buffers, program.steps)
    if used != program.buffers:
        yield draft.with_program(used, program.steps)
    needs = _needs(program)
    copies: dict[Site, Steps] = {}
    for site, step in visit(program.steps):
        if isinstance(step, Copy):
            size = _copied(program, step, needs)
            if size < step.size:
                copies[site] = (replace(step, size=size),)
    for edits in [copies, *({site: steps} for site, steps in copies.items())]:
        changed = draft.with_program(program.buffers, edited(program.steps, edits))
        yield from _shortened(changed)
        if edits:
            yield tidied(changed)


def _shortened(draft: Draft) -> Iterator[Draft]:
    """Iterate over drafts with shorter buffers under the same steps."""
    program = draft.program
    needs = _reached(program)
    shorter = {
        buffer.name: replace(buffer, size=needs[buffer.name])
        for buffer in program.buffers
        if 0 < needs.get(buffer.name, 0) < buffer.size
    }
    for names in [list(shorter), *([name] for name in shorter)]:
        if names:
            buffers = [
                shorter[buffer.name] if buffer.name in names else buffer
                for buffer in program.buffers
            ]
            yield draft.with_program(buffers, program.steps)


def _needs(program: Program) -> dict[str, int]:
    """Return the bytes of each buffer that matrices, rows, registers and words need."""
    ends: dict[str, int] = {}

    def reach(buffer: str, end: int) -> None:
        ends[buffer] = max(end, ends.get(buffer, 0))

    for step in walk(program.steps):
        match step:
            case Load() | Store():
                reach(step.place.buffer, step.place.offset + room_for(tile_of(step)))
            case LoadRows():
                end = max(step.addresses) + LdmatrixForm.ROW_BYTES + _GUARD_BYTES
                reach(step.buffer, end)
            case StoreRegisters():
                reach(step.place.buffer, step.place.offset + step.size + _GUARD_BYTES)
            case Branch(condition=Word() as word) | Loop(count=Word() as word):
                reach(word.place.buffer, word.place.offset + 4)
            case _:
                pass
    return {name: min(end, program.buffer(name).size) for name, end in ends.items()}


def _reached(program: Program) -> dict[str, int]:
    """Return the same with what copies need."""
    ends = _needs(program)
    for step in walk(program.steps):
        if isinstance(step, Copy):
            for place in (step.source, step.destination):
                ends[place.buffer] = max(ends.get(place.buffer, 0), place.offset + step.size)
    return ends


def _copied(program: Program, step: Copy, needs: Mapping[str, int]) -> int:
    """Return how much of a copy is of use to the steps that use its shared end."""
    for place in (step.destination, step.source):
        if program.buffer(place.buffer).space == "shared":
            used = needs.get(place.buffer, 0) - place.offset
            return min(step.size, used) if used > 0 else step.size
    return step.size
