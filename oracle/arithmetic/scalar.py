"""A dot product as scalar f32 arithmetic: what ptxas writes where a target has no such unit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oracle.arithmetic import conversions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from oracle.models import ScalarDot

    Array = NDArray[Any]


def scalar_dot(a: Array, b: Array, c: Array, *, rule: ScalarDot) -> Array:
    """Return a @ b + c, on raw bit patterns, each operation rounded to nearest even f32.

    Parameters
    ----------
    a, b : uint16 (tiles, m, 4), (tiles, 4, n)
        Patterns of f16.
    c : (tiles, m, n)
        Patterns of f16 or f32.
    rule
        In which order the sums are formed.

    Returns
    -------
    Raw patterns of the format of D, shape (m, n, tiles).

    A product of two f16 has 22 significant bits and is a normal f32, or zero: a fused multiply-add
    returns no other number than a multiplication and an addition.
    """
    left, right, addend = (
        np.ascontiguousarray(x) for x in (a.T, b.transpose(1, 2, 0), c.transpose(1, 2, 0))
    )
    left, right = (conversions.widen(x).view(np.float32) for x in (left, right))
    addend = (conversions.widen(addend) if rule.c_type == "f16" else addend).view(np.float32)
    result = np.empty_like(addend)
    term, pair = np.empty((2, *addend.shape[1:]), np.float32)
    with np.errstate(all="ignore"):
        for row, total in enumerate(result):  # what one row needs lies in the cache
            factors = tuple(zip(left[:, row], right, strict=True))
            if rule.order.value == "serial":
                total[...] = 0.0
                for factor in factors:
                    total += np.multiply(*factor, out=term)
                total += addend[row]
            else:
                total[...] = addend[row]
                for k in (0, 2):
                    np.multiply(*factors[k], out=pair)
                    pair += np.multiply(*factors[k + 1], out=term)
                    total += pair
    bits = result.view(np.uint32)
    bits[np.isnan(result)] = conversions.CANONICAL_NAN["f32"]
    return conversions.narrow(bits) if rule.d_type == "f16" else bits
