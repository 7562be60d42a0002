"""Code of lanes: the oracle and the simulated device, written apart, give the same bytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from outcomes import left_and_expected

from corpus.programs import decode_program, encode_program
from fuzz.findings.verdicts import judge
from oracle.bounds.permission import allowed_bytes, contradicting, permitted
from oracle.errors import UsageError
from oracle.isa.lookup import FORMS
from oracle.isa.targets import Module
from oracle.program.lane_code import (
    Assign,
    If,
    LaneCode,
    Leave,
    Repeat,
    Statement,
    every,
    may_be_open,
    row_of,
)
from oracle.program.lane_runs import lane_results, run_lanes
from oracle.program.program import Program, walk
from oracle.program.steps import Op
from runners.front_ends.protocol import check_named
from runners.protocol import Runner
from runners.simulated_runner import SimulatedRunner
from strategies.draws import draw_one
from strategies.features import Dimension, Feature, Focus, Has, features_of
from strategies.programs import programs
from strategies.programs.lane_code import always_wrong
from strategies.simplification.examples import alone

MODULE = Module.named("sm_90", "8.0")
ALONE = programs(Focus(features=frozenset({Has.LANES_ALONE})), module=MODULE, forms=FORMS)


def code_in(program: Program) -> Iterator[Statement]:
    for step in walk(program.steps):
        if isinstance(step, LaneCode):
            yield from every(step.code)


SHIFTS = "shl.b64", "shr.b64", "shr.u64", "shr.s64"


def wrong_with_every_compiler(program: Program) -> bool:
    code = [one for one in code_in(program) if isinstance(one, Assign)]
    numbers = {
        name for one in code if "f32" in one.opcode.split(".")[-2:] for name in one.destinations
    }
    return any(
        always_wrong(row_of(one), one.guard) or (one.opcode in SHIFTS and one.sources[1] in numbers)
        for one in code
    )


@settings(max_examples=20, deadline=None)
@given(key=st.integers(0, 2**64 - 1))
def test_drawn_code_comes_out_as_the_oracle_says(unoptimized_runner: Runner, key: int) -> None:
    program = draw_one(ALONE, key)
    assume(
        isinstance(unoptimized_runner, SimulatedRunner) or not wrong_with_every_compiler(program)
    )
    images = np.random.default_rng(key).integers(0, 256, (4, program.image_bytes), np.uint8)
    # Small numbers decide counts and shifts, the others everything else.
    images.view("<u4")[:, ::3] %= 40
    left, expected = left_and_expected(unoptimized_runner, program, images)
    assert np.array_equal(left, expected)
    assert allowed_bytes(permitted(program, images), left).all()
    assert decode_program(encode_program(program), "here") == program
    with pytest.raises(UsageError, match="without --front-end"):
        check_named([program])


@pytest.mark.parametrize("feature", [Has.UNPACKED, Has.PACKED_BEHIND, Has.ROWS_COMPUTED], ids=str)
def test_code_around_instructions_comes_out_as_the_oracle_says(feature: Feature) -> None:
    strategy = programs(Focus(features=frozenset({feature})), module=MODULE, forms=FORMS)
    reached = 0
    for key in range(8):
        program = draw_one(strategy, key)
        reached += feature in features_of(program)
        images = np.random.default_rng(key).integers(0, 256, (4, program.image_bytes), np.uint8)
        left, expected = left_and_expected(SimulatedRunner(), program, images)
        assert np.array_equal(left, expected)
        assert allowed_bytes(permitted(program, images), left).all()
        assert decode_program(encode_program(program), "here") == program
    assert reached >= 4


@settings(max_examples=25, deadline=None)
@given(
    key=st.integers(0, 2**64 - 1),
    feature=st.sampled_from([Has.LANES_ALONE, Has.UNPACKED, Has.PACKED_BEHIND]),
)
def test_ptx_says_every_bit_of_what_is_drawn(key: int, feature: Feature) -> None:
    strategy = programs(Focus(features=frozenset({feature})), module=MODULE, forms=FORMS)
    random = np.random.default_rng(key)
    for step in walk(draw_one(strategy, key).steps):
        if isinstance(step, LaneCode):
            words = random.integers(0, 1 << 32, (4, 32, step.count * step.bits // 32), np.uint32)
            made, unknown = run_lanes(step, words)
            assert not unknown.any()
            assert np.array_equal(made, lane_results(step, words))


def test_draws_have_everything_that_code_is_made_of() -> None:
    drawn = [draw_one(ALONE, key) for key in range(100)]
    assert sum(map(wrong_with_every_compiler, drawn)) < 12
    found = [features_of(one) for one in drawn]
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


def test_nobody_reads_what_lanes_that_have_left_a_loop_would_have_written() -> None:
    branch = If(
        predicate="p0", then=(assigned("mov.b32", "r3", 5),),
        otherwise=(assigned("mov.b32", "r3", 6),),
    )  # fmt: skip
    body = (Leave(predicate="p0"), branch, assigned("add.s32", "r1", "r3", 1))
    first = assigned("setp.eq.u32", "p0", "r0", 0)
    code = code_of(ZERO, first, Repeat(count=2, counter="r2", body=body))
    for left, made in ((0, 0), (1, 7)):
        inputs = np.full((1, 32, 1), left, np.uint32)
        assert run_lanes(code, inputs)[0].ravel().tolist() == [made] * 32
        assert lane_results(code, inputs).ravel().tolist() == [made] * 32


SUM = assigned("add.rn.f32", "r1", "r0", "r0")


@pytest.mark.parametrize(
    ("code", "unknown"),
    [
        ([SUM], True),
        ([SUM, assigned("max.NaN.f32", "r1", "r1", "r1")], False),
        ([SUM, assigned("mul.rn.sat.f32", "r1", "r1", "r1")], False),
        ([SUM, assigned("cvt.rni.s32.f32", "r1", "r1")], False),
        ([SUM, assigned("mul.rn.f32", "r1", "r1", "r1")], True),
        ([SUM, assigned("max.NaN.f16x2", "r1", "r1", "r1")], True),
        ([SUM, assigned("and.b32", "r1", "r1", 0)], True),
        ([SUM, assigned("mov.b32", "r1", 0)], False),
        ([SUM, assigned("setp.eq.u32", "p0", "r0", 0), assigned("mov.b32", "r1", 0, guard="p0")],
         True),
        ([SUM, assigned("testp.notanumber.f32", "p0", "r1"),
          assigned("mov.b32", "r1", 0, guard="p0")], False),
        ([SUM, Repeat(count="r1", counter="r2", body=()), ZERO], True),
        ([SUM, assigned("max.xorsign.abs.f32", "r1", "r1", 0x3F80_0000),
          assigned("max.NaN.f32", "r1", "r1", "r1")], True),
        ([SUM, assigned("max.NaN.xorsign.abs.f32", "r1", "r1", 0x3F80_0000)], False),
    ],
)  # fmt: skip
def test_bits_of_nan_are_open_until_something_takes_it_for_a_number(
    code: list[Statement], unknown: bool
) -> None:
    inputs = np.where(LANES % 2, 0x7FC0_1234, 0x3F80_0000).astype(np.uint32).reshape(1, 32, 1)
    _, found = run_lanes(code_of(*code), inputs)
    assert found[0].tolist() == [unknown and bool(lane % 2) for lane in LANES]
    # The text tells of all that numbers may do.
    assert may_be_open(code_of(*code)) or not found.any()


def test_what_lanes_take_of_an_open_nan_contradicts_nothing() -> None:
    """The simulated device and the oracle give NaNs of `neg` other signs (2026-11-24)."""
    code = (
        assigned("neg.f16x2", "r1", "r0"),
        assigned("min.ftz.xorsign.abs.f16x2", "r1", "r1", 0x3C00_3C00),
    )
    program = alone(code_of(*code), np.full((32, 1), 0xFE01_7E01, np.uint32))
    images = program.image[None]
    left, expected = left_and_expected(SimulatedRunner(), program.program, images)
    assert not np.array_equal(left, expected)
    for other in (left, expected):
        wrong = contradicting(program.program, images, other, target="sm_90", expected=expected)
        assert not len(wrong)
        assert judge(program.program, images, other, target="sm_90") == (None,)


def test_rows_are_where_the_code_puts_them() -> None:
    form = next(form for form in FORMS if form.mnemonic == "ldmatrix")
    code = (assigned("shl.b32", "r0", "lane", 4),)
    addresses = tuple(range(0, 512, 16))
    rows = Op.of(form=form, registers="x", buffer="b", addresses=addresses, computed=code)
    assert not rows.changed(addresses=addresses[::-1]).memory.computed
    with pytest.raises(UsageError, match="computes other addresses"):
        rows.changed(addresses=addresses[::-1], computed=code)


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
