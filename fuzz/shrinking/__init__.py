"""Making failing cases small enough to read.

`shrink` takes steps out of the program and values out of its image while the case fails in the
same way, and says how far it came.

Hypothesis drew the program, and its shrinker could make the drawn choices smaller. It is not used
here: what is shrunk is the program itself, its steps, strides, offsets and bytes, so that a
program read from a corpus or written by hand shrinks as well, there is no cap on the number of
reductions or the time other than the caller's, many candidates go to the device in one batch, and
"nothing can be taken away" is a statement about the case that a person reads and not about the
choices behind it. What may be simpler is proposed by `strategies.simplification`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import combinations, islice

import numpy as np

from corpus import Kind, ShrinkStatus
from fuzz.findings.replay import Subject, replays_of
from fuzz.shrinking.trials import (
    OutOfTimeError,
    StoppedFailingError,
    Trials,
    Verdicts,
    runner_verdicts,
)
from strategies.cells import AXES, Cells, Ids, Image, cells_of
from strategies.simplification.accesses import (
    plain_all,
    plain_one,
    plainer_accesses,
    plainer_transfers,
    row_major,
)
from strategies.simplification.examples import Example, visit
from strategies.simplification.isolation import isolated, loaded, shared_sources, stored
from strategies.simplification.lane_code import code_alone, smaller_code
from strategies.simplification.registers import (
    is_costly,
    less_shared,
    metadata_words,
    plainer_metadata,
    with_plain_metadata,
)
from strategies.simplification.structure import drops, loads_first, trims, unwraps
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

__all__ = ["Trials", "Verdicts", "runner_verdicts", "shrink"]

_SIMPLIFIED = 32
"""Most cells whose values are simplified; more than a person reads anyway."""


def simplify_values(trials: Trials, cells: Cells) -> None:
    """Replace values of the smallest example by simpler ones while the failure stays."""
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

    In the end no cell alone, and of few cells no pair, can become zero. Raises OutOfTimeError if
    the time is over; the smallest example is what was reached. Returns whether anything was
    changed.
    """
    cells = cells_of(trials.best.program)
    before = trials.best
    _coarsely(trials, cells)
    while True:
        at, apart = trials.best, trials.apart
        _plain_metadata(trials)
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

    Returns whether any was.
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
    return _change(trials, cells.without, [group for group in groups if left[group].any()])


def _plain_metadata(trials: Trials) -> None:
    """Let metadata that the image holds be plain: all words, halves, and in the end single ones."""
    words = metadata_words(trials.best.program)
    size = len(words)
    while size:
        left = words[is_costly(trials.best.image)[words].any(axis=1)]
        parts = [left[start : start + size].ravel() for start in range(0, len(left), size)]
        _change(trials, with_plain_metadata, parts)
        size //= 2


def _change(trials: Trials, change: Callable[[Image, Ids], Image], groups: Sequence[Ids]) -> bool:
    """Change groups of cells or bytes, as many of them as go together; return whether any did."""
    image = trials.best.image
    alone = trials.images_fail([change(image, group) for group in groups])
    good = [group for group, fails in zip(groups, alone, strict=True) if fails]
    if not good:
        return False
    # What can go alone need not be able to go together: the longest run that can, does.
    runs = [np.concatenate(good[: count + 1]) for count in range(len(good))]
    images = [change(image, run) for run in runs]
    # The first run is the first group alone.
    together = [True, *trials.images_fail(images[1:])]
    longest = max(index for index, fails in enumerate(together) if fails)
    return trials.take(trials.best.with_image(images[longest]))


def _gather_terms(trials: Trials, cells: Cells) -> None:
    """Take terms out of the dot products of the smallest example while the failure stays.

    Every step leaves fewer elements that are not zero.
    """
    for dot in dots(cells, trials.best.image):
        for choose in CHOICES:
            while _take_first(trials, gathered(cells, trials.best.image, dot, choose)):
                pass


def _propose_terms(trials: Trials, cells: Cells) -> None:
    """Put a smaller dot product in the place of one, if some fails in the same way."""
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


Reduction = Callable[[Example], Iterator[Example]]
"""Smaller examples in place of one, the most promising first."""

_SINGLE: tuple[Reduction, ...] = (
    plain_all,
    partial(drops, size=1),
    unwraps,
    smaller_code,
    less_shared,
    plainer_metadata,
    plain_one,
    row_major,
    plainer_accesses,
    plainer_transfers,
    stored,
    shared_sources,
    loads_first,
    trims,
)
_COMPILED = 16
"""Most programs of one module; what follows a success is compiled in vain."""


def shrink_program(trials: Trials) -> bool:
    """Make the program of the smallest example smaller until no single change does.

    In the end no step can go, and no stride, offset, layout or state space can become the default.
    Every change takes away a step, something that is not the default, or bytes. Raises
    OutOfTimeError if the time is over; the smallest example is what was reached. Returns whether
    anything was changed.
    """
    before = trials.best
    alone: Reduction = partial(isolated, target=trials.target)
    given: Reduction = partial(loaded, target=trials.target)
    code: Reduction = partial(code_alone, target=trials.target)
    for reduction in (code, alone, given, plain_all):
        _reduce(trials, reduction)
    size = sum(1 for _ in visit(trials.best.program.steps)) // 2
    while size > 1:
        _reduce(trials, partial(drops, size=size))
        size //= 2
    while True:
        at, apart = trials.best, trials.apart
        for reduction in (alone, given, *_SINGLE):
            _reduce(trials, reduction)
        if trials.best is at and trials.apart is apart:
            return trials.best is not before


def _reduce(trials: Trials, reduction: Reduction) -> None:
    begin: int | None = 0
    while begin is not None:
        # What stands before the last success did not do then; it comes last.
        begin = _first(trials, _candidates(trials, reduction, begin))


def _candidates(trials: Trials, reduction: Reduction, begin: int) -> Iterator[tuple[int, Example]]:
    """Iterate over what a reduction offers, each once and numbered, from a number on."""
    best, found = trials.best, set[object]()
    before: list[tuple[int, Example]] = []
    for index, example in enumerate(reduction(best)):
        if example.program == best.program or example.key in found:
            continue
        found.add(example.key)
        if index < begin:
            before.append((index, example))
        else:
            yield index, example
    yield from before


def _first(trials: Trials, examples: Iterator[tuple[int, Example]]) -> int | None:
    """Return the number of the first example that takes the smallest one's place."""
    # Most are never asked for: they are made and looked at as late as possible.
    allowed = (each for each in examples if trials.allows(each[1].program))
    size = 1
    while part := [*islice(allowed, size)]:
        for (index, example), fails in zip(
            part, trials.fail([example for _, example in part]), strict=False
        ):
            if fails and trials.take(example):
                return index
        size = min(2 * size, _COMPILED)
    return None


SECONDS = 20.0
"""Time for one case where none is given; on the simulated device the median case takes 2 s."""


def shrink(
    subject: Subject, verdicts: Verdicts, *, wanted: Kind, seconds: float = SECONDS
) -> Trials:
    """Make a failing case as small as it gets while it fails in the same way.

    Returns the smallest case that fails in the wanted way; the one that was given if it is flaky.

    Parameters
    ----------
    subject
        The case. Its program must be defined.
    seconds
        Time after which what is reached is returned. One batch, and the last look at the result,
        may still be under way then.

    Raises
    ------
    DeviceLostError, InfrastructureError
        Only where `verdicts` does.
    """
    trials = Trials(subject, verdicts, wanted=wanted, end=time.monotonic() + seconds)

    def always() -> bool:
        """Whether the smallest example fails in every replay, by itself."""
        again = [verdicts([trials.subject])[0] for _ in range(replays_of(wanted))]
        trials.tried += len(again)
        return all(kind is wanted for kind in again)

    if always():
        with suppress(StoppedFailingError):
            try:
                _to_the_end(trials)
                status = ShrinkStatus.COMPLETE
            except OutOfTimeError:
                status = ShrinkStatus.CAPPED
            if always():
                trials.status = status
    if trials.status is ShrinkStatus.FLAKY:
        trials.best = trials.first
    return trials


def _to_the_end(trials: Trials) -> None:
    """Shrink program and contents in turn until neither gets smaller, each change by itself."""
    while True:
        at = trials.best
        shrink_program(trials)
        shrink_contents(trials)
        if trials.best is at:
            if trials.apart:
                return
            # What was asked in company may have been answered so because of it.
            trials.go_apart()
            if not (zero_cells(trials) or shrink_program(trials)):
                return
