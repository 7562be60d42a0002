"""Fewer steps: dropped alone and in groups, branches and loops unwrapped, words to constants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fuzz.shrinking.draft import Draft
from fuzz.shrinking.names import read_names, reading_instead, written_name
from fuzz.shrinking.sites import Edits, Site, Steps, edited, visit
from fuzz.shrinking.tidying import tidied
from oracle.image import position
from oracle.program import Branch, Elementwise, Loop, Multiply, Step, Uniform, Word


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
