"""What is wrong where bytes that are copied come out as others: the copy, or what it is made of.

Long copies are made of a loop, and of vectors where bytes are aligned. A fault of loops or of
vectors shows in other steps as well, and is named after those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from fuzz.findings.experiments import Bench, Culprit
from fuzz.findings.lanes import wrong_vector
from oracle.places import Buffer, Place
from oracle.program import Program, walk
from oracle.steps import Barrier, Copy, Loop, Step

CONTROL = Culprit(steps=("branch or loop",))
"""What decides which steps are taken, and how often."""
_LARGEST_ACCESS = 16
"""Bytes that one lane moves at most."""
_PIECE = 256
"""Bytes that are moved without a loop, however they are aligned: 8 rounds of 32 lanes, a byte each
(`runners.emission.copies`)."""


def wrong_copy(bench: Bench, program: Program) -> Culprit | None:
    """Find out what is wrong with the copies of a program; None if all are right.

    Parameters
    ----------
    bench
        Where the program comes out wrong.
    program
        Bytes of other contents are copied as it does, to shared memory and back.
    """
    for step in dict.fromkeys(one for one in walk(program.steps) if isinstance(one, Copy)):
        first = replace(
            step, source=_apart(step.source, "a"), destination=_apart(step.destination, "b")
        )
        second = replace(
            step, source=first.destination, destination=replace(first.source, buffer="c")
        )
        size = step.size + _LARGEST_ACCESS
        if _right(bench, size, (first, Barrier(), second)):
            continue
        pieces: list[Step] = [*_pieces(first), Barrier(), *_pieces(second)]
        if _right(bench, size, pieces) and not _turns_right(bench):
            return CONTROL
        return wrong_vector(bench) or Culprit(steps=("copy",))
    return None


def _apart(place: Place, name: str) -> Place:
    """Return a place in a buffer of its own that is aligned as it is."""
    return Place(buffer=name, offset=place.offset % _LARGEST_ACCESS)


def _pieces(copy: Copy) -> Iterator[Copy]:
    for done in range(0, copy.size, _PIECE):
        source, destination = (
            replace(place, offset=place.offset + done) for place in (copy.source, copy.destination)
        )
        size = min(_PIECE, copy.size - done)
        yield Copy(source=source, destination=destination, size=size)


def _turns_right(bench: Bench) -> bool:
    """Whether a word gets as far as a loop takes it."""
    word = 4
    places = [Place(buffer="a", offset=index * word) for index in range(3)]
    moves: list[Step] = []
    for source, destination in ((places[1], places[2]), (places[0], places[1])):
        moves += [Copy(source=source, destination=destination, size=word), Barrier()]
    return _right(bench, 3 * word, (Loop(count=2, body=tuple(moves)),))


def _right(bench: Bench, size: int, steps: Sequence[Step]) -> bool:
    """Whether steps on buffers of a size come out right: a and c of global, b of shared memory."""
    spaces = {"a": "global", "b": "shared", "c": "global"}
    buffers = tuple(Buffer(name=name, space=space, size=size) for name, space in spaces.items())
    program = Program(buffers=buffers, steps=tuple(steps))
    noise = np.random.default_rng(0).integers(0, 256, program.image_bytes, dtype=np.uint8)
    return bench.right(program, noise)
