"""The reference of the device, built for the processor, against the oracle: every bit."""

import random
from dataclasses import replace

import numpy as np
import pytest

from oracle.execution import execute
from oracle.isa import FORMS
from oracle.models import Figure, model_for
from oracle.models.figures import (
    ROUNDINGS,
    Confidence,
    DoubleChain,
    NanRule,
    TruncatedDot,
    Whole,
    allowed_of,
)
from oracle.program import Program
from oracle.targets import Module
from runners.reference.encoding import encode
from strategies.contents import Recipe, ValueClass, expand
from strategies.draws import draw
from strategies.features import Focus
from strategies.programs import programs
from strategies.programs.single_instruction import buffers_of, product_of, single_instruction

CLASSES = tuple(ValueClass)
PLACES = (
    ("sm_70", "6.1"),
    ("sm_75", "6.5"),
    ("sm_80", "7.0"),
    ("sm_90", "8.7"),
    ("sm_100a", "8.8"),
)


# The reference has no products of a sparse A.
DONE = tuple(form for form in FORMS if not form.is_sparse)


def product_program(form):
    steps = single_instruction(product_of(form))
    return Program(buffers=buffers_of(steps), steps=steps)


def assert_agrees(reference, program, model, count, seed=1):
    images = expand(Recipe(classes=CLASSES, seed=seed), program, count)
    expected = execute(program, images, model=model).images
    assert (expected != images).any()
    actual = reference.execute(encode(program, model), images)
    different = np.flatnonzero((actual != expected).any(axis=1))
    assert not different.size, (str(program), different.tolist())


def products(target):
    model = model_for(target)
    found = []
    for form in FORMS:
        unknown = form.is_product and form.a_type.is_float and form.satfinite
        if form in DONE and form.is_product and not unknown and model.judges(form):
            found.append(form)
    return found


@pytest.mark.parametrize("target", ["sm_70", "sm_75", "sm_80", "sm_90", "sm_120"])
def test_every_product_of_every_class_of_contents(reference, target):
    forms = products(target)
    assert forms
    for form in forms:
        assert_agrees(reference, product_program(form), model_for(target), 2 * len(CLASSES))


@pytest.mark.parametrize(("target", "version"), PLACES)
def test_drawn_programs(reference, target, version):
    strategy = programs(Focus(), module=Module.named(target, version), forms=DONE)
    for number, program in enumerate(draw(strategy, 60, 28)):
        assert_agrees(reference, program, model_for(target), len(CLASSES), number)


def figure(value):
    return Figure(value=value, confidence=Confidence.MEASURED, source="a test")


def any_value(dice, allowed):
    if isinstance(allowed, Whole):
        return dice.randint(allowed.least, allowed.most)
    return dice.choice(allowed.words)


def any_figures(dice, row):
    """Figures that no GPU has, as far as they go together."""
    values = {name: any_value(dice, allowed) for name, allowed in allowed_of(TruncatedDot).items()}
    block = dice.choice([4, 8, 16, values["block"] % 16 + 1])
    narrow = row.c_type == row.d_type == "f16"
    accumulator = values["accumulator"] if narrow else "f32"
    apart, last = dice.random() < 0.3, values["addend"] == "last"
    values |= {
        "accumulator": accumulator,
        "block": block,
        "interleaved": dice.choice([0, *(n for n in range(1, block + 1) if block % n == 0)]),
        "zero_exponent": dice.choice([-21, -133, dice.randint(-170, 20)]),
        "nan": 0xFE00 if row.d_type == "f16" else 0x7FC0_0000,
        "sums": "separate" if apart else None,
        "addition": dice.choice(ROUNDINGS) if apart or last else None,
        "narrowing": values["narrowing"] if accumulator != row.d_type else None,
        "low_bits": values["low_bits"] if row.multiplicand == "tf32" else None,
    }
    figures = {name: None if one is None else figure(one) for name, one in values.items()}
    return replace(row, shapes=(), compilers=None, **figures)


def test_figures_that_no_gpu_has(reference):
    dice, model = random.Random(28), model_for("sm_90")
    forms = [form for form in products("sm_90") if model.find_dot(form)]
    for number in range(150):
        form = dice.choice(forms)
        other = replace(model, dots=(any_figures(dice, model.dot_for(form)),))
        assert_agrees(reference, product_program(form), other, len(CLASSES), number)


def test_figures_of_doubles_that_no_gpu_has(reference):
    dice, model = random.Random(28), model_for("sm_90")
    forms = [form for form in products("sm_90") if form.a_type.name == "f64"]
    for number in range(40):
        values = {one: any_value(dice, what) for one, what in allowed_of(DoubleChain).items()}
        order = tuple(dice.sample("abc", dice.choice([0, 3])))
        nan = NanRule(order=order, invalid=dice.getrandbits(64) | 0x7FF8 << 48)
        chain = DoubleChain(
            nan=figure(nan), **{name: figure(value) for name, value in values.items()}
        )
        other = replace(model, doubles=chain)
        assert_agrees(reference, product_program(dice.choice(forms)), other, len(CLASSES), number)
