"""Sums on ties, at the ends of the range, and below its least numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from strategies.contents.float_fields import FloatFields, Raw
from strategies.contents.settings import (
    DEPTH,
    EXPONENT,
    OFFSET,
    Ints,
    Setting,
    per_image,
    spread,
)


def _signs(noise: Raw, fields: FloatFields) -> Raw:
    signs: Raw = noise & fields.sign
    return signs


def _grid(fields: FloatFields) -> int:
    """Exponent of the least subnormal."""
    return fields.least - fields.format.fraction_bits


@dataclass(frozen=True)
class GridTies:
    """C with all bits of D's significand, a product of half of its last place, and a nudge.

    The nudge is a power of two below the half by up to what a sum keeps, or absent, of either
    sign; what a sum cuts off decides which neighbour is nearer.
    """

    at_the_top: bool = False
    """Whether C is D's largest finite number, of either sign; else an everyday number."""

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A: in each row half a last place of either sign, and perhaps a nudge."""
        fields = setting.factor
        half, nudge = self._exponents(setting)
        noise, more = view[:, :, 0].copy(), view[:, :, 1].copy()
        first, second = setting.pair()
        view[...] = 0
        view[setting.images, :, first] = fields.powers(half // 2)[:, None] | _signs(noise, fields)
        small = fields.powers(nudge // 2)[:, None] | _signs(more, fields)
        view[setting.images, :, second] = np.where(more & fields.dtype.type(1), small, 0)

    def b(self, view: Raw, setting: Setting) -> None:
        """Fill B: powers of two."""
        fields = setting.factor
        half, nudge = self._exponents(setting)
        first, second = setting.pair()
        view[...] = 0
        view[setting.images, first] = fields.powers(half - half // 2)[:, None]
        view[setting.images, second] = fields.powers(nudge - nudge // 2)[:, None]

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C: on the grid of D."""
        fields = setting.sum
        coarse = max(0, fields.format.fraction_bits - setting.result.format.fraction_bits)
        fine = int(fields.fraction) >> coarse << coarse
        if self.at_the_top:
            top = fine | int(fields.field(self._top(setting)))
            spread(view, fields.sign, fields.dtype.type(top))
        else:
            keep = fields.dtype.type(int(fields.sign) | fine)
            spread(view, keep, per_image(fields.field(self._exponent(setting))))

    def _top(self, setting: Setting) -> int:
        return min(setting.sum.greatest, setting.result.greatest)

    def _exponent(self, setting: Setting) -> Ints:
        if self.at_the_top:
            return np.full(len(setting.draws), self._top(setting))
        return setting.below(EXPONENT, 8) - 4

    def _exponents(self, setting: Setting) -> tuple[Ints, Ints]:
        bits = setting.result.format.fraction_bits
        half = self._exponent(setting) - bits - 1
        return half, half - 1 - setting.below(DEPTH, {10: 16, 23: 4}.get(bits, 64))


class SubnormalTies:
    """Odd multiples of half the least subnormal result, minute products beside them, C zero.

    Of the terms of such a sum the zeros have the largest exponent where it is fixed (e_zero):
    -21 to -19 for sums in f16. It alone decides whether a minute product of 2^-41 to 2^-48 is
    cut off, and so which way the tie goes.
    """

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A: in each row an odd number below 16, and a minute one, of either sign."""
        fields = setting.factor
        noise, more = view[:, :, 0].copy(), view[:, :, 1].copy()
        exponent, dust, share = self._exponents(setting)
        first, second = setting.pair()
        odd = _whole(fields, 2 * ((noise >> 1) & fields.dtype.type(7)) + fields.dtype.type(1))
        view[...] = 0
        scale = (exponent << fields.shift).astype(fields.dtype)[:, None]
        view[setting.images, :, first] = (odd + scale) | _signs(noise, fields)
        deep = dust - share - (more.astype(np.int64) >> 1) % 8
        view[setting.images, :, second] = fields.powers(deep) | _signs(more, fields)

    def b(self, view: Raw, setting: Setting) -> None:
        """Fill B: powers of two."""
        fields = setting.factor
        exponent, _, share = self._exponents(setting)
        first, second = setting.pair()
        view[...] = 0
        half = _grid(setting.result) - 1
        view[setting.images, first] = fields.powers(half - exponent)[:, None]
        view[setting.images, second] = fields.powers(share)

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C: zeros."""
        view[...] = 0

    def _exponents(self, setting: Setting) -> tuple[Ints, int, int]:
        """Return A's exponent of the tie, that of the largest dust, and B's share of the dust."""
        grid = _grid(setting.result)
        share = max(_grid(setting.factor), (grid - 24) // 2)
        return (grid - 1) // 2 - 1 + setting.below(EXPONENT, 4), grid - 17, share


def _whole(fields: FloatFields, numbers: Raw) -> Raw:
    """Return the patterns of whole numbers below 256; a format has 8 significant bits or more."""
    table = []
    for number in range(256):
        width = max(0, number.bit_length() - 1)
        fraction = (number << fields.shift >> width) & int(fields.fraction)
        table.append(((fields.format.bias + width) << fields.shift | fraction) if number else 0)
    return np.array(table, np.uint64).astype(fields.dtype)[numbers.astype(np.intp)]


class SmallSums:
    """Products around the least subnormal of the sum, or of A and B; C zero."""

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A."""
        self._fill(view, setting, 0)

    def b(self, view: Raw, setting: Setting) -> None:
        """Fill B."""
        self._fill(view, setting, 1)

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C: zeros of either sign."""
        view &= setting.sum.sign

    def _fill(self, view: Raw, setting: Setting, half: int) -> None:
        fields, wanted = setting.factor, _grid(setting.sum) - 6
        if 2 * fields.least > wanted + 2:
            view &= fields.signed_fraction
        else:
            spread(view, fields.kept(1), fields.field((wanted + half) // 2))


_FACTORS = ((15, 1), (31, 1), (63, 1), (127, 1), (255, 1), (73, 7), (33, 31), (89, 23))
"""Factors of 2^t - 1 for t = 4 to 11, of at most 8 bits."""


class Carries:
    """(2^t - 1) 2^-t of the least subnormal, and twice 2^-t / 2 of it: one if nothing is cut.

    Only zeros have larger exponents, so that the fixed exponent of zero terms alone decides
    whether the two last bits are cut off. Only for formats that reach so far down.
    """

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A: three products in each row, all of one sign."""
        fields = setting.factor
        width, places = self._choices(setting)
        sign = _signs(view[:, :, :1].copy(), fields)
        view[...] = 0
        factor = np.array(_FACTORS, fields.dtype)[width - 4, 0]
        exponents = self._share(setting) - width
        values = [_whole(fields, factor) + _scaled(fields, exponents)]
        values += [_scaled(fields, exponents - 1) + fields.one] * 2
        for place, value in zip(places, values, strict=True):
            view[setting.images, :, place] = value[:, None] | sign[:, :, 0]

    def b(self, view: Raw, setting: Setting) -> None:
        """Fill B: positive."""
        fields = setting.factor
        width, places = self._choices(setting)
        view[...] = 0
        rest = _grid(setting.sum) - self._share(setting)
        factor = np.array(_FACTORS, fields.dtype)[width - 4, 1]
        one = np.ones_like(factor)
        for place, value in zip(places, (factor, one, one), strict=True):
            view[setting.images, place] = (_whole(fields, value) + _scaled(fields, rest))[:, None]

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C: zeros."""
        view[...] = 0

    def _share(self, setting: Setting) -> int:
        return _grid(setting.sum) // 2

    def _choices(self, setting: Setting) -> tuple[Ints, tuple[Ints, Ints, Ints]]:
        first, second = setting.pair()
        step = first ^ second
        third = first ^ np.where(step == 1, 2, step ^ 1)
        return 4 + setting.below(OFFSET, len(_FACTORS)), (first, second, third)


def _scaled(fields: FloatFields, exponents: Ints | int) -> Raw:
    """Return what multiplies a normal pattern by a power of two when it is added to it."""
    return (np.asarray(exponents, np.int64) << fields.shift).astype(fields.dtype)


class Overflowing:
    """Products and C so large that sums pass the end of D's range, or hardly."""

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A."""
        self._fill(view, setting, 0)

    def b(self, view: Raw, setting: Setting) -> None:
        """Fill B."""
        self._fill(view, setting, 1)

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C."""
        fields = setting.sum
        spread(view, fields.kept(1), fields.field(min(_reach(setting), fields.greatest) - 1))

    def _fill(self, view: Raw, setting: Setting, half: int) -> None:
        fields = setting.factor
        spread(view, fields.kept(1), fields.field((_reach(setting) - 3 + half) // 2))


def _reach(setting: Setting) -> int:
    """Return the largest exponent of D, or of products where they do not come so far."""
    return min(setting.result.greatest, 2 * setting.factor.greatest)


class WidePairs:
    """Two products beyond the largest finite D that cancel, and C inside the range."""

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A: x and -x in each row."""
        fields = setting.factor
        large = (view[:, :, 0] & fields.signed_fraction) + fields.field(_reach(setting))
        first, second = setting.pair()
        view[...] = 0
        view[setting.images, :, first] = large
        view[setting.images, :, second] = large ^ fields.sign

    def b(self, view: Raw, setting: Setting) -> None:
        """Fill B: one power of two for all."""
        fields = setting.factor
        share = _reach(setting) + 1 - min(_reach(setting), fields.greatest)
        view[...] = per_image(fields.powers(share + setting.below(OFFSET, 2)))

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C: next to the end of the range, of either sign."""
        fields = setting.sum
        spread(view, fields.kept(1), fields.field(min(_reach(setting), fields.greatest) - 1))
