"""Fewer terms in a dot product: what is taken out goes into the accumulator.

Zeroing single elements stops where terms hold each other up: sums that cancel, or a fault that
needs a large term beside a small dot. There, the rest of the sum can stand in C instead, and a
product takes two elements less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np

from fuzz.shrinking.cells import Cells
from fuzz.shrinking.dots import ENOUGH, Dot, dots, term
from fuzz.shrinking.numbers import nearest, number
from fuzz.shrinking.trials import Trials

_Choice = Callable[[int], Iterable[set[int]]]
"""For a number of terms, which of them may go together."""
_SLACK = (0, 1, -1)
"""Units in the last place by which C is tried next to the nearest."""


def gather_terms(trials: Trials, cells: Cells) -> None:
    """Take terms out of the dot products of the smallest draft while the failure stays.

    Every step leaves fewer elements that are not zero.

    Raises
    ------
    OutOfTimeError
        If the time is over.
    """
    for dot in dots(cells, trials.best.image):
        for choose in _CHOICES:
            while _gather_once(trials, cells, dot, choose):
                pass


def _gather_once(trials: Trials, cells: Cells, dot: Dot, choose: _Choice) -> bool:
    """Take some terms out of one dot product; return whether that was possible."""
    image = trials.best.image
    left = set(cells.nonzero(image).tolist())
    terms = dot.held(left)
    if dot.size(left) <= ENOUGH:
        return False
    values = [term(dot, cells, image, k) for k in terms]
    before = number(dot.form.c_type, cells.value(image, dot.c))
    images = []
    for gone in choose(len(terms)):
        factors = [cell for i in gone for cell in (dot.a[terms[i]], dot.b[terms[i]])]
        cleared = cells.without(image, np.unique(factors).astype(np.intp))
        rest = [before, *(values[i] for i in gone)]
        for raw in _accumulators(dot, cells.value(image, dot.c), rest):
            smaller = cells.with_value(cleared, dot.c, raw)
            if len(cells.nonzero(smaller)) < len(left):
                images.append(smaller)
    for smaller, fails in zip(images, trials.images_fail(images), strict=True):
        if fails and trials.take(trials.best.with_image(smaller)):
            return True
    return False


def _all_but_one(count: int) -> Iterator[set[int]]:
    every = set(range(count))
    yield every
    yield from (every - {index} for index in range(count))


def _all_but_two(count: int) -> Iterator[set[int]]:
    every = set(range(count))
    yield from (every - set(pair) for pair in combinations(range(count), 2))


def _one(count: int) -> Iterator[set[int]]:
    yield from ({index} for index in range(count))


def _two(count: int) -> Iterator[set[int]]:
    yield from map(set, combinations(range(count), 2))


_CHOICES: tuple[_Choice, ...] = (_all_but_one, _one, _two, _all_but_two)
"""Which of the terms go, the promising choices first."""


def _accumulators(dot: Dot, raw: int, rest: Sequence[Fraction | None]) -> list[int]:
    """Return raw bits for C, given what it and the terms that go stood for."""
    numbers = [value for value in rest if value is not None]
    if len(numbers) < len(rest):
        return [raw]
    type_ = dot.form.c_type
    total = nearest(type_, sum(numbers, Fraction(0)))
    top = (1 << type_.bits) - 1
    return list(dict.fromkeys([raw, *(total + slack & top for slack in _SLACK)]))
