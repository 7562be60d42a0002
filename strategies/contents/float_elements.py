"""Floats drawn element by element: exponents from windows, signs and fractions at random."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from strategies.contents.float_fields import FloatFields, Ints, Raw
from strategies.contents.image_groups import (
    DEPTH,
    EACH_K,
    EXPONENT,
    OFFSET,
    SPOTS,
    VARIANT,
    ImageGroup,
    per_image,
    spread,
)


def normal(view: Raw, group: ImageGroup, operand: str) -> None:
    """Leave everyday numbers: of both signs, from 1/4 to 4."""
    _everyday(view, group.fields(operand))


def _everyday(view: Raw, fields: FloatFields) -> None:
    spread(view, fields.kept(2), fields.field(-2))


def anything(view: Raw, group: ImageGroup, operand: str) -> None:
    """Leave uniform bits."""


def finite(view: Raw, group: ImageGroup, operand: str) -> None:
    """Leave uniform bits of finite numbers."""
    group.fields(operand).finite(view)


def ends(view: Raw, group: ImageGroup, operand: str) -> None:
    """Fill with the ends of the finite range, and powers of two with their neighbours."""
    fields = group.fields(operand)
    table = fields.finite_ends
    view[...] = table.take((view & fields.dtype.type(len(table) - 1)).astype(np.intp))


def wide(view: Raw, group: ImageGroup, operand: str) -> None:
    """Spread exponents evenly over a window around 1 whose width differs between images.

    That of C is twice as wide where the format has it.
    """
    fields = group.fields(operand)
    # 2^4 exponents of f16's 30, 2^6 of the 254 of f32 and the like, 2^3 of the 15 of e4m3.
    most = {4: 3, 5: 4}.get(fields.format.exponent_bits, 6)
    _around_one(view, fields, most, 1 + group.below(DEPTH, most) + (operand == "c"))


def _around_one(view: Raw, fields: FloatFields, most: int, bits: Ints) -> None:
    """Spread over 2^bits exponents around 1, for each image its own; at most 2^most."""
    bits = np.minimum(bits, most)
    kept = np.array([fields.kept(width) for width in range(most + 1)], fields.dtype)
    spread(view, per_image(kept[bits]), per_image(fields.field(-(1 << bits >> 1))))


def aimed(view: Raw, group: ImageGroup, operand: str) -> None:
    """Choose exponents of products, down from the largest, and divide them between A and B."""
    fields, largest = group.fields(operand), group.below(EXPONENT, 12) - 2
    if operand == "c":  # from the largest exponent down
        bits = 4 if fields.format.exponent_bits == 5 else 5
        spread(view, fields.kept(bits), per_image(fields.field(largest + 1 - (1 << bits))))
        return
    each = group.spots(EACH_K, group.depth)
    product = largest[:, None] - each % 32
    share = product // 2 + (each >> 8) % 8 - 4
    if operand == "a":
        spread(view, fields.signed_fraction, fields.field(share)[:, None, :])
    else:
        spread(view, fields.signed_fraction, fields.field(product - share)[:, :, None])


def cancelling(view: Raw, group: ImageGroup, operand: str) -> None:
    """Make C the negative of the rounded product.

    Exponents of A and B lie in windows so wide that most products are not representable in C.
    Where A and B are none of this fill's, a sum can be infinite: then C is zero.
    """
    fields = group.fields(operand)
    if operand != "c":
        most = _window_bits(fields)
        _around_one(view, fields, most, most - group.below(DEPTH, 2))
    elif group.multiplicands is None:
        _everyday(view, fields)
    else:
        with np.errstate(all="ignore"):
            total = _product(group.fields("a"), *group.multiplicands())
            total[~np.isfinite(total)] = 0
            view[...] = fields.nearest(-total)
        fields.finite(view)


def _window_bits(fields: FloatFields) -> int:
    """Return how many exponents A and B of a cancelled product have, as a power of two."""
    return {2: 4, 3: 3, 7: 4, 10: 3}.get(fields.format.fraction_bits, 5)


def _product(fields: FloatFields, a: Raw, b: Raw) -> NDArray[np.float64]:
    """Return the sums of products in float64, the same bits everywhere.

    With exponents of -4 to 3 and 10 bits of fraction, all products are multiples of 2^-28, and 16
    of them stay below 2^12; with -8 to 7 and 7 bits, multiples of 2^-30 below 2^20: every partial
    sum, in whatever order, has at most 50 bits and is exact. Otherwise the order is fixed, and
    each step is one operation of IEEE 754.
    """
    left, right = fields.values(np.ascontiguousarray(a)), fields.values(np.ascontiguousarray(b))
    if fields.format.fraction_bits <= 10 and all(_is_narrow(fields, raw) for raw in (a, b)):
        exact: NDArray[np.float64] = left @ right
        return exact
    total = np.zeros((len(a), a.shape[1], b.shape[2]))
    for k in range(a.shape[2]):
        total += left[:, :, k, None] * right[:, k, None, :]
    return total


def _is_narrow(fields: FloatFields, raw: Raw) -> bool:
    """Whether all exponents are in the widest window of `cancelling`."""
    half = 1 << _window_bits(fields) >> 1
    field = raw & fields.infinity
    return bool(field.min() >= fields.field(-half)) and bool(field.max() <= fields.field(half - 1))


_Window = tuple[int, int]
"""Bits to keep of a pattern, and what to add to them."""


def _around(fields: FloatFields, exponent: int) -> _Window:
    return int(fields.kept(2)), int(fields.field(exponent))


def _spread_by(view: Raw, fields: FloatFields, windows: list[_Window], which: Ints) -> None:
    """Spread by one window for each element, row, column or image; `which` is broadcast."""
    keep, add = np.array(windows, np.uint64).T.astype(fields.dtype)
    spread(view, keep[which], add[which])


def subnormal(view: Raw, group: ImageGroup, operand: str) -> None:
    """Fill with subnormals of A, B, C and D, side by side in one image.

    Of four rows of A, the first is zero, with subnormals in C; the second is subnormal, with zeros
    in C. Every other column of B is subnormal. Everything else is so small that it shows: in C as
    large as products of A and a subnormal of B.
    """
    fields = group.fields(operand)
    zero, least, small = (int(fields.sign), 0), (int(fields.signed_fraction), 0), _around(fields, 2)
    beside = _around(fields, group.fields("a").least + 2)
    rows, columns = view.shape[1:]
    windows = {"a": [zero, least, small], "b": [least, small], "c": [least, zero, beside]}[operand]
    by_row = np.minimum(np.arange(rows) % 4, 2)[:, None]
    which = np.arange(columns) % 2 if operand == "b" else by_row
    _spread_by(view, fields, windows, np.broadcast_to(which, view.shape[1:]))


def zeros(view: Raw, group: ImageGroup, operand: str) -> None:
    """Fill with zeros of both signs in all matrices, -0 in A and C, or zeros in one of A and B."""
    fields = group.fields(operand)
    sign = int(fields.sign)
    zero, minus, (keep, add) = (sign, 0), (0, sign), _around(fields, -2)
    windows = {
        "a": [zero, minus, zero, (keep, add)],
        "b": [zero, (keep & ~sign, add), (keep, add), zero],
        "c": [zero, minus, (keep, add), zero],
    }[operand]
    _spread_by(view, fields, windows, per_image(group.below(VARIANT, len(windows))))


def payloads(view: Raw, group: ImageGroup, operand: str) -> None:
    """Place NaN with random payloads, quiet and signalling, among everyday numbers.

    They stand at one place of a quarter of the rows of A and the columns of B, and in every other
    element of C.
    """
    fields = group.fields(operand)
    if operand == "c":
        # The exponent field is random and replaced: its lowest bit chooses.
        nan = (view >> fields.dtype.type(fields.shift) & fields.dtype.type(1)) * fields.infinity
        _everyday(view, fields)
        np.bitwise_or(view, nan, out=view)
        return
    view = view.swapaxes(1, 2) if operand == "b" else view
    noise = view[:, :, 0].astype(np.int64)
    _everyday(view, fields)
    at = group.images[:, None], np.arange(view.shape[1]), (noise >> 2) % view.shape[2]
    view[at] |= np.where(noise & 3, 0, int(fields.infinity)).astype(fields.dtype)


def special(view: Raw, group: ImageGroup, operand: str) -> None:
    """Place a few special values among everyday numbers, and one infinity that meets a zero.

    A and B have one special value each, C six; the infinity is in A.
    """
    fields = group.fields(operand)
    _everyday(view, fields)
    column, count = {"a": (SPOTS, 1), "b": (SPOTS + 2, 1), "c": (SPOTS + 6, 6)}[operand]
    spots = group.spots(column, 2 * count)
    where, which = spots[:, :count], spots[:, count:]
    row, rest = where % view.shape[1], where // view.shape[1]
    table = fields.specials
    view[group.images[:, None], row, rest % view.shape[2]] = table[which % len(table)]
    if operand == "a":
        at = group.images, group.below(OFFSET, view.shape[1]), group.pair()[0]
        view[at] = view[at] & fields.sign | fields.infinity
    elif operand == "b":
        view[group.images, group.pair()[0], group.below(SPOTS + 4, view.shape[2])] &= fields.sign
