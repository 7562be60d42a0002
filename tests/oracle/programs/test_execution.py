from __future__ import annotations

import numpy as np
import program_draws
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oracle.execution.execution import execute
from oracle.models import Confidence
from oracle.program.operands import Buffer, Place
from oracle.program.operations import move_registers
from oracle.program.program import Program, writable
from oracle.program.steps import Barrier, Branch, Copy, Loop, Step, plain_load, plain_store

QUIET = settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@QUIET
@given(program=program_draws.programs(), seed=st.integers(0, 2**32 - 1))
def test_what_no_step_writes_comes_out_as_it_went_in(program: Program, seed: int) -> None:
    images = program_draws.images(program, seed, 2)
    before = images.copy()
    result = execute(program, images).images
    kept = ~writable(program)
    assert np.array_equal(result[:, kept], images[:, kept])
    assert np.array_equal(images, before), "the images given must stay as they are"


@QUIET
@given(program=program_draws.programs(), seed=st.integers(0, 2**32 - 1))
def test_an_image_comes_out_alike_whatever_else_is_in_the_batch(
    program: Program, seed: int
) -> None:
    images = program_draws.images(program, seed, 5)
    together = execute(program, images).images
    assert np.array_equal(together[3:4], execute(program, images[3:4]).images)
    assert np.array_equal(together[::-1], execute(program, images[::-1]).images)
    many = np.resize(images, (515, images.shape[1]))  # more than one chunk
    assert np.array_equal(execute(program, many).images[-5:], np.resize(together, many.shape)[-5:])


_LOAD = plain_load(registers="a", count=1, place=Place(buffer="a"))
_STORE = plain_store(registers="a", count=1, place=Place(buffer="out"))
_MOVE = move_registers(source="b", destination="a", count=1)
_TURN = move_registers(source="a", destination="b", count=1)


@pytest.mark.parametrize(
    ("body", "repeats"),
    [
        ((_LOAD, _STORE), True),
        ((_STORE, Barrier(), Branch(condition=1, then=(_STORE,))), True),
        ((_STORE, _MOVE), False),
        ((_MOVE, _LOAD, _TURN, _STORE), False),
        # The load is not taken, and so the store needs what the turn before has moved.
        ((Branch(condition=0, then=(_LOAD,)), _STORE, _MOVE), False),
        ((Loop(count=2, body=(_STORE, _TURN, Barrier())), _LOAD), False),
        ((_LOAD, Barrier(), plain_store(registers="b", count=1, place=Place(buffer="a"))), False),
    ],
)
def test_turns_that_do_the_same_again_are_known(body: tuple[Step, ...], repeats: bool) -> None:
    before = (_LOAD, plain_load(registers="b", count=1, place=Place(buffer="b")))
    behind = (Barrier(), plain_store(registers="b", count=1, place=Place(buffer="b")))
    taken, turns = (
        Program(
            buffers=tuple(Buffer(name=n, space="global", size=128) for n in ("a", "b", "out")),
            steps=(*before, *steps, *behind),
        )
        for steps in ((Loop(count=3, body=(*body, Barrier())),), (*body, Barrier()) * 3)
    )
    images = program_draws.images(taken, 0, 2)
    loop = taken.steps[2]
    assert isinstance(loop, Loop)
    assert loop.repeats == repeats
    assert np.array_equal(execute(taken, images).images, execute(turns, images).images)


def _copying() -> Program:
    return Program(
        buffers=(Buffer(name="data", space="global", size=64),),
        steps=(
            Copy(source=Place(buffer="data"), destination=Place(buffer="data", offset=32), size=8),
        ),
    )


@pytest.mark.parametrize("count", [1, 2])
def test_registers_keep_what_they_loaded_when_their_place_is_written(count: int) -> None:
    program = Program(
        buffers=tuple(Buffer(name=name, space="global", size=128) for name in ("a", "b", "out")),
        steps=(
            plain_load(registers="a", count=1, place=Place(buffer="a")),
            plain_load(registers="b", count=1, place=Place(buffer="b")),
            Barrier(),
            plain_store(registers="b", count=1, place=Place(buffer="a")),
            plain_store(registers="a", count=1, place=Place(buffer="out")),
        ),
    )
    images = program_draws.images(program, count, count)
    result = execute(program, images).images
    out = program.offset("out")
    assert np.array_equal(result[:, out : out + 128], images[:, :128])


def test_a_program_without_products_depends_on_nothing_that_is_inferred() -> None:
    images = np.zeros((1, 256), dtype=np.uint8)
    assert execute(_copying(), images).confidence is Confidence.MEASURED
