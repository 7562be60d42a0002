"""Floats made for what becomes of their sums: products that cancel, ties, ends of the range."""

from __future__ import annotations

from strategies.contents.expressions import (
    LINE,
    NOISE,
    POSITION,
    Fill,
    Node,
    Placed,
    Value,
    at,
    below,
    constant,
    equal,
    less,
    narrow,
    number,
    pattern,
    select,
    wide,
)
from strategies.contents.float_elements import field, power, spread
from strategies.contents.operands import DEPTH, EXPONENT, OFFSET, PARTNER, VARIANT, Operand
from strategies.contents.operands import POSITION as PLACE

ZERO = constant(0)


def _reach(x: Operand) -> int:
    """Return the largest exponent of D, or of products where they do not come so far."""
    fields = x.types.fields
    return min(fields("d").greatest, fields("a").greatest + fields("b").greatest)


def _small_or_zero(x: Operand, exponent: Node, zero: Node) -> Fill:
    """Spread over four exponents from one on, or leave zeros where a number is 0."""
    fields = x.fields
    keep = pattern((0, fields.kept(2)), zero)
    return Fill((NOISE & keep) + select(zero, field(fields, exponent), 0))


def mirrored(x: Operand, *, unnormalised: bool = False) -> Fill:
    """Fill with a pair of large products that cancel, over small ones and a small C.

    How far the small ones lie below: where the result keeps 24 bits, from right below the large
    pair on; where it keeps 11, far enough down for the last bits that the sum keeps (23 to 25
    below the largest on the targets that are known) to be among them. At the two places of the
    pair A has opposite values and B equal ones; C is as small as the small products, or zero in an
    eighth of the images.

    Parameters
    ----------
    unnormalised
        Whether the large significands are 1.5 or more, and their products so 2.25 or more.
    """
    fields, bits = x.fields, x.types.d.fraction_bits
    largest = below(EXPONENT, 8) + 4
    if bits < 23:
        gap = below(DEPTH, 10) + (24 - bits)
    else:
        gap = below(DEPTH, 16 if bits == 23 else 56) + 2
    # The least exponent of the small products.
    small = largest - gap - 6
    if x.name == "c":
        return _small_or_zero(x, small, below(VARIANT, 8))
    # Exponents that are odd are one larger in B.
    rest = int(x.name == "b")
    first, second = x.pair()
    large = spread(fields, 0, largest + rest >> 1, at(first))
    if unnormalised:
        large = large | fields.first_fraction_bit
    opposite = large ^ fields.sign if x.name == "a" else large
    placed = (Placed(first, large), Placed(second, opposite))
    return Fill(spread(fields, 2, small + rest >> 1), placed)


def pairs(x: Operand, *, ladder: bool = False) -> Fill:
    """Fill each row with one pair of products that cancel, at places of its own; else zeros.

    Each column of B holds one value. C is zero, or of any size below the pair.

    Parameters
    ----------
    ladder
        Whether the pair grows from row to row, and C is an everyday number; else A has something
        small at a third place of each row.
    """
    fields = x.fields
    if x.name == "b":
        return Fill(spread(fields, 0, 8 if ladder else 1, at(0)))
    if x.name == "c" and ladder:
        return Fill(spread(fields, 2, -8))
    if x.name == "c":
        return _small_or_zero(x, below(DEPTH, 24) - 20, below(VARIANT, 2))
    return _pairs_of_a(x, ladder=ladder)


def _pairs_of_a(x: Operand, *, ladder: bool) -> Fill:
    """Fill A with x, -x, and one small power of two in each row, at any places."""
    fields = x.fields
    first = wide(at(0) & (x.depth - 1))
    partner = (wide(at(1) & 0xFF) * (x.depth - 1) >> 8) + 1
    if ladder:
        rung = LINE + below(OFFSET, 34)
        exponents = rung - (less(rung, 34) ^ 1) * 34 - 16
    else:
        exponents = below(EXPONENT, 8)
    large = spread(fields, 0, exponents, at(2))
    placed = [Placed(first, large), Placed(first ^ partner, large ^ fields.sign)]
    if not ladder:
        span = 64 if fields.format.name == "f64" else 32
        depth = wide(at(3) >> 1 & (span - 1))
        small = _with_sign(x, power(fields, exponents - 1 - depth), (at(3) & 1) * fields.sign)
        third = first ^ select(equal(partner, 1), 2, partner ^ 1)
        placed.append(Placed(third, small))
    return Fill(ZERO, tuple(placed))


def _with_sign(x: Operand, value: Value, noise: Node) -> Node:
    """Return a pattern with the sign of another one."""
    return (noise & x.fields.sign) | value


_CODE_BITS = 7
"""Bits of the fraction in which elements are numbered: those of bf16."""


def coded(x: Operand, *, numbered: str) -> Fill:
    """Make every element of D the sum of one element each of C and of A or B.

    Parameters
    ----------
    numbered
        "a" or "b": the one whose elements tell their place, as those of C do; the other has a
        single 1 in each row or column.
    """
    if x.name in (numbered, "c"):
        return _number(x, -3 if x.name == "c" else 0)
    chosen = (LINE ^ below(OFFSET, x.depth)) & (x.depth - 1)
    return Fill(ZERO, (Placed(chosen, constant(x.fields.one)),))


def _number(x: Operand, exponent: int) -> Fill:
    """Give each element a number, in steps of 2^-7 of the powers of two from an exponent on.

    Numbers start at another element in each image; bits below a step stay random. Formats of 8
    bits number over again after eight exponents.
    """
    fields = x.fields
    step = max(0, fields.shift - _CODE_BITS)
    # A power of two for every matrix of the pages, so that a mask brings numbers round.
    count = x.count if fields.shift >= _CODE_BITS else 8 << fields.shift
    code = narrow(LINE * x.positions + POSITION) + narrow(below(DEPTH, count)) & (count - 1)
    return Fill((NOISE & ((1 << step) - 1)) + ((code << step) + fields.field(exponent)))


def grid_ties(x: Operand, *, at_the_top: bool = False) -> Fill:
    """Give C all bits of D's significand, a product of half of its last place, and a nudge.

    The nudge is a power of two below the half by up to what a sum keeps, or absent, of either
    sign; what a sum cuts off decides which neighbour is nearer. B holds powers of two.

    Parameters
    ----------
    at_the_top
        Whether C is D's largest finite number, of either sign; else an everyday number.
    """
    fields, result = x.fields, x.types.fields("d")
    bits = result.format.fraction_bits
    top = min(x.types.fields("c").greatest, result.greatest)
    exponent = constant(top) if at_the_top else below(EXPONENT, 8) - 4
    # Exponent of half of the last place of D.
    half = exponent - (bits + 1)
    first, second = x.pair()
    if x.name == "c":
        coarse = max(0, fields.format.fraction_bits - bits)
        fine = fields.fraction >> coarse << coarse
        if at_the_top:
            return Fill((NOISE & fields.sign) + (fine | fields.field(top)))
        return Fill((NOISE & (fields.sign | fine)) + field(fields, exponent))
    if x.name == "b":
        share = constant(power(fields, half - (half >> 1)))
        return Fill(ZERO, (Placed(first, share), Placed(second, share)))
    tie = _with_sign(x, power(fields, half >> 1), at(0))
    reach = {10: 16, 23: 4}.get(bits, 64)  # how far below the half a nudge can lie
    depth = wide(at(1) >> 1 & (reach - 1))
    nudge = _with_sign(x, power(fields, (half >> 1) - 1 - depth), at(1))
    return Fill(ZERO, (Placed(first, tie), Placed(second, nudge * (at(1) & 1))))


def subnormal_ties(x: Operand) -> Fill:
    """Sum odd multiples of half the least subnormal result, and minute products; C is zero.

    Of the terms of such a sum the zeros have the largest exponent where it is fixed (e_zero):
    -21 to -19 for sums in f16. It alone decides whether a minute product of 2^-41 to 2^-48 is
    cut off, and so which way the tie goes. Each row of A has an odd number below 16, and a minute
    one, of either sign; B has powers of two, the minute ones larger by up to 2^3.
    """
    fields, grid = x.fields, x.types.fields("d").grid
    exponent = below(EXPONENT, 4) + ((grid - 1) // 2 - 1)  # A's of the tie
    share = max(x.types.fields("a").grid, (grid - 24) // 2)  # B's of the minute products
    first, second = x.pair()
    if x.name == "c":
        return Fill(ZERO)
    if x.name == "b":
        minute = _with_sign(x, power(fields, (LINE & 3) + share), at(0))
        tie = constant(power(fields, constant(grid - 1) - exponent))
        return Fill(ZERO, (Placed(first, tie), Placed(second, minute)))
    odd = pattern([fields.whole(2 * i + 1) for i in range(8)], wide(at(0) >> 1 & 7))
    tie = (odd + (narrow(exponent) << fields.shift)) | (at(0) & fields.sign)
    deep = constant(grid - 17 - share) - wide(at(1) >> 1 & 7)
    minute = _with_sign(x, power(fields, deep), at(1))
    return Fill(ZERO, (Placed(first, tie), Placed(second, minute)))


def small_sums(x: Operand, *, positive: bool) -> Fill:
    """Make products around the least subnormal of the sum, or of A and B; C zero of either sign.

    Parameters
    ----------
    positive
        Whether all products are: then what is cut off them adds up, and shows in more sums.
    """
    fields = x.fields
    if x.name == "c":
        return Fill(NOISE & fields.sign)
    wanted = x.types.fields("c").grid - 2
    sign = fields.sign if positive else 0
    if 2 * fields.least > wanted + 2:
        return Fill(NOISE & (fields.signed_fraction & ~sign))
    add = fields.field((wanted + (x.name == "b")) // 2)
    return Fill((NOISE & (fields.kept(1) & ~sign)) + add)


_FACTORS = ((4, 15), (5, 31), (6, 63), (7, 127), (8, 255), (9, 73))
"""t, and the factor that A holds of 2^t - 1 = 15, 31, 63, 127, 255, or 73 x 7."""


def carries(x: Operand) -> Fill:
    """Sum (2^t - 1) 2^-t of the least subnormal, and twice 2^-t / 2 of it: one if nothing is cut.

    Only zeros have larger exponents, so that the fixed exponent of zero terms alone decides
    whether the two last bits are cut off: with e_zero of -131, -132, -133 and 23, 24, 25 bits
    kept, t of 4 to 9 tells it from one more and one less. Only for formats that reach so far down.
    Each row of A has three products, all of one sign, with a t of its own; B has one power of two,
    and its sevenfold in every fourth column for t = 9; C is zero.
    """
    fields, grid = x.fields, x.types.fields("c").grid
    if x.name == "c":
        return Fill(ZERO)
    # Three places of one block of four: tf32 adds no more at once.
    first, step = below(PLACE, x.depth), below(PARTNER, 3)
    second, third = first ^ (step + 1), first ^ (select(equal(step, 2), 0, step + 1) + 1)
    if x.name == "b":
        rest = (grid - grid // 2) << fields.shift
        factor = pattern([fields.whole(n) + rest for n in (1, 1, 1, 7)], LINE & 3)
        small = constant(fields.one + rest)
    else:
        choice = wide(at(0) >> 1 & 0x7F) * len(_FACTORS) >> 7
        sign = at(0) & fields.sign
        widths, factors = zip(*_FACTORS, strict=True)
        exponents = constant(grid // 2) - number(widths, choice)
        scale = narrow(exponents) << fields.shift
        factor = (pattern([fields.whole(one) for one in factors], choice) + scale) | sign
        small = ((narrow(exponents - 1) << fields.shift) + fields.one) | sign
    return Fill(ZERO, (Placed(first, factor), Placed(second, small), Placed(third, small)))


def overflowing(x: Operand) -> Fill:
    """Make products and C so large that sums pass the end of D's range, or hardly."""
    fields, reach = x.fields, _reach(x)
    if x.name == "c":
        return Fill(spread(fields, 1, min(reach, fields.greatest) - 1))
    return Fill(spread(fields, 1, (reach - 3 + (x.name == "b")) // 2))


def wide_pairs(x: Operand) -> Fill:
    """Let two products beyond the largest finite D cancel, and C lie next to the end of the range.

    A has x and -x in each row, B one power of two for all, and C either sign.
    """
    fields, reach = x.fields, _reach(x)
    if x.name == "c":
        return Fill(spread(fields, 1, min(reach, fields.greatest) - 1))
    if x.name == "b":
        share = reach + 1 - min(reach, x.types.fields("a").greatest)
        return Fill(constant(power(fields, below(OFFSET, 2) + share)))
    large = spread(fields, 0, reach, at(0))
    first, second = x.pair()
    return Fill(ZERO, (Placed(first, large), Placed(second, large ^ fields.sign)))
