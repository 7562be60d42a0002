"""Fewer steps: dropped alone and in groups, branches and loops unwrapped, words to constants.

What nothing needs any more, steps and buffers, goes with them (`tidied`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from oracle.forms import ROW_BYTES
from oracle.image import position
from oracle.ops import accesses_matrix, accesses_rows, is_main
from oracle.places import Buffer, Uniform, Word
from oracle.program import Program, walk
from oracle.registers import listed
from oracle.steps import Barrier, Branch, Copy, Loop, Step, copies_bytes
from strategies.programs.builder import GUARD_BYTES
from strategies.simplification.examples import (
    Edits,
    Example,
    Site,
    Steps,
    edited,
    visit,
)

_BARRIER = Barrier()


def tidied(example: Example) -> Example:
    """Return an example without steps and buffers that have no use.

    These are steps whose fragment nothing reads, but never the last matrix instruction;
    copies into shared memory that nothing reads, and out of shared memory that nothing writes;
    empty branches and loops; barriers at the ends, or two in a row; buffers that no step names.
    """
    steps = example.program.steps
    while True:
        useless = [
            site for site, step in visit(steps) if _is_useless(step, steps, example.program.buffers)
        ]
        if not useless:
            break
        steps = edited(steps, {useless[-1]: ()})
    steps = _without_idle_barriers(steps)
    return example.with_program(used_buffers(example.program.buffers, steps), steps)


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
        if is_main(step) and sum(is_main(other) for other in every) == 1:
            return False
        result = set(made.registers)
        return all(result.isdisjoint(use.registers) for other in every for use in other.reads)
    if copies_bytes(step):
        shared = {buffer.name for buffer in buffers if buffer.space == "shared"}
        read = {span.buffer for other in every for span in other.bytes_read}
        written = {span.buffer for other in every for span in other.bytes_written}
        return step.destination.buffer in shared - read or step.source.buffer in shared - written
    return bool(step.blocks) and not any(step.blocks.values())


def _without_idle_barriers(steps: Steps) -> Steps:
    kept: list[Step] = []
    for step in steps:
        if step != _BARRIER or (kept and kept[-1] != _BARRIER):
            kept.append(step)
    while kept and kept[-1] == _BARRIER:
        kept.pop()
    return tuple(kept)


def trims(example: Example) -> Iterator[Example]:
    """Iterate over examples with shorter buffers: all of them, then one at a time; never longer."""
    program = example.program
    used = used_buffers(program.buffers, program.steps)
    if used != program.buffers:
        yield example.with_program(used, program.steps)
    needs = _reached(program, copies=False)
    copies: dict[Site, Steps] = {}
    for site, step in visit(program.steps):
        if copies_bytes(step):
            size = _copied(program, step, needs)
            if size < step.size:
                copies[site] = (replace(step, size=size),)
    for edits in [copies, *({site: steps} for site, steps in copies.items())]:
        changed = example.with_program(program.buffers, edited(program.steps, edits))
        yield from _shortened(changed)
        if edits:
            yield tidied(changed)


def _shortened(example: Example) -> Iterator[Example]:
    """Iterate over examples with shorter buffers under the same steps."""
    program = example.program
    needs = _reached(program, copies=True)
    shorter = {name for name, end in needs.items() if 0 < end < program.buffer(name).size}
    for names in [shorter, *({name} for name in sorted(shorter))]:
        if names:
            buffers = [
                replace(one, size=needs[one.name]) if one.name in names else one
                for one in program.buffers
            ]
            yield example.with_program(buffers, program.steps)


def _reached(program: Program, *, copies: bool) -> dict[str, int]:
    """Return the bytes of each buffer that steps need, with a guard behind what is in registers."""
    ends: dict[str, int] = {}
    for step in walk(program.steps):
        if copies_bytes(step) and not copies:
            continue
        guard = GUARD_BYTES if step.uses else 0
        reached = [(span.buffer, span.end) for span in (*step.bytes_read, *step.bytes_written)]
        if accesses_matrix(step):
            place = step.memory.place
            reached = [(place.buffer, place.offset + step.tile.extent + step.tile.pitch)]
        elif accesses_rows(step):
            reached.append((step.memory.buffer, max(step.memory.addresses) + ROW_BYTES))
        for buffer, end in reached:
            ends[buffer] = max(end + guard, ends.get(buffer, 0))
    return {name: min(end, program.buffer(name).size) for name, end in ends.items()}


def _copied(program: Program, step: Copy, needs: Mapping[str, int]) -> int:
    """Return how much of a copy is of use to the steps that use its shared end."""
    for place in (step.destination, step.source):
        if program.buffer(place.buffer).space == "shared":
            used = needs.get(place.buffer, 0) - place.offset
            return min(step.size, used) if used > 0 else step.size
    return step.size


def drops(example: Example, size: int) -> Iterator[Example]:
    """Iterate over examples without one run of `size` steps each, and what only they needed.

    The steps inside a branch or a loop are counted one by one as well. Where one step that
    computes is dropped, what read its result reads instead what it read.
    """
    sites = list(visit(example.program.steps))
    for start in range(0, len(sites), size):
        group = sites[start : start + size]
        yield from dropped(example, group)


def dropped(example: Example, group: Sequence[tuple[Site, Step]]) -> Iterator[Example]:
    """Iterate over examples without these steps."""
    steps = example.program.steps
    edits: Edits = {site: () for site, _ in group}
    for rest in _bypassing(steps, group, edits):
        smaller = example.with_program(example.program.buffers, rest)
        yield tidied(smaller)
        yield smaller


def _bypassing(steps: Steps, group: Sequence[tuple[Site, Step]], edits: Edits) -> Iterator[Steps]:
    """Iterate over what is left of steps when some go: as it is, and with results replaced."""
    yield edited(steps, edits)
    if len(group) != 1:
        return
    ((gone, step),) = group
    made, operand = step.writes, step.carried
    if made is None or operand is None:
        return
    # A sparse multiplication of numbers by themselves reads one vector in several places.
    sizes = {use.holds.registers for use in step.reads if use.name == operand}
    redirected, written = dict(edits), set(made.registers)
    sites = list(visit(steps))
    for site, other in sites[sites.index((gone, step)) + 1 :]:
        reading = [use for use in other.reads if use.name == made.name]
        # A vector has a number of registers, and is another operand's only if that has as many.
        if reading and all(use.holds.registers in sizes or not listed(operand) for use in reading):
            redirected[site] = (other.reading(made.name, operand),)
        if other.writes is not None and not written.isdisjoint(other.writes.registers):
            break
    yield edited(steps, redirected)


def unwraps(example: Example) -> Iterator[Example]:
    """Iterate over examples in which one branch or loop is simpler, the simplest first."""
    for site, step in visit(example.program.steps):
        for steps in _simpler(example, step):
            changed = edited(example.program.steps, {site: steps})
            yield tidied(example.with_program(example.program.buffers, changed))


def _simpler(example: Example, step: Step) -> Iterator[Steps]:
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
            most = _value(example, count)
            fewer = [least for least in (1, 2) if least < most]
            if isinstance(count, Word):
                fewer.append(most)
            yield from ((replace(step, count=number),) for number in fewer)


def _value(example: Example, value: Uniform) -> int:
    """Return a uniform number as the image has it before the program."""
    if not isinstance(value, Word):
        return value
    start = position(example.program, value.place)
    word = int.from_bytes(example.image[start : start + 4].tobytes(), "little")
    return word & value.mask
