"""Dot products of narrow floats and scaled blocks in exact numbers, as MMA-Sim 2.1.1 has sm_120.

Of products without scales, of scales 1X, and of e2m1 with scales 2X and 4X: a term for each
product, or for each 16 of them. Patterns in, patterns out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import frexp

FIELDS = {"e4m3": (4, 3), "e5m2": (5, 2), "e3m2": (3, 2), "e2m3": (2, 3), "e2m1": (2, 1),
          "f16": (5, 10), "f32": (8, 23)}  # fmt: skip
NAN = {"f16": 0x7FFF, "f32": 0x7FFF_FFFF}


@dataclass(frozen=True)
class Number:
    """A significand and an exponent; or what is none."""

    significand: Fraction = Fraction(0)
    exponent: int = 0
    special: str = ""
    sign: int = 1


def number(bits: int, name: str) -> Number:
    """Return what the low bits of a pattern stand for."""
    wide, fraction = FIELDS[name]
    sign = -1 if bits >> (wide + fraction) & 1 else 1
    field, rest = bits >> fraction & ((1 << wide) - 1), bits & ((1 << fraction) - 1)
    ends = name in ("e5m2", "f16", "f32") and field == (1 << wide) - 1
    if ends or (name == "e4m3" and bits & 0x7F == 0x7F):
        return Number(special="nan" if rest or name == "e4m3" else "inf", sign=sign)
    bias = (1 << wide - 1) - 1
    significand = Fraction(rest + (bool(field) << fraction), 1 << fraction)
    return Number(sign * significand, max(field, 1) - bias, sign=sign)


def scale(bits: int, name: str) -> Number:
    if (bits == 0xFF and name == "ue8m0") or (bits & 0x7F == 0x7F and name == "ue4m3"):
        return Number(special="nan")
    if name == "ue8m0":
        return Number(Fraction(1), bits - 127)
    return number(bits & 0x7F, "e4m3")


def dot(
    a: Sequence[int], b: Sequence[int], c: int, types: tuple[str, str, str],
    scales: tuple[Sequence[int], Sequence[int], str] | None = None, group: int = 1,
) -> int:  # fmt: skip
    """Return an element of D; `types` of A, B and D, `scales` of a row and a column."""
    kept, zero = (35, -139) if group > 1 else (25, -21 if types[2] == "f16" else -133)
    addend = number(c, types[2])
    infinities, terms = list[int](), list[tuple[Fraction, int]]()
    specials = [addend.special]
    if addend.special == "inf":
        infinities.append(addend.sign)
    terms.append((addend.significand, addend.exponent if addend.significand else zero))
    for start in range(0, len(a), group):
        factor, exponent = Fraction(1), 0
        if scales is not None:
            for some in scales[:2]:
                one = scale(some[start * len(some) // len(a)], scales[2])
                specials.append(one.special)
                factor, exponent = factor * one.significand, exponent + one.exponent
        total, products = Fraction(0), False
        for k in range(start, start + group):
            x, y = number(a[k], types[0]), number(b[k], types[1])
            if "inf" in (x.special, y.special):
                zeros = [one for one in (x, y) if not one.special and not one.significand]
                specials.append("nan" if zeros else "inf")
                infinities.append(x.sign * y.sign)
            specials += [one.special for one in (x, y) if one.special == "nan"]
            product, own = x.significand * y.significand, x.exponent + y.exponent
            products |= product != 0
            total += product if group == 1 else product * Fraction(2) ** own
        exponent += own if group == 1 else 0
        terms.append((total * factor, exponent if products and factor else zero))
    if "nan" in specials or len(set(infinities)) > 1:
        return NAN[types[2]]
    if infinities:
        return rounded(Fraction(infinities[0]) * Fraction(2) ** 200, types[2])
    top = max(exponent for _, exponent in terms)
    units = sum(int(one * Fraction(2) ** (exponent - top + kept)) for one, exponent in terms)
    return rounded(units * Fraction(2) ** (top - kept), types[2])


def rounded(value: Fraction, name: str) -> int:
    """Return f32 toward zero, f16 to nearest even; beyond the largest infinity, zero as +0."""
    wide, fraction = FIELDS[name]
    bias = (1 << wide - 1) - 1
    if not value:
        return 0
    size = abs(value)
    _, guess = frexp(size.numerator / size.denominator)
    least = max(guess - 1, 1 - bias)
    scaled = size / Fraction(2) ** (least - fraction)
    whole = round(scaled) if name == "f16" else int(scaled)
    pattern = min((least + bias - 1 << fraction) + whole, ((1 << wide) - 1) << fraction)
    return pattern and pattern | (value < 0) << (wide + fraction)
