"""Shrinking a failing case: the program and the image in turn, until neither gets smaller."""

from __future__ import annotations

import time
from dataclasses import dataclass

from corpus import Kind, ShrinkStatus
from fuzz.findings.replay import Subject, replays_of
from fuzz.shrinking.contents import shrink_contents, zero_cells
from fuzz.shrinking.programs import shrink_program
from fuzz.shrinking.trials import OutOfTimeError, StoppedFailingError, Trials, Verdicts

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
        """Whether the smallest draft fails in every replay, by itself."""
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
