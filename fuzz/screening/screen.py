"""Screening of one device: launch after launch, with counters for each multiprocessor."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from corpus import Kind
from fuzz.findings.families import form_name
from fuzz.findings.verdicts import differences, judge
from fuzz.output import counted
from fuzz.runner import OpenRunner, kind_of_failure
from fuzz.screening.sets import Description, SetProgram
from oracle.errors import InfrastructureError, UsageError, WarpfuzzError
from oracle.execution import execute
from oracle.models import model_for
from oracle.targets import Module
from runners.cuda.messages import DeviceHealth
from runners.emission import emit_screening
from runners.ledger import ROWS, Differing, Ledger, Rate
from runners.protocol import Compiled, Failure
from runners.screening import References, Screened, Screener
from strategies.features import main_form


@dataclass(kw_only=True)
class Tally:
    """Counts of one device."""

    cases: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(ROWS, np.uint64))
    """(ROWS,) images that each multiprocessor ran and compared."""
    wrong: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(ROWS, np.uint64))
    """(ROWS,) those of them that differed."""
    bits: Counter[int] = field(default_factory=Counter)
    """By number of the bit in its element, counted from the lowest: how many elements differed in
    it, of the images that were kept."""
    images: Counter[str] = field(default_factory=Counter)
    """By program: how many images were compared."""
    programs: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    """By program of which images differed: (ROWS,) how many on each multiprocessor."""
    instructions: Counter[str] = field(default_factory=Counter)
    """By what the program is about: how many images differed."""

    def add(self, ledger: Ledger, source: SetProgram) -> None:
        """Count a launch of a program."""
        self.cases += ledger.finished
        self.wrong += ledger.wrong
        self.images[source.entry] += int(ledger.finished.sum())
        if wrong := int(ledger.wrong.sum()):
            before = self.programs.get(source.entry, np.zeros(ROWS, np.int64))
            self.programs[source.entry] = before + ledger.wrong
            self.instructions[form_name(main_form(source.program))] += wrong

    @property
    def multiprocessors(self) -> NDArray[np.intp]:
        """Numbers of those that ran anything."""
        return np.flatnonzero(self.cases)

    @property
    def faulty(self) -> NDArray[np.intp]:
        """Numbers of those on which something differed."""
        return np.flatnonzero(self.wrong)

    @property
    def total(self) -> Rate:
        """The rate of the device."""
        return Rate(cases=int(self.cases.sum()), wrong=int(self.wrong.sum()))

    def rate(self, sm: int) -> Rate:
        """Return the rate of a multiprocessor."""
        return Rate(cases=int(self.cases[sm]), wrong=int(self.wrong[sm]))

    @property
    def least(self) -> Rate:
        """The rate of the multiprocessor that ran fewest images of those with no error."""
        right = self.cases[(self.cases > 0) & (self.wrong == 0)]
        return Rate(cases=int(right.min()) if right.size else 0, wrong=0)

    @property
    def pattern(self) -> str:
        """Say whether it is always the same unit, bit or instruction; empty if nothing differed."""
        if not self.faulty.size:
            return ""
        where = f"{self.faulty.size} of {self.multiprocessors.size} multiprocessors"
        if self.faulty.size == 1:
            where = f"always multiprocessor {self.faulty[0]}"
        bit = f"always bit {next(iter(self.bits))}" if len(self.bits) == 1 else "several bits"
        only = f", always {next(iter(self.instructions))}" if len(self.instructions) == 1 else ""
        return f"{where}, {bit}, in {counted(len(self.programs), 'program')}{only}"


_SECONDS_OF_A_KIBIBYTE = 0.06
_LAUNCH_SECONDS = (0.05, 0.5)
"""Time of a launch, for each KiB of an image and within bounds: large images need more power
(of 40 programs, those below 4 KiB 433 W on average after a second, those of 6 KiB and more 588 W,
H200, 2026-11-22); and Ctrl-C is heard so soon."""
_FIRST_SECONDS = 0.01
"""Time of a program's first launch: enough to tell how fast it is."""
_TELLING_SECONDS = 2e-3
"""Least time of a launch that tells how fast a program is: of a shorter one, the beginning is too
large a part."""
MOST_FAULTY = 4
"""Multiprocessors of a device of which each has a finding of its own. Where more are wrong, the
device is, or what runs on it."""
_QUEUED = 3
"""Launches on their way: one runs, one waits on the device, and one is told of the first's end."""
_AHEAD = 8
"""Programs that are compiled while others run."""
_SHORT_SECONDS = 0.02
"""Time of a launch while there are programs to compile, which takes 7 ms where there are cores for
it and 31 ms on one (H200, 2026-11-22): the device is busy, and the others come in soon."""
_EXAMINED_EVERY = 1.0
"""Seconds between two readings of the sensors, which take milliseconds."""
_STEPS = (1e-3, 1.0)
"""Shortest and longest load step of `bursts`, and pause after it, in seconds."""
_LOOK_SECONDS = 0.1
"""Between two looks for a program, where none is there."""
_MOST_LIMIT = 1 << 30
_LEAST_AGAIN = 8
"""Times that an image is run again on each multiprocessor at least."""
_LOST_RETRIES = 1
"""Launches of a program that may fail before it is left out."""


@dataclass(kw_only=True, eq=False)
class Item:
    """A program that takes its turns."""

    source: SetProgram
    number: int
    """In the order in which programs came in."""
    compiled: Compiled | None = None
    per_second: float = 0.0
    """Images that one multiprocessor runs in a second; 0 before the first launch."""
    failures: list[Failure] = field(default_factory=list)
    asked: bool = False
    """Whether the oracle was asked what has to come out: a set may say something else."""
    suspect: bool = False
    """Whether its next launch is to be alone: the last one failed, and another one that was on its
    way may be to blame."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sighting:
    """A launch in which something differed, or that failed."""

    item: Item
    differing: tuple[Differing, ...] = ()
    """The first images that differed."""
    wrong: int = 1
    """How many differed, or failed."""
    failure: Failure | None = None


class SetAside(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A program that says nothing of the device, as JSON has it."""

    program: str
    """Its name."""
    why: str
    """What was seen, and what became of it."""
    image: int | None = None
    """Number of an image that two multiprocessors got wrong."""
    multiprocessors: tuple[int, ...] = ()
    """Numbers of these."""
    images: int | None = None
    """Images of which a set expects something else than the oracle; 0 where the ISA promises
    nothing of the program."""


Launch = tuple[Item, References | None, Callable[[], Screened | Failure]]
"""A program's launch on its way, what it is compared with unless it knows that itself, and what
waits for it."""


class Screen:
    """The screening of one device.

    Parameters
    ----------
    description
        Of the set; its expected images are those of one architecture.
    bursts
        Whether the load goes in steps from idle to full and back, of 1 ms to 1 s: that is when a
        supply voltage sags.
    seed
        Of these steps.
    grows
        Whether programs may come at any time, so that it is no failure to have none.
    set_name
        The file of the set; empty where there is none.
    """

    fresh: int | None = None
    """Images that were compared with the device's reference; None where there is none."""
    once = 0
    """Times that this said something else than when it was asked again."""

    def __init__(
        self,
        ready: OpenRunner,
        description: Description,
        *,
        bursts: bool = False,
        seed: int = 0,
        grows: bool = False,
        set_name: str = "",
    ) -> None:
        if not isinstance(ready.runner, Screener):
            raise UsageError(f"{ready.device} cannot screen; choose --runner cuda or sim")
        self.ready = ready
        self.runner: Screener = ready.runner
        self.tally = Tally()
        self.sightings: deque[Sighting] = deque()
        """What differed or failed and was not examined yet."""
        self.health: DeviceHealth | None = None
        self.launches = 0
        self.ran: set[str] = set()
        """Names of programs of which a launch came to its end."""
        self.busy = 0.0
        """Seconds in which a launch ran."""
        self.left_out: list[SetAside] = []
        """Programs that were given up, because they brought the device down."""
        self.refuted: list[SetAside] = []
        """Programs that are judged by the oracle since it was found to expect something else."""
        self.miscompiled: dict[str, SetAside] = {}
        """By name: programs that were given up, because their code is wrong."""
        self.description, self.set_name = description, set_name
        self._bursts = bursts
        self._random = random.Random(seed)
        self._grows = grows
        self._new: deque[Item] = deque()
        """Programs that have yet to be compiled."""
        self._numbers = itertools.count()
        self._prepared: deque[Item] = deque()
        """Programs that are being compiled."""
        self._items: deque[Item] = deque()
        """Programs that take turns."""
        self._newcomer = True
        """Whether a new program comes next: every other launch is one of those that are there, so
        that the device is busy while there are many to compile."""
        self._waiting: deque[Launch] = deque()
        self._bytes_per_second = 0.0
        """Bytes of images that one multiprocessor ran lately in a second."""
        self._examined = 0.0
        self._module = Module.named(description.target, description.ptx_version)

    def add(self, program: SetProgram) -> None:
        """Take a program in."""
        self._new.append(Item(source=program, number=next(self._numbers)))

    def drop(self) -> None:
        """Take out the program that has taken turns for longest, if there is one."""
        if self._items:
            oldest = min(self._items, key=lambda item: item.number)
            self._items.remove(oldest)
            self.tally.images.pop(oldest.source.entry, None)
            self.tally.programs.pop(oldest.source.entry, None)

    def give_up(self, item: Item, image: int, sms: tuple[int, int]) -> None:
        """Take out a program whose code is wrong: two multiprocessors got an image wrong."""
        entry, (first, second) = item.source.entry, sms
        why = (
            f"{entry} ({form_name(main_form(item.source.program))}): image {image} is wrong on "
            f"multiprocessors {first} and {second}, so that its code is wrong, not one of them; it "
            "is left out, and `warpfuzz run` shows what is wrong in such code"
        )
        self.miscompiled[entry] = SetAside(program=entry, image=image, multiprocessors=sms, why=why)
        self._take_out(item)

    def _take_out(self, item: Item) -> None:
        if item in self._items:
            self._items.remove(item)

    @property
    def oracle_target(self) -> str:
        """The oracle's target, with the compiler whose code runs."""
        release = self.ready.release
        return self.description.architecture + (f"@{release}" if release else "")

    @property
    def doubtful(self) -> str:
        """Which program failed and has not run again, and how; empty if there is none."""
        items = [*self._items, *self._prepared, *self._new]
        said = (f"{one.source.entry}: {one.failures[-1]}" for one in items if one.suspect)
        return next(said, "")

    @property
    def programs(self) -> int:
        """How many programs take turns."""
        return len(self._items) + len(self._prepared) + len(self._new)

    def step(self) -> None:
        """Start launches until enough are on their way, and wait for the first."""
        queued = 1 if self._bursts else _QUEUED
        while len(self._waiting) < queued and self.programs:
            self._start()
        if self._waiting:
            self._collect()
        elif self._grows:
            time.sleep(_LOOK_SECONDS)
        else:
            raise InfrastructureError(
                "no program of the set can be run any more: they brought the device down, or the "
                "ISA leaves them undefined, as said above"
            )

    def finish(self) -> None:
        """Wait for the launches that are on their way."""
        while self._waiting:
            self._collect()

    def again(self, item: Item, image: int, seconds: float) -> Screened | Failure:
        """Run one image of a program on all multiprocessors for some time."""
        self.finish()
        if item.compiled is None:
            raise InfrastructureError(f"{item.source.entry} was never compiled")
        one = item.source.references.only(image)
        limit = max(_LEAST_AGAIN, min(_MOST_LIMIT, int(item.per_second * seconds)))
        return self.runner.screen(item.compiled, one, limit=limit).collect()

    def _start(self) -> None:
        item = self._next()
        if item is None or item.compiled is None:
            return
        alone, item.suspect = item.suspect, False
        if alone:
            self.finish()
        if item.per_second and self._bursts:
            time.sleep(self._step_seconds())
        limit = self._limit(item)
        now = time.monotonic()
        examine = now - self._examined >= _EXAMINED_EVERY
        if examine:
            self._examined = now
        self._waiting.append(self._launch(item, item.compiled, limit, examine=examine))
        if alone:
            self.finish()

    def _launch(self, item: Item, compiled: Compiled, limit: int, *, examine: bool) -> Launch:
        """Start a launch of a program in which every multiprocessor takes `limit` images."""
        references = item.source.references
        launch = self.runner.screen(compiled, references, limit=limit, examine=examine)
        return item, references, launch.collect

    def _limit(self, item: Item) -> int:
        """Return how many images each multiprocessor takes in the next launch of a program."""
        images, size = len(item.source.references.images), item.source.program.image_bytes
        if not item.per_second:
            # All that are there, and as many as programs before it have run in so much time.
            return max(images, int(self._bytes_per_second / size * _FIRST_SECONDS))
        low, high = _LAUNCH_SECONDS
        seconds = min(max(low, _SECONDS_OF_A_KIBIBYTE * size / 1024), high)
        least = images
        if self._bursts:
            least, seconds = 1, self._step_seconds()
        elif self._prepared:
            least, seconds = 1, _SHORT_SECONDS
        return min(max(least, int(item.per_second * seconds)), _MOST_LIMIT)

    def _next(self) -> Item | None:
        """Return the program whose turn it is; None if that cannot be compiled."""
        self._prepare()
        if self._prepared and (self._newcomer or not self._items):
            self._items.append(self._prepared.popleft())
            self._newcomer = False
            return self._items[-1]
        self._newcomer = True
        if not self._items:
            return None
        self._items.rotate(-1)
        return self._items[-1]

    def _prepare(self) -> None:
        while self._new and len(self._prepared) < _AHEAD:
            item = self._new.popleft()
            compiled = self._compiled(item)
            if isinstance(compiled, Failure):
                self._failed(item, compiled)
            else:
                item.compiled = compiled
                self._prepared.append(item)

    def _step_seconds(self) -> float:
        low, high = _STEPS
        return math.exp(self._random.uniform(math.log(low), math.log(high)))

    def _compiled(self, item: Item) -> Compiled | Failure:
        source = item.source
        module = emit_screening({source.entry: source.program}, module=self._module)
        compiled, wanted = self.runner.prepare(module), self.description.architecture
        if isinstance(compiled, Compiled) and compiled.architecture != wanted:
            raise UsageError(
                f"the set expects what {wanted} computes, and {self.ready.device} computes as "
                f"{compiled.architecture}; `warpfuzz distill --target {compiled.architecture} "
                "--output FILE` makes one for it"
            )
        return compiled

    def _collect(self) -> None:
        item, references, collect = self._waiting.popleft()
        is_current = references in (None, item.source.references)
        outcome = collect()
        if item.source.entry in self.miscompiled:
            return
        if isinstance(outcome, Failure):
            self._failed(item, outcome)
            return
        if not is_current or self._corrects(item, outcome.ledger):
            # It was compared with what is known to be wrong.
            return
        self.launches += 1
        self.ran.add(item.source.entry)
        self.busy += outcome.seconds
        self.health = outcome.health or self.health
        ledger = outcome.ledger
        if self._is_miscompiled(item, ledger):
            return
        self.tally.add(ledger, item.source)
        item.per_second = int(ledger.finished.max()) / outcome.seconds
        if outcome.seconds >= _TELLING_SECONDS:
            self._bytes_per_second = item.per_second * item.source.program.image_bytes
        if wrong := int(ledger.wrong.sum()):
            for one in ledger.differing:
                self._count_bits(item, one)
            self.sightings.append(Sighting(item=item, differing=ledger.differing, wrong=wrong))

    def _is_miscompiled(self, item: Item, ledger: Ledger) -> bool:
        """Give a program up whose scalar code is wrong wherever it runs; tell whether it was.

        Compilers often get such code wrong: five of 256 programs (driver of CUDA 13.0, H100,
        2026-11-27).
        """
        source = item.source
        if np.count_nonzero(ledger.wrong) <= MOST_FAULTY or not ledger.differing:
            return False
        if not source.has_scalar_code:
            return False
        image = ledger.differing[0].image
        again = self.again(item, image, _TELLING_SECONDS)
        if isinstance(again, Failure) or np.count_nonzero(again.ledger.wrong) <= MOST_FAULTY:
            return False
        first, second = np.flatnonzero(again.ledger.wrong)[:2].tolist()
        drawn = source.references.drawn
        self.give_up(item, drawn[image] if drawn else image, (first, second))
        return True

    def _corrects(self, item: Item, ledger: Ledger) -> bool:
        """Ask the oracle before a program is called wrong; tell whether the set was."""
        if item.asked or not ledger.wrong.any():
            return False
        item.asked = True
        source = item.source
        images, said = source.references.images, source.references.expected
        target = self.oracle_target
        try:
            expected = execute(source.program, images, target=target).images
        except WarpfuzzError as error:
            self._take_out(item)
            item.source = replace(source, references=References(images=images, expected=said))
            self._refute(source.entry, 0, f"{error}; it is left out")
            return True
        verdicts = judge(source.program, images, said, target=target, expected=expected)
        digest = model_for(target).digest[:12]
        same_model = self.description.model.rpartition(" ")[2] in ("", digest)
        right = any(np.array_equal(one.actual, expected[one.image]) for one in ledger.differing)
        # Another model may expect anything that the ISA permits, if the device computes by it.
        may_be = (None,) if same_model or right else (None, Kind.DEVIATION)
        wrong = [number for number, verdict in enumerate(verdicts) if verdict not in may_be]
        if not wrong:
            return False
        first = wrong[0]
        byte = int(np.flatnonzero(said[first] != expected[first])[0])
        item.source = replace(source, references=References(images=images, expected=expected))
        self._refute(
            source.entry,
            len(wrong),
            f"{len(wrong)} of {len(images)} images expect what the model "
            f"{model_for(target).name} does not compute: image {first}, byte {byte}, "
            f"{said[first, byte]:#04x} in the set, {expected[first, byte]:#04x} by the oracle; it "
            "is judged by the oracle",
        )
        return True

    def _refute(self, entry: str, images: int, why: str) -> None:
        why = f"the set {self.set_name} is wrong: {entry}: {why}"
        self.refuted.append(SetAside(program=entry, images=images, why=why))

    def _count_bits(self, item: Item, one: Differing) -> None:
        expected = item.source.references.expected[one.image]
        for difference in differences(item.source.program, expected, one.actual):
            other = difference.expected ^ difference.actual
            self.tally.bits.update(bit for bit in range(difference.bits) if other >> bit & 1)

    def _failed(self, item: Item, failure: Failure) -> None:
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
            self.left_out.append(SetAside(program=entry, why=str(failure)))
            self.sightings.append(Sighting(item=item, failure=failure))
