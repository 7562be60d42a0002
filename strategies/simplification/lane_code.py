"""Smaller code of lanes: fewer statements, less nesting, constants for values, fewer registers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UsageError
from oracle.execution.tracing import trace
from oracle.isa.forms import LANES
from oracle.program.lane_code import (
    ZERO,
    Assign,
    If,
    LaneCode,
    Leave,
    Repeat,
    Statement,
    class_of,
    every,
    inside,
    may_be_open,
    most_of,
    read_by,
    with_another,
    written_by,
)
from oracle.program.operands import COUNTS, Buffer, Place
from oracle.program.program import Program, walk
from oracle.program.steps import Step, accesses_registers, is_lane_code, plain_load, plain_store
from strategies.programs.builder import GUARD_BYTES
from strategies.simplification.examples import Example, Site, edited, visit

_LEAST_STEPS = 3
"""Steps of a program of nothing but code: a load, the code, a store."""
_MOST_EVENTS = 256
"""Steps of a program, as they are taken, that are looked at."""
Code = tuple[Statement, ...]


def alone(step: LaneCode, inputs: NDArray[Any]) -> Example:
    """Return code with nothing but a load of what it reads and a store of what it makes.

    `inputs`, uint32 (32, words), is what the registers of each lane hold before it.
    """
    count = next((count for count in COUNTS if count >= step.count), 0) if step.count else 0
    made = next(count for count in COUNTS if count >= len(step.results))
    results = (*step.results, *step.results[-1:] * (made - len(step.results)))
    code = replace(step, source="x" if count else "", count=count, destination="y", results=results)
    wide = code.uses[-1].holds.bits
    into = Buffer(name="y", space="global", size=LANES * made * wide // 8 + GUARD_BYTES)
    store = plain_store(registers="y", count=made, bits=wide, place=Place(buffer="y"))
    if not count:
        program = Program(buffers=(into,), steps=(code, store))
        return Example(program=program, image=np.zeros(program.image_bytes, np.uint8))
    load = plain_load(registers="x", count=count, bits=step.bits, place=Place(buffer="x"))
    given = Buffer(name="x", space="global", size=load.size + GUARD_BYTES)
    program = Program(buffers=(given, into), steps=(load, code, store))
    image = np.zeros(program.image_bytes, np.uint8)
    words = np.zeros((LANES, count * step.bits // 32), "<u4")
    words[:, : inputs.shape[1]] = inputs
    image[: load.size] = words.view(np.uint8).ravel()
    return Example(program=program, image=image)


def code_alone(example: Example, *, target: str) -> Iterator[Example]:
    """Iterate over examples of nothing but one piece of code, as the program comes to it."""
    steps = [*walk(example.program.steps)]
    if not any(map(is_lane_code, steps)) or len(steps) <= _LEAST_STEPS:
        return
    for event in trace(example.program, example.image, target=target).events[:_MOST_EVENTS]:
        if is_lane_code(event.step):
            inputs = event.inputs.get("source", np.zeros((LANES, 0), np.uint32))
            yield alone(event.step, inputs)


def smaller_code(example: Example) -> Iterator[Example]:
    """Iterate over examples of which one piece of code of lanes is smaller, the smallest first."""
    for site, step in visit(example.program.steps):
        if not is_lane_code(step):
            continue
        # What one result needs is little of the whole.
        for edits in _narrower(example, site, step):
            with suppress(UsageError):  # not every path writes what is left
                yield example.edited({at: (other,) for at, other in edits.items()})
        for code in chain(*(make(step) for make in (_needed, _shorter, _flatter, _renamed))):
            with suppress(UsageError):
                other = replace(step, code=code)
                # Bits of NaN that PTX leaves open would be another difference than what is sought.
                if other != step and (not may_be_open(other) or may_be_open(step)):
                    yield example.edited({site: (other,)})


def changed(code: Code, change: Callable[[Statement], Iterable[Statement]]) -> Code:
    """Return code with what stands for each statement, those inside of it changed before."""
    made: list[Statement] = []
    for one in code:
        blocks = {field: changed(block, change) for field, block in inside(one).items()}
        made += change(replace(one, **blocks) if blocks else one)  # type: ignore[arg-type]
    return tuple(made)


def without(code: Code, kind: type[Statement]) -> Code:
    """Return code that takes what is under predicates, in branches or in loops once, in a row."""

    def change(one: Statement) -> Iterable[Statement]:
        if isinstance(one, Assign) and kind is Assign:
            return [replace(one, guard="")]
        if isinstance(one, kind) and not isinstance(one, Assign):
            first = (
                [Assign(opcode="add.s32", destinations=(one.counter,), sources=(ZERO, 0))]
                if isinstance(one, Repeat)
                else []
            )
            return [*first, *(each for block in inside(one).values() for each in block)]
        return [] if kind is Repeat and isinstance(one, Leave) else [one]

    return changed(code, change)


def _needed(step: LaneCode) -> Iterator[Code]:
    code = step.code
    while True:
        used = set(step.results).union(*map(read_by, every(code)))
        useless = [
            path
            for path, one in visit(code)
            if used.isdisjoint(written_by(one))
            and (
                not one.row.carry_out
                if isinstance(one, Assign)
                else isinstance(one, If | Repeat) and not any(inside(one).values())
            )
        ]
        if not useless:
            break
        code = edited(code, dict.fromkeys(useless, ()))
    if code != step.code:
        yield code


def _shorter(step: LaneCode) -> Iterator[Code]:
    sites = [path for path, _ in visit(step.code)]
    size = len(sites)
    while size:
        for start in range(0, len(sites), size):
            yield edited(step.code, dict.fromkeys(sites[start : start + size], ()))
        size //= 2


def _flatter(step: LaneCode) -> Iterator[Code]:
    """Yield code with one branch or loop less, or one statement plainer: constants for sources."""
    for path, one in visit(step.code):
        for code in _plainer(one):
            yield edited(step.code, {path: code})


def _plainer(one: Statement) -> Iterator[Code]:
    match one:
        case If(predicate=predicate, then=then, otherwise=otherwise):
            yield from (then, otherwise, (*then, *otherwise))
            if then and otherwise:
                yield from ((replace(one, otherwise=()),), (replace(one, then=()),))
            elif otherwise:
                turned = predicate[1:] if predicate.startswith("!") else f"!{predicate}"
                yield (replace(one, predicate=turned, then=otherwise, otherwise=()),)
            elif len(then) == 1 and isinstance(then[0], Assign):
                yield (replace(then[0], guard=predicate),)
        case Repeat():
            plain = replace(one, entry="", skipped=0)
            yield from (one.body, (replace(plain, count=1),), (plain,))
            if one.late:
                yield (replace(one, late=False),)
            if one.down:
                yield (replace(one, down=False),)
            yield from ((replace(one, count=count),) for count in (1, 2) if count < one.turns)
            if isinstance(one.count, str):
                yield from ((replace(one, mask=mask),) for mask in (1, 3) if mask < one.mask)
        case Leave(turn=True):
            yield (replace(one, turn=False),)
        case Assign():
            if one.guard:
                yield (replace(one, guard=""),)
            for index, (source, kind) in enumerate(zip(one.sources, one.row.sources, strict=True)):
                offers = [] if kind == "pred" else [0, 1, most_of(kind)]
                if isinstance(source, int):
                    offers = [number for number in (*offers, 2, 8, 16) if number < source]
                for offer in offers:
                    sources = (*one.sources[:index], offer, *one.sources[index + 1 :])
                    yield (replace(one, sources=sources),)


def _renamed(step: LaneCode) -> Iterator[Code]:
    for one in dict.fromkeys(one for one in every(step.code) if isinstance(one, Assign)):
        for name in one.destinations:
            offers: list[str | int] = [*dict.fromkeys(one.sources)]
            if class_of(name) != "pred":
                offers += [0, 1]
            for offer in offers:
                fits = isinstance(offer, int) or class_of(offer) == class_of(name)
                if fits and offer != name:
                    yield with_another(step.code, name, offer)


def _narrower(example: Example, site: Site, step: LaneCode) -> Iterator[Mapping[Site, Step]]:
    """Yield edits that leave fewer registers before or behind the code."""
    steps, results = [*visit(example.program.steps)], step.results
    for name in (*_made_before(step), *dict.fromkeys(results)):
        if set(results) != {name}:
            try:
                one = replace(step, results=(name,) * len(results))
            except UsageError:  # not every path writes it
                continue
            yield from ({site: replace(one, code=code)} for code in _needed(one))
            if name in results:
                yield {site: one}
    if len(results) > 1 and len(set(results)) == 1:
        stores: dict[Site, Step] = {
            other: replace(use, count=1)
            for other, use in steps
            if accesses_registers(use) and use.stores and use.registers == step.destination
        }
        yield {site: replace(step, results=results[:1]), **stores}
    used = set(results).union(*map(read_by, every(step.code)))
    needed = max((int(name[1:]) + 1 for name in step.inputs if name in used), default=0)
    count = next((count for count in COUNTS if count >= needed), 0)
    if needed and count < step.count:
        loads: dict[Site, Step] = {
            other: replace(use, count=count, address=None)
            for other, use in steps
            if accesses_registers(use) and use.loads and use.registers == step.source
        }
        yield {site: replace(step, count=count), **loads}
    if not needed and step.count:
        yield {site: replace(step, source="", count=0)}


def _made_before(step: LaneCode) -> Iterator[str]:
    """Yield registers of the class of the results that are written before any of these.

    What an instruction makes wrong is seen in its own result, without what stands behind it.
    """
    kind, seen = class_of(step.results[0]), set[str]()
    for one in every(step.code):
        names = {name for name in written_by(one) if class_of(name) == kind}
        if not names.isdisjoint(step.results):
            return
        yield from sorted(names - seen)
        seen |= names
