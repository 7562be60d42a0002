"""Features follow from the program: examples of each kind, and what must not matter."""

from __future__ import annotations

from dataclasses import replace

import pytest
from drawn_programs import drawn

from oracle.isa.forms import Form
from oracle.isa.lookup import ACCESS_FORMS, mma_form
from oracle.program.operands import Buffer, Operation, Place, Word
from oracle.program.operations import Elementwise
from oracle.program.program import Program
from oracle.program.steps import Loop, Op, Step
from strategies.features import FEATURES, Dimension, Feature, Has, features_of
from strategies.liveness import most_live

FORM = mma_form("wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32")
OUTER = 4096
"""Bytes of each buffer."""


def load(operand: str, *, at: int = 0, stride: int | None = None, **more: object) -> Op:
    form = ACCESS_FORMS[FORM.matrix(operand), "row", "global"]
    return Op.of(
        form=form, fragment=str(more.pop("name", operand)),
        place=Place(buffer=str(more.pop("buffer", "g" + operand)), offset=at), stride=stride,
        **more,  # type: ignore[arg-type]
    )  # fmt: skip


def store(name: str = "d", *, buffer: str = "gd", at: int = 0, stride: int | None = None) -> Op:
    form = ACCESS_FORMS[FORM.matrix("d"), "row", "global"]
    return Op.of(form=form, fragment=name, place=Place(buffer=buffer, offset=at), stride=stride)


def product(d: str = "d", a: str = "a", b: str = "b", c: str = "c", form: Form = FORM) -> Step:
    return Op.of(form=form, d=d, a=a, b=b, c=c)


def program(*steps: Step) -> Program:
    buffers = tuple(Buffer(name="g" + name, space="global", size=OUTER) for name in "abcdn")
    return Program(buffers=buffers, steps=steps)


LOADS = (load("a"), load("b"), load("c"))
PLAIN = program(*LOADS, product(), store())


def test_the_plainest_program_has_these_features_and_no_other() -> None:
    assert features_of(PLAIN) == {
        FEATURES["load a"], FEATURES["load b"], FEATURES["load c"], FEATURES["multiplication"],
        FEATURES["store"],
        Has.ONE_MULTIPLICATION, Has.STRIDE_OMITTED, Has.ALIGNED_128,
        FEATURES["load: .global"], FEATURES["store: .global"],
    }  # fmt: skip


# The fragment of C has 32 bytes, 8 elements of f32; its default stride is 16.
@pytest.mark.parametrize(
    ("step", "found"),
    [
        (load("c", stride=16), {Has.STRIDE_DEFAULT, Has.STRIDE_IMMEDIATE}),
        (load("c", stride=24, stride_in_register=True),
         {Has.STRIDE_LEAST, Has.STRIDE_REGISTER}),
        (load("c", stride=40), {Has.STRIDE_ODD, Has.STRIDE_LARGE}),
        (load("c", stride=32), {Has.STRIDE_LARGE}),
        (load("c", stride=1016), {Has.STRIDE_LARGE, Has.STRIDE_ODD}),
        (load("c", stride=1024), {Has.STRIDE_HUGE}),
        (load("c", at=32), {Has.ALIGNED_LEAST}),
        (load("c", at=64), {Has.ALIGNED_MORE}),
        (load("c", at=96), {Has.ALIGNED_LEAST}),
        (load("c", at=128), {Has.ALIGNED_128}),
        (load("c", at=OUTER - 1024), {Has.BUFFER_END}),
        (load("c", immediate=4), {Has.OFFSET_IMMEDIATE}),
        (load("c", immediate=-4), {Has.OFFSET_NEGATIVE}),
    ],
)  # fmt: skip
def test_strides_and_addresses_have_their_classes(step: Op, found: set[Feature]) -> None:
    features = features_of(program(step))
    assert found <= features
    classes = {one for one in features if one.dimension in (Dimension.STRIDE, Dimension.ADDRESS)}
    others = {
        Has.ALIGNED_128, Has.STRIDE_OMITTED, Has.STRIDE_IMMEDIATE,
    }  # fmt: skip
    assert classes <= found | others


SECOND = product("e", c="d")
COPIED = Elementwise(operation=Operation.COPY, matrix=FORM.matrix("a"), source="a", destination="f")


@pytest.mark.parametrize(
    ("steps", "there", "absent"),
    [
        ((*LOADS, product(), SECOND, store("e")), {Has.D_AS_C, Has.A_REUSED},
         {Has.CHAIN, Has.ONE_MULTIPLICATION}),
        ((*LOADS, product(), SECOND, product("x", c="e")), {Has.CHAIN}, set()),
        ((*LOADS, product(), *LOADS, product(), store()), set(),
         {Has.D_AS_C, Has.A_REUSED, Has.B_REUSED}),
        ((*LOADS, product("c"), store("c")), {Has.IN_PLACE_REGISTERS},
         {Has.OVER_MULTIPLICAND, Has.D_AS_C}),
        ((*LOADS, product("b"), store("b")), {Has.OVER_MULTIPLICAND}, set()),
        ((*LOADS, Loop(count=2, body=(product("c"),))), {Has.D_AS_C, Has.A_REUSED}, set()),
        ((*LOADS, Loop(count=1, body=(product("c"),))), {Has.LOOP_CONSTANT},
         {Has.D_AS_C, Has.A_REUSED, Has.LOOP_WORD}),
        ((*LOADS, product(), store(buffer="gc")), {Has.IN_PLACE_MEMORY}, set()),
        ((*LOADS, product(), store(buffer="gc", stride=24)), set(), {Has.IN_PLACE_MEMORY}),
        ((load("c"), load("c", at=32)), {Has.OVERLAPPING_READS}, {Has.TILES}),
        ((load("c", stride=32), load("c", at=64, stride=32)), {Has.TILES},
         {Has.OVERLAPPING_READS}),
        ((*LOADS, product(), store(), load("c", buffer="gd")), {Has.STORED_AND_LOADED}, set()),
        ((load("c", buffer="gd"), *LOADS, product(), store()), set(), {Has.STORED_AND_LOADED}),
        ((product(), product(form=FORM.varied(shape="m8n32k16"))), {Has.SEVERAL_SHAPES},
         {Has.SEVERAL_TYPES}),
        ((product(), product(form=FORM.varied(atype="bf16", btype="bf16"))),
         {Has.SEVERAL_TYPES}, {Has.SEVERAL_SHAPES}),
        ((product(), product()), set(), {Has.SEVERAL_TYPES, Has.SEVERAL_SHAPES}),
        ((load("a"), COPIED), {Has.CHANGED_MULTIPLICAND, FEATURES["elements: copy"]},
         {Has.CHANGED_ACCUMULATOR}),
        ((Loop(count=Word(place=Place(buffer="gn"), mask=3), body=(
            Loop(count=2, body=()),)),),
         {Has.LOOP_WORD, Has.LOOP_CONSTANT, Has.NESTED}, set()),
    ],
)  # fmt: skip
def test_the_order_of_steps_and_their_names_have_these_features(
    steps: tuple[Step, ...], there: set[Feature], absent: set[Feature]
) -> None:
    features = features_of(program(*steps))
    assert there <= features
    assert not absent & features


@pytest.mark.parametrize("count", [1, 7, 8, 15, 16, 31, 32])
def test_live_fragments_are_those_that_are_stored_later(count: int) -> None:
    names = [f"x{index}" for index in range(count)]
    loads = tuple(load("c", name=name) for name in names)
    features = features_of(program(*loads, *(store(name) for name in names)))
    assert (Has.LIVE_8 in features) == (count >= 8)
    assert (Has.LIVE_16 in features) == (count >= 16)
    # Eight registers each, of 255.
    assert (Has.SPILLS in features) == (count >= 32)
    paired = tuple(step for name in names for step in (load("c", name=name), store(name)))
    assert most_live(paired)[0] == 1


def _renamed(step: Step) -> Step:
    inside = {field: tuple(map(_renamed, block)) for field, block in step.blocks.items()}
    names = {use.field: " ".join("z" + name for name in use.name.split(" ")) for use in step.uses}
    return step.changed(**inside, **names)


def test_names_make_no_difference() -> None:
    for one in drawn(count=100, key=31):
        other = replace(one, steps=tuple(map(_renamed, one.steps)))
        assert features_of(other) == features_of(one)
