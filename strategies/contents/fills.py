"""Which fill stands for a class of values, for each kind of format."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from oracle.formats import Kind
from strategies.contents.boundary_floats import (
    Carries,
    GridTies,
    Overflowing,
    SmallSums,
    SubnormalTies,
    WidePairs,
)
from strategies.contents.coded import Coded
from strategies.contents.float_fields import fields_of
from strategies.contents.integers import Integers
from strategies.contents.mirrored_floats import Mirrored, Pairs
from strategies.contents.settings import Choice, Fill, Types
from strategies.contents.single_bits import SingleBits
from strategies.contents.spread_floats import (
    Aimed,
    Bits,
    Cancelling,
    Ends,
    Normal,
    Payloads,
    Special,
    Subnormal,
    Wide,
    Zeros,
)
from strategies.contents.value_classes import ValueClass


@cache
def fills_of(types: Types) -> Mapping[ValueClass, Fill]:
    """Return what fills the matrices of a multiplication, for each class of values."""
    return {class_: _fill(class_, types) for class_ in ValueClass}


def _fill(class_: ValueClass, types: Types) -> Fill:
    if types.multiplicand.kind is Kind.BITS:
        return SingleBits(class_)
    if not types.multiplicand.is_float:
        return Integers(class_)
    return _floats(class_, types)


def _floats(class_: ValueClass, types: Types) -> Fill:
    match class_:
        case ValueClass.MIRRORED:
            return Mirrored()
        case ValueClass.SPECIAL:
            return Special()
        case ValueClass.TIES:
            return Choice((SubnormalTies(), GridTies())) if _reaches_down(types) else GridTies()
        case ValueClass.SUBNORMAL:
            return Subnormal()
        case ValueClass.CANCELLING:
            return Cancelling()
        case ValueClass.EXTREME:
            ways: tuple[Fill, ...] = (Overflowing(), WidePairs())
            return Choice((*ways, GridTies(at_the_top=True)) if _reaches_up(types) else ways)
        case ValueClass.TINY:
            wide = types.multiplicand.name in ("bf16", "tf32")
            sums = SmallSums(positive=True), SmallSums(positive=False)
            return Choice((Carries(), *sums) if wide else sums)
        case ValueClass.BITS:
            return Bits(finite=True)
        case ValueClass.UNNORMALISED:
            return Mirrored(unnormalised=True)
        case ValueClass.PAYLOADS:
            return Payloads()
        case ValueClass.CODED:
            return Choice((Coded("a"), Coded("b")))
        case ValueClass.ZEROS:
            return Zeros()
        case ValueClass.AIMED:
            return Aimed()
        case ValueClass.SQUARES:
            return Pairs(ladder=False)
        case ValueClass.LADDER:
            return Pairs(ladder=True)
        case ValueClass.WIDE:
            return Wide()
        case ValueClass.ENDS:
            return Ends()
        case ValueClass.NORMAL:
            return Normal()
        case ValueClass.ANY:
            return Bits(finite=False)


def _reaches_down(types: Types) -> bool:
    """Whether products come far below D's least subnormal."""
    factor, result = fields_of(types.multiplicand.name), fields_of(types.result.name)
    least = 2 * (factor.least - factor.format.fraction_bits)
    return least <= result.least - result.format.fraction_bits - 20


def _reaches_up(types: Types) -> bool:
    """Whether products come up to half of the last place of D's largest number."""
    factor, result = fields_of(types.multiplicand.name), fields_of(types.result.name)
    return 2 * factor.greatest >= result.greatest - result.format.fraction_bits - 1
