"""Dot products against integers, fractions, and what real GPUs gave."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from runners.simulated.fused import F32, NAMED
from runners.simulated.products import (
    ProductTypes,
    multiply,
    multiply_on,
    narrowed,
)
from runners.simulated.silicon import chip_of, float_unit

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
    types = ProductTypes(result, kind, kind, result)
    unit = chip_of("sm_89").floats[".".join(types)]
    found = multiply_on(unit, a.T[None], b.T[:, None], c[None, None], types)
    np.testing.assert_array_equal(found[0, 0], d)


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
