"""The coordinator: hands out rounds, commits their results, and keeps the state."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from corpus import Corpus
from corpus.known import Known
from fuzz.campaign.pool import Broken, Event, Lost, RoundEnd, WorkerPool
from fuzz.campaign.status import (
    CampaignStatus,
    Changed,
    Hosts,
    Observer,
    statistics,
    summary,
    untested_words,
)
from fuzz.campaign.store import GRACE, MOST, Budget, CampaignStore, State, Triage
from fuzz.checks import protocol
from fuzz.findings.families import finding_groups, group_counts
from fuzz.output import counted
from oracle.errors import DeviceLostError, InfrastructureError, UsageError, WarpfuzzError
from strategies.rounds import LONGEST_EPOCH, Reached, epoch_known

SHRINK_SECONDS = 45.0
"""For making one finding smaller, 15 of them or half for its kernel: of 24 findings in 120 s three
of warpgroups took 30, with kernels of 48 to 80 lines (H200, 2026-11-30)."""
_TICK = 0.2  # longest wait for news, in seconds: a signal is heard after it at the latest
_SAVE_SECONDS = 2.0  # between two savings: what a kill costs in work that is done again
_STATISTICS_SECONDS = 10.0  # between two lines of statistics: 60,000 lines a week
_INTERRUPTED_SECONDS = 10.0  # for rounds to come to an end: a batch on a GPU may take 10 s
_STOP_SECONDS = 3.0  # the same after Ctrl-C or SIGTERM
_STOP_REPLAYS = 20.0  # for replays then: schedulers kill 30 s after SIGTERM (Kubernetes, Slurm)
_RECENT_SECONDS = 10.0  # what a rate is an average over: a round on a GPU takes some seconds
_CROWD = 16
"""Suspects that look new, from which on workers replay them before they begin rounds: examiners
replayed 182 of 369 that 13.5.37 gave in 100 s (wgmma, H200, 2026-11-29)."""
_COUNTED = ("cases", "compared", "answered", "failed", "unasked")
"""What a report, a state and a status have of cases, under the same names."""


def campaign_options(
    check: protocol.Check, facts: protocol.Facts, shard: protocol.Shard | None = None
) -> protocol.Options:
    """Return what decides which cases there are, for a resumption."""
    own = {} if shard is None else {"--shard": str(shard)}
    return {**check.options(facts), **own, "rounds of the longest epoch": LONGEST_EPOCH}


def check_options(before: protocol.Options, now: protocol.Options) -> None:
    """Raise UsageError if a campaign is to be resumed with other options."""
    names = [
        name for name in (*before, *(set(now) - set(before))) if before.get(name) != now.get(name)
    ]
    if "--seed" in names:
        # It follows from the seed: nobody gave it.
        names = [name for name in names if name != "layout of the simulated device"]
    if names:
        listed = ", ".join(f"{name} {before.get(name)!r} (now {now.get(name)!r})" for name in names)
        raise UsageError(
            f"the campaign was begun with {listed}; resume it with the same options, or give "
            "--new in place of --resume to begin another"
        )


def limit_reached(
    budget: Budget, seconds: float, cases: int, *, found: int = 0, quiet: float = 0.0
) -> str:
    """Return which limit is reached, in words; empty if none is."""
    limits = budget.seconds, budget.cases, budget.findings, budget.quiet
    pairs = zip(limits, (seconds, cases, found, quiet), strict=True)
    reached = [limit is not None and spent >= limit for limit, spent in pairs]
    if reached[0] or reached[1]:
        return "budget spent"
    if reached[2]:
        return f"{counted(found, 'family', 'families')} found"
    return f"nothing new for {budget.quiet:g} s" if reached[3] else ""


class Campaign:
    """A campaign with one check, or with its rounds of one shard.

    The pool is closed by the caller. The budget is how long it may go on, all resumptions together;
    `state` is where it was before, None at its start; `asked` is what a resumption is to know.
    """

    def __init__(
        self,
        pool: WorkerPool,
        facts: protocol.Facts,
        *,
        check: protocol.Check,
        budget: Budget,
        corpus: Corpus,
        known: Known,
        observer: Observer,
        store: CampaignStore,
        state: State | None = None,
        shard: protocol.Shard | None = None,
        asked: Mapping[str, Any] | None = None,
    ) -> None:
        self.pool, self.facts, self.check, self.budget = pool, facts, check, budget
        self._observer, self._store, self._shard = observer, store, shard
        self.plan = check.plan(facts)
        self._state = state or State(
            options=dict(campaign_options(check, facts, shard)),
            asked=dict(asked or {}),
            started=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        limits = msgspec.structs.asdict(budget).items()
        self._state.limits = Budget(**{name: limit and min(limit, MOST) for name, limit in limits})
        self._rounds = RoundQueue(self._state)
        self._last_drawn: dict[int, protocol.RoundPlan] = {}  # one, by its place
        self._reached = Reached(self.plan.coverage)
        self.triage = Triage(corpus=corpus, known=known, shrinks=self.plan.shrinks)
        self._counts: protocol.Counts = protocol.Counts(
            {one.words: 0 for one in self.plan.words.counters}
        )
        self._stopping, self._finishing = False, False
        self._said, self._stopped, self._lost = "", "", ""
        if state is not None:
            self._restore(state)
        now = time.monotonic()
        self.told: CampaignStatus | None = None  # what the observer was told last
        self._started = now - self._state.seconds
        self._saved = self._recorded = self._newest = self._looked = now
        """`_newest`: when something new was found or reached."""
        self._lines = self._reached.total.lines(self.plan.forms)
        self._width = self._reached_so_far()
        self._hosts = Hosts(self._state)
        self._health: dict[int, protocol.DeviceStatus] = {}  # by device: what it said last
        self._recent: deque[tuple[float, int]] = deque()
        """(time.monotonic, cases compared by all workers) of the last seconds."""

    def stop(self) -> None:
        """End the campaign within seconds."""
        self._stopping = True

    def run(self) -> CampaignStatus:
        """Go on until the budget is spent or a stop is requested; return what it came to.

        Raises DeviceLostError if no device is left (`status` still tells what was found until
        then), and WarpfuzzError if the runner lacks something, nothing compiles, or something
        cannot be stored.
        """
        failed = False
        try:
            self.save()
            self._write_figures()
            self._stopped = self._loop()
            if self._lost:
                raise DeviceLostError(self._lost)
            if skipped := self._state.skipped:
                number, why = next(iter(skipped.items()))
                raise InfrastructureError(
                    f"{len(skipped)} of {self._rounds.committed} rounds could not be run, such as "
                    f"round {number}: {why}; everything else was judged. The same seed and number "
                    "give the same round"
                )
        except WarpfuzzError as error:
            self._stopped, failed = self._stopped or str(error), True
            raise
        finally:
            self.triage.end()
            self._state.seconds = time.monotonic() - self._started
            self._tell()
            if failed:
                # It did not die. Its state stays as it was saved: a round may be half counted.
                with suppress(WarpfuzzError):
                    self._write_figures()
        self.save()
        self._write_figures()
        return self.status()

    # The loop

    def _loop(self) -> str:
        """Run rounds, then what is left of the examinations; return why it ended."""
        last = math.inf
        while not (reason := self._reason()):
            self._give_examinations(self._seconds_left, crowd=_CROWD)
            for _ in range(self.pool.places_for_rounds()):
                job = self._rounds.job(self._left(), self._drawn, self._settled)
                if job is None:
                    break
                self.pool.give(job)
                # A resumption whose time was over before examines all that waits.
                if self.budget.seconds is not None:
                    last = self._started + self.budget.seconds + GRACE
            self._give_examinations(self._seconds_left)
            if (place := self._rounds.following) is not None:
                self._drawn(place)  # for whoever is the next to come to an end
            self._listen()
            self._commit()
        self._finishing = True
        self.pool.interrupt()
        begun, counted = time.monotonic(), False
        while True:
            past = time.monotonic() - begun
            ending = _STOP_SECONDS if self._stopping else _INTERRUPTED_SECONDS
            if not counted and not (self._rounds.busy and past < ending):
                counted = True
                self._commit()
                for report in self._rounds.rest(self._left):
                    self._take(report)
                self.save()
            left = 0.0 if self._stopping else self._seconds_left
            is_over = begun + past > last or (self._stopping and past > _STOP_REPLAYS)
            wanted = self.triage.waiting if left else self.triage.suspects
            if counted and (is_over or not (wanted and self.pool.workers)):
                return "stopped on request" if self._stopping else reason
            self._give_examinations(left, ending=True)
            self._listen()

    @property
    def _seconds_left(self) -> float:
        """The seconds until no finding is made smaller any more."""
        if self.budget.seconds is None:
            return math.inf
        return max(0.0, self._started + self.budget.seconds + GRACE - time.monotonic())

    def _reason(self) -> str:
        """Return why rounds are to end; empty while they go on."""
        if self._stopping:
            return "stopped on request"
        if not self.pool.workers:
            return self._lost or "no worker is left"
        now = time.monotonic()
        found = group_counts(self.triage.confirmed)[0]
        spent, quiet = now - self._started, now - self._newest
        return limit_reached(self.budget, spent, self._state.cases, found=found, quiet=quiet)

    def _left(self) -> int | None:
        limit = self.budget.cases
        return None if limit is None else max(0, limit - self._state.cases)

    def _listen(self) -> None:
        # First what takes long: whoever comes to an end meanwhile, or next, is given something else
        # before anything is written again.
        self._tick()
        for event in self.pool.poll(_TICK):
            self._hear(event)

    def _hear(self, event: Event) -> None:
        match event:
            case RoundEnd(report=protocol.RoundReport() as report):
                self._rounds.finished(report)
                if report.health is not None:
                    self._health[report.device] = report.health
                self._take_suspects(report.apart)
            case RoundEnd(job=protocol.Examination() as job, report=protocol.Found() as result):
                self.triage.examined(job, result)
            case Lost(job=protocol.RoundJob() as job):
                nothing = protocol.RoundReport(
                    number=job.number, skip=job.skip, coverage=self.plan.coverage()
                )
                self._rounds.lost(job, event.how, guilty=event.guilty, nothing=nothing)
            case Lost(job=protocol.Examination() as job):
                self.triage.died(job, guilty=event.guilty)
            case protocol.Found() as suspect:
                self._take_suspects([suspect])
            case Changed():
                self._hosts.hear(event)
                # Who looks at the files is told with the next tick.
                self._recorded = 0.0
            case Broken() as broken:
                if broken.cause is not DeviceLostError:
                    raise broken.error()
                self._lost = broken.message

    @property
    def _settled(self) -> frozenset[str]:
        """Return what workers need not look into any more."""
        wrong = (
            words for words in self._counts if words[:2] == (protocol.REFERENCE, "reference wrong")
        )
        return self.triage.settled | {words[2] for words in wrong}

    def _drawn(self, place: int) -> protocol.RoundPlan:
        if place not in self._last_drawn:
            number = place if self._shard is None else self._shard.number(place)
            plan = self.plan.round(number, self._reached.known_to(place))
            self._last_drawn = {place: plan}
        return self._last_drawn[place]

    def _give_examinations(self, seconds: float, *, ending: bool = False, crowd: int = 0) -> None:
        """Give findings to examiners; to everybody at the end, or where a `crowd` looks new."""
        waiting = self.triage.waiting_for(ending=ending)
        if not waiting or sum(not one.confirmed for one in waiting) < crowd:
            return
        everybody = ending or crowd > 0
        places = self.pool.places_for_examinations(len(waiting), everybody=everybody)
        for _ in range(min(places, crowd or places)):
            job = self.triage.next_job(seconds, ending=ending)
            if job is None:
                return
            most = None if job.seconds is None else min(job.seconds, SHRINK_SECONDS)
            self.pool.give(replace(job, seconds=most))

    def _commit(self) -> None:
        for report in self._rounds.ready(self._left, self._settled):
            self._take(report)
        self._reached.settle(self._state.rounds)
        if trouble := self.plan.trouble(self._counts, self._said):
            raise InfrastructureError(trouble)

    def _take(self, report: protocol.RoundReport) -> None:
        state = self._state
        # First what has to be stored: what is counted has to be on the disk.
        self._take_suspects(report.suspects.values())
        for name in _COUNTED:
            setattr(state, name, getattr(state, name) + getattr(report, name))
        self._counts.update(report.counts)
        self._said = report.said or self._said
        self._reached.add(report.number, report.coverage)

    def _take_suspects(self, suspects: Collection[protocol.Found]) -> None:
        """Store and count what differed."""
        if identities := self.triage.about_to_store(suspects):
            self.save(uncounted=identities)
        new = [self.triage.suspect(suspect) for suspect in suspects]
        if any(new):
            self._newest = time.monotonic()

    # Now and then

    def _tick(self) -> None:
        now = time.monotonic()
        if now - self._saved >= _SAVE_SECONDS:
            width = self._reached_so_far()
            if width > self._width:
                self._width, self._newest = width, now
            self.save()
        if now - self._recorded >= _STATISTICS_SECONDS:
            self._write_figures()
        self._tell()

    def _tell(self) -> None:
        self.told = self.status()
        self._observer(self.told)

    def _write_figures(self) -> None:
        self._recorded = time.monotonic()
        status = self.status()
        self._store.record(statistics(status))
        self._store.summarise({"summary": summary(status)})

    def _reached_so_far(self) -> int:
        return sum(line.reached for line in self._reached.total.lines(self.plan.forms))

    def status(self) -> CampaignStatus:
        """Return the campaign as it is now."""
        state, now = self._state, time.monotonic()
        if now - self._looked > 1.0 or self._stopped:
            # Counting what was reached takes milliseconds.
            self._lines, self._looked = self._reached.total.lines(self.plan.forms), now
        workers, words, shard = self.pool.statuses(), self.plan.words, self._shard
        if shard is not None:
            words = replace(words, where=f"{words.where} · shard {shard}")
        # Before a round is committed there is nothing that a rate could be of.
        rate = self._rate(now, sum(worker.cases for worker in workers))
        faults = [
            key[1] for key, count in self._counts.items() if key[0] == protocol.FAULTS and not count
        ]
        return CampaignStatus(
            words=words,
            seed=self.check.seed,
            seconds=state.seconds if self._stopped else now - self._started,
            seconds_limit=self.budget.seconds,
            cases_limit=self.budget.cases,
            **{name: getattr(state, name) for name in _COUNTED},
            counts=self._counts.copy(),
            rounds=self._rounds.committed,
            held=self._rounds.held,
            skipped=state.skipped,
            recent_rate=rate if state.cases else 0.0,
            seconds_since_new=now - self._newest,
            forms=len(self.plan.forms),
            forms_reached=len(self.plan.forms & self._reached.total.forms_reached),
            workers=workers,
            carrying_out=sum(not worker.examiner for worker in workers),
            stalled=sum(worker.stalled for worker in workers),
            devices=[self._health[number] for number in sorted(self._health)]
            or [protocol.DeviceStatus(name=self.facts.device)],
            coverage=self._lines,
            families=list(self.triage.announced),
            waiting=self.triage.waiting,
            shrinking=self.triage.shrinking,
            suspects=self.triage.suspects,
            unreplayed=len(finding_groups(self.triage.suspects)),
            gone=self.triage.gone,
            unstored=self.triage.unstored,
            finishing=self._finishing and not self._stopped,
            stopped=self._stopped,
            said=self._said,
            untested=untested_words(faults, self._counts["programs", "compiled"]) or None,
            left_out=self.facts.left_out,
            remarks=tuple(self.pool.remarks),
            hosts=self._hosts.statuses(),
            event_count=self._hosts.count,
            events=state.events,
            summary=dict(self.plan.summary) | ({"shard": str(shard)} if shard else {}),
        )

    def _rate(self, now: float, done: int) -> float:
        self._recent.append((now, done))
        while len(self._recent) > 2 and now - self._recent[0][0] > _RECENT_SECONDS:
            self._recent.popleft()
        then, before = self._recent[0]
        return max(0.0, (done - before) / (now - then)) if now > then else 0.0

    # The state

    def save(self, *, uncounted: Sequence[str] = ()) -> None:
        """Keep the state on the disk; if it cannot be written, the old one stays."""
        self._saved = time.monotonic()
        state = self._state
        if not self._stopped:
            state.seconds = self._saved - self._started
        state.ended = self._stopped
        state.counts = protocol.nested(self._counts)
        state.gone = self.triage.gone
        state.coverage = self._reached.state()
        state.families = self.triage.records()
        state.tries, state.turned = dict(self.triage.tries), dict(self.triage.turned)
        state.doomed = [*self.triage.doomed, *uncounted]
        self._store.save(state)
        # What examinations have left behind goes when the state on the disk says so.
        self.triage.sweep()

    def _restore(self, state: State) -> None:
        state.ended = ""
        try:
            self._counts.update(protocol.flattened(state.counts))
            self._reached.restore(state.coverage)
        except (KeyError, TypeError, ValueError, WarpfuzzError) as error:
            raise InfrastructureError(
                f"what the campaign has reached cannot be read ({error}); --new in place "
                "of --resume begins another there (the findings stay)"
            ) from None
        self.triage.gone = state.gone
        self.triage.tries, self.triage.turned = dict(state.tries), dict(state.turned)
        self.triage.restore(state.families)
        self.triage.doomed = list(state.doomed)
        self.triage.sweep()


_ATTEMPTS = 2  # workers that may die over a round before it is skipped


class RoundQueue:
    """Rounds by number, from those that are committed to the next one."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._given: dict[int, protocol.RoundJob] = {}
        """Rounds that are not committed and were given to somebody, or are to be given again."""
        self._again: list[int] = []  # those of them that nobody works on
        self._reports: dict[int, protocol.RoundReport] = {}  # that are not committed
        self._deaths: Counter[int] = Counter()
        self._fresh = 0  # no round from there on was given to anybody

    @property
    def committed(self) -> int:
        """Rounds that are committed."""
        return self._state.rounds + len(self._state.whole)

    @property
    def held(self) -> int:
        """Rounds that were carried out and wait for an earlier one to be committed."""
        return len(self._reports)

    @property
    def busy(self) -> bool:
        """Whether somebody works on a round."""
        return len(self._given) > len(self._again) + len(self._reports)

    @property
    def following(self) -> int | None:
        """The first round that nobody was given; None if it has to wait for others."""
        state = self._state
        number = max(state.rounds, self._fresh)
        while number in self._given or number in state.whole:
            number += 1
        self._fresh = number
        return None if epoch_known(number) > state.rounds else number

    def job(
        self, left: int | None, draw: Callable[[int], protocol.RoundPlan], settled: frozenset[str]
    ) -> protocol.RoundJob | None:
        """Return the next round to be given; None if it has to wait for others."""
        if self._again:
            self._again.sort()
            return self._given[self._again.pop(0)]
        state, number = self._state, self.following
        if number is None:
            return None
        if left is not None:
            for earlier, job in self._given.items():
                if earlier < number:
                    most = job.plan.cases - job.skip
                    left -= most if job.limit is None else min(most, job.limit)
            if left <= 0:
                return None
        drawn, skip = draw(number), state.parts.get(number, 0)
        if left is not None and left >= drawn.cases - skip:
            left = None
        job = self._given[number] = protocol.RoundJob(
            number=number, plan=drawn, skip=skip, limit=left, settled=settled
        )
        return job

    def finished(self, report: protocol.RoundReport) -> None:
        """Keep a report until it can be committed."""
        self._reports[report.number] = report

    def lost(
        self, job: protocol.RoundJob, how: str, *, guilty: bool, nothing: protocol.RoundReport
    ) -> None:
        """Have a round given again whose worker is gone; skip it if workers die over it.

        `nothing` is the report of a round that is skipped.
        """
        self._deaths[job.number] += guilty
        if self._deaths[job.number] < _ATTEMPTS:
            self._again.append(job.number)
            return
        self._state.skipped[job.number] = f"the worker {how}"
        nothing.complete = True
        self._reports[job.number] = nothing

    def ready(
        self, left: Callable[[], int | None], settled: frozenset[str]
    ) -> Iterator[protocol.RoundReport]:
        """Iterate over the reports that can be committed now.

        Where cases are counted out, that is in the order of the rounds: the last one is cut.
        """
        while self._reports:
            most = left()
            number = self._state.rounds if most is not None else min(self._reports)
            report = self._reports.pop(number, None)
            if report is None:
                return
            job = self._given[number]
            if most is not None and report.cases > most:
                # More than is wanted: again, and cut. Nothing of this one was counted.
                self._give_again(job, most, settled)
                return
            yield from self._counted(report)
            most = left()
            if not report.complete and most != 0:
                # Cut too early, or by a device that is lost: the rest is for somebody else.
                self._give_again(job, most, settled)
            elif not report.complete:
                del self._given[report.number]

    def rest(self, left: Callable[[], int | None]) -> Iterator[protocol.RoundReport]:
        """Iterate over what there is of rounds that were interrupted, whatever is missing."""
        for number in sorted(self._reports):
            report, most = self._reports.pop(number), left()
            if most is None or report.cases <= most:
                yield from self._counted(report)

    def _counted(self, report: protocol.RoundReport) -> Iterator[protocol.RoundReport]:
        """Have a report counted, and note that."""
        yield report
        number, state = report.number, self._state
        state.parts[number] = report.skip + report.cases
        if report.complete:
            del self._given[number], state.parts[number]
            self._deaths.pop(number, None)
            state.whole.append(number)
        while state.rounds in state.whole:
            state.whole.remove(state.rounds)
            state.rounds += 1

    def _give_again(
        self, job: protocol.RoundJob, limit: int | None, settled: frozenset[str]
    ) -> None:
        skip = self._state.parts.get(job.number, 0)
        self._given[job.number] = replace(job, skip=skip, limit=limit, settled=settled)
        self._again.append(job.number)
