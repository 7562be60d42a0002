"""The elements of an image by their values: as exact numbers, and simpler ones for each."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from oracle.formats import Format, Kind
from strategies.programs.single_instruction import one

_Cost = tuple[int, ...]


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


def simpler_values(type_: Format, value: int) -> list[int]:
    """Return raw bits that are simpler than some, the simplest first; never zero.

    One is the simplest; then powers of two, the nearer to one the simpler; then values with few
    bits of the significand; positive before negative.
    """
    cost = _cost(type_, value)
    offers = {other for other in _offers(type_, value) if other and _cost(type_, other) < cost}
    return sorted(offers, key=lambda other: (_cost(type_, other), other))


def _offers(type_: Format, value: int) -> Iterator[int]:
    yield one(type_)
    sign = 1 << (type_.bits - 1)
    if type_.kind is Kind.FLOAT:
        unit = 1 << (type_.bits - 1 - type_.exponent_bits)
        fraction, exponent = value & (unit - 1), value & (sign - 1) & ~(unit - 1)
        yield value & ~sign
        yield value & ~(unit - 1)
        yield exponent
        middle = (exponent // unit + type_.bias) // 2
        nearer = exponent // unit + (1 if exponent // unit < type_.bias else -1)
        for other in (type_.bias, middle, nearer):
            yield other * unit
            yield value & sign | other * unit | fraction
        for bit in range(unit.bit_length() - 1):
            yield value & ~(1 << bit)
        return
    yield value & ~sign
    magnitude = (1 << type_.bits) - value if _negative(type_, value) else value
    yield magnitude & (sign | sign - 1)
    yield 1 << (magnitude.bit_length() - 1)
    yield -(1 << (magnitude.bit_length() - 1)) & ((1 << type_.bits) - 1)
    yield magnitude >> 1
    for bit in range(type_.bits):
        yield value & ~(1 << bit)


def _negative(type_: Format, value: int) -> bool:
    return type_.kind is not Kind.UNSIGNED and bool(value >> (type_.bits - 1))


def _cost(type_: Format, value: int) -> _Cost:
    """Return what makes a value harder to read than another."""
    if value == one(type_):
        return (0,)
    negative = _negative(type_, value)
    if type_.kind is Kind.FLOAT:
        unit = 1 << (type_.bits - 1 - type_.exponent_bits)
        exponent = (value >> (unit.bit_length() - 1)) & ((1 << type_.exponent_bits) - 1)
        distance = abs(exponent - type_.bias)
        return (1, (value & (unit - 1)).bit_count(), negative, distance, value)
    magnitude = (1 << type_.bits) - value if negative else value
    return (1, negative, magnitude.bit_count(), magnitude.bit_length(), magnitude)
