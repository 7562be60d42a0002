"""The reference of the device, built for the processor, against the oracle: every bit."""

import random
from dataclasses import replace

import numpy as np
import pytest

from oracle.execution.execution import execute
from oracle.isa.forms import Matrix, format_named, shape_named
from oracle.isa.lookup import FORMS, form_of, selectors_of, warpgroup_forms
from oracle.isa.targets import Module
from oracle.models import Figure, model_for
from oracle.models.figures import (
    ROUNDINGS,
    Confidence,
    DoubleChain,
    NanRule,
    ScaledDot,
    TruncatedDot,
    allowed_of,
    values_allowed,
)
from oracle.program.operands import WITH_CONSTANT, Word, operations
from oracle.program.operations import Elementwise
from oracle.program.program import Program, walk
from oracle.program.steps import Loop, product_of
from runners.reference.encoding import encode
from runners.reference.memory import NotEncodedError
from strategies.contents import Recipe, ValueClass, expand
from strategies.draws import draw, draw_one
from strategies.features import Focus
from strategies.matrices import buffers_of, single_instruction, single_program
from strategies.programs import programs

CLASSES = tuple(ValueClass)
PLACES = (
    ("sm_70", "6.1"),
    ("sm_75", "6.5"),
    ("sm_80", "7.0"),
    ("sm_90", "8.7"),
    ("sm_100a", "8.8"),
    ("sm_120a", "8.7"),
)


def product_program(form):
    return single_program(product_of(form))


def assert_same(reference, program, images, model=None):
    """Check the reference against the oracle, and return what both say."""
    model = model or model_for("sm_90")
    encoded = encode(program, model)
    expected = execute(program, images, model=model).images
    different = np.flatnonzero((reference.execute(encoded, images) != expected).any(axis=1))
    assert not different.size, (str(program), different.tolist())
    return expected


def assert_agrees(reference, program, model, count, seed=1):
    images = expand(Recipe(classes=CLASSES, seed=seed), program, count)
    return int((assert_same(reference, program, images, model) != images).any())


ENDS = {
    "f16": (0, 1, 0x3FF, 0x400, 0x3C00, 0x7BFF, 0x7C00, 0x7C01, 0x7E01, 0x7FFF),
    "f32": (0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00001),
    "f64": (0, 1, 0x10 << 48, 0x3FF << 52, (0x7FF << 52) - 1, 0x7FF << 52, (0x7FF << 52) + 1),
    "s32": (0, 1, 2, 3, 0x7FFFFFFF, 0x12345678),
}
"""Patterns at ends of ranges, without their signs."""


@pytest.mark.parametrize("name", list(ENDS))
def test_operations_on_every_element(reference, name):
    fmt = format_named(name)
    shape = shape_named("m8n8k4" if name == "f64" else "m16n16k16")
    matrix = Matrix(operand="c", shape=shape, type=fmt)
    sign, rng = 1 << (fmt.bits - 1), np.random.default_rng(28)
    patterns = np.array([*ENDS[name], *(sign | one for one in ENDS[name])], f"<u{fmt.bits // 8}")
    for operation in operations(fmt):
        for constant in patterns.tolist() if operation in WITH_CONSTANT else [0]:
            step = Elementwise(
                operation=operation, matrix=matrix, constant=constant, source="x", destination="y"
            )
            program = single_program(step)
            size = program.image_bytes * 8 // fmt.bits
            images = rng.choice(patterns, (4, size)).view(np.uint8)
            assert_same(reference, program, images)


def test_zeros_keep_their_sign_through_scalar_arithmetic(reference):
    form = form_of("mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16")
    program = product_program(form)
    signs = np.random.default_rng(28).integers(0, 2, (256, program.image_bytes // 2), np.uint16)
    signs[:64] = 1
    signs[:32, program.offset("b") // 2 : program.offset("c") // 2] = 0
    images = (signs << 15).astype("<u2").view(np.uint8)
    assert len(np.unique(assert_same(reference, program, images)[:, program.offset("d") :])) > 1


def test_what_the_interpreter_does_not_do_is_refused():
    form = form_of("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32.satfinite")
    with pytest.raises(NotEncodedError, match="does not do wmma"):
        encode(product_program(form), model_for("sm_90"))


TARGETS = ("sm_70", "sm_75", "sm_80", "sm_90", "sm_90@12.4", "sm_120a")


def products(target):
    model = model_for(target)
    found = []
    for form in FORMS:
        unknown = form.is_product and form.a_type.is_float and form.satfinite
        if form.is_product and not unknown and model.judges(form):
            found.append(form)
    return found


def test_every_kind_of_product(reference):
    kinds = {}
    for target in TARGETS:
        for form in products(target):
            figures = tuple(one.value for one in model_for(target).figures_for(form).values())
            name = form.mnemonic.partition("::")[0]
            kind = name, form.shape, form.types, form.satfinite, form.rounding, form.op
            kinds[kind, figures] = form, target
    # Of the narrow floats there are 25 pairs of types with the same figures.
    few = [one for one in kinds.values() if not one[0].kind][::2]
    few += [one for one in kinds.values() if one[0].kind][::9]
    assert len(few) > 100
    for form, target in few:
        assert assert_agrees(reference, product_program(form), model_for(target), len(CLASSES))


def test_scales_of_any_bits(reference):
    forms = {form.texts["stype"]: form for form in products("sm_120a") if form.is_scaled}
    assert forms.keys() == {"ue8m0", "ue4m3"}
    for program in map(product_program, forms.values()):
        images = np.random.default_rng(28).integers(0, 256, (64, program.image_bytes), np.uint8)
        assert_same(reference, program, images, model_for("sm_120a"))


def test_any_metadata_and_selector(reference):
    dice, kinds = np.random.default_rng(28), {}
    for form in products("sm_90"):
        if form.has_metadata and not form.satfinite:
            kinds[form.shape, form.types] = form
    assert len(kinds) == 28
    for form in [*kinds.values()][::2]:
        for selector in selectors_of(form):
            program = single_program(replace(product_of(form), selector=selector))
            images = expand(Recipe(classes=CLASSES, seed=selector), program, 2 * len(CLASSES))
            place = program.offset("e")
            images[:, place : place + 128] = dice.integers(0, 256, (len(images), 128))
            assert_same(reference, program, images)


def test_metadata_whose_register_d_has_too(reference):
    kinds = {form.types: form for form in products("sm_90") if form.has_metadata}
    for form in [*kinds.values()][::2]:
        product, rng = product_of(form), np.random.default_rng(28)
        count = product.uses[0].holds.registers
        for place in range(count):  # of the register that is that of the metadata, too
            names = [f"d.{number}" for number in range(count)]
            names[place] = "e.0"
            steps = list(single_instruction(product))
            steps[-2] = replace(product, operands=(" ".join(names), *product.operands[1:]))
            steps[-1] = replace(steps[-1], registers=" ".join(names))
            program = Program(buffers=buffers_of(steps), steps=tuple(steps))
            images = expand(Recipe(classes=CLASSES, seed=place), program, len(CLASSES))
            start = program.offset("e")
            images[:, start : start + 128] = rng.integers(0, 256, (len(images), 128))
            assert_same(reference, program, images)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_every_product_of_every_class_of_contents(reference, target):
    forms = products(target)
    assert forms
    for form in forms:
        program = product_program(form)
        assert assert_agrees(reference, program, model_for(target), 3 * len(CLASSES))


@pytest.mark.parametrize("count", [6, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("target", "version"), PLACES)
def test_drawn_programs(reference, target, version, count):
    strategy = programs(Focus(), module=Module.named(target, version), forms=FORMS)
    changed = 0
    for number, program in enumerate(draw(strategy, count, 28)):
        changed += assert_agrees(reference, program, model_for(target), len(CLASSES), number)
    assert changed >= count * 3 // 4


GROUPS = tuple(form for form in warpgroup_forms() if form.is_product and form.shape.n <= 24)
GROUP_KINDS = {(form.types, form.op, form.satfinite, form.has_metadata): form for form in GROUPS}


@pytest.mark.parametrize(
    ("step", "count"), [(6, 3), pytest.param(1, 57, marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_drawn_programs_of_warpgroups(reference, step, count):
    """Of each kind of product; with all that stands beside one, of one warp and of all four."""
    module, seen = Module.named("sm_90a", "8.7"), set()
    for number, form in enumerate([*GROUP_KINDS.values()][::step]):
        program = draw_one(programs(Focus(form=form), module=module, forms=GROUPS), number)
        assert_agrees(reference, program, model_for("sm_90a"), count, number)
        seen |= {type(one).__name__ for one in walk(program.steps)}
    assert {"AsyncProduct", "OneWarp", "Loop", "LaneCode", "Op"} <= seen


def test_what_depends_on_the_turn_of_a_loop(reference):
    """Of a number of turns that is known, and of one that a word says."""
    module, seen = Module.named("sm_90a", "8.7"), set()
    for number in range(60):
        form = GROUPS[number * 7 % len(GROUPS)]
        program = draw_one(programs(Focus(form=form), module=module, forms=GROUPS), number)
        loops = [one for one in walk(program.steps) if isinstance(one, Loop) and one.counts]
        kinds = {type(one.count) for one in loops}
        if kinds - seen:
            assert_agrees(reference, program, model_for("sm_90a"), 4, number)
            seen |= kinds
    assert seen == {int, Word}


def figure(value):
    return Figure(value=value, confidence=Confidence.MEASURED, source="a test")


def any_figures(dice, row):
    """Figures that no GPU has, as far as they go together and the reference does them."""
    values = {
        name: dice.choice(values_allowed(one)) for name, one in allowed_of(TruncatedDot).items()
    }
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
    if not (row.multiplicand == "f16" != row.types.split(".")[1]):
        values["subnormal_exponent"] = None
    if values["accumulator"] != "f32" or row.multiplicand != "f16" or dice.random() < 0.5:
        values["sum_bits"] = None
    figures = {name: None if one is None else figure(one) for name, one in values.items()}
    return replace(row, shapes=(), compilers=None, **figures)


@pytest.mark.parametrize("count", [20, pytest.param(500, marks=pytest.mark.slow)])
def test_figures_that_no_gpu_has(reference, count):
    dice, model = random.Random(28), model_for("sm_90")
    forms = [form for form in products("sm_90") if isinstance(model.find(form), TruncatedDot)]
    for number in range(count):
        form = dice.choice(forms)
        other = replace(model, units=(any_figures(dice, model.unit_for(form)),))
        assert_agrees(reference, product_program(form), other, len(CLASSES), number)


def test_figures_of_scaled_blocks_that_no_gpu_has(reference):
    dice, model = random.Random(28), model_for("sm_120a")
    forms, refused = [form for form in products("sm_120a") if form.is_scaled], 0
    for number in range(16):
        form = dice.choice(forms)
        values = {
            name: dice.choice(values_allowed(one)) for name, one in allowed_of(ScaledDot).items()
        }
        # Half of them are such that sums fit into 64 bits.
        values["group"] = values["group"] if number % 2 else 1
        values["nan"] |= 0x7FC0_0000
        row = replace(
            model.unit_for(form), **{name: figure(value) for name, value in values.items()}
        )
        other = replace(model, units=(row,))
        try:
            assert_agrees(reference, product_program(form), other, len(CLASSES), number)
        except NotEncodedError:
            refused += 1
    assert refused < 12


def test_figures_of_doubles_that_no_gpu_has(reference):
    dice, model = random.Random(28), model_for("sm_90")
    forms = [form for form in products("sm_90") if form.a_type.name == "f64"]
    for number in range(12):
        values = {name: dice.choice(one.words) for name, one in allowed_of(DoubleChain).items()}
        order = tuple(dice.sample("abc", dice.choice([0, 3])))
        nan = NanRule(order=order, invalid=dice.getrandbits(64) | 0x7FF8 << 48)
        chain = DoubleChain(
            nan=figure(nan), **{name: figure(value) for name, value in values.items()}
        )
        other = replace(model, units=(chain,))
        assert_agrees(reference, product_program(dice.choice(forms)), other, len(CLASSES), number)
