"""The fills of each class of values, for each kind of format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial, reduce
from operator import or_

from oracle.formats import Kind
from strategies.contents import float_elements, float_sums
from strategies.contents.buffers import edges_of
from strategies.contents.expressions import (
    NOISE,
    POSITION,
    Code,
    Fill,
    Node,
    Placed,
    Value,
    at,
    constant,
    draw,
    equal,
    narrow,
    pattern,
    select,
    wide,
)
from strategies.contents.expressions import node as make
from strategies.contents.integers import integers, single_bits
from strategies.contents.operands import SPOTS, Operand, Types
from strategies.contents.recipes import ValueClass

_Make = Callable[[Operand], Fill]


def _reaches_down(types: Types) -> bool:
    """Whether products come far below D's least subnormal."""
    return 2 * types.fields("a").grid <= types.fields("d").grid - 20


def _reaches_up(types: Types) -> bool:
    """Whether products come up to half of the last place of D's largest number."""
    result = types.fields("d")
    return 2 * types.fields("a").greatest >= result.greatest - result.format.fraction_bits - 1


def _has_eight_exponent_bits(types: Types) -> bool:
    return types.a.name in ("bf16", "tf32")


_top_ties = partial(float_sums.grid_ties, at_the_top=True)
_FLOATS: Mapping[ValueClass, tuple[_Make, ...]] = {
    ValueClass.MIRRORED: (float_sums.mirrored,),
    ValueClass.SPECIAL: (float_elements.special,),
    ValueClass.TIES: (float_sums.subnormal_ties, float_sums.grid_ties),
    ValueClass.SUBNORMAL: (float_elements.subnormal,),
    ValueClass.CANCELLING: (float_elements.cancelling,),
    ValueClass.EXTREME: (float_sums.overflowing, float_sums.wide_pairs, _top_ties),
    ValueClass.TINY: (
        float_sums.carries,
        partial(float_sums.small_sums, positive=True),
        partial(float_sums.small_sums, positive=False),
    ),
    ValueClass.BITS: (float_elements.bits,),
    ValueClass.UNNORMALISED: (partial(float_sums.mirrored, unnormalised=True),),
    ValueClass.PAYLOADS: (float_elements.payloads,),
    ValueClass.CODED: tuple(partial(float_sums.coded, numbered=one) for one in "ab"),
    ValueClass.ZEROS: (float_elements.zeros,),
    ValueClass.AIMED: (float_elements.aimed,),
    ValueClass.SQUARES: (float_sums.pairs,),
    ValueClass.LADDER: (partial(float_sums.pairs, ladder=True),),
    ValueClass.WIDE: (float_elements.wide_window,),
    ValueClass.ENDS: (float_elements.ends,),
    ValueClass.NORMAL: (float_elements.normal,),
    ValueClass.ANY: (float_elements.anything,),
}
"""What fills images of floats, in turn."""
_ONLY_WHERE: Mapping[_Make, Callable[[Types], bool]] = {
    float_sums.subnormal_ties: _reaches_down,
    _top_ties: _reaches_up,
    float_sums.carries: _has_eight_exponent_bits,
}
"""What formats need to have for some of these."""


@cache
def fills_of(x: Operand) -> Mapping[ValueClass, tuple[Fill, ...]]:
    """Return what fills an operand in turn, for each class of values."""
    if x.name == "b" and x.run:
        return {
            class_: tuple(_twice(fill, x.run) for fill in fills)
            for class_, fills in fills_of(replace(x, run=0)).items()
        }
    if x.types.a.is_float:
        return {
            class_: tuple(
                make(x) for make in fills if make not in _ONLY_WHERE or _ONLY_WHERE[make](x.types)
            )
            for class_, fills in _FLOATS.items()
        }
    make = single_bits if x.types.a.kind is Kind.BITS else integers
    return {class_: (make(class_, x),) for class_ in ValueClass}


def _twice(fill: Fill, run: int) -> Fill:
    """Return what fills a B of which metadata choose: each run of positions is there twice.

    So most elements meet what was made for them, whatever the metadata say. In half of the images
    both are the same, in the others each is made of its own random bits.
    """
    bits = run.bit_length()
    apart = draw(SPOTS) >> 15 ^ 1

    def moved(position: Node, half: Value) -> Node:
        spread = (position >> (bits - 1) << bits) + (position & (run - 1))
        return spread + constant(half) * run

    def of(node: Node, half: Value) -> Node:
        if node is POSITION:
            return (POSITION >> bits << (bits - 1)) + (POSITION & (run - 1))
        if node.code in (Code.NOISE, Code.AT):
            (place,) = node.arguments or (POSITION,)
            place = of(place, half)
            return select(apart & half, at(moved(place, 1)), at(moved(place, 0)))
        return make(node.code, *(of(one, half) for one in node.arguments), value=node.value)

    everywhere = of(fill.everywhere, POSITION >> (bits - 1) & 1)
    return Fill(
        everywhere,
        tuple(
            Placed(moved(of(one.position, half), half), of(one.value, half), one.line)
            for one in fill.placed
            for half in (0, 1)
        ),
    )


def word(number: int, mask: int) -> Fill:
    """Make a control word 0, 1 or the largest in a quarter of the images each; else random."""
    choice = draw(SPOTS + number % 16) >> 14
    values = select(equal(choice, 1), 1, mask)
    return Fill(select(equal(choice, 3), NOISE, select(equal(choice, 0), 0, values)))


_NUMBERED = Fill(narrow((POSITION >> 1) * 0x9E37 + draw(0) >> (POSITION & 1) * 8))
"""Elements of 16 bits with numbers: an odd factor keeps those of different elements different."""
_ROWS: Mapping[ValueClass, Fill] = {
    **dict.fromkeys(
        (ValueClass.CODED, ValueClass.NORMAL, ValueClass.MIRRORED, ValueClass.AIMED), _NUMBERED
    ),
    **dict.fromkeys((ValueClass.ENDS, ValueClass.EXTREME), Fill((NOISE & 1) * 0xFF)),
    **dict.fromkeys(
        (ValueClass.SUBNORMAL, ValueClass.SQUARES), Fill(narrow(1) << (NOISE & 7))
    ),
    # Words that count turns and places, and words of 16 bits: what code of lanes decides by.
    ValueClass.TINY: Fill(select(equal(POSITION & 3, 0), NOISE & 31, 0)),
    ValueClass.WIDE: Fill(select(equal(POSITION & 2, 0), NOISE, 0)),
}  # fmt: skip


def _edge(bits: int, shift: int = 0) -> Node:
    """Return a number at an edge of integers or floats, by 16 random bits from a place on."""
    edges = edges_of("b", bits).tolist()
    return pattern(edges, wide(NOISE >> shift & 0xFFFF) * len(edges) >> 16)


@cache
def _of_registers(bits: int) -> Mapping[ValueClass, Fill]:
    each = range(0, bits, 16)
    halves = [_edge(16, place) << place for place in each]
    ends = ((NOISE & int("01" * (bits // 8), 16)) * 0xFF, _edge(bits))
    return {
        ValueClass.EXTREME: Fill(ends[0]),
        **dict.fromkeys((ValueClass.ENDS, ValueClass.SPECIAL), Fill(ends[1])),
        **dict.fromkeys((ValueClass.PAYLOADS, ValueClass.TIES), Fill(reduce(or_, halves))),
        # Beside numbers of any kind: what is compared differs.
        **dict.fromkeys(
            (ValueClass.MIRRORED, ValueClass.CANCELLING, ValueClass.LADDER),
            Fill(select(NOISE >> bits - 1, NOISE, ends[1])),
        ),
        **dict.fromkeys(
            (ValueClass.SUBNORMAL, ValueClass.SQUARES), Fill(narrow(1) << (NOISE & bits - 1))
        ),
        # What counts turns and places, and numbers of 16 bits.
        ValueClass.TINY: Fill(NOISE & 31),
        ValueClass.WIDE: Fill(NOISE & 0xFFFF),
        **dict.fromkeys(
            (ValueClass.CODED, ValueClass.NORMAL), Fill(narrow(POSITION * 0x9E37 + draw(0)))
        ),
    }  # fmt: skip


def of_registers(class_: ValueClass, bits: int) -> Sequence[Fill]:
    """Return what fills registers that scalar code reads: edges of their types, or any bits."""
    return (_of_registers(bits).get(class_, Fill()),)


def of_rows(class_: ValueClass) -> Sequence[Fill]:
    """Return what fills the bytes that ldmatrix reads: numbers, bytes of few kinds, or any."""
    return (_ROWS.get(class_, Fill()),)
