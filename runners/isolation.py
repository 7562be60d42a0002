"""Finding which images of a batch bring a runner down, by halving the batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runners.protocol import Compiled, Failure, Images, Ran, Runner, Trouble

# Halving does not help where the images have no part in the failure.
_HOPELESS = frozenset(
    {Trouble.UNSUPPORTED, Trouble.UNAVAILABLE, Trouble.COMPILE_FAILURE, Trouble.DEVICE_LOST}
)


_NOWHERE = 0xFFFFFFFF
"""In place of the multiprocessor of an image that did not run."""
_PATIENCE = 32
"""Failed runs beyond the limit while no image is known that fails on its own: twice as many as
halving 65,536 images takes."""


@dataclass(frozen=True, kw_only=True)
class FailingImage:
    """An image that fails on its own."""

    index: int
    """Its number in the batch."""
    failure: Failure


@dataclass(frozen=True, kw_only=True, eq=False)
class Isolation:
    """A batch, less what cannot be run."""

    culprits: tuple[FailingImage, ...]
    """In the order of the batch."""
    ran: NDArray[np.bool_]
    """(count,): which images ran, and so have results."""
    images: Images
    """(count, image_bytes) after the program; as they were where `ran` is false."""
    sms: NDArray[np.uint32]
    """(count,); 0xffffffff where `ran` is false."""
    failures: int
    """Runs that failed."""
    complete: bool
    """Whether every image ran or is a culprit. False where the limit was reached, or the runner
    gave up; `last` then says how the last run failed."""
    last: Failure | None
    """The last failure; None if nothing failed."""

    @classmethod
    def of_nothing(
        cls, images: Images, failure: Failure, *, culprits: tuple[FailingImage, ...] = ()
    ) -> Isolation:
        """Return that of a batch which failed, and of which nothing ran."""
        return cls(
            culprits=culprits,
            ran=np.zeros(len(images), np.bool_),
            images=images,
            sms=np.full(len(images), _NOWHERE, np.uint32),
            failures=1,
            complete=False,
            last=failure,
        )


def isolate(
    runner: Runner,
    compiled: Compiled,
    images: Images,
    *,
    entry: str | None = None,
    limit: int = 64,
) -> Isolation:
    """Run a batch, leaving out the images that bring the runner down.

    One culprit among n images costs about log2(n) failed runs. An image that fails in company but
    not alone has run, and is no culprit: `failures` tells that there was something.

    Parameters
    ----------
    limit
        Failed runs after which what is still undecided is left so, once there is a culprit: an
        image is found that fails on its own, where one does, however large the batch. A runner
        may need seconds to recover from each run.
    """
    search = _Search(runner=runner, compiled=compiled, images=images, entry=entry, limit=limit)
    search.look(0, images.shape[0])
    return Isolation(
        culprits=tuple(sorted(search.culprits, key=lambda culprit: culprit.index)),
        ran=search.ran,
        images=search.results,
        sms=search.sms,
        failures=search.failures,
        complete=bool(search.ran.sum() + len(search.culprits) == images.shape[0]),
        last=search.last,
    )


class _Search:
    def __init__(
        self,
        *,
        runner: Runner,
        compiled: Compiled,
        images: Images,
        entry: str | None,
        limit: int,
    ) -> None:
        self._runner = runner
        self._compiled = compiled
        self._images = images
        self._entry = entry
        self._limit = limit
        self.culprits: list[FailingImage] = []
        self.ran = np.zeros(images.shape[0], np.bool_)
        self.results: Images = images.copy()
        self.sms = np.full(images.shape[0], _NOWHERE, np.uint32)
        self.failures = 0
        self.last: Failure | None = None
        self._stopped = False

    def look(self, first: int, end: int) -> None:
        """Run the images from `first` to before `end`; halve where that fails."""
        if first == end or self._stopped:
            return
        part = slice(first, end)
        outcome = self._runner.run(self._compiled, self._images[part], entry=self._entry)
        if isinstance(outcome, Ran):
            self.ran[part] = True
            self.results[part] = outcome.images
            self.sms[part] = outcome.sms
            return
        self.failures += 1
        self.last = outcome
        hopeless = outcome.trouble in _HOPELESS
        if end - first == 1 and not hopeless:
            self.culprits.append(FailingImage(index=first, failure=outcome))
        # Without a culprit, halving has found nothing yet that somebody could be told.
        spent = self.failures >= self._limit and bool(self.culprits)
        self._stopped = hopeless or spent or self.failures >= self._limit + _PATIENCE
        if end - first > 1:
            middle = (first + end) // 2
            if self.failures == 1 and outcome.trouble is Trouble.HANG:
                # Each costs a deadline, and what hangs rarely does so for its images' sake.
                middle = first + 1
            self.look(first, middle)
            self.look(middle, end)
