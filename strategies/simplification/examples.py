"""A program together with the one image that it works on, and how the two change together.

Matrices move in the image with the program: the values stay, the bytes are written where the new
tile has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from oracle.image import position
from oracle.lane_code import Repeat, Statement, inside
from oracle.ops import MatrixAccess, accesses_rows, is_main
from oracle.places import Buffer, Place
from oracle.program import Program, walk
from oracle.steps import Step, is_lane_code
from oracle.storage import Tile, read, write
from strategies.matrices import Image, places_of
from strategies.programs.builder import GUARD_BYTES
from strategies.programs.forms import ACCESS_FORMS

T = TypeVar("T")
Site = tuple[int | str, ...]
"""Where a step or a statement stands: (3,), or (3, "then", 0) for the first of a branch's arm."""
Steps = tuple[Step, ...]
Edits = Mapping[Site, Steps]
"""What stands in the place of some steps; () drops one."""


def blocks_of(one: Any) -> Mapping[str, tuple[Any, ...]]:
    """Return what is inside a step, or a statement of scalar code, by the field that has it."""
    return inside(one) if isinstance(one, Statement) else one.blocks


def visit(steps: Sequence[T], prefix: Site = ()) -> Iterator[tuple[Site, T]]:
    """Iterate over steps, or statements, and those inside of others, in the order of the text."""
    for index, step in enumerate(steps):
        site = (*prefix, index)
        yield site, step
        for field, block in blocks_of(step).items():
            yield from visit(block, (*site, field))


def edited(
    steps: Sequence[T], edits: Mapping[Site, tuple[T, ...]], prefix: Site = ()
) -> tuple[T, ...]:
    """Return steps or statements, some of them changed; inside of those nothing else is."""
    result: list[Any] = []
    for index, step in enumerate(steps):
        site = (*prefix, index)
        if site in edits:
            result += edits[site]
            continue
        changes: dict[str, Any] = {
            field: edited(block, edits, (*site, field)) for field, block in blocks_of(step).items()
        }
        if isinstance(step, Repeat) and step.entry:
            kept = ((*site, "body", at) not in edits for at in range(step.skipped))
            changes["skipped"] = sum(kept)
        result.append(replace(step, **changes) if changes else step)  # type: ignore[type-var]
    return tuple(result)


@dataclass(frozen=True, kw_only=True, eq=False)
class Example:
    """A program and an image of it."""

    program: Program
    image: Image

    @property
    def key(self) -> tuple[Program, bytes]:
        """What tells this example from every other."""
        return self.program, self.image.tobytes()

    def with_image(self, image: Image) -> Example:
        """Return the same program on another image."""
        return Example(program=self.program, image=image)

    def with_program(self, buffers: Iterable[Buffer], steps: Iterable[Step]) -> Example:
        """Return another program, on the bytes that this image has in the buffers of both.

        Raises
        ------
        UsageError
            If there is no such program.
        """
        program = Program(buffers=tuple(buffers), steps=tuple(steps))
        if program.buffers == self.program.buffers:
            return Example(program=program, image=self.image)
        image = np.zeros(program.image_bytes, np.uint8)
        sizes = {b.name: b.size for b in self.program.buffers if b.space == "global"}
        for buffer in program.buffers:
            if buffer.space == "global" and buffer.name in sizes:
                size = min(buffer.size, sizes[buffer.name])
                old, new = self.program.offset(buffer.name), program.offset(buffer.name)
                image[new : new + size] = self.image[old : old + size]
        return Example(program=program, image=image)


def _is_warp_level(step: Step) -> bool:
    # All lanes of a warp have to execute it together.
    return step.instruction is not None


def _computes(step: Step) -> bool:
    return is_main(step) or is_lane_code(step)


def _moves(step: Step) -> bool:
    accesses = step.bytes_read or step.bytes_written
    return bool(step.uses and accesses) and not accesses_rows(step)


def shows_something(program: Program, like: Program, *, any_warp_level: bool = False) -> bool:
    """Whether a program still has what another is about, a matrix instruction or code of lanes.

    And a store, which shows it.

    Parameters
    ----------
    any_warp_level
        Whether wmma.load or wmma.store will do where the other multiplies: what is wrong is where
        they are executed, and no values.
    """
    steps = list(walk(program.steps))
    main = any(map(_computes, walk(like.steps)))
    needed = _moves if not main else _is_warp_level if any_warp_level else _computes
    return any(map(needed, steps)) and any(step.stores for step in steps)


def room_for(tile: Tile) -> int:
    """Return the bytes of a buffer that holds a tile at its start, with a guard behind it."""
    return tile.extent + tile.pitch + GUARD_BYTES


def with_form(step: MatrixAccess, *, layout: str, space: str) -> MatrixAccess:
    """Return a load or store with another layout and state space, if the pages have the form."""
    if (step.form.layout, step.form.space) == (layout, space):
        return step
    form = ACCESS_FORMS.get((step.form.matrix(), layout, space))
    if form is None:
        return step
    near = space.startswith("shared") or step.form.matrix().register_bits == 64
    # 32 bits address shared memory only.
    return step.changed(form=form, address=step.address if near else None)


def image_places(program: Program, step: MatrixAccess) -> Iterator[Place]:
    """Find where the image holds what a step loads or stores: there, or where copies have it."""
    return places_of(program, step.memory.place, stored=step.stores)


@dataclass(frozen=True, kw_only=True)
class Move:
    """What lies in one image, and where another image is to have it: elements of a tile, or bytes.

    Both extents are tiles, of any layouts, or both are numbers of bytes.
    """

    source: Place
    source_extent: Tile | int
    destination: Place
    destination_extent: Tile | int


def moved(example: Example, moves: list[Move], target: Example) -> Example:
    """Return an example whose image has, at the destinations, the values that another's had.

    Parameters
    ----------
    example
        Where the sources of the moves are.
    moves
    target
        Where their destinations are. A move that does not fit into it is left out.
    """
    image: Image = target.image.copy()
    for move in moves:
        old, new = (
            position(example.program, move.source),
            position(target.program, move.destination),
        )
        was, now = move.source_extent, move.destination_extent
        if not (
            0 <= old <= len(example.image) - _bytes(was) and 0 <= new <= len(image) - _bytes(now)
        ):
            continue
        if isinstance(was, Tile) and isinstance(now, Tile):
            write(image[None], new, now, np.array(read(example.image[None], old, was)))
        elif isinstance(was, int) and isinstance(now, int):
            image[new : new + was] = example.image[old : old + was]
    return target.with_image(image)


def _bytes(extent: Tile | int) -> int:
    return extent if isinstance(extent, int) else extent.extent


def new_buffer(buffers: Sequence[Buffer], name: str, size: int) -> Buffer:
    """Return a global buffer of its own, under a name like `name` that no other has.

    Parameters
    ----------
    size
        Bytes: of what lies in it and of a guard behind that.
    """
    names = {buffer.name for buffer in buffers}
    number = next(n for n in range(len(names) + 1) if f"{name}{n or ''}" not in names)
    return Buffer(name=f"{name}{number or ''}", space="global", size=size)
