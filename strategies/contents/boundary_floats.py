"""Sums on ties, at the ends of the range, and below its least numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from strategies.contents.float_fields import FloatFields, Raw
from strategies.contents.settings import (
    EXPONENT,
    OFFSET,
    PARTNER,
    POSITION,
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
        half = self._half(setting)
        noise, more = view[:, :, 0].copy(), view[:, :, 1].copy()
        first, second = setting.pair()
        view[...] = 0
        view[setting.images, :, first] = fields.powers(half // 2)[:, None] | _signs(noise, fields)
        depth = (more >> fields.dtype.type(1)).astype(np.int64) % self._reach(setting)
        small = fields.powers((half // 2)[:, None] - 1 - depth) | _signs(more, fields)
        view[setting.images, :, second] = np.where(more & fields.dtype.type(1), small, 0)

    def b(self, view: Raw, setting: Setting) -> None:
        """Fill B: powers of two."""
        fields = setting.factor
        half = self._half(setting)
        share = fields.powers(half - half // 2)[:, None]
        first, second = setting.pair()
        view[...] = 0
        view[setting.images, first] = view[setting.images, second] = share

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
            return np.full(len(setting.images), self._top(setting))
        return setting.below(EXPONENT, 8) - 4

    def _half(self, setting: Setting) -> Ints:
        """Exponent of half of the last place of D."""
        return self._exponent(setting) - setting.result.format.fraction_bits - 1

    def _reach(self, setting: Setting) -> int:
        """Return how far below the half a nudge can lie."""
        return {10: 16, 23: 4}.get(setting.result.format.fraction_bits, 64)


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
        odd = fields.whole(2 * ((noise >> 1) & fields.dtype.type(7)) + fields.dtype.type(1))
        view[...] = 0
        scale = (exponent << fields.shift).astype(fields.dtype)[:, None]
        view[setting.images, :, first] = (odd + scale) | _signs(noise, fields)
        deep = dust - share - (more.astype(np.int64) >> 1) % 8
        view[setting.images, :, second] = fields.powers(deep) | _signs(more, fields)

    def b(self, view: Raw, setting: Setting) -> None:
        """Fill B: powers of two, the minute ones larger by up to 2^3 and of either sign."""
        fields = setting.factor
        exponent, _, share = self._exponents(setting)
        noise = view[:, 0].copy()
        first, second = setting.pair()
        view[...] = 0
        half = _grid(setting.result) - 1
        view[setting.images, first] = fields.powers(half - exponent)[:, None]
        minute = fields.powers(share + np.arange(view.shape[2]) % 4)
        view[setting.images, second] = minute | _signs(noise, fields)

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C: zeros."""
        view[...] = 0

    def _exponents(self, setting: Setting) -> tuple[Ints, int, int]:
        """Return A's exponent of the tie, that of the largest dust, and B's share of the dust."""
        grid = _grid(setting.result)
        share = max(_grid(setting.factor), (grid - 24) // 2)
        return (grid - 1) // 2 - 1 + setting.below(EXPONENT, 4), grid - 17, share


@dataclass(frozen=True)
class SmallSums:
    """Products around the least subnormal of the sum, or of A and B; C zero."""

    positive: bool
    """Whether all products are: then what is cut off them adds up, and shows in more sums."""

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
        fields, wanted = setting.factor, _grid(setting.sum) - 2
        if 2 * fields.least > wanted + 2:
            view &= fields.signed_fraction
        else:
            spread(view, fields.kept(1), fields.field((wanted + half) // 2))
        if self.positive:
            view &= ~fields.sign


_FACTORS = ((4, 15), (5, 31), (6, 63), (7, 127), (8, 255), (9, 73))
"""t, and the factor that A holds of 2^t - 1 = 15, 31, 63, 127, 255, or 73 x 7."""


class Carries:
    """(2^t - 1) 2^-t of the least subnormal, and twice 2^-t / 2 of it: one if nothing is cut.

    Only zeros have larger exponents, so that the fixed exponent of zero terms alone decides
    whether the two last bits are cut off: with e_zero of -131, -132, -133 and 23, 24, 25 bits
    kept, t of 4 to 9 tells it from one more and one less. Only for formats that reach so far down.
    """

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A: three products in each row, all of one sign, with a t of its own."""
        fields = setting.factor
        noise = view[:, :, 0].copy()
        choice = (noise >> fields.dtype.type(1)).astype(np.int64) % len(_FACTORS)
        sign = _signs(noise, fields)
        width, factor = np.array(_FACTORS).T[:, choice]
        exponents = self._share(setting) - width
        small = _scaled(fields, exponents - 1) + fields.one
        view[...] = 0
        first, second, third = self._places(setting)
        large = fields.whole(factor) + _scaled(fields, exponents)
        view[setting.images, :, first] = large | sign
        view[setting.images, :, second] = view[setting.images, :, third] = small | sign

    def b(self, view: Raw, setting: Setting) -> None:
        """Fill B: one power of two, and its sevenfold in every fourth column for t = 9."""
        fields = setting.factor
        # One element and not a scalar, which would warn where it wraps.
        rest = _scaled(fields, np.array([_grid(setting.sum) - self._share(setting)]))
        columns = np.arange(view.shape[2])
        first, second, third = self._places(setting)
        view[...] = 0
        view[setting.images, first] = fields.whole(np.where(columns % 4 == 3, 7, 1)) + rest
        view[setting.images, second] = view[setting.images, third] = fields.one + rest

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C: zeros."""
        view[...] = 0

    def _share(self, setting: Setting) -> int:
        return _grid(setting.sum) // 2

    def _places(self, setting: Setting) -> tuple[Ints, Ints, Ints]:
        """Return three places of one block of four: tf32 adds no more at once."""
        first, step = setting.below(POSITION, setting.depth), setting.below(PARTNER, 3)
        return first, first ^ (1 + step), first ^ (1 + (step + 1) % 3)


def _scaled(fields: FloatFields, exponents: Ints) -> Raw:
    """Return what multiplies a normal pattern by a power of two when it is added to it."""
    return (exponents << fields.shift).astype(fields.dtype)


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
