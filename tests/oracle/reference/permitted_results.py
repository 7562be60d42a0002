"""Every result that the page leaves open, by brute force, for sums of a few values.

A result is a binary tree over the values in some order; each addition is rounded to one or the
other neighbour of a precision; each value that stems from a subnormal is kept or zero.
"""

from fractions import Fraction
from functools import cache
from itertools import product as choices

from reference.numbers import floor_log2


def neighbours(value, layout, flush=True):
    """The finite numbers of a format on both sides of a value; 0 too if it is subnormal."""
    if value == 0:
        return {value}
    exponent = max(floor_log2(abs(value)), layout.least_exponent)
    quantum = Fraction(2) ** (exponent - layout.fraction_bits)
    below = value // quantum * quantum
    found = {below} if below == value else {below, below + quantum}
    if flush and abs(value) < Fraction(2) ** layout.least_exponent:
        found.add(Fraction(0))
    return found


def sums(values, layout, flush=True):
    """All results of adding some values in any order, associated and rounded in any way."""

    @cache
    def of(indices):
        if len(indices) == 1:
            return frozenset((values[indices[0]],))
        found = set()
        rest = indices[1:]
        for mask in range(2 ** len(rest) - 1):  # the part with the first index, never all
            left = (indices[0], *(i for n, i in enumerate(rest) if mask >> n & 1))
            right = tuple(i for n, i in enumerate(rest) if not mask >> n & 1)
            for x in of(left):
                for y in of(right):
                    found.update(neighbours(x + y, layout, flush))
        return frozenset(found)

    return of(tuple(range(len(values))))


def fused(values, exponents, layout, kept):
    """The result of one block that truncates at `kept` bits below the largest exponent."""
    quantum = Fraction(2) ** (max(exponents) - kept)
    total = sum(int(value / quantum) for value in values) * quantum
    return neighbours(total, layout)


def flushings(values, loose):
    """All ways to replace some of the loose values by zero."""
    options = [(v, Fraction(0)) if may else (v,) for v, may in zip(values, loose, strict=True)]
    return set(choices(*options))
