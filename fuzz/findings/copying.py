"""What is wrong where bytes that are copied come out as others: the copy, or what it is made of.

Long copies are made of a loop, and of vectors where bytes are aligned. A fault of loops or of
vectors shows in other steps as well, and is named after those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from fuzz.findings.experiments import Bench, Culprit
from fuzz.findings.lanes import wrong_vector
from oracle.places import Buffer, Place
from oracle.program import Program, walk
from oracle.steps import Barrier, Copy, Loop, Step

CONTROL = Culprit(steps=("branch or loop",))
"""What decides which steps are taken, and how often."""
_WORD, _LARGEST_ACCESS = 4, 16
"""Bytes of a register, and those that one lane moves at most."""
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
        Other bytes are copied as it does, to shared memory and back.
    """
    for step in dict.fromkeys(one for one in walk(program.steps) if isinstance(one, Copy)):
        for copies in _there_and_back(step):
            whole: list[Step] = []
            pieces: list[Step] = []
            for copy in copies:
                whole += [copy, Barrier()]
                pieces += [*_pieces(copy), Barrier()]
            if not _wrong(bench, step.size, whole):
                continue
            if not _wrong(bench, step.size, pieces) and _turns_wrong(bench):
                return CONTROL
            return wrong_vector(bench) or Culprit(steps=("copy",))
    return None


def _there_and_back(step: Copy) -> Iterator[tuple[Copy, Copy]]:
    """Iterate over copies to shared memory and back, one of the two as wide as that of a step.

    The other one moves at most a word at once: what exchanges parts of a vector there would put
    them in place again.
    """
    source, middle = step.source.offset % _LARGEST_ACCESS, step.destination.offset % _LARGEST_ACCESS
    narrow = middle + (_WORD if middle % _WORD == 0 else 1)
    for before, after in ((source, narrow), (narrow, source)):
        places = [
            Place(buffer=name, offset=offset)
            for name, offset in (("a", before), ("b", middle), ("c", after))
        ]
        first, second = (
            Copy(source=one, destination=other, size=step.size) for one, other in pairwise(places)
        )
        yield first, second


def _pieces(copy: Copy) -> Iterator[Copy]:
    for done in range(0, copy.size, _PIECE):
        source, destination = (
            replace(place, offset=place.offset + done) for place in (copy.source, copy.destination)
        )
        size = min(_PIECE, copy.size - done)
        yield Copy(source=source, destination=destination, size=size)


def _turns_wrong(bench: Bench) -> bool:
    """Whether a word does not get as far as a loop takes it."""
    places = [Place(buffer="a", offset=index * _WORD) for index in range(3)]
    moves: list[Step] = []
    for source, destination in ((places[1], places[2]), (places[0], places[1])):
        moves += [Copy(source=source, destination=destination, size=_WORD), Barrier()]
    return _wrong(bench, _WORD, (Loop(count=2, body=tuple(moves)),))


def _wrong(bench: Bench, size: int, steps: Sequence[Step]) -> bool:
    """Whether steps on so many bytes come out wrong: in a and c, global memory, and b, shared."""
    size += 2 * _LARGEST_ACCESS
    spaces = {"a": "global", "b": "shared", "c": "global"}
    buffers = tuple(Buffer(name=name, space=space, size=size) for name, space in spaces.items())
    program = Program(buffers=buffers, steps=tuple(steps))
    noise = np.random.default_rng(0).integers(0, 256, (1, program.image_bytes), dtype=np.uint8)
    results = bench.results(program, noise)
    return results is not None and bool(results.wrong.any())
