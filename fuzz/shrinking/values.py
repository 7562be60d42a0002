"""Simpler values in place of those that have to stay: one, powers of two, fewer bits, no sign."""

from __future__ import annotations

from collections.abc import Iterator

from fuzz.shrinking.cells import Cells
from fuzz.shrinking.trials import Trials
from oracle.formats import Format, Kind

_Cost = tuple[int, ...]

_SIMPLIFIED = 32
"""Most cells whose values are simplified; more than a person reads anyway."""


def simplify_values(trials: Trials, cells: Cells) -> None:
    """Replace values of the smallest draft by simpler ones while the failure stays.

    Raises
    ------
    OutOfTimeError
        If the time is over.
    """
    while True:
        left = cells.nonzero(trials.best.image).tolist()
        if len(left) > _SIMPLIFIED or not _simplify_once(trials, cells, left):
            return


def _simplify_once(trials: Trials, cells: Cells, left: list[int]) -> bool:
    """Replace each value by the simplest that does, as many of them as go together."""
    image = trials.best.image
    offers = [
        (cell, value)
        for cell in left
        for value in simpler_values(cells.types[cell], cells.value(image, cell))
    ]
    images = [cells.with_value(image, cell, value) for cell, value in offers]
    chosen: dict[int, int] = {}
    for (cell, value), fails in zip(offers, trials.images_fail(images), strict=True):
        if fails:
            chosen.setdefault(cell, value)
    if not chosen:
        return False
    runs = [image]
    for cell, value in chosen.items():
        runs.append(cells.with_value(runs[-1], cell, value))
    fitting = [True, *trials.images_fail(runs[2:])]
    longest = max(index for index, fails in enumerate(fitting) if fails)
    return trials.take(trials.best.with_image(runs[1 + longest]))


def simpler_values(type_: Format, value: int) -> list[int]:
    """Return raw bits that are simpler than some, the simplest first; never zero.

    One is the simplest; then powers of two, the nearer to one the simpler; then values with few
    bits of the significand; positive before negative.
    """
    cost = _cost(type_, value)
    offers = {other for other in _offers(type_, value) if other and _cost(type_, other) < cost}
    return sorted(offers, key=lambda other: (_cost(type_, other), other))


def _offers(type_: Format, value: int) -> Iterator[int]:
    one = _one(type_)
    yield one
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


def _one(type_: Format) -> int:
    """Return the raw bits of one."""
    if type_.kind is Kind.FLOAT:
        return type_.bias << (type_.bits - 1 - type_.exponent_bits)
    return 1


def _negative(type_: Format, value: int) -> bool:
    return type_.kind is not Kind.UNSIGNED and bool(value >> (type_.bits - 1))


def _cost(type_: Format, value: int) -> _Cost:
    """Return what makes a value harder to read than another."""
    if value == _one(type_):
        return (0,)
    negative = _negative(type_, value)
    if type_.kind is Kind.FLOAT:
        unit = 1 << (type_.bits - 1 - type_.exponent_bits)
        exponent = (value >> (unit.bit_length() - 1)) & ((1 << type_.exponent_bits) - 1)
        distance = abs(exponent - type_.bias)
        return (1, (value & (unit - 1)).bit_count(), negative, distance, value)
    magnitude = (1 << type_.bits) - value if negative else value
    return (1, negative, magnitude.bit_count(), magnitude.bit_length(), magnitude)
