"""Fences, commits and waits of a warpgroup, where the ISA asks for them, as late as it allows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import TypeAlias

from oracle.program.breaches import Breach
from oracle.program.operands import Register, Span, Turn, Uniform, Word, most_of
from oracle.program.steps import Barrier, Branch, Loop, Step, walk
from oracle.program.warpgroup import MAX_PENDING, AsyncProduct, InFlight, WarpgroupSync

_MOST_PASSES = 8


@dataclass
class BlockDraft:
    """A loop or a branch of all four warps, and what it has in place of its empty blocks."""

    step: Loop | Branch
    blocks: dict[str, list[Draft]]


Draft: TypeAlias = "Step | BlockDraft"


def branch(condition: Uniform, then: list[Draft], otherwise: list[Draft]) -> BlockDraft:
    """Return a branch with two arms."""
    step = Branch(condition=condition, then=())
    return BlockDraft(step, {"then": then, "otherwise": otherwise})


def sync(kind: str, pending: int = 0) -> WarpgroupSync:
    """Return a fence, a commit or a wait."""
    return WarpgroupSync(kind=kind, pending=pending)


def begins(name: str, items: Iterable[Draft], turn: int = 0, turns: int = 1) -> bool | None:
    """Tell whether no D is added by the first that touches it, in a turn; None: nothing does."""
    for item in items:
        if not isinstance(item, BlockDraft):
            if all(one.bank != name for use in item.uses for one in use.registers):
                continue
            if not isinstance(item, AsyncProduct) or item.d != name:
                return False
            scale = item.scale_d
            return (scale.of(turn, turns) if isinstance(scale, Turn) else scale) == 0
        value, taken = item.step.uniform, [(turn, turns)]
        if isinstance(item.step, Loop):
            own = most_of(item.step.count)
            taken = [(one, own) for one in range(own)]
        elif isinstance(value, Turn):
            value = value.of(turn, turns)
        blocks = [*item.blocks.values()]
        if isinstance(item.step, Branch) and isinstance(value, int):
            blocks = [blocks[value == 0]]
        # A branch may leave it alone in the first turns.
        said = [[begins(name, block, *one) for one in taken] for block in blocks]
        found = {next((one for one in each if one is not None), None) for each in said}
        if isinstance(value, Word) and isinstance(item.step, Loop):
            found.add(None)
        if found != {None}:
            return found == {True}
    return None


def repaired(drafts: list[Draft]) -> tuple[Step, ...]:
    """Return steps with the fences, commits and waits that they need."""
    for _ in range(_MOST_PASSES):
        changed, _ = _repair(drafts, InFlight.of(0, lambda _: 0))
        if not changed:
            break
    return _steps(drafts)


def _repair(items: list[Draft], flight: InFlight) -> tuple[bool, InFlight]:
    """Insert what is lacking; return whether anything was, and the state behind the items.

    A commit that is inserted changes what the waits behind it leave pending, so that it takes
    another pass.
    """
    changed, index = False, 0
    while index < len(items):
        item = items[index]
        if isinstance(item, BlockDraft):
            also, flight = _inside(item, flight)
            changed |= also
        elif isinstance(item, WarpgroupSync):
            flight.synchronise(item)
        else:
            if (age := _reading(flight.ages, item)) is not None:
                waits = [sync("commit_group")] if age < 0 else []
                waits.append(sync("wait_group", max(age, 0)))
                for wait in waits:
                    flight.synchronise(wait)
                items[index:index] = [*waits, Barrier()]
                changed, index = True, index + len(waits) + 1
            registers = {one for use in item.uses for one in use.registers}
            # A multiplication begins where nothing is wrong with it.
            while True:
                begun = flight.touch(registers)
                if isinstance(item, AsyncProduct):
                    begun = flight.begin(item)
                wrong = next(begun, None)
                if wrong is None:
                    break
                fix, more = sync("fence"), list[Draft]()
                if wrong.cause is Breach.IN_FLIGHT:
                    age = _age(flight.ages, registers)
                    fix = sync("commit_group") if age < 0 else sync("wait_group", age)
                    # Other warps may still multiply what it overwrites.
                    more = [Barrier()] if age >= 0 and any(written(item)) else []
                flight.synchronise(fix)
                items[index:index] = [fix, *more]
                changed, index = True, index + 1 + len(more)
        index += 1
    return changed, flight


def _inside(item: BlockDraft, flight: InFlight) -> tuple[bool, InFlight]:
    changed, ends = False, list[InFlight]()
    if isinstance(item.step, Loop):
        for _ in range(2):
            before = flight.copy() if isinstance(item.step.count, Word) else None
            also, flight = _repair(item.blocks["body"], flight)
            changed |= also
            if before is not None:
                flight = before.joined(flight)
        return changed, flight
    for block in item.blocks.values():
        also, end = _repair(block, flight.copy())
        changed |= also
        ends.append(end)
    return changed, ends[0].joined(ends[1])


def _reading(ages: dict[AsyncProduct, int], step: Step) -> int | None:
    """Return how many groups are newer than the newest that reads buffers that a step writes."""
    names = {span.buffer for span in written(step)}
    own = [
        age
        for one, age in ages.items()
        if any(tile.place.buffer in names for tile in one.tiles.values())
    ]
    return min((*own, MAX_PENDING)) if own else None


def written(step: Step) -> Iterator[Span]:
    """Iterate over the bytes that a step writes, or those inside of it."""
    for one in walk((step,)):
        yield from one.bytes_written


def _age(ages: dict[AsyncProduct, int], registers: Set[Register]) -> int:
    """Return how many groups are newer than the newest that uses some registers."""
    own = (
        age
        for step, age in ages.items()
        if any(not registers.isdisjoint(use.registers) for use in step.uses)
    )
    return min((*own, MAX_PENDING))


def _steps(items: Sequence[Draft]) -> tuple[Step, ...]:
    return tuple(
        item.step.changed(**{name: _steps(some) for name, some in item.blocks.items()})
        if isinstance(item, BlockDraft)
        else item
        for item in items
    )
