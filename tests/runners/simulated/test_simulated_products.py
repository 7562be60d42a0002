"""Dot products against integers, fractions, and what real GPUs gave."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from runners.simulated.fused import F32, NAMED
from runners.simulated.products import (
    Types,
    count_bits,
    multiply,
    multiply_integers,
    multiply_on,
    narrowed,
)
from runners.simulated.silicon import BitOperation, BitUnit, IntegerUnit, chip_of, float_unit

RECORDED = Path(__file__).parents[2] / "data" / "gpu_dot_products.npz"
ARCHITECTURES = {"V100": 70, "A100": 80, "A2": 86, "Ada": 89, "L40S": 89, "H100": 90, "H200": 90}
ARCHITECTURES["B200"] = 100


def elements(words: NDArray[np.uint32], kind: str) -> NDArray[np.unsignedinteger]:
    if kind == "f16":
        return words.view(np.float32).astype(np.float16).view(np.uint16)
    return (words >> np.uint32(16)).astype(np.uint16) if kind == "bf16" else words


def recorded_sets() -> list[str]:
    with np.load(RECORDED) as recorded:
        return sorted({key.rsplit("|", 1)[0] for key in recorded.files})


@pytest.mark.parametrize("name", recorded_sets())
def test_real_gpus_gave_the_same_bits(name: str) -> None:
    gpu, given_format, result = name.split("|")
    kind = given_format.replace("fp", "f")
    running = result.replace("fp", "f")
    with np.load(RECORDED) as recorded:
        a, b, c, d = (recorded[f"{name}|{part}"] for part in "abcd")
    unit = float_unit(ARCHITECTURES[gpu], kind, running)
    found = multiply(
        elements(a, kind).T[None],
        elements(b, kind).T[:, None],
        elements(c, running)[None, None],
        unit,
        NAMED[running],
    )
    np.testing.assert_array_equal(found[0, 0], elements(d, running))


@pytest.mark.parametrize("result", ["f32", "f16"])
@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_adas_gave_the_same_bits_of_8_bits(kind: str, result: str) -> None:
    with np.load(RECORDED.with_name("ada_byte_dot_products.npz")) as recorded:
        a, b, c, d = (recorded[f"Ada|{kind}|{result}|{part}"] for part in "abcd")
    types = Types(result, kind, kind, result)
    unit = chip_of("sm_89").floats[".".join(types)]
    found = multiply_on(unit, a.T[None], b.T[:, None], c[None, None], types)
    np.testing.assert_array_equal(found[0, 0], d)


def fused_sum(a: list[int], b: list[int], c: int) -> Fraction:
    """Return one block of sm_90's rules for f16 and a finite f32 accumulator, in fractions."""

    def term(word: int, exponent_bits: int, fraction_bits: int) -> tuple[Fraction, int | None]:
        bias = (1 << (exponent_bits - 1)) - 1
        sign = -1 if word >> (exponent_bits + fraction_bits) else 1
        field = (word >> fraction_bits) & ((1 << exponent_bits) - 1)
        fraction = word & ((1 << fraction_bits) - 1)
        exponent = max(field, 1) - bias
        whole = fraction + ((1 << fraction_bits) if field else 0)
        number = sign * Fraction(whole, 1 << fraction_bits) * Fraction(2) ** exponent
        return number, exponent if whole else None

    terms = []
    for x, y in zip(a, b, strict=True):
        (p, e), (q, f) = term(x, 5, 10), term(y, 5, 10)
        terms.append((p * q, -133 if e is None or f is None else e + f))
    number, exponent = term(c, 8, 23)
    terms.append((number, -133 if exponent is None else exponent))
    quantum = Fraction(2) ** (max(e for _, e in terms) - 25)
    return sum((int(number / quantum) * quantum for number, _ in terms), Fraction(0))


def truncated_f32(number: Fraction) -> int:
    """Return the f32 word next to a number toward zero; no number here is subnormal or large."""
    word = int(np.float32(float(abs(number))).view(np.uint32))
    while Fraction(float(np.uint32(word).view(np.float32))) > abs(number):
        word -= 1
    return word | (0x8000_0000 if number < 0 and word else 0)


finite_half = st.integers(0, 0x7BFF).flatmap(lambda word: st.sampled_from([word, word | 0x8000]))


@given(
    st.lists(finite_half, min_size=16, max_size=16),
    st.lists(finite_half, min_size=16, max_size=16),
    st.floats(-(2.0**40), 2.0**40, width=32),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_a_block_is_the_sum_of_terms_cut_25_bits_below_the_largest_exponent(
    a: list[int], b: list[int], c: float, cancelling: bool
) -> None:
    if cancelling:
        halves = np.array([a, b], np.uint16).view(np.float16).astype(np.float64)
        c = -float(np.float32(halves[0] @ halves[1]))
    word = int(np.float32(c).view(np.uint32))
    if 0 < word & 0x7FFF_FFFF < 1 << 23:
        word = 0
    found = multiply(
        np.array(a, np.uint16)[None, :, None],
        np.array(b, np.uint16)[:, None, None],
        np.array([[[word]]], np.uint32),
        float_unit(90, "f16", "f32"),
        F32,
    )
    assert hex(found[0, 0, 0]) == hex(truncated_f32(fused_sum(a, b, word)))


@given(
    st.lists(st.integers(0, 255), min_size=8, max_size=8),
    st.lists(st.integers(0, 255), min_size=8, max_size=8),
    st.one_of(
        st.integers(-(1 << 31), (1 << 31) - 1),
        st.sampled_from([-(1 << 31), (1 << 31) - 1, (1 << 31) - 100]),
    ),
    st.sampled_from([4, 8]),
    st.booleans(),
    st.booleans(),
)
@settings(deadline=None)
def test_integer_sums_are_exact_and_wrapped_or_clamped_once(
    a: list[int], b: list[int], c: int, bits: int, signed: bool, saturating: bool
) -> None:
    span = 1 << bits
    left, right = ([word % span for word in words] for words in (a, b))

    def meaning(word: int) -> int:
        return word - span if signed and word >= span // 2 else word

    total = c + sum(meaning(x) * meaning(y) for x, y in zip(left, right, strict=True))
    if saturating:
        total = min(max(total, -(1 << 31)), (1 << 31) - 1)
    found = multiply_integers(
        np.array(left, np.uint8)[None, :, None],
        np.array(right, np.uint8)[:, None, None],
        np.array([[[c % (1 << 32)]]], np.uint32),
        bits,
        IntegerUnit(signed_a=signed, signed_b=signed, saturating=saturating),
    )
    assert int(found[0, 0, 0]) == total % (1 << 32)


@given(
    st.integers(0, (1 << 128) - 1),
    st.integers(0, (1 << 128) - 1),
    st.integers(0, (1 << 32) - 1),
    st.sampled_from([BitOperation.XOR, BitOperation.AND]),
    st.booleans(),
)
@example((1 << 128) - 1, 0, (1 << 31) - 1, BitOperation.XOR, True)
@example(1, 1, 1 << 31, BitOperation.AND, True)
@settings(deadline=None)
def test_counts_of_bits_are_added_to_c_and_wrapped_or_clamped(
    a: int, b: int, c: int, operation: BitOperation, saturating: bool
) -> None:
    met = a ^ b if operation is BitOperation.XOR else a & b
    rows = [np.array([(word >> k) & 1 for k in range(128)], np.uint8) for word in (a, b)]
    found = count_bits(
        rows[0][None, :, None],
        rows[1][:, None, None],
        np.array([[[c]]], np.uint32),
        BitUnit(operation=operation, saturating=saturating),
    )
    total = met.bit_count() + c - (c >> 31 << 32)
    if saturating:
        total = min(total, (1 << 31) - 1)
    assert int(found[0, 0, 0]) == total % (1 << 32)


@pytest.mark.parametrize(
    ("nan", "cut"), [(0x7FFFFFFF, 0x7FFF), (0xFFC00000, 0xFE00), (0xFFFFFFFF, 0xFFFF)]
)
def test_a_nan_that_is_narrowed_is_cut_with_its_sign(nan: int, cut: int) -> None:
    words = np.array([0x7FC00000, 0xFFC00000, 0x3F800000], np.uint32)
    assert narrowed(words, nan).tolist() == [cut, cut, 0x3C00]


@pytest.mark.parametrize("fraction", [25, 26, 28, 30])
@pytest.mark.parametrize("sign", [0, 0x8000])
def test_the_largest_products_of_a_block_do_not_overflow_the_sum(fraction: int, sign: int) -> None:
    # 16 products just below 4 * 2^30: 2^36 less what f32 cuts off.
    largest = np.full((1, 16, 1), 0x7BFF | sign, np.uint16)
    unit = replace(float_unit(90, "f16", "f32"), fraction=fraction)
    zero = np.zeros((1, 1, 1), np.uint32)
    found = multiply(largest, np.full((16, 1, 1), 0x7BFF, np.uint16), zero, unit, F32)
    exact = 16 * 65504**2
    assert abs(float(found.view(np.float32)[0, 0, 0])) == exact >> 12 << 12


@pytest.mark.parametrize(("significand", "beyond"), [(1.25, False), (1.5, True)])
def test_a_product_whose_significand_carries_is_beyond_f32(significand, beyond) -> None:
    """Two that cancel: 1.5^2 * 2^127 is no number of f32, and an infinity less another is none."""
    words = np.array([significand * 2.0**64, significand * 2.0**63], np.float32).view(np.uint32)
    a, b = (words >> 16).astype(np.uint16)
    unit = replace(float_unit(90, "bf16", "f32"), wide_products=False, invalid_is_nan=True)
    left, right = np.array([[[a], [a ^ 0x8000]]]), np.array([[[b]], [[b]]])
    zero = np.zeros((1, 1, 1), np.uint32)
    found = multiply(left, right, zero, unit, F32).view(np.float32)[0, 0, 0]
    assert np.isnan(found) if beyond else found == 0


def test_a_unit_whose_sums_would_not_fit_is_refused() -> None:
    unit = float_unit(90, "f16", "f32")
    with pytest.raises(ValueError, match="fraction bits"):
        replace(unit, fraction=40)
