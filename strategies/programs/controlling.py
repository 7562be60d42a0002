"""Branches and loops around parts of a program."""

from __future__ import annotations

from collections.abc import Callable

from oracle.places import Place, Span, Uniform, Word
from oracle.steps import Branch, Loop
from strategies.features import Feature, Has
from strategies.programs.builder import Builder, Dice

Part = Callable[[], None]
"""Appends steps to the builder's scope, and leaves nothing unstored."""

LOOPS = (Has.LOOP_CONSTANT, Has.LOOP_WORD)
BRANCHES = (Has.BRANCH_CONSTANT, Has.BRANCH_WORD)

_COUNTS = (2, 3, 1, 4, 2, 3, 7, 2)
"""Constants that loops run to; most compilers unroll them."""
_COUNT_MASKS = (3, 1, 2, 7)
_CONDITIONS = (1, 0, 0xFFFF_FFFF, 0x8000_0000)
_CONDITION_MASKS = (1, 2, 0x8000, 0x8000_0000)
"""Masks of words on which a branch depends: single bits, so that both arms are taken."""
_WORDS = 8
"""Words of the buffer of words."""


def around(builder: Builder, kinds: tuple[Feature, ...], part: Part, other: Part) -> None:
    """Append a part inside of branches and loops.

    Parameters
    ----------
    kinds
        Of LOOPS and BRANCHES, the outermost first.
    part
        What is inside.
    other
        What stands in the other arm of a branch that has two.
    """
    if not kinds:
        part()
        return
    kind, inner = kinds[0], kinds[1:]
    if inner:
        builder.take(Has.NESTED)
    dice = builder.dice()
    if kind in LOOPS:
        builder.take(kind, Has.LOOP)
        _loop(builder, kind, dice, lambda: around(builder, inner, part, other))
    else:
        builder.take(kind, Has.BRANCH)
        _branch(builder, kind, dice, lambda: around(builder, inner, part, other), other)


def _loop(builder: Builder, kind: Feature, dice: Dice, part: Part) -> None:
    count: Uniform
    if kind == Has.LOOP_WORD:
        count = _word(builder, dice, dice.one_of(_COUNT_MASKS))
    else:
        count = dice.one_of(_COUNTS)
    outer = builder.scope
    body = outer.child()
    with builder.within(body):
        part()
    if body.has_written:  # else its next turn could race with this one
        body.barrier()
    outer.join(outer.child(), body)
    builder.add(Loop(count=count, body=tuple(body.steps)))


def _branch(builder: Builder, kind: Feature, dice: Dice, part: Part, other: Part) -> None:
    condition: Uniform
    two = dice.once_in(2)
    two |= builder.take(Has.TWO_ARMS)
    if kind == Has.BRANCH_WORD:
        condition = _word(builder, dice, dice.one_of(_CONDITION_MASKS))
        # What memory holds decides: it makes no difference which arm is which.
        swapped = dice.once_in(2)
    else:
        condition = dice.one_of(_CONDITIONS)
        swapped = condition == 0
    outer = builder.scope
    arms = [outer.child(), outer.child()]
    with builder.within(arms[0]):
        part()
    if two:
        with builder.within(arms[1]):
            other()
    steps = [tuple(arm.steps) for arm in arms]
    outer.join(*arms)
    then, otherwise = reversed(steps) if swapped else steps
    if kind == Has.BRANCH_WORD and not steps[1]:
        then, otherwise = steps
    builder.add(Branch(condition=condition, then=then, otherwise=otherwise))


def _word(builder: Builder, dice: Dice, mask: int) -> Word:
    """Choose a word of the image: one of its own, or one among the elements of a matrix."""
    regions = [region for region in builder.memory.regions(shared=False) if region.span.end >= 8]
    if regions and dice.once_in(2):
        region = regions[dice.below(len(regions))]
        place = Place(
            buffer=region.arena.buffer,
            offset=min(-(-region.span.start // 4) + dice.below(8), region.span.end // 4 - 1) * 4,
        )
    else:
        arena = next((one for one in builder.memory.arenas if one.name == "n"), None)
        if arena is None:
            arena = builder.memory.arena("n", shared=False)
            builder.memory.block(arena, 0, 4 * _WORDS, written=False)
        place = Place(buffer=arena.buffer, offset=4 * dice.below(_WORDS))
    builder.scope.access(reads=(Span.block(place.buffer, place.offset, 4),))
    return Word(place=place, mask=mask)
