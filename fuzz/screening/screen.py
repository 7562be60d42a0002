"""Screening of one device: launch after launch, with counters for each multiprocessor.

A program's launches repeat images that the oracle has judged. With `fresh`, each launch after the
first has new images, which the device makes itself and compares with its reference; what differs,
and a sample of what agrees, is made again here and judged by the oracle.
"""

from __future__ import annotations

import math
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from fuzz.checks.fresh import made_again, sample
from fuzz.findings.families import form_name
from fuzz.runner import OpenRunner, kind_of_failure
from fuzz.screening.sets import Description, SetProgram, Tally
from oracle.errors import InfrastructureError, UsageError
from oracle.isa.targets import parse_target
from oracle.models import model_for
from runners.cuda.libraries import DeviceHealth
from runners.cuda.runner import CudaRunner
from runners.emission import emit, emit_screening
from runners.ledger import Differing, Ledger
from runners.protocol import Compiled, Failure
from runners.reference.encoding import encode
from runners.reference.fresh import FreshRan, FreshRunner, FreshWork, finished_by, fresh_runner
from runners.screening import References, Screened, Screener
from strategies.contents.device import device_contents
from strategies.features import main_form

MOST_FAULTY = 4  # with a finding each; where more are wrong, the device is, or what runs on it
_SECONDS_OF_A_KIBIBYTE = 0.06
_LAUNCH_SECONDS = (0.05, 0.5)
"""Time of a launch, for each KiB of an image and within bounds: large images need more power (below
4 KiB 433 W on average after a second, from 6 KiB on 588 W, H200, 2026-11-22); and Ctrl-C is heard
so soon."""
_QUEUED = 3
"""Launches on their way: one runs, one waits on the device, and one is told of the first's end."""
_EXAMINED_EVERY = 1.0  # seconds between two readings of the sensors, which take milliseconds
_STEPS = (1e-3, 1.0)  # shortest and longest load step of `bursts`, and pause after it, in seconds
_LOOK_SECONDS = 0.1  # between two looks for a program, where none is there
_MOST_LIMIT = 1 << 30
AGAIN_SECONDS = 0.5  # time of the replay right after the launch
_LEAST_AGAIN = 8  # times that an image is run again on each multiprocessor at least
_LOST_RETRIES = 1  # launches of a program that may fail before it is left out
_MOST_IMAGES = 1 << 22  # of a fresh launch: 40 ms (10^8 a second, H100, prototype, 2026-11)
_FIRST_IMAGES = 1 << 16
"""Of a program's first fresh launch: 9 ms (7.2 million a second, H100, 2026-11-27)."""
_MOST_REPEATED = 4  # wrong images of a launch, of other multiprocessors, that are run again alone
_MOST_KEPT = 128  # images of a program from which on those that are wrong are only counted


@dataclass(kw_only=True, eq=False)
class ScreenItem:
    """A program that takes its turns."""

    source: SetProgram
    compiled: Compiled | None = None
    per_second: float = 0.0  # images that one multiprocessor runs; 0 before the first launch
    failures: list[Failure] = field(default_factory=list)
    suspect: bool = False
    """Whether its next launch is to be alone: the last one failed, and another one that was on its
    way may be to blame."""
    plain: Compiled | None = None  # its kernel that runs every fresh image once
    work: FreshWork | None = None  # the fresh images before the next; None: the reference cannot
    timed: bool = False  # whether a comparison of it has come to its end
    repeated: set[int] = field(default_factory=set)
    """Multiprocessors of which a wrong fresh image was run again by itself."""

    @property
    def name(self) -> str:
        """The program, and what it is about."""
        return f"{self.source.entry} ({form_name(main_form(self.source.program))})"


@dataclass(frozen=True, kw_only=True, eq=False)
class Sighting:
    """A launch in which something differed, or that failed."""

    item: ScreenItem
    differing: tuple[Differing, ...] = ()  # the first images that differed
    failure: Failure | None = None


class SetAside(NamedTuple):
    """A program that says nothing of the device, by its name, and why: as JSON has it."""

    program: str
    why: str


Launch = tuple[ScreenItem, Callable[[], Screened | Failure]]
"""A program's launch on its way, and what waits for it."""


class ScreenRun:
    """The screening of one device.

    With `bursts` the load goes in steps of 1 ms to 1 s from idle to full and back, drawn by `seed`:
    that is when a supply voltage sags. With `fresh` the device makes images, and compares them with
    its reference. Programs may come at any time. Raises UsageError if the runner does not screen,
    or with `fresh` does not compare.
    """

    def __init__(
        self, ready: OpenRunner, description: Description, *, bursts: bool = False, seed: int = 0,
        fresh: bool = False,
    ) -> None:  # fmt: skip
        if not isinstance(ready.runner, Screener):
            raise UsageError(f"{ready.device} cannot screen; choose --runner cuda or sim")
        self.ready, self.runner = ready, ready.runner
        self.description = description
        self.device: FreshRunner | None = fresh_runner(ready.runner) if fresh else None
        self.fresh = 0 if fresh else None  # images that were compared with the device's reference
        self.tally = Tally()
        self.sightings: deque[Sighting] = deque()  # what was not examined yet
        self.health: DeviceHealth | None = None
        self.launches = 0
        self.ran: set[str] = set()  # names of programs of which a launch came to its end
        self.busy = 0.0  # seconds in which a launch ran
        self.left_out: list[SetAside] = []  # were given up, because they brought the device down
        self.miscompiled: dict[str, SetAside] = {}  # were given up: their code is wrong
        self._bursts, self._random = bursts, random.Random(seed)
        self._new: deque[ScreenItem] = deque()  # programs that have yet to be compiled
        self._items: deque[ScreenItem] = deque()  # programs that take turns
        self._newcomer = True
        """Whether a new program comes next: every other launch is one of those that are there, so
        that the device is busy while others are compiled."""
        self._waiting: deque[Launch] = deque()
        self._examined = 0.0

    def add(self, program: SetProgram) -> None:
        """Take a program in."""
        self._new.append(ScreenItem(source=program))

    def _give_up(self, item: ScreenItem, image: int, first: int, second: int) -> None:
        """Take out a program whose code is wrong: two multiprocessors got an image wrong."""
        self.miscompiled[item.source.entry] = SetAside(
            item.source.entry,
            f"{item.name}: image {image} is wrong on multiprocessors {first} and {second}, so that "
            "its code is wrong, not one of them; it is left out, and `warpfuzz run` shows what is "
            "wrong in such code",
        )
        self._take_out(item)

    def _take_out(self, item: ScreenItem) -> None:
        if item in self._items:
            self._items.remove(item)

    @property
    def doubtful(self) -> str:
        """Which program failed and has not run again, and how; empty if there is none."""
        items = [*self._items, *self._new]
        return next((f"{one.source.entry}: {one.failures[-1]}" for one in items if one.suspect), "")

    @property
    def programs(self) -> int:
        """How many programs take turns."""
        return len(self._items) + len(self._new)

    def step(self) -> None:
        """Start launches until enough are on their way, and wait for the first."""
        while len(self._waiting) < (1 if self._bursts else _QUEUED) and self.programs:
            self._start()
        if self._waiting:
            self._collect()
        else:
            time.sleep(_LOOK_SECONDS)

    def finish(self) -> None:
        """Wait for the launches that are on their way."""
        while self._waiting:
            self._collect()

    def again(self, item: ScreenItem, image: int, seconds: float = 0.0) -> Screened | Failure:
        """Run one image of a program on all multiprocessors for some time."""
        self.finish()
        assert item.compiled is not None
        limit = max(_LEAST_AGAIN, min(_MOST_LIMIT, int(item.per_second * seconds)))
        only = item.source.references.only(image)
        return self.runner.screen(item.compiled, only, limit=limit).collect()

    # Launches

    def _start(self) -> None:
        """Start a launch of the program whose turn it is, if that can be compiled."""
        if self._new and (self._newcomer or not self._items):
            item, self._newcomer = self._new.popleft(), False
            if failure := self._compile(item):
                self._failed(item, failure)
                return
            self._items.append(item)
        else:
            self._newcomer = True
            self._items.rotate(-1)
            item = self._items[-1]
        assert item.compiled is not None
        alone, item.suspect = item.suspect, False
        if alone:
            self.finish()
        source, references, (low, high) = item.source, item.source.references, _LAUNCH_SECONDS
        least = len(references.images)
        seconds = min(max(low, _SECONDS_OF_A_KIBIBYTE * source.program.image_bytes / 1024), high)
        if item.per_second and self._bursts:
            steps = [math.exp(self._random.uniform(*map(math.log, _STEPS))) for _ in range(2)]
            time.sleep(steps[0])
            least, seconds = 1, steps[1]
        limit = min(max(least, int(item.per_second * seconds)), _MOST_LIMIT)
        now = time.monotonic()
        if examine := now - self._examined >= _EXAMINED_EVERY:
            self._examined = now
        # Verified on every multiprocessor, with the oracle's results, before the device goes on.
        if item.per_second and item.work and item.plain and self.device:
            first = item.work.first + item.work.count
            most = _MOST_IMAGES if item.timed else _FIRST_IMAGES
            count = min(most, limit * max(1, self.tally.multiprocessors.size))
            sampled = sample(source.recipe, first, count)
            work = item.work = replace(item.work, first=first, count=count, sampled=sampled)
            collect = self.device.fresh(item.plain, work).collect
            self._waiting.append((item, partial(self._compared, item, work, collect, examine)))
        else:
            launch = self.runner.screen(item.compiled, references, limit=limit, examine=examine)
            self._waiting.append((item, launch.collect))
        if alone:
            self.finish()

    def _compile(self, item: ScreenItem) -> Failure | None:
        source, wanted = item.source, self.description.target
        screening = emit_screening({source.entry: source.program}, module=source.module)
        compiled = self.runner.prepare(screening)
        if isinstance(compiled, Failure):
            return compiled
        if parse_target(compiled.architecture).number != parse_target(wanted).number:
            raise UsageError(
                f"the set expects what {wanted} computes, and {self.ready.device} computes as "
                f"{compiled.architecture}; `warpfuzz distill --target {compiled.architecture} "
                "--output FILE` makes one for it"
            )
        item.compiled = compiled
        # What a compiler gets wrong would be taken for the device's fault; and kernels of
        # warpgroups do not say on which multiprocessor they ran.
        doubtful = source.has_scalar_code or source.program.warps > 1
        if self.device is None or doubtful:
            return None
        plain = self.runner.prepare(emit(source.program, module=source.module, entry=source.entry))
        if isinstance(plain, Failure):
            return plain
        try:
            encoded = encode(source.program, model_for(self.ready.oracle_target))
        except UsageError:
            return None  # the reference cannot go on: the images are repeated
        contents = device_contents(source.recipe, source.program)
        count = len(source.references.images)
        item.plain = plain
        item.work = FreshWork(encoded=encoded, contents=contents, first=0, count=count)
        return None

    def _collect(self) -> None:
        item, collect = self._waiting.popleft()
        outcome = collect()
        source = item.source
        if source.entry in self.miscompiled:
            return
        if isinstance(outcome, Failure):
            self._failed(item, outcome)
            return
        ledger = outcome.ledger
        self.launches += 1
        self.ran.add(source.entry)
        self.busy += outcome.seconds
        self.health = outcome.health or self.health
        if self._is_miscompiled(item, ledger):
            return
        self.tally.add(ledger, source.entry)
        item.per_second = int(ledger.finished.max()) / outcome.seconds
        if ledger.wrong.any():
            self.sightings.append(Sighting(item=item, differing=ledger.differing))

    def _failed(self, item: ScreenItem, failure: Failure) -> None:
        """Attribute a failure to a program; leave it out if it is not the first time."""
        kind_of_failure(failure)
        item.failures.append(failure)
        item.suspect = True
        if len(item.failures) <= _LOST_RETRIES:
            if item.compiled is None:
                self._new.append(item)
            return
        self._take_out(item)
        entry = item.source.entry
        if all(one.program != entry for one in self.left_out):
            self.left_out.append(SetAside(entry, f"{entry} left out: {failure}"))
            self.sightings.append(Sighting(item=item, failure=failure))

    # Whose fault it is

    def _is_miscompiled(self, item: ScreenItem, ledger: Ledger) -> bool:
        """Give a program up whose scalar code is wrong wherever it runs; tell whether it was.

        That of a warpgroup may be wrong now and then, by what was in flight for how long: then it
        is tried for some time, and another multiprocessor that gets it wrong is enough.
        """
        group = item.source.program.warps > 1
        few, seconds = (1, AGAIN_SECONDS) if group else (MOST_FAULTY, 0.0)
        if not item.source.has_scalar_code or not ledger.differing:
            return False
        if not group and np.count_nonzero(ledger.wrong) <= few:
            return False
        image, first = ledger.differing[0].image, ledger.differing[0].sm
        again = self.again(item, image, seconds)
        if isinstance(again, Failure):
            return False
        wrong = again.ledger.wrong.copy()
        wrong[first] += group
        if np.count_nonzero(wrong) <= few:
            return False
        second = next(sm for sm in np.flatnonzero(wrong).tolist() if sm != first)
        self._give_up(item, image, first, second)
        return True

    # Images that the device makes

    def _compared(
        self, item: ScreenItem, work: FreshWork, collect: Callable[[], FreshRan | Failure],
        examine: bool,
    ) -> Screened | Failure:  # fmt: skip
        """Wait for a comparison; what is wrong by the oracle joins the program's images.

        Raises InfrastructureError if the reference is wrong.
        """
        ran = collect()
        if isinstance(ran, Failure):
            return ran
        item.timed = True
        self.fresh = (self.fresh or 0) + int(ran.finished.sum())
        told = self.device.health() if examine and isinstance(self.device, CudaRunner) else None
        source, before, target = item.source, item.source.references, self.ready.oracle_target
        again = made_again(source.recipe, source.program, ran, target=target)
        if len(again.mistaken):
            number = int(ran.numbers[again.mistaken[0]])
            other = self._alone(item, work, number)
            if other and len(
                made_again(source.recipe, source.program, other, target=target).mistaken
            ):
                raise InfrastructureError(
                    f"the reference on {self.ready.device} is wrong about image {number} of "
                    f"{item.name}, by the oracle; screen without --fresh"
                )
        wrong, count = again.wrong, len(before.images)
        if source.entry not in self.miscompiled:
            self._ask_elsewhere(item, work, ran, wrong.tolist())
        if source.entry in self.miscompiled:
            wrong = wrong[:0]
        shown = wrong if count < _MOST_KEPT else wrong[:0]
        if len(shown):
            # Behind those that are there: what was seen before is known by its place.
            references = References(
                images=np.concatenate([before.images, again.images[shown]]),
                expected=np.concatenate([before.expected, again.expected[shown]]),
                drawn=(*before.drawn, *ran.numbers[shown].tolist()),
            )
            item.source = replace(source, references=references)
        differing = tuple(
            Differing(image=count + index, sm=int(ran.sms[place]), actual=ran.after[place])
            for index, place in enumerate(shown)
        )
        counted = finished_by(ran.sms[wrong], len(wrong))
        return Screened(
            ledger=Ledger(finished=ran.finished, wrong=counted, differing=differing),
            seconds=ran.seconds,
            health=None if isinstance(told, Failure) else told,
        )

    def _alone(self, item: ScreenItem, work: FreshWork, number: int) -> FreshRan | None:
        """Run an image of a program again, by itself; it comes back even if it is right."""
        assert self.device is not None
        assert item.plain is not None
        work = replace(work, first=number, count=1, sampled=(number,))
        ran = self.device.fresh(item.plain, work).collect()
        if isinstance(ran, Failure):
            self._failed(item, ran)
            return None
        return ran

    def _ask_elsewhere(
        self, item: ScreenItem, work: FreshWork, ran: FreshRan, wrong: list[int]
    ) -> None:
        """Give the program up if another multiprocessor gets an image wrong as well."""
        places = {int(ran.sms[place]): place for place in reversed(wrong)}
        new = [sm for sm in reversed(places) if sm not in item.repeated]
        for sm in new[:_MOST_REPEATED]:
            item.repeated.add(sm)
            number = int(ran.numbers[places[sm]])
            again = self._alone(item, work, number)
            if again is not None and len(again.sms) and again.sms[0] != sm and again.differing:
                self._give_up(item, number, sm, int(again.sms[0]))
                return
