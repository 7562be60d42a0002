"""Where a buffer lies changes nothing but where its bytes are found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import program_draws
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.bounds.permission import bounds_of, permitted
from oracle.errors import UsageError
from oracle.execution.execution import execute
from oracle.execution.tracing import trace, writer_of
from oracle.program.definedness import undefined
from oracle.program.operands import Buffer, Place
from oracle.program.program import Program, locate, position, writable


@st.composite
def moved(draw: st.DrawFn, program: Program) -> Program:
    """Put a spare buffer in front of those of each space."""
    spare = [
        Buffer(name=f"spare_{space}", space=space, alignment=1,
               size=draw(st.integers(1, 40)) * draw(st.sampled_from((1, 32))))
        for space in ("global", "shared")
    ]  # fmt: skip
    return replace(program, buffers=(*spare, *program.buffers))


def own(program: Program, plane: np.ndarray) -> np.ndarray:
    """Return the bytes of the buffers that both programs have, in their order."""
    parts = [
        plane[..., program.offset(buffer.name) : program.offset(buffer.name) + buffer.size]
        for buffer in program.buffers
        if buffer.space == "global" and not buffer.name.startswith("spare")
    ]
    return np.concatenate(parts, axis=-1)


def carried(program: Program, other: Program, images: np.ndarray) -> np.ndarray:
    """Return the images of a program as those of another with the same buffers."""
    moved_ = np.zeros((len(images), other.image_bytes), np.uint8)
    for buffer in program.buffers:
        if buffer.space == "global":
            here, there = program.offset(buffer.name), other.offset(buffer.name)
            moved_[:, there : there + buffer.size] = images[:, here : here + buffer.size]
    return moved_


def check_alike(first: Program, second: Program, images: np.ndarray) -> None:
    """Check that a program and the same with spare buffers do the same to what they share."""
    assert undefined(first) == undefined(second) == ()
    there = carried(first, second, images)
    results = [execute(one, given) for one, given in ((first, images), (second, there))]
    assert np.array_equal(own(first, results[0].images), own(second, results[1].images))
    assert np.array_equal(own(first, writable(first)), own(second, writable(second)))
    one, other = permitted(first, images), permitted(second, there)
    for plane in ("bits", "low", "high", "tags"):
        assert np.array_equal(own(first, getattr(one, plane)), own(second, getattr(other, plane)))
    assert [replace(bound, byte=0) for bound in bounds_of(one)] == [
        replace(bound, byte=0) for bound in bounds_of(other)
    ]


@settings(max_examples=12)
@given(
    program_draws.programs().flatmap(lambda p: st.tuples(st.just(p), moved(p))),
    st.integers(0, 2**32 - 1),
)
def test_spare_buffers_in_front_change_nothing_of_any_program(
    programs: tuple[Program, Program], seed: int
) -> None:
    first, second = programs
    images = program_draws.images(first, seed, 2)
    check_alike(first, second, images)
    here = trace(first, images[0], target="sm_90")
    there = trace(second, carried(first, second, images)[0], target="sm_90")
    assert [event.makers for event in here.events] == [event.makers for event in there.events]
    for byte in range(0, first.image_bytes, 16):
        place = locate(first, byte)
        if place is not None:
            wrote = writer_of(here, byte), writer_of(there, position(second, place))
            one, other = (w and (w.event.number, w.row, w.column) for w in wrote)
            assert one == other
            assert locate(second, position(second, place)) == place


def test_every_byte_of_an_image_has_a_place_and_none_beyond_it() -> None:
    buffers = (
        Buffer(name="one", space="global", size=16),
        Buffer(name="two", size=16, space="global"),
    )
    program = Program(buffers=buffers, steps=())
    places = {locate(program, byte) for byte in range(program.image_bytes)} - {None}
    assert places == {Place(buffer=name, offset=at) for name in ("one", "two") for at in range(16)}
    for byte in (-1, program.image_bytes):
        with pytest.raises(UsageError, match="it must lie in 0 to 511"):
            locate(program, byte)
