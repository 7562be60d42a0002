"""The f64 chain's two ways agree on 1.3 x 10^8 multiply-adds made to be hard.

Chains split their operands once, and take what may overflow out. Here the same chains are computed
step by step by `fma`, whose results are compared with fractions elsewhere, each sum rounded as
Boldo and Melquiond do it, without special cases. `pytest -m slow` takes half a minute.
"""

from functools import partial

import numpy as np
import pytest

from oracle.arithmetic import doubles
from oracle.arithmetic.conversions import odd_sum, own_scratch, two_sum
from oracle.arithmetic.doubles import chain, decoded, fma
from oracle.models import DoubleChain, model_for

pytestmark = pytest.mark.slow

(RULE,) = model_for("sm_90").only(DoubleChain)
TILES, M, N, K = 1200, 8, 8, 16
SHAPES = ((TILES, M, K), (TILES, K, N), (TILES, M, N))
SIGN = np.uint64(1 << 63)


def _signed(rng, patterns):
    return patterns ^ rng.integers(0, 2, patterns.shape, np.uint64) << np.uint64(63)


def _near(rng, shape, least, most):
    """Doubles with exponents from 2^least to 2^most and few, many or nearly periodic bits."""
    fraction = rng.integers(0, 1 << 52, shape, np.uint64)
    kept = np.array([0, 0xF << 48, 0x3FFFFFF << 26, (1 << 20) - 1, (1 << 52) - 1], np.uint64)
    fraction &= rng.choice(kept, shape)
    fraction ^= rng.choice(np.array([0, (1 << 52) - 1], np.uint64), shape)
    return _signed(
        rng,
        rng.integers(1023 + least, 1024 + most, shape).astype(np.uint64) << np.uint64(52)
        | fraction,
    )


def _ties(rng):
    """Products (1 + i u) (1 - i u) 2^e, which a minute rest parts from half a unit of C."""
    i = rng.integers(1, 1 << 20, (TILES, 1, K)).astype(np.uint64)
    a = np.broadcast_to(np.uint64(1023 << 52) + i, SHAPES[0])
    exponents = rng.integers(1022 - 55, 1022 - 51, SHAPES[1]).astype(np.uint64)
    b = exponents << np.uint64(52) | (np.uint64(1 << 52) - np.uint64(2) * i).transpose(0, 2, 1)
    return _signed(rng, a), _signed(rng, b), _near(rng, SHAPES[2], -1, 1)


def _halves(rng):
    """Products of 54 bits, odd ones, and addends a little below the half unit that they lack."""
    a, b = (
        (2.0**power + 2 * rng.integers(0, 1 << 19, shape) + 1).view(np.uint64)
        for power, shape in zip((26, 27), SHAPES, strict=False)
    )
    below = np.uint64(1023 << 52) - rng.integers(1, 4, SHAPES[2]).astype(np.uint64)
    return _signed(rng, a), b, _signed(rng, below)


def _cancelling(rng):
    a, b = (_near(rng, shape, -20, 20) for shape in SHAPES[:2])
    a[:, :, 3], b[:, 3] = a[:, :, 2] ^ SIGN, b[:, 2]
    product = a[:, :, :1].view(np.float64) * b[:, :1].view(np.float64)
    steps = rng.integers(0, 3, SHAPES[2]).astype(np.uint64)
    return a, b, (product.view(np.uint64) ^ SIGN) + steps


def _zeros(rng):
    a, b, c = _cancelling(rng)
    for operand in (a, b, c):
        chosen = rng.random(operand.shape) < 0.5
        operand[chosen] &= SIGN
    return a, b, c


def _special(rng):
    """Some infinities and NaNs of all kinds among numbers whose products may overflow."""
    made = [_near(rng, shape, -515, 515) for shape in SHAPES]
    for operand, share in zip(made, (0.01, 0.01, 0.1), strict=True):
        chosen = rng.random(operand.shape) < share
        special = rng.choice(np.array([0, 1, 1 << 51, (1 << 51) + 5], np.uint64), operand.shape)
        operand[chosen] = _signed(rng, special + np.uint64(0x7FF << 52))[chosen]
    return tuple(made)


def _mixed(rng):
    """Tiles of each kind, and some of any bits, in one batch."""
    any_bits = tuple(rng.integers(0, 1 << 64, shape, np.uint64) for shape in SHAPES)
    kinds = [*(make(rng) for make in KINDS.values() if make is not _mixed), any_bits]
    which = rng.integers(0, len(kinds), TILES)
    return tuple(np.stack(part)[which, np.arange(TILES)] for part in zip(*kinds, strict=True))


def _ranges(ab, c, rng):
    return *(_near(rng, shape, *ab) for shape in SHAPES[:2]), _near(rng, SHAPES[2], *c)


RANGES = {
    "alike": ((-2, 2), (-2, 2)), "wide": ((-60, 60), (-60, 60)),
    "at the ends": ((-482, -474), (-1023, -900)), "tiny products": ((-488, -480), (-1023, -895)),
    "subnormal sums": ((-540, -505), (-1023, -999)), "least of all": ((-1023, -520), (-1023, -999)),
    "overflow": ((505, 512), (1015, 1023)),
}  # fmt: skip
"""Exponents of A and B, and of C."""
KINDS = {
    **{name: partial(_ranges, *ends) for name, ends in RANGES.items()},
    "special": _special,
    "ties": _ties,
    "halves": _halves,
    "cancelling": _cancelling,
    "zeros": _zeros,
    "mixed": _mixed,
}  # fmt: skip


def _add_rounded_to_odd(c, mode, arrays):
    product, error, *_ = arrays
    upper, lower = two_sum(c, error)
    head, rest = two_sum(product, upper)
    tail = odd_sum(lower, rest)
    arrays[2], c[...], error[...] = head, tail, 0.0
    total, left = two_sum(head, tail)
    if mode == "rn":
        return total
    moved = {"rz": left * np.sign(total) < 0.0, "rm": left < 0.0, "rp": left > 0.0}[mode]
    toward = {"rz": 0.0, "rm": -np.inf, "rp": np.inf}[mode]
    return np.where(moved, np.nextafter(total, toward), total)


@pytest.mark.parametrize("rounding", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_quick_way_is_bit_for_bit_the_slow_one(kind, rounding, monkeypatch):
    rng = np.random.default_rng([list(KINDS).index(kind), ord(rounding[1])])
    for _ in range(2):
        a, b, c = KINDS[kind](rng)
        found = chain(a, b, c, rounding=rounding, rule=RULE, scratch=own_scratch())
        total = c
        monkeypatch.setattr(doubles, "_add", _add_rounded_to_odd)
        for k in range(K):
            with np.errstate(all="ignore"):
                x, y = decoded(a[:, :, k, None]), decoded(b[:, None, k])
            total = fma(x, y, total, rounding=rounding, nan=RULE.nan.value)
        monkeypatch.undo()
        np.testing.assert_array_equal(found.transpose(2, 0, 1), total)
