"""Making the contents of an image smaller: cells to zero, in groups, one by one, in pairs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from fuzz.shrinking.cells import AXES, Cells, Ids, cells_of
from fuzz.shrinking.gathering import gather_terms
from fuzz.shrinking.proposals import propose_terms
from fuzz.shrinking.trials import Trials
from fuzz.shrinking.values import simplify_values

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
    holding = [line for line in lines if len(np.intersect1d(line, _left(trials, cells)))]
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
    left = _left(trials, cells)
    held = [group for group in groups if len(np.intersect1d(group, left))]
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
