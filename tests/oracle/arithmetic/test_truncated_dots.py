import numpy as np
import pytest
from dots import fast, rule_of
from hypothesis import example, given
from hypothesis import strategies as st
from reference.numbers import F16, F32, decode, encode

from oracle.arithmetic import conversions
from oracle.arithmetic.conversions import flushed
from oracle.isa.forms import FORMATS


def patterns(name):
    """Any pattern of a format; shrinks towards zeros, then small finite numbers.

    In few draws, which are what drawing lines of them costs.
    """
    fmt = FORMATS[name]
    sign = 1 << (fmt.bits - 1)
    fraction = fmt.fraction_bits + fmt.ignored_bits
    infinity = ((1 << fmt.exponent_bits) - 1) << fraction
    one = fmt.bias << fraction
    special = [0, 1, (1 << fraction) - 1, 1 << fraction, infinity - 1, infinity, infinity + 1, one]
    near_one = [one + (exponent << fraction) for exponent in range(-4, 4)]
    starts = st.sampled_from([start | negative for start in near_one for negative in (0, sign)])
    return st.one_of(
        st.sampled_from([bits | negative for negative in (0, sign) for bits in special]),
        st.builds(int.__or__, starts, st.integers(0, (1 << fraction) - 1)),
        st.integers(0, 2 * sign - 1),
    )


@pytest.mark.parametrize("tile_count", [1, 3, 700])
@pytest.mark.parametrize("whole", [False, True])
def test_a_dot_product_does_not_depend_on_its_neighbours(tile_count, whole):
    """Special values, tiny largest exponents, chunks of rows and whole numbers go other ways."""
    rng = np.random.default_rng(tile_count)
    a, b = rng.integers(0, 1 << 16, (2, tile_count, 16), dtype=np.uint16)
    c = rng.integers(0, 1 << 32, tile_count, dtype=np.uint32)
    if whole:
        a, b = rng.integers(-9, 9, (2, tile_count, 16)).astype(np.float16).view(np.uint16)
        c = rng.integers(-9, 9, tile_count).astype(np.float32).view(np.uint32)
    rule = rule_of("sm_90", "f16", "f32")
    together = fast(rule, a, b, c)
    for i in range(0, tile_count, max(1, tile_count // 20)):
        part = slice(i, i + 1)
        assert fast(rule, a[part], b[part], c[part]) == together[part]


def test_low_bits_of_tf32_words_are_ignored_even_in_nans():
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((2, 120, 8)).astype(np.float32).view(np.uint32)
    c = rng.standard_normal(120).astype(np.float32).view(np.uint32)
    rule = rule_of("sm_90", "tf32", "f32")
    noise = rng.integers(0, 1 << 13, a.shape, dtype=np.uint32)
    kept = np.uint32(0xFFFF_E000)
    assert np.array_equal(fast(rule, a & kept, b, c), fast(rule, (a & kept) | noise, b, c))
    nan_that_is_infinity = np.full((1, 8), 0x7F80_0001, np.uint32)
    one = np.full((1, 8), 0x3F80_0000, np.uint32)
    d = fast(rule, nan_that_is_infinity, one, np.zeros(1, np.uint32))
    assert d.tolist() == [0x7F80_0000]


def test_zero_results_are_positive():
    minus_zero = np.full((1, 16), 0x8000, np.uint16)
    one = np.full((1, 16), 0x3C00, np.uint16)
    for accumulator, zero in (("f32", np.uint32(1 << 31)), ("f16", np.uint16(1 << 15))):
        rule = rule_of("sm_90", "f16", accumulator)
        assert fast(rule, minus_zero, one, np.array([zero])).tolist() == [0]


@example(bits=0xB300_0000)  # -2^-25 rounds to -0, whose sign stays
@example(bits=0x477F_F000)  # 65520, the least number that becomes infinite
@example(bits=0x477F_EFFF)
@example(bits=0x3300_0001)  # just above half of the least subnormal
@given(bits=patterns("f32") | st.integers(0x3300_0000, 0x4800_0000))
def test_narrowing_f32_rounds_to_nearest_even(bits):
    number = decode(bits, F32)
    result = int(conversions.narrow(np.array([bits], np.uint32))[0])
    if number.kind == "nan":
        assert result == 0x7FFF
    elif number.kind == "inf":
        assert result == (0xFC00 if number.negative else 0x7C00)
    else:
        sign = 0x8000 if number.negative else 0
        assert result == encode(number.value, F16, "rn") | sign


@given(c=patterns("f32") | st.integers(0, 1 << 26), zero=st.sampled_from([0, 1 << 15]))
def test_without_products_the_accumulator_stays(c, zero):
    """Also where it is far below the least f16 product, or subnormal; -0 becomes +0."""
    a = np.full((1, 16), zero, np.uint16)
    b = np.full((1, 16), 0x3C00, np.uint16)
    rule = rule_of("sm_90", "f16", "f32")
    number = decode(c, F32)
    expected = 0x7FFF_FFFF if number.kind == "nan" else 0 if c == 1 << 31 else c
    assert fast(rule, a, b, np.array([c], np.uint32)).tolist() == [expected]


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
