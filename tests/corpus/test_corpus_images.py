"""An array comes back as it was, from the same bytes each time."""

from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from corpus_cases import CASE, new_corpus
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from corpus.programs import pack, unpack
from oracle.errors import UsageError

SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
ARRAYS = st.sampled_from(["u1", "i1", "<u2", "<u4", ">u4", "<u8", "<i4", "<f8"]).flatmap(
    lambda dtype: hnp.arrays(dtype, SHAPES)
)


@settings(deadline=None, max_examples=30)
@given(array=ARRAYS)
def test_an_array_is_read_back_bit_for_bit(array: NDArray[Any]) -> None:
    with TemporaryDirectory() as folder:
        corpus = new_corpus(folder)
        entry = corpus.get(corpus.add(CASE, {"images.npy": pack(array)}).id)
        found = unpack(entry, "images.npy")
    little = array.dtype.newbyteorder("<")
    assert (found.shape, found.dtype) == (array.shape, little)
    assert found.tobytes() == array.astype(little).tobytes()


def test_python_objects_are_refused() -> None:
    with pytest.raises(UsageError, match="dtype object cannot be stored"):
        pack(np.array([None]))
