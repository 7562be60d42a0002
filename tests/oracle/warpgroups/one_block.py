"""One element of D of a warpgroup's multiplication, in fractions, and where threads hold it.

Written from the figures as they were measured (H200, 2026-11-28) and from the tables of
9.7.15.5.1.1 and 9.7.15.6.1: no code of the oracle, none of its rows.
"""

from __future__ import annotations

import math
from fractions import Fraction

from reference.numbers import BF16, F16, F32, TF32, Layout, Number, decode, encode

E5M2, E4M3 = Layout(5, 2), Layout(4, 3)
LAYOUTS = {"f16": F16, "bf16": BF16, "tf32": TF32, "f32": F32, "e5m2": E5M2, "e4m3": E4M3}
KEPT = {"f16": 25, "bf16": 25, "tf32": 25, "e4m3": 13, "e5m2": 13}
"""Bits below the largest exponent."""
ZERO = {"f16": -21, "f32": -133}
"""Exponent of a zero term, by the type of D."""


def number(bits: int, name: str) -> Number:
    if name == "e4m3":
        field, fraction, negative = bits >> 3 & 15, bits & 7, bool(bits >> 7)
        if bits & 0x7F == 0x7F:
            return Number("nan", negative)
        exponent = max(field, 1) - 7
        value = (Fraction(fraction, 8) + (1 if field else 0)) * Fraction(2) ** exponent
        return Number("finite", negative, -value if negative else value, exponent)
    return decode(bits, LAYOUTS[name])


def dot(types: str, a: list[int], b: list[int], d: int) -> int:
    """Return the pattern of a . b + d; `types` of D, A and B, such as "f32.f16.f16"."""
    d_name, a_name, b_name = types.split(".")
    layout = LAYOUTS[d_name]
    nan = {"f32": 0x7FFFFFFF, "f16": 0x7FFF}[d_name]
    pairs = [(number(x, a_name), number(y, b_name)) for x, y in zip(a, b, strict=True)]
    before = number(d, d_name)
    infinities = set[bool]()
    terms = [(before.value, before.exponent if before.value else ZERO[d_name])]
    if before.kind == "inf":
        infinities.add(before.negative)
    for x, y in pairs:
        kinds = {x.kind, y.kind}
        if "nan" in kinds or (kinds == {"inf", "finite"} and not (x.value or y.value)):
            return nan
        if "inf" in kinds:
            infinities.add(x.negative != y.negative)
        product = x.value * y.value
        terms.append((product, x.exponent + y.exponent if product else ZERO[d_name]))
    if before.kind == "nan" or len(infinities) == 2:
        return nan
    all_ones = ((1 << layout.exponent_bits) - 1) << layout.fraction_bits
    if infinities:
        return all_ones | infinities.pop() << (layout.exponent_bits + layout.fraction_bits)
    unit = Fraction(2) ** (max(exponent for _, exponent in terms) - KEPT[a_name])
    total = sum(math.trunc(value / unit) for value, _ in terms) * unit
    if d_name == "f16":
        return encode(total, layout, "rn") if abs(encode(total, layout, "rn")) % (1 << 15) else 0
    short = Layout(8, 13) if KEPT[a_name] == 13 else layout
    found = encode(total, short, "rz", overflow="inf") << (23 - short.fraction_bits)
    return found if found % (1 << 31) else 0


def holder(row: int, column: int, bits: int) -> tuple[int, int, int]:
    """Return thread, register and lowest bit of an element of D."""
    warp, inside = divmod(row, 16)
    upper, group = divmod(inside, 8)
    block, right = divmod(column, 8)
    quarter, odd = divmod(right, 2)
    element = 4 * block + 2 * upper + odd
    thread = 32 * warp + 4 * group + quarter
    register, part = divmod(element, 32 // bits)
    return thread, register, part * bits


def nibble_at(row: int, place: int, per_row: int, selector: int) -> tuple[int, int]:
    """Return thread and lowest bit of the metadata of four elements (two of tf32) of a row."""
    warp, inside = divmod(row, 16)
    upper, group = divmod(inside, 8)
    first = 32 * warp + 4 * group
    if per_row == 8:
        return first + 2 * selector + place // 4, 16 * upper + 4 * (place % 4)
    return first + upper + 2 * (place // 8), 4 * (place % 8)
