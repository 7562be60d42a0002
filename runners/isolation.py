"""Finding which images of a batch bring a runner down, by running parts of the batch."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from runners.protocol import NO_SM, Compiled, Failure, Images, Ran, Runner, Trouble

_HOPELESS = frozenset(
    {Trouble.UNSUPPORTED, Trouble.UNAVAILABLE, Trouble.COMPILE_FAILURE, Trouble.DEVICE_LOST}
)
"""Halving does not help where the images have no part in the failure."""
_PATIENCE = 32
"""Failed runs beyond the limit while no image is known that fails on its own: twice as many as
halving 65,536 images takes."""


@dataclass(frozen=True, kw_only=True)
class FailingImage:
    """An image of a batch, by its number, that fails on its own."""

    index: int
    failure: Failure


@dataclass(frozen=True, kw_only=True, eq=False)
class Isolation:
    """A batch, less what cannot be run."""

    culprits: tuple[FailingImage, ...] = ()  # in the order of the batch
    ran: NDArray[np.bool_]  # (count,): which images ran, and so have results
    images: Images  # after the program; as they were where `ran` is false
    sms: NDArray[np.uint32]  # (count,); NO_SM where `ran` is false
    failures: int = 0  # runs that failed
    last: Failure | None = None  # the last failure; None if nothing failed

    @property
    def complete(self) -> bool:
        """Whether every image ran or is a culprit: no limit was reached, and no runner gave up."""
        return int(self.ran.sum()) + len(self.culprits) == len(self.ran)

    @classmethod
    def of_nothing(
        cls, images: Images, failure: Failure, *, culprits: tuple[FailingImage, ...] = ()
    ) -> Isolation:
        """Return that of a batch which failed, and of which nothing ran."""
        nothing, sms = np.zeros(len(images), np.bool_), np.full(len(images), NO_SM, np.uint32)
        return cls(culprits=culprits, ran=nothing, images=images, sms=sms, failures=1, last=failure)


def isolate(
    runner: Runner,
    compiled: Compiled,
    images: Images,
    *,
    entry: str | None = None,
    limit: int = 64,
    failed: Failure | None = None,
    copies: int = 1,
) -> Isolation:
    """Run a batch, leaving out the images that bring the runner down.

    One culprit among n images costs about log2(n) failed runs, or 2 to 3 where it hangs: parts of
    sqrt(n) images are run then. An image that fails in company but not alone has run. After `limit`
    failed runs what is undecided is left so, once there is a culprit. `failed` is how all failed.
    So many `copies` of an image stand next to each other, and are culprits together: to run some of
    them alone would tell nothing more, and each failed run may take a process.
    """
    count = len(images) // copies
    culprits: list[FailingImage] = []
    failures: list[Failure] = []
    ran, sms = np.zeros(len(images), np.bool_), np.full(len(images), NO_SM, np.uint32)
    results: Images = images.copy()
    # One after the other: a function that calls itself would keep the images until it is collected.
    left, stopped = [(0, count)] if count else [], False
    while left and not stopped:
        first, end = left.pop()
        part = slice(first * copies, end * copies)
        known = failed if 1 < count == end - first else None
        outcome = known or runner.run(compiled, images[part], entry=entry)
        if isinstance(outcome, Ran):
            ran[part], results[part], sms[part] = True, outcome.images, outcome.sms
            continue
        failures.append(outcome)
        hopeless = outcome.trouble in _HOPELESS
        if end - first == 1 and not hopeless:
            numbers = range(part.start, part.stop)
            culprits += [FailingImage(index=one, failure=outcome) for one in numbers]
        # Without a culprit, halving has found nothing yet that somebody could be told.
        most = limit if culprits else limit + _PATIENCE
        stopped = hopeless or len(failures) >= most
        if end - first > 1:
            edges = [first, (first + end) // 2, end]
            if outcome.trouble is Trouble.HANG:
                # What hangs rarely does so for its images' sake: the first shows it then.
                step = isqrt(count) if end - first == count else 1
                edges = [first, *range(first + 1, end, step), end]
            left += reversed([*pairwise(edges)])
    return Isolation(
        culprits=tuple(sorted(culprits, key=lambda culprit: culprit.index)),
        ran=ran,
        images=results,
        sms=sms,
        failures=len(failures),
        last=failures[-1] if failures else None,
    )
