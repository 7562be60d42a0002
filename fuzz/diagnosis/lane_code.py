"""Which scalar instructions are wrong, found by experiment: without which the code is right.

Code of lanes that comes out wrong by itself is tried again with one instruction less each time: in
its place stands the number that it gave in a wrong lane, which no compiler can know. Where that
makes the code right, the instruction belongs to what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.diagnosis.experiments import Culprit, ExperimentDevice, Witness
from fuzz.diagnosis.single_step import CODE
from oracle.errors import UsageError
from oracle.lane_code import (
    ZERO,
    Assign,
    If,
    LaneCode,
    Leave,
    Repeat,
    Statement,
    Taken,
    every,
    taken,
    written_by,
)
from oracle.matrices import LANES
from oracle.tracing import Trace
from strategies.simplification.examples import Example
from strategies.simplification.lane_code import alone, changed, places

_MOST_NAMED = 4
"""Instructions that a name lists of code that was not made smaller."""
_SMALL = 12
"""Statements of code that was made smaller, at most: what is left of branches and loops counts."""
_MOST_TRIED = 64
"""Instructions that are tried: code that was made smaller has a few."""


def wrong_code(device: ExperimentDevice, traced: Trace) -> Culprit | None:
    """Find out which instructions of code of lanes are wrong together.

    Parameters
    ----------
    traced
        The steps of a program that comes out wrong, as they are taken.

    Returns
    -------
    Culprit or None
        None where no code is wrong by itself, or no instruction makes a difference.
    """
    for event in traced.events:
        if isinstance(event.step, LaneCode):
            inputs = event.inputs.get("source", np.zeros((LANES, 0), np.uint32))
            example = alone(event.step, inputs)
            found = _wrong_alone(device, example)
            if found is not None:
                return found
    return None


def _wrong_alone(device: ExperimentDevice, example: Example) -> Culprit | None:
    results = device.results(example.program, example.image[None])
    if results is None or not results.wrong[0]:
        return None
    (step,) = (one for one in example.program.steps if isinstance(one, LaneCode))
    witness = Witness(program=example.program, images=example.image[None])
    there = list(islice(_taken(example, step), _MOST_TRIED))
    for one, times in there:
        if not one.row.carry_in and any(_wrong_instruction(device, one, time) for time in times):
            return Culprit(steps=(one.opcode,), witness=witness)
    needed: list[str] = []
    if results.ran[0]:
        lane = _wrong_lane(example, step, results.actual[0] != results.expected[0])
        for one, times in there:
            if len(times) == 1 and one.opcode not in needed:
                other = _without(example, step, one, times[0], lane)
                if other is not None and device.right(other.program, other.image):
                    needed.append(one.opcode)
    small = sum(1 for _ in every(step.code)) <= _SMALL
    names = needed or [*step.opcodes]
    if len(names) > _MOST_NAMED and not small:
        return Culprit(steps=(CODE,), witness=witness)
    controls = _controls(step.code) if small else []
    return Culprit(steps=(" and ".join((*names, *controls)),), witness=witness)


def _taken(example: Example, step: LaneCode) -> Iterator[tuple[Assign, list[Taken]]]:
    load = next((one for one in example.program.steps if one.bytes_read), None)
    size = sum(span.run for span in load.bytes_read) if load is not None else 0
    return taken(step, example.image[:size].view("<u4").reshape(1, LANES, -1))


def _wrong_lane(example: Example, step: LaneCode, differs: NDArray[np.bool_]) -> int:
    """Return the first lane that stored something wrong."""
    size = step.uses[-1].holds.words * 4
    places = np.flatnonzero(differs) - example.program.offset("y")
    inside = places[(places >= 0) & (places < LANES * size)]
    return int(inside[0]) // size if len(inside) else 0


_WORDS = {"b16": 1, "b32": 1, "b64": 2, "pred": 1}
"""Registers of 32 bits that hold what a register of a class does."""


def _wrong_instruction(device: ExperimentDevice, one: Assign, time: Taken) -> bool:
    """Whether an instruction is wrong with nothing before or behind it but conversions."""
    columns: list[NDArray[Any]] = []
    code: list[Assign] = []
    sources: list[str | int] = []
    for source, kind, held in zip(one.sources, one.row.sources, time.sources, strict=False):
        if isinstance(source, int):
            sources.append(source)
            continue
        first, place = f"r{len(columns)}", len(sources)
        wide = held[0].astype(np.uint64)
        columns += [(wide >> np.uint64(32 * part)).astype("<u4") for part in range(_WORDS[kind])]
        if kind == "b32":
            sources.append(first)
        elif kind == "b16":
            sources.append(f"h{place}")
            code.append(_assign("cvt.u16.u32", f"h{place}", first))
        elif kind == "pred":
            sources.append(f"p{place}")
            code.append(_assign("setp.ne.u32", f"p{place}", first, 0))
        else:
            low, high = f"d{2 * place}", f"d{2 * place + 1}"
            sources.append(low)
            code += [
                _assign("cvt.u64.u32", low, first),
                _assign("cvt.u64.u32", high, f"r{len(columns) - 1}"),
                _assign("shl.b64", high, high, 32),
                _assign("or.b64", low, low, high),
            ]
    names = [f"{name[0]}{50 + index}" for index, name in enumerate(one.destinations)]
    code.append(replace(one, destinations=tuple(names), sources=tuple(sources), guard=""))
    results: list[str] = []
    for name in names:
        out = [f"r{60 + len(results)}", f"r{61 + len(results)}"]
        if name[0] == "r":
            results.append(name)
        elif name[0] == "h":
            code.append(_assign("cvt.u32.u16", out[0], name))
            results.append(out[0])
        elif name[0] == "p":
            code.append(_assign("selp.b32", out[0], 1, 0, name))
            results.append(out[0])
        else:
            code += [
                _assign("cvt.u32.u64", out[0], name),
                _assign("shr.u64", name, name, 32),
                _assign("cvt.u32.u64", out[1], name),
            ]
            results += out
    try:
        step = LaneCode(
            source="x" if columns else "", count=len(columns), destination="y",
            results=tuple(results), code=tuple(code),
        )  # fmt: skip
    except UsageError:
        return False
    words = np.stack(columns, axis=-1) if columns else np.zeros((LANES, 0), np.uint32)
    example = alone(step, words)
    found = device.results(example.program, example.image[None])
    return found is not None and bool(found.wrong[0])


def _assign(opcode: str, destination: str, *sources: str | int, guard: str = "") -> Assign:
    return Assign(opcode=opcode, destinations=(destination,), sources=sources, guard=guard)


def _without(
    example: Example, step: LaneCode, one: Assign, time: Taken, lane: int
) -> Example | None:
    """Return an example without an instruction: with what it gave in a lane; None if none is."""
    numbers = [int(result[0, lane]) for result in time.results]
    path = next(path for path, other in places(step.code) if other is one)
    try:
        code = changed(step.code, {path: tuple(_known(step, one, numbers))})
        other = replace(step, code=code)
    except UsageError:
        return None
    steps = tuple(other if each is step else each for each in example.program.steps)
    return example.with_program(example.program.buffers, steps)


_KNOWN = {"r": ("", "add.s32"), "d": ("cvt.u64.u32", "add.s64"), "h": ("cvt.u16.u32", "add.s16")}
"""How a register gets a number that no compiler knows: a zero of its size, and a sum."""


def _known(step: LaneCode, one: Assign, numbers: list[int]) -> Iterator[Assign]:
    """Yield statements that give the destinations of an instruction numbers."""
    used = set(step.inputs).union(*map(written_by, every(step.code)))
    for name, number in zip(one.destinations, numbers, strict=False):
        if name[0] == "p":
            opcode, zero = "setp.ne.u32", ZERO
        else:
            convert, opcode = _KNOWN[name[0]]
            zero = ZERO
            if convert:
                zero = next(x for n in range(1 << 10) if (x := f"{name[0]}{n}") not in used)
                yield _assign(convert, zero, ZERO)
        yield _assign(opcode, name, zero, number, guard=one.guard)


def _controls(code: tuple[Statement, ...]) -> list[str]:
    """Name the branches and loops that are left."""
    there = [*every(code)]
    found = ["a branch of lanes"] if any(isinstance(one, If) for one in there) else []
    if any(isinstance(one, Repeat | Leave) for one in there):
        found.append("a loop of lanes")
    return found
