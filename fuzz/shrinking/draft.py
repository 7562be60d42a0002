"""What a shrinker changes: a program together with the one image that it works on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from fuzz.findings.cells import Image
from oracle.lane_steps import LoadRows
from oracle.places import Buffer
from oracle.program import Program, walk
from oracle.steps import Load, Multiply, Step, Store

Site = tuple[int | str, ...]
"""Where a step stands: (3,), or (3, "then", 0) for the first step in the arm of a branch."""
Steps = tuple[Step, ...]
Edits = Mapping[Site, Steps]
"""What stands in the place of some steps; () drops one."""


def visit(steps: Steps, prefix: Site = ()) -> Iterator[tuple[Site, Step]]:
    """Iterate over steps and those inside branches and loops, in the order of the text."""
    for index, step in enumerate(steps):
        site = (*prefix, index)
        yield site, step
        for field, inside in step.blocks.items():
            yield from visit(inside, (*site, field))


def edited(steps: Steps, edits: Edits, prefix: Site = ()) -> Steps:
    """Return steps with some of them changed; inside a step that is changed nothing else is."""
    result: list[Step] = []
    for index, step in enumerate(steps):
        site = (*prefix, index)
        if site in edits:
            result += edits[site]
        elif step.blocks:
            blocks = {
                field: edited(inside, edits, (*site, field))
                for field, inside in step.blocks.items()
            }
            result.append(step.with_blocks(blocks))
        else:
            result.append(step)
    return tuple(result)


@dataclass(frozen=True, kw_only=True, eq=False)
class Draft:
    """A program and an image of it."""

    program: Program
    image: Image

    @property
    def key(self) -> tuple[Program, bytes]:
        """What tells this draft from every other."""
        return self.program, self.image.tobytes()

    def with_image(self, image: Image) -> Draft:
        """Return the same program on another image."""
        return Draft(program=self.program, image=image)

    def with_program(self, buffers: Iterable[Buffer], steps: Iterable[Step]) -> Draft:
        """Return another program, on the bytes that this image has in the buffers of both.

        Raises
        ------
        UsageError
            If there is no such program.
        """
        program = Program(buffers=tuple(buffers), steps=tuple(steps))
        if program.buffers == self.program.buffers:
            return Draft(program=program, image=self.image)
        image = np.zeros(program.image_bytes, np.uint8)
        sizes = {b.name: b.size for b in self.program.buffers if b.space == "global"}
        for buffer in program.buffers:
            if buffer.space == "global" and buffer.name in sizes:
                size = min(buffer.size, sizes[buffer.name])
                old, new = self.program.offset(buffer.name), program.offset(buffer.name)
                image[new : new + size] = self.image[old : old + size]
        return Draft(program=program, image=image)


def shows_something(program: Program, like: Program) -> bool:
    """Whether a program still has a matrix instruction of the kind of another's, and a store."""
    steps = list(walk(program.steps))
    main = (Multiply, LoadRows)
    needed: tuple[type, ...] = main
    if not any(isinstance(step, main) for step in walk(like.steps)):
        needed = (Load, Store)
    return any(isinstance(step, needed) for step in steps) and any(
        step.bytes_written and step.reads for step in steps
    )
