"""Making the contents of an image smaller: cells to zero, in groups, one by one, in pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from fuzz.findings.bare import one
from fuzz.findings.cells import AXES, Cells, Ids, cells_of
from fuzz.shrinking.proposals import gather_terms, propose_terms
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


_PAIRED = 12
"""Most cells of which every pair is tried: 66 pairs, about one batch."""


def shrink_contents(trials: Trials) -> bool:
    """Make the image of the smallest draft smaller until no change of one cell does.

    In the end no cell alone, and of few cells no pair, can become zero.

    Returns
    -------
    bool
        Whether anything was changed.

    Raises
    ------
    OutOfTimeError
        If the time is over; the smallest draft is what was reached.
    """
    cells = cells_of(trials.best.program)
    before = trials.best
    _coarsely(trials, cells)
    while True:
        at, apart = trials.best, trials.apart
        zero_cells(trials)
        _zero_pairs(trials, cells)
        gather_terms(trials, cells)
        simplify_values(trials, cells)
        if trials.best is at:
            propose_terms(trials, cells)
        if trials.best is at and trials.apart is apart:
            return trials.best is not before


def _coarsely(trials: Trials, cells: Cells) -> None:
    """Zero what is large, and what stands outside of one row, column and k."""
    groups = cells.groups()
    for _, parts in zip(range(4), groups, strict=False):
        _zero(trials, cells, parts)
    for axis in AXES:
        _keep_one_line(trials, cells, axis)
    for parts in groups:
        _zero(trials, cells, parts)


def _keep_one_line(trials: Trials, cells: Cells, axis: str) -> None:
    """Zero every line of an axis but one, whichever is enough."""
    lines = cells.along(axis)
    if len(lines) < 2:
        return
    every = np.unique(np.concatenate(lines))
    left = _left(trials, cells)
    holding = [line for line in lines if np.isin(line, left).any()]
    images = [cells.without(trials.best.image, np.setdiff1d(every, line)) for line in holding]
    for image, fails in zip(images, trials.images_fail(images), strict=True):
        if fails:
            trials.take(trials.best.with_image(image))
            return


def zero_cells(trials: Trials) -> bool:
    """Zero halves, quarters, … and in the end single cells, until no single one can go.

    Returns
    -------
    bool
        Whether any was.

    Raises
    ------
    OutOfTimeError
        If the time is over.
    """
    cells, before = cells_of(trials.best.program), trials.best
    left = _left(trials, cells)
    size = max(1, len(left) // 2)
    while len(left):
        parts = [left[start : start + size] for start in range(0, len(left), size)]
        taken = _zero(trials, cells, parts)
        if size == 1 and not taken:
            break
        size = max(1, size // 2)
        left = _left(trials, cells)
    for width in (4, 2):
        _zero(trials, cells, cells.runs(width))
    return trials.best is not before


def _zero_pairs(trials: Trials, cells: Cells) -> None:
    """Zero two cells together, such as the factors of a product, until no two can go."""
    while True:
        left = _left(trials, cells)
        if len(left) > _PAIRED:
            return
        pairs = [np.array(pair) for pair in combinations(left.tolist(), 2)]
        if not _zero(trials, cells, pairs):
            return


def _left(trials: Trials, cells: Cells) -> Ids:
    return cells.nonzero(trials.best.image)


def _zero(trials: Trials, cells: Cells, groups: Sequence[Ids]) -> bool:
    """Zero groups of cells where the failure stays; return whether any was."""
    left = np.zeros(len(cells.starts), np.bool_)
    left[_left(trials, cells)] = True
    held = [group for group in groups if left[group].any()]
    image = trials.best.image
    alone = trials.images_fail([cells.without(image, group) for group in held])
    good = [group for group, fails in zip(held, alone, strict=True) if fails]
    if not good:
        return False
    # What can go alone need not be able to go together: the longest run that can, does.
    runs = [np.concatenate(good[: count + 1]) for count in range(len(good))]
    images = [cells.without(image, run) for run in runs]
    # The first run is the first group alone.
    together = [True, *trials.images_fail(images[1:])]
    longest = max(index for index, fails in enumerate(together) if fails)
    return trials.take(trials.best.with_image(images[longest]))
