"""Fused multiply-add against fractions, in every format and rounding."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.simulated.fused import BF16, F16, F32, F64, Binary, NanRule, Rounding, multiply_add

CANONICAL = NanRule(canonical=None, invalid=0xABC)
FORMATS = {"f64": F64, "f32": F32, "f16": F16, "bf16": BF16}


def value(word: int, binary: Binary) -> Fraction:
    sign = -1 if word >> (binary.word - 1) else 1
    field = (word >> binary.fraction) & ((1 << binary.exponent) - 1)
    fraction = word & ((1 << binary.fraction) - 1)
    bias = (1 << (binary.exponent - 1)) - 1
    if field == 0:
        return sign * Fraction(fraction) * Fraction(2) ** (1 - bias - binary.fraction)
    whole = fraction + (1 << binary.fraction)
    return sign * Fraction(whole) * Fraction(2) ** (field - bias - binary.fraction)


def largest(binary: Binary) -> int:
    return (((1 << binary.exponent) - 1) << binary.fraction) - 1


def neighbours(exact: Fraction, binary: Binary) -> tuple[int, int]:
    """Return the words at and above the magnitude of an exact value, by bisection."""
    low, high = 0, largest(binary) + 1
    while high - low > 1:
        middle = (low + high) // 2
        if value(middle, binary) <= exact:
            low = middle
        else:
            high = middle
    return low, low if value(low, binary) == exact else low + 1


def expected(exact: Fraction, binary: Binary, rounding: Rounding, zero_negative: bool) -> int:
    negative = exact < 0 or (exact == 0 and zero_negative)
    below, above = neighbours(abs(exact), binary)
    # The next power of two stands in for infinity in the comparison of distances.
    scale = Fraction(2) ** (1 << (binary.exponent - 1))
    high = scale if above > largest(binary) else value(above, binary)
    nearer_above = high - abs(exact) < abs(exact) - value(below, binary)
    tie = high - abs(exact) == abs(exact) - value(below, binary) and below != above
    magnitude = {
        Rounding.ZERO: below,
        Rounding.DOWN: above if negative else below,
        Rounding.UP: below if negative else above,
        Rounding.NEAREST_AWAY: above if nearer_above or tie else below,
        Rounding.NEAREST_EVEN: (
            (above if below & 1 else below) if tie else above if nearer_above else below
        ),
    }[rounding]
    return magnitude | (negative << (binary.word - 1))


@st.composite
def operands(draw: st.DrawFn) -> tuple[str, int, int, int]:
    """Three finite words of a format, the third often near minus the product of the others."""
    name = draw(st.sampled_from(list(FORMATS)))
    binary = FORMATS[name]
    finite = st.integers(0, largest(binary))
    sign = 1 << (binary.word - 1)
    one = ((1 << (binary.exponent - 1)) - 1) << binary.fraction
    near_one = st.integers(one - (3 << binary.fraction), one + (3 << binary.fraction))
    word = st.one_of(finite, near_one).flatmap(lambda w: st.sampled_from([w, w | sign]))
    a, b = draw(word), draw(word)
    if draw(st.booleans()):
        return name, a, b, draw(word)
    below, _ = neighbours(abs(value(a, binary) * value(b, binary)), binary)
    c = min(max(below + draw(st.integers(-2, 2)), 0), largest(binary))
    return name, a, b, c | ((a ^ b ^ sign) & sign)


@given(operands(), st.sampled_from(list(Rounding)))
@settings(max_examples=150, deadline=None)
def test_the_exact_value_is_rounded_once(
    given_words: tuple[str, int, int, int], rounding: Rounding
) -> None:
    name, a, b, c = given_words
    binary = FORMATS[name]
    exact = value(a, binary) * value(b, binary) + value(c, binary)
    sign = binary.word - 1
    signs = (a ^ b) >> sign, c >> sign
    zero_negative = bool(signs[0]) if signs[0] == signs[1] else rounding is Rounding.DOWN
    words = [np.array([word], f"u{binary.word // 8}") for word in (a, b, c)]
    (found,) = multiply_add(*words, binary, rounding, CANONICAL)
    assert hex(found) == hex(expected(exact, binary, rounding, zero_negative))


INFINITY = 0x7FF << 52
NEGATIVE = 1 << 63
ONE = 0x3FF << 52


@pytest.mark.parametrize(
    ("a", "b", "c", "d"),
    [
        (INFINITY, ONE, ONE, INFINITY),
        (INFINITY, ONE | NEGATIVE, ONE, INFINITY | NEGATIVE),
        (ONE, ONE, INFINITY | NEGATIVE, INFINITY | NEGATIVE),
        (INFINITY, 0, ONE, 0xABC),
        (INFINITY, ONE, INFINITY | NEGATIVE, 0xABC),
        (INFINITY | 5, ONE, ONE, INFINITY | 5 | 1 << 51),
        (ONE, INFINITY | NEGATIVE | 6, INFINITY | 7, INFINITY | NEGATIVE | 6 | 1 << 51),
        (INFINITY | 5, ONE, INFINITY | NEGATIVE | 7, INFINITY | NEGATIVE | 7 | 1 << 51),
        (INFINITY | 5, INFINITY | 6, ONE, INFINITY | 6 | 1 << 51),
        (INFINITY, 0, INFINITY | 7, INFINITY | 7 | 1 << 51),
    ],
)
def test_infinities_follow_ieee_and_nan_the_h200(a: int, b: int, c: int, d: int) -> None:
    words = [np.array([word], np.uint64) for word in (a, b, c)]
    (found,) = multiply_add(*words, F64, Rounding.NEAREST_EVEN, CANONICAL)
    assert hex(found) == hex(d)
