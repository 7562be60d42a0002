"""What led to a stored value: the instructions of a traced warp that it depends on, and no others.

A slice goes back from one element or register of a store through what each instruction read, and
through the predicates and counts that decided whether lanes came to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.execution.tracing import Event, Trace, Written
from oracle.isa.matrices import LANES
from oracle.program.lane_code import (
    Assign,
    If,
    Leave,
    Repeat,
    Statement,
    every,
    inside,
    read_by,
    written_by,
)
from oracle.program.lane_execution import Taken, trail
from oracle.program.operands import Use
from oracle.program.ops import multiplies_registers
from oracle.program.registers import Register
from oracle.program.steps import accesses_registers, is_lane_code

Mask = NDArray[np.bool_]
"""Lanes, bool (32,)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Link:
    """One instruction on the way to a value."""

    event: Event
    taken: Taken | None = None
    """The instruction, branch, loop or end of a turn of scalar code; None: the step itself."""
    lanes: Mask
    registers: tuple[int, ...] = ()
    at: tuple[int, int] | None = None
    """Row and column of a matrix, or lane and register; None where several elements matter."""


def slice_of(trace: Trace, written: Written, *others: int) -> tuple[Link, ...]:
    """Return what led to a stored element or register, in the order of execution, the store last.

    Scalar code is told lane by lane; of a matrix instruction all lanes matter. `others` are lanes
    whose register in the same place matters, too.
    """
    walk = _Walk()
    walk.store(written.event, (written.row, written.column), others)
    needed = set[int]()
    for event in reversed(trace.events[: written.event.number]):
        if event.number in needed:
            walk.store(event, None, ())
        else:
            walk.back(event)
        if walk.links[-1].event is event:
            needed |= event.stored
    return tuple(reversed(walk.links))


def _no_lanes() -> Mask:
    return np.zeros(LANES, np.bool_)


class _Walk:
    def __init__(self) -> None:
        self.links: list[Link] = []
        self.need: dict[Register, Mask] = {}
        """Lanes in which the value of a register matters."""
        self.at: dict[Register, tuple[int, int]] = {}

    def want(self, use: Use, lanes: Mask, at: tuple[int, int] | None = None) -> None:
        for register in use.registers:
            self.want_one(register, lanes)
            if at is not None:
                self.at.setdefault(register, at)

    def want_one(self, register: Register, lanes: Mask) -> None:
        self.need[register] = self.need.get(register, _no_lanes()) | lanes

    def store(self, event: Event, at: tuple[int, int] | None, others: Sequence[int]) -> None:
        (use,) = event.step.reads
        lanes = ~_no_lanes()
        if at is not None and not use.is_fragment:
            lanes = _no_lanes()
            lanes[[at[0], *others]] = True
            self.want_one(use.registers[at[1]], lanes)
        else:
            self.want(use, lanes, at)
        self.links.append(Link(event=event, lanes=lanes, at=at))

    def back(self, event: Event) -> None:
        step, made = event.step, event.step.writes
        if made is None:
            return
        hit = {
            index: self.need.pop(register)
            for index, register in enumerate(made.registers)
            if register in self.need
        }
        if not hit:
            return
        places_ = [self.at.pop(one) for one in made.registers if one in self.at]
        # An element of a matrix is no register of a lane.
        at = next(iter(places_), None) if made.is_fragment else None
        if is_lane_code(step):
            self._scalar(event, hit)
            return
        lanes = np.logical_or.reduce([*hit.values()])
        if not made.is_fragment and len(hit) == lanes.sum() == 1:
            at = int(np.argmax(lanes)), next(iter(hit))
        matter = lanes if accesses_registers(step) else ~_no_lanes()
        self.links.append(Link(event=event, registers=(*hit,), at=at, lanes=matter))
        ways = 1 if step.changes or step.copies else 2 if step.action == "pack_registers" else 0
        for use in step.reads:
            carried = use.name == step.carried
            if ways and not use.is_fragment:
                for index, some in hit.items():
                    for register in use.registers[ways * index : ways * (index + 1)]:
                        self.want_one(register, some)
            elif carried and multiplies_registers(step):
                for index, some in hit.items():
                    # C may have other registers than D: of another type, say.
                    if len(use.registers) == len(made.registers):
                        self.want_one(use.registers[index], some)
                    else:
                        self.want(use, some)
            else:
                self.want(use, ~_no_lanes(), at if carried and use.is_fragment else None)

    def _scalar(self, event: Event, hit: dict[int, Mask]) -> None:
        step = event.step
        assert is_lane_code(step)
        need: dict[str, Mask] = defaultdict(_no_lanes)
        for index, lanes in hit.items():
            need[step.results[index]] |= lanes
        inputs = event.inputs.get("source", np.zeros((LANES, 0), np.uint32))
        passed = trail(step, inputs[None])
        for taken, lanes in _needed(step.code, passed, need):
            self.links.append(Link(event=event, taken=taken, lanes=lanes))
        for use in step.reads:
            for name, register in zip(step.inputs, use.registers, strict=True):
                if need[name].any():
                    self.want_one(register, need[name])


def _needed(
    code: Sequence[Statement], passed: Sequence[Taken], need: dict[str, Mask]
) -> Iterator[tuple[Taken, Mask]]:
    """Yield what lanes passed that matters, last first; `need` becomes what matters before it.

    A branch or loop matters to the lanes that need what it guards, or what it would have written.
    """
    outer_of = around(code)
    guarded: dict[int, Mask] = defaultdict(_no_lanes)
    for taken in reversed(passed):
        one = taken.statement
        came = taken.came[0]
        match one:
            case Assign():
                row = one.row
                names = (*one.destinations, *(["carry"] if row.carry_out else []))
                wanted = np.logical_or.reduce([need[name] for name in names]) & came
                done = wanted & taken.lanes[0]
                for name in names:
                    need[name] = need[name] & ~done
                if done.any():
                    reading = came if row.warp else done
                    for source in (*one.sources, *(["carry"] if row.carry_in else [])):
                        if isinstance(source, str):
                            need[source] = need[source] | reading
                if one.guard:
                    need[one.guard.removeprefix("!")] |= wanted
            case Repeat() if not taken.sources:
                wanted = (guarded[id(one)] | need[one.counter]) & came
            case If() | Repeat():
                # What stands inside was met before this, its beginning.
                own = guarded.pop(id(one), _no_lanes())
                counted = need[one.counter] if isinstance(one, Repeat) else own
                wanted = (own | counted | _wanted_inside(one, need)) & came
                for name in read_by(one):
                    need[name] = need[name] | wanted
                if isinstance(one, Repeat):
                    need[one.counter] = need[one.counter] & ~came
            case Leave():
                loop = [outer for outer in outer_of[id(one)] if isinstance(outer, Repeat)][-1]
                wanted = (guarded[id(loop)] | _wanted_inside(loop, need)) & came
                need[one.predicate.removeprefix("!")] |= wanted
        if wanted.any():
            for outer in outer_of[id(one)]:
                guarded[id(outer)] = guarded[id(outer)] | wanted
            yield taken, wanted


def _wanted_inside(one: Statement, need: dict[str, Mask]) -> Mask:
    names = {name for block in inside(one).values() for some in every(block)
             for name in written_by(some)}  # fmt: skip
    met: Mask = np.logical_or.reduce([_no_lanes(), *(need[name] for name in names & need.keys())])
    return met


def around(
    code: Sequence[Statement], outer: tuple[Statement, ...] = ()
) -> dict[int, tuple[Statement, ...]]:
    """Return the branches and loops around each statement, the innermost last, by identity."""
    found: dict[int, tuple[Statement, ...]] = {}
    for one in code:
        found[id(one)] = outer
        for block in inside(one).values():
            found |= around(block, (*outer, one))
    return found
