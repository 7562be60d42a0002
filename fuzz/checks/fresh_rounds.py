"""Rounds whose programs also run on images that the device makes and compares with a reference.

The oracle judges some images of a program first. If all came out as they must, the device makes
those that follow by their numbers, runs them and compares them with its reference, while the next
program is verified. What differs is made again here and judged by the oracle, the only judge, as is
a sample of what agrees; so a reference that is wrong is found out, and raises no alarm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.checks.program_rounds import ImageLaunch, ProgramRounds
from fuzz.checks.protocol import REFERENCE, Stage
from fuzz.compilers.members import Built
from fuzz.runner import kind_of_failure
from oracle.errors import UsageError
from oracle.execution.execution import execute
from oracle.models import model_for
from oracle.program.program import Program, different, requirements
from runners.protocol import Failure, Images, Trouble
from runners.reference.encoding import encode
from runners.reference.fresh import FreshRan, FreshWork, PendingFresh, fresh_runner, images_of
from strategies.contents import Recipe, expand
from strategies.contents.device import device_contents
from strategies.features import main_form
from strategies.rounds import LANES_TAKE, Batch

SAMPLED = 99_991
"""One image in so many is judged even if it agrees: a prime, for classes come in turn."""
_TOGETHER = 1 << 18  # images of one comparison: an end waits for one (10^8 a second, H100)
_ISOLATED = 4096  # images of which those are looked for at which a comparison failed


_Started = tuple[ImageLaunch, FreshWork, PendingFresh]
"""A program whose images are compared, without any of its images; which; and what becomes of it."""


class FreshRounds(ProgramRounds):
    """Carries out rounds on one runner, which compares. Takes what `ProgramRounds` does.

    Raises UsageError if the runner does not compare.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._device = fresh_runner(self._ready.runner)
        self._started: list[_Started] = []
        self._gone_on: set[str] = set()
        """Entries of programs of the last report that the device compared."""
        self._distrusted: set[str] = set()
        """What the reference was wrong about here; the job names what it was elsewhere."""

    def _carry_out(self) -> bool:
        self._started, self._gone_on = [], set()
        complete = super()._carry_out()
        self._end()
        # Screening repeats what was compared already.
        left_out = self._odd | self._gone_on
        self.verified = [one for one in self.verified if one.entry not in left_out]
        return complete and not self._report.lost

    def _work_on(self, batch: Batch, built: Built, place: int, end: int) -> None:
        verified = len(self.verified)
        super()._work_on(batch, built, place, end)
        all_done = self._job.skip + self._report.cases >= end and not self._report.lost
        # What another device repeats is compared with that one alone.
        if len(self.verified) == verified or not all_done or self._job.against is not None:
            return
        # Those of the program before come to their end.
        (compiled,) = (one.compiled for one in self._variants(built, batch.entry))
        self._heartbeat.enter(Stage.EXPAND)
        works = self._works(batch, compiled.oracle_target)
        self._report.counts[REFERENCE, "programs" if works else "programs left out"] += 1
        self._end()
        for work in works:
            self._gone_on.add(batch.entry)
            pending = self._device.fresh(compiled, work, entry=batch.entry)
            launch = ImageLaunch(batch=batch, built=built, compiled=compiled)
            self._started.append((launch, work, pending))

    def _works(self, batch: Batch, target: str) -> list[FreshWork]:
        """Return what is to be compared of a program; nothing if the reference cannot do it."""
        distrusted = self._distrusted | self._job.settled
        if distrusted & {_about(batch), *(one.opcode for one in requirements(batch.program))}:
            return []
        try:
            encoded = encode(batch.program, model_for(target))
        except UsageError:
            return []
        contents = device_contents(batch.recipe, batch.program)
        most = self._job.plan.work.fresh
        total = images_of(most // LANES_TAKE if batch.form is None else most, encoded)
        end = batch.count + total
        return [
            FreshWork(
                encoded=encoded, contents=contents, first=first, count=count,
                sampled=sample(batch.recipe, first, count),
            )
            for first in range(batch.count, end, _TOGETHER)
            for count in [min(_TOGETHER, end - first)]
        ]  # fmt: skip

    def _end(self) -> None:
        """Wait for the comparisons that were started, and judge what comes back."""
        started, self._started = self._started, []
        for launch, work, pending in started:
            self._heartbeat.enter(Stage.RUN)
            ran = pending.collect()
            if isinstance(ran, Failure):
                self._failed(launch, work, ran)
                continue
            self._report.counts[REFERENCE, "images"] += ran.images
            self._report.counts[REFERENCE, "differing"] += ran.differing
            if len(ran.numbers):
                self._judge(launch, work, ran)

    def _judge(self, launch: ImageLaunch, work: FreshWork, ran: FreshRan) -> None:
        """Have the oracle judge images that came back, and the reference by them."""
        self._heartbeat.enter(Stage.ORACLE)
        batch, counts = launch.batch, self._report.counts
        judged = partial(
            made_again, batch.recipe, batch.program, target=launch.compiled.oracle_target
        )
        again = judged(ran)
        counts[REFERENCE, "judged"] += len(again.images)
        if images := len(again.mistaken):
            # If the reference is wrong about it again, a form is left out.
            number = int(ran.numbers[again.mistaken[0]])
            alone = replace(work, first=number, count=1, sampled=(number,))
            tried = self._device.fresh(launch.compiled, alone, entry=batch.entry).collect()
            self._heartbeat.enter(Stage.ORACLE)
            if isinstance(tried, Failure):
                self._failed(launch, work, tried)
            elif not len(judged(tried).mistaken):
                counts[REFERENCE, "once"] += images
            else:
                counts[REFERENCE, "reference wrong", _about(batch)] += images
                self._distrusted.add(_about(batch))
        if len(again.wrong):
            device = self._ready.uuid or f"device {self._ready.choice.device}"
            for unit in ran.sms[again.wrong].tolist():
                counts[REFERENCE, "wrong on", device, str(unit)] += 1
            shown = replace(launch, images=again.images, numbers=ran.numbers)
            unseen = ran.differing - ran.listed
            self._came_out_wrong(shown, ran.after, ran.sms, again.wrong, unseen)

    def _failed(self, launch: ImageLaunch, work: FreshWork, failure: Failure) -> None:
        """Look for the images at which a comparison failed, unless the program runs without it."""
        if failure.trouble in (Trouble.UNAVAILABLE, Trouble.UNSUPPORTED):
            kind_of_failure(failure)
        batch, compiled = launch.batch, launch.compiled
        self._report.counts[REFERENCE, "failed"] += work.count
        self._report.said = failure.line
        if batch.entry in self._odd:
            return

        def runs(first: int, count: int) -> bool:
            part = replace(work, first=first, count=count, sampled=())
            ran = self._device.fresh(compiled, part, entry=batch.entry).collect()
            return not isinstance(ran, Failure)

        some = range(work.first, work.first + work.count)[:_ISOLATED]
        if failure.trouble is not Trouble.DEVICE_LOST:
            some = narrowed(runs, work.first, work.count, _ISOLATED)
        images = expand(batch.recipe, batch.program, len(some), first=some.start)
        again = self._runner.run(compiled, images, entry=batch.entry)
        if isinstance(again, Failure):
            numbers = np.arange(len(some)) + some.start
            self._isolated(replace(launch, images=images, numbers=numbers), again)


def narrowed(runs: Callable[[int, int], bool], first: int, count: int, enough: int) -> range:
    """Return at most `enough` of the images at which a run failed, one after the other.

    `runs` tells whether so many images run, from the first one on. One of those that are returned
    fails, if what fails does so each time. The first ones are tried at once: what does not end is
    waited for, and mostly does not whatever its images hold.
    """
    if count > enough and not runs(first, enough):
        count = enough
    while count > enough:
        half = count // 2
        if runs(first, half):
            first, count = first + half, count - half
        else:
            count = half
    return range(first, first + count)


def _about(batch: Batch) -> str:
    form = main_form(batch.program)
    return "programs without a form" if form is None else form.opcode


@dataclass(frozen=True, kw_only=True, eq=False)
class MadeAgain:
    """Images that a comparison brought back, as they are made and judged here."""

    images: Images  # uint8 (count, image_bytes)
    expected: Images  # after the program, by the oracle
    wrong: NDArray[np.intp]  # places of those that the program under test got wrong
    mistaken: NDArray[np.intp]
    """Places of those that the device made otherwise, or its reference judged otherwise."""


def made_again(recipe: Recipe, program: Program, ran: FreshRan, *, target: str) -> MadeAgain:
    """Make images again by their numbers; have the oracle judge what the device made of them."""
    each = [expand(recipe, program, 1, first=int(number)) for number in ran.numbers]
    images = np.concatenate([np.zeros((0, program.image_bytes), np.uint8), *each])
    expected = execute(program, images, target=target).images
    wrong, others = different(expected, ran.after), different(images, ran.before)
    # The reference says that the first ones are wrong, and no others.
    misjudged = np.setxor1d(wrong, np.arange(ran.listed))
    return MadeAgain(
        images=images,
        expected=expected,
        # What the program was run on has to be what is made here.
        wrong=np.setdiff1d(wrong, others),
        mistaken=np.union1d(misjudged, others),
    )


def sample(recipe: Recipe, first: int, count: int) -> tuple[int, ...]:
    """Return the numbers of the images of a range that the oracle judges even if they agree."""
    # Where it begins differs from program to program.
    begin = first + (recipe.seed - first) % SAMPLED
    return tuple(range(begin, first + count, SAMPLED))
