"""Cuts wrong scalar code down to the statements between which it becomes wrong.

Where each instruction is right by itself, those that are wrong together are found by few modules
of many kernels, in each of which some statements in a row are given what registers hold there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fuzz.diagnosis.experiments import ExperimentDevice
from oracle.errors import UsageError
from oracle.isa.forms import LANES
from oracle.program.lane_code import (
    LANE,
    ZERO,
    Assign,
    If,
    LaneCode,
    Leave,
    Repeat,
    Statement,
    every,
    may_be_open,
    read_by,
    written_by,
)
from oracle.program.lane_runs import run_lanes
from oracle.program.operands import MOST_LISTED
from oracle.program.steps import is_lane_code
from strategies.simplification.examples import Example, alone, without

Code = tuple[Statement, ...]
_Key = TypeVar("_Key", int, str)
PREDICATE, BRANCH, LOOP = "a predicate", "a branch of lanes", "a loop of lanes"
LEFT, ENTERED = " that lanes leave", " entered within its body"
_BROUGHT = 400  # number of the first register that brings others in and out of code: also fewer
_CUTS = 7  # places at which code is cut, that are tried together
KEPT = 500  # number of the first register that holds what an instruction gave: code has fewer
GIVES = {"r": "mov.b32", "h": "cvt.u16.u32", "d": "mov.b64.pack", "p": "setp.ne.u32"}
"""What makes a register of registers of 32 bits; a predicate is whether one is not 0."""
NOTHING = np.zeros((LANES, 0), np.uint32)


def least_part(device: ExperimentDevice, example: Example, step: LaneCode) -> Example:
    """Return statements of wrong code in a row that are wrong by themselves, as few as there are.

    They are given what registers hold there. Of code with several wrong results it is one.
    """
    inputs = inputs_of(example)
    step = _of_one_result(device, step, inputs)
    # What is as wrong without branches and loops can be cut at every statement.
    plain = {
        name: replace(step, code=code)
        for name, code in {
            "": without(without(step.code, If), Repeat), **controls(step.code)
        }.items()
        if name != PREDICATE and code != step.code
    }  # fmt: skip
    wrong = wrong_of(device, {name: alone(one, inputs) for name, one in plain.items()})
    step = next((one for name, one in plain.items() if wrong.get(name)), step)
    last = len(step.code)
    first = _furthest(device, 0, last, lambda at: _part_of(step, inputs, at, last))
    last = _furthest(device, last, first, lambda at: _part_of(step, inputs, first, at))
    part = _part_of(step, inputs, first, last)
    if part is None:
        return example
    (step,) = filter(is_lane_code, part.program.steps)
    inputs = inputs_of(part)
    return alone(_of_one_result(device, step, inputs), inputs)


def _of_one_result(
    device: ExperimentDevice, step: LaneCode, inputs: NDArray[np.uint32]
) -> LaneCode:
    """Return code of the wrong result that needs least of it."""
    ways = {name: replace(step, results=(name,)) for name in dict.fromkeys(step.results)}
    ways = {name: replace(one, code=one.needed) for name, one in ways.items()}
    wrong = wrong_of(device, {name: alone(one, inputs) for name, one in ways.items()})
    found = [one for name, one in ways.items() if wrong.get(name)]
    return min(found, key=lambda one: sum(1 for _ in every(one.code)), default=step)


def _furthest(
    device: ExperimentDevice, begin: int, end: int, made: Callable[[int], Example | None]
) -> int:
    """Return the place nearest to the end at which code is wrong, where it is at the beginning."""
    way = 1 if begin < end else -1
    offers = {at: one for at in range(begin + way, end, way) if (one := made(at)) is not None}
    places = [begin, *offers]
    low, high = 0, len(places)
    while high - low > 1:
        each = -(-(high - low) // (_CUTS + 1))
        tried = range(low + each, high, each) or range(low + 1, high)
        wrong = wrong_of(device, {at: offers[places[at]] for at in tried})
        low = max([low, *(at for at in tried if wrong.get(at))])
        high = min([high, *(at for at in tried if at > low)])
    return places[low]


def _part_of(step: LaneCode, inputs: NDArray[np.uint32], first: int, last: int) -> Example | None:
    """Return some statements of code on what its registers hold there; None: no such code."""
    before, part, behind = step.code[:first], step.code[first:last], step.code[last:]
    read, later = (set[str]().union(*map(read_by, every(code))) for code in (part, behind))
    known = [{*step.inputs} | _written(step.code[:at]) for at in (first, last)]
    made: tuple[str, ...] = step.results
    if behind:
        written = set[str]().union(*map(written_by, every(part)))
        made = (*sorted(written & (later | {*step.results}) & known[1]),)
    given = sorted((read | {*made}) & known[0])
    numbers = count(_BROUGHT)

    def in_words(names: Sequence[str]) -> tuple[list[str], list[Assign]]:
        """Return registers of 32 bits with what others hold, and what brings it there."""
        words, code = list[str](), list[Assign]()
        for name in names:
            out = tuple(f"r{next(numbers)}" for _ in range(size_in_words(name)))
            words, code = [*words, *out], [*code, *brought_out(name, out)]
        if len(words) > MOST_LISTED and len(words) % 2:
            words.append(f"r{next(numbers)}")
            code.append(assign("add.s32", words[-1], ZERO, 0))
        return words, code

    with suppress(UsageError):
        held, seeing = in_words(given)
        columns = [
            run_lanes(replace(step, results=(*some,), code=(*before, *seeing)), inputs[None])[0][0]
            for some in (held[:MOST_LISTED], held[MOST_LISTED:])
            if some
        ]
        way, first_of_all = read_as(len(held))
        first_of_all += [assign("mov.b32", one, f"r{at}") for at, one in enumerate(held)]
        left = iter(held)
        for name in given:
            own = [next(left) for _ in range(size_in_words(name))]
            first_of_all.append(assign(GIVES[name[0]], name, *own, *[0] * (name[0] == "p")))
        results, at_last = made, list[Assign]()
        if behind:
            words, at_last = in_words(made)
            results = (*words,)
            if len(words) > MOST_LISTED:
                results = tuple(f"d{next(numbers)}" for _ in words[::2])
                pairs = zip(results, words[::2], words[1::2], strict=True)
                at_last += [assign("mov.b64.pack", *each) for each in pairs]
        code = (*first_of_all, *part, *at_last)
        other = replace(step, destination="y", results=results, code=code, **way)
        if not may_be_open(other):
            return alone(other, np.concatenate([NOTHING, *columns], axis=1))
    return None


def _written(code: Code) -> set[str]:
    """Return the registers that statements write on every path."""
    names = set[str]()
    for one in code:
        if isinstance(one, If):
            names |= _written(one.then) & _written(one.otherwise)
        elif not (isinstance(one, Assign) and one.guard):
            names |= written_by(one)
    return names


def is_brought(one: Statement) -> bool:
    """Whether a statement only brings registers in or out of the least part of code."""
    return any(
        _BROUGHT <= int(name[1:]) < KEPT for name in written_by(one) | read_by(one) - {LANE, ZERO}
    )


def wrong_of(device: ExperimentDevice, examples: Mapping[_Key, Example | None]) -> dict[_Key, bool]:
    """Run examples in one module; return which are wrong, of those of which it is known."""
    tried = {key: one for key, one in examples.items() if one is not None}
    found = device.results_of([(one.program, one.image[None]) for one in tried.values()])
    return {
        key: bool(results.wrong[0])
        for key, results in zip(tried, found, strict=True)
        if results is not None
    }


def inputs_of(example: Example) -> NDArray[np.uint32]:
    """Return what code alone reads, (32, words)."""
    load = next((one for one in example.program.steps if one.bytes_read), None)
    size = sum(span.run for span in load.bytes_read) if load is not None else 0
    return example.image[:size].view("<u4").reshape(LANES, -1)


def controls(code: Code) -> dict[str, Code]:
    """Return code without predicates, branches or loops, where it has them, by their names."""
    left = any(isinstance(one, Leave) for one in every(code))
    entered = any(isinstance(one, Repeat) and one.entry for one in every(code))
    kinds = {PREDICATE: Assign, BRANCH: If, f"{LOOP}{LEFT * left}{ENTERED * entered}": Repeat}
    found = {name: without(code, kind) for name, kind in kinds.items()}
    return {name: other for name, other in found.items() if other != code}


# Statements


def read_as(words: int) -> tuple[dict[str, Any], list[Assign]]:
    """Return how code reads so many words, and what it begins with to have them in r0, r1, ..."""
    if words <= MOST_LISTED:
        return {"source": "x" * bool(words), "count": words, "bits": 32}, []
    code = [
        Assign(
            opcode="mov.b64.unpack", destinations=(f"r{at}", f"r{at + 1}"), sources=(f"d{at // 2}",)
        )
        for at in range(0, words, 2)
    ]
    return {"source": "x", "count": len(code), "bits": 64}, code


def assign(opcode: str, destination: str, *sources: str | int, guard: str = "") -> Assign:
    """Return an instruction of one destination."""
    return Assign(opcode=opcode, destinations=(destination,), sources=sources, guard=guard)


def size_in_words(name: str) -> int:
    """Return the words of 32 bits that a register takes."""
    return 2 if name.startswith("d") else 1


def brought_out(name: str, into: tuple[str, ...]) -> list[Assign]:
    """Return what brings a register into those of 32 bits."""
    match name[0]:
        case "d":
            return [Assign(opcode="mov.b64.unpack", destinations=into, sources=(name,))]
        case "h":
            # ptxas may store it with 16 bits of a register that nothing wrote, 0 by chance: behind
            # set to f16 (13.0.88 -O3, 2026-11-29). Of a sum all bits are read.
            made = assign("cvt.u32.u16", *into, name)
            return [made, assign("add.s32", *into, *into, ZERO)]
        case "p":
            # Not by selp, which may be what is wrong.
            zero = assign("add.s32", *into, ZERO, 0)
            return [zero, assign("add.s32", *into, *into, 1, guard=name)]
    return [assign("mov.b32", *into, name)]
