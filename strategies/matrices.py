"""Where the matrices of a program lie in its memory image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from oracle.program import Copy, Load, Place, Program, Store, walk
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
    """Return the matrices that wmma.load reads, those in shared memory where they came from."""
    return tuple(
        Placed(
            operand=step.form.operand,
            place=place,
            tile=Tile(matrix=step.form.matrix, layout=step.form.layout, stride=step.stride),
        )
        for step in walk(program.steps)
        if isinstance(step, Load)
        for place in _before(program, step.place)
    )


def outputs(program: Program) -> tuple[Placed, ...]:
    """Return the matrices that wmma.store writes, those in shared memory where they go to."""
    return tuple(
        Placed(
            operand="d",
            place=place,
            tile=Tile(matrix=step.form.matrix, layout=step.form.layout, stride=step.stride),
        )
        for step in walk(program.steps)
        if isinstance(step, Store)
        for place in _after(program, step.place)
    )


def _before(program: Program, place: Place) -> Iterator[Place]:
    """Find the places of the image from which a place gets its bytes; itself if it is there."""
    if program.buffer(place.buffer).space == "global":
        yield place
    for copy in _copies(program):
        if _covers(copy.destination, copy.size, place) and _is_global(program, copy.source):
            yield _moved(place, copy.destination, copy.source)


def _after(program: Program, place: Place) -> Iterator[Place]:
    """Find the places of the image to which the bytes of a place go; itself if it is there."""
    if program.buffer(place.buffer).space == "global":
        yield place
    for copy in _copies(program):
        if _covers(copy.source, copy.size, place) and _is_global(program, copy.destination):
            yield _moved(place, copy.source, copy.destination)


def _copies(program: Program) -> Iterator[Copy]:
    return (step for step in walk(program.steps) if isinstance(step, Copy))


def _covers(start: Place, size: int, place: Place) -> bool:
    return start.buffer == place.buffer and 0 <= place.offset - start.offset < size


def _is_global(program: Program, place: Place) -> bool:
    return program.buffer(place.buffer).space == "global"


def _moved(place: Place, origin: Place, target: Place) -> Place:
    return replace(target, offset=target.offset + place.offset - origin.offset)
