"""Values in the notation of their types."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.explain.document import decimal, float_of, notation, spans
from oracle.isa.forms import FORMATS


@pytest.mark.parametrize(
    ("bits", "type_", "text"),
    [
        (0x3F800000, "f32", "1.0"),
        (0xC2480000, "f32", "-50.0"),
        (0x00000001, "f32", "1.40129846e-45"),
        (0x7FC00000, "f32", "NaN"),
        (0xFF800000, "f32", "-infinity"),
        (0x8000, "f16", "-0.0"),
        (0x3F80, "bf16", "1.0"),
        (0x3C00BC00, "f16x2", "{-1.0, 1.0}"),
        (0x7E, "e4m3", "448.0"),
        (0x40000000, "tf32", "2.0"),
        (0x400921FB54442D18, "f64", "3.141592653589793"),
        (0xFFFFFFFF, "s32", "-1"),
        (0xFFFFFFFF, "u32", "4294967295"),
        (0xFFFF0001, "s16x2", "{1, -1}"),
        (1, "pred", "true"),
        (0x12345678, "b32", ""),
    ],
)
def test_a_pattern_is_written_as_its_type_has_it(bits: int, type_: str, text: str) -> None:
    assert notation(bits, type_) == text


@given(st.sampled_from(["f16", "bf16", "tf32", "f32", "f64", "e4m3", "e5m2"]), st.data())
def test_decimals_tell_numbers_apart(name: str, data: st.DataObject) -> None:
    fmt = FORMATS[name]
    one, other = (
        data.draw(st.integers(0, (1 << fmt.bits) - 1)) >> fmt.ignored_bits << fmt.ignored_bits
        for _ in range(2)
    )
    values = float_of(one, fmt), float_of(other, fmt)
    assert (decimal(one, fmt) == decimal(other, fmt)) == (
        one == other or values[0] == values[1] != 0 or (np.isnan(values).all())
    )


def test_numbers_in_a_row_are_a_span() -> None:
    assert spans([0, 1, 2, 5, 7, 8]) == "0 to 2, 5, 7 to 8"
