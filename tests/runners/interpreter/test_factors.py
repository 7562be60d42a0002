"""The tables of significands and exponents that the encoder writes, against ml_dtypes and NumPy."""

import ml_dtypes
import numpy as np
import pytest

from runners.reference.encoding import factors_of

BYTES = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
ZERO, INFINITE, NAN = -2000, -4000, -8000
"""Exponents of what has none, as in the interpreter."""


def of_bytes(name, is_flushed):
    significand, exponent = factors_of(name, is_flushed).reshape(256, 2).T
    return np.arange(256, dtype=np.uint8).view(BYTES[name]), significand, exponent


def of_halves(is_flushed):
    patterns = np.arange(1 << 16)
    times, plus, alone, beside = factors_of("f16", is_flushed).reshape(64, 4)[patterns >> 10].T
    fraction = patterns & 1023
    values = patterns.astype(np.uint16).view(np.float16)
    return values, fraction * times + plus, np.where(fraction, beside, alone)


@pytest.mark.parametrize("is_flushed", [False, True])
@pytest.mark.parametrize("name", ["f16", *BYTES])
def test_every_pattern_has_its_value(name, is_flushed):
    of = of_halves(is_flushed) if name == "f16" else of_bytes(name, is_flushed)
    values, significand, exponent = of
    exact = values.astype(np.float64)
    number = np.isfinite(exact) & (exact != 0)
    # Nothing of e4m3 is subnormal in f16, which alone is flushed.
    small = number & (np.abs(exact) < 2.0**-14) & is_flushed & (name != "e4m3")
    kept = number & ~small
    assert (np.ldexp(significand[kept].astype(float), exponent[kept] - 10) == exact[kept]).all()
    assert (exponent[np.isnan(exact)] == NAN).all()
    assert (exponent[np.isinf(exact)] == INFINITE).all()
    assert (exponent[(exact == 0) | small] == ZERO).all()
    assert (significand[(exact == 0) | small] == 0).all()
    assert ((significand < 0) == np.signbit(exact))[np.isinf(exact)].all()
