"""Programs that multiply a sparse A: what is defined, what they leave, what is permitted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oracle import UsageError, mma_sp
from oracle.bounds.permission import UNKNOWN, allowed_bytes, permitted
from oracle.execution.execution import execute
from oracle.isa.forms import Form
from oracle.isa.lookup import INSTRUCTIONS, chunks_of, selectors_of
from oracle.program.breaches import Breach
from oracle.program.definedness import undefined
from oracle.program.operands import Place
from oracle.program.operations import set_registers
from oracle.program.program import Program
from oracle.program.steps import Op, Step, plain_load, plain_store, product_of
from strategies.contents import Recipe, ValueClass, expand
from strategies.matrices import buffers_of, single_program

PLAIN = INSTRUCTIONS["mma.sp"].forms
ORDERED = [one for one in INSTRUCTIONS["mma.sp::ordered_metadata"].forms if not one.texts["kind"]]
SOME = [*PLAIN[::5], *ORDERED[1::6]]


def single(form: Form, **changes: Any) -> Program:
    return single_program(product_of(form).changed(**changes))


def with_constant(form: Form, constant: int) -> Program:
    """Return a program whose metadata are set, and not loaded."""
    steps = tuple(
        set_registers(destination="e", count=1, constant=constant)
        if step.names.get("registers") == "e"
        else step
        for step in single(form).steps
    )
    return Program(buffers=buffers_of(steps), steps=steps)


def causes(program: Program) -> list[Breach]:
    return [reason.cause for reason in undefined(program, target="sm_90")]


@pytest.mark.parametrize("form", SOME, ids=lambda form: form.opcode)
def test_a_program_leaves_what_the_instruction_makes_of_its_registers(form: Form) -> None:
    rng = np.random.default_rng(1)
    for selector in selectors_of(form):
        program = single(form, selector=selector)
        images = rng.integers(0, 256, (3, program.image_bytes), dtype=np.uint8)
        held = {}
        for name in ("a", "b", "c", "e"):
            words = 1 if name == "e" else form.words(name)
            start = program.offset(name)
            part = np.ascontiguousarray(images[:, start : start + 128 * words])
            held[name] = part.view(np.uint32).reshape(3, 32, words)
        d = mma_sp(form.opcode, held["a"], held["b"], held["c"], held["e"][..., 0], selector)
        found = execute(program, images, target="sm_90").images
        start = program.offset("d")
        assert np.array_equal(
            found[:, start : start + d[0].nbytes], d.view(np.uint8).reshape(3, -1)
        )


@pytest.mark.parametrize("form", SOME, ids=lambda form: form.opcode)
def test_the_model_is_permitted_and_metadata_without_a_meaning_leave_an_image_undefined(
    form: Form,
) -> None:
    program = single(form)
    images = expand(Recipe(classes=tuple(ValueClass), seed=3), program, len(ValueClass))
    expected = execute(program, images, target="sm_90").images
    permission = permitted(program, images, target="sm_90")
    assert not permission.undefined.any()
    assert allowed_bytes(permission, expected).all()
    wrong = expected.copy()
    d = program.offset("d")
    wrong[:, d : d + 128 * form.words("d")] ^= 0x3F
    # Where terms are large and cancel, nearly everything is permitted.
    assert allowed_bytes(permission, wrong).all(axis=1).sum() < len(images) / 2

    images[1, program.offset("e")] = 0  # lane 0: of rows 0 and 8, or of one of them
    other = permitted(program, images, target="sm_90")
    assert other.undefined.tolist() == [number == 1 for number in range(len(images))]
    tags = other.tags[1, d : d + 128 * form.words("d")]
    result = (tags == UNKNOWN).reshape(32, -1)
    assert result[:4].any()
    assert not result[4:].any()


def test_selectors_that_the_page_does_not_have_are_undefined_and_beyond_three_impossible() -> None:
    for form in (*PLAIN, *ORDERED):
        for selector in range(4):
            found = causes(single(form, selector=selector))
            assert found == ([] if selector in selectors_of(form) else [Breach.SELECTOR])
    with pytest.raises(UsageError, match="sparsity selector"):
        single(PLAIN[0], selector=4)
    with pytest.raises(UsageError, match="lacks its sparsity selector"):
        single(PLAIN[0], selector=None)
    with pytest.raises(UsageError, match="has no selector"):
        product_of(INSTRUCTIONS["mma"].forms[-1]).changed(selector=0)


@pytest.mark.parametrize("form", SOME, ids=lambda form: form.opcode)
def test_metadata_that_are_set_are_defined_where_every_pair_is(form: Form) -> None:
    for pair in range(16):
        found = causes(with_constant(form, 0x1111_1111 * pair))
        assert found == ([] if pair in chunks_of(form) else [Breach.METADATA])
    mixed = 0x4444_4444 & ~0xF0 | (0x00 if form.a_type.name == "tf32" else 0x50)
    assert causes(with_constant(form, mixed)) == [Breach.METADATA]


def test_d_over_the_metadata_reads_them_first_and_nobody_can_after_it() -> None:
    form = next(form for form in PLAIN if form.types == "f32.f16.f16.f32")
    steps: list[Step] = list(single(form).steps)
    over = Op.of(form, d="d.0 d.1 d.2 e.0", a="a", b="b", c="c", e="e", selector=0)
    store = plain_store(registers="d.0 d.1 d.2 e.0", count=4, place=Place(buffer="d"))
    program = Program(buffers=buffers_of((*steps[:4], store)), steps=(*steps[:4], over, store))
    assert not causes(program)
    apart = single(form)
    images = np.random.default_rng(2).integers(0, 256, (4, apart.image_bytes), dtype=np.uint8)
    assert np.array_equal(
        execute(program, images, target="sm_90").images,
        execute(apart, images, target="sm_90").images,
    )
    again = Program(buffers=program.buffers, steps=(*program.steps[:-1], over, store))
    assert causes(again) == [Breach.CONTENT]


def test_loaded_metadata_have_a_meaning_for_every_product_that_takes_them() -> None:
    """The metadata of the plain f16 product are also those of the ordered one, and of tf32."""
    forms = [
        next(form for form in some if form.a_type.name == name)
        for some, name in ((PLAIN, "f16"), (ORDERED, "bf16"), (PLAIN, "tf32"))
    ]
    steps: list[Step] = []
    for number, form in enumerate(forms):
        names = {one: f"{one}{number}" for one in "dabc"}
        for one in "abc":
            place = Place(buffer=names[one])
            words = form.words(one)
            steps.append(plain_load(registers=names[one], count=words, place=place))
        if not number:
            steps.append(plain_load(registers="e", count=1, place=Place(buffer="e")))
        steps.append(Op.of(form, **names, e="e", selector=0))
        place = Place(buffer=names["d"])
        steps.append(plain_store(registers=names["d"], count=form.words("d"), place=place))
    program = Program(buffers=buffers_of(steps), steps=tuple(steps))
    images = expand(Recipe(classes=tuple(ValueClass), seed=3), program, 38)
    assert not permitted(program, images, target="sm_90").undefined.any()
    start = program.offset("e")
    metadata = images[:, start : start + 128]
    assert set(np.unique(metadata & 15)) == set(np.unique(metadata >> 4)) == {4, 14}
