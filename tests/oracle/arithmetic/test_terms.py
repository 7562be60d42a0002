"""An element of D is told term by term, and the terms make what the model computes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from oracle.execution.tracing import operands_of, sums_of, trace
from oracle.isa.forms import Form
from oracle.isa.lookup import (
    INSTRUCTIONS,
    MMA_FORMS,
    MMA_SYNC_FORMS,
    NARROW_FORMS,
    selectors_of,
)
from oracle.layouts import unpack
from oracle.program.steps import multiplies, product_of
from strategies.contents import Recipe, ValueClass, expand
from strategies.matrices import single_program

FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
DOCUMENTED = [form for form in MMA_FORMS if not (form.satfinite and form.d_type.is_float)]
SPARSE = INSTRUCTIONS["mma.sp"].forms
CLASSES = (ValueClass.NORMAL, ValueClass.WIDE, ValueClass.BITS, ValueClass.MIRRORED)


def value(bits: int, name: str) -> float:
    return float(np.array(bits, f"u{np.dtype(FLOATS[name]).itemsize}").view(FLOATS[name]))


def elements(form: Form, target: str):
    """Yield operands of some elements of D, D itself, and the model."""
    step = product_of(form)
    if known := selectors_of(form):
        step = step.changed(selector=known[-1])
    program = single_program(step)
    for number, image in enumerate(expand(Recipe(classes=CLASSES, seed=7), program, 2)):
        traced = trace(program, image, target=target)
        (event,) = [one for one in traced.events if multiplies(one.step)]
        if form.opaque:
            d = event.result
            places = [(0, 0), (form.shape.m - 1, number), (number, form.shape.n - 1)]
        else:
            d = unpack(form, "d", event.result[None])
            places = [(0, 0), (31, 0), (9 + number, 1)]
        for at in places:
            given = operands_of(event, at)
            made = d[given.row, given.column] if form.opaque else None
            if made is None and form.groups == 1:
                made = d[0, given.row, given.column]
            yield given, made, traced.model


@pytest.mark.parametrize("form", NARROW_FORMS[::23], ids=lambda form: form.opcode)
def test_so_do_those_of_narrow_floats_and_scaled_blocks(form: Form) -> None:
    test_the_terms_make_what_the_model_computes(form, "sm_120a")


@pytest.mark.parametrize(
    "form", [*DOCUMENTED[::11], *MMA_SYNC_FORMS[::9], *SPARSE[::13]], ids=lambda form: form.opcode
)
@pytest.mark.parametrize("target", ["sm_90", "sm_90@12.4"])
def test_the_terms_make_what_the_model_computes(form: Form, target: str) -> None:
    for given, made, model in elements(form, target):
        if made is None:
            continue
        d = int(made) & ((1 << form.d_type.bits) - 1)
        sums = list(sums_of(form, given, d, model))
        ks = sorted(term.k for one in sums for term in one.terms)
        assert ks == list(range(len(given.a)))
        if not form.a_type.is_float:
            (one,) = sums
            before = one.before - (1 << 32) * (one.before >> 31)
            total = before + sum(int(term.value or 0) for term in one.terms)
            clamped = min(max(total, -(2**31)), 2**31 - 1) if form.satfinite else total
            assert clamped & 0xFFFF_FFFF == d
            continue
        if not sums[-1].apart and sums[0].adds and sums[-1].total == form.d_type:
            assert sums[-1].after == d
        for one, following in pairwise(sums):
            assert following.before == (one.after if following.adds else 0)
        for one in sums:
            if form.is_scaled:
                terms = [value(one.before, "f32"), *(term.value for term in one.terms)]
                # Cut to 24 bits or more below the largest, as published (docs/oracle.md).
                error = len(terms) * 2.0**-22 * max(map(abs, terms))
                if np.isfinite(after := value(d, "f32")) and abs(after) > 2.0**-100:
                    assert abs(sum(terms) - after) <= error
            if one.unit is None or one.addend_units is None:
                continue
            counted = one.addend_units + sum(term.units or 0 for term in one.terms)
            after = value(one.after, one.total.name)
            if np.isfinite(after):
                spacing = float(np.spacing(FLOATS[one.total.name](abs(after))))
                assert abs(after - counted * one.unit) < spacing, "rounded once"
            for term in one.terms:
                cut = (term.value or 0.0) - (term.units or 0) * one.unit
                assert abs(cut) < one.unit, "cut off below the unit"
