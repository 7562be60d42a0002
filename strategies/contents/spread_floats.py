"""Floats drawn element by element: exponents from windows, signs and fractions at random."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strategies.contents.float_fields import FloatFields, Raw
from strategies.contents.settings import (
    DEPTH,
    EXPONENT,
    OFFSET,
    SPOTS,
    VARIANT,
    Ints,
    Setting,
    per_image,
    spread,
)


def everyday(view: Raw, fields: FloatFields) -> None:
    """Leave numbers of both signs from 1/4 to 4."""
    spread(view, fields.kept(2), fields.field(-2))


@dataclass(frozen=True)
class Bits:
    """Uniform bits, of finite numbers only or of any."""

    finite: bool

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A."""
        if self.finite:
            setting.factor.finite(view)

    b = a

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C."""
        if self.finite:
            setting.sum.finite(view)


class Normal:
    """Everyday numbers."""

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A."""
        everyday(view, setting.factor)

    b = a

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C."""
        everyday(view, setting.sum)


class Ends:
    """The ends of the finite range, and powers of two with their neighbours."""

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A."""
        self._fill(view, setting.factor)

    b = a

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C."""
        self._fill(view, setting.sum)

    def _fill(self, view: Raw, fields: FloatFields) -> None:
        table = fields.finite_ends
        view[...] = table.take((view & fields.dtype.type(len(table) - 1)).astype(np.intp))


class Wide:
    """Exponents spread evenly over a window around 1 whose width differs between images."""

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A."""
        self._fill(view, setting, setting.factor, 0)

    b = a

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C, over twice the window where the format has it."""
        self._fill(view, setting, setting.sum, 1)

    def _fill(self, view: Raw, setting: Setting, fields: FloatFields, more: int) -> None:
        # 2^4 exponents of f16's 30, 2^6 of the 254 of f32 and the like, 2^3 of the 15 of e4m3.
        most = {4: 3, 5: 4}.get(fields.format.exponent_bits, 6)
        bits = np.minimum(1 + setting.below(DEPTH, most) + more, most)
        kept = np.array([fields.kept(width) for width in range(most + 1)], fields.dtype)
        spread(view, per_image(kept[bits]), per_image(fields.field(-(1 << bits >> 1))))


class Aimed:
    """Exponents of products, in a window down from the largest, divided between A and B."""

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A."""
        fields = setting.factor
        spread(view, fields.signed_fraction, fields.field(self._shares(setting)[0])[:, None, :])

    def b(self, view: Raw, setting: Setting) -> None:
        """Fill B."""
        fields = setting.factor
        spread(view, fields.signed_fraction, fields.field(self._shares(setting)[1])[:, :, None])

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C, from the largest exponent down."""
        fields = setting.sum
        bits = 4 if fields.format.exponent_bits == 5 else 5
        lowest = self._largest(setting) + 1 - (1 << bits)
        spread(view, fields.kept(bits), per_image(fields.field(lowest)))

    def _largest(self, setting: Setting) -> Ints:
        return setting.below(EXPONENT, 12) - 2

    def _shares(self, setting: Setting) -> tuple[Ints, Ints]:
        each = setting.each_k()
        product = self._largest(setting)[:, None] - each % 32
        share = product // 2 + (each >> 8) % 8 - 4
        return share, product - share


class Cancelling:
    """C is the negative of the rounded product."""

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A: exponents in windows so wide that most products are not representable in C."""
        fields = setting.factor
        most = _window_bits(fields)
        bits = most - setting.below(DEPTH, 2)
        kept = np.array([fields.kept(width) for width in range(most + 1)], fields.dtype)
        spread(view, per_image(kept[bits]), per_image(fields.field(-(1 << bits >> 1))))

    b = a

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C from A and B; where they are none of this fill's, a sum can be infinite: zero."""
        if setting.multiplicands is None:
            everyday(view, setting.sum)
            return
        a, b = setting.multiplicands()
        with np.errstate(all="ignore"):
            total = _product(setting.factor, a, b)
            total[~np.isfinite(total)] = 0
            view[...] = setting.sum.nearest(-total)
        setting.sum.finite(view)


def _window_bits(fields: FloatFields) -> int:
    """Return how many exponents A and B of a cancelled product have, as a power of two."""
    return {2: 4, 3: 3, 7: 4, 10: 3}.get(fields.format.fraction_bits, 5)


def _product(fields: FloatFields, a: Raw, b: Raw) -> NDArray[np.float64]:
    """Return the sums of products in float64, the same bits everywhere.

    With exponents of -4 to 3 and 10 bits of fraction, all products are multiples of 2^-28, and 16
    of them stay below 2^12; with -8 to 7 and 7 bits, multiples of 2^-30 below 2^20: every partial
    sum, in whatever order, has at most 50 bits and is exact. Otherwise the order is fixed, and
    each step is one operation of IEEE 754.
    """
    left, right = fields.values(np.ascontiguousarray(a)), fields.values(np.ascontiguousarray(b))
    if fields.format.fraction_bits <= 10 and all(_is_narrow(fields, raw) for raw in (a, b)):
        exact: NDArray[np.float64] = left @ right
        return exact
    total = np.zeros((len(a), a.shape[1], b.shape[2]))
    for k in range(a.shape[2]):
        total += left[:, :, k, None] * right[:, k, None, :]
    return total


def _is_narrow(fields: FloatFields, raw: Raw) -> bool:
    """Whether all exponents are in the widest window of `Cancelling`."""
    half = 1 << _window_bits(fields) >> 1
    field = raw & fields.infinity
    return bool(field.min() >= fields.field(-half)) and bool(field.max() <= fields.field(half - 1))


@dataclass(frozen=True, kw_only=True)
class _Window:
    """Bits to keep and to add."""

    keep: int
    add: int = 0


def _window(fields: FloatFields, exponent: int, bits: int = 2) -> _Window:
    return _Window(keep=int(fields.kept(bits)), add=int(fields.field(exponent)))


def _spread_by(view: Raw, fields: FloatFields, windows: list[_Window], which: Ints) -> None:
    """Spread by one window for each element, row, column or image; `which` is broadcast."""
    keep = np.array([window.keep for window in windows], np.uint64).astype(fields.dtype)
    add = np.array([window.add for window in windows], np.uint64).astype(fields.dtype)
    spread(view, keep[which], add[which])


class Subnormal:
    """Subnormals of A, B, C and D, side by side in one image.

    Of four rows of A, the first is zero, with subnormals in C; the second is subnormal, with zeros
    in C. Every other column of B is subnormal. Everything else is so small that it shows.
    """

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A."""
        fields = setting.factor
        windows = [self._zero(fields), self._subnormal(fields), self._small(fields)]
        which = np.minimum(np.arange(view.shape[1]) % 4, 2)[:, None]
        _spread_by(view, fields, windows, np.broadcast_to(which, view.shape[1:]))

    def b(self, view: Raw, setting: Setting) -> None:
        """Fill B."""
        fields = setting.factor
        which = np.broadcast_to(np.arange(view.shape[2]) % 2, view.shape[1:])
        _spread_by(view, fields, [self._subnormal(fields), self._small(fields)], which)

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C; what is not subnormal is as large as products of A and a subnormal of B."""
        fields = setting.sum
        beside = _window(fields, setting.factor.least + 2)
        windows = [self._subnormal(fields), self._zero(fields), beside]
        which = np.minimum(np.arange(view.shape[1]) % 4, 2)[:, None]
        _spread_by(view, fields, windows, np.broadcast_to(which, view.shape[1:]))

    def _small(self, fields: FloatFields) -> _Window:
        return _window(fields, 2)

    def _zero(self, fields: FloatFields) -> _Window:
        return _Window(keep=int(fields.sign))

    def _subnormal(self, fields: FloatFields) -> _Window:
        return _Window(keep=int(fields.signed_fraction))


class Zeros:
    """Zeros of both signs in all matrices, -0 in A and C, or zeros in one of A and B."""

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A."""
        fields = setting.factor
        minus = _Window(keep=0, add=int(fields.sign))
        sign = _Window(keep=int(fields.sign))
        self._spread(view, setting, fields, [sign, minus, sign, _window(fields, -2)])

    def b(self, view: Raw, setting: Setting) -> None:
        """Fill B."""
        fields = setting.factor
        normal, sign = _window(fields, -2), _Window(keep=int(fields.sign))
        positive = _Window(keep=normal.keep & ~int(fields.sign), add=normal.add)
        self._spread(view, setting, fields, [sign, positive, normal, sign])

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C."""
        fields = setting.sum
        sign, minus = _Window(keep=int(fields.sign)), _Window(keep=0, add=int(fields.sign))
        self._spread(view, setting, fields, [sign, minus, _window(fields, -2), sign])

    def _spread(
        self, view: Raw, setting: Setting, fields: FloatFields, windows: list[_Window]
    ) -> None:
        which = setting.below(VARIANT, len(windows))
        _spread_by(view, fields, windows, per_image(which))


class Payloads:
    """NaN with random payloads, quiet and signalling, among everyday numbers."""

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A: a NaN at one place of a quarter of the rows."""
        self._place(view, setting)

    def b(self, view: Raw, setting: Setting) -> None:
        """Fill B: a NaN at one place of a quarter of the columns."""
        self._place(view.swapaxes(1, 2), setting)

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C: every other element."""
        fields = setting.sum
        # The exponent field is random and replaced: its lowest bit chooses.
        nan = (view >> fields.dtype.type(fields.shift) & fields.dtype.type(1)) * fields.infinity
        everyday(view, fields)
        np.bitwise_or(view, nan, out=view)

    def _place(self, view: Raw, setting: Setting) -> None:
        fields = setting.factor
        noise = view[:, :, 0].astype(np.int64)
        everyday(view, fields)
        at = setting.images[:, None], np.arange(view.shape[1]), (noise >> 2) % view.shape[2]
        view[at] |= np.where(noise & 3, 0, int(fields.infinity)).astype(fields.dtype)


class Special:
    """A few special values among everyday numbers, and one infinity that meets a zero."""

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A: one special value, and an infinity."""
        fields = setting.factor
        everyday(view, fields)
        self._place(view, setting, fields, SPOTS, 1)
        at = setting.images, setting.below(OFFSET, view.shape[1]), setting.pair()[0]
        view[at] = view[at] & fields.sign | fields.infinity

    def b(self, view: Raw, setting: Setting) -> None:
        """Fill B: one special value, and a zero where A's infinity meets it."""
        fields = setting.factor
        everyday(view, fields)
        self._place(view, setting, fields, SPOTS + 2, 1)
        at = setting.images, setting.pair()[0], setting.below(SPOTS + 4, view.shape[2])
        view[at] &= fields.sign

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C: six special values."""
        everyday(view, setting.sum)
        self._place(view, setting, setting.sum, SPOTS + 6, 6)

    def _place(
        self, view: Raw, setting: Setting, fields: FloatFields, column: int, count: int
    ) -> None:
        spots = setting.spots(column, 2 * count)
        table = fields.specials
        where, which = spots[:, :count], spots[:, count:]
        row, rest = where % view.shape[1], where // view.shape[1]
        view[setting.images[:, None], row, rest % view.shape[2]] = table[which % len(table)]
