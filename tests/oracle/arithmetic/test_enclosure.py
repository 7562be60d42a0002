from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import permitted_results
from reference.numbers import BF16, F16, F32, F64, TF32, decode
from test_truncated_dots import patterns

from oracle import mma, permitted
from oracle.bounds.enclosure import enclosure
from oracle.execution.products import multiply
from oracle.isa.forms import FORMATS
from oracle.isa.lookup import mma_form, mma_sync_form
from oracle.models import model_for

TARGETS = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
LAYOUTS = {"f16": F16, "bf16": BF16, "tf32": TF32, "f32": F32, "f64": F64}
FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
PREFIX = "wmma.mma.sync.aligned.row.col."
F16_F32 = PREFIX + "m16n16k16.f32.f32"
F16_F16 = PREFIX + "m16n16k16.f16.f16"
MIXED_NARROW = PREFIX + "m16n16k16.f16.f32"
MIXED_WIDE = PREFIX + "m16n16k16.f32.f16"
BF16_F32 = PREFIX + "m16n16k16.f32.bf16.bf16.f32"
TF32_F32 = PREFIX + "m16n16k8.f32.tf32.tf32.f32"
F64_RN = PREFIX + "m8n8k4.rn.f64.f64.f64.f64"
TENSOR = (F16_F32, F16_F16, MIXED_NARROW, MIXED_WIDE, BF16_F32, TF32_F32)


def _tile(opcode, a, b, c):
    """A tile whose first row of A, first column of B and corner of C are these patterns."""
    form = mma_form(opcode)
    shape = form.shape
    left = np.zeros((shape.m, shape.k), form.a_type.raw)
    right = np.zeros((shape.k, shape.n), form.b_type.raw)
    start = np.zeros((shape.m, shape.n), form.c_type.raw)
    left[0, : len(a)], right[: len(b), 0], start[0, 0] = a, b, c
    return left, right, start


def _bounds(opcode, a, b, c):
    low, high, nan_ok = permitted(opcode, *_tile(opcode, a, b, c))
    return float(low[0, 0]), float(high[0, 0]), bool(nan_ok[0, 0])


def _moderate(name, spread=12):
    """Finite patterns around one, subnormals and zeros."""
    fmt = FORMATS[name]
    fraction = fmt.fraction_bits + fmt.ignored_bits
    powers = st.sampled_from(
        [
            fmt.bias + exponent << fraction | negative << (fmt.bits - 1)
            for exponent in range(-spread, 4)
            for negative in (0, 1)
        ]
    )
    return st.builds(int.__or__, powers, st.integers(0, (1 << fraction) - 1))


def _small(name):
    fmt = FORMATS[name]
    fraction = fmt.fraction_bits + fmt.ignored_bits
    return st.builds(
        lambda bits, negative: bits | negative << (fmt.bits - 1),
        st.integers(0, (2 << fraction) - 1),
        st.integers(0, 1),
    )


def _leaves(opcode, a, b, c):
    """Exact leaves, which of them stem from subnormals, and their unnormalised exponents."""
    form = mma_form(opcode)
    layout, addend = LAYOUTS[form.a_type.name], LAYOUTS[form.c_type.name]

    def subnormal(number, of):
        return 0 < abs(number.value) < Fraction(2) ** of.least_exponent

    pairs = [(decode(x, layout), decode(y, layout)) for x, y in zip(a, b, strict=True)]
    start = decode(c, addend)
    values = [x.value * y.value for x, y in pairs] + [start.value]
    loose = [subnormal(x, layout) or subnormal(y, layout) for x, y in pairs]
    exponents = [x.exponent + y.exponent for x, y in pairs] + [start.exponent]
    # A zero has no exponent; what a target lets it count with is below every number of D.
    exponents = [e for e, value in zip(exponents, values, strict=True) if value] or [0]
    return values, [*loose, subnormal(start, addend)], exponents


@pytest.mark.parametrize("opcode", TENSOR)
@settings(max_examples=8)
@given(data=st.data())
def test_every_order_rounding_and_flush_is_contained(opcode, data):
    form = mma_form(opcode)
    half = form.c_type.name == form.d_type.name == "f16"
    accumulator = F16 if half else F32
    element = _moderate(form.a_type.name)
    if form.a_type.name == "f16":
        element |= _small("f16")
    count = data.draw(st.integers(1, 3))
    line = st.lists(element, min_size=count, max_size=count)
    a, b = data.draw(line), data.draw(line)
    c = data.draw(_moderate(form.c_type.name) | _small(form.c_type.name))
    low, high, _ = _bounds(opcode, a, b, c)
    values, loose, exponents = _leaves(opcode, a, b, c)
    for leaves in permitted_results.flushings(values, loose):
        results = permitted_results.sums(leaves, accumulator)
        for kept in (accumulator.fraction_bits, accumulator.fraction_bits + 2):
            results |= permitted_results.fused(leaves, exponents, accumulator, kept)
        if form.d_type.name == "f16" and not half:
            results = {
                n for r in results for n in permitted_results.neighbours(r, F16, flush=False)
            }
        assert low <= min(results)
        assert max(results) <= high


@given(data=st.data(), rounding=st.sampled_from(["rn", "rz", "rm", "rp"]))
def test_every_order_and_rounding_of_f64_is_contained(data, rounding):
    element = _moderate("f64", spread=60)
    count = data.draw(st.integers(1, 3))
    line = st.lists(element, min_size=count, max_size=count)
    a, b, c = data.draw(line), data.draw(line), data.draw(element)
    opcode = F64_RN.replace(".rn.", f".{rounding}.")
    low, high, _ = _bounds(opcode, a, b, c)
    values, _, _ = _leaves(opcode, a, b, c)
    exact = sum(values)
    results = set(permitted_results.sums(values, F64, flush=False))
    if rounding in ("rn", "rz"):
        apart = [max(permitted_results.neighbours(v, F64, flush=False)) for v in values]
        results |= permitted_results.sums(apart, F64, flush=False)
    elif rounding == "rm":  # no step increases anything
        results = {r for r in results if r <= exact}
    else:
        results = {r for r in results if r >= exact}
    assert low <= min(results)
    assert max(results) <= high


def _contains(low, high, nan_ok, d, name):
    number = d.view(FLOATS[name]).astype(np.float64)
    return np.where(np.isnan(number), nan_ok, (low <= number) & (number <= high))


@pytest.mark.parametrize("opcode", TENSOR)
@settings(max_examples=8)
@given(data=st.data(), target=st.sampled_from(TARGETS))
def test_the_model_of_every_target_is_contained(opcode, data, target):
    form = mma_form(opcode)
    if form.a_type.name != "f16" and target in ("sm_70", "sm_75"):
        target = "sm_80"
    k = form.shape.k
    line = st.lists(patterns(form.a_type.name), min_size=k, max_size=k)
    tile = _tile(opcode, data.draw(line), data.draw(line), data.draw(patterns(form.c_type.name)))
    low, high, nan_ok = permitted(opcode, *tile)
    d = mma(opcode, *tile, target=target)
    assert _contains(low, high, nan_ok, d, form.d_type.name).all()


@pytest.mark.parametrize("rounding", ["rn", "rz", "rm", "rp"])
@settings(max_examples=8)
@given(data=st.data())
def test_the_f64_model_is_contained(rounding, data):
    opcode = F64_RN.replace(".rn.", f".{rounding}.")
    line = st.lists(patterns("f64"), min_size=4, max_size=4)
    tile = _tile(opcode, data.draw(line), data.draw(line), data.draw(patterns("f64")))
    low, high, nan_ok = permitted(opcode, *tile)
    assert _contains(low, high, nan_ok, mma(opcode, *tile), "f64").all()


@pytest.mark.parametrize("opcode", [F16_F32, MIXED_WIDE, BF16_F32, TF32_F32])
def test_the_median_width_for_normal_inputs_is_at_most_40_units(opcode):
    rng = np.random.default_rng(7)
    form = mma_form(opcode)
    shape = form.shape

    def normal(rows, columns, fmt):
        values = rng.standard_normal((40, rows, columns)).astype(np.float32)
        if fmt.name == "f16":
            return values.astype(np.float16).view(np.uint16)
        bits = values.view(np.uint32)
        return (bits >> 16).astype(np.uint16) if fmt.name == "bf16" else bits

    a = normal(shape.m, shape.k, form.a_type)
    b = normal(shape.k, shape.n, form.b_type)
    c = normal(shape.m, shape.n, form.c_type)
    low, high, nan_ok = permitted(opcode, a, b, c)
    d = mma(opcode, a, b, c).view(np.float32)
    width = (high - low) / np.spacing(np.abs(d)).astype(np.float64)
    assert not nan_ok.any()
    assert np.isfinite(width).all()
    assert np.median(width) <= 40


@pytest.mark.parametrize("opcode", [*TENSOR, F64_RN])
def test_sums_that_need_no_rounding_have_one_permitted_result(opcode):
    rng = np.random.default_rng(4)
    form = mma_form(opcode)
    shape = form.shape
    a = rng.integers(-3, 4, (5, shape.m, shape.k)).astype(float)
    b = rng.integers(-3, 4, (5, shape.k, shape.n)).astype(float)
    c = rng.integers(-9, 10, (5, shape.m, shape.n)).astype(float)

    def bits(values, fmt):
        if fmt.name == "bf16":
            return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return values.astype(FLOATS.get(fmt.name, np.float32)).view(fmt.raw)

    operands = bits(a, form.a_type), bits(b, form.b_type), bits(c, form.c_type)
    low, high, nan_ok = permitted(opcode, *operands)
    assert np.array_equal(low, a @ b + c)
    assert np.array_equal(low, high)
    assert not nan_ok.any()


HALF_INFINITY, HALF_NAN, HALF_ONE, HALF_LEAST = 0x7C00, 0x7C01, 0x3C00, 0x0001
HALF_MINUS = 0x8000


@pytest.mark.parametrize(
    ("a", "b", "bounds"),
    [
        ([HALF_INFINITY], [HALF_ONE], (np.inf, np.inf, False)),
        ([HALF_INFINITY], [HALF_MINUS | HALF_ONE], (-np.inf, -np.inf, False)),
        ([HALF_INFINITY], [0], (np.nan, np.nan, True)),
        ([HALF_INFINITY], [HALF_LEAST], (np.inf, np.inf, True)),
        ([HALF_NAN], [HALF_ONE], (np.nan, np.nan, True)),
        ([HALF_INFINITY] * 2, [HALF_ONE, HALF_MINUS | HALF_ONE], (np.nan, np.nan, True)),
    ],
)
def test_special_operands_follow_ieee_754(a, b, bounds):
    np.testing.assert_equal(_bounds(F16_F32, a, b, 0), bounds)


def test_partial_sums_may_overflow_and_then_meet():
    """2^127 * 2 three times, twice with a plus: the exact sum is finite in no f32 order."""
    big, two = 0x7F00, 0x4000
    a, b = [big, big], [two, two]
    assert _bounds(BF16_F32, a, b, 0) == (0.0, np.inf, False)
    low, high, nan_ok = _bounds(BF16_F32, a, [two, two | HALF_MINUS], 0)
    assert (low, high, nan_ok) == (-np.inf, np.inf, True)


def test_what_is_added_to_a_subnormal_may_be_cut_below_the_least_normal_number() -> None:
    """2^-24 of f16 has the exponent of 2^-14: of what is added, bits below 2^-38 may be lost."""
    for exponent, cut in ((-34, False), (-42, True)):
        low, high, _ = _bounds(F16_F32, [HALF_LEAST], [HALF_ONE], exponent + 127 << 23)
        assert (low <= 0.0) == cut, "flushed, with nothing left of C"
        assert high >= 2.0**-24 + 2.0**exponent


def test_an_interval_of_c_bounds_what_any_c_inside_it_gives():
    """The ends of C have coarse grids, what lies between has not."""
    rng = np.random.default_rng(6)
    form = mma_form(F16_F32)
    a, b = rng.standard_normal((2, 16, 16)).astype(np.float16).view(np.uint16)
    b = np.ascontiguousarray(b.T)
    ends = rng.integers(-4, 5, (2, 16, 16)).astype(np.float32)
    least, most = ends.min(0), ends.max(0)
    low, high, _ = enclosure(form, a, b, least.view(np.uint32), most.view(np.uint32))
    for _ in range(40):
        share = rng.random((16, 16)) ** 8
        c = (least + (most - least) * share).astype(np.float32)
        inner = enclosure(form, a, b, c.view(np.uint32))
        assert (low <= inner[0]).all()
        assert (inner[1] <= high).all()


def _byte_tiles(rng, count):
    a = rng.integers(0, 256, (count, 16, 32), np.uint8)
    b = rng.integers(0, 256, (count, 32, 8), np.uint8)
    a[a & 0x78 > 0x60], b[b & 0x78 > 0x60] = 0x38, 0x38
    c = (rng.standard_normal((count, 16, 8)) * 2.0 ** rng.integers(-8, 9, (count, 1, 1))).astype(
        "f4"
    )
    return a, b, c


def test_sums_of_8_bits_may_be_what_ada_makes_of_them_and_nothing_lower() -> None:
    """2 - 2^-23 + 0 comes back with 14 bits: exactly that is permitted, of f32 sums of 8 bits."""
    for types, least in (("f32.e4m3.e5m2.f32", 0x3FFFFC00), ("f32.bf16.bf16.f32", 0x3FFFFFFE)):
        shape = "m16n8k32" if "e" in types else "m16n8k16"
        form = mma_sync_form(f"mma.sync.aligned.{shape}.row.col.{types}")
        a, b = np.zeros((16, form.shape.k), form.a_type.raw), np.zeros((form.shape.k, 8))
        c = np.full((16, 8), 0x3FFFFFFF, np.uint32)
        low, high, _ = enclosure(form, a, b.astype(form.b_type.raw), c)
        assert (low == np.uint32(least).view(np.float32)).all()
        assert (high == 2.0).all()
    halves = mma_sync_form("mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16")
    low, high, _ = enclosure(halves, a[:, :1].repeat(32, 1).astype("u1"), np.zeros((32, 8), "u1"),
                             np.full((16, 8), 0x3FFF, np.uint16))  # fmt: skip
    assert (low == high).all() or (low >= 1.998).all()


def test_an_interval_of_c_bounds_what_ada_makes_of_any_c_inside_it() -> None:
    rng = np.random.default_rng(7)
    form = mma_sync_form("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32")
    a, b, c = _byte_tiles(rng, 8)
    most = (c + np.abs(rng.standard_normal(c.shape)).astype("f4") * 2.0**-6).astype("f4")
    low, high, _ = enclosure(form, a, b, c.view(np.uint32), most.view(np.uint32))
    for _ in range(10):
        inside = (c + (most - c) * rng.random(c.shape) ** 4).astype("f4")
        d = multiply(form, a, b, inside.view(np.uint32), model=model_for("sm_89"))
        number = d.view(np.float32)
        assert ((low <= number) & (number <= high)).all()


def test_enclosures_of_c_that_may_be_infinite_are_open():
    tile = _tile(F16_F32, [HALF_ONE], [HALF_ONE], 0x3F80_0000)
    most = tile[2].copy()
    most[0, 0] = 0x7F80_0000
    low, high, nan_ok = enclosure(mma_form(F16_F32), *tile, most)
    assert (low[0, 0] <= 0.0, high[0, 0], bool(nan_ok[0, 0])) == (True, np.inf, False)
    tile[0][0, 0] = HALF_MINUS | HALF_INFINITY
    _, _, nan_ok = enclosure(mma_form(F16_F32), *tile, most)
    assert nan_ok[0, 0]
