"""Code of lanes: the oracle and the simulated device, written apart, give the same bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus.programs import decode_program, encode_program
from oracle.errors import UsageError
from oracle.execution import execute
from oracle.isa import FORMS
from oracle.lane_code import Assign, If, LaneCode, Leave, Repeat, Statement, run_lanes
from oracle.permission import permitted
from oracle.targets import Module
from runners.emission import emit
from runners.front_ends.protocol import check_named
from runners.protocol import Compiled, Ran
from runners.simulated_runner import SimulatedRunner
from strategies.draws import draw_one
from strategies.features import Dimension, Focus, Has, features_of
from strategies.programs import programs

MODULE = Module.named("sm_90", "8.0")
ALONE = programs(Focus(features=frozenset({Has.LANES_ALONE})), module=MODULE, forms=FORMS)


@settings(max_examples=60, deadline=None)
@given(key=st.integers(0, 2**64 - 1))
def test_drawn_code_comes_out_as_the_oracle_says(key: int) -> None:
    program = draw_one(ALONE, key)
    runner = SimulatedRunner()
    images = np.random.default_rng(key).integers(0, 256, (4, program.image_bytes), np.uint8)
    # Small numbers decide counts and shifts, the others everything else.
    images.view("<u4")[:, ::3] %= 40
    code = runner.compile(emit(program, module=MODULE))
    assert isinstance(code, Compiled), code
    ran = runner.run(code, images)
    assert isinstance(ran, Ran), ran
    assert np.array_equal(ran.images, execute(program, images).images)
    assert permitted(program, images).allows(ran.images).all()
    assert decode_program(encode_program(program), "here") == program
    with pytest.raises(UsageError, match="without --front-end"):
        check_named([program])


def test_draws_have_everything_that_code_is_made_of() -> None:
    found = [features_of(draw_one(ALONE, key)) for key in range(100)]
    reached = {one for features in found for one in features if one.dimension is Dimension.LANES}
    nested = sum(any(one.value.endswith("2 deep") for one in features) for features in found)
    assert len(reached) >= 6
    assert nested >= 5


def assigned(opcode: str, destination: str, *sources: str | int, guard: str = "") -> Assign:
    return Assign(opcode=opcode, destinations=(destination,), sources=sources, guard=guard)


def code_of(*code: Statement, results: tuple[str, ...] = ("r1",)) -> LaneCode:
    return LaneCode(source="x", count=1, destination="y", results=results, code=code)


ONE = assigned("add.s32", "r1", "r1", 1)
ZERO = assigned("and.b32", "r1", "r0", 0)
LANES = np.arange(32)


@pytest.mark.parametrize(
    ("loop", "turns"),
    [
        (Repeat(count=3, counter="r2", body=(ONE,)), np.full(32, 3)),
        (Repeat(count=0, counter="r2", body=(ONE,)), np.full(32, 0)),
        (Repeat(count=0, counter="r2", late=True, body=(ONE,)), np.full(32, 1)),
        (Repeat(count="lane", mask=7, counter="r2", body=(ONE,)), LANES & 7),
        (Repeat(count="lane", mask=7, counter="r2", down=True, body=(ONE,)), LANES & 7),
        (
            Repeat(count="lane", mask=3, counter="r2", down=True, late=True, body=(ONE,)),
            np.maximum(LANES & 3, 1),
        ),
        (
            Repeat(
                count="lane", mask=3, counter="r2",
                body=(Repeat(count=2, counter="r3", body=(ONE,)),),
            ),
            2 * (LANES & 3),
        ),
    ],
)  # fmt: skip
def test_a_loop_takes_as_many_turns_as_each_lane_counts(loop: Repeat, turns: np.ndarray) -> None:
    results, unknown = run_lanes(code_of(ZERO, loop), np.zeros((1, 32, 1), np.uint32))
    assert results[0, :, 0].tolist() == turns.tolist()
    assert not unknown.any()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ([assigned("add.s32", "r1", "r9", 1)], "r9 is read"),
        ([ZERO, Leave(predicate="p0")], "outside of every loop"),
        ([ZERO, If(predicate="p0", then=(ONE,))], "p0 is read"),
        ([Repeat(count=1, counter="r1", body=(ONE,))], "counter of a loop is written"),
        ([Repeat(count=1, counter="r2", body=(ZERO,))], "result r1 is not written on every path"),
        ([Repeat(count=16, counter="r2", body=()), ZERO], "count of a loop of lanes is 16"),
        ([assigned("addc.s32", "r1", "r0", "r0")], "reads a carry"),
        ([assigned("shl.b32", "d1", "r0", 1)], "writes b32"),
        ([assigned("nonsense", "r1", "r0")], "no scalar instruction 'nonsense'"),
        ([assigned("add.s32", "lane", "r0", 1)], "not to be written"),
    ],
)
def test_code_that_some_path_leaves_undefined_is_refused(code: list[Statement], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        code_of(*code)
