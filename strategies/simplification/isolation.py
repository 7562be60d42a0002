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

from oracle.image import position
from oracle.operands import Held, Registers
from oracle.ops import Product, multiplies, multiplies_fragments, product_of, stores_rows
from oracle.places import Place
from oracle.program import Program
from oracle.registers import listed
from oracle.steps import accesses_registers, is_plain_load
from oracle.storage import Tile, write
from oracle.tracing import trace
from strategies.programs.builder import GUARD_BYTES
from strategies.programs.single_instruction import buffers_of, plain_access, single_instruction
from strategies.simplification.examples import (
    Example,
    Site,
    Steps,
    edited,
    new_buffer,
    room_for,
    visit,
)
from strategies.simplification.registers import metadata_names
from strategies.simplification.structure import tidied

_STEPS = 5
"""Three loads, the multiplication, a store: a program with no more has nothing around it."""
_MULTIPLICATIONS = 32
"""Most that are tried, of a program with loops."""


def isolated(example: Example, *, target: str) -> Iterator[Example]:
    """Iterate over examples with one multiplication of a program by itself.

    Its operands are loaded from the image, with the values that they have where the program does
    what it should. So what came before it, and shared memory, can go at once; and of a chain the
    link that fails is left.

    Parameters
    ----------
    target
        Whose model computes what the program made on the way.
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
        if _shares(step):
            yield _alone(step, operands)


def _shares(step: Product) -> bool:
    """Tell whether operands list registers, each of the sources once."""
    return any(listed(use.name) for use in step.uses) and all(
        len(set(use.registers)) == len(use.registers) for use in step.reads
    )


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

    They have the values that the program gives them where it does what it should. First what no
    multiplication made: all of it, as ldmatrix comes with a copy and a barrier; then one by one.

    Parameters
    ----------
    target
        Whose model computes what the program made on the way.
    """
    made = _made(example, target)
    moved = [
        site for site, step in visit(example.program.steps)
        if site in made and not multiplies(step)
    ]  # fmt: skip
    for sites in ([moved] if len(moved) > 1 else []) + [[site] for site in made]:
        yield _loading(example, {site: made[site] for site in sites})


def _made(example: Example, target: str) -> dict[Site, NDArray[Any]]:
    """Return registers, (32, count), and accumulators, (rows, columns), by what makes them.

    These are steps that do not just load them; of one that is taken several times, the first time.
    """
    metadata = metadata_names(example.program)
    sites = {
        id(step): site
        for site, step in visit(example.program.steps)
        if step.writes is not None
        and _loadable(step.writes.holds)
        and not is_plain_load(step)
        # Metadata that are set are smaller than those that an image holds.
        and not (step.sets is not None and step.writes.name in metadata)
    }
    made: dict[Site, NDArray[Any]] = {}
    if sites:
        for event in trace(example.program, example.image, target=target).events:
            if event.result is not None and id(event.step) in sites:
                made.setdefault(sites[id(event.step)], event.result)
    return made


def _loadable(holds: Held) -> bool:
    """Whether a load by itself makes it: A and B of wmma depend on a layout that may be open."""
    return isinstance(holds, Registers) or holds.matrix.operand == "c"


def _loading(example: Example, made: Mapping[Site, NDArray[Any]]) -> Example:
    """Return an example in which these are loaded from buffers of their own."""
    buffers = list(example.program.buffers)
    edits: dict[Site, Steps] = {}
    homes: dict[str, tuple[Tile | None, NDArray[Any]]] = {}
    for site, step in visit(example.program.steps):
        if site not in made or step.writes is None:
            continue
        holds, values = step.writes.holds, made[site]
        tile, size = None, values.nbytes + GUARD_BYTES
        if not isinstance(holds, Registers):
            tile = Tile(matrix=holds.matrix, layout="row")
            size = room_for(tile)
        buffer = new_buffer(buffers, f"g{step.writes.bank}", size)
        buffers.append(buffer)
        edits[site] = (plain_access(step.writes, Place(buffer=buffer.name)),)
        homes[buffer.name] = tile, values
    target = tidied(example.with_program(buffers, edited(example.program.steps, edits)))
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
    for site, step in visit(example.program.steps):
        if stores_rows(step):
            store: Any = plain_access(step.uses[0], Place(buffer=step.memory.buffer), store=True)
        elif (accesses_registers(step) and step.stores) and example.program.buffer(
            step.place.buffer
        ).space == "shared":
            store = step
        else:
            continue
        (use,) = step.uses
        buffer = new_buffer(example.program.buffers, f"g{use.bank}", store.size + GUARD_BYTES)
        there = replace(store, place=Place(buffer=buffer.name))
        steps = edited(example.program.steps, {site: (there,)})
        yield tidied(example.with_program((*example.program.buffers, buffer), steps))
