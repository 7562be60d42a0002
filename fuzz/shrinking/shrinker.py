"""Shrinking a failing case: the program and the image in turn, until neither gets smaller.

A program gets smaller by one kind of change after the other, until none is left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

from corpus import Kind, ShrinkStatus
from fuzz.findings.replay import Subject, replays_of
from fuzz.shrinking.contents import shrink_contents, zero_cells
from fuzz.shrinking.trials import OutOfTimeError, StoppedFailingError, Trials, Verdicts
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
from strategies.simplification.registers import less_shared, plainer_metadata
from strategies.simplification.structure import drops, loads_first, trims, unwraps

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

    In the end no step can go, and no stride, offset, layout or state space can become the
    default. Every change takes away a step, something that is not the default, or bytes.

    Returns
    -------
    bool
        Whether anything was changed.

    Raises
    ------
    OutOfTimeError
        If the time is over; the smallest example is what was reached.
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Shrunk:
    """What came of shrinking a case."""

    subject: Subject
    """The smallest case that fails in the wanted way; the one that was given if it is flaky."""
    status: ShrinkStatus
    """COMPLETE if nothing can be taken away any more, CAPPED if the time was over before that was
    known, FLAKY if a case that failed before did not fail when it was asked for again."""
    tried: int
    """Cases whose verdicts were asked for."""
    seconds: float
    """Wall time."""


def shrink(
    subject: Subject, verdicts: Verdicts, *, wanted: Kind, seconds: float = SECONDS
) -> Shrunk:
    """Make a failing case as small as it gets while it fails in the same way.

    Parameters
    ----------
    subject
        The case. Its program must be defined.
    verdicts
        What becomes of subjects, such as `runner_verdicts` makes.
    wanted
        What becomes of `subject`, and of the result.
    seconds
        Time after which what is reached is returned. One batch, and the last look at the result,
        may still be under way then.

    Returns
    -------
    Shrunk

    Raises
    ------
    DeviceLostError, InfrastructureError
        Only where `verdicts` does.
    """
    begun = time.monotonic()
    trials = Trials(subject, verdicts, wanted=wanted, end=begun + seconds)

    def always() -> bool:
        """Whether the smallest example fails in every replay, by itself."""
        again = [verdicts([trials.subject])[0] for _ in range(replays_of(wanted))]
        trials.tried += len(again)
        return all(kind is wanted for kind in again)

    status = ShrinkStatus.FLAKY
    if always():
        try:
            _to_the_end(trials)
            status = ShrinkStatus.COMPLETE
        except OutOfTimeError:
            status = ShrinkStatus.CAPPED
        except StoppedFailingError:
            status = ShrinkStatus.FLAKY
        if status is not ShrinkStatus.FLAKY and not always():
            status = ShrinkStatus.FLAKY
    return Shrunk(
        subject=subject if status is ShrinkStatus.FLAKY else trials.subject,
        status=status,
        tried=trials.tried,
        seconds=time.monotonic() - begun,
    )


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
