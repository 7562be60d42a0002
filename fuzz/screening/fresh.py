"""Screening with images that the device makes itself and compares with its reference.

A program's first launches repeat images that the oracle has judged, as without the reference. Then
each launch has images that no other one had. What differs is made again here and judged by the
oracle, and so is a sample of what agrees.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.checks.fresh_rounds import made_again, sample
from fuzz.findings.families import form_name
from fuzz.screening.screen import Item, Launch, Screen
from oracle.errors import InfrastructureError, UsageError
from oracle.models import model_for
from runners.cuda.runner import CudaRunner
from runners.emission import emit
from runners.ledger import Differing, Ledger
from runners.protocol import Compiled, Failure
from runners.reference.encoding import encode
from runners.reference.fresh import FreshRan, FreshWork, PendingFresh, finished_by, fresh_runner
from runners.screening import References, Screened
from strategies.contents.device import device_contents
from strategies.features import main_form

_MOST_IMAGES = 1 << 22
"""Images of a launch: 40 ms (10^8 a second, H100, prototype, 2026-11)."""

_FIRST_IMAGES = 1 << 16
"""Images of a program's first such launch, 9 ms at the mean rate of a campaign (7.2 million a
second, H100, 2026-11-27). The launch before it, without the reference, tells nothing of its time,
and one that takes seconds is waited for at the end."""

_MOST_KEPT = 128
"""Images of a program from which on those that are wrong are only counted."""

_MOST_REPEATED = 4
"""Images, each of another multiprocessor, that are run again by themselves: mostly on one and the
same. Another one than before tells whose fault a wrong image is."""


class FreshScreen(Screen):
    """The screening of one device that makes its images. Takes what `Screen` does.

    Raises UsageError if the runner does not compare.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.device = fresh_runner(self.ready.runner)
        self.fresh = 0
        self._plain: dict[int, Compiled] = {}
        """By the number of a program: its kernel that runs every image once."""
        self._works: dict[int, FreshWork | None] = {}
        """By the number of a program: the images that come next; None: the reference cannot."""
        self.timed: set[int] = set()
        """Numbers of the programs of which a comparison has come to its end."""
        self.asked: set[tuple[int, int]] = set()
        """Numbers of programs, and multiprocessors of which no more wrong images are run again:
        another one got such an image right, or nothing was said."""

    def _compiled(self, item: Item) -> Compiled | Failure:
        compiled = super()._compiled(item)
        module = emit(item.source.program, module=self._module, entry=item.source.entry)
        plain = self.runner.prepare(module)
        if isinstance(plain, Compiled):
            self._plain[item.number] = plain
        return compiled if isinstance(plain, Compiled) else plain

    def _launch(self, item: Item, compiled: Compiled, limit: int, *, examine: bool) -> Launch:
        # Verified on every multiprocessor, with the oracle's results.
        work = self._work(item, limit) if item.per_second else None
        if work is None:
            return super()._launch(item, compiled, limit, examine=examine)
        pending = self.device.fresh(self._plain[item.number], work)
        return item, None, partial(self._compared, item, work, pending, examine)

    def _work(self, item: Item, limit: int) -> FreshWork | None:
        if item.number not in self._works:
            self._works[item.number] = self._first_work(item)
        before = self._works[item.number]
        recipe = item.source.recipe
        if before is None or recipe is None:
            return None
        first = before.first + before.count
        most = _MOST_IMAGES if item.number in self.timed else _FIRST_IMAGES
        count = min(most, limit * max(1, self.tally.multiprocessors.size))
        work = replace(before, first=first, count=count, sampled=sample(recipe, first, count))
        self._works[item.number] = work
        return work

    def _first_work(self, item: Item) -> FreshWork | None:
        """Return the images that the oracle has judged; None if they are to be repeated.

        So they are where the reference cannot go on, and of scalar code: what a compiler gets wrong
        in it would be taken for the device's fault (five of 256 programs, H100, 2026-11-27).
        """
        source = item.source
        if source.recipe is None or source.has_scalar_code:
            return None
        try:
            encoded = encode(source.program, model_for(self.oracle_target))
        except UsageError:
            return None
        contents = device_contents(source.recipe, source.program).words
        count = len(source.references.images)
        return FreshWork(encoded=encoded, contents=contents, first=0, count=count)

    def _alone(self, item: Item, work: FreshWork, number: int) -> FreshRan | None:
        """Run an image of a program again, by itself; it comes back even if it is right.

        None if that fails, which is held against the program as the failure of a launch is.
        """
        work = replace(work, first=number, count=1, sampled=(number,))
        ran = self.device.fresh(self._plain[item.number], work).collect()
        if isinstance(ran, Failure):
            self._failed(item, ran)
            return None
        return ran

    def _compared(
        self, item: Item, work: FreshWork, pending: PendingFresh, examine: bool
    ) -> Screened | Failure:
        """Wait for a comparison; what is wrong joins the program's images.

        Raises InfrastructureError if the reference is wrong.
        """
        ran = pending.collect()
        if isinstance(ran, Failure):
            return ran
        self.timed.add(item.number)
        self.fresh = (self.fresh or 0) + int(ran.finished.sum())
        health = None
        if examine and isinstance(self.device, CudaRunner):
            told = self.device.health()
            health = None if isinstance(told, Failure) else told
        ledger = Ledger(finished=ran.finished, wrong=np.zeros_like(ran.finished), differing=())
        if len(ran.numbers):
            ledger = self._judged(item, work, ran, ledger)
        return Screened(ledger=ledger, seconds=ran.seconds, health=health)

    def _judged(self, item: Item, work: FreshWork, ran: FreshRan, right: Ledger) -> Ledger:
        """Return what is wrong by the oracle; `right` is returned if none is the device's fault."""
        source = item.source
        assert source.recipe is not None
        again = made_again(source.recipe, source.program, ran, target=self.oracle_target)
        if len(again.mistaken):
            self._try_again(item, work, int(ran.numbers[again.mistaken[0]]))
        wrong, before = again.wrong, source.references
        if source.entry not in self.miscompiled and len(wrong):
            self._ask_elsewhere(item, work, ran, wrong)
        if source.entry in self.miscompiled:
            return right
        count = len(before.images)
        shown = wrong if count < _MOST_KEPT else wrong[:0]
        if len(shown):
            # Behind those that are there: what was seen before is known by its place.
            references = References(
                images=np.concatenate([before.images, again.images[shown]]),
                expected=np.concatenate([before.expected, again.expected[shown]]),
                drawn=(*(before.drawn or range(count)), *ran.numbers[shown].tolist()),
            )
            item.source = replace(source, references=references)
        return Ledger(
            finished=ran.finished,
            wrong=finished_by(ran.sms[wrong], len(wrong)),
            differing=tuple(
                Differing(image=count + index, sm=int(ran.sms[place]), actual=ran.after[place])
                for index, place in enumerate(shown)
            ),
        )

    def _ask_elsewhere(
        self, item: Item, work: FreshWork, ran: FreshRan, wrong: NDArray[np.intp]
    ) -> None:
        """Give the program up if images that are wrong are so on other multiprocessors, too."""
        _, first = np.unique(ran.sms[wrong], return_index=True)
        places = [
            place
            for place in wrong[np.sort(first)].tolist()
            if (item.number, int(ran.sms[place])) not in self.asked
        ]
        elsewhere = []
        for place in places[:_MOST_REPEATED]:
            sm = int(ran.sms[place])
            again = self._alone(item, work, int(ran.numbers[place]))
            moved = again is not None and len(again.sms) > 0 and again.sms[0] != sm
            if again is None or not moved or not again.differing:
                self.asked.add((item.number, sm))
            if again is not None and moved:
                elsewhere.append((place, int(again.sms[0]), again.differing))
        if elsewhere and all(differing for _, _, differing in elsewhere):
            place, sm, _ = elsewhere[0]
            self.give_up(item, int(ran.numbers[place]), (int(ran.sms[place]), sm))

    def _try_again(self, item: Item, work: FreshWork, number: int) -> None:
        source, ran = item.source, self._alone(item, work, number)
        assert source.recipe is not None
        target = self.oracle_target
        if (
            ran is None
            or not len(made_again(source.recipe, source.program, ran, target=target).mistaken)
        ):  # fmt: skip
            self.once += 1
            return
        raise InfrastructureError(
            f"the reference on {self.ready.device} is wrong about image {number} of a "
            f"program about {form_name(main_form(source.program))}, by the oracle; screen without "
            "--fresh"
        )
