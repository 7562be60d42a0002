"""What a shrunk case is made of: plainer values, cells and steps that are what they are called."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.isa import lookup as isa
from oracle.isa.forms import FORMATS, Form, Format, FormatKind
from oracle.isa.lookup import ACCESS_FORMS, INSTRUCTIONS
from oracle.program.definedness import undefined
from oracle.program.operands import Buffer, Place
from oracle.program.program import Program
from oracle.program.steps import Barrier, Copy, Op, Rows, memory_of, plain_load, plain_store
from strategies.matrices import _uniform, exact_elements
from strategies.simplification.examples import Example
from strategies.simplification.steps import plainer_accesses
from strategies.simplification.values import (
    _factor,
    _product,
    cells_of,
    nearest,
    number,
    simpler_values,
)

FLOATS = [one for one in FORMATS.values() if one.kind is FormatKind.FLOAT and one.bits >= 16]
FORM = isa.mma_form("wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.bf16.f32")


def multiplication() -> Program:
    """Load, multiply and store, with bytes around every matrix."""
    loads = tuple(
        Op.of(
            form=ACCESS_FORMS[FORM.matrix(operand), layout, "global"],
            fragment=operand, place=Place(buffer=operand, offset=64),
        )
        for operand, layout in (("a", "row"), ("b", "col"), ("c", "row"))
    )  # fmt: skip
    form = ACCESS_FORMS[FORM.matrix("d"), "row", "global"]
    store = Op.of(form=form, fragment="d", place=Place(buffer="d"))
    buffers = tuple(Buffer(name=name, space="global", size=1200) for name in "abcd")
    steps = (*loads, Op.of(form=FORM, d="d", a="a", b="b", c="c"), store)
    return Program(buffers=buffers, steps=steps)


@pytest.mark.parametrize("type_", FLOATS, ids=lambda type_: type_.name)
@given(data=st.data())
def test_simpler_values_are_elements_and_among_them_the_nearest_that_are(
    type_: Format, data: st.DataObject
) -> None:
    unit = 1 << (type_.bits - 1 - type_.exponent_bits)
    sign = 1 << (type_.bits - 1)
    field = data.draw(st.integers(1, (1 << type_.exponent_bits) - 2))
    fraction = data.draw(st.integers(1, (1 << type_.fraction_bits) - 1)) << type_.ignored_bits
    negative = data.draw(st.booleans())
    offers = simpler_values(type_, sign * negative | field * unit | fraction)
    assert all(0 < offer < 1 << type_.bits for offer in offers)
    assert len(offers) == len(set(offers))
    assert field * unit in offers, "its power of two"
    if negative:
        assert field * unit | fraction in offers, "its magnitude"
    if field != type_.bias:
        toward = field + (1 if field < type_.bias else -1)
        assert toward * unit in offers, "a power of two nearer to one"


@pytest.mark.parametrize("type_", FLOATS, ids=lambda type_: type_.name)
def test_what_is_to_be_multiplied_exactly_are_integers_of_both_signs(type_: Format) -> None:
    values = exact_elements(type_, (40, 40), np.random.default_rng(0), added=False)
    numbers = {number(type_, int(value)) for value in values.ravel()}
    most = 1 << 22 if type_.name == "f64" else 8
    assert all(one is not None and one.denominator == 1 and abs(one) <= most for one in numbers)
    if type_.name != "f64":
        assert numbers == {Fraction(one) for one in range(-8, 9)}


@pytest.mark.parametrize(("type_", "byte"), [("b1", 0xFF), ("s4", 0x11), ("u8", 0x01)])
def test_a_matrix_of_ones_has_a_one_in_every_element(type_: str, byte: int) -> None:
    assert _uniform(FORMATS[type_], 1, 6).tolist() == [byte] * 6


def test_bytes_around_matrices_are_parted_by_buffers_and_by_runs() -> None:
    cells = cells_of(multiplication())
    groups = list(cells.groups())
    assert sorted(groups[1][0].tolist()) == list(range(cells.elements, len(cells.starts)))
    byte = cells.starts // 8
    elements = {at + part for at in byte[: cells.elements].tolist() for part in (0, 1)}
    elements |= {at + part for at in byte[: cells.elements][cells.sizes[: cells.elements] == 32]
                 for part in (2, 3)}  # fmt: skip
    assert set(byte[cells.around].tolist()) == set(range(4 * 1280)) - elements
    by_buffer = [part for part in groups[2] if len(part)]
    inside = cells.around[byte[cells.around] % 1280 < 1200]
    assert sorted(np.concatenate(by_buffer).tolist()) == inside.tolist()
    for part in by_buffer:
        assert len({int(one) // 1280 for one in byte[part]}) == 1, "buffers are 1280 bytes apart"
    for size, parts in zip((16, 4, 2), groups[-3:], strict=True):
        assert np.array_equal(np.concatenate(parts), cells.around)
        runs = [np.unique(byte[part] // size).tolist() for part in parts]
        assert all(len(run) == 1 for run in runs), "aligned runs, none of them twice"
        assert len({run[0] for run in runs}) == len(runs)


def test_factors_have_both_signs_and_products_of_no_number_are_zero() -> None:
    one, nan = 0x3F80, 0x7FC0
    drawn = [_factor(Random(seed), FORM.a_type, [one], near=near)
             for seed in range(60) for near in (False, True)]  # fmt: skip
    signs = {number(FORM.a_type, raw) < 0 for raw in drawn if number(FORM.a_type, raw)}
    assert signs == {False, True}
    for a, b, wanted in ((one, one, 1), (0, one, 0), (one, 0, 0), (nan, one, 0), (one, nan, 0)):
        assert _product(FORM, (a, b)) == wanted


ROW_FORMS = [
    form
    for row in INSTRUCTIONS.values() if memory_of(row.forms[0]) is Rows
    for form in row.forms[:8]
]  # fmt: skip


@pytest.mark.parametrize("form", ROW_FORMS, ids=lambda form: form.opcode)
def test_rows_of_a_plainer_form_leave_a_program_that_is_defined(form: Form) -> None:
    tile, rows = Place(buffer="tile"), tuple(range(0, 512, 16))
    out, fill = Place(buffer="out"), Copy(source=Place(buffer="in"), destination=tile, size=512)
    if form.is_store:
        steps = (
            plain_load(registers="r", count=form.registers, place=Place(buffer="in")),
            Op.of(form=form, registers="r", buffer="tile", addresses=rows),
            Barrier(),
            plain_store(registers="r", count=form.registers, place=out),
        )
    else:
        steps = (
            fill, Barrier(),
            Op.of(form=form, registers="r", buffer="tile", addresses=rows),
            plain_store(registers="r", count=form.registers, place=out),
        )  # fmt: skip
    buffers = (
        Buffer(name="in", space="global", size=1024), Buffer(name="out", space="global", size=1024),
        Buffer(name="tile", space="shared", size=512),
    )  # fmt: skip
    program = Program(buffers=buffers, steps=steps)
    assert not undefined(program)
    example = Example(program=program, image=np.zeros(program.image_bytes, np.uint8))
    plainer = [
        one.program for one in plainer_accesses(example)
        if any(getattr(step, "form", form) != form for step in one.program.steps)
    ]  # fmt: skip
    assert plainer or form.number == 1
    assert [program for program in plainer if undefined(program)] == []


@given(st.sampled_from(list(FORMATS.values())), st.integers(-(2**70), 2**70), st.integers(-90, 90))
def test_the_nearest_element_of_an_element_is_itself(type_: Format, top: int, shift: int) -> None:
    raw = nearest(type_, Fraction(top) * Fraction(2) ** shift)
    value = number(type_, raw)
    assert value is not None
    assert nearest(type_, value) == raw or value == 0
