"""Where the matrices of a program lie in its memory image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from oracle.places import Place
from oracle.program import Program, walk
from oracle.steps import Copy, Load, Store
from oracle.storage import Tile


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A matrix that a program loads or stores, in the image."""

    operand: str
    """"a", "b", "c" or "d"."""
    place: Place
    """Of its first byte, in a global buffer."""
    tile: Tile


def inputs(program: Program) -> tuple[Placed, ...]:
    """Return the matrices that wmma.load reads, those in shared memory where they came from.

    Copies are followed one after another, and only such as take the matrix whole.
    """
    return tuple(
        Placed(operand=step.form.operand, place=place, tile=tile)
        for step in walk(program.steps)
        if isinstance(step, Load)
        for tile in (step.tile,)
        for place in _ends(program, step.place, tile.extent, backwards=True)
    )


def outputs(program: Program) -> tuple[Placed, ...]:
    """Return the matrices that wmma.store writes, those in shared memory where they go to."""
    return tuple(
        Placed(operand="d", place=place, tile=tile)
        for step in walk(program.steps)
        if isinstance(step, Store)
        for tile in (step.tile,)
        for place in _ends(program, step.place, tile.extent, backwards=False)
    )


def _ends(program: Program, place: Place, size: int, *, backwards: bool) -> Iterator[Place]:
    """Find the places of the image from or to which copies take some bytes; where they are, too."""
    copies = [step for step in walk(program.steps) if isinstance(step, Copy)]
    seen, open_ = {place}, [place]
    while open_:
        here = open_.pop(0)
        if program.buffer(here.buffer).space == "global":
            yield here
        for copy in copies:
            near, far = copy.source, copy.destination
            if backwards:
                near, far = far, near
            start = here.offset - near.offset
            if near.buffer == here.buffer and 0 <= start <= copy.size - size:
                there = replace(far, offset=far.offset + start)
                if there not in seen:
                    seen.add(there)
                    open_.append(there)
