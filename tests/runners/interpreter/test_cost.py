"""How many images of a program take as long as those of others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_reference_agrees import product_program

from oracle.isa.lookup import FORMS, form_of, is_available
from oracle.isa.targets import Module
from oracle.models import model_for
from oracle.program.program import Program
from oracle.program.steps import Loop
from runners.reference.encoding import Encoded, encode
from runners.reference.fresh import images_of, nanoseconds

MODULE = Module.named("sm_90", "8.7")
SMALLEST = "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32"
MODEL = model_for("sm_90")
ENCODED = [form for form in FORMS if form.is_product and is_available(form, MODULE)]


def encoded_of(opcode: str) -> Encoded:
    return encode(product_program(form_of(opcode)), MODEL)


def test_the_smallest_program_takes_what_the_weights_are_said_to_say():
    assert 35 < nanoseconds(encoded_of(SMALLEST)) < 45


@pytest.mark.parametrize("dearer", [
    "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64",
    "mma.sp.sync.aligned.m16n8k64.row.col.f32.e4m3.e5m2.f32",
])  # fmt: skip
def test_what_takes_longer_has_fewer_images(dearer):
    cheap, dear = (images_of(1 << 20, encoded_of(one)) for one in (SMALLEST, dearer))
    assert 16 <= dear < cheap <= 1 << 20


@given(most=st.integers(1, 1 << 30), form=st.sampled_from(ENCODED))
def test_there_are_never_more_than_asked_for_and_some_at_least(most, form):
    assert min(most, 16) <= images_of(most, encode(product_program(form), MODEL)) <= most


def test_a_loop_takes_longer_the_more_often_it_turns():
    program = product_program(form_of(SMALLEST))
    one, four = (
        nanoseconds(
            encode(
                Program(buffers=program.buffers, steps=(Loop(count=turns, body=program.steps),)),
                MODEL,
            )
        )
        for turns in (1, 4)
    )
    assert one < four < 4 * one
