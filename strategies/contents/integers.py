"""Integers, single bits (eight of them to a position of a line), and their 32-bit sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from oracle.formats import Kind
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
    clip,
    constant,
    draw,
    equal,
    less,
    narrow,
    node,
    pattern,
    select,
    wide,
)
from strategies.contents.operands import DEPTH, EXPONENT, OFFSET, SPOTS, VARIANT, Operand
from strategies.contents.recipes import ValueClass as V

_HIGHEST = (1 << 31) - 1
_LOWEST = -(1 << 31)
_PATTERNS = (0xFF, 0x55, 0xAA, 0x0F, 0xF0, 0x33, 0xCC, 0x7F)
"""All ones, alternating ones and the like."""
_ZERO, _ONES = constant(0), constant(0xFF)


def _put(x: Operand, wanted: Value, *, of_sum: bool = True) -> Fill:
    """Make C, or its sum where it belongs to one, what is wanted; clipped to 32 bits."""
    wanted = constant(wanted)
    if of_sum and x.is_of_sum:
        wanted = wanted - _total(x)
    return Fill(narrow(clip(wanted, _LOWEST, _HIGHEST)))


def _total(x: Operand) -> Node:
    return node(Code.SUM, value=x.sum)


def _few(count: int, *, shift: int = 0) -> Node:
    """Return random numbers from -count / 2 to count / 2 - 1 made of 16 of C's random bits."""
    return (wide(NOISE >> shift & 0xFFFF) * count >> 16) - count // 2


def _near_an_end(x: Operand, span: int, *, of_sum: bool) -> Fill:
    """Bring C or its sum next to the upper or the lower end.

    The sum comes to the end that the products lie towards.
    """
    down = less(_total(x), 0) if of_sum and x.is_of_sum else wide(NOISE >> 31)
    return _put(x, select(down, _LOWEST, _HIGHEST) + _few(span), of_sum=of_sum)


_Sums = Mapping[V, Callable[[Operand], Fill]]
_COMMON_SUMS: _Sums = {
    V.CANCELLING: lambda x: _put(x, _few(8)),
    V.TIES: lambda x: _near_an_end(x, 6, of_sum=True),
    V.AIMED: lambda x: _put(x, (_few(1 << 12) << 16) + _few(8, shift=16)),
    V.CODED: lambda x: Fill(narrow(LINE * x.positions + POSITION << 16)),
}
"""How C is filled beside integers and beside single bits; other classes leave uniform bits."""


def _small(span: int) -> Callable[[Operand], Fill]:
    return lambda x: _put(x, _few(span), of_sum=False)


_SUMS: _Sums = {
    **_COMMON_SUMS,
    **dict.fromkeys(
        (V.MIRRORED, V.EXTREME), lambda x: _near_an_end(x, 1 << 12, of_sum=False)
    ),
    **dict.fromkeys((V.NORMAL, V.SPECIAL, V.SQUARES, V.TINY), _small(1 << 12)),
    V.SUBNORMAL: lambda x: Fill(narrow(1) << (NOISE & 31)),
    V.ENDS: lambda x: Fill(pattern((_HIGHEST, _LOWEST, 0, -1), wide(NOISE & 3))),
    V.LADDER: lambda x: Fill(NOISE & 0xFF),
}  # fmt: skip
_BIT_SUMS: _Sums = {
    **_COMMON_SUMS,
    **dict.fromkeys((V.NORMAL, V.TINY, V.SPECIAL), _small(1 << 8)),
    V.EXTREME: lambda x: _near_an_end(x, 1 << 8, of_sum=True),
}


def _bounds(x: Operand) -> tuple[int, int, int]:
    """Return the patterns of the largest and the least number, and of all ones."""
    bits, signed = x.type.bits, x.type.kind is Kind.SIGNED
    lowest = 1 << (bits - 1) if signed else 0
    return (1 << (bits - signed)) - 1, lowest, (1 << bits) - 1


def integers(class_: V, x: Operand) -> Fill:
    """Fill A, B or C with integers of a class of values; of 4 bits, patterns below 16."""
    if x.name == "c":
        return _SUMS[class_](x) if class_ in _SUMS else Fill()
    bits, signed = x.type.bits, x.type.kind is Kind.SIGNED
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


def _end(x: Operand, spot: int) -> Placed:
    """Place an end of the range anywhere."""
    line, position = x.spot(spot)
    high, low, _ = _bounds(x)
    return Placed(position, pattern((high, low), draw(spot) & 1), line)


def _zeros(x: Operand) -> Fill:
    """Make A or B zero."""
    return Fill(NOISE & select(equal(below(VARIANT, 2), int(x.name == "a")), 0, 0xFF))


def _pair(class_: V, x: Operand) -> Fill:
    """Make two places k cancel: A's equal, B's opposite (B's equal where none is negative)."""
    bits, signed = x.type.bits, x.type.kind is Kind.SIGNED
    first, second = x.pair()
    kept, placed = at(first), []
    if class_ is V.SQUARES:
        third = first ^ select(equal(first ^ second, 1), 2, (first ^ second) ^ 1)
        placed.append(Placed(third, at(third) & 1))
    elif class_ is V.LADDER and x.name == "a":
        kept = narrow(1) << (LINE & (bits - 1))
    # Large, so that the sum passes an end of 32 bits on its way where C is near one.
    large = kept | 1 << (bits - 2)
    opposite = constant(0) - large & _bounds(x)[2] if x.name == "b" and signed else large
    placed += [Placed(first, large), Placed(second, opposite)]
    return Fill(NOISE if class_ is V.MIRRORED else _ZERO, tuple(placed))


def _code(x: Operand) -> Fill:
    """Let each row of A pick one row of B, whose elements tell their place.

    Of numbers wider than an element, half of the images show the high and half the low bits.
    """
    if x.name == "a":
        chosen = (LINE ^ below(OFFSET, x.depth)) & (x.depth - 1)
        return Fill(_ZERO, (Placed(chosen, constant(1)),))
    numbers = LINE * x.positions + POSITION + below(EXPONENT, 256)
    turned = numbers >> below(DEPTH, 2) * (8 - x.type.bits)
    return Fill(narrow(turned & _bounds(x)[2]))


def _spread_bit(bytes_: Node, bit: int) -> Node:
    """Return bytes all set where one bit is, and all clear elsewhere."""
    return (bytes_ >> bit & 1) * 0xFF


def single_bits(class_: V, x: Operand) -> Fill:
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
            return Fill(_ONES, (Placed(placed.position, placed.value ^ 0xFF),))
        case V.SQUARES:
            return _set(x, wide(at(0)), wide(at(1)))
        case V.TINY:
            bit = below(SPOTS + (x.name == "b"), 8 * x.count)
            line, position = x.place(bit >> 3)
            return Fill(_ZERO, (Placed(position, narrow(1) << narrow(bit & 7), line),))
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
    """Return bytes of lines whose first bits are set, and no others."""
    return (narrow(1) << narrow(clip(count - POSITION * 8, 0, 8))) - 1


def _set(x: Operand, *places: Node) -> Fill:
    """Set one or two bits of each line, counted from its start; clear the others."""
    placed: list[Placed] = []
    for place in places:
        byte, bit = place >> 3 & (x.positions - 1), narrow(1) << narrow(place & 7)
        for before in placed:
            bit = bit | before.value * narrow(equal(before.position, byte))
        placed.append(Placed(byte, bit))
    return Fill(_ZERO, tuple(placed))
