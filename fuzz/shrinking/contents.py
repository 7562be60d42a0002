"""Making the contents of an image smaller: cells to zero, fewer terms of a sum, simpler values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, islice

import numpy as np

from fuzz.shrinking.trials import Trials
from strategies.cells import AXES, Cells, Ids, Image, cells_of
from strategies.simplification.terms import (
    CHOICES,
    SIZES,
    Dot,
    at_the_ends,
    dots,
    gathered,
    proposed,
)
from strategies.simplification.values import simpler_values

_SIMPLIFIED = 32
"""Most cells whose values are simplified; more than a person reads anyway."""


def simplify_values(trials: Trials, cells: Cells) -> None:
    """Replace values of the smallest example by simpler ones while the failure stays.

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


_PAIRED = 12
"""Most cells of which every pair is tried: 66 pairs, about one batch."""
_DRAWN = 2048
"""Sums of each size that are drawn: about a second on the simulated device."""
_DOTS = 2
"""Most dot products for which sums are drawn; of a fault in one there is rarely a second."""


def shrink_contents(trials: Trials) -> bool:
    """Make the image of the smallest example smaller until no change of one cell does.

    In the end no cell alone, and of few cells no pair, can become zero.

    Returns
    -------
    bool
        Whether anything was changed.

    Raises
    ------
    OutOfTimeError
        If the time is over; the smallest example is what was reached.
    """
    cells = cells_of(trials.best.program)
    before = trials.best
    _coarsely(trials, cells)
    while True:
        at, apart = trials.best, trials.apart
        zero_cells(trials)
        _zero_pairs(trials, cells)
        _gather_terms(trials, cells)
        simplify_values(trials, cells)
        if trials.best is at:
            _propose_terms(trials, cells)
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


def _gather_terms(trials: Trials, cells: Cells) -> None:
    """Take terms out of the dot products of the smallest example while the failure stays.

    Every step leaves fewer elements that are not zero.

    Raises
    ------
    OutOfTimeError
        If the time is over.
    """
    for dot in dots(cells, trials.best.image):
        for choose in CHOICES:
            while _take_first(trials, gathered(cells, trials.best.image, dot, choose)):
                pass


def _propose_terms(trials: Trials, cells: Cells) -> None:
    """Put a smaller dot product in the place of one, if some fails in the same way.

    Raises
    ------
    OutOfTimeError
        If the time is over.
    """
    for dot in islice(dots(cells, trials.best.image), _DOTS):
        if not dot.form.a_type.is_float:
            if dot.form.op is None:
                _take_first(trials, list(at_the_ends(cells, dot, trials.best.image)))
        else:
            for products, with_c, size in SIZES:
                left = set(cells.nonzero(trials.best.image).tolist())
                if dot.size(left) <= size or len(dot.held(left)) < products:
                    break
                if _propose(trials, cells, dot, products, with_c=with_c):
                    break


def _propose(trials: Trials, cells: Cells, dot: Dot, products: int, *, with_c: bool) -> bool:
    drawn = proposed(cells, trials.best.image, dot, products, with_c=with_c)
    return any(
        _take_first(trials, list(islice(drawn, trials.at_once)))
        for _ in range(_DRAWN // trials.at_once)
    )


def _take_first(trials: Trials, images: Sequence[Image]) -> bool:
    for smaller, fails in zip(images, trials.images_fail(images), strict=True):
        if fails and trials.take(trials.best.with_image(smaller)):
            return True
    return False
