"""Numbers that elements stand for, and the elements nearest to numbers; in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

from oracle.formats import Format, Kind


def number(type_: Format, raw: int) -> Fraction | None:
    """Return what the raw bits of an element stand for; None for infinities and NaN."""
    if type_.kind is not Kind.FLOAT:
        negative = type_.kind is Kind.SIGNED and raw >> (type_.bits - 1)
        return Fraction(raw - (1 << type_.bits) if negative else raw)
    raw >>= type_.ignored_bits
    fraction = raw & ((1 << type_.fraction_bits) - 1)
    field = raw >> type_.fraction_bits & ((1 << type_.exponent_bits) - 1)
    if field == (1 << type_.exponent_bits) - 1:
        return None
    significand = fraction + (1 << type_.fraction_bits if field else 0)
    scale = max(field, 1) - type_.bias - type_.fraction_bits
    sign = -1 if raw >> (type_.fraction_bits + type_.exponent_bits) else 1
    return sign * significand * Fraction(2) ** scale


def nearest(type_: Format, value: Fraction) -> int:
    """Return the raw bits of the finite element that is nearest to a number; ties to even."""
    if type_.kind is not Kind.FLOAT:
        signed = type_.kind is Kind.SIGNED
        low = -(1 << (type_.bits - 1)) if signed else 0
        high = (1 << (type_.bits - signed)) - 1
        return min(max(round(value), low), high) & ((1 << type_.bits) - 1)
    sign = 1 << (type_.bits - 1 - type_.ignored_bits) if value < 0 else 0
    magnitude = abs(value)
    least = 1 - type_.bias
    scale = max(least, exponent(magnitude)) if magnitude else least
    units = round(magnitude / Fraction(2) ** (scale - type_.fraction_bits))
    # A sum of the exponent field less one and the significand with its leading bit; where
    # rounding carries, the field goes up by itself.
    raw = (scale + type_.bias - 1 << type_.fraction_bits) + units
    largest = ((1 << type_.exponent_bits) - 1 << type_.fraction_bits) - 1
    return (sign | min(raw, largest)) << type_.ignored_bits


def exponent(magnitude: Fraction) -> int:
    """Return the exponent of the power of two that is nearest from below."""
    guess = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    return guess if Fraction(2) ** guess <= magnitude else guess - 1
