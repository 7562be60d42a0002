"""Floats drawn element by element: exponents from windows, signs and fractions at random."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
        # 2^4 exponents of f16's 30, 2^6 of the 254 of f32 and the like.
        most = 4 if fields.format.exponent_bits == 5 else 6
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
        """Fill A; its exponents are in a window of at most 8 around 1."""
        fields = setting.factor
        bits = 1 + setting.below(DEPTH, 3)
        kept = np.array([fields.kept(width) for width in range(4)], fields.dtype)
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


def _product(
    fields: FloatFields, a: Raw, b: Raw
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the sums of products in float64, the same bits everywhere.

    With exponents of -4 to 3 and at most 10 bits of fraction, all products are multiples of
    2^-28, and 32 of them stay below 2^13: every partial sum in whatever order has at most 41 bits
    and is exact. Otherwise the order is fixed and each step is one operation of IEEE 754.
    """
    left, right = fields.values(np.ascontiguousarray(a)), fields.values(np.ascontiguousarray(b))
    if fields.format.fraction_bits <= 10 and all(_is_narrow(fields, raw) for raw in (a, b)):
        return left @ right
    total = np.zeros((len(a), a.shape[1], b.shape[2]))
    for k in range(a.shape[2]):
        total += left[:, :, k, None] * right[:, k, None, :]
    return total


def _is_narrow(fields: FloatFields, raw: Raw) -> bool:
    field = raw & fields.infinity
    return bool(field.min() >= fields.field(-4)) and bool(field.max() <= fields.field(3))


@dataclass(frozen=True, kw_only=True)
class _Window:
    """Bits to keep and to add, for one variant of a fill."""

    keep: int
    add: int = 0


def _by_variant(view: Raw, setting: Setting, fields: FloatFields, rows: list[_Window]) -> None:
    variant = setting.below(VARIANT, len(rows))
    keep = np.array([row.keep for row in rows], np.uint64).astype(fields.dtype)
    add = np.array([row.add for row in rows], np.uint64).astype(fields.dtype)
    spread(view, per_image(keep[variant]), per_image(add[variant]))


def _window(fields: FloatFields, exponent: int, bits: int = 2) -> _Window:
    return _Window(keep=int(fields.kept(bits)), add=int(fields.field(exponent)))


class Subnormal:
    """In turn A, B, C, and D or all multiplicands are subnormal."""

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A."""
        fields = setting.factor
        rows = [self._subnormal(fields), self._normal(fields), self._zero(fields)]
        _by_variant(view, setting, fields, [*rows, self._small(setting, 0)])

    def b(self, view: Raw, setting: Setting) -> None:
        """Fill B."""
        fields = setting.factor
        rows = [self._normal(fields), self._subnormal(fields), self._normal(fields)]
        _by_variant(view, setting, fields, [*rows, self._small(setting, 1)])

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C: of the products' size, subnormal itself, or zero."""
        fields = setting.sum
        beside = _window(fields, setting.factor.least + 6)
        _by_variant(
            view, setting, fields,
            [beside, beside, self._subnormal(fields), self._zero(fields)],
        )  # fmt: skip

    def _normal(self, fields: FloatFields) -> _Window:
        return _window(fields, 6)

    def _zero(self, fields: FloatFields) -> _Window:
        return _Window(keep=int(fields.sign))

    def _subnormal(self, fields: FloatFields) -> _Window:
        return _Window(keep=int(fields.signed_fraction))

    def _small(self, setting: Setting, half: int) -> _Window:
        """Return what gives products a little below D's least normal number, or the least."""
        fields, wanted = setting.factor, setting.result.least - 5
        if 2 * fields.least > wanted:
            return self._subnormal(fields)
        return _window(fields, (wanted + half) // 2)


class Zeros:
    """Zeros of both signs in all matrices, -0 in A and C, or zeros in one of A and B."""

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A."""
        fields = setting.factor
        minus = _Window(keep=0, add=int(fields.sign))
        sign = _Window(keep=int(fields.sign))
        _by_variant(view, setting, fields, [sign, minus, sign, _window(fields, -2)])

    def b(self, view: Raw, setting: Setting) -> None:
        """Fill B."""
        fields = setting.factor
        normal, sign = _window(fields, -2), _Window(keep=int(fields.sign))
        positive = _Window(keep=normal.keep & ~int(fields.sign), add=normal.add)
        _by_variant(view, setting, fields, [sign, positive, normal, sign])

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C."""
        fields = setting.sum
        sign, minus = _Window(keep=int(fields.sign)), _Window(keep=0, add=int(fields.sign))
        _by_variant(view, setting, fields, [sign, minus, _window(fields, -2), sign])


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
    """A few special values among everyday numbers, and in half of the images infinity x 0."""

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A: two special values, or one infinity."""
        fields = setting.factor
        everyday(view, fields)
        self._place(view, setting, fields, SPOTS, 2)
        half = self._with_infinity(setting)
        row, k = setting.below(OFFSET, view.shape[1])[half], setting.pair()[0][half]
        view[half, row, k] |= fields.infinity
        view[half, row, k] &= ~fields.fraction

    def b(self, view: Raw, setting: Setting) -> None:
        """Fill B: two special values, and a zero where A's infinity meets it."""
        fields = setting.factor
        everyday(view, fields)
        self._place(view, setting, fields, SPOTS + 4, 2)
        half = self._with_infinity(setting)
        column, k = setting.below(SPOTS + 8, view.shape[2])[half], setting.pair()[0][half]
        view[half, k, column] &= fields.sign

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C: six special values."""
        everyday(view, setting.sum)
        self._place(view, setting, setting.sum, SPOTS + 10, 6)

    def _with_infinity(self, setting: Setting) -> Ints:
        return np.flatnonzero(setting.below(VARIANT, 2) == 1)

    def _place(
        self, view: Raw, setting: Setting, fields: FloatFields, column: int, count: int
    ) -> None:
        spots = setting.draws[:, column : column + 2 * count].astype(np.int64)
        table = fields.specials
        where, which = spots[:, :count], spots[:, count:]
        row, rest = where % view.shape[1], where // view.shape[1]
        view[setting.images[:, None], row, rest % view.shape[2]] = table[which % len(table)]
