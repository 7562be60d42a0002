"""Dot products of scaled blocks (9.7.14.3): `docs/oracle.md`, "Scaled blocks"."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic import conversions
from oracle.arithmetic.conversions import unpacked
from oracle.isa.forms import FORMATS, Format
from oracle.models import ScaledDot

Array = NDArray[Any]
_NAN = {"ue8m0": 0xFF, "ue4m3": 0x7F}
"""NaN of each format of scales (OCP MX 1.0, 5.4.1; ue4m3 is e4m3 without a sign, PTX ISA 5.2.3)."""
UE4M3_BITS = 0x7F
"""Bits of a byte that are a ue4m3: the one above is padding (PTX ISA 5.2.3)."""


_NONE = np.int32(-(1 << 15))
"""Exponent where there is no product but zeros: below that of all others."""


class Scales(NamedTuple):
    """Scales taken apart: significand times 2^exponent."""

    significands: NDArray[np.float32]
    """In [1, 2), or less where subnormal; NaN."""
    exponents: NDArray[np.int32]


@cache
def _decoded(name: str) -> Scales:
    bits = np.arange(256, dtype=np.int32)
    if name == "ue8m0":
        significands, exponents = np.ones(256, np.float32), bits - np.int32(127)
    else:
        bits &= UE4M3_BITS
        field, fraction = bits >> 3, bits & 7
        significands = ((field > 0) + fraction / 8).astype(np.float32)
        exponents = np.maximum(field, 1) - np.int32(7)
    return Scales(np.where(bits == _NAN[name], np.float32(np.nan), significands), exponents)


def decoded_scales(patterns: NDArray[np.uint8], name: str) -> Scales:
    """Return what patterns of a format of scales, "ue8m0" or "ue4m3", stand for."""
    significands, exponents = _decoded(name)
    return Scales(significands[patterns], exponents[patterns])


def scale_value(pattern: int, name: str) -> float:
    """Return the number that a pattern of a format of scales stands for."""
    found = decoded_scales(np.array([pattern], np.uint8), name)
    return float(np.ldexp(found.significands.astype(np.float64), found.exponents)[0])


def element_exponents(bits: Array, fmt: Format) -> NDArray[np.int32]:
    """Return exponents of elements; of a subnormal one its format's least."""
    field = (bits.astype(np.int32) & fmt.magnitude) >> (fmt.fraction_bits + fmt.ignored_bits)
    exponents: NDArray[np.int32] = np.maximum(field, 1) - np.int32(fmt.bias)
    return exponents


def _numbers(bits: Array, fmt: Format) -> NDArray[np.float64]:
    numbers: NDArray[np.float64] = unpacked(bits, fmt.name).view(np.float16).astype(np.float64)
    return numbers


def exact_products(
    a: Array, b: Array, scales: tuple[Array, Array], scale_type: str, types: tuple[Format, Format]
) -> NDArray[np.float64]:
    """Return the products of a row and a column, patterns (k,), with their scales, uint8 (s,)."""
    block = np.arange(len(a)) * len(scales[0]) // len(a)
    x, y = (_numbers(bits, fmt) for bits, fmt in zip((a, b), types, strict=True))
    of_a, of_b = (decoded_scales(one[block], scale_type) for one in scales)
    # Of 24 bits at most, so that doubles hold them.
    product = x * y * of_a.significands * of_b.significands
    exact: NDArray[np.float64] = np.ldexp(product, of_a.exponents + of_b.exponents)
    return exact


def scaled_product(
    a: Array, b: Array, c: NDArray[np.uint32], scales: tuple[Array, Array], scale_type: str,
    rule: ScaledDot,
) -> NDArray[np.uint32]:  # fmt: skip
    """Return (A x scales) x (B x scales) + C, f32 patterns (tiles, m, n).

    `a`, `b`, `c`: Patterns (tiles, m, k), (tiles, k, n), (tiles, m, n). `scales`: uint8
    (tiles, m, s) and (tiles, s, n), each of k / s neighbours along k.
    """
    # Tiles last: k, rows, columns and tiles of what follows.
    left, right = (FORMATS[name] for name in rule.types.split(".")[1:3])
    a, b = a.T[:, :, None], b.transpose(1, 2, 0)[:, None]
    x, y = _numbers(a, left), _numbers(b, right)
    ex, ey = element_exponents(a, left), element_exponents(b, right)
    of_a = decoded_scales(scales[0].T[:, :, None], scale_type)
    of_b = decoded_scales(scales[1].transpose(1, 2, 0)[:, None], scale_type)
    step, group, zero = len(a) // len(of_a[0]), rule.group.value, np.int32(rule.zero_exponent.value)
    c = np.ascontiguousarray(c.transpose(1, 2, 0))
    field = (c >> np.uint32(23) & np.uint32(0xFF)).astype(np.int32)
    terms: list[tuple[Array, Array]] = []
    with np.errstate(all="ignore"):
        addend = c.view(np.float32).astype(np.float64)
        largest = np.where(addend == 0.0, zero, np.maximum(field, 1) - np.int32(127))
        for start in range(0, len(a), group):
            significand = of_a.significands[start // step] * of_b.significands[start // step]
            exponent = of_a.exponents[start // step] + of_b.exponents[start // step]
            total, top = np.zeros(c.shape), np.full(c.shape, _NONE)
            for k in range(start, min(start + group, len(a))):
                product = x[k] * y[k]
                total += product
                own = ex[k] + ey[k] if rule.aligned.value == "products" else np.int32(0)
                np.maximum(top, own, out=top, where=product != 0.0)
            absent = (top == _NONE) | (significand == 0.0)
            np.maximum(largest, np.where(absent, zero, top + exponent), out=largest)
            terms.append((total * significand, exponent))
        grid = rule.fraction_bits.value - largest
        total, plain = np.trunc(np.ldexp(addend, grid)), addend
        for term, exponent in terms:
            total += np.trunc(np.ldexp(term, grid + exponent))
            plain = plain + np.ldexp(term, exponent)
        finite = np.isfinite(plain)
        total = np.ldexp(np.where(finite, total, 0.0), -grid)
        result = conversions.rounded(total, FORMATS["f32"], rule.rounding.value, "infinity")
        special = plain.astype(np.float32).view(np.uint32)
    result[result == 1 << 31] = 0  # a sum of zero is +0
    result = np.where(finite, result, special)
    result = np.where(np.isnan(plain), np.uint32(rule.nan.value), result)
    return result.transpose(2, 0, 1)
