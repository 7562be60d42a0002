"""Silicon whose figures are known, measured: what is found is what it is made of."""

import random
from dataclasses import replace

import numpy as np
import pytest
from measured_silicon import depth_of, measured, wrong_figures
from random_chips import ROUNDINGS, random_silicon

from oracle.isa.targets import Module
from oracle.measuring import inference
from oracle.measuring.inference import MeasuredFigure, ProbeEvidence, computed, fit
from oracle.measuring.probes import Dots, double_probes, float_probes
from oracle.measuring.scaled_probes import scaled_probes
from oracle.measuring.units import units_of
from oracle.models import NanRule, ScaledDot, TruncatedDot, model_for, values_in
from runners.faults import by_name
from runners.simulated.fused import Rounding
from runners.simulated.products import ProductTypes, multiply_doubles, multiply_on
from runners.simulated.scaled import multiply_scaled
from runners.simulated.silicon import BOTTOMS, DoubleUnit, ScaledUnit, chip_of

TARGETS = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
EVERY = [
    (target, row.types)
    for target in TARGETS
    for row in model_for(target).only(TruncatedDot)
    if row.instruction == "wmma.mma"
]
"""Those of mma.sync are measured whole, by the command."""


def slow(cases, but=()):
    return [case if case in but else pytest.param(*case, marks=pytest.mark.slow) for case in cases]


@pytest.mark.parametrize(("target", "types"), slow(EVERY))
def test_the_units_of_every_architecture_are_recovered(target: str, types: str) -> None:
    rule = next(row for row in model_for(target).only(TruncatedDot) if row.types == types)
    assert not wrong_figures(measured(types, chip_of(target).floats[types]), rule)


@pytest.mark.parametrize(
    "seed", [seed if seed == 5 else pytest.param(seed, marks=pytest.mark.slow)
             for seed in range(100)]
)  # fmt: skip
def test_silicon_of_any_figures_is_recovered(seed: int) -> None:
    """Bits kept, blocks, roundings, the exponent of a zero, the order and where C comes."""
    silicon = random_silicon(seed, odd=False)
    assert not wrong_figures(measured(silicon.types, silicon.unit), silicon.rule)


@pytest.mark.slow
# At the last two, figures that depend on each other have to move together, or one after the other.
@pytest.mark.parametrize("seed", [*range(100, 150), 800011, 800020])
def test_silicon_that_is_odd_in_every_figure_is_recovered(seed: int) -> None:
    silicon = random_silicon(seed)
    assert not wrong_figures(measured(silicon.types, silicon.unit), silicon.rule)


WIDE, NARROW = "f32.f16.f16.f32", "f16.f16.f16.f16"
MIXED, BF16, TF32 = "f16.f16.f16.f32", "f32.bf16.bf16.f32", "f32.tf32.tf32.f32"
CHANGED = [
    ("alignment-one-bit-more", WIDE, {"fraction_bits": 26}),
    ("alignment-one-bit-less", NARROW, {"fraction_bits": 24}),
    ("block-halved", BF16, {"block": 8}),
    ("block-doubled", TF32, {"block": 8}),
    ("block-order-reversed", TF32, {"order": "falling"}),
    ("zero-exponent-higher", BF16, {"zero_exponent": -132}),
    ("zero-exponent-lower", NARROW, {"zero_exponent": -22}),
    ("product-normalised-first", WIDE, {"product_exponent": "normalised"}),
    ("sum-rounded-to-nearest", BF16, {"rounding": "rn"}),
    ("sum-rounded-up", TF32, {"rounding": "rp"}),
    ("half-sum-cut", NARROW, {"rounding": "rz"}),
    ("half-sum-ties-away", NARROW, {"rounding": "rna"}),
    ("narrowing-cut", MIXED, {"narrowing": "rz"}),
    ("accumulator-added-last", WIDE, {"addend": "last", "addition": "rz"}),
    ("tf32-rounded", TF32, {"low_bits": "rounded"}),
    ("subnormals-flushed-in-a", BF16, {"a_subnormals": "flushed"}),
    ("subnormals-flushed-in-b", WIDE, {"b_subnormals": "flushed"}),
    ("subnormals-flushed-in-c", NARROW, {"c_subnormals": "flushed"}),
    ("subnormals-flushed-in-d", MIXED, {"d_subnormals": "flushed"}),
    ("nan-with-other-payload", WIDE, {"nan": 0x7FC0_0000}),
    ("nan-negative", NARROW, {"nan": 0xFFFF}),
    ("zero-negative", TF32, {"zero": "-"}),
    ("overflow-to-largest", NARROW, {"overflow": "largest"}),
    ("products-overflow-early", BF16, {"product_range": "f32"}),
]


def damaged(name: str, unit):
    damage = by_name(name).damage
    assert damage is not None
    assert damage.change is not None
    return damage.change(unit)


@pytest.mark.parametrize(("fault", "types", "change"), slow(CHANGED, [CHANGED[2]]))
def test_a_fault_that_changes_a_figure_is_found_as_that_figure(fault, types, change) -> None:
    rule = next(row for row in model_for("sm_90").only(TruncatedDot) if row.types == types)
    found = measured(types, damaged(fault, chip_of("sm_90").floats[types]))
    wrong = wrong_figures(found, rule)
    assert {name: pair[0] for name, pair in wrong.items()} == change


@pytest.mark.parametrize(
    ("fault", "types"),
    [
        ("invalid-is-zero", WIDE),
        *slow([("k-tail-dropped", WIDE), ("accumulator-lost-in-floats", TF32)]),
    ],
)
def test_a_fault_that_no_figure_describes_is_refused_with_its_probe(fault, types) -> None:
    found = measured(types, damaged(fault, chip_of("sm_90").floats[types]))
    assert not found.figures
    shown = found.contradiction
    assert shown is not None
    assert shown.returned != shown.nearest
    assert 0 < shown.differing <= shown.among
    if fault == "invalid-is-zero":
        assert shown.family == "infinities"


def doubles_of(unit: DoubleUnit):
    dots = double_probes(4)
    roundings = {one.value: one for one in Rounding if one is not Rounding.NEAREST_AWAY}
    returned = {
        name: multiply_doubles(
            dots.a.T[None], dots.b.T[:, None], dots.c[None, None], replace(unit, rounding=rounding)
        )[0, 0]
        for name, rounding in roundings.items()
    }
    every = np.concatenate([*returned.values()])
    return fit(ProbeEvidence("f64.f64.f64.f64", dots, every, tuple(returned)))


ORDER = ("b", "c", "a")
DOUBLE_NAN = NanRule(order=ORDER, invalid=0xFFF8_0000_0000_0000)


@pytest.mark.parametrize(
    ("fault", "change"),
    [
        (None, {}),
        ("f64-not-fused", {"multiply_add": "separate"}),
        ("f64-order-reversed", {"order": "falling"}),
        ("f64-payload-dropped",
         {"nan": NanRule(order=(), invalid=0xFFF8 << 48, canonical=0x7FF8 << 48)}),
        *((f"f64-subnormals-flushed-in-{m}", {f"{m}_subnormals": "flushed"}) for m in "abcd"),
    ],
)  # fmt: skip
def test_the_f64_unit_is_recovered_and_so_is_what_is_changed_in_it(fault, change) -> None:
    unit = chip_of("sm_90").doubles if fault is None else damaged(fault, chip_of("sm_90").doubles)
    found = doubles_of(unit)
    assert found.contradiction is None
    sound = {"order": "rising", "multiply_add": "fused", "nan": DOUBLE_NAN}
    sound |= {f"{m}_subnormals": "kept" for m in "abcd"}
    assert found.values == sound | change
    # With the product rounded first, its NaN is one operand of the sum: fewer orders differ.
    others = [name for name, finding in found.figures.items() if finding.others]
    assert others == (["nan"] if fault == "f64-not-fused" else [])


@pytest.mark.parametrize("fault", ["f64-k-tail-dropped"])
def test_an_f64_unit_that_no_figure_describes_is_refused(fault) -> None:
    found = doubles_of(damaged(fault, chip_of("sm_90").doubles))
    assert not found.figures
    assert found.contradiction is not None


def test_what_random_images_show_is_evidence_like_any_probe() -> None:
    """Evidence that belongs to no family decides, too."""
    rule = next(row for row in model_for("sm_80").only(TruncatedDot) if row.types == BF16)
    rng = np.random.default_rng(1)
    count, k = 500, depth_of(BF16)
    a, b = (rng.standard_normal((count, k)).astype(np.float32).view(np.uint32) >> 16 for _ in "ab")
    c = rng.standard_normal(count).astype(np.float32).view(np.uint32)
    dots = Dots(
        family=("random images",) * count, a=a.astype(np.uint16), b=b.astype(np.uint16), c=c
    )
    found = fit(ProbeEvidence(BF16, dots, computed(BF16, values_in(rule), dots)))
    assert found.contradiction is None
    for name in ("block", "fraction_bits", "rounding"):
        assert not found.figures[name].others
        assert found.values[name] == values_in(rule)[name]


SMALL = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_units_of_small_elements_are_recovered(seed, monkeypatch) -> None:
    """Of 8 bits, 6 and 4: short sums, exponents of the elements' own formats, all of K."""
    draw = random.Random(seed)
    a, b, d_type = draw.choice(SMALL), draw.choice(SMALL), draw.choice(["f32", "f32", "f16"])
    types, own = f"{d_type}.{a}.{b}.{d_type}", draw.random() < 0.7
    sound = chip_of("sm_90").floats[f"{d_type}.f16.f16.{d_type}"]
    bits = draw.choice([None, draw.randint(8, 22)]) if d_type == "f32" else None
    unit = replace(
        sound, block=draw.choice([4, 8, 16, 32]), fraction=draw.randint(9, 26), kept=bits,
        bottoms=(BOTTOMS[a], BOTTOMS[b]) if own else (None, None),
        zero_exponent=draw.choice([sound.zero_exponent, draw.randint(-60, 0)]),
        rounding=draw.choice([sound.rounding, *ROUNDINGS.values()]),
    )  # fmt: skip
    dots = float_probes(types, 32)
    d = multiply_on(
        unit,
        dots.a.T[None],
        dots.b.T[:, None],
        dots.c[None, None],
        ProductTypes(d_type, a, b, d_type),
    )
    tried, compute = [], inference.computed
    monkeypatch.setattr(inference, "computed", lambda *of: (tried.append(1), compute(*of))[1])
    found = fit(ProbeEvidence(types, dots, d[0, 0].astype(f"u{2 if d_type == 'f16' else 4}")))
    assert len(tried) < 20_000  # each a millisecond or two
    assert found.contradiction is None, (found.contradiction, unit)
    known = {"fraction_bits": unit.fraction, "sum_bits": bits, "block": unit.block}
    known |= {"subnormal_exponent": "own" if own else None, "zero_exponent": unit.zero_exponent}
    known |= {"rounding": next(name for name, one in ROUNDINGS.items() if one is unit.rounding)}
    for name, value in known.items():
        one = found.figures.get(name, MeasuredFigure(value=None))
        assert value in (one.value, *one.others), (name, value, one)


def test_scaled_blocks_and_the_same_types_without_scales_are_units_of_their_own() -> None:
    """Each is measured by its own probes, and has figures of its own."""
    units = units_of(Module.named("sm_120a", "8.8"))
    assert len({unit.name for unit in units}) == len(units)
    assert all(len({form.is_scaled for form in unit.forms}) == 1 for unit in units)
    types = {unit.types for unit in units if unit.kind is ScaledDot}
    assert {f"f32.{a}.{b}.f32" for a in SMALL for b in SMALL} < types


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_units_of_scaled_blocks_are_recovered(seed) -> None:
    draw = random.Random(seed)
    stype, of_products = draw.choice(["ue8m0", "ue4m3"]), draw.random() < 0.5
    a, b = [draw.choice(["e4m3", "e5m2", "e3m2", "e2m1"]) for _ in "ab"]
    blocks, depth = (1, 32) if of_products else (draw.choice([2, 4]), 64)
    if not of_products:
        a = b = "e2m1b4"
    types, group = f"f32.{a}.{b}.f32", 1 if of_products else draw.choice([1, 2, 4, 8, 16])
    unit = ScaledUnit(
        group=group, fraction=draw.randint(14, 30), of_products=of_products,
        zero_exponent=draw.choice([-139, -133, draw.randint(-150, 0)]),
    )  # fmt: skip
    name, rounding = draw.choice([("rz", ROUNDINGS["rz"]), *ROUNDINGS.items()])
    dots = scaled_probes(types, depth, blocks, stype)
    of_a, of_b = dots.scales or ()
    a, b = (one.replace("e2m1b4", "packed e2m1") for one in (a, b))
    d = multiply_scaled(
        unit, replace(chip_of("sm_120").floats["f32.f16.f16.f32"], rounding=rounding),
        ProductTypes("f32", a, b, "f32"), stype,
        dots.a.T[None], dots.b.T[:, None], dots.c[None, None], of_a.T[None], of_b.T[:, None],
    )  # fmt: skip
    found = fit(ProbeEvidence(types, dots, d[0, 0].astype(np.uint32)))
    assert found.contradiction is None, (found.contradiction, unit)
    known = {"group": group, "aligned": "products" if of_products else "scales"}
    known |= {"fraction_bits": unit.fraction, "zero_exponent": unit.zero_exponent}
    known |= {"rounding": name}
    for name, value in known.items():
        one = found.figures[name]
        assert value in (one.value, *one.others), (name, value, one)
    assert found.figures["fraction_bits"].is_told
    assert found.figures["group"].is_told
