"""Fewer steps: dropped alone and in groups, branches and loops unwrapped, words to constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fuzz.shrinking.draft import Draft, Edits, Site, Steps, edited, visit
from fuzz.shrinking.tidying import read_names, reading_instead, tidied, used_buffers, written_name
from fuzz.shrinking.tiles import room_for, tile_of
from oracle.forms import LdmatrixForm
from oracle.image import position
from oracle.places import Uniform, Word
from oracle.program import Program, walk
from oracle.steps import (
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


def drops(draft: Draft, size: int) -> Iterator[Draft]:
    """Iterate over drafts without one run of `size` steps each, and what only they needed.

    The steps inside a branch or a loop are counted one by one as well. Where one step that
    computes is dropped, what read its result reads instead what it read.
    """
    sites = list(visit(draft.program.steps))
    for start in range(0, len(sites), size):
        group = sites[start : start + size]
        yield from dropped(draft, group)


def dropped(draft: Draft, group: Sequence[tuple[Site, Step]]) -> Iterator[Draft]:
    """Iterate over drafts without these steps."""
    steps = draft.program.steps
    edits: Edits = {site: () for site, _ in group}
    for rest in _bypassing(steps, group, edits):
        smaller = draft.with_program(draft.program.buffers, rest)
        yield tidied(smaller)
        yield smaller


def _bypassing(steps: Steps, group: Sequence[tuple[Site, Step]], edits: Edits) -> Iterator[Steps]:
    """Iterate over what is left of steps when some go: as it is, and with results replaced."""
    yield edited(steps, edits)
    if len(group) != 1:
        return
    ((gone, step),) = group
    name = written_name(step)
    if name is None or not isinstance(step, Multiply | Elementwise):
        return
    operands = [step.c] if isinstance(step, Multiply) else [step.source]
    sites = list(visit(steps))
    later = sites[sites.index((gone, step)) + 1 :]
    for operand in operands:
        redirected = dict(edits)
        for site, other in later:
            if name in read_names(other):
                redirected[site] = (reading_instead(other, name, operand),)
            if written_name(other) == name:
                break
        yield edited(steps, redirected)


def unwraps(draft: Draft) -> Iterator[Draft]:
    """Iterate over drafts in which one branch or loop is simpler, the simplest first."""
    for site, step in visit(draft.program.steps):
        for steps in _simpler(draft, step):
            changed = edited(draft.program.steps, {site: steps})
            yield tidied(draft.with_program(draft.program.buffers, changed))


def _simpler(draft: Draft, step: Step) -> Iterator[Steps]:
    match step:
        case Branch(condition=condition, then=then, otherwise=otherwise):
            yield then or otherwise
            if then and otherwise:
                yield otherwise
                yield (replace(step, otherwise=()),)
                yield (replace(step, then=()),)
            if isinstance(condition, Word):
                yield from ((replace(step, condition=taken),) for taken in (1, 0))
            elif condition > 1:
                yield (replace(step, condition=1),)
        case Loop(count=count, body=body):
            yield body
            most = _value(draft, count)
            fewer = [least for least in (1, 2) if least < most]
            if isinstance(count, Word):
                fewer.append(most)
            yield from ((replace(step, count=number),) for number in fewer)


def _value(draft: Draft, value: Uniform) -> int:
    """Return a uniform number as the image has it before the program."""
    if not isinstance(value, Word):
        return value
    start = position(draft.program, value.place)
    word = int.from_bytes(draft.image[start : start + 4].tobytes(), "little")
    return word & value.mask
