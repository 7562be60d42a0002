"""Copies in pieces, of which each thread moves as many bytes at a time as both ends align to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from oracle.program.operands import Place
from oracle.program.program import Program
from oracle.program.steps import Copy

VECTORS = {16: "v4.b32", 8: "v2.b32", 4: "b32", 2: "b16", 1: "b8"}
"""Types of what one lane can move at a time, by their bytes."""


class Piece(NamedTuple):
    """A part of a copy, in units of so many bytes (16, 8, 4, 2 or 1), to which both ends align."""

    source: Place
    destination: Place
    width: int
    units: int


def pieces(program: Program, step: Copy) -> Iterator[Piece]:
    """Iterate over the parts of a copy: each as wide as its ends allow, then what is left."""
    done = 0
    while (left := step.size - done) > 0:
        source, destination = (
            Place(buffer=place.buffer, offset=place.offset + done)
            for place in (step.source, step.destination)
        )
        offsets = [program.offset(at.buffer) + at.offset for at in (source, destination)]
        width = next(
            width for width in VECTORS if width <= left and not any(at % width for at in offsets)
        )
        yield Piece(source, destination, width, left // width)
        done += left // width * width
