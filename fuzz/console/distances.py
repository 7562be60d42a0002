"""How far what came out is from what was expected, and how that is shown."""

from __future__ import annotations

from fuzz.repro.numbers import number, ordinal, signed
from fuzz.verdicts import Difference
from oracle.formats import Format

LEVELS = (1, 2, 4, 16, 256, 4096, 1 << 16, 1 << 20, 1 << 31)
"""Least distance of each of the levels 1 to 9; what lies between grows from a bit to a word."""
NOT_A_NUMBER = "N"


def units(one: Difference, type_: Format | None) -> int | None:
    """Return how far two values are apart, with a sign; None if one of them is NaN.

    Floats: in units in the last place, that is, steps from one number of the format to the next,
    with +0 and -0 as one. Integers: their difference. What has no type (registers, bytes outside of
    every result): the number of bits that differ.
    """
    if type_ is None:
        return (one.expected ^ one.actual).bit_count()
    if not type_.is_float:
        return signed(one.actual, type_) - signed(one.expected, type_)
    if "NaN" in (number(one.expected, type_).kind, number(one.actual, type_).kind):
        return None
    return ordinal(one.actual, type_) - ordinal(one.expected, type_)


def unit_words(type_: Format | None) -> str:
    """Say what `units` counts."""
    if type_ is None:
        return "differing bits"
    return "units in the last place" if type_.is_float else "difference"


def level(distance: int | None) -> str:
    """Return a digit for a distance, from 0 (the other zero) to 9; "N" where one is NaN."""
    if distance is None:
        return NOT_A_NUMBER
    return str(sum(abs(distance) >= least for least in LEVELS))


def level_words(sign: str) -> str:
    """Say what a level means."""
    if sign == NOT_A_NUMBER:
        return "NaN"
    index = int(sign)
    if index == 0:
        return "the other zero"
    low = LEVELS[index - 1]
    if index == len(LEVELS):
        return f"{_short(low)} or more"
    high = LEVELS[index] - 1
    return _short(low) if low == high else f"{_short(low)} to {_short(LEVELS[index])}"


def _short(value: int) -> str:
    power = value.bit_length() - 1
    return str(value) if value < 1 << 16 else f"2^{power}"
