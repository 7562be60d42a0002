"""What a page derives by hand is what the oracle computes, whatever the operands."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from fuzz.explain.derivations import Element, derivation, derive, raw
from fuzz.explain.notation import decimal, exact, number, ordinal, pattern
from hypothesis import given, settings
from hypothesis import strategies as st
from lane_programs import plain
from repro_cases import VALUED, multiplication, row_load

from oracle.formats import FORMATS, Format
from oracle.forms import Form
from oracle.isa import LDMATRIX_FORMS, MMA_SYNC_FORMS
from oracle.models import model_for
from oracle.multiply import multiply
from oracle.operations import Operation
from oracle.ops import loads_rows, multiplies_fragments, multiplies_registers
from oracle.steps import Elementwise
from oracle.tracing import trace
from strategies.contents import Recipe, ValueClass, expand, recipes
from strategies.matrices import results

FLOATS = [FORMATS[name] for name in ("f16", "bf16", "tf32", "f32", "f64")]
FLOAT_FORMS = [form for form in VALUED if form.a_type.is_float]
OLDER = ("sm_70", "sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120")


def bits_of_result(event, row: int, column: int) -> int:
    step = event.step
    if loads_rows(step):
        return int(event.result[row, column])
    type_ = step.form.d_type if multiplies_fragments(step) else step.matrix.type
    return raw(event.result[row, column], type_)


@settings(max_examples=150)
@given(st.sampled_from(VALUED), recipes(), st.integers(0, 10**4), st.sampled_from(OLDER))
def test_a_multiplication_is_derived_to_the_bits_of_the_model(
    form: Form, recipe: Recipe, choice: int, target: str
) -> None:
    number_ = int(target[3:])
    if form.a_type.name not in ("f16", "s8", "u8") and number_ < 80:
        target = "sm_90"
    if not form.a_type.is_float and number_ < 75:
        target = "sm_90"
    changes = tuple(one for one in Operation if one.accepts(form.d_type))[:3]
    times = 2 if form.c_type == form.d_type else 1
    program = multiplication(form, changes=changes, times=times)
    traced = trace(program, expand(recipe, program, 1)[0], target=target)
    derived = [
        event
        for event in traced.events
        if multiplies_fragments(event.step) or isinstance(event.step, Elementwise)
    ]
    assert len(derived) == times + len(changes)
    for event in derived:
        row, column = choice % form.shape.m, choice * 7 % form.shape.n
        made = derivation(event, row, column, traced.model)
        assert made is not None
        assert made.bits == bits_of_result(event, row, column), "\n".join(made.lines)


SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0**-14, 2.0**15, 65504.0, -65504.0]


@settings(max_examples=60)
@given(st.sampled_from(FLOAT_FORMS), st.integers(0, 10**6), st.sampled_from(["sm_80", "sm_90"]))
def test_special_values_are_derived_to_the_bits_of_the_model(
    form: Form, seed: int, target: str
) -> None:
    generator = np.random.default_rng(seed)
    matrices = []
    for operand in "abc":
        matrix = form.matrix(operand)
        type_ = matrix.type
        some = [number_bits(value, type_) for value in SPECIAL]
        some.append(number_bits(np.inf, type_) | 1 << type_.ignored_bits)  # signalling
        some += generator.integers(0, 1 << min(type_.bits, 62), 8).tolist()
        chances = [0.6] + [0.4 / (len(some) - 1)] * (len(some) - 1)
        chosen = generator.choice(len(some), (matrix.rows, matrix.columns), p=chances)
        matrices.append(np.array(some, np.uint64)[chosen].astype(type_.raw))
    a, b, c = matrices
    model = model_for(target)
    d = multiply(form, a, b, c, model=model)
    for index in range(6):
        row, column = seed * (index + 1) % form.shape.m, seed * (index + 5) % form.shape.n
        element = Element(
            row=row,
            column=column,
            a=a[row].tolist(),
            b=b[:, column].tolist(),
            c=int(c[row, column]),
        )
        assert derive(form, element, model).bits == int(d[row, column])


def number_bits(value: float, type_: Format) -> int:
    if np.isnan(value):
        return ((1 << type_.exponent_bits + 1) - 1 << type_.fraction_bits - 1) << type_.ignored_bits
    if np.isinf(value):
        top = ((1 << type_.exponent_bits) - 1) << type_.fraction_bits
        return (top | (value < 0) << type_.bits - 1 - type_.ignored_bits) << type_.ignored_bits
    zero = bool(np.signbit(value))
    return pattern(Fraction(value), type_, "rn", negative_zero=zero) << type_.ignored_bits


@settings(max_examples=60)
@given(st.sampled_from(LDMATRIX_FORMS), st.integers(0, 31), st.integers(0, 3), st.integers(0, 99))
def test_registers_are_derived_from_the_rows(
    form: Form, lane: int, register: int, seed: int
) -> None:
    program = row_load(form)
    image = np.random.default_rng(seed).integers(0, 256, program.image_bytes, np.uint8)
    traced = trace(program, image, target="sm_100a")
    (event,) = [event for event in traced.events if loads_rows(event.step)]
    made = derivation(event, lane, register % form.registers, traced.model)
    assert made is not None
    assert made.bits == bits_of_result(event, lane, register % form.registers)


@given(
    st.sampled_from(FLOATS), st.integers(0, 2**64 - 1), st.sampled_from(["rn", "rz", "rm", "rp"])
)
def test_a_number_of_a_format_rounds_to_itself(format_: Format, bits: int, mode: str) -> None:
    bits = bits % (1 << format_.bits) >> format_.ignored_bits << format_.ignored_bits
    one = number(bits, format_)
    if one.kind == "finite":
        made = pattern(one.value, format_, mode, negative_zero=one.negative)
        assert made << format_.ignored_bits == bits


@given(st.sampled_from(FLOATS), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_decimals_tell_numbers_apart_and_ordinals_order_them(
    format_: Format, one: int, other: int
) -> None:
    one, other = (
        bits % (1 << format_.bits) >> format_.ignored_bits << format_.ignored_bits
        for bits in (one, other)
    )
    left, right = number(one, format_), number(other, format_)
    if left.kind == right.kind == "finite" and left.value != right.value:
        assert decimal(one, format_) != decimal(other, format_)
        less = ordinal(one, format_) < ordinal(other, format_)
        assert less == (left.value < right.value)


@given(st.integers(-(2**80), 2**80), st.integers(-300, 300))
def test_an_exact_value_reads_back(integer: int, exponent: int) -> None:
    value = integer * Fraction(2) ** exponent
    text = exact(value)
    sign = -1 if text.startswith("-") else 1
    digits, _, power = text.lstrip("-").removeprefix("0x").partition("p")
    whole, _, fraction = digits.partition(".")
    read = Fraction(int(whole + fraction, 16), 16 ** len(fraction)) * Fraction(2) ** int(power or 0)
    assert sign * read == value


@pytest.mark.parametrize("operation", list(Operation))
def test_every_step_of_a_page_has_words(operation: Operation) -> None:
    types = [type_ for type_ in (FORMATS["f32"], FORMATS["s32"]) if operation.accepts(type_)]
    for type_ in types:
        form = next(form for form in VALUED if form.d_type == form.c_type == type_)
        program = multiplication(form, changes=(operation,))
        traced = trace(program, np.zeros(program.image_bytes, np.uint8), target="sm_90")
        (event,) = [event for event in traced.events if isinstance(event.step, Elementwise)]
        made = derivation(event, 0, 0, traced.model)
        assert made is not None
        assert str(operation) in made.lines[0]


@pytest.mark.parametrize("form", MMA_SYNC_FORMS[::9], ids=lambda form: form.opcode)
def test_a_register_of_mma_sync_is_derived_or_said_not_to_be(form: Form) -> None:
    program = plain(form)
    (image,) = expand(Recipe(classes=(ValueClass.WIDE,), seed=4), program, 1)
    traced = trace(program, image, target="sm_90")
    (result,) = results(program)
    written = traced.writer(int(result.offsets[3, 1]))
    assert written is not None
    (event,) = (one for one in traced.history(written) if multiplies_registers(one.step))
    derived = derivation(event, written.row, written.column, traced.model)
    whole = form.d_type.bits == 32 and form.groups == 1
    assert (derived is not None) == (whole and form.a_type.name not in ("e4m3", "e5m2"))
    assert derived is None or derived.bits == int(result.read(traced.image)[3, 1])
