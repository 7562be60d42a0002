import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from oracle import mma, permitted
from oracle.isa import lookup as isa

INTEGER_FORMS = [
    form for form in isa.FORMS if form.mnemonic == "wmma.mma" and not form.a_type.is_float
]
RANGES = {"s8": (-128, 127), "u8": (0, 255), "s4": (-8, 7), "u4": (0, 15), "b1": (0, 1)}


def _operands(form, seed, extreme):
    rng = np.random.default_rng(seed)
    low, high = RANGES[form.a_type.name]
    shape = form.shape
    a, b = (
        rng.integers(low, high, size, endpoint=True).astype(form.a_type.raw)
        for size in ((shape.m, shape.k), (shape.k, shape.n))
    )
    if extreme:
        a[0], b[:, 0] = high, high
        a[1], b[:, 1] = low, low
    c = rng.integers(-(2**31), 2**31, (shape.m, shape.n)).astype(np.int32)
    c[0, :2] = 2**31 - 1, -(2**31)
    c[1, :2] = -(2**31), 2**31 - 1
    return a, b, c


@given(st.sampled_from(INTEGER_FORMS), st.integers(0, 2**32), st.booleans())
def test_the_permitted_result_is_the_result(form, seed, extreme):
    a, b, c = _operands(form, seed, extreme)
    low, high, nan_ok = permitted(form.opcode, a, b, c)
    result = mma(form.opcode, a, b, c)
    assert (low.dtype, result.dtype) == (np.int64, np.int32)
    assert np.array_equal(low, result)
    assert np.array_equal(low, high)
    assert not nan_ok.any()
