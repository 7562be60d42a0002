"""Smaller code of lanes: fewer statements, less nesting, constants for values, fewer registers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UsageError
from oracle.lane_code import (
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
from oracle.matrices import LANES
from oracle.ops import COUNTS
from oracle.places import Buffer, Place
from oracle.program import Program, walk
from oracle.steps import Step, accesses_registers, is_lane_code, plain_load, plain_store
from oracle.tracing import trace
from strategies.programs.builder import GUARD_BYTES
from strategies.simplification.examples import Example, Site, edited, visit

_LEAST_STEPS = 3
"""Steps of a program of nothing but code: a load, the code, a store."""
_MOST_EVENTS = 256
"""Steps of a program, as they are taken, that are looked at."""
Code = tuple[Statement, ...]


def alone(step: LaneCode, inputs: NDArray[Any]) -> Example:
    """Return code with nothing but a load of what it reads and a store of what it makes.

    Parameters
    ----------
    inputs : uint32 (32, words)
        What the registers of each lane hold before it.
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
    pieces = [step for step in walk(example.program.steps) if is_lane_code(step)]
    if not pieces or len([*walk(example.program.steps)]) <= _LEAST_STEPS:
        return
    for event in trace(example.program, example.image, target=target).events[:_MOST_EVENTS]:
        if is_lane_code(event.step):
            inputs = event.inputs.get("source", np.zeros((LANES, 0), np.uint32))
            yield alone(event.step, inputs)


def smaller_code(example: Example) -> Iterator[Example]:
    """Iterate over examples of which one piece of code of lanes is smaller, the smallest first."""
    for site, step in visit(example.program.steps):
        if is_lane_code(step):
            # What one result needs is little of the whole.
            yield from _narrower(example, site, step)
            for make in (_without_dead, _shorter, _flatter, _renamed, _plainer):
                for code in make(step):
                    yield from _with(example, site, step, code)


def _with(example: Example, site: Site, step: LaneCode, code: Code) -> Iterator[Example]:
    """Yield an example with other code, if there can be such code.

    Bits of NaN that PTX leaves open would be another difference than the one that is looked for.
    """
    try:
        other = replace(step, code=code)
    except UsageError:
        return
    if other != step and (not may_be_open(other) or may_be_open(step)):
        steps = edited(example.program.steps, {site: (other,)})
        yield example.with_program(example.program.buffers, steps)


def _without_dead(step: LaneCode) -> Iterator[Code]:
    """Yield the code without what no result needs."""
    code = step.code
    while True:
        used = set(step.results).union(*map(read_by, every(code)))
        useless: dict[Site, Code] = {}
        for path, one in visit(code):
            if isinstance(one, Assign) and used.isdisjoint(one.destinations):
                if not one.row.carry_out:
                    useless[path] = ()
            elif (
                isinstance(one, If | Repeat)
                and not any(inside(one).values())
                and used.isdisjoint(written_by(one))
            ):
                useless[path] = ()
        if not useless:
            break
        code = edited(code, useless)
    if code != step.code:
        yield code


def _shorter(step: LaneCode) -> Iterator[Code]:
    """Yield code without runs of statements, the longest first."""
    sites = [path for path, _ in visit(step.code)]
    size = len(sites)
    while size:
        for start in range(0, len(sites), size):
            yield edited(step.code, dict.fromkeys(sites[start : start + size], ()))
        size //= 2


def _flatter(step: LaneCode) -> Iterator[Code]:
    """Yield code with one branch or loop less, or a plainer one."""
    for path, one in visit(step.code):
        found: list[Code] = []
        match one:
            case If():
                found = [one.then, one.otherwise, (*one.then, *one.otherwise)]
                if one.then and one.otherwise:
                    found += [(replace(one, otherwise=()),), (replace(one, then=()),)]
                if not one.then and one.otherwise:
                    turned = one.predicate.removeprefix("!")
                    turned = turned if turned != one.predicate else f"!{turned}"
                    found.append(
                        (replace(one, predicate=turned, then=one.otherwise, otherwise=()),)
                    )
                if len(one.then) == 1 and not one.otherwise and isinstance(one.then[0], Assign):
                    found.append((replace(one.then[0], guard=one.predicate),))
            case Repeat():
                plain = replace(one, entry="", skipped=0)
                found = [one.body, (replace(plain, count=1),), (plain,)]
                found += [(replace(one, late=False),)] if one.late else []
                found += [(replace(one, down=False),)] if one.down else []
                found += [(replace(one, count=n),) for n in (1, 2) if n < one.turns]
                if isinstance(one.count, str):
                    found += [(replace(one, mask=mask),) for mask in (1, 3) if mask < one.mask]
            case Assign():
                found = [(replace(one, guard=""),)] if one.guard else []
            case Leave():
                found = [(replace(one, turn=False),)] if one.turn else []
        for code in found:
            yield edited(step.code, {path: code})


def _renamed(step: LaneCode) -> Iterator[Code]:
    """Yield code without some register: what reads it reads one of its sources, or a constant."""
    for one in dict.fromkeys(one for one in every(step.code) if isinstance(one, Assign)):
        for name in one.destinations:
            offers: list[str | int] = [*dict.fromkeys(one.sources)]
            if class_of(name) != "pred":
                offers += [0, 1]
            for offer in offers:
                fits = isinstance(offer, int) or class_of(offer) == class_of(name)
                if fits and offer != name:
                    yield with_another(step.code, name, offer, written=False)


def _plainer(step: LaneCode) -> Iterator[Code]:
    """Yield code with a constant, or a plainer one, for a source."""
    for path, one in visit(step.code):
        if not isinstance(one, Assign):
            continue
        for index, (source, kind) in enumerate(zip(one.sources, one.row.sources, strict=True)):
            if kind == "pred":
                continue
            offers = [0, 1, most_of(kind)]
            if isinstance(source, int):
                offers = [number for number in (*offers, 2, 8, 16) if number < source]
            for offer in offers:
                sources = (*one.sources[:index], offer, *one.sources[index + 1 :])
                yield edited(step.code, {path: (replace(one, sources=sources),)})


def _narrower(example: Example, site: Site, step: LaneCode) -> Iterator[Example]:
    """Yield examples with fewer registers before or behind the code."""
    program = example.program
    first = next(iter(step.results))
    for name in (*_made_before(step), *dict.fromkeys(step.results)):
        if set(step.results) != {name}:
            try:
                one = replace(step, results=(name,) * len(step.results))
            except UsageError:  # not every path writes it
                continue
            for code in _without_dead(one):
                yield from _replaced(example, {site: replace(one, code=code)})
            if name in step.results:
                yield from _replaced(example, {site: one})
    if len(step.results) > 1 and set(step.results) == {first}:
        one = replace(step, results=(first,))
        edits: dict[Site, Step] = {site: one}
        for other, use in visit(program.steps):
            if accesses_registers(use) and use.stores and use.registers == step.destination:
                edits[other] = replace(use, count=1)
        yield from _replaced(example, edits)
    used = set(step.results).union(*map(read_by, every(step.code)))
    needed = max((int(name[1:]) + 1 for name in step.inputs if name in used), default=0)
    count = next((count for count in COUNTS if count >= needed), 0)
    if needed and count < step.count:
        edits = {site: replace(step, count=count)}
        for other, use in visit(program.steps):
            if accesses_registers(use) and use.loads and use.registers == step.source:
                edits[other] = replace(use, count=count, address=None)
        yield from _replaced(example, edits)
    if not needed and step.count:
        yield from _replaced(example, {site: replace(step, source="", count=0)})


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


def _replaced(example: Example, edits: Mapping[Site, Step]) -> Iterator[Example]:
    try:
        steps = edited(example.program.steps, {site: (step,) for site, step in edits.items()})
        yield example.with_program(example.program.buffers, steps)
    except UsageError:
        return
