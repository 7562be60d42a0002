"""What each class of values promises, for each kind of format."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from content_programs import (
    B1_AND,
    B1_XOR,
    BF16,
    BITS,
    F16_F16,
    F16_F32,
    F16_NARROWED,
    F64,
    FLOATS,
    INTEGERS,
    TF32,
    matrices,
)
from numpy.typing import NDArray

from oracle.isa import lookup as isa
from oracle.isa.forms import Format
from strategies.contents import ValueClass as V
from strategies.contents.expressions import fields_of

Exact = NDArray[np.object_]


def exact(raw: NDArray[Any], type_: Format) -> Exact:
    """The numbers as fractions; all finite."""
    values = fields_of(type_.name).values(np.ascontiguousarray(raw))
    assert np.isfinite(values).all()
    flat = [Fraction(float(value)) for value in values.ravel()]
    return np.array(flat, object).reshape(raw.shape)


def parts(opcode: str, class_: V, count: int) -> tuple[Exact, Exact, Exact]:
    """A, B and C of some images as fractions."""
    form = isa.mma_form(opcode)
    types = (form.a_type, form.b_type, form.c_type)
    a, b, c = (
        exact(raw, type_) for raw, type_ in zip(matrices(opcode, class_, count), types, strict=True)
    )
    return a, b, c


def product(a: Exact, b: Exact) -> Exact:
    return np.array([x @ y for x, y in zip(a, b, strict=True)])


def last_place(value: Fraction, type_: Format) -> Fraction:
    """One unit in the last place of a number of a format."""
    least = 1 - type_.bias
    exponent = least if value == 0 else max(least, _exponent(abs(value)))
    return Fraction(2) ** (exponent - type_.fraction_bits)


def _exponent(value: Fraction) -> int:
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= value else exponent - 1


@pytest.mark.parametrize("opcode", FLOATS)
def test_cancelling_leaves_less_than_a_unit_in_the_last_place_of_c(opcode: str) -> None:
    a, b, c = parts(opcode, V.CANCELLING, 3)
    type_ = isa.mma_form(opcode).c_type
    left = product(a, b) + c
    # In f64 the product is itself a rounded sum of four.
    units = 8 if opcode == F64 else 1
    for rest, addend in zip(left.ravel(), c.ravel(), strict=True):
        assert abs(rest) <= units * last_place(addend, type_)
    assert np.mean(left != 0) > 0.25


@pytest.mark.parametrize("opcode", FLOATS)
@pytest.mark.parametrize("class_", [V.MIRRORED, V.UNNORMALISED])
def test_mirrored_pairs_are_larger_than_everything_else_and_cancel(opcode: str, class_: V) -> None:
    a, b, c = parts(opcode, class_, 6)
    for image in range(6):
        for row, column in ((0, 0), (3, 5), (7, 6)):
            terms = a[image][row] * b[image][:, column]
            order = np.argsort(np.abs(terms))
            first, second = terms[order[-1]], terms[order[-2]]
            assert first == -second != 0
            others = [*terms[order[:-2]], c[image][row, column]]
            assert all(abs(other) < abs(first) for other in others)
            assert sum(other != 0 for other in others) >= len(terms) - 2
            if class_ is V.UNNORMALISED:
                significands = [
                    abs(value) / Fraction(2) ** _exponent(abs(value))
                    for value in (a[image][row, order[-1]], b[image][order[-1], column])
                ]
                assert min(significands) >= Fraction(3, 2)


@pytest.mark.parametrize("opcode", [F16_F16, BF16, TF32, F64, F16_F32, F16_NARROWED])
def test_ties_are_ties_of_the_result_but_for_a_minute_nudge(opcode: str) -> None:
    a, b, c = parts(opcode, V.TIES, 6)
    form = isa.mma_form(opcode)
    total = product(a, b) + c
    plain = 0
    for image, row, column in np.ndindex(total.shape):
        terms = sorted((x for x in a[image][row] * b[image][:, column] if x), key=abs)
        assert 1 <= len(terms) <= 2
        if len(terms) == 2:
            assert abs(terms[0]) < abs(terms[1])
        large = c[image][row, column] + terms[-1]
        addend = c[image][row, column]
        unit = last_place(addend, form.d_type)
        # An odd multiple of half a unit in the last place of D.
        assert (2 * large / unit).denominator == 1
        assert (2 * large / unit).numerator % 2 == 1
        plain += len(terms) == 1
    assert plain < total.size


@pytest.mark.parametrize("opcode", FLOATS)
def test_subnormals_stand_in_a_b_and_c_of_each_image(opcode: str) -> None:
    form = isa.mma_form(opcode)
    types = (form.a_type, form.b_type, form.c_type)
    for raw, type_ in zip(matrices(opcode, V.SUBNORMAL, 5), types, strict=True):
        fields = fields_of(type_.name)
        subnormal = ((raw & fields.infinity) == 0) & ((raw & fields.fraction) != 0)
        assert (subnormal.mean((1, 2)) > 0.1).all()
        assert (subnormal.mean((1, 2)) < 0.6).all()


@pytest.mark.parametrize("opcode", FLOATS)
def test_zeros_of_both_signs_and_special_values_stand_where_they_are_promised(opcode: str) -> None:
    form = isa.mma_form(opcode)
    types = (form.a_type, form.b_type, form.c_type)
    all_minus = 0
    for raw, type_ in zip(matrices(opcode, V.ZEROS, 80), types, strict=True):
        fields = fields_of(type_.name)
        zero = (raw & (fields.sign - 1)) == 0
        assert zero.all((1, 2)).mean() > 0.2
        assert {0, int(fields.sign)} <= set(raw[zero].tolist())
        all_minus += int((raw == fields.sign).all((1, 2)).any())
    assert all_minus == 2  # A and C
    for raw, type_ in zip(matrices(opcode, V.SPECIAL, 300), types, strict=True):
        fields = fields_of(type_.name)
        assert set(fields.specials) <= set(raw.ravel().tolist())
    for raw, type_ in zip(matrices(opcode, V.ENDS, 60), types, strict=True):
        fields = fields_of(type_.name)
        assert set(raw.ravel().tolist()) == set(fields.finite_ends)


@pytest.mark.parametrize("opcode", [F16_F16, BF16, TF32, F64])
def test_extreme_sums_pass_the_largest_result_and_others_do_not(opcode: str) -> None:
    a, b, c = parts(opcode, V.EXTREME, 9)
    type_ = isa.mma_form(opcode).d_type
    largest = (2 - Fraction(2) ** -type_.fraction_bits) * Fraction(2) ** type_.bias
    total = np.abs(product(a, b) + c)
    over = total > largest
    assert 0.05 < over.mean() < 0.9
    assert np.mean((total > largest / 4) & ~over) > 0.05
    # Products beyond the range whose sum is inside.
    terms = np.abs(a[:, :, :, None] * b[:, None, :, :]).max(2)
    assert np.mean((terms > largest) & ~over) > 0.05


@pytest.mark.parametrize("opcode", [*FLOATS, *INTEGERS])
def test_coded_elements_of_a_or_b_reach_the_result_one_by_one(opcode: str) -> None:
    a, b, c = matrices(opcode, V.CODED, 8)
    assert all(len(np.unique(image)) == image[0].size * len(image) for image in c)
    for left, right in zip(a, b, strict=True):
        picks = [len(np.unique(side)) == 2 for side in (left, right)]
        assert any(picks)
        picking = left if picks[0] else right.T
        assert ((picking != 0).sum(1) == 1).all()


def signed(raw: NDArray[Any]) -> NDArray[np.int64]:
    return raw.astype(np.int64)


@pytest.mark.parametrize("opcode", INTEGERS)
def test_integer_sums_cancel_or_end_at_the_ends(opcode: str) -> None:
    a, b, c = (signed(raw) for raw in matrices(opcode, V.CANCELLING, 20))
    assert set((a @ b + c).ravel().tolist()) == set(range(-4, 4))
    a, b, c = (signed(raw) for raw in matrices(opcode, V.TIES, 40))
    total = a @ b + c
    high = {value for value in total.ravel().tolist() if value > 0}
    assert high >= {2**31 - 2, 2**31 - 1, 2**31, 2**31 + 1}
    if isa.mma_form(opcode).a_type.name.startswith("s"):
        assert {-(2**31) - 1, -(2**31), -(2**31) + 1} <= set(total.ravel().tolist())
    a, b, c = (signed(raw) for raw in matrices(opcode, V.AIMED, 20))
    assert (np.abs((a @ b + c + 4) % (1 << 16)) < 8).mean() > 0.95


@pytest.mark.parametrize("opcode", INTEGERS)
def test_integers_reach_both_ends_and_single_bits(opcode: str) -> None:
    type_ = isa.mma_form(opcode).a_type
    low = -(1 << (type_.bits - 1)) if type_.name[0] == "s" else 0
    high = low + (1 << type_.bits) - 1
    for class_ in (V.ENDS, V.EXTREME, V.SPECIAL, V.BITS):
        for raw in matrices(opcode, class_, 40)[:2]:
            assert {low, high} <= set(raw.ravel().tolist())
            assert low <= raw.min() <= raw.max() <= high
    for raw in matrices(opcode, V.SUBNORMAL, 20)[:2]:
        patterns = raw.astype(np.uint8) & ((1 << type_.bits) - 1)
        assert set(patterns.ravel().tolist()) == {1 << bit for bit in range(type_.bits)}


@pytest.mark.parametrize("opcode", BITS)
def test_counts_of_single_bits_cancel_or_end_at_the_ends(opcode: str) -> None:
    for class_, wanted in ((V.CANCELLING, set(range(-4, 4))), (V.TIES, {2**31 - 1, 2**31})):
        a, b, c = matrices(opcode, class_, 20)
        left, right = a[:, :, None, :], b.swapaxes(1, 2)[:, None, :, :]
        both = left & right if opcode == B1_AND else left ^ right
        total = both.sum(3, dtype=np.int64) + signed(c)
        assert wanted <= set(total.ravel().tolist())


def test_single_bits_are_one_to_a_line_or_complements() -> None:
    for raw in (matrices(B1_XOR, V.SUBNORMAL, 20)[0], matrices(B1_XOR, V.CODED, 20)[0]):
        assert (raw.sum(2) == 1).all()
    b = matrices(B1_XOR, V.SUBNORMAL, 200)[1]
    assert (b.sum(1) == 1).all()
    assert b.any((0, 2)).all()
    a, b, _ = matrices(B1_XOR, V.MIRRORED, 5)
    assert (a[:, :, :, None] != b[:, None, :, :]).all()
    assert (matrices(B1_XOR, V.UNNORMALISED, 5)[0].sum(2) == 127).all()


@pytest.mark.parametrize("opcode", [*FLOATS, *INTEGERS, *BITS])
def test_no_class_is_another_one(opcode: str) -> None:
    """Each class fills the matrices of each type with what no other one gives."""
    filled = {class_: matrices(opcode, class_, 8) for class_ in V}
    assert all(raw.shape[0] == 8 for found in filled.values() for raw in found)
    for one, other in combinations(V, 2):
        if {one, other} != {V.BITS, V.ANY}:
            pairs = zip(filled[one], filled[other], strict=True)
            assert not all(np.array_equal(x, y) for x, y in pairs), (one, other)
