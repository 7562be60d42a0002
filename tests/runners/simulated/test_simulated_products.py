"""Units of products at the ends of what they hold; `test_chips` compares them with the oracle."""

from dataclasses import replace

import numpy as np
import pytest

from runners.simulated.fused import F32
from runners.simulated.products import (
    multiply,
    narrowed,
)
from runners.simulated.silicon import float_unit


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
