"""Floats made for what becomes of their sums: products that cancel, ties, ends of the range."""

from __future__ import annotations

import numpy as np

from strategies.contents.float_fields import FloatFields, Ints, Raw
from strategies.contents.image_groups import (
    DEPTH,
    EXPONENT,
    OFFSET,
    PARTNER,
    POSITION,
    VARIANT,
    ImageGroup,
    per_image,
    spread,
)


def _grid(fields: FloatFields) -> int:
    """Exponent of the least subnormal."""
    return fields.least - fields.format.fraction_bits


def _reach(group: ImageGroup) -> int:
    """Return the largest exponent of D, or of products where they do not come so far."""
    return min(group.fields("d").greatest, 2 * group.fields("a").greatest)


def _scaled(fields: FloatFields, exponents: Ints) -> Raw:
    """Return what multiplies a normal pattern by a power of two when it is added to it."""
    return (exponents << fields.shift).astype(fields.dtype)


def mirrored(view: Raw, group: ImageGroup, operand: str, *, unnormalised: bool = False) -> None:
    """Fill with a pair of large products that cancel, over small ones and a small C.

    How far the small ones lie below: where the result keeps 24 bits, from right below the large
    pair on; where it keeps 11, far enough down for the last bits that the sum keeps (23 to 25
    below the largest on the targets that are known) to be among them. At the two places of the
    pair A has opposite values and B equal ones; C is as small as the small products, or zero in a
    quarter of the images.

    Parameters
    ----------
    unnormalised
        Whether the large significands are 1.5 or more, and their products so 2.25 or more.
    """
    fields = group.fields(operand)
    bits = group.fields("d").format.fraction_bits
    largest = group.below(EXPONENT, 8) + 4
    if bits < 23:
        gap = 24 - bits + group.below(DEPTH, 10)
    else:
        gap = 2 + group.below(DEPTH, 16 if bits == 23 else 56)
    small = largest - gap - 6
    """The least exponent of the small products."""
    if operand == "c":
        spread(view, fields.kept(2), per_image(fields.field(small)))
        view[group.below(VARIANT, 4) == 0] = 0
        return
    columns = view if operand == "a" else view.swapaxes(1, 2)
    # Exponents that are odd are one larger in B.
    rest = operand == "b"
    spread(view, fields.kept(2), per_image(fields.field((small + rest) // 2)))
    first, second = group.pair()
    large = columns[group.images, :, first] & fields.signed_fraction
    large += fields.field((largest + rest) // 2)[:, None]
    if unnormalised:
        large |= fields.first_fraction_bit
    columns[group.images, :, first] = large
    columns[group.images, :, second] = large ^ fields.sign if operand == "a" else large


def pairs(view: Raw, group: ImageGroup, operand: str, *, ladder: bool = False) -> None:
    """Fill each row with one pair of products that cancel, at places of its own; else zeros.

    Each column of B holds one value. C is zero, or of any size below the pair.

    Parameters
    ----------
    ladder
        Whether the pair grows from row to row, and C is an everyday number; else A has something
        small at a third place of each row.
    """
    fields = group.fields(operand)
    if operand == "b":
        row = view[:, :1].copy()
        spread(row, fields.signed_fraction, fields.field(8 if ladder else 1))
        view[...] = row
    elif operand == "c" and ladder:
        spread(view, fields.kept(2), fields.field(-8))
    elif operand == "c":
        lowest = group.below(DEPTH, 24) - 20
        spread(view, fields.kept(2), per_image(fields.field(lowest)))
        view[group.below(VARIANT, 2) == 0] = 0
    else:
        _pairs_of_a(view, group, fields, ladder=ladder)


def _pairs_of_a(view: Raw, group: ImageGroup, fields: FloatFields, *, ladder: bool) -> None:
    """Fill A with x, -x, and one small power of two in each row, at any places."""
    noise = [view[:, :, k].astype(np.int64) for k in range(4)]
    # The exponent field and the fraction of a random pattern are both random.
    first = noise[0] % group.depth
    partner = 1 + noise[1] % (group.depth - 1)
    rows = np.arange(view.shape[1])
    if ladder:
        exponents = (rows + group.below(OFFSET, 34)[:, None]) % 34 - 16
    else:
        exponents = group.below(EXPONENT, 8)[:, None] + 0 * rows
    large = (noise[2].astype(fields.dtype) & fields.signed_fraction) + fields.field(exponents)
    at = group.images[:, None], rows
    view[...] = 0
    view[*at, first] = large
    view[*at, first ^ partner] = large ^ fields.sign
    if not ladder:
        span = 64 if fields.format.name == "f64" else 32
        small = fields.powers(exponents - 1 - (noise[3] >> 1) % span)
        sign = np.where(noise[3] & 1, fields.sign, 0).astype(fields.dtype)
        view[*at, first ^ np.where(partner == 1, 2, partner ^ 1)] = small | sign


_CODE_BITS = 7
"""Bits of the fraction in which elements are numbered: those of bf16."""


def coded(view: Raw, group: ImageGroup, operand: str, *, numbered: str) -> None:
    """Make every element of D the sum of one element each of C and of A or B.

    Parameters
    ----------
    numbered
        "a" or "b": the one whose elements tell their place, as those of C do; the other has a
        single 1 in each row or column.
    """
    fields = group.fields(operand)
    if operand in (numbered, "c"):
        _number(view, group, fields, -3 if operand == "c" else 0)
        return
    view = view.swapaxes(1, 2) if operand == "b" else view
    lines = np.arange(view.shape[1])
    view[...] = 0
    chosen = (lines ^ group.below(OFFSET, group.depth)[:, None]) % group.depth
    view[group.images[:, None], lines, chosen] = fields.one


def _number(view: Raw, group: ImageGroup, fields: FloatFields, exponent: int) -> None:
    """Give each element a number, in steps of 2^-7 of the powers of two from an exponent on.

    Numbers start at another element in each image; bits below a step stay random. Formats of 8
    bits number over again after eight exponents.
    """
    count = view.shape[1] * view.shape[2]
    if fields.shift < _CODE_BITS:
        most = 8 << fields.shift
        codes = np.arange(count).reshape(view.shape[1:]) + per_image(group.below(DEPTH, most))
        view[...] = (codes % most + int(fields.field(exponent))).astype(fields.dtype)
        return
    # A power of two for every matrix of the pages, so that a mask brings numbers round.
    start = group.below(DEPTH, count).astype(fields.dtype)
    codes = np.arange(count, dtype=fields.dtype).reshape(view.shape[1:]) + per_image(start)
    step = fields.shift - _CODE_BITS
    codes &= fields.dtype.type(count - 1)
    codes <<= fields.dtype.type(step)
    codes += fields.field(exponent)
    spread(view, fields.dtype.type((1 << step) - 1), codes)


def grid_ties(view: Raw, group: ImageGroup, operand: str, *, at_the_top: bool = False) -> None:
    """Give C all bits of D's significand, a product of half of its last place, and a nudge.

    The nudge is a power of two below the half by up to what a sum keeps, or absent, of either
    sign; what a sum cuts off decides which neighbour is nearer. B holds powers of two.

    Parameters
    ----------
    at_the_top
        Whether C is D's largest finite number, of either sign; else an everyday number.
    """
    fields, result = group.fields(operand), group.fields("d")
    bits = result.format.fraction_bits
    top = min(group.fields("c").greatest, result.greatest)
    exponent = np.full(len(group.images), top) if at_the_top else group.below(EXPONENT, 8) - 4
    half = exponent - bits - 1
    """Exponent of half of the last place of D."""
    first, second = group.pair()
    if operand == "c":
        coarse = max(0, fields.format.fraction_bits - bits)
        fine = int(fields.fraction) >> coarse << coarse
        if at_the_top:
            spread(view, fields.sign, fields.dtype.type(fine | int(fields.field(top))))
        else:
            keep = fields.dtype.type(int(fields.sign) | fine)
            spread(view, keep, per_image(fields.field(exponent)))
    elif operand == "b":
        share = fields.powers(half - half // 2)[:, None]
        view[...] = 0
        view[group.images, first] = view[group.images, second] = share
    else:
        noise, more = view[:, :, 0].copy(), view[:, :, 1].copy()
        view[...] = 0
        view[group.images, :, first] = fields.powers(half // 2)[:, None] | noise & fields.sign
        reach = {10: 16, 23: 4}.get(bits, 64)  # how far below the half a nudge can lie
        depth = (more >> fields.dtype.type(1)).astype(np.int64) % reach
        small = fields.powers((half // 2)[:, None] - 1 - depth) | more & fields.sign
        view[group.images, :, second] = np.where(more & fields.dtype.type(1), small, 0)


def subnormal_ties(view: Raw, group: ImageGroup, operand: str) -> None:
    """Sum odd multiples of half the least subnormal result, and minute products; C is zero.

    Of the terms of such a sum the zeros have the largest exponent where it is fixed (e_zero):
    -21 to -19 for sums in f16. It alone decides whether a minute product of 2^-41 to 2^-48 is
    cut off, and so which way the tie goes. Each row of A has an odd number below 16, and a minute
    one, of either sign; B has powers of two, the minute ones larger by up to 2^3.
    """
    fields, grid = group.fields(operand), _grid(group.fields("d"))
    exponent = (grid - 1) // 2 - 1 + group.below(EXPONENT, 4)  # A's of the tie
    share = max(_grid(group.fields("a")), (grid - 24) // 2)  # B's of the minute products
    first, second = group.pair()
    if operand == "a":
        noise, more = view[:, :, 0].copy(), view[:, :, 1].copy()
        view[...] = 0
        odd = fields.whole(2 * ((noise >> 1) & fields.dtype.type(7)) + fields.dtype.type(1))
        scale = _scaled(fields, exponent)[:, None]
        view[group.images, :, first] = (odd + scale) | noise & fields.sign
        deep = grid - 17 - share - (more.astype(np.int64) >> 1) % 8
        view[group.images, :, second] = fields.powers(deep) | more & fields.sign
    elif operand == "b":
        noise = view[:, 0].copy()
        view[...] = 0
        view[group.images, first] = fields.powers(grid - 1 - exponent)[:, None]
        minute = fields.powers(share + np.arange(view.shape[2]) % 4)
        view[group.images, second] = minute | noise & fields.sign
    else:
        view[...] = 0


def small_sums(view: Raw, group: ImageGroup, operand: str, *, positive: bool) -> None:
    """Make products around the least subnormal of the sum, or of A and B; C zero of either sign.

    Parameters
    ----------
    positive
        Whether all products are: then what is cut off them adds up, and shows in more sums.
    """
    fields = group.fields(operand)
    if operand == "c":
        view &= fields.sign
        return
    wanted = _grid(group.fields("c")) - 2
    if 2 * fields.least > wanted + 2:
        view &= fields.signed_fraction
    else:
        spread(view, fields.kept(1), fields.field((wanted + (operand == "b")) // 2))
    if positive:
        view &= ~fields.sign


_FACTORS = ((4, 15), (5, 31), (6, 63), (7, 127), (8, 255), (9, 73))
"""t, and the factor that A holds of 2^t - 1 = 15, 31, 63, 127, 255, or 73 x 7."""


def carries(view: Raw, group: ImageGroup, operand: str) -> None:
    """Sum (2^t - 1) 2^-t of the least subnormal, and twice 2^-t / 2 of it: one if nothing is cut.

    Only zeros have larger exponents, so that the fixed exponent of zero terms alone decides
    whether the two last bits are cut off: with e_zero of -131, -132, -133 and 23, 24, 25 bits
    kept, t of 4 to 9 tells it from one more and one less. Only for formats that reach so far down.
    Each row of A has three products, all of one sign, with a t of its own; B has one power of two,
    and its sevenfold in every fourth column for t = 9; C is zero.
    """
    fields, grid = group.fields(operand), _grid(group.fields("c"))
    # Three places of one block of four: tf32 adds no more at once.
    first, step = group.below(POSITION, group.depth), group.below(PARTNER, 3)
    second, third = first ^ (1 + step), first ^ (1 + (step + 1) % 3)
    noise = view[:, :, 0].copy()
    view[...] = 0
    if operand == "a":
        choice = (noise >> fields.dtype.type(1)).astype(np.int64) % len(_FACTORS)
        sign = noise & fields.sign
        width, factor = np.array(_FACTORS).T[:, choice]
        exponents = grid // 2 - width
        small = _scaled(fields, exponents - 1) + fields.one
        view[group.images, :, first] = fields.whole(factor) + _scaled(fields, exponents) | sign
        view[group.images, :, second] = view[group.images, :, third] = small | sign
    elif operand == "b":
        # One element and not a scalar, which would warn where it wraps.
        rest = _scaled(fields, np.array([grid - grid // 2]))
        columns = np.arange(view.shape[2])
        view[group.images, first] = fields.whole(np.where(columns % 4 == 3, 7, 1)) + rest
        view[group.images, second] = view[group.images, third] = fields.one + rest


def overflowing(view: Raw, group: ImageGroup, operand: str) -> None:
    """Make products and C so large that sums pass the end of D's range, or hardly."""
    fields, reach = group.fields(operand), _reach(group)
    if operand == "c":
        exponent = min(reach, fields.greatest) - 1
    else:
        exponent = (reach - 3 + (operand == "b")) // 2
    spread(view, fields.kept(1), fields.field(exponent))


def wide_pairs(view: Raw, group: ImageGroup, operand: str) -> None:
    """Let two products beyond the largest finite D cancel, and C lie next to the end of the range.

    A has x and -x in each row, B one power of two for all, and C either sign.
    """
    fields, reach = group.fields(operand), _reach(group)
    if operand == "c":
        spread(view, fields.kept(1), fields.field(min(reach, fields.greatest) - 1))
    elif operand == "b":
        share = reach + 1 - min(reach, fields.greatest)
        view[...] = per_image(fields.powers(share + group.below(OFFSET, 2)))
    else:
        large = (view[:, :, 0] & fields.signed_fraction) + fields.field(reach)
        first, second = group.pair()
        view[...] = 0
        view[group.images, :, first] = large
        view[group.images, :, second] = large ^ fields.sign
