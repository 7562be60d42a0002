"""Dot products by figures that no GPU has, against fractions, term by term."""

from dataclasses import replace

import numpy as np
import pytest
from dots import exact, fast
from hypothesis import given, settings
from hypothesis import strategies as st
from test_truncated_dots import patterns

from oracle.arithmetic.conversions import flushed
from oracle.isa.forms import FORMATS
from oracle.models import Figure, model_for
from oracle.models.figures import ROUNDINGS, Confidence, TruncatedDot, allowed_of

ROWS = [row for row in model_for("sm_90").only(TruncatedDot) if row.instruction == "wmma.mma"]
MULTIPLICANDS = {"f16": 16, "bf16": 16, "tf32": 8}


def figured(row: TruncatedDot, **values: object) -> TruncatedDot:
    return replace(
        row,
        **{
            name: None
            if value is None
            else Figure(value=value, confidence=Confidence.MEASURED, source="a test")
            for name, value in values.items()
        },
    )


def words(name):
    return st.sampled_from(allowed_of(TruncatedDot)[name].words)


@st.composite
def rules(draw):
    """Any figures, for any types; shrinks towards the first row's."""
    row = draw(st.sampled_from(ROWS))
    accumulator = "f32"
    if row.c_type == row.d_type == "f16":
        accumulator = draw(st.sampled_from(["f16", "f32"]))
    last, apart = draw(st.booleans()), draw(st.booleans())
    length = draw(st.integers(1, 20))
    divisors = [run for run in range(1, length + 1) if length % run == 0 and run <= 16]
    plain = ("order", "product_exponent", "product_range", "rounding", "overflow", "zero")
    return figured(
        row,
        accumulator=accumulator,
        block=length,
        interleaved=draw(st.sampled_from([0, *divisors])),
        addend="last" if last else "first",
        sums="separate" if apart else None,
        addition=draw(st.sampled_from(ROUNDINGS)) if last or apart else None,
        fraction_bits=draw(st.integers(8, 30)),
        zero_exponent=draw(st.sampled_from([-21, -133]) | st.integers(-170, 20)),
        narrowing=draw(words("narrowing")) if accumulator != row.d_type else None,
        low_bits=draw(words("low_bits")) if row.multiplicand == "tf32" else None,
        nan=draw(st.sampled_from([0x7FFF, 0xFE00])) if row.d_type == "f16" else 0x7FC0_0000,
        **{name: draw(words(name)) for name in plain},
        **{name: draw(words(name)) for name in (f"{m}_subnormals" for m in "abcd")},
    )


@settings(max_examples=25)  # of one or two dot products
@given(rule=rules(), data=st.data())
def test_any_figures_give_what_fractions_give(rule, data):
    fmt, addend = FORMATS[rule.multiplicand], FORMATS[rule.c_type]
    k = MULTIPLICANDS[rule.multiplicand]
    line = st.lists(patterns(rule.multiplicand), min_size=k, max_size=k)
    pair = st.tuples(line, line, patterns(addend.name))
    rows = data.draw(st.lists(pair, min_size=1, max_size=2))
    a, b = (np.array([row[i] for row in rows], fmt.raw) for i in (0, 1))
    c = np.array([row[2] for row in rows], addend.raw)
    assert fast(rule, a, b, c).tolist() == exact(rule, a, b, c)


@pytest.mark.parametrize("name", ["f16", "bf16", "tf32", "f32"])
def test_what_is_flushed_is_a_zero_of_its_sign_and_nothing_else_changes(name: str) -> None:
    fmt = FORMATS[name]
    bits = np.arange(1 << 16, dtype=np.uint16).astype(fmt.raw) << (fmt.bits - 16)
    bits |= bits >> 16 if fmt.bits == 32 else np.zeros_like(bits)
    floats = {"f16": np.float16, "bf16": np.float32}.get(name, np.float32)
    wide = bits.astype(np.uint32) << 16 if name == "bf16" else bits
    values = wide.view(floats)
    small = np.abs(values) < np.finfo(floats).smallest_normal
    wanted = np.where(small, np.copysign(floats(0), values), values).view(wide.dtype)
    made = flushed(bits, fmt)
    made = made.astype(np.uint32) << 16 if name == "bf16" else made
    number = ~np.isnan(values)
    assert np.array_equal(made[number], wanted[number])
