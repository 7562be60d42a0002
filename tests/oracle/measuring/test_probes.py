"""Each family of probes holds what it says: else a figure rests on fewer probes than it seems."""

from __future__ import annotations

import numpy as np
import pytest

from oracle.formats import FORMATS
from oracle.isa import MMA_FORMS
from oracle.measuring.dots import Dots
from oracle.measuring.doubles import double_probes, fit_doubles
from oracle.measuring.inference import Evidence, fit
from oracle.measuring.probes import float_probes
from oracle.measuring.units import random_tiles, units_of
from oracle.targets import Module

DEPTH = 8
WIDE = ["f32.bf16.bf16.f32", "f32.tf32.tf32.f32"]
"""Formats whose products reach as far as f32 does."""


def values(bits: np.ndarray, name: str) -> np.ndarray:
    """Return what patterns stand for, as f64; of tf32 with the bits that it ignores."""
    if name == "bf16":
        bits = bits.astype(np.uint32) << np.uint32(16)
    floats = {"f16": np.float16, "f64": np.float64}.get(name, np.float32)
    with np.errstate(invalid="ignore"):
        return np.ascontiguousarray(bits).view(floats).astype(np.float64)


def family(types: str, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return A, B and C of the probes of a family."""
    _, a, b, c = types.split(".")
    dots = float_probes(types, DEPTH)
    part = dots.of(name)
    return values(dots.a[part], a), values(dots.b[part], b), values(dots.c[part], c)


@pytest.mark.parametrize("types", ["f32.f16.f16.f32", *WIDE])
@pytest.mark.parametrize("name", ["alignment", "normalisation"])
def test_two_terms_cancel_and_all_others_are_alike_at_every_distance(types, name) -> None:
    a, b, c = family(types, name)
    terms = np.concatenate([a * b, c[:, None]], axis=1)
    order = np.argsort(-np.abs(terms), axis=1, kind="stable")
    terms = np.take_along_axis(terms, order, axis=1)
    assert (terms[:, 0] == -terms[:, 1]).all()
    assert (terms[:, 2:] == terms[:, 2:3]).all()
    distance = np.log2(np.abs(terms[:, 0] / terms[:, 2]))
    assert set(np.floor(distance - (name == "normalisation")).tolist()) == set(range(6, 33))


@pytest.mark.parametrize("types", ["f16.f16.f16.f16", *WIDE])
def test_sums_overflow_of_one_product_of_two_and_of_all(types) -> None:
    """Each is 2^bias of D, a little more than half of its largest number."""
    a, b, _ = family(types, "overflow of sums")
    d = FORMATS[types.partition(".")[0]]
    products = a * b
    for count in (1, 2, DEPTH):
        for sign in (1.0, -1.0):
            wanted = np.zeros(DEPTH)
            wanted[:count] = sign * 2.0**d.bias
            assert (products == wanted).all(axis=1).any(), (count, sign)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_sums_lie_at_every_quarter_of_a_place_about_the_largest_number(sign) -> None:
    a, b, c = family("f16.f16.f16.f16", "overflow of sums")
    largest, place = 65504.0, 32.0
    sums = sign * (a * b).sum(axis=1)[c == 0]
    assert {largest + place * quarters / 4 for quarters in range(-4, 9)} <= set(sums.tolist())


@pytest.mark.parametrize("types", ["f16.f16.f16.f16", "f32.bf16.bf16.f32"])
def test_results_are_the_least_normal_number_less_a_little(types) -> None:
    a, b, c = family(types, "subnormals in D")
    least = 2.0 ** (1 - FORMATS[types.partition(".")[0]].bias)
    assert set(c.tolist()) == {least, -least}
    share = ((a * b).sum(axis=1) + c) / c
    assert set(share.tolist()) == {1 - DEPTH / 2.0**below for below in range(5, 10)}


def test_products_beside_zeros_have_every_exponent_and_factors_that_are_normal() -> None:
    a, b, _ = family("f16.f16.f16.f16", "zeros beside products")
    factors = np.abs(np.concatenate([a, b]))
    assert ((factors == 0) | (factors >= 2.0**-14) & np.isfinite(factors)).all()
    products = np.abs(a * b)
    assert set(np.frexp(products.max(axis=1))[1].tolist()) == set(range(-27, 31))


@pytest.mark.parametrize("types", WIDE)
def test_powers_of_two_of_every_number_add_up_to_the_least_numbers(types) -> None:
    a, b, _ = family(types, "zeros among tiny products")
    products = a * b
    powers = (np.frexp(np.abs(products))[0] % 0.5 == 0).all(axis=1)
    sums = products.sum(axis=1)  # exact: f64 has the bits
    for total in (-148, -149, -150):
        for sign in (1.0, -1.0):
            found = np.count_nonzero(products[powers & (sums == sign * 2.0**total)], axis=1)
            assert set(found.tolist()) == set(range(2, DEPTH + 1))


def test_ignored_bits_are_half_a_place_none_and_any_in_a_and_in_b() -> None:
    dots = float_probes("f32.tf32.tf32.f32", DEPTH)
    part = dots.of("low bits")
    ignored = FORMATS["tf32"].ignored_bits
    for bits in (dots.a, dots.b):
        size = np.abs(bits[part].view(np.float32))
        assert ((size >= 1) & (size < 2)).all(), "so that no low bit falls below a sum"
    low_a, low_b = (bits[part] & np.uint32((1 << ignored) - 1) for bits in (dots.a, dots.b))
    half = (low_a == 1 << (ignored - 1)).all(axis=1)
    none = (low_b == 0).all(axis=1)
    counts = [np.count_nonzero(x & y) for x in (half, ~half) for y in (none, ~none)]
    assert counts == [20, 20, 20, 60]


def test_products_of_f64_overflow_at_every_place_with_both_signs() -> None:
    dots = double_probes(DEPTH)
    part = dots.of("infinities and overflow")
    a, b, c = (bits[part].view(np.float64) for bits in (dots.a, dots.b, dots.c))
    finite = np.isfinite(a).all(axis=1) & np.isfinite(b).all(axis=1) & np.isfinite(c)
    with np.errstate(over="ignore"):
        products = a[finite] * b[finite]
    for sign in (1.0, -1.0):
        assert (products == sign * np.inf).any(axis=0).all()


def test_factors_of_f64_are_infinite_at_every_place_with_both_signs_of_the_product() -> None:
    dots = double_probes(DEPTH)
    part = dots.of("infinities and overflow")
    a, b = (bits[part].view(np.float64) for bits in (dots.a, dots.b))
    with np.errstate(invalid="ignore", over="ignore"):
        products = a * b
    for sign in (1.0, -1.0):
        there = (products == sign * np.inf) & (np.isinf(a) | np.isinf(b))
        assert there.any(axis=0).all()


@pytest.mark.parametrize("types", ["f16.f16.f16.f16", "f32.f16.f16.f32", *WIDE])
def test_products_overflow_beside_nothing_one_and_the_largest_number(types) -> None:
    _, _, c = family(types, "overflow of products")
    assert set(c.tolist()) == {0.0, 1.0, FORMATS[types.rpartition(".")[2]].largest}


def test_terms_are_aligned_below_the_largest_products_of_f32_and_of_f16() -> None:
    a, b, _ = family("f16.f16.f16.f16", "alignment")
    assert set(np.abs(a * b).max(axis=1).tolist()) == {2.0**30, 2.0**15}


def test_what_lies_beside_halves_of_the_least_number_is_of_every_size() -> None:
    a, b, _ = family("f16.f16.f16.f16", "zeros among tiny products")
    products = (a * b)[:-300]
    assert set((products[:, 0] * 2.0**25).tolist()) == {*range(-5, 0), *range(1, 6)}
    assert set(np.log2(np.abs(products[:, -1])).tolist()) == set(range(-48, -25))


def test_of_half_the_sums_of_f64_two_products_cancel() -> None:
    dots = double_probes(DEPTH)
    part = dots.of("order and fusion")
    products = np.prod([bits[part].view(np.float64) for bits in (dots.a, dots.b)], axis=0)
    cancel = products[:, 0] == -products[:, 1]
    assert (len(cancel), np.count_nonzero(cancel)) == (800, 400)


def test_narrow_products_of_all_sizes_are_added_to_nothing_and_to_c() -> None:
    dots = float_probes("f32.e4m3.e5m2.f32", 32)
    c = dots.c[dots.of("rounding")].view(np.float32)
    assert np.count_nonzero(c[120 * 3 :] == 0) == np.count_nonzero(c[120 * 3 :]) == 480


def test_products_below_the_least_numbers_are_tiny_and_there() -> None:
    a, b, c = family("f32.f16.f16.f32", "zeros among tiny products")
    assert (c == 0).all()
    assert (np.abs(a * b) < 2.0**-8).all()
    assert np.count_nonzero(a * b) > len(a) * DEPTH / 2


@pytest.mark.parametrize("form", ["f32.f16", "f32.bf16", "f32.tf32", "f16.f16"])
def test_random_images_have_the_spread_of_exponents_of_their_kind(form) -> None:
    found = next(
        one for one in MMA_FORMS
        if (one.d_type.name, one.a_type.name, one.c_type.name) == (*form.split("."), form[:3])
    )  # fmt: skip
    _, b, _ = random_tiles(found, 6 * 8, 0)
    shift = found.b_type.bits - 1 - found.b_type.exponent_bits
    fields = (b.astype(np.int64) >> shift & ((1 << found.b_type.exponent_bits) - 1)).reshape(48, -1)
    anywhere = fields[8:16].min(axis=1)
    assert anywhere.max() > found.b_type.bias > anywhere.min()
    spread = fields.max(axis=1) - fields.min(axis=1) + 1
    assert [set(spread[8 * kind : 8 * kind + 8].tolist()) for kind in (1, 2, 3, 4, 5)] == [
        {12}, {3}, {2}, {3}, {4},
    ]  # fmt: skip
    negative = (b >> b.dtype.type(found.b_type.bits - 1)).reshape(6, -1).mean(axis=1)
    assert ((negative > 0.4) & (negative < 0.6)).all()


def test_a_figure_that_no_probe_refutes_is_refuted_by_none() -> None:
    """One sum of ones beside a zero says nothing but what exponent that zero has."""
    one = np.ones((1, 4))
    bits, double = one.astype(np.float16).view(np.uint16), one.view(np.uint64)
    dots = Dots(family=("order",), a=bits, b=bits, c=np.zeros(1, np.uint32))
    four = np.array([4.0], np.float32).view(np.uint32)
    found = fit(Evidence("f32.f16.f16.f32", dots, four), 4)
    stages = ("order and fusion", *(f"subnormals in {name}" for name in "ABCD"), "NaN",
              "infinities and overflow")  # fmt: skip
    times = len(stages)
    doubles = Dots(
        family=stages, a=double.repeat(times, 0), b=double.repeat(times, 0),
        c=np.zeros(times, np.uint64),
    )  # fmt: skip
    also = fit_doubles(doubles, {"rn": np.full(times, 4.0).view(np.uint64)})
    refuted = {name for name, finding in found.figures.items() if finding.refuting}
    assert refuted == {"zero_exponent"}
    assert {finding.refuting for finding in also.figures.values()} == {0}
    assert also.figures["order"].others == ("falling",)


def test_units_have_the_forms_that_are_asked_for_and_there() -> None:
    module = Module.named("sm_75", "9.0")
    every = {form.opcode for unit in units_of(module) for form in unit.forms}
    asked = {form.opcode for unit in units_of(module, "*m16n16k16*") for form in unit.forms}
    assert asked == {opcode for opcode in every if "m16n16k16" in opcode}
    assert not any("bf16" in opcode or "f64" in opcode for opcode in every)
