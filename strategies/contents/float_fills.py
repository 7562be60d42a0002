"""Floats, drawn element by element or made for what becomes of their sums."""

from __future__ import annotations

from dataclasses import dataclass

from oracle.isa.forms import Format
from strategies.contents.expressions import (
    LINE,
    NOISE,
    POSITION,
    Code,
    Fill,
    FloatFields,
    Node,
    Overlay,
    Sum,
    Value,
    at,
    below,
    constant,
    draw,
    equal,
    fields_of,
    less,
    narrow,
    node,
    pattern,
    select,
    wide,
)

# Numbers of draws; those from EACH_K on are one for each k, of more than 32 for two.
PLACE, PARTNER, VARIANT, EXPONENT, DEPTH, OFFSET, SPOTS, EACH_K = 0, 1, 2, 3, 4, 5, 6, 32


@dataclass(frozen=True, kw_only=True)
class FillOperand:
    """A, B or C of a multiplication.

    Lines are the rows of A and C and the columns of B; positions are k of A and B, columns of C.
    Single bits are eight to a position.
    """

    name: str  # "a", "b" or "c"
    a: Format
    b: Format
    c: Format
    d: Format
    depth: int  # K: products of each sum; a power of two
    operation: str | None = None  # `.op` of single bits
    lines: int
    positions: int
    is_of_sum: bool  # Whether it is a C of just one product of an A and a B that are known
    run: int = 0
    """How many elements of B metadata choose together; 0 without metadata. B is filled as one of K
    positions, and each run of them twice, one behind the other."""
    of_group: bool = False
    """Whether a warpgroup multiplies: everyday numbers are small and whole, so that sums are exact
    and every element that comes from a wrong place shows."""

    @property
    def type(self) -> Format:
        """Format of an element."""
        return {"a": self.a, "b": self.b, "c": self.c}[self.name]

    @property
    def fields(self) -> FloatFields:
        """Fields of the operand's floating-point format."""
        return fields_of(self.type.name)

    @property
    def count(self) -> int:
        """How many elements there are, or bytes of single bits; a power of two."""
        return self.lines * self.positions

    @property
    def total(self) -> Node:
        """What C's products are summed to."""
        rounded = self.c if self.a.is_float else None
        sum_ = Sum(self.a, self.b, self.operation, rounded, self.depth, self.run)
        return node(Code.SUM, value=sum_)

    def pair(self) -> tuple[Node, Node]:
        """Return two different places k of each image, one as likely as the other."""
        first = below(PLACE, self.depth)
        return first, first ^ (below(PARTNER, self.depth - 1) + 1)

    def place(self, number: Node) -> tuple[Node, Node]:
        """Return line and position of an element by its number."""
        return number >> (self.positions.bit_length() - 1), number & (self.positions - 1)


ZERO = constant(0)


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


def normal(x: FillOperand) -> Fill:
    """Leave everyday numbers: of both signs, from 1/4 to 4; whole ones up to 4 of a warpgroup."""
    if x.of_group:
        # No zeros: what negates or flips bytes of A makes no NaN of the others.
        numbers = [x.fields.whole(one) for one in range(1, 5)]
        table = [*numbers, *(one | x.fields.sign for one in numbers)]
        return Fill(pattern(table, wide(NOISE & (len(table) - 1))))
    return Fill(spread(x.fields, 2, -2))


def ends(x: FillOperand) -> Fill:
    """Fill with the ends of the finite range, and powers of two with their neighbours."""
    table = x.fields.finite_ends
    return Fill(pattern(table, wide(NOISE & (len(table) - 1))))


def wide_window(x: FillOperand) -> Fill:
    """Spread exponents evenly over a window around 1, twice as wide for C, different by image."""
    # 2^4 exponents of f16's 30, 2^6 of the 254 of f32 and the like, 2^3 of the 15 of e4m3.
    most = {4: 3, 5: 4}.get(x.type.exponent_bits, 6)
    return _around_one(x.fields, most, below(DEPTH, most) + (1 + (x.name == "c")))


def _around_one(fields: FloatFields, most: int, bits: Node) -> Fill:
    """Spread over 2^bits exponents around 1, for each image its own; at most 2^most."""
    widths = range(most + 1)
    kept = pattern([fields.kept(width) for width in widths], bits)
    return Fill((NOISE & kept) + pattern([fields.field(-(1 << w >> 1)) for w in widths], bits))


def aimed(x: FillOperand) -> Fill:
    """Choose exponents of products, down from the largest, and divide them between A and B."""
    fields, largest = x.fields, below(EXPONENT, 12) - 2
    if x.name == "c":  # from the largest exponent down
        bits = 4 if x.type.exponent_bits == 5 else 5
        return Fill(spread(fields, bits, largest + (1 - (1 << bits))))
    each = draw((POSITION if x.positions <= EACH_K else POSITION & 31) + EACH_K)
    product = largest - (each & 31)
    share = (product >> 1) + (each >> 8 & 7) - 4
    return Fill(spread(fields, 0, share if x.name == "a" else product - share))


def cancelling(x: FillOperand) -> Fill:
    """Make C the pattern nearest to minus the product."""
    # Exponents of A and B lie in windows so wide that most products are not representable in C.
    fields = x.fields
    if x.name != "c":
        most = fields.window_bits
        return _around_one(fields, most, node(Code.SUBTRACT, most, below(DEPTH, 2)))
    if not x.is_of_sum:
        return normal(x)
    return Fill(finite(fields, x.total))


def _around(fields: FloatFields, exponent: int) -> tuple[int, int]:
    return fields.kept(2), fields.field(exponent)


def _spread_by(which: Node, windows: list[tuple[int, int]]) -> Fill:
    keep, add = zip(*windows, strict=True)
    return Fill((NOISE & pattern(keep, which)) + pattern(add, which))


def subnormal(x: FillOperand) -> Fill:
    """Fill with subnormals of A, B, C and D, side by side in one image.

    Of four rows of A, the first is zero, with subnormals in C; the second is subnormal, with zeros
    in C. Every other column of B is subnormal. Everything else is so small that it shows: in C as
    large as products of A and a subnormal of B.
    """
    fields = x.fields
    zero, least, small = (fields.sign, 0), (fields.signed_fraction, 0), _around(fields, 2)
    beside = _around(fields, fields_of(x.a.name).least + 2)
    windows = {"a": [zero, least, small], "b": [least, small], "c": [least, zero, beside]}[x.name]
    return _spread_by(LINE & (1 if x.name == "b" else 3), windows)


def zeros(x: FillOperand) -> Fill:
    """Fill with zeros of both signs in all matrices, -0 in A and C, or zeros in one of A and B."""
    sign = x.fields.sign
    zero, minus, (keep, add) = (sign, 0), (0, sign), _around(x.fields, -2)
    windows = {
        "a": [zero, minus, zero, (keep, add)],
        "b": [zero, (keep & ~sign, add), (keep, add), zero],
        "c": [zero, minus, (keep, add), zero],
    }[x.name]
    return _spread_by(below(VARIANT, len(windows)), windows)


def payloads(x: FillOperand) -> Fill:
    """Place NaN, quiet and signalling: one in a quarter of the lines of A and B; half of C."""
    fields = x.fields
    everyday = spread(fields, 2, -2)
    if x.name == "c":
        # The exponent field is random and replaced: its lowest bit chooses.
        return Fill(everyday | (NOISE >> fields.shift & 1) * fields.infinity)
    noise = wide(at(0) & 0xFF)
    place = noise >> 2 & (x.positions - 1)
    nan = select(noise & 3, 0, fields.infinity)
    return Fill(everyday, (Overlay(place, spread(fields, 2, -2, at(place)) | nan),))


def special(x: FillOperand) -> Fill:
    """Place special values, one in A and B, six in C, and one infinity of A that meets a zero."""
    fields, table = x.fields, x.fields.specials
    first, count = {"a": (SPOTS, 1), "b": (SPOTS + 2, 1), "c": (SPOTS + 6, 6)}[x.name]
    placed = []
    for spot in range(first, first + count):
        line, position = x.place(below(spot, x.count))
        which = below(spot + count, len(table))
        placed.append(Overlay(position, pattern(table, which), line))
    k = x.pair()[0]
    if x.name == "a":
        infinity = pattern((fields.infinity, fields.infinity | fields.sign), draw(OFFSET) & 1)
        placed.append(Overlay(k, infinity, below(OFFSET, x.lines)))
    elif x.name == "b":
        zero = pattern((0, fields.sign), draw(SPOTS + 4) & 1)
        placed.append(Overlay(k, zero, below(SPOTS + 4, x.lines)))
    return Fill(spread(fields, 2, -2), tuple(placed))


def _reach(x: FillOperand) -> int:
    a, b, d = (fields_of(type_.name).greatest for type_ in (x.a, x.b, x.d))
    return min(d, a + b)


def _small_or_zero(x: FillOperand, exponent: Node, zero: Node) -> Fill:
    """Spread over four exponents from one on, or leave zeros where a number is 0."""
    fields = x.fields
    keep = pattern((0, fields.kept(2)), zero)
    return Fill((NOISE & keep) + select(zero, field(fields, exponent), 0))


def mirrored(x: FillOperand, *, unnormalised: bool = False) -> Fill:
    """Fill with a pair of large products that cancel, over small ones and a small C.

    The small ones lie right below the pair where the result keeps 24 bits; where it keeps 11, so
    far down that the last bits of known sums (23 to 25 below the largest) are among them. C is as
    small, or zero in an eighth of the images. `unnormalised` large significands are 1.5 or more.
    """
    fields, bits = x.fields, x.d.fraction_bits
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
    placed = (Overlay(first, large), Overlay(second, opposite))
    return Fill(spread(fields, 2, small + rest >> 1), placed)


def pairs(x: FillOperand, *, ladder: bool = False) -> Fill:
    """Fill each row with one pair of products that cancel, at places of its own; else zeros.

    Each column of B holds one value. A has something small at a third place of each row, and C is
    at most as large; or (`ladder`) the pair grows from row to row, and C is an everyday number.
    """
    fields = x.fields
    if x.name == "b":
        return Fill(spread(fields, 0, 8 if ladder else 1, at(0)))
    if x.name == "c" and ladder:
        return Fill(spread(fields, 2, -8))
    if x.name == "c":
        return _small_or_zero(x, below(DEPTH, 24) - 20, below(VARIANT, 2))
    first = wide(at(0) & (x.depth - 1))
    partner = (wide(at(1) & 0xFF) * (x.depth - 1) >> 8) + 1
    if ladder:
        rung = LINE + below(OFFSET, 34)
        exponents = rung - (less(rung, 34) ^ 1) * 34 - 16
    else:
        exponents = below(EXPONENT, 8)
    large = spread(fields, 0, exponents, at(2))
    placed = [Overlay(first, large), Overlay(first ^ partner, large ^ fields.sign)]
    if not ladder:
        span = 64 if fields.format.name == "f64" else 32
        depth = wide(at(3) >> 1 & (span - 1))
        small = _with_sign(x, power(fields, exponents - 1 - depth), (at(3) & 1) * fields.sign)
        third = first ^ select(equal(partner, 1), 2, partner ^ 1)
        placed.append(Overlay(third, small))
    return Fill(ZERO, tuple(placed))


def _with_sign(x: FillOperand, value: Value, noise: Node) -> Node:
    return (noise & x.fields.sign) | value


_CODE_BITS = 7  # Bits of the fraction in which elements are numbered: those of bf16


def coded(x: FillOperand, *, numbered: str) -> Fill:
    """Make every element of D the sum of one element each of C and of A or B.

    Elements of C and of what is `numbered` tell their place, in steps of 2^-7 of the powers of two
    from an exponent on (8 bits: again after eight exponents), starting anywhere in each image; bits
    below a step stay random. The other has a single 1 in each row or column.
    """
    if x.name not in (numbered, "c"):
        chosen = (LINE ^ below(OFFSET, x.depth)) & (x.depth - 1)
        return Fill(ZERO, (Overlay(chosen, constant(x.fields.one)),))
    fields, exponent = x.fields, -3 if x.name == "c" else 0
    step = max(0, fields.shift - _CODE_BITS)
    # A power of two for every matrix of the pages, so that a mask brings numbers round.
    count = x.count if fields.shift >= _CODE_BITS else 8 << fields.shift
    code = narrow(LINE * x.positions + POSITION) + narrow(below(DEPTH, count)) & (count - 1)
    return Fill((NOISE & ((1 << step) - 1)) + ((code << step) + fields.field(exponent)))


def grid_ties(x: FillOperand, *, at_the_top: bool = False) -> Fill:
    """Give C all bits of D's significand, a product of half of its last place, and a nudge."""
    # The nudge is a power of two below the half by up to what a sum keeps, or absent: what is cut
    # off decides. C is an everyday number, or (`at_the_top`) D's largest finite one.
    fields, result = x.fields, fields_of(x.d.name)
    bits = result.format.fraction_bits
    top = min(fields_of(x.c.name).greatest, result.greatest)
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
        return Fill(ZERO, (Overlay(first, share), Overlay(second, share)))
    tie = _with_sign(x, power(fields, half >> 1), at(0))
    reach = {10: 16, 23: 4}.get(bits, 64)  # how far below the half a nudge can lie
    depth = wide(at(1) >> 1 & (reach - 1))
    nudge = _with_sign(x, power(fields, (half >> 1) - 1 - depth), at(1))
    return Fill(ZERO, (Overlay(first, tie), Overlay(second, nudge * (at(1) & 1))))


def subnormal_ties(x: FillOperand) -> Fill:
    """Sum odd multiples of half the least subnormal result, and minute products; C is zero."""
    # The fixed exponent of zeros (e_zero, -21 to -19 for sums in f16) alone decides whether a
    # minute product of 2^-41 to 2^-48 is cut off, and so which way the tie goes. Each row of A has
    # an odd number below 16, and a minute one; B powers of two, the minute ones up to 2^3 larger.
    fields, grid = x.fields, fields_of(x.d.name).grid
    exponent = below(EXPONENT, 4) + ((grid - 1) // 2 - 1)  # A's of the tie
    share = max(fields_of(x.a.name).grid, (grid - 24) // 2)  # B's of the minute products
    first, second = x.pair()
    if x.name == "c":
        return Fill(ZERO)
    if x.name == "b":
        minute = _with_sign(x, power(fields, (LINE & 3) + share), at(0))
        tie = constant(power(fields, constant(grid - 1) - exponent))
        return Fill(ZERO, (Overlay(first, tie), Overlay(second, minute)))
    odd = pattern([fields.whole(2 * i + 1) for i in range(8)], wide(at(0) >> 1 & 7))
    tie = (odd + (narrow(exponent) << fields.shift)) | (at(0) & fields.sign)
    deep = constant(grid - 17 - share) - wide(at(1) >> 1 & 7)
    minute = _with_sign(x, power(fields, deep), at(1))
    return Fill(ZERO, (Overlay(first, tie), Overlay(second, minute)))


def small_sums(x: FillOperand, *, positive: bool) -> Fill:
    """Make products around the least subnormal of the sum, or of A and B; C zero of either sign."""
    # What is cut off products that are all `positive` adds up.
    fields = x.fields
    if x.name == "c":
        return Fill(NOISE & fields.sign)
    wanted = fields_of(x.c.name).grid - 2
    sign = fields.sign if positive else 0
    if 2 * fields.least > wanted + 2:
        return Fill(NOISE & (fields.signed_fraction & ~sign))
    add = fields.field((wanted + (x.name == "b")) // 2)
    return Fill((NOISE & (fields.kept(1) & ~sign)) + add)


_FACTORS = ((4, 15), (5, 31), (6, 63), (7, 127), (8, 255), (9, 73))
"""t, and the factor that A holds of 2^t - 1 = 15, 31, 63, 127, 255, or 73 x 7."""


def carries(x: FillOperand) -> Fill:
    """Sum (2^t - 1) 2^-t of the least subnormal, and twice 2^-t / 2 of it: one if nothing is cut.

    The fixed exponent of zero terms alone decides whether the two last bits are cut off: with
    e_zero of -131 to -133 and 23 to 25 bits kept, t of 4 to 9 tells it from one more and one less.
    Each row of A has three products, of one sign and a t of its own; B has one power of two, and
    its sevenfold in every fourth column for t = 9; C is zero.
    """
    fields, grid = x.fields, fields_of(x.c.name).grid
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
        exponents = constant(grid // 2) - node(Code.NUMBER, choice, value=widths)
        scale = narrow(exponents) << fields.shift
        factor = (pattern([fields.whole(one) for one in factors], choice) + scale) | sign
        small = ((narrow(exponents - 1) << fields.shift) + fields.one) | sign
    return Fill(ZERO, (Overlay(first, factor), Overlay(second, small), Overlay(third, small)))


def overflowing(x: FillOperand) -> Fill:
    """Make products and C so large that sums pass the end of D's range, or hardly."""
    fields, reach = x.fields, _reach(x)
    exponent = (reach - 3 + (x.name == "b")) // 2
    if x.name == "c":
        exponent = min(reach, fields.greatest) - 1
    return Fill(spread(fields, 1, exponent))


def wide_pairs(x: FillOperand) -> Fill:
    """Let two products beyond the largest finite D cancel, and C lie next to the end of the range.

    A has x and -x in each row, B one power of two for all, and C either sign.
    """
    fields, reach = x.fields, _reach(x)
    if x.name == "c":
        return overflowing(x)
    if x.name == "b":
        share = reach + 1 - min(reach, fields_of(x.a.name).greatest)
        return Fill(constant(power(fields, below(OFFSET, 2) + share)))
    large = spread(fields, 0, reach, at(0))
    first, second = x.pair()
    return Fill(ZERO, (Overlay(first, large), Overlay(second, large ^ fields.sign)))
