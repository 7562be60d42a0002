"""Floats drawn element by element: exponents from windows, signs and fractions at random."""

from __future__ import annotations

from strategies.contents.expressions import (
    LINE,
    NOISE,
    POSITION,
    Code,
    Fill,
    Node,
    Placed,
    Value,
    at,
    below,
    draw,
    equal,
    node,
    pattern,
    select,
    wide,
)
from strategies.contents.float_fields import FloatFields
from strategies.contents.operands import DEPTH, EACH_K, EXPONENT, OFFSET, SPOTS, VARIANT, Operand
from strategies.contents.sums import window_bits

Window = tuple[int, int]
"""Bits to keep of a pattern, and what to add to them."""


def field(fields: FloatFields, exponent: Value) -> Value:
    """Return an exponent field in its place, of normal numbers: exponents are clipped."""
    if isinstance(exponent, int):
        return fields.field(exponent)
    return pattern(fields.fields, exponent - fields.least)


def power(fields: FloatFields, exponent: Value) -> Value:
    """Return a power of two; subnormal where that small, zero below, clipped above."""
    return pattern(fields.powers, exponent - (fields.grid - 1))


def spread(fields: FloatFields, bits: int, exponent: Value, raw: Node = NOISE) -> Node:
    """Keep sign, fraction and some bits of the exponent field, and add an exponent."""
    return (raw & fields.kept(bits)) + field(fields, exponent)


def finite(fields: FloatFields, raw: Node) -> Node:
    """Make infinities and NaN finite: the lowest bit of their field is cleared."""
    return raw ^ (equal(raw & fields.infinity, fields.infinity) << fields.shift)


def normal(x: Operand) -> Fill:
    """Leave everyday numbers: of both signs, from 1/4 to 4."""
    return Fill(spread(x.fields, 2, -2))


def anything(x: Operand) -> Fill:
    """Leave uniform bits."""
    return Fill()


def bits(x: Operand) -> Fill:
    """Leave uniform bits of finite numbers."""
    return Fill(finite(x.fields, NOISE))


def ends(x: Operand) -> Fill:
    """Fill with the ends of the finite range, and powers of two with their neighbours."""
    table = x.fields.finite_ends
    return Fill(pattern(table, wide(NOISE & (len(table) - 1))))


def wide_window(x: Operand) -> Fill:
    """Spread exponents evenly over a window around 1 whose width differs between images.

    That of C is twice as wide where the format has it.
    """
    # 2^4 exponents of f16's 30, 2^6 of the 254 of f32 and the like, 2^3 of the 15 of e4m3.
    most = {4: 3, 5: 4}.get(x.type.exponent_bits, 6)
    return _around_one(x.fields, most, below(DEPTH, most) + (1 + (x.name == "c")))


def _around_one(fields: FloatFields, most: int, bits: Node) -> Fill:
    """Spread over 2^bits exponents around 1, for each image its own; at most 2^most."""
    widths = range(most + 1)
    kept = pattern([fields.kept(width) for width in widths], bits)
    return Fill((NOISE & kept) + pattern([fields.field(-(1 << w >> 1)) for w in widths], bits))


def aimed(x: Operand) -> Fill:
    """Choose exponents of products, down from the largest, and divide them between A and B."""
    fields, largest = x.fields, below(EXPONENT, 12) - 2
    if x.name == "c":  # from the largest exponent down
        bits = 4 if x.type.exponent_bits == 5 else 5
        return Fill(spread(fields, bits, largest + (1 - (1 << bits))))
    each = draw(POSITION + EACH_K)
    product = largest - (each & 31)
    share = (product >> 1) + (each >> 8 & 7) - 4
    return Fill(spread(fields, 0, share if x.name == "a" else product - share))


def cancelling(x: Operand) -> Fill:
    """Make C the pattern nearest to minus the product.

    Exponents of A and B lie in windows so wide that most products are not representable in C.
    """
    fields = x.fields
    if x.name != "c":
        most = window_bits(fields)
        return _around_one(fields, most, node(Code.SUBTRACT, most, below(DEPTH, 2)))
    if not x.is_of_sum:
        return normal(x)
    return Fill(finite(fields, node(Code.SUM, value=x.sum)))


def _around(fields: FloatFields, exponent: int) -> Window:
    return fields.kept(2), fields.field(exponent)


def _spread_by(windows: list[Window], which: Node) -> Fill:
    """Spread by one window for each line or image."""
    keep, add = zip(*windows, strict=True)
    return Fill((NOISE & pattern(keep, which)) + pattern(add, which))


def subnormal(x: Operand) -> Fill:
    """Fill with subnormals of A, B, C and D, side by side in one image.

    Of four rows of A, the first is zero, with subnormals in C; the second is subnormal, with zeros
    in C. Every other column of B is subnormal. Everything else is so small that it shows: in C as
    large as products of A and a subnormal of B.
    """
    fields = x.fields
    zero, least, small = (fields.sign, 0), (fields.signed_fraction, 0), _around(fields, 2)
    beside = _around(fields, x.types.fields("a").least + 2)
    windows = {"a": [zero, least, small], "b": [least, small], "c": [least, zero, beside]}[x.name]
    return _spread_by(windows, LINE & (1 if x.name == "b" else 3))


def zeros(x: Operand) -> Fill:
    """Fill with zeros of both signs in all matrices, -0 in A and C, or zeros in one of A and B."""
    sign = x.fields.sign
    zero, minus, (keep, add) = (sign, 0), (0, sign), _around(x.fields, -2)
    windows = {
        "a": [zero, minus, zero, (keep, add)],
        "b": [zero, (keep & ~sign, add), (keep, add), zero],
        "c": [zero, minus, (keep, add), zero],
    }[x.name]
    return _spread_by(windows, below(VARIANT, len(windows)))


def payloads(x: Operand) -> Fill:
    """Place NaN with random payloads, quiet and signalling, among everyday numbers.

    They stand at one place of a quarter of the rows of A and the columns of B, and in every other
    element of C.
    """
    fields = x.fields
    everyday = spread(fields, 2, -2)
    if x.name == "c":
        # The exponent field is random and replaced: its lowest bit chooses.
        return Fill(everyday | (NOISE >> fields.shift & 1) * fields.infinity)
    noise = wide(at(0) & 0xFF)
    place = noise >> 2 & (x.positions - 1)
    nan = select(noise & 3, 0, fields.infinity)
    return Fill(everyday, (Placed(place, spread(fields, 2, -2, at(place)) | nan),))


def special(x: Operand) -> Fill:
    """Place a few special values among everyday numbers, and one infinity that meets a zero.

    A and B have one special value each, C six; the infinity is in A.
    """
    fields, table = x.fields, x.fields.specials
    first, count = {"a": (SPOTS, 1), "b": (SPOTS + 2, 1), "c": (SPOTS + 6, 6)}[x.name]
    placed = []
    for spot in range(first, first + count):
        line, position = x.spot(spot)
        which = below(spot + count, len(table))
        placed.append(Placed(position, pattern(table, which), line))
    k = x.pair()[0]
    if x.name == "a":
        infinity = pattern((fields.infinity, fields.infinity | fields.sign), draw(OFFSET) & 1)
        placed.append(Placed(k, infinity, below(OFFSET, x.lines)))
    elif x.name == "b":
        zero = pattern((0, fields.sign), draw(SPOTS + 4) & 1)
        placed.append(Placed(k, zero, below(SPOTS + 4, x.lines)))
    return Fill(spread(fields, 2, -2), tuple(placed))
