"""Contents of buffers of numbers: at the edges of their type, any bits, small numbers, and mixed.

Of `kind` "b" both integers and floating-point numbers are drawn. The random words are those of
Philox (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"), whose raw output NumPy
keeps from version to version.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.conversions import FLOATS
from oracle.isa.forms import FORMATS

Words = NDArray[np.uint64]
_SMALL = 16  # Numbers from 0 up to this are small: what counts, shifts and indices usually are
_FLOATS = {16: ("f16", "bf16"), 32: ("f32",), 64: ("f64",)}
"""Floating-point formats by their bits; `tf32` is f32 in memory."""


def filled(kind: str, bits: int, size: int, *, seed: int, image: int, buffer: int) -> bytes:
    """Return the contents of a buffer of so many bytes; they depend on the arguments alone.

    `kind` is "u", "s", "b" or "f", or "bf" for bf16; an element has 8, 16, 32 or 64 bits. Images
    have by turns edges, any bits, small numbers, and each of these here and there.
    """
    count = -(-size * 8 // bits)
    drawn = _drawn(2 * count, seed, image, buffer)
    values, choices = drawn[:count], drawn[count:] >> np.uint64(32)
    edges = edges_of(kind, bits)
    offers = (
        lambda: edges[choices % np.uint64(edges.size)],
        lambda: values,
        lambda: _small(kind, bits, values),
    )
    turn = image % (len(offers) + 1)
    if turn == len(offers):
        which = (choices >> np.uint64(16)).astype(np.intp) % len(offers)
        found = np.choose(which, [offer() for offer in offers])
    else:
        found = offers[turn]()
    return found.astype(f"<u{bits // 8}").tobytes()[:size]


def below(limit: int, bits: int, size: int, *, seed: int, image: int, buffer: int) -> bytes:
    """Return integers from 0 up to a limit; otherwise as `filled`."""
    drawn = _drawn(-(-size * 8 // bits), seed, image, buffer) % np.uint64(limit)
    return drawn.astype(f"<u{bits // 8}").tobytes()[:size]


def _drawn(count: int, seed: int, image: int, buffer: int) -> Words:
    key = np.array([seed, image << 16 | buffer], np.uint64)
    return np.random.Philox(key=key).random_raw(count).astype(np.uint64)


def _small(kind: str, bits: int, values: Words) -> Words:
    small = values % np.uint64(_SMALL)
    if kind not in ("f", "bf"):
        return small
    numbers = small.astype(np.float64) / 4
    dtype = FLOATS["bf16" if kind == "bf" else f"f{bits}"]
    return numbers.astype(dtype).view(f"u{bits // 8}").astype(np.uint64)


@cache
def edges_of(kind: str, bits: int) -> Words:
    """Return the words at which something changes for a type; `kind` and `bits` as in `filled`."""
    found: list[int] = []
    if kind not in ("f", "bf"):
        for power in range(bits):
            found += [1 << power, (1 << power) - 1, -(1 << power)]
        found += [-1, 3, 31, 33, 63, 65, 0x5555_5555_5555_5555, 0xAAAA_AAAA_AAAA_AAAA]
    for name in _FLOATS.get(bits, ()):
        if kind == "b" or name == ("bf16" if kind == "bf" else f"f{bits}"):
            found += _float_edges(name)
    mask = (1 << bits) - 1
    return np.array(sorted({one & mask for one in found}), np.uint64)


def _float_edges(name: str) -> list[int]:
    form = FORMATS[name]
    fraction, bias = form.fraction_bits, form.bias
    one = bias << fraction
    top = ((1 << form.exponent_bits) - 1) << fraction
    magnitudes = [
        0, 1, 2, (1 << fraction) - 1, 1 << fraction, (1 << fraction) + 1, one - 1, one, one + 1,
        one + (1 << fraction - 1), one + (1 << fraction), top - 1, top, top + 1,
        top + (1 << fraction - 1),
    ]  # fmt: skip
    # From here on an integer has no fraction, and from the next one on not every one is there.
    magnitudes += [bias + power << fraction for power in (fraction, fraction + 1, 31, 32)
                   if bias + power < (1 << form.exponent_bits) - 1]  # fmt: skip
    sign = 1 << form.bits - 1
    return [*magnitudes, *(sign | magnitude for magnitude in magnitudes)]
