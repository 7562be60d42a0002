"""The time of a device that no round needs: programs that rounds have verified, on further images.

Workers of each device claim it for programs of their own rounds, which run on images that the
device makes by their numbers and compares with a reference. No round waits for that, and nothing is
made up for later: a GPU has runners of its own for it, on threads. The simulated device, which has
no idle time, compares at the end of each round.
"""

from __future__ import annotations

import os
import socket
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from fuzz.checks.fresh import MadeAgain, about, made_again, sample
from fuzz.checks.program_rounds import ImageLaunch
from fuzz.checks.protocol import REFERENCE, Counts, Heartbeat, RoundReport
from fuzz.runner import OpenRunner, kind_of_failure, opened
from oracle.errors import DeviceLostError, UsageError
from oracle.models import model_for
from oracle.program.program import requirements
from runners.protocol import Failure, Trouble
from runners.reference.encoding import encode
from runners.reference.fresh import (
    FreshRan,
    FreshRunner,
    FreshWork,
    PendingFresh,
    fresh_runner,
)
from strategies.contents.device import device_contents
from strategies.rounds import Batch

_IDLE = ("cuda",)  # runners whose device has idle time
_FIRST = {False: 32, True: 1 << 18}
"""Images of a program's first comparison on the simulated device and on a GPU, at most."""
_FIRST_BYTES = 1 << 31
"""Most bytes of these images: one of a warpgroup has 130 KiB (median of drawn ones, 2026-11-29)."""
_TAKES = 0.04
"""Seconds that a further comparison should take, by what the one before took: as long as a thread
of a busy worker may take to start the next (not measured)."""
_TOGETHER = 1 << 22  # images of a comparison at most
_MOST = {False: 1, True: 8}
"""Comparisons of a program, for which its module is loaded: with 4 of them an H200 of 16 cores was
busy 67 % of the time from the 10th to the 50th second and had 518 million images, with 8 it was
busy 82 % and had 696 million, by as many programs a second of the rounds (2026-11-29). The programs
of a round take turns, as they are in one or two modules: where those of two rounds did, an H200 was
idle 25 % of the time, for a module was compiled for its last program (2026-11-29)."""
_LANES_TAKE = 4
"""Code of lanes alone has so many times fewer images: more programs find more than images."""
_QUEUED = 3  # comparisons on their way: while one is looked at the device has two
_CLAIMS = 2
"""Workers that compare in a device's idle time: in 45 s two had 596 million images, and one 450
million (H200, 2026-11-29)."""
_LOOK_SECONDS = 0.1  # between two looks for a program, where none is there
_END_SECONDS = 3.0  # how long the last launches may take when the worker ends


def _share(batch: Batch) -> int:
    return _LANES_TAKE if batch.form is None else 1


@dataclass(kw_only=True, eq=False)
class _Deepened:
    """A program that the reference can run."""

    launch: ImageLaunch  # without images
    work: FreshWork  # of the comparison before the next
    together: int  # images of the next comparison
    times: int = 0  # comparisons that were started
    is_odd: bool = False  # whether one was not as it has to be: it has no more

    def next(self) -> FreshWork:
        """Return the images that come next."""
        first, count = self.work.first + self.work.count, self.together
        sampled = sample(self.launch.batch.recipe, first, count)
        self.times += 1
        self.work = replace(self.work, first=first, count=count, sampled=sampled)
        return self.work


@dataclass(frozen=True, kw_only=True, eq=False)
class Odd:
    """A comparison that failed, or whose images are wrong by the oracle or by the reference."""

    launch: ImageLaunch
    work: FreshWork
    came: FreshRan | Failure
    again: MadeAgain | None  # its images as they are made here; None where it failed


class IdleTime:
    """Uses the idle time of a runner's device, unless enough workers of the campaign do.

    `compares`: if not, it does nothing. Raises UsageError if the runner cannot compare.
    """

    def __init__(self, ready: OpenRunner, heartbeat: Heartbeat, *, compares: bool) -> None:
        self._ready, self._heartbeat = ready, heartbeat
        self._device: FreshRunner | None = fresh_runner(ready.runner) if compares else None
        self._is_idle = ready.choice.name in _IDLE
        self.distrusted: set[str] = set()
        """What the reference was wrong about: instruction forms, and programs without one."""
        self._claim: socket.socket | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._end = threading.Event()
        self._new: Sequence[ImageLaunch] = ()  # of the last round that had any
        self._pool: list[_Deepened] = []
        self._queued: deque[tuple[_Deepened, FreshWork, PendingFresh]] = deque()
        self._odd: deque[Odd] = deque()
        self._lock = threading.Lock()
        self._counts = Counts()  # of what came of it since it was last told
        self._broken: Exception | None = None

    def after(self, report: RoundReport, verified: Sequence[ImageLaunch]) -> Iterator[Odd]:
        """Take in programs that a round has verified, and add to its report what came of others.

        Iterates over comparisons that are to be judged; raises what ended the thread.
        """
        if self._device is None:
            return
        if self._is_idle:
            if self._claim is None and not self._claimed():
                return
            if verified:
                self._new = tuple(verified)
        else:
            for item in filter(None, map(self._encoded, verified)):
                work, entry = item.next(), item.launch.batch.entry
                pending = self._device.fresh(item.launch.compiled, work, entry=entry)
                self._look_at(item, work, pending.collect())
                yield from self._taken()
        with self._lock:
            report.counts.update(self._counts)
            self._counts = Counts()
        if self._broken is not None:
            raise self._broken
        yield from self._taken()

    def _taken(self) -> Iterator[Odd]:
        while self._odd:
            yield self._odd.popleft()

    def _claimed(self) -> bool:
        """Claim the device for this process and begin; False if others of the campaign have."""
        device = self._ready.uuid or f"{self._ready.device} of {os.getpid()}"
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        for number in range(_CLAIMS):
            # In Linux's namespace without files: whoever has it loses it at its end.
            with suppress(OSError):
                claim.bind(f"\0warpfuzz {os.getppid()} {number} {device}"[:100])
                self._claim = claim
                self._thread.start()
                return True
        claim.close()
        return False

    def close(self) -> None:
        """End what is on its way."""
        self._end.set()
        if self._claim is not None:
            self._thread.join(_END_SECONDS)
            self._claim.close()

    def _count(self, name: str, number: int = 1) -> None:
        with self._lock:
            self._counts[REFERENCE, name] += number

    # On the thread

    def _work(self) -> None:
        try:
            with opened(self._ready.choice) as ready:
                self._use(ready)
        except DeviceLostError:
            return  # Rounds go on, and their runner says whether the device is lost to them, too.
        except Exception as error:
            self._broken = error

    def _use(self, ready: OpenRunner) -> None:
        self._device = fresh_runner(ready.runner)
        coming = deque[ImageLaunch]()
        # Once no more rounds are wanted, findings that wait have the device to themselves.
        while not (self._end.is_set() or self._heartbeat.interrupted):
            if self._new and not coming and self._next() is None:
                coming, self._new = deque(self._new), ()
            if coming:
                # One for each comparison: to encode one takes as long (H200, 2026-11-29).
                self._pool += filter(None, [self._encoded(coming.popleft())])
            if not self._compare() and not (self._new or coming):
                self._end.wait(_LOOK_SECONDS)

    def _encoded(self, launch: ImageLaunch) -> _Deepened | None:
        """Return what is to be compared of a program; None if the reference cannot do it."""
        batch = launch.batch
        names = {about(batch), *(one.opcode for one in requirements(batch.program))}
        try:
            if names & self.distrusted:
                raise UsageError("the reference was wrong about it")
            encoded = encode(batch.program, model_for(launch.compiled.oracle_target))
        except UsageError:
            self._count("programs left out")
            return None
        self._count("programs")
        contents = device_contents(batch.recipe, batch.program)
        first = min(_FIRST[self._is_idle], max(1, _FIRST_BYTES // encoded.image_bytes))
        return _Deepened(
            launch=launch, together=max(1, first // _share(batch)),
            work=FreshWork(encoded=encoded, contents=contents, first=0, count=batch.count),
        )  # fmt: skip

    def _next(self) -> _Deepened | None:
        """Return who had fewest comparisons, of those that may have more."""
        most = _MOST[self._is_idle]
        self._pool = [one for one in self._pool if one.times < most and not one.is_odd]
        return min(self._pool, key=lambda one: one.times, default=None)

    def _compare(self) -> bool:
        """Have comparisons on their way, and wait for the first; False if there is none."""
        while len(self._queued) < _QUEUED and (item := self._next()) is not None:
            assert self._device is not None
            work, launch = item.next(), item.launch
            pending = self._device.fresh(launch.compiled, work, entry=launch.batch.entry)
            self._queued.append((item, work, pending))
        if not self._queued:
            return False
        item, work, pending = self._queued.popleft()
        self._look_at(item, work, pending.collect())
        return True

    def _look_at(self, item: _Deepened, work: FreshWork, came: FreshRan | Failure) -> None:
        """Count a comparison; keep it where it is to be judged. Raises as `kind_of_failure`."""
        launch, again = item.launch, None
        if isinstance(came, Failure):
            if came.trouble in (Trouble.UNAVAILABLE, Trouble.UNSUPPORTED):
                kind_of_failure(came)
            self._count("failed", work.count)
        else:
            takes = max(1, int(came.images * _TAKES / _share(launch.batch) / came.seconds))
            item.together = min(_TOGETHER, takes)
            self._count("images", came.images)
            self._count("differing", came.differing)
            if item.is_odd or not len(came.numbers):
                return
            batch, target = launch.batch, launch.compiled.oracle_target
            again = made_again(batch.recipe, batch.program, came, target=target)
            self._count("judged", len(again.images))
            if not (len(again.wrong) or len(again.mistaken)):
                return
        if not item.is_odd:
            item.is_odd = True
            self._odd.append(Odd(launch=launch, work=work, came=came, again=again))
        if isinstance(came, Failure) and came.trouble is Trouble.DEVICE_LOST:
            kind_of_failure(came)
