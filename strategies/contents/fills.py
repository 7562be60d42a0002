"""Which fills stand for a class of values, for each kind of format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial

from oracle.formats import Kind
from strategies.contents import float_elements, float_sums
from strategies.contents.float_fields import fields_of
from strategies.contents.image_groups import Fill, Types
from strategies.contents.integers import fill_integers, fill_single_bits
from strategies.contents.recipes import ValueClass


def _reaches_down(types: Types) -> bool:
    """Whether products come far below D's least subnormal."""
    factor, result = fields_of(types.multiplicand.name), fields_of(types.result.name)
    least = 2 * (factor.least - factor.format.fraction_bits)
    return least <= result.least - result.format.fraction_bits - 20


def _reaches_up(types: Types) -> bool:
    """Whether products come up to half of the last place of D's largest number."""
    factor, result = fields_of(types.multiplicand.name), fields_of(types.result.name)
    return 2 * factor.greatest >= result.greatest - result.format.fraction_bits - 1


def _has_eight_exponent_bits(types: Types) -> bool:
    return types.multiplicand.name in ("bf16", "tf32")


_top_ties = partial(float_sums.grid_ties, at_the_top=True)
_FLOATS: Mapping[ValueClass, tuple[Fill, ...]] = {
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
    ValueClass.BITS: (float_elements.finite,),
    ValueClass.UNNORMALISED: (partial(float_sums.mirrored, unnormalised=True),),
    ValueClass.PAYLOADS: (float_elements.payloads,),
    ValueClass.CODED: tuple(partial(float_sums.coded, numbered=one) for one in "ab"),
    ValueClass.ZEROS: (float_elements.zeros,),
    ValueClass.AIMED: (float_elements.aimed,),
    ValueClass.SQUARES: (float_sums.pairs,),
    ValueClass.LADDER: (partial(float_sums.pairs, ladder=True),),
    ValueClass.WIDE: (float_elements.wide,),
    ValueClass.ENDS: (float_elements.ends,),
    ValueClass.NORMAL: (float_elements.normal,),
    ValueClass.ANY: (float_elements.anything,),
}
"""What fills images of floats, in turn."""
_ONLY_WHERE: Mapping[Fill, Callable[[Types], bool]] = {
    float_sums.subnormal_ties: _reaches_down,
    _top_ties: _reaches_up,
    float_sums.carries: _has_eight_exponent_bits,
}
"""What formats need to have for some of these."""


@cache
def fills_of(types: Types) -> Mapping[ValueClass, tuple[Fill, ...]]:
    """Return what fills the matrices of a multiplication in turn, for each class of values."""
    if types.multiplicand.is_float:
        return {
            class_: tuple(
                fill for fill in fills if fill not in _ONLY_WHERE or _ONLY_WHERE[fill](types)
            )
            for class_, fills in _FLOATS.items()
        }
    fill = fill_single_bits if types.multiplicand.kind is Kind.BITS else fill_integers
    return {class_: (partial(fill, class_),) for class_ in ValueClass}
