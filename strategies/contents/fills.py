"""Classes of values, and what fills each for each kind of format (floats: `float_fills`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from functools import cache, partial, reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray

from oracle.isa.forms import FORMATS, SCALES_OF_ONE, FormatKind
from strategies.contents import float_fills as floats
from strategies.contents.expressions import (
    LINE,
    NOISE,
    POSITION,
    Code,
    Fill,
    FloatFields,
    Node,
    Overlay,
    Value,
    at,
    below,
    clip,
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
from strategies.contents.float_fills import (
    DEPTH,
    EXPONENT,
    OFFSET,
    SPOTS,
    VARIANT,
    ZERO,
    FillOperand,
)


class ValueClass(StrEnum):
    """What the matrices of an image hold, first what reveals most.

    Said of floats; after "Integers:" and "Bits:" stands what becomes of the idea there.
    """

    MIRRORED = "mirrored"
    """A pair of large products that cancel, over many small ones and a small C: shows where terms
    are cut, and which are added at once. Integers: pairs that cancel, C near an end, so that the
    sum passes the end and comes back. Bits: B's columns are the complement of A's rows."""
    SPECIAL = "special"
    """Everyday numbers with a few zeros, infinities, NaN and ends of the range, zero times
    infinity among them. Integers: small ones with a few ends. Bits: a few lines all set or all
    clear."""
    TIES = "ties"
    """A sum on the middle between two results, nudged by minute products or not at all, also on
    the subnormal grid. Integers and bits: the sum is at, or next to, an end of 32 bits."""
    SUBNORMAL = "subnormal"
    """One of A, B, C and D subnormal. Integers: one bit set in each element. Bits: one set in
    each line."""
    CANCELLING = "cancelling"
    """C is the negative of the rounded product: the low bits of the sum are the result.
    Integers and bits: the sum is in -4 to 3."""
    EXTREME = "extreme"
    """Sums at and beyond the ends of the range, and such that pass them and come back.
    Integers and bits: every element at an end, C near one."""
    TINY = "tiny"
    """Products around the least subnormal of the sum, C zero. Integers: 0, 1 and -1. Bits: one
    set in the whole matrix."""
    BITS = "bits"  # Uniform bits; of floats only finite ones
    UNNORMALISED = "unnormalised"
    """As MIRRORED, but the large products have significands of 2 or more. Integers: the two
    highest bits set. Bits: all set but one in each line."""
    PAYLOADS = "payloads"
    """NaN, quiet and signalling, with payloads of their own. Integers and bits: all ones,
    alternating ones and the like."""
    CODED = "coded"
    """One of A and B has a single one in each row or column, the other and C tell each element's
    place. Bits: one set in each line, at a place that tells the line."""
    ZEROS = "zeros"
    """Zeros of both signs, beside nothing or everyday numbers. Integers and bits: A or B zero."""
    AIMED = "aimed"
    """The exponents of the products are chosen, and divided between A and B at random.
    Integers and bits: C is such that the sum carries into, or just not into, its high half."""
    SQUARES = "squares"
    """Large^2 - large^2 plus something small at every pair of places, zero elsewhere: shows which
    products are added at once. Integers: the same. Bits: two set in each line."""
    LADDER = "ladder"
    """X + YZ - YZ with YZ growing from row to row, X in C: a ladder of precision. Integers: the
    same. Bits: as many set as the line's number tells."""
    WIDE = "wide"
    """Exponents spread evenly over a window. Integers: all bit lengths. Bits: all densities."""
    ENDS = "ends"
    """Every element a zero, an end of the subnormals or normals, or next to a power of two.
    Integers: every element an end, or next to one. Bits: bytes all set or all clear."""
    NORMAL = "normal"
    """Everyday numbers of both signs, whole ones of a warpgroup; small integers; sparse bits."""
    ANY = "any"  # Uniform bits, of floats with NaN and infinities


V = ValueClass
_HIGHEST = (1 << 31) - 1
_LOWEST = -(1 << 31)
_PATTERNS = (0xFF, 0x55, 0xAA, 0x0F, 0xF0, 0x33, 0xCC, 0x7F)  # All ones, alternating and the like
_ONES = constant(0xFF)


def _put(x: FillOperand, wanted: Value, *, of_sum: bool = True) -> Fill:
    """Make C, or its sum where it belongs to one, what is wanted; clipped to 32 bits."""
    wanted = constant(wanted)
    if of_sum and x.is_of_sum:
        wanted = wanted - x.total
    return Fill(narrow(clip(wanted, _LOWEST, _HIGHEST)))


def _few(count: int, *, shift: int = 0) -> Node:
    """Return random numbers from -count / 2 to count / 2 - 1 made of 16 of C's random bits."""
    return (wide(NOISE >> shift & 0xFFFF) * count >> 16) - count // 2


def _near_an_end(x: FillOperand, span: int, *, of_sum: bool) -> Fill:
    """Bring C or its sum next to the upper or the lower end."""
    # The sum comes to the end that the products lie towards.
    down = less(x.total, 0) if of_sum and x.is_of_sum else wide(NOISE >> 31)
    return _put(x, select(down, _LOWEST, _HIGHEST) + _few(span), of_sum=of_sum)


_Make = Callable[[FillOperand], Fill]
_COMMON_SUMS: Mapping[V, _Make] = {
    V.CANCELLING: lambda x: _put(x, _few(8)),
    V.TIES: lambda x: _near_an_end(x, 6, of_sum=True),
    V.AIMED: lambda x: _put(x, (_few(1 << 12) << 16) + _few(8, shift=16)),
    V.CODED: lambda x: Fill(narrow(LINE * x.positions + POSITION << 16)),
}
"""How C is filled beside integers and beside single bits; other classes leave uniform bits."""


def _small(span: int) -> _Make:
    return lambda x: _put(x, _few(span), of_sum=False)


_SUMS: Mapping[V, _Make] = {
    **_COMMON_SUMS,
    **dict.fromkeys(
        (V.MIRRORED, V.EXTREME), lambda x: _near_an_end(x, 1 << 12, of_sum=False)
    ),
    **dict.fromkeys((V.NORMAL, V.SPECIAL, V.SQUARES, V.TINY), _small(1 << 12)),
    V.SUBNORMAL: lambda x: Fill(narrow(1) << (NOISE & 31)),
    V.ENDS: lambda x: Fill(pattern((_HIGHEST, _LOWEST, 0, -1), wide(NOISE & 3))),
    V.LADDER: lambda x: Fill(NOISE & 0xFF),
}  # fmt: skip
_BIT_SUMS: Mapping[V, _Make] = {
    **_COMMON_SUMS,
    **dict.fromkeys((V.NORMAL, V.TINY, V.SPECIAL), _small(1 << 8)),
    V.EXTREME: lambda x: _near_an_end(x, 1 << 8, of_sum=True),
}


def _bounds(x: FillOperand) -> tuple[int, int, int]:
    bits, signed = x.type.bits, x.type.kind is FormatKind.SIGNED
    lowest = 1 << (bits - 1) if signed else 0
    return (1 << (bits - signed)) - 1, lowest, (1 << bits) - 1


def integers(class_: V, x: FillOperand) -> Fill:
    """Fill A, B or C with integers of a class of values; of 4 bits, patterns below 16."""
    if x.name == "c":
        return _SUMS[class_](x) if class_ in _SUMS else Fill()
    bits, signed = x.type.bits, x.type.kind is FormatKind.SIGNED
    high, low, mask = _bounds(x)
    match class_:
        case V.NORMAL | V.SPECIAL | V.UNNORMALISED:
            small = ((NOISE & 7) - 4) & mask if signed else NOISE & 7
            if class_ is V.NORMAL:
                return Fill(small)
            if class_ is V.UNNORMALISED:
                return Fill(small | 0b11 << (bits - 2))
            spots = range(SPOTS + 6 * (x.name == "b"), SPOTS + 6 * (x.name == "b") + 6)
            return Fill(small, tuple(_end(x, spot) for spot in spots))
        case V.TINY:
            return Fill((NOISE & 1) * mask if signed and x.name == "a" else NOISE & 1)
        case V.EXTREME:
            # All at one end in half of the images: sums as large as there are.
            return Fill(((NOISE & 1) | below(VARIANT, 2)) * (high - low) + low & mask)
        case V.ENDS:
            ends = (0, 1, -1, high, low, high - 1, low + 1, 1 << bits - 2)
            return Fill(pattern([end & mask for end in ends], wide(NOISE & 7)))
        case V.PAYLOADS:
            return Fill(pattern([one & mask for one in _PATTERNS], wide(NOISE & 7)))
        case V.SUBNORMAL | V.AIMED:
            return Fill(narrow(1) << (NOISE & (bits - 1)))
        case V.WIDE:
            sign = 1 << (bits - 1) if signed else 0
            neighbour = (wide(at(POSITION - 1 & (x.positions - 1))) ^ sign) - sign
            return Fill(narrow(neighbour >> wide(NOISE & (bits - 1)) & mask))
        case V.ZEROS:
            return _zeros(x)
        case V.MIRRORED | V.SQUARES | V.LADDER:
            return _pair(class_, x)
        case V.CODED:
            return _code(x)
        case _:
            return Fill()


def _end(x: FillOperand, spot: int) -> Overlay:
    line, position = x.place(below(spot, x.count))
    high, low, _ = _bounds(x)
    return Overlay(position, pattern((high, low), draw(spot) & 1), line)


def _zeros(x: FillOperand) -> Fill:
    return Fill(NOISE & select(equal(below(VARIANT, 2), int(x.name == "a")), 0, 0xFF))


def _pair(class_: V, x: FillOperand) -> Fill:
    """Make two places k cancel: A's equal, B's opposite (B's equal where none is negative)."""
    bits, signed = x.type.bits, x.type.kind is FormatKind.SIGNED
    first, second = x.pair()
    kept, placed = at(first), []
    if class_ is V.SQUARES:
        third = first ^ select(equal(first ^ second, 1), 2, (first ^ second) ^ 1)
        placed.append(Overlay(third, at(third) & 1))
    elif class_ is V.LADDER and x.name == "a":
        kept = narrow(1) << (LINE & (bits - 1))
    # Large, so that the sum passes an end of 32 bits on its way where C is near one.
    large = kept | 1 << (bits - 2)
    opposite = constant(0) - large & _bounds(x)[2] if x.name == "b" and signed else large
    placed += [Overlay(first, large), Overlay(second, opposite)]
    return Fill(NOISE if class_ is V.MIRRORED else ZERO, tuple(placed))


def _code(x: FillOperand) -> Fill:
    """Let each row of A pick one row of B, whose elements tell their place."""
    # Of numbers wider than an element, half of the images show the high and half the low bits.
    if x.name == "a":
        chosen = (LINE ^ below(OFFSET, x.depth)) & (x.depth - 1)
        return Fill(ZERO, (Overlay(chosen, constant(1)),))
    numbers = LINE * x.positions + POSITION + below(EXPONENT, 256)
    turned = numbers >> below(DEPTH, 2) * (8 - x.type.bits)
    return Fill(narrow(turned & _bounds(x)[2]))


def _spread_bit(bytes_: Node, bit: int) -> Node:
    return (bytes_ >> bit & 1) * 0xFF


def single_bits(class_: V, x: FillOperand) -> Fill:
    """Fill A, B or C with single bits of a class of values."""
    if x.name == "c":
        return _BIT_SUMS[class_](x) if class_ in _BIT_SUMS else Fill()
    width = 8 * x.positions
    match class_:
        case V.NORMAL:
            return Fill(NOISE & at(POSITION - 1 & (x.positions - 1)))
        case V.EXTREME:
            return Fill(_spread_bit(at(0), 7))
        case V.SPECIAL:
            chosen = narrow(equal(wide(at(0) & 7), 7)) * 0xFF
            return Fill((NOISE & (chosen ^ 0xFF)) | (_spread_bit(at(0), 7) & chosen))
        case V.ENDS:
            return Fill(_spread_bit(NOISE, 1))
        case V.SUBNORMAL:
            return _set(x, wide(at(0)))
        case V.UNNORMALISED:
            (placed,) = _set(x, wide(at(0))).placed
            return Fill(_ONES, (Overlay(placed.position, placed.value ^ 0xFF),))
        case V.SQUARES:
            return _set(x, wide(at(0)), wide(at(1)))
        case V.TINY:
            bit = below(SPOTS + (x.name == "b"), 8 * x.count)
            line, position = x.place(bit >> 3)
            return Fill(ZERO, (Overlay(position, narrow(1) << narrow(bit & 7), line),))
        case V.PAYLOADS:
            return Fill(pattern(_PATTERNS, wide(NOISE & 7)))
        case V.CODED:
            step = width // x.lines + (8 if x.name == "b" else 0)
            return _set(x, LINE * step + below(OFFSET, 8))
        case V.ZEROS:
            return _zeros(x)
        case V.MIRRORED:
            # The same line in all of A, its complement in all of B: every bit differs.
            line = narrow(draw(POSITION + SPOTS))
            return Fill(line ^ 0xFF if x.name == "b" else line)
        case V.LADDER:
            return Fill(_first_bits(LINE * x.positions))
        case V.WIDE:
            return Fill(_first_bits(wide(at(0)) * (width + 1) >> 8) & NOISE)
        case _:
            return Fill()


def _first_bits(count: Node) -> Node:
    return (narrow(1) << narrow(clip(count - POSITION * 8, 0, 8))) - 1


def _set(x: FillOperand, *places: Node) -> Fill:
    """Set one or two bits of each line, counted from its start; clear the others."""
    placed: list[Overlay] = []
    for place in places:
        byte, bit = place >> 3 & (x.positions - 1), narrow(1) << narrow(place & 7)
        for before in placed:
            bit = bit | before.value * narrow(equal(before.position, byte))
        placed.append(Overlay(byte, bit))
    return Fill(ZERO, tuple(placed))


_top_ties = partial(floats.grid_ties, at_the_top=True)
_FLOATS: Mapping[V, tuple[_Make, ...]] = {
    V.MIRRORED: (floats.mirrored,),
    V.SPECIAL: (floats.special,),
    V.TIES: (floats.subnormal_ties, floats.grid_ties),
    V.SUBNORMAL: (floats.subnormal,),
    V.CANCELLING: (floats.cancelling,),
    V.EXTREME: (floats.overflowing, floats.wide_pairs, _top_ties),
    V.TINY: (
        floats.carries,
        partial(floats.small_sums, positive=True),
        partial(floats.small_sums, positive=False),
    ),
    V.BITS: (lambda x: Fill(floats.finite(x.fields, NOISE)),),
    V.UNNORMALISED: (partial(floats.mirrored, unnormalised=True),),
    V.PAYLOADS: (floats.payloads,),
    V.CODED: tuple(partial(floats.coded, numbered=one) for one in "ab"),
    V.ZEROS: (floats.zeros,),
    V.AIMED: (floats.aimed,),
    V.SQUARES: (floats.pairs,),
    V.LADDER: (partial(floats.pairs, ladder=True),),
    V.WIDE: (floats.wide_window,),
    V.ENDS: (floats.ends,),
    V.NORMAL: (floats.normal,),
    V.ANY: (lambda x: Fill(),),
}
"""What fills images of floats, in turn."""
_ONLY_WHERE: Mapping[_Make, Callable[[FloatFields, FloatFields], bool]] = {
    # Products come far below D's least subnormal,
    floats.subnormal_ties: lambda a, d: 2 * a.grid <= d.grid - 20,
    # up to half of the last place of D's largest number,
    _top_ties: lambda a, d: 2 * a.greatest >= d.greatest - d.format.fraction_bits - 1,
    # and have exponents of eight bits.
    floats.carries: lambda a, d: a.format.name in ("bf16", "tf32"),
}
"""What A and D need to have for some of these."""


@cache
def fills_of(x: FillOperand) -> Mapping[V, tuple[Fill, ...]]:
    """Return what fills an operand in turn, for each class of values."""
    if x.name == "b" and x.run:
        return {
            class_: tuple(_twice(fill, x.run) for fill in fills)
            for class_, fills in fills_of(replace(x, run=0)).items()
        }
    if x.a.is_float:
        both = fields_of(x.a.name), fields_of(x.d.name)
        return {
            class_: tuple(
                make(x) for make in fills if make not in _ONLY_WHERE or _ONLY_WHERE[make](*both)
            )
            for class_, fills in _FLOATS.items()
        }
    make = single_bits if x.a.kind is FormatKind.BITS else integers
    return {class_: (make(class_, x),) for class_ in V}


def _twice(fill: Fill, run: int) -> Fill:
    """Return what fills a B of which metadata choose: each run of positions is there twice."""
    # So most elements meet what was made for them. In half of the images both are the same.
    everywhere = _doubled(fill.everywhere, POSITION >> (run.bit_length() - 1) & 1, run)
    return Fill(
        everywhere,
        tuple(
            Overlay(
                _moved(_doubled(one.position, half, run), half, run),
                _doubled(one.value, half, run),
                one.line,
            )
            for one in fill.placed
            for half in (0, 1)
        ),
    )


@cache
def _moved(position: Node, half: Value, run: int) -> Node:
    bits = run.bit_length()
    spread = (position >> (bits - 1) << bits) + (position & (run - 1))
    return spread + constant(half) * run


@cache
def _doubled(one: Node, half: Value, run: int) -> Node:
    """Return a value in one half of a run, or in both by the number of the half."""
    bits = run.bit_length()
    if one is POSITION:
        return (POSITION >> bits << (bits - 1)) + (POSITION & (run - 1))
    if one.code in (Code.NOISE, Code.AT):
        (place,) = one.arguments or (POSITION,)
        place = _doubled(place, half, run)
        apart = draw(SPOTS) >> 15 ^ 1
        return select(apart & half, at(_moved(place, 1, run)), at(_moved(place, 0, run)))
    return node(one.code, *(_doubled(each, half, run) for each in one.arguments), value=one.value)


_OfClasses = Mapping[V, tuple[Fill]]
_RANDOM = Fill()


def of_classes(fills: Mapping[V, Fill] | Fill) -> _OfClasses:
    """Return what fills all classes of values alike, or each by itself; of others they are any."""
    known = dict.fromkeys(V, fills) if isinstance(fills, Fill) else fills
    return {class_: (known.get(class_, _RANDOM),) for class_ in V}


@cache
def of_word(number: int, mask: int) -> _OfClasses:
    """Make a control word 0, 1 or the largest in a quarter of the images each; else random."""
    choice = draw(SPOTS + number) >> 14
    values = select(equal(choice, 1), 1, mask)
    return of_classes(Fill(select(equal(choice, 3), NOISE, select(equal(choice, 0), 0, values))))


_NUMBERED = Fill(narrow((POSITION >> 1) * 0x9E37 + draw(0) >> (POSITION & 1) * 8))
"""Elements of 16 bits with numbers: an odd factor keeps those of different elements different."""
OF_ROWS = of_classes({
    **dict.fromkeys(
        (V.CODED, V.NORMAL, V.MIRRORED, V.AIMED), _NUMBERED
    ),
    **dict.fromkeys((V.ENDS, V.EXTREME), Fill((NOISE & 1) * 0xFF)),
    **dict.fromkeys(
        (V.SUBNORMAL, V.SQUARES), Fill(narrow(1) << (NOISE & 7))
    ),
    # Words that count turns and places, and words of 16 bits: what code of lanes decides by.
    V.TINY: Fill(select(equal(POSITION & 3, 0), NOISE & 31, 0)),
    V.WIDE: Fill(select(equal(POSITION & 2, 0), NOISE, 0)),
})  # fmt: skip
"""What fills the bytes that ldmatrix reads; of other classes they are any."""


_SCALES = {
    "ue8m0": (range(0x77, 0x87), (0, 1, 2, 0x40, 0x7E, 0x7F, 0x80, 0xC0, 0xFD, 0xFE), 0xFF),
    "ue4m3": (range(0x30, 0x40), (0, 1, 4, 7, 8, 0x37, 0x38, 0x39, 0x77, 0x7E), 0x7F),
}
"""By format: 16 numbers around 1, numbers far apart, its NaN (PTX ISA 5.2.3)."""


@cache
def of_scales(name: str) -> _OfClasses:
    """Return what fills scales: 1 or around it, so that sums stay what they are made for, or ends.

    Of other classes they are any.
    """
    one, (around, ends, nan) = SCALES_OF_ONE[name], _SCALES[name]
    near = pattern(around, wide(NOISE & 15))
    apart = pattern(ends, wide(NOISE) * len(ends) >> 8)
    few = select(equal(wide(NOISE), 0), nan, near)
    return of_classes({
        **dict.fromkeys(V, Fill(select(draw(SPOTS) >> 15, narrow(one), near))),
        **dict.fromkeys((V.EXTREME, V.TINY, V.SUBNORMAL, V.WIDE, V.ENDS), Fill(apart)),
        **dict.fromkeys((V.SPECIAL, V.PAYLOADS), Fill(few)),
        V.ANY: _RANDOM,
    })  # fmt: skip


_FLOAT_NAMES = {16: ("f16", "bf16"), 32: ("f32",), 64: ("f64",)}
"""Floating-point formats by their bits; `tf32` is f32 in memory."""


@cache
def edges_of(kind: str, bits: int) -> NDArray[np.uint64]:
    """Return the words at which something changes for a type; `kind` and `bits` as in `filled`."""
    found: list[int] = []
    if kind not in ("f", "bf"):
        for power in range(bits):
            found += [1 << power, (1 << power) - 1, -(1 << power)]
        found += [-1, 3, 31, 33, 63, 65, 0x5555_5555_5555_5555, 0xAAAA_AAAA_AAAA_AAAA]
    for name in _FLOAT_NAMES.get(bits, ()):
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


def _edge(bits: int, shift: int = 0) -> Node:
    """Return a number at an edge of integers or floats, by 16 random bits from a place on."""
    edges = edges_of("b", bits).tolist()
    return pattern(edges, wide(NOISE >> shift & 0xFFFF) * len(edges) >> 16)


@cache
def of_registers(bits: int) -> _OfClasses:
    """Return what fills registers that scalar code reads: edges of their types, else any bits."""
    each = range(0, bits, 16)
    halves = [_edge(16, place) << place for place in each]
    ends = ((NOISE & int("01" * (bits // 8), 16)) * 0xFF, _edge(bits))
    return of_classes({
        V.EXTREME: Fill(ends[0]),
        **dict.fromkeys((V.ENDS, V.SPECIAL), Fill(ends[1])),
        **dict.fromkeys((V.PAYLOADS, V.TIES), Fill(reduce(or_, halves))),
        # Beside numbers of any kind: what is compared differs.
        **dict.fromkeys(
            (V.MIRRORED, V.CANCELLING, V.LADDER),
            Fill(select(NOISE >> bits - 1, NOISE, ends[1])),
        ),
        **dict.fromkeys(
            (V.SUBNORMAL, V.SQUARES), Fill(narrow(1) << (NOISE & bits - 1))
        ),
        # What counts turns and places, and numbers of 16 bits.
        V.TINY: Fill(NOISE & 31),
        V.WIDE: Fill(NOISE & 0xFFFF),
        **dict.fromkeys(
            (V.CODED, V.NORMAL), Fill(narrow(POSITION * 0x9E37 + draw(0)))
        ),
    })  # fmt: skip
