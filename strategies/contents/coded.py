"""Floats that tell their place: one of A and B picks, the other and C are numbered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from strategies.contents.float_fields import FloatFields, Raw
from strategies.contents.settings import DEPTH, OFFSET, Setting, per_image, spread

_CODE_BITS = 7
"""Bits of the fraction in which elements are numbered: those of bf16."""


def _numbered(view: Raw, setting: Setting, fields: FloatFields, exponent: int) -> None:
    """Give each element a number, in steps of 2^-7 of the powers of two from an exponent on.

    Numbers start at another element in each image; bits below a step stay random.
    """
    _, rows, columns = view.shape
    if fields.shift < _CODE_BITS:
        _numbered_narrowly(view, setting, fields, exponent)
        return
    # A power of two for every matrix of the pages, so that a mask brings numbers round.
    count = rows * columns
    start = setting.below(DEPTH, count).astype(fields.dtype)
    codes = np.arange(count, dtype=fields.dtype).reshape(rows, columns) + per_image(start)
    step = fields.shift - _CODE_BITS
    codes &= fields.dtype.type(count - 1)
    codes <<= fields.dtype.type(step)
    codes += fields.field(exponent)
    spread(view, fields.dtype.type((1 << step) - 1), codes)


def _numbered_narrowly(view: Raw, setting: Setting, fields: FloatFields, exponent: int) -> None:
    """Give each element of a format of 8 bits a number, over again after eight exponents."""
    _, rows, columns = view.shape
    count = 8 << fields.shift
    start = per_image(setting.below(DEPTH, count))
    codes = np.arange(rows * columns).reshape(rows, columns) + start
    view[...] = (codes % count + int(fields.field(exponent))).astype(fields.dtype)


@dataclass(frozen=True)
class Coded:
    """Every element of D is the sum of one element each of C and of A or B."""

    numbered: str
    """"a" or "b": the one that is numbered; the other has a single 1 in each row or column."""

    def a(self, view: Raw, setting: Setting) -> None:
        """Fill A."""
        if self.numbered == "a":
            _numbered(view, setting, setting.factor, 0)
        else:
            self._pick(view, setting)

    def b(self, view: Raw, setting: Setting) -> None:
        """Fill B."""
        if self.numbered == "b":
            _numbered(view, setting, setting.factor, 0)
        else:
            self._pick(view.swapaxes(1, 2), setting)

    def c(self, view: Raw, setting: Setting) -> None:
        """Fill C."""
        _numbered(view, setting, setting.sum, -3)

    def _pick(self, view: Raw, setting: Setting) -> None:
        lines = np.arange(view.shape[1])
        view[...] = 0
        chosen = (lines ^ setting.below(OFFSET, setting.depth)[:, None]) % setting.depth
        view[setting.images[:, None], lines, chosen] = setting.factor.one
