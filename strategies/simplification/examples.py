"""A program together with the one image that it works on, and how the two change together.

Matrices move in the image with the program: the values stay, the bytes are written where the new
tile has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from oracle.layouts import Tile, read, write
from oracle.program.lane_code import Repeat, Statement, inside
from oracle.program.operands import Buffer, Place
from oracle.program.program import Program, position, walk
from oracle.program.steps import Barrier, Step, accesses_rows, copies_bytes, is_lane_code, is_main
from strategies.matrices import Image
from strategies.programs.builder import GUARD_BYTES

T = TypeVar("T")
Site = tuple[int | str, ...]
"""Where a step or a statement stands: (3,), or (3, "then", 0) for the first of a branch's arm."""
Steps = tuple[Step, ...]
Edits = Mapping[Site, Steps]
"""What stands in the place of some steps; () drops one."""
_BARRIER = Barrier()


def _blocks_of(one: Any) -> Mapping[str, tuple[Any, ...]]:
    return inside(one) if isinstance(one, Statement) else one.blocks


def visit(steps: Sequence[T], prefix: Site = ()) -> Iterator[tuple[Site, T]]:
    """Iterate over steps, or statements, and those inside of others, in the order of the text."""
    for index, step in enumerate(steps):
        site = (*prefix, index)
        yield site, step
        for field, block in _blocks_of(step).items():
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
            field: edited(block, edits, (*site, field)) for field, block in _blocks_of(step).items()
        }
        if isinstance(step, Repeat) and step.entry:
            kept = ((*site, "body", at) not in edits for at in range(step.skipped))
            changes["skipped"] = sum(kept)
        result.append(replace(step, **changes) if changes else step)  # type: ignore[type-var]
    return tuple(result)


class Move(NamedTuple):
    """What lies in one image, and where another is to have it: tiles of any layouts, or bytes."""

    source: Place
    was: Tile | int
    destination: Place
    now: Tile | int


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

        Raises UsageError if there is no such program.
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

    def edited(self, edits: Edits, *more: Buffer) -> Example:
        """Return the example with other steps, and more buffers; raises as `with_program`."""
        steps = edited(self.program.steps, edits)
        return self.with_program((*self.program.buffers, *more), steps)

    def tidied(self) -> Example:
        """Return the example without steps and buffers that have no use.

        These are steps whose fragment nothing reads, but never the last matrix instruction;
        copies into shared memory that nothing reads, and out of shared memory that nothing writes;
        empty branches and loops; barriers at the ends, or two in a row; buffers that no step names.
        """
        steps, buffers = self.program.steps, self.program.buffers
        while True:
            every = list(walk(steps))
            useless = [site for site, step in visit(steps) if _is_useless(step, every, buffers)]
            if not useless:
                break
            steps = edited(steps, {useless[-1]: ()})
        kept: list[Step] = []
        for step in steps:
            if step != _BARRIER or (kept and kept[-1] != _BARRIER):
                kept.append(step)
        if kept and kept[-1] == _BARRIER:
            kept.pop()
        return self.with_program(used_buffers(buffers, tuple(kept)), kept)

    def moved(self, moves: Iterable[Move], target: Example) -> Example:
        """Return a target whose image has, at the destinations, the values that this one had.

        A move that does not fit into it is left out.
        """
        image: Image = target.image.copy()
        for source, was, destination, now in moves:
            old, new = position(self.program, source), position(target.program, destination)
            sizes = [one if isinstance(one, int) else one.extent for one in (was, now)]
            if not (0 <= old <= len(self.image) - sizes[0] and 0 <= new <= len(image) - sizes[1]):
                continue
            if isinstance(was, Tile) and isinstance(now, Tile):
                write(image[None], new, now, np.array(read(self.image[None], old, was)))
            elif isinstance(was, int) and isinstance(now, int):
                image[new : new + was] = self.image[old : old + was]
        return target.with_image(image)


def used_buffers(buffers: Sequence[Buffer], steps: Steps) -> tuple[Buffer, ...]:
    """Return the buffers that steps name; the first global one if there is no other."""
    named = {
        span.buffer for step in walk(steps) for span in (*step.bytes_read, *step.bytes_written)
    }
    used = tuple(buffer for buffer in buffers if buffer.name in named)
    if any(buffer.space == "global" for buffer in used):
        return used
    return (next(buffer for buffer in buffers if buffer.space == "global"), *used)


def _is_useless(step: Step, every: Sequence[Step], buffers: Sequence[Buffer]) -> bool:
    made = step.writes
    if made is not None:
        if is_main(step) and sum(is_main(other) for other in every) == 1:
            return False
        result = set(made.registers)
        return all(result.isdisjoint(use.registers) for other in every for use in other.reads)
    if copies_bytes(step):
        shared = {buffer.name for buffer in buffers if buffer.space == "shared"}
        read = {span.buffer for other in every for span in other.bytes_read}
        written = {span.buffer for other in every for span in other.bytes_written}
        return step.destination.buffer in shared - read or step.source.buffer in shared - written
    return bool(step.blocks) and not any(step.blocks.values())


def shows_something(program: Program, like: Program, *, any_warp_level: bool = False) -> bool:
    """Whether a program still has what another is about, a matrix instruction or code of lanes.

    And a store, which shows it. With `any_warp_level` wmma.load or wmma.store will do where the
    other multiplies: what is wrong is where they are executed, and no values.
    """

    def computes(step: Step) -> bool:
        return is_main(step) or is_lane_code(step)

    def needed(step: Step) -> bool:
        if not main:
            accesses = step.bytes_read or step.bytes_written
            return bool(step.uses and accesses) and not accesses_rows(step)
        # All lanes of a warp have to execute an instruction together.
        return step.instruction is not None if any_warp_level else computes(step)

    main = any(map(computes, walk(like.steps)))
    steps = list(walk(program.steps))
    return any(map(needed, steps)) and any(step.stores for step in steps)


def room_for(tile: Tile) -> int:
    """Return the bytes of a buffer that holds a tile at its start, with a guard behind it."""
    return tile.extent + tile.pitch + GUARD_BYTES


def new_buffer(buffers: Iterable[Buffer], name: str, size: int) -> Buffer:
    """Return a global buffer of so many bytes, under a name like `name` that no other has."""
    names = {buffer.name for buffer in buffers}
    number = next(n for n in range(len(names) + 1) if f"{name}{n or ''}" not in names)
    return Buffer(name=f"{name}{number or ''}", space="global", size=size)
