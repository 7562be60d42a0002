"""Numbers as patterns of a format, as the derivations round them."""

from fractions import Fraction

import numpy as np
import pytest
from fuzz.explain.notation import number, pattern, table
from hypothesis import given
from hypothesis import strategies as st

from oracle.formats import FORMATS

NUMPY = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
MODES = ("rn", "rz", "rm", "rp", "rz, infinite beyond")


@pytest.mark.parametrize("name", NUMPY)
@given(data=st.data())
def test_the_nearest_pattern_is_that_of_numpy_and_every_mode_keeps_what_fits(
    name: str, data: st.DataObject
) -> None:
    fmt, floats = FORMATS[name], NUMPY[name]
    value = data.draw(st.floats(allow_nan=False, allow_infinity=False) | st.just(0.0))
    with np.errstate(over="ignore"):
        rounded = floats(value)
    negative_zero = value == 0 and bool(np.signbit(value))
    exact = Fraction(value)
    bits = pattern(exact, fmt, "rn", negative_zero=negative_zero)
    if exact or not negative_zero:
        assert bits == int(rounded.view(fmt.raw))
    if np.isfinite(rounded):
        for mode in MODES:
            kept = pattern(Fraction(float(rounded)), fmt, mode)
            assert kept & ~(1 << (fmt.bits - 1)) == int(np.abs(rounded).view(fmt.raw))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("mode", MODES)
def test_a_zero_has_the_sign_that_it_is_given(name: str, mode: str) -> None:
    fmt = FORMATS[name]
    if not fmt.is_float or fmt.bits < 16:
        return
    plus, minus = (pattern(Fraction(0), fmt, mode, negative_zero=sign) for sign in (False, True))
    width = fmt.exponent_bits + fmt.fraction_bits
    assert (plus, minus) == (0, 1 << width)
    assert number(minus << fmt.ignored_bits, fmt).negative


@pytest.mark.parametrize(("most", "rows"), [(0, 3), (2, 2), (3, 3)])
def test_a_table_has_all_rows_or_says_how_many_it_leaves_out(most: int, rows: int) -> None:
    options = {"most": most} if most else {}
    lines = table(("a", "b"), [("1", "2")] * 3, **options)
    assert lines.count("| 1 | 2 |") == rows
    assert ("… and 1 more." in lines) == (rows == 2)
