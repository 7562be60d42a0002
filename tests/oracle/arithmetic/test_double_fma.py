import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import dot_products
from reference.numbers import F64, decode

from oracle import mma
from oracle.arithmetic.conversions import own_scratch
from oracle.arithmetic.doubles import chain, decoded, fma
from oracle.models import DoubleChain, NanRule, model_for

MODES = ("rn", "rz", "rm", "rp")
NAN = NanRule(order=("a", "b", "c"), invalid=0xFFF8_0000_0000_0000)
(MEASURED,) = model_for("sm_90").only(DoubleChain)
SIGN = 1 << 63
ONE = 0x3FF << 52


def _fma(a, b, c, mode, nan=NAN):
    arrays = [np.atleast_1d(np.array(x, np.uint64)) for x in (a, b, c)]
    with np.errstate(all="ignore"):
        left, right = decoded(arrays[0]), decoded(arrays[1])
    return fma(left, right, arrays[2], rounding=mode, nan=nan)


def _check(a, b, c, mode):
    results = _fma(a, b, c, mode).tolist()
    for x, y, z, result in zip(a, b, c, results, strict=True):
        expected = dot_products.fma(x, y, z, mode)
        if expected is None:
            assert decode(result, F64).kind == "nan"
        else:
            assert result == expected, f"fma.{mode}({x:#x}, {y:#x}, {z:#x}) = {result:#x}"


special = st.sampled_from(
    [0, 1, 2, (1 << 52) - 1, 1 << 52, ONE, 0x7FE << 52, (0x7FF << 52) - 1, 0x7FF << 52]
)
fraction = st.one_of(
    st.sampled_from([0, 1, (1 << 52) - 1, 1 << 51, (1 << 51) + 1, (1 << 26) - 1]),
    st.integers(0, (1 << 52) - 1),
)


def doubles(least, greatest):
    exponent = st.integers(least, greatest)
    return st.builds(lambda e, f, s: e << 52 | f | s << 63, exponent, fraction, st.integers(0, 1))


anything = st.one_of(
    st.builds(lambda m, s: m | s << 63, special, st.integers(0, 1)), doubles(0, 2046)
)


sign = st.integers(0, 1).map(lambda negative: negative << 63)
minute = st.integers(1, 1 << 20)
halves = st.integers(-1, 1)


def cancelling(a, b, steps, sign):
    """An addend that is about minus the product, so that its low half is what remains."""
    with np.errstate(all="ignore"):
        pattern = int(np.array([a, b], np.uint64).view(np.float64).prod().view(np.uint64))
    addend = max(0, min((pattern & ~SIGN) + steps, 0x7FEF << 48))
    return a, b, addend | (pattern ^ sign) & SIGN


def _minus_minute(i, exponent):
    """1 - i 2^-52, times a power of two: with 1 + i 2^-52 it gives 1 - (i 2^-52)^2."""
    return exponent << 52 | (1 << 52) - 2 * i


def tie(i, scale, negative, addend):
    """A product that rounds to half a unit of the addend, or twice or half of that."""
    exponent = (addend & ~SIGN) >> 52
    return ONE + i | negative, _minus_minute(i, exponent - 54 + scale), addend


def subnormal_tie(i, scale, negative, addend):
    return 1023 - 537 << 52 | i | negative, _minus_minute(i, 1022 - 538 + scale), addend


small = doubles(400, 640)
OPERANDS = {
    "any": st.tuples(anything, anything, anything),
    "cancelling": st.just((ONE | 1, ONE | 1, ONE + 2 | SIGN))
    | st.builds(cancelling, doubles(512, 1534), doubles(512, 1534), st.integers(-2, 2), sign),
    "a tie but for a minute part": st.builds(tie, minute, halves, sign, doubles(60, 2000)),
    "a tie between subnormals": st.builds(
        subnormal_tie, minute, halves, sign, st.builds(int.__or__, st.integers(0, 1 << 53), sign)
    ),
    "about the subnormals": st.tuples(
        small, small, st.builds(int.__or__, st.integers(0, 1 << 54), sign)
    ),
    "overflow": st.tuples(doubles(1500, 1560), doubles(1500, 1560), doubles(2040, 2046)),
}


@pytest.mark.parametrize("operands", OPERANDS.values(), ids=OPERANDS)
@given(st.data())
def test_any_fma_is_rounded_once(operands, data):
    cases = data.draw(st.lists(operands, min_size=1, max_size=4))
    for mode in MODES:
        _check(*zip(*cases, strict=True), mode)


@pytest.mark.parametrize("mode", MODES)
def test_exact_zeros_have_the_sign_of_ieee_754(mode):
    minus = SIGN | ONE
    zero_signs = {"rm": SIGN}.get(mode, 0)
    assert _fma(ONE, ONE, minus, mode).tolist() == [zero_signs]
    assert _fma(0, ONE, SIGN, mode).tolist() == [zero_signs]
    assert _fma(SIGN, ONE, SIGN, mode).tolist() == [SIGN]
    assert _fma(0, ONE, 0, mode).tolist() == [0]


def test_nan_operands_are_quieted_and_chosen_in_the_order_of_the_rule():
    first, second, third = 0x7FF0_0000_0000_0001, 0xFFF0_0000_0000_0002, 0x7FF8_0000_0000_0003
    quiet = 1 << 51
    for order, expected in ((("a", "b", "c"), first), (("c", "a", "b"), third)):
        rule = NanRule(order=order, invalid=NAN.invalid)
        assert _fma(first, second, third, "rn", rule).tolist() == [expected | quiet]
    assert _fma(ONE, second, third, "rn").tolist() == [second | quiet]


@pytest.mark.parametrize("mode", MODES)
def test_invalid_operations_return_the_default_nan(mode):
    infinity = 0x7FF << 52
    assert _fma(0, infinity, ONE, mode).tolist() == [NAN.invalid]
    assert _fma(infinity, ONE, infinity | SIGN, mode).tolist() == [NAN.invalid]


@pytest.mark.parametrize("rounding", ["", ".rn", ".rz", ".rm", ".rp"])
def test_matrices_are_chains_over_rising_k(rounding):
    rng = np.random.default_rng(8)
    opcode = f"wmma.mma.sync.aligned.row.col.m8n8k4{rounding}.f64.f64.f64.f64"
    a, b = rng.standard_normal((3, 8, 4)), rng.standard_normal((3, 4, 8))
    c = rng.standard_normal((3, 8, 8))
    a[1], c[2] = a[1] * 2.0**-540, c[2] * 2.0**-1070
    b[1:] *= 2.0**-530
    bits = [x.view(np.uint64) for x in (a, b, c)]
    result = mma(opcode, *bits)
    mode = rounding[1:] or "rn"
    for t, i, j in np.ndindex(3, 8, 8):
        total = int(bits[2][t, i, j])
        for k in range(4):
            total = dot_products.fma(bits[0][t, i, k], bits[1][t, k, j], total, mode)
        assert int(result[t, i, j]) == total


def _near(*exponents):
    """Doubles whose exponents are about the given ones, and zeros of both signs."""
    ranges = [doubles(1023 + one - 2, 1023 + one + 2) for one in exponents]
    return st.one_of(st.sampled_from([0, SIGN]), *ranges)


multiplicand = _near(-560, -520, -480, -53, 0, 52, 479, 520)
addend = st.one_of(
    _near(-1020, -960, -53, 0, 53, 899, 960, 1020),
    st.integers(0, 1 << 52).map(lambda bits: bits | SIGN),
)


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=20)  # of three dot products
@given(st.data())
def test_chains_are_exact_where_operands_stop_being_ordinary(mode, data):
    """Three dot products of their own tiles, of which some go one way and some the other."""
    tiles = 3
    a, b = (data.draw(st.lists(multiplicand, min_size=4 * tiles, max_size=4 * tiles)) for _ in "ab")
    c = data.draw(st.lists(addend, min_size=tiles, max_size=tiles))
    if data.draw(st.booleans()):  # what is summed cancels
        a[1], b[1] = a[0] ^ SIGN, b[0]
    if data.draw(st.booleans()):
        a[4], b[4], c[1] = c[1] ^ SIGN, ONE, c[1]
    left, right, start = (
        np.zeros(shape, np.uint64) for shape in ((tiles, 8, 4), (tiles, 4, 8), (tiles, 8, 8))
    )
    left[:, 5], right[:, :, 2] = (
        np.array(factor, np.uint64).reshape(tiles, 4) for factor in (a, b)
    )
    start[:, 5, 2] = c
    result = chain(left, right, start, rounding=mode, rule=MEASURED, scratch=own_scratch())
    for tile in range(tiles):
        total = c[tile]
        for k in range(4 * tile, 4 * tile + 4):
            total = dot_products.fma(a[k], b[k], total, mode)
        assert int(result[5, 2, tile]) == total


@pytest.mark.parametrize("mode", MODES)
def test_what_the_last_sum_loses_decides_the_direction(mode):
    """An odd product of 54 bits and an addend below 1: half a unit each, but for a minute part."""
    a, b, c = 2.0**26 + 1, 2.0**27 + 2 * np.arange(8.0) + 1, np.nextafter(1.0, 0.0)
    operands = (
        np.full((1, 2, 1), [[a], [-a]]), b.reshape(1, 1, 8), np.full((1, 2, 8), [[c], [-c]])
    )  # fmt: skip
    x, y, z = (operand.view(np.uint64) for operand in operands)
    result = chain(x, y, z, rounding=mode, rule=MEASURED, scratch=own_scratch())
    for m, n in np.ndindex(2, 8):
        expected = dot_products.fma(int(x[0, m, 0]), int(y[0, 0, n]), int(z[0, m, n]), mode)
        assert int(result[m, n, 0]) == expected
