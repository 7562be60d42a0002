"""The coordinator: hands out rounds, commits what came of them in order, and keeps the state."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Protocol

from corpus import Corpus
from corpus.known import Known
from fuzz.campaign.crew import Crew, Event, Finished, GaveUp, Lost
from fuzz.campaign.draws import Selection
from fuzz.campaign.figures import Figures, summary
from fuzz.campaign.limits import Budget
from fuzz.campaign.messages import Blame, Examined, Facts, NotExamined, Plan, RoundJob, RoundReport
from fuzz.campaign.progress import ValueProgress, nested
from fuzz.campaign.reached import Reached
from fuzz.campaign.status import CampaignStatus, DeviceStatus
from fuzz.campaign.store import CampaignStore, State
from fuzz.campaign.triage import Triage
from fuzz.checks.program_draws import (
    GENERATOR_VERSION,
    PROGRAMS,
    epoch_known,
    images_per_program,
    round_focuses,
    selected_forms,
)
from fuzz.findings.groups import unknown_groups
from fuzz.shrinking.shrinker import SECONDS as SHRINK_SECONDS
from oracle.errors import DeviceLostError, InfrastructureError, UsageError, WarpfuzzError

Options = Mapping[str, str | int | None]


def options_of(plan: Plan, facts: Facts) -> dict[str, str | int | None]:
    """Return the options of a campaign, by the name that a person knows them by."""
    choice = plan.choice
    return {
        "--runner": choice.name,
        "--seed": plan.seed,
        "--only": plan.pattern,
        "--target": facts.target,
        "--ptx-version": facts.ptx_version,
        "--fault": " ".join(choice.faults),
        "--ptx-pass": choice.ptx_pass,
        "--opt": choice.level,
        "--assembler": choice.assembler,
        "--include-undefined": plan.undefined or None,
        "images of a program": plan.images,
        "smallest programs": plan.smallest,
        "layout of the simulated device": choice.layout,
        "version of the generator": GENERATOR_VERSION,
    }


def check_options(before: Options, now: Options) -> None:
    """Raise UsageError if a campaign is to be resumed with other options."""
    names = [
        name for name in (*before, *(set(now) - set(before))) if before.get(name) != now.get(name)
    ]
    if names:
        listed = ", ".join(f"{name} {before.get(name)!r} (now {now.get(name)!r})" for name in names)
        raise UsageError(
            f"the campaign was begun with {listed}; resume it with the same options, or leave "
            "--resume out to start a new one"
        )


_TICK = 0.2
"""Longest wait for news, in seconds: a signal is heard after it at the latest."""
_SAVE_SECONDS = 2.0
"""Between two savings of the state: what a kill costs in work that is done again."""
_STATISTICS_SECONDS = 10.0
"""Between two lines of statistics: 60,000 lines a week."""
_INTERRUPTED_SECONDS = 10.0
"""How long rounds may take to come to an end when they are interrupted; what takes longer is left
to a resumption. A batch on a GPU may take 10 s."""
_STOP_SECONDS = 3.0
"""The same when a person wants the end."""
_GRACE = 20.0
"""Seconds after the time is over in which findings are made smaller."""
_NOTHING_COMPILES = 16
"""Programs after which, if none of them was compiled, the compiler itself is called broken."""
_ATTEMPTS = 2
"""Workers that may die over a round before it is skipped."""


class Observer(Protocol):
    """Somebody who watches a campaign."""

    def update(self, status: CampaignStatus) -> None:
        """Hear what the campaign is like now."""
        ...


class Campaign:
    """A campaign on values.

    Parameters
    ----------
    crew
        Those who carry out jobs; closed by the caller.
    facts
        The runner, as the first of them has opened it.
    plan
        What the crew knows of the campaign.
    budget
        How long it may go on, all resumptions together.
    corpus
        Where findings go.
    known
        What needs not be reported.
    observer
        Who watches.
    store
        Where the state goes.
    state
        Where the campaign was before; None: at its start.

    Raises
    ------
    UsageError
        If nothing is selected that the target has.
    """

    def __init__(
        self,
        crew: Crew,
        facts: Facts,
        *,
        plan: Plan,
        budget: Budget,
        corpus: Corpus,
        known: Known,
        observer: Observer,
        store: CampaignStore,
        state: State | None = None,
    ) -> None:
        self.crew, self.plan, self.budget = crew, plan, budget
        self._observer, self._store = observer, store
        self._forms = selected_forms(
            Selection(pattern=plan.pattern), target=facts.target, version=facts.ptx_version
        )
        self.facts = facts
        self._state = state or State(
            options=options_of(plan, facts), started=datetime.now(UTC).isoformat(timespec="seconds")
        )
        self._reached = Reached()
        self.triage = Triage(corpus=corpus, known=known)
        self._next = 0
        """Rounds before this one are committed."""
        self._parts: dict[int, int] = {}
        """Rounds from there on that were begun: cases of them that are committed."""
        self._whole: set[int] = set()
        """Rounds from there on that are committed."""
        self._given: dict[int, RoundJob] = {}
        """Rounds that are not committed and were given to somebody, or are to be given again."""
        self._again: list[int] = []
        """Those of them that nobody works on."""
        self._reports: dict[int, RoundReport] = {}
        """Those of them that wait for earlier rounds to be committed."""
        self._deaths: dict[int, int] = {}
        self._stopping = False
        self._lost, self._refusal = "", ""
        self.progress = ValueProgress(
            seed=plan.seed,
            assemblers=(),
            forms=len(self._forms),
            runner=facts.device,
            pair=f"{facts.target}, PTX ISA {facts.ptx_version}",
        )
        if state is not None:
            self._restore(state)
        now = time.monotonic()
        self._saved = self._recorded = self.newest = now
        """`newest`: when something new was found or reached."""
        self._width = self._reached_so_far()
        self._health: dict[int, DeviceStatus] = {}
        """By the number of a device: what it said last."""
        self._figures = Figures(self)

    # What others see

    @property
    def reached(self) -> Reached:
        """What the committed rounds have reached."""
        return self._reached

    @property
    def rounds(self) -> int:
        """Rounds that are committed."""
        return self._next + len(self._whole)

    @property
    def devices(self) -> Sequence[DeviceStatus]:
        """What the devices said last of themselves."""
        return [self._health[number] for number in sorted(self._health)]

    def status(self) -> CampaignStatus:
        """Return the campaign as it is now."""
        return self._figures.status()

    def stop(self) -> None:
        """End the campaign within seconds."""
        self._stopping = True

    # The loop

    def run(self) -> ValueProgress:
        """Go on until the budget is spent or a stop is requested.

        Raises
        ------
        DeviceLostError
            If no device is left; `progress` still holds what was found until then.
        WarpfuzzError
            If the runner lacks something, nothing compiles, or something cannot be stored.
        """
        progress = self.progress
        try:
            self.save()
            progress.stopped = self._loop()
            self.triage.end()
            if self._lost:
                raise DeviceLostError(self._lost)
            self._check_skipped()
        except WarpfuzzError as error:
            progress.stopped = progress.stopped or str(error)
            raise
        finally:
            progress.seconds = time.monotonic() - progress.started
            self._refresh()
            self._observer.update(self._figures.status())
        self.save()
        self._write_figures()
        return progress

    def _loop(self) -> str:
        """Run rounds, then what is left of the examinations; return why it ended."""
        while not (reason := self._reason()):
            self._give_rounds()
            self._give_examinations(SHRINK_SECONDS)
            self._listen()
            self._commit()
            self._tick()
        self.crew.interrupt()
        deadline = time.monotonic() + (_STOP_SECONDS if self._stopping else _INTERRUPTED_SECONDS)
        while self._busy and time.monotonic() < deadline:
            self._listen()
            self._tick()
        self._commit_parts()
        grace = time.monotonic() + _GRACE
        while self.triage.waiting and not self._stopping and self._alive:
            if self.budget.seconds is not None and time.monotonic() > grace:
                if not self.triage.unconfirmed:
                    break
                left = 0.0
            else:
                left = SHRINK_SECONDS
            self._give_examinations(left, everybody=True)
            self._listen()
            self._tick()
        return "stopped on request" if self._stopping else reason

    def _reason(self) -> str:
        """Return why rounds are to end; empty while they go on."""
        if self._stopping:
            return "stopped on request"
        if not self._alive:
            return self._lost or "no worker is left"
        seconds = time.monotonic() - self.progress.started
        quiet = time.monotonic() - self.newest
        found = unknown_groups(self.progress.families.values())
        return self.budget.reason(seconds, self.progress.cases, found=found, quiet=quiet)

    @property
    def _alive(self) -> bool:
        return self.crew.workers > 0

    @property
    def _busy(self) -> bool:
        return len(self._given) > len(self._again) + len(self._reports)

    def _listen(self) -> None:
        for event in self.crew.poll(_TICK):
            self._hear(event)

    def _hear(self, event: Event) -> None:
        match event:
            case Finished(report=RoundReport() as report):
                self._reports[report.number] = report
                if report.health is not None:
                    self._health[report.device] = report.health
            case Finished(job=job, report=Examined() as result) if not isinstance(job, RoundJob):
                self.triage.examined(job, result)
                self.save()
            case Finished(job=job, report=NotExamined()) if not isinstance(job, RoundJob):
                self.triage.leave(job)
            case Lost(job=RoundJob() as job):
                self._redo(job, event)
            case Lost(job=job) if not isinstance(job, RoundJob):
                self.triage.died(job, guilty=event.guilty)
            case GaveUp(broken=broken):
                if broken.blame is not Blame.DEVICE_LOST:
                    raise broken.error()
                self._lost = broken.message

    def _redo(self, job: RoundJob, event: Lost) -> None:
        """Give a round again; skip it if workers die over it."""
        number = job.number
        self._deaths[number] = self._deaths.get(number, 0) + event.guilty
        if self._deaths[number] < _ATTEMPTS:
            self._again.append(number)
            return
        self.progress.skipped_rounds[number] = f"the worker {event.how}"
        self._reports[number] = RoundReport(number=number, skip=job.skip, complete=True)

    # Rounds

    def _give_rounds(self) -> None:
        for _ in range(self.crew.places_for_rounds()):
            job = self._job()
            if job is None:
                return
            self._given[job.number] = job
            self.crew.give(job)

    def _job(self) -> RoundJob | None:
        """Return the next round to be given; None if it has to wait for others."""
        if self._again:
            self._again.sort()
            return self._given[self._again.pop(0)]
        number = self._next
        while number in self._given or number in self._whole:
            number += 1
        if epoch_known(number) > self._next:
            return None
        before = self.progress.cases + sum(
            job.size for earlier, job in self._given.items() if earlier < number
        )
        limit = None if self.budget.cases is None else self.budget.cases - before
        if limit is not None and limit <= 0:
            return None
        return self._new_job(number, limit)

    def _new_job(self, number: int, limit: int | None) -> RoundJob:
        focuses = round_focuses(
            self._forms,
            seed=self.plan.seed,
            number=number,
            reached=self._reached.known_to(number),
        )
        count = self.plan.images or images_per_program(number, self.plan.speed)
        skip = self._parts.get(number, 0)
        if limit is not None and limit >= PROGRAMS * count - skip:
            limit = None
        return RoundJob(
            number=number,
            focuses=tuple(focuses),
            count=count,
            skip=skip,
            limit=limit,
            settled=self.triage.settled,
        )

    def _commit(self) -> None:
        """Commit reports in the order of the rounds, as far as there are all of them."""
        while True:
            while self._next in self._whole:
                self._whole.discard(self._next)
                self._next += 1
            report = self._reports.pop(self._next, None)
            if report is None:
                break
            job = self._given[self._next]
            left = self._left
            if left is not None and report.cases > left:
                # More than is wanted: again, and cut. Nothing of this one was counted.
                self._give_again(job, limit=left)
                break
            self._take(report)
            if report.complete:
                self._done(report.number)
            elif self._left != 0:
                # Cut too early, or by a device that is lost: the rest is for somebody else.
                self._give_again(job, limit=self._left)
            else:
                del self._given[report.number]
        self._reached.settle(self._next)
        progress = self.progress
        if progress.compiled == 0 and progress.uncompiled >= _NOTHING_COMPILES:
            raise InfrastructureError(
                f"none of {progress.uncompiled} programs was compiled, so nothing can be run; "
                f"the last failed so: {self._refusal}"
            )

    @property
    def _left(self) -> int | None:
        """Cases that the budget leaves; None without a limit."""
        limit = self.budget.cases
        return None if limit is None else max(0, limit - self.progress.cases)

    def _give_again(self, job: RoundJob, *, limit: int | None) -> None:
        skip = self._parts.get(job.number, 0)
        cut = RoundJob(
            number=job.number,
            focuses=job.focuses,
            count=job.count,
            skip=skip,
            limit=limit,
            settled=self.triage.settled,
        )
        self._given[job.number] = cut
        self._again.append(job.number)

    def _done(self, number: int) -> None:
        del self._given[number]
        self._parts.pop(number, None)
        self._deaths.pop(number, None)
        if number == self._next:
            self._next += 1
        else:
            self._whole.add(number)
        self.progress.rounds = self.rounds

    def _commit_parts(self) -> None:
        """Commit what there is of the rounds that were interrupted, whatever is missing."""
        self._commit()
        for number in sorted(self._reports):
            report = self._reports.pop(number)
            left = self._left
            if left is not None and report.cases > left:
                continue
            self._take(report)
            if report.complete:
                self._done(number)
        self.save()

    def _take(self, report: RoundReport) -> None:
        """Count what a round, or a part of one, has come to."""
        progress = self.progress
        new = False
        # First what has to be stored: what is counted has to be on the disk.
        for suspect in report.suspects.values():
            new |= self.triage.suspect(suspect)
            self._refresh()
        progress.cases += report.cases
        progress.judged += report.judged
        progress.missing += report.missing
        progress.compiled += report.compiled
        progress.uncompiled += report.uncompiled
        progress.by_kind.update(report.by_kind)
        progress.undefined.update(report.undefined)
        progress.reached |= report.reached
        self._refusal = report.refusal or self._refusal
        self._reached.add(report.number, report.coverage)
        self._parts[report.number] = report.skip + report.cases
        if new:
            self.newest = time.monotonic()
            self.save()

    # Examinations

    def _give_examinations(self, seconds: float, *, everybody: bool = False) -> None:
        if not self.triage.waiting:
            return
        for _ in range(self.crew.places_for_examinations(everybody=everybody)):
            job = self.triage.next_job(seconds, shrinking=seconds > 0)
            if job is None:
                return
            self.crew.give(job)

    def _refresh(self) -> None:
        self.progress.families = dict(self.triage.families)

    # Now and then

    def _tick(self) -> None:
        now = time.monotonic()
        width = self._reached_so_far() if now - self._saved >= _SAVE_SECONDS else self._width
        if width > self._width:
            self._width, self.newest = width, now
        if now - self._saved >= _SAVE_SECONDS:
            self.save()
        if now - self._recorded >= _STATISTICS_SECONDS:
            self._write_figures()
        self._observer.update(self._figures.status())

    def _write_figures(self) -> None:
        self._recorded = time.monotonic()
        if not self.progress.stopped:
            self.progress.seconds = self._recorded - self.progress.started
        self._store.record(self._figures.line())
        self._store.summarise({"summary": summary(self)})

    def _reached_so_far(self) -> int:
        return sum(line.reached for line in self._reached.total.lines())

    def _check_skipped(self) -> None:
        skipped = self.progress.skipped_rounds
        if skipped:
            number, why = next(iter(skipped.items()))
            raise InfrastructureError(
                f"{len(skipped)} of {self.rounds} rounds could not be run, such as round {number}: "
                f"{why}; everything else was judged. The seed and the number make the round again"
            )

    def save(self) -> None:
        """Keep the state on the disk.

        Raises
        ------
        InfrastructureError
            If it cannot be written; the old one stays.
        """
        self._saved = time.monotonic()
        progress, state = self.progress, self._state
        state.seconds = self._saved - progress.started
        state.ended = progress.stopped
        state.rounds = self._next
        state.parts = dict(self._parts)
        state.whole = sorted(self._whole)
        state.skipped = dict(progress.skipped_rounds)
        state.cases, state.judged = progress.cases, progress.judged
        state.missing = progress.missing
        state.compiled, state.uncompiled = progress.compiled, progress.uncompiled
        state.by_kind = dict(progress.by_kind)
        state.undefined = nested(progress.undefined)
        state.reached = sorted(progress.reached)
        state.coverage = self._reached.state()
        state.families = self.triage.records()
        state.tries, state.turned = dict(self.triage.tries), dict(self.triage.turned)
        self._store.save(state)

    def _restore(self, state: State) -> None:
        progress = self.progress
        progress.started = time.monotonic() - state.seconds
        progress.cases, progress.judged = state.cases, state.judged
        progress.missing = state.missing
        progress.compiled, progress.uncompiled = state.compiled, state.uncompiled
        progress.by_kind.update(state.by_kind)
        for reason, outcomes in state.undefined.items():
            progress.undefined.update({(reason, name): n for name, n in outcomes.items()})
        progress.reached = set(state.reached)
        progress.skipped_rounds = dict(state.skipped)
        state.ended = ""
        self._next, self._parts = state.rounds, dict(state.parts)
        self._whole = set(state.whole)
        progress.rounds = self.rounds
        try:
            self._reached = Reached.from_state(state.coverage)
        except (KeyError, TypeError, ValueError, WarpfuzzError) as error:
            raise InfrastructureError(
                f"what the campaign has reached cannot be read ({error}); leave --resume out to "
                "start a new campaign there (the findings stay)"
            ) from None
        self.triage.tries, self.triage.turned = dict(state.tries), dict(state.turned)
        self.triage.restore(state.families)
        self._refresh()
