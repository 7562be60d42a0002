"""The probes of a unit of scaled blocks (9.7.14.3): as `float_probes`, with scales beside them."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from oracle.isa.forms import SCALES_OF_ONE
from oracle.measuring.probes import FAR, SIGNS, Dots, Sheet, far_addends

_SEED = 0x7363_616C  # of random parts
_SPECIAL = {"ue8m0": (0x00, 0x01, 0xFE, 0xFF), "ue4m3": (0x00, 0x01, 0x07, 0x08, 0x7E, 0x7F)}
"""Scales at the ends: of ue8m0 the least, the largest and NaN; of ue4m3 zero and subnormal ones,
too (OCP MX 1.0, 5.4.1; PTX ISA 5.2.3)."""


def scaled_probes(types: str, depth: int, scales: int, scale_type: str) -> Dots:
    """Return the probes of a unit: `depth` is K, of which each of `scales` is for neighbours."""
    sheet, rng = Sheet(types, depth, scale_type, scales), np.random.default_rng(_SEED)
    far_addends(sheet)
    _groups(sheet)
    _scales(sheet, rng)
    _zeros(sheet)
    _special(sheet)
    return sheet.dots()


def _groups(sheet: Sheet) -> None:
    """Add C and two products, each of which is lost alone: whether they are one term."""
    ends = [1 << bit for bit in range(sheet.depth.bit_length() - 1)]
    pairs = [(0, end) for end in ends] + [(end - 1, end) for end in ends]
    for (i, j), sign, distance in product(dict.fromkeys(pairs), SIGNS, FAR):
        row = sheet.row({i: sign, j: sign})
        sheet.values("groups", row, np.abs(row), -sign * 2.0**distance)
    for count, distance in product((4, 8, 16, sheet.depth), FAR):
        row = sheet.row(dict.fromkeys(range(count), 1.0))
        sheet.values("groups", row, row, -(2.0**distance))


def _scaled(sheet: Sheet, count: int, at: int, pattern: int) -> NDArray[np.uint8]:
    found = np.full((count, sheet.scales), SCALES_OF_ONE[sheet.scale_type], np.uint8)
    found[:, at] = pattern
    return found


def _scales(sheet: Sheet, rng: np.random.Generator) -> None:
    """Scale products by every pattern, in A and in B, and beside others that are not scaled."""
    one, ones = SCALES_OF_ONE[sheet.scale_type], np.ones(sheet.depth)
    patterns = np.arange(256, dtype=np.uint8) if sheet.scale_type == "ue8m0" else np.arange(128)
    plain = _scaled(sheet, len(patterns), 0, one)
    for at in {0, sheet.scales - 1}:
        own = plain.copy()
        own[:, at] = patterns
        for both in ((own, plain), (plain, own), (own, own[::-1])):
            for addend in (0.0, 1.0, 1.0 + 2.0**-23):
                sheet.values("scales", ones, ones, np.full(len(patterns), addend), both)
    count = 400
    near = [rng.integers(one - 6, one + 7, (count, sheet.scales)).astype(np.uint8) for _ in "ab"]
    a, b = (rng.choice([-1.5, -1.0, 0.0, 1.0, 2.0, 4.0], (count, sheet.depth)) for _ in "ab")
    c = rng.standard_normal(count) * 2.0 ** rng.integers(-30, 40, count)
    sheet.values("rounding", a, b, c, (near[0], near[1]))


def _zeros(sheet: Sheet) -> None:
    """Add C of every size beside products that are zero, and tiny products beside a C of zero."""
    none, ones = np.zeros(sheet.depth), np.ones(sheet.depth)
    exponents = np.arange(-126, 41)
    for sign, significand in product(SIGNS, (2.0 - 2.0**-23, 1.0 + 2.0**-23)):
        sheet.values("zeros beside C", none, ones, sign * np.ldexp(significand, exponents))
    least = 0 if sheet.scale_type == "ue8m0" else 1
    for down in range(least, SCALES_OF_ONE[sheet.scale_type] + 20, 1):
        scales = _scaled(sheet, 2, 0, down), _scaled(sheet, 2, 0, 64)
        row = sheet.row({0: 1.5, 1: -1.0})
        sheet.values("zeros beside products", np.stack([row, -row]), np.abs(row), 0.0, scales)


def _special(sheet: Sheet) -> None:
    ones = np.ones(sheet.depth)
    for x, y in product(_SPECIAL[sheet.scale_type], repeat=2):
        scales = _scaled(sheet, 1, 0, x), _scaled(sheet, 1, sheet.scales - 1, y)
        for row, c in product((ones, 0.0 * ones, -ones), (1.0, 0.0, np.inf, 2.0**127)):
            sheet.values("NaN", row, ones, c, scales)
    for fmt, is_b in ((sheet.a, 0), (sheet.b, 1)):
        for value in (np.nan, np.inf, -np.inf) if fmt.has_nan else ():
            both = [sheet.row({0: value}, 1.0), ones]
            for c in (1.0, -np.inf, np.nan):
                sheet.values("NaN", both[is_b], both[1 - is_b], c)
