"""Values and how far they are apart, in the notation of their types."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.explain.values import apart, decimal, float_of, notation, spans, units
from fuzz.findings.verdicts import Difference
from oracle.isa.forms import FORMATS, format_named

FLOATS: dict[str, Any] = {
    "f16": (np.float16, "e"),
    "f32": (np.float32, "f"),
    "f64": (np.float64, "d"),
}


def difference(expected: int, actual: int, bits: int) -> Difference:
    return Difference(
        where="d[0, 0]", byte=0, row=0, column=0, expected=expected, actual=actual, bits=bits
    )


def _steps_between(first: float, second: float, dtype: Any) -> int:
    """Count neighbours by stepping, which knows nothing of bit patterns."""
    low, high = sorted((dtype(first), dtype(second)))
    count = 0
    while low < high:
        low = np.nextafter(low, dtype(np.inf))
        count += 1
    return count


@pytest.mark.filterwarnings("ignore:overflow encountered in nextafter")  # up to infinity
@given(st.sampled_from(sorted(FLOATS)), st.data())
def test_distances_of_floats_are_steps_from_neighbour_to_neighbour(
    name: str, data: st.DataObject
) -> None:
    dtype, code = {"f16": (np.float16, "e"), "f32": (np.float32, "f"), "f64": (np.float64, "d")}[
        name
    ]
    format_ = format_named(name)
    value = dtype(data.draw(st.floats(width=format_.bits, allow_nan=False)))
    other = value
    for _ in range(data.draw(st.integers(0, 40))):
        other = np.nextafter(other, dtype(np.inf))
    bits = [int.from_bytes(struct.pack(f"<{code}", one), "little") for one in (value, other)]
    found = units(difference(*bits, format_.bits), format_)
    assert found == _steps_between(value, other, dtype)
    assert units(difference(*reversed(bits), format_.bits), format_) == -found


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_distances_of_integers_are_differences(expected: int, actual: int) -> None:
    one = difference(expected & 0xFFFFFFFF, actual & 0xFFFFFFFF, 32)
    assert units(one, FORMATS["s32"]) == actual - expected


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_distances_of_registers_count_bits(expected: int, actual: int) -> None:
    assert units(difference(expected, actual, 32), None) == bin(expected ^ actual).count("1")


def test_units_in_the_last_place_are_said_of_numbers_of_one_size_alone() -> None:
    f32 = FORMATS["f32"]
    assert apart(difference(0x3F800000, 0x3F800003, 32), f32) == "+3 ulp"
    assert apart(difference(0x3F800000, 0, 32), f32) == "off by -1.0"
    assert apart(difference(0x3F800000, 0x7F800000, 32), f32) == "off by infinity"
    assert apart(difference(0, 0x80000000, 32), f32) == "the other zero"


def test_a_distance_to_nan_is_none_and_of_zeros_is_zero() -> None:
    assert units(difference(0x7FC00000, 0, 32), FORMATS["f32"]) is None
    assert units(difference(0x80000000, 0, 32), FORMATS["f32"]) == 0


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
