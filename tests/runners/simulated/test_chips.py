"""Silicon made to order computes what the oracle computes from the same figures."""

import random
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from random_chips import ROUNDINGS, ROWS, random_silicon

from oracle.arithmetic.conversions import Scratch
from oracle.arithmetic.dots import dot_product
from oracle.errors import UsageError
from oracle.isa.forms import FORMATS
from oracle.models import TruncatedDot, model_for
from oracle.models.figures import measured, values_in
from runners.simulated import SimulatedDevice
from runners.simulated.fused import NAMED
from runners.simulated.products import ProductTypes, multiply, multiply_on
from runners.simulated.silicon import UnitMatrix, chip_of


def words(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> NDArray[np.generic]:
    """Return any bits, or numbers near one, tiny ones, or some with many zeros or infinities."""
    fmt = FORMATS[name]
    below = fmt.bits - 1 - fmt.exponent_bits
    bits = rng.integers(0, 1 << fmt.bits, shape, dtype=np.uint64)
    way = rng.choice(["bits", "near", "tiny", "zeros", "infinities"])
    least, most = (0, fmt.bias // 2) if way == "tiny" else (fmt.bias - 14, fmt.bias + 8)
    if way != "bits":
        field = rng.integers(max(0, least), most, shape).astype(np.uint64)
        sign = bits & np.uint64(1 << (fmt.bits - 1))
        bits = (bits & np.uint64((1 << below) - 1)) | sign | (field << np.uint64(below))
    if way == "zeros":
        bits[rng.random(shape) < 0.4] = 0
    if way == "infinities":
        sign = bits & np.uint64(1 << (fmt.bits - 1))
        infinity = np.uint64(((1 << fmt.exponent_bits) - 1) << below)
        bits = np.where(rng.random(shape) < 0.03, sign | infinity, bits)
    return bits.astype(fmt.raw)


@pytest.mark.parametrize("start", range(0, 120, 30))
def test_any_silicon_is_the_oracles_with_the_same_figures(start: int) -> None:
    for seed in range(start, start + 30):
        silicon, rng = random_silicon(seed), np.random.default_rng(seed)
        rule = silicon.rule
        k = 8 if rule.multiplicand == "tf32" else 16
        a, b = (words(rng, rule.multiplicand, s) for s in ((3, 5, k), (3, k, 5)))
        c = words(rng, rule.c_type, (3, 5, 5))
        expected = dot_product(a, b, c, rule=rule, scratch=Scratch())
        rows = (x.transpose(1, 2, 0) for x in (a, b, c))
        found = multiply(*rows, silicon.unit, NAMED[rule.d_type])
        np.testing.assert_array_equal(found, expected, f"{seed} {values_in(rule)}")


@pytest.mark.parametrize("seed", range(24))
def test_units_of_8_bits_are_the_oracles_with_the_same_figures(seed: int) -> None:
    """Ada's and RTX Blackwell's, and others with any bits kept, roundings and least exponents."""
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    d, a_type, b_type = draw.choice(["f32", "f16"]), *draw.choices(["e4m3", "e5m2"], k=2)
    types = ProductTypes(d, a_type, b_type, d)
    row = next(one for one in model_for("sm_89").only(TruncatedDot) if one.types == ".".join(types))
    values = {
        "block": draw.choice([5, 8, 16, 32]), "fraction_bits": draw.randint(8, 26),
        "sum_bits": draw.randint(8, 22) if d == "f32" and draw.random() < 0.7 else None,
        "subnormal_exponent": draw.choice(["own", "own", None]),
        "rounding": draw.choice(list(ROUNDINGS)),
        "a_subnormals": draw.choice(["kept", "flushed"]),
    }  # fmt: skip
    figures = {name: None if one is None else measured(one) for name, one in values.items()}
    unit = replace(
        chip_of("sm_89").floats[row.types], block=values["block"], fraction=values["fraction_bits"],
        kept=values["sum_bits"], rounding=ROUNDINGS[values["rounding"]],
        flushed={UnitMatrix.A} if values["a_subnormals"] == "flushed" else set(),
    )  # fmt: skip
    if values["subnormal_exponent"] is None:
        unit = replace(unit, bottoms=None)
    for rule, silicon in (
        (row, chip_of("sm_89").floats[row.types]),
        (replace(row, **figures), unit),
    ):
        for _ in range(4):
            a, b = words(rng, a_type, (6, 5, 32)), words(rng, b_type, (6, 32, 5))
            c = words(rng, d, (6, 5, 5))
            expected = dot_product(a, b, c, rule=rule, scratch=Scratch())
            rows = (x.transpose(1, 2, 0) for x in (a, b, c))
            np.testing.assert_array_equal(
                multiply_on(silicon, *rows, types), expected, str(values_in(rule))
            )


@pytest.mark.parametrize("multiplicand", ["f16", "bf16", "tf32"])
@pytest.mark.parametrize("sign", [0, 1])
def test_the_largest_sums_do_not_wrap(multiplicand: str, sign: int) -> None:
    """Every significand is the largest: the sum of the products is just below 2^31 units."""
    fmt, k = FORMATS[multiplicand], 8 if multiplicand == "tf32" else 16
    fraction = fmt.fraction_bits + fmt.ignored_bits
    most = (fmt.bias << fraction) | ((1 << fmt.fraction_bits) - 1) << fmt.ignored_bits
    a = np.full((2, 1, k), most | sign << (fmt.bits - 1), fmt.raw)
    b = np.full((2, k, 1), most, fmt.raw)
    c = np.array([[[0x407F_FFFF]], [[0x3FFF_FFFF]]], np.uint32) | np.uint32(sign << 31)
    for target in ("sm_80", "sm_90"):
        types = f"f32.{multiplicand}.{multiplicand}.f32"
        row = next(one for one in model_for(target).only(TruncatedDot) if one.types == types)
        expected = dot_product(a, b, c, rule=row, scratch=Scratch())
        rows = (x.transpose(1, 2, 0) for x in (a, b, c))
        found = multiply(*rows, chip_of(target).floats[types], NAMED["f32"])
        np.testing.assert_array_equal(found, expected)


def test_a_device_has_the_chip_of_its_target() -> None:
    assert SimulatedDevice("sm_80").chip == chip_of("sm_80")
    assert set(chip_of("sm_80").floats) == set(ROWS)
    with pytest.raises(UsageError, match="known are sm_70"):
        chip_of("sm_61")


@pytest.mark.parametrize("fields", [{"fraction": 31}, {"fraction": 7}, {"block": 33}, {"run": 5}])
def test_silicon_that_cannot_be_summed_is_refused(fields: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"can be|give"):
        replace(chip_of("sm_90").floats["f32.f16.f16.f32"], **fields)
