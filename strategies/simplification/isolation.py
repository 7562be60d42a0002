"""Loads a computed value from the image instead, so that the steps that computed it can go.

One multiplication by itself, registers that a step made, registers before a step changed them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.execution.tracing import trace
from oracle.layouts.storage import Tile, write
from oracle.program.operands import Buffer, Place, Registers, listed
from oracle.program.program import Program, position
from oracle.program.steps import (
    Product,
    accesses_registers,
    is_plain_load,
    multiplies,
    multiplies_fragments,
    product_of,
    stores_rows,
)
from strategies.programs.builder import GUARD_BYTES
from strategies.programs.single_instruction import buffers_of, plain_access, single_instruction
from strategies.simplification.examples import Example, Site, Steps, new_buffer, room_for, visit
from strategies.simplification.steps import metadata_names

_STEPS = 5
"""Three loads, the multiplication, a store: a program with no more has nothing around it."""
_MULTIPLICATIONS = 32
"""Most that are tried, of a program with loops."""


def isolated(example: Example, *, target: str) -> Iterator[Example]:
    """Iterate over examples with one multiplication of a program by itself.

    Its operands are loaded from the image, with the values that they have where the program does
    what it should, by the model of the target. So what came before it, and shared memory, can go at
    once; and of a chain the link that fails is left.
    """
    if sum(1 for _ in visit(example.program.steps)) <= _STEPS:
        return
    multiplications = (
        (event.step, event.inputs)
        for event in trace(example.program, example.image, target=target).events
        if multiplies_fragments(event.step)
    )
    for step, operands in islice(multiplications, _MULTIPLICATIONS):
        yield _alone(product_of(step.form), operands)
        # Operands that list registers, each of the sources once.
        if any(listed(use.name) for use in step.uses) and all(
            len(set(use.registers)) == len(use.registers) for use in step.reads
        ):
            yield _alone(step, operands)


def _alone(product: Product, operands: Mapping[str, NDArray[Any]]) -> Example:
    steps = single_instruction(product)
    buffers = buffers_of(steps, lambda access: room_for(access.tile))
    program = Program(buffers=buffers, steps=steps)
    image = np.zeros(program.image_bytes, np.uint8)
    for use, load in zip(product.reads, steps, strict=False):
        write(image[None], program.offset(use.field), load.tile, operands[use.field][None])
    return Example(program=program, image=image)


def loaded(example: Example, *, target: str) -> Iterator[Example]:
    """Iterate over examples in which what a step made is loaded from the image instead.

    It has the values that the program gives it where it does what it should, by the model of the
    target. First what no multiplication made: all of it, as ldmatrix comes with a copy and a
    barrier; then one by one.
    """
    metadata = metadata_names(example.program)
    # A and B of wmma depend on a layout that may be open. Metadata that are set are smaller than
    # those that an image holds.
    steps = {
        id(step): (site, step)
        for site, step in visit(example.program.steps)
        if (use := step.writes) is not None
        and (isinstance(use.holds, Registers) or use.holds.matrix.operand == "c")
        and not is_plain_load(step)
        and not (step.sets is not None and use.name in metadata)
    }
    events = trace(example.program, example.image, target=target).events if steps else ()
    made: dict[Site, NDArray[Any]] = {}
    for event in events:
        # Of a step that is taken several times, the first time.
        if event.result is not None and id(event.step) in steps:
            made.setdefault(steps[id(event.step)][0], event.result)
    moved = {site for site, step in steps.values() if site in made and not multiplies(step)}
    for sites in ([moved] if len(moved) > 1 else []) + [{site} for site in made]:
        yield _loading(example, {site: made[site] for site in sites})


def _loading(example: Example, made: Mapping[Site, NDArray[Any]]) -> Example:
    """Return an example in which these are loaded from buffers of their own.

    Registers are (32, count), accumulators (rows, columns).
    """
    own: list[Buffer] = []
    edits: dict[Site, Steps] = {}
    homes: dict[str, tuple[Tile | None, NDArray[Any]]] = {}
    for site, step in visit(example.program.steps):
        if site not in made or step.writes is None:
            continue
        holds, values = step.writes.holds, made[site]
        tile = None if isinstance(holds, Registers) else Tile(matrix=holds.matrix, layout="row")
        size = values.nbytes + GUARD_BYTES if tile is None else room_for(tile)
        own.append(new_buffer((*example.program.buffers, *own), f"g{step.writes.bank}", size))
        edits[site] = (plain_access(step.writes, Place(buffer=own[-1].name)),)
        homes[own[-1].name] = tile, values
    target = example.edited(edits, *own).tidied()
    image = target.image.copy()
    for name in homes.keys() & {buffer.name for buffer in target.program.buffers}:
        start = position(target.program, Place(buffer=name))
        tile, values = homes[name]
        if tile is None:
            image[start : start + values.nbytes] = np.frombuffer(values.tobytes(), np.uint8)
        else:
            write(image[None], start, tile, values[None])
    return target.with_image(image)


def stored(example: Example) -> Iterator[Example]:
    """Iterate over examples in which registers go to a global buffer of their own, lane by lane.

    Those stored as rows, and those stored to shared memory: what nothing takes out of there
    can be dropped by a compiler, so that steps stayed for that alone.
    """
    program = example.program
    for site, step in visit(program.steps):
        if stores_rows(step):
            store: Any = plain_access(step.uses[0], Place(buffer=step.memory.buffer), store=True)
        elif (
            accesses_registers(step)
            and step.stores
            and program.buffer(step.place.buffer).space == "shared"
        ):
            store = step
        else:
            continue
        (use,) = step.uses
        buffer = new_buffer(program.buffers, f"g{use.bank}", store.size + GUARD_BYTES)
        there = replace(store, place=Place(buffer=buffer.name))
        yield example.edited({site: (there,)}, buffer).tidied()
