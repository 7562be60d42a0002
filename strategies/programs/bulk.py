"""Matrices of a warpgroup's program that are copied in bulk, each with an mbarrier of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from oracle.program.operands import Place
from oracle.program.steps import Barrier, Copy, Step
from oracle.program.warpgroup import AsyncProduct, WarpgroupSync
from strategies.programs.builder import Dice
from strategies.programs.group_builder import GroupBuilder
from strategies.programs.repairs import Draft, sync

_SHARE = 12  # One loop of so many copies the matrices of its next turn


def in_bulk(builder: GroupBuilder, copy: Copy, source: Place) -> list[Step]:
    """Return what begins to fill the destination of a copy in bulk, whatever was done with it."""
    number = builder.staged.index(copy.destination.buffer)
    builder.mbarriers.add(number)
    begun = replace(copy, source=source, mbarrier=number)
    return [sync("proxy_fence"), Barrier(), begun]


def ended(builder: GroupBuilder, copy: Copy) -> Step:
    """Return the wait for a copy in bulk to the destination of a copy."""
    return WarpgroupSync(kind="bulk_wait", mbarrier=builder.staged.index(copy.destination.buffer))


def filled_in_bulk(
    builder: GroupBuilder, before: Sequence[Step], dice: Dice
) -> tuple[list[Step], list[Step]]:
    """Return what is before all parts with most copies in bulk, and what orders them."""
    steps, waits, plain = list[Step](), list[Step](), list[Step]()
    for step in before:
        if isinstance(step, Copy):
            if dice.below(4):
                waits.append(ended(builder, step))
                steps.append(in_bulk(builder, step, step.source)[-1])
                continue
            plain = [sync("proxy_fence"), Barrier()]
        steps.append(step)
    return steps, [*plain, *waits]


def in_stages(
    builder: GroupBuilder, body: list[Draft], dice: Dice
) -> tuple[list[Draft], list[Draft]]:
    """Let each turn of a loop wait for a matrix that the turn before copies, as main loops do.

    Of one loop in a few. Return what stands before it, the first of these copies, and behind it.
    """
    if dice.below(_SHARE):
        return [], []
    copies = {one.destination.buffer: one for one in builder.before if isinstance(one, Copy)}
    read = [tile.place.buffer for one in body if isinstance(one, AsyncProduct)
            for tile in one.tiles.values()]  # fmt: skip
    before, behind = list[Draft](), list[Draft]()
    for name in dict.fromkeys(dice.one_of(read) for _ in range(1 + dice.below(2)) if read):
        target = copies[name]
        sources = [one.source for one in copies.values() if one.size >= target.size]
        body.insert(0, ended(builder, target))
        body += in_bulk(builder, target, dice.one_of(sources))
        before += in_bulk(builder, target, dice.one_of(sources))
        behind.append(ended(builder, target))
    return before, behind
