"""What a shrinker changes: a program together with the one image that it works on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracle.program import (
    Buffer,
    Load,
    LoadRows,
    Multiply,
    Program,
    Step,
    Store,
    StoreRegisters,
    walk,
)

Image = NDArray[np.uint8]
"""uint8 (image_bytes,)."""


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
        isinstance(step, Store | StoreRegisters) for step in steps
    )
