"""Copies of batches of matrices, whatever the order of the axes in memory."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from oracle.arithmetic.conversions import in_order

ORDERS = st.sampled_from(list(permutations(range(3))))
SHAPES = st.tuples(st.integers(0, 70), st.integers(1, 9), st.integers(1, 9))
DTYPES = st.sampled_from([np.uint8, np.uint16, np.uint32, np.uint64])


def _batch(shape: tuple[int, int, int], order: tuple[int, ...], dtype: type) -> np.ndarray:
    """Return distinct elements as far as the dtype goes, with its axes in memory as ordered."""
    lying = np.arange(np.prod(shape)).astype(dtype)
    return lying.reshape([shape[axis] for axis in order]).transpose(np.argsort(order))


@given(SHAPES, ORDERS, ORDERS, DTYPES, st.booleans())
def test_elements_stay_in_their_places(
    shape: tuple[int, int, int],
    before: tuple[int, int, int],
    after: tuple[int, int, int],
    dtype: type,
    reverse: bool,
) -> None:
    matrices = _batch(shape, before, dtype)
    if reverse:
        matrices = matrices[::-1]
    copy = in_order(matrices, after)
    assert copy.shape == shape
    assert copy.dtype == matrices.dtype
    assert np.array_equal(copy, matrices)
    assert copy.transpose(after).flags.c_contiguous
    assert not np.shares_memory(copy, matrices)
