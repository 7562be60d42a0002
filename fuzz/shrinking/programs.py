"""Making a program smaller: one kind of change after the other, until none is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from fuzz.shrinking.accesses import plain_all, plain_one, plainer_accesses, row_major
from fuzz.shrinking.draft import Draft
from fuzz.shrinking.isolating import isolated
from fuzz.shrinking.sites import visit
from fuzz.shrinking.structure import drops, unwraps
from fuzz.shrinking.transfers import plainer_transfers
from fuzz.shrinking.trials import Trials
from fuzz.shrinking.trimming import trims

Reduction = Callable[[Draft], Iterator[Draft]]
"""Smaller drafts in place of one, the most promising first."""

_SINGLE: tuple[Reduction, ...] = (
    plain_all,
    partial(drops, size=1),
    unwraps,
    plain_one,
    row_major,
    plainer_accesses,
    plainer_transfers,
    trims,
)
_COMPILED = 16
"""Most programs of one module; what follows a success is compiled in vain."""


def shrink_program(trials: Trials) -> bool:
    """Make the program of the smallest draft smaller until no single change does.

    In the end no step can go, and no stride, offset, layout or state space can become the
    default. Every change takes away a step, something that is not the default, or bytes.

    Returns
    -------
    bool
        Whether anything was changed.

    Raises
    ------
    OutOfTimeError
        If the time is over; the smallest draft is what was reached.
    """
    before = trials.best
    alone: Reduction = partial(isolated, target=trials.target)
    _reduce(trials, alone)
    _reduce(trials, plain_all)
    size = sum(1 for _ in visit(trials.best.program.steps)) // 2
    while size > 1:
        _reduce(trials, partial(drops, size=size))
        size //= 2
    while True:
        at, apart = trials.best, trials.apart
        for reduction in (alone, *_SINGLE):
            _reduce(trials, reduction)
        if trials.best is at and trials.apart is apart:
            return trials.best is not before


def _reduce(trials: Trials, reduction: Reduction) -> None:
    """Make one kind of change as long as the failure stays."""
    begin = 0
    while True:
        drafts = _candidates(trials, reduction)
        # What stands before the last success did not do then; it comes last.
        order = [*range(min(begin, len(drafts)), len(drafts)), *range(min(begin, len(drafts)))]
        taken = _first(trials, [drafts[index] for index in order])
        if taken is None:
            return
        begin = order[taken]


def _candidates(trials: Trials, reduction: Reduction) -> list[Draft]:
    """Return the drafts of a reduction that may take the smallest one's place, each once."""
    found: dict[object, Draft] = {}
    for draft in reduction(trials.best):
        if draft.program != trials.best.program:
            found.setdefault(draft.key, draft)
    return [draft for draft in found.values() if trials.allows(draft.program)]


def _first(trials: Trials, drafts: list[Draft]) -> int | None:
    """Take the first draft that fails and return its number, None if none does."""
    start, size = 0, 1
    while start < len(drafts):
        part = drafts[start : start + size]
        for index, fails in enumerate(trials.fail(part), start=start):
            if fails and trials.take(drafts[index]):
                return index
        start += len(part)
        size = min(2 * size, _COMPILED)
    return None
