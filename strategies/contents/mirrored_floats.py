"""Products that cancel each other, so that what is cut off beside them shows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from strategies.contents.float_fields import FloatFields, Raw
from strategies.contents.settings import (
    DEPTH,
    EXPONENT,
    OFFSET,
    VARIANT,
    Ints,
    Setting,
    per_image,
    spread,
)


@dataclass(frozen=True)
class Mirrored:
    """A pair of large products that cancel, over small ones and a small C.

    How far the small ones lie below: where the result keeps 24 bits, from right below the large
    pair on; where it keeps 11, far enough down for the last bits that the sum keeps (23 to 25
    below the largest on the targets that are known) to be among them.
    """

    unnormalised: bool = False
    """Whether the large significands are 1.5 or more, and their products so 2.25 or more."""

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A: opposite values at the two places of the pair."""
        fields = setting.factor
        largest, small = self._exponents(setting)
        spread(view, fields.kept(2), per_image(fields.field(small // 2)))
        first, second = setting.pair()
        large = self._large(view[setting.images, :, first], fields, largest // 2)
        view[setting.images, :, first] = large
        view[setting.images, :, second] = large ^ fields.sign

    def b(self, view: Raw, setting: Setting) -> None:
        """Fill B: equal values at the two places of the pair."""
        fields = setting.factor
        largest, small = self._exponents(setting)
        spread(view, fields.kept(2), per_image(fields.field(small - small // 2)))
        first, second = setting.pair()
        large = self._large(view[setting.images, first], fields, largest - largest // 2)
        view[setting.images, first] = large
        view[setting.images, second] = large

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C: as small as the small products, or zero in a quarter of the images."""
        fields = setting.sum
        _, small = self._exponents(setting)
        spread(view, fields.kept(2), per_image(fields.field(small)))
        view[setting.below(VARIANT, 4) == 0] = 0

    def _large(self, noise: Raw, fields: FloatFields, exponents: Ints) -> Raw:
        large: Raw = (noise & fields.signed_fraction) + fields.field(exponents)[:, None]
        return large | fields.first_fraction_bit if self.unnormalised else large

    def _gap(self, setting: Setting) -> Ints:
        """Return how far the largest of the small terms lie below the pair."""
        bits = setting.result.format.fraction_bits
        if bits < 23:
            return 24 - bits + setting.below(DEPTH, 10)
        return 2 + setting.below(DEPTH, 16 if bits == 23 else 56)

    def _exponents(self, setting: Setting) -> tuple[Ints, Ints]:
        """Return the exponent of the large products, and the least of the small ones'."""
        largest = setting.below(EXPONENT, 8) + 4
        return largest, largest - self._gap(setting) - 6


@dataclass(frozen=True)
class Pairs:
    """In each row one pair of products that cancel, at places of its own; elsewhere zeros.

    With `ladder`, C is an everyday number and the pair grows from row to row; else something
    small stands at a third place and C is zero or small.
    """

    ladder: bool

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A: x, -x, and one small power of two in each row, at any places."""
        fields, depth = setting.factor, setting.depth
        noise = [view[:, :, k].astype(np.int64) for k in range(4)]
        # The exponent field and the fraction of a random pattern are both random.
        first = noise[0] % depth
        partner = 1 + noise[1] % (depth - 1)
        other = np.where(partner == 1, 2, partner ^ 1)
        rows = np.arange(view.shape[1])
        if self.ladder:
            exponents = (rows + setting.below(OFFSET, 34)[:, None]) % 34 - 16
        else:
            exponents = setting.below(EXPONENT, 8)[:, None] + 0 * rows
        large = (noise[2].astype(fields.dtype) & fields.signed_fraction) + fields.field(exponents)
        at = setting.images[:, None], rows
        view[...] = 0
        view[*at, first] = large
        view[*at, first ^ partner] = large ^ fields.sign
        if not self.ladder:
            span = 64 if fields.format.name == "f64" else 32
            small = fields.powers(exponents - 1 - (noise[3] >> 1) % span)
            view[*at, first ^ other] = small | np.where(noise[3] & 1, fields.sign, 0).astype(
                fields.dtype
            )

    def b(self, view: Raw, setting: Setting) -> None:
        """Fill B: each column holds one value."""
        fields = setting.factor
        row = view[:, :1].copy()
        spread(row, fields.signed_fraction, fields.field(8 if self.ladder else 1))
        view[...] = row

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C: X of the ladder, or zero, or of any size below the pair."""
        fields = setting.sum
        if self.ladder:
            spread(view, fields.kept(2), fields.field(-8))
            return
        lowest = setting.below(DEPTH, 24) - 20
        spread(view, fields.kept(2), per_image(fields.field(lowest)))
        view[setting.below(VARIANT, 2) == 0] = 0
