"""The driver's side of a fleet: a pool of actors, which may come and go."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from corpus import BrokenEntryError, open_corpus
from fuzz.campaign.check_wrappers import pickled
from fuzz.campaign.heartbeat import SHOWN_STALLED_SECONDS, Broken
from fuzz.campaign.pool import Event, Finished, Lost
from fuzz.campaign.status import Change, Changed, Part, WorkerStatus
from fuzz.checks.protocol import (
    Check,
    Examination,
    Facts,
    Found,
    FoundState,
    Job,
    Outcomes,
    RoundJob,
    RoundReport,
)
from fuzz.fleet.host import (
    ActorGoneError,
    Begun,
    Cluster,
    Code,
    Done,
    Handle,
    Host,
    News,
    Parcel,
    Reference,
    Undone,
    leave,
    together,
)
from fuzz.output import counted
from oracle.errors import InfrastructureError, UsageError
from runners.protocol import ClosedAtTheEnd
from strategies.draws import derived_seed

_TEND_SECONDS = 2.0
"""Between two looks at which nodes the cluster has, and which are missing actors."""
_POLL_SECONDS = 0.5
"""How long an actor with work waits for news: so late an interruption reaches it at most."""
_IDLE_SECONDS = 0.5
"""Between two exchanges with an actor that has nothing to do."""
_IDLE_OF_AN_ACTOR = 5e-3
"""Seconds between two exchanges with an idle actor, for each actor there is, if that is longer:
1,000 idle actors make 200 exchanges a second."""
_LEFT_OUT_SECONDS = 10.0
"""Between two exchanges with an actor that was left out, to notice when its node goes."""
_DEAF_SECONDS = 120.0
"""Silence after which an actor is given up: it answers within a second, whatever its processes do;
Ray notices a host that is gone within 10 s by itself."""
_BEGIN_SECONDS = 300.0
"""Seconds that an actor may stay silent while it starts: its Python may come over a network's
file system."""
_GATHER_OF_AN_ACTOR = 1e-3
"""Seconds of gathering news for each actor there is: an exchange costs the driver 1 ms
(benchmarks/fleet_driver.py), so that it keeps up with them."""
_MOST_GATHER = 1.0
_PLACE_SECONDS = 120.0
"""How long the first actor may wait for a place: so long an autoscaler takes for a node."""
_NO_GPU = "no GPU that Ray sees; `--runner sim` takes processors and the simulated device"
_BEGIN_DEATHS = 10
"""Actors in a row that may die while they begin, each started after the one before had died; then
none is started any more."""
_JOB_DEATHS = 10
"""Actors that may die with the same round; then it is skipped as what kills them. A node that dies
for another reason may have had the round by chance, so one death proves nothing."""
_END_SECONDS = 10.0
"""How long actors may take to end their processes before they are killed."""
_MOST_GIVEN = 256
"""Rounds that are given before news is heard again: drawing what one is about takes 1 to 2 ms."""
_MOST_REPEATS = 64
"""Rounds that wait to be repeated; their sums have 256 KB each (65,536 images)."""
_SHOWN = 160
"""Characters of why an actor is gone that a line shows."""
_ACTORS_OF_AN_EXAMINATION = 8
"""Examinations at once: one for so many actors while rounds go on."""
_STARTING = together(())


@dataclass(kw_only=True, eq=False)
class _Actor:
    slot: int
    handle: Handle
    call: Reference | None
    step: str = "begin"
    """The method that was called last."""
    called: float
    """On the clock of time.monotonic."""
    heard: float
    begun: Begun | None = None
    facts: Facts | None = None
    progress: WorkerStatus = _STARTING
    left_out: str = ""
    """Why it gets no jobs; it keeps its GPU, so that no other actor comes to it."""
    interrupted: bool = False
    jobs: dict[int, Job] = field(default_factory=dict)
    """By ticket: what it has not done yet."""
    outgoing: list[tuple[int, RoundJob | Parcel]] = field(default_factory=list)
    rounds: int = 0
    """How many of the jobs are rounds."""

    @property
    def name(self) -> str:
        if self.begun is None:
            return "an actor that waits for a place"
        return self.begun.name


@dataclass(frozen=True, kw_only=True, eq=False)
class _Repeat:
    """A round that another device is to carry out once more."""

    job: RoundJob
    outcomes: Outcomes
    slot: int
    """Slot of the actor that carried out the round first."""
    kind: str
    """The device, as its facts describe it."""


class FleetPool(ClosedAtTheEnd):
    """Actors of a Ray cluster that carry out a campaign's jobs.

    Parameters
    ----------
    cluster
        Where; closed with the pool.
    repeat
        Fraction of the rounds that are carried out again by a second actor with the same device,
        0 to 1.
    """

    def __init__(self, check: Check, cluster: Cluster, *, repeat: float = 0.0) -> None:
        self._check, self._cluster, self._workers = check, cluster, cluster.workers
        self._repeat = repeat
        self._repeats: dict[int, _Repeat] = {}
        """By ticket: rounds that are carried out once more."""
        self._to_repeat: deque[_Repeat] = deque(maxlen=_MOST_REPEATS)
        self._pickled = pickled(check)
        self._actors: dict[int, _Actor] = {}
        """By slot."""
        self._events: list[Event] = []
        self._tickets = 0
        self._deaths: Counter[int] = Counter()
        """By the number of a round: actors that died while they had it."""
        self._begin_deaths = 0
        self._begin_died = 0.0
        self._why = ""
        """What was said of the last actor that could not be started."""
        self._interrupted = self._closed = False
        self._first: Facts | None = None
        self._remarks: dict[str, None] = {}
        self._cases: Counter[int] = Counter()
        """By slot: cases of the actors that had it before."""
        self._free: list[_Actor] = []
        self._wanted = 0
        """Actors that there should be."""
        self._tended = 0.0
        self._nodes: Mapping[str, str] | None = None
        """Those that there were; None before the first look."""
        self._missing: Counter[tuple[str, Part]] = Counter()
        """By host: nodes and actors that went, and have not come back."""
        self._gone: dict[str, dict[str, float]] = {}
        """By host and id: when nodes went that have not come back, as time.monotonic says it."""
        self._without: Counter[str] = Counter()
        """By the id of a node: actors that went, and of which none has taken the place there."""
        try:
            self._tend()
        except BaseException:
            self.close()
            raise

    def facts(self) -> Facts:
        """Wait until an actor is ready; return what it says of its runner.

        Raises UsageError, DeviceLostError or InfrastructureError if none can open a runner, or
        there is no place for any.
        """
        earlier: list[Event] = []
        begun = time.monotonic()
        while True:
            if not self._cluster.places() and time.monotonic() - begun > _PLACE_SECONDS:
                raise InfrastructureError(
                    f"no actor had a place within {_PLACE_SECONDS:.0f} s: the cluster has {_NO_GPU}"
                )
            for event in self.poll(1.0):
                earlier.append(event)
                if isinstance(event, Facts):
                    self._events = earlier + self._events
                    return event
                if isinstance(event, Broken):
                    raise event.error()

    @property
    def workers(self) -> int:
        """How many actors carry out rounds, those that wait for a place or a new start included."""
        missing = max(0, self._wanted - len(self._actors))
        return missing + sum(not actor.left_out for actor in self._actors.values())

    def remarks(self) -> Sequence[str]:
        """Return sentences about hosts and GPUs: which differ, and which cannot take part."""
        return tuple(self._remarks)

    def _ready(self) -> list[_Actor]:
        return [one for one in self._actors.values() if one.facts and not one.left_out]

    # Jobs

    def places_for_rounds(self) -> int:
        """Return how many rounds can be given: twice as many as there are processes.

        While an actor's news is on its way, its processes have something to do.
        """
        ready = [] if self._interrupted else self._ready()
        # First everybody gets something to do, then something to do next.
        self._free = [
            one
            for most in (2 * self._workers, self._workers)
            for one in ready
            for _ in range(max(0, min(most - one.rounds, self._workers)))
        ][-_MOST_GIVEN:]
        return len(self._free)

    def places_for_examinations(self, *, everybody: bool) -> int:
        """Return how many examinations can be given."""
        return max(0, self._examinations(everybody=everybody))

    def _examinations(self, *, everybody: bool) -> int:
        ready = self._ready()
        taken = sum(len(one.jobs) - one.rounds for one in ready)
        if everybody:
            return (self._workers + 1) * len(ready) - taken
        return -(-len(ready) // _ACTORS_OF_AN_EXAMINATION) - taken

    def give(self, job: Job) -> None:
        """Give a job to an actor that has a place for it."""
        if isinstance(job, RoundJob):
            actor = self._free.pop()
            summed = job.skip == 0 and job.limit is None and self._is_repeated(job.number)
            given = replace(job, summed=True, device=actor.name) if summed else job
            self._send(actor, job, given)
            actor.rounds += 1
            return
        parcel = self._parcel(job)
        if parcel is None:
            # A corpus is open to everybody: the finding may have been pruned in the meantime.
            self._events.append(
                Finished(job=job, report=Found(bucket=job.bucket, state=FoundState.LEFT))
            )
            return
        ready = self._ready()
        actor = min(ready, key=lambda one: (len(one.jobs) - one.rounds, one.slot))
        self._send(actor, job, parcel)

    def _is_repeated(self, number: int) -> bool:
        """Whether a round is carried out once more: always the same ones."""
        chance = derived_seed(self._check.seed, "repeat", number) / 2**64
        return chance < self._repeat and len(self._actors) > 1

    def _give_repeats(self) -> None:
        """Give rounds that are to be repeated to other actors with the same device."""
        for _ in range(len(self._to_repeat)):
            repeat = self._to_repeat.popleft()
            others = [
                one
                for one in self._ready()
                if one.facts is not None
                and one.facts.device == repeat.kind
                and one.slot != repeat.slot
                and one.rounds < 2 * self._workers
            ]
            if not others:
                self._to_repeat.append(repeat)
                continue
            actor = min(others, key=lambda one: one.rounds)
            job = replace(repeat.job, against=repeat.outcomes, device=actor.name)
            self._send(actor, repeat.job, job)
            actor.rounds += 1
            self._repeats[self._tickets] = repeat

    def _heard_outcomes(self, actor: _Actor, job: RoundJob, report: RoundReport) -> None:
        """Take the outcomes of a round out of its report, to compare them with another device."""
        outcomes, report.outcomes = report.outcomes, None
        if outcomes is not None and report.complete and actor.facts is not None:
            self._to_repeat.append(
                _Repeat(job=job, outcomes=outcomes, slot=actor.slot, kind=actor.facts.device)
            )

    def _send(self, actor: _Actor, job: Job, parcel: RoundJob | Parcel) -> None:
        self._tickets += 1
        actor.jobs[self._tickets] = job
        actor.outgoing.append((self._tickets, parcel))

    @staticmethod
    def _parcel(job: Examination) -> Parcel | None:
        with suppress(UsageError, BrokenEntryError):
            entry = open_corpus(job.corpus).get(job.id)
            return Parcel(job=job, finding=entry.finding, files=entry.files())
        return None

    def interrupt(self) -> None:
        """Ask for rounds to come to an end where they are."""
        self._interrupted = True

    # Events

    def poll(self, seconds: float) -> list[Event]:
        """Exchange news with all actors; replace those that are gone or silent for too long."""
        now = time.monotonic()
        if now - self._tended >= _TEND_SECONDS:
            self._tend()
        self._exchange()
        waiting = {one.call: one for one in self._actors.values() if one.call is not None}
        if not waiting:
            time.sleep(0.0 if self._events else min(seconds, 0.05))
        else:
            for call in self._cluster.wait(list(waiting), 0.0 if self._events else seconds):
                self._hear(waiting[call])
        self._exchange()
        events, self._events = self._events, []
        return events

    def _exchange(self) -> None:
        """Send what there is to be sent to everybody who listens."""
        if not self._interrupted:
            self._give_repeats()
        now = time.monotonic()
        gather = min(_MOST_GATHER, _GATHER_OF_AN_ACTOR * len(self._actors))
        idle = max(_IDLE_SECONDS, _IDLE_OF_AN_ACTOR * len(self._actors))
        for actor in list(self._actors.values()):
            if actor.call is not None:
                patience = _DEAF_SECONDS if actor.step == "exchange" else _BEGIN_SECONDS
                if actor.begun is not None and now - actor.called > patience:
                    self._bury(actor, f"gave no answer for {patience:.0f} s")
                continue
            news = bool(actor.outgoing) or self._interrupted > actor.interrupted
            pause = max(_LEFT_OUT_SECONDS, idle) if actor.left_out else idle
            if actor.jobs or news or not actor.facts or now - actor.heard >= pause:
                if actor.left_out and now - actor.heard < pause:
                    continue
                outgoing, actor.outgoing = actor.outgoing, []
                actor.interrupted = self._interrupted
                self._call(
                    actor, "exchange", outgoing, self._interrupted, _POLL_SECONDS + gather, gather
                )

    def _call(self, actor: _Actor, method: str, *arguments: object) -> None:
        actor.step, actor.called = method, time.monotonic()
        actor.call = self._cluster.call(actor.handle, method, *arguments)

    def _hear(self, actor: _Actor) -> None:
        call, actor.call = actor.call, None
        actor.heard = time.monotonic()
        try:
            answer = self._cluster.result(call)
        except ActorGoneError as error:
            self._bury(actor, str(error))
            return
        if actor.step == "begin":
            self._begin(actor, answer)
        elif actor.step == "open":
            if answer is not None:
                self._leave_out(actor, answer)
        else:
            self._news(actor, answer)

    def _begin(self, actor: _Actor, begun: Begun) -> None:
        actor.begun, self._begin_deaths = begun, 0
        self._without[begun.node] -= self._without[begun.node] > 0
        self._came(Part.ACTOR, begun.host, Change.THERE, node=begun.node, place=begun.place)
        self._count_moved()
        here = Code.here()
        if begun.code != here:
            message = (
                f"{begun.host} has {begun.code}, and the driver has {here}: their results could "
                "not be compared; install the same on both"
            )
            self._leave_out(actor, Broken(cause=UsageError, message=message))
            return
        self._call(actor, "open", self._pickled, self._workers)

    def _news(self, actor: _Actor, news: News) -> None:
        actor.progress = news.progress or actor.progress
        for message in news.messages:
            match message:
                case Facts() as facts:
                    self._opened(actor, facts)
                case Done(ticket=ticket, report=report):
                    job = self._taken(actor, ticket)
                    if job is None:
                        continue
                    if self._repeats.pop(ticket, None) is not None:
                        if isinstance(report, RoundReport) and report.disagreement is not None:
                            self._events.append(report.disagreement)
                        continue
                    if isinstance(report, RoundReport) and isinstance(job, RoundJob):
                        self._deaths.pop(report.number, None)
                        self._heard_outcomes(actor, job, report)
                        report.device = actor.slot
                        if report.health is not None and actor.begun is not None:
                            report.health = replace(report.health, host=actor.begun.host)
                    self._events.append(Finished(job=job, report=report))
                case Undone(ticket=ticket, how=how, guilty=guilty):
                    job = self._taken(actor, ticket)
                    if job is not None and self._repeats.pop(ticket, None) is None:
                        self._events.append(Lost(job=job, how=how, guilty=guilty))
                case Broken() as broken:
                    if broken.cause is UsageError or not news.alive:
                        self._leave_out(actor, broken)
        if not news.alive and not actor.left_out:
            nobody = "it has no worker process any more"
            self._leave_out(actor, Broken(cause=InfrastructureError, message=nobody))

    def _taken(self, actor: _Actor, ticket: int) -> Job | None:
        job = actor.jobs.pop(ticket, None)
        actor.rounds -= isinstance(job, RoundJob)
        return job

    def _opened(self, actor: _Actor, facts: Facts) -> None:
        if actor.facts is not None:
            return  # another of its processes
        first = self._first = self._first or facts
        mine = (facts.target, facts.versions, facts.members)
        if mine != (first.target, first.versions, first.members):
            message = (
                f"{facts.device} would take part with {facts.target} and PTX ISA "
                f"{facts.versions}, and the campaign is of {first.target} and "
                f"{first.versions} ({first.device}); --target and --ptx-version make them the "
                "same, or run a campaign for each"
            )
            self._leave_out(actor, Broken(cause=UsageError, message=message))
            return
        if facts.device != first.device:
            # Worth a word: another driver or compiler may be what a finding depends on.
            self._remarks.setdefault(
                f"{actor.name} differs from the first host: {facts.device}, not {first.device}"
            )
        actor.facts = facts
        self._events.append(facts)

    def _leave_out(self, actor: _Actor, broken: Broken) -> None:
        """Give an actor nothing more to do; it keeps its GPU from others of the fleet."""
        if actor.left_out:
            return
        actor.left_out = f"{actor.name}: {broken.message}"
        self._remarks[f"left out: {actor.left_out}"] = None
        self._lose(actor, broken.message, guilty=False)
        if not self.workers:
            self._events.append(replace(broken, message=actor.left_out))

    def _bury(self, actor: _Actor, why: str) -> None:
        """Let go of an actor that is gone; another one takes its place when there is any."""
        self._cluster.kill(actor.handle)
        del self._actors[actor.slot]
        self._cases[actor.slot] += actor.progress.cases
        if actor.begun is None:
            if actor.called > self._begin_died:
                # Those that die together may have a node that died.
                self._begin_deaths += 1
                self._begin_died = time.monotonic()
            self._why = why
        else:
            begun = actor.begun
            self._without[begun.node] += begun.node in (self._nodes or ())
            self._went(Part.ACTOR, begun.host, node=begun.node, place=begun.place, why=why)
        self._lose(actor, f"on {actor.name} is gone ({why})", guilty=True)

    def _lose(self, actor: _Actor, how: str, *, guilty: bool) -> None:
        for ticket, job in actor.jobs.items():
            if self._repeats.pop(ticket, None) is not None:
                continue
            to_blame = False
            if guilty and isinstance(job, RoundJob):
                self._deaths[job.number] += 1
                to_blame = self._deaths[job.number] >= _JOB_DEATHS
            self._events.append(Lost(job=job, how=how, guilty=to_blame))
        actor.jobs, actor.outgoing, actor.rounds = {}, [], 0

    # The cluster

    def _tend(self) -> None:
        """Ask for actors until there is one for every place of the cluster, and at least one."""
        self._tended = time.monotonic()
        self._look()
        if self._begin_deaths >= _BEGIN_DEATHS:
            self._wanted = 0
            why = f"{self._begin_deaths} in a row died as they began; the last one: {self._why}"
            self._remarks[f"no further actor is started: {why}"] = None
            if not self._actors:
                message = f"no actor can be started: {why}"
                self._events.append(Broken(cause=InfrastructureError, message=message))
            return
        wanted = self._wanted = max(1, self._cluster.places())
        waiting = [one for one in self._actors.values() if one.begun is None]
        while len(self._actors) > wanted and waiting:
            # Its place is gone with its node.
            spare = waiting.pop()
            self._cluster.kill(spare.handle)
            del self._actors[spare.slot]
        slot = 0
        while len(self._actors) < wanted:
            while slot in self._actors:
                slot += 1
            now = time.monotonic()
            actor = _Actor(
                slot=slot, handle=self._cluster.start(), call=None, called=now, heard=now
            )
            self._actors[slot] = actor
            self._call(actor, "begin")

    def _look(self) -> None:
        """Find out which nodes went and came."""
        before, now = self._nodes or {}, self._cluster.hosts()
        otherwise = Change.THERE if self._nodes is None else Change.JOINED
        self._nodes = dict(now)
        for node in [one for one in before if one not in now]:
            there = sum(
                one.begun is not None and one.begun.node == node for one in self._actors.values()
            )
            self._gone.setdefault(before[node], {})[node] = time.monotonic()
            self._went(
                Part.NODE, before[node], node=node, why=self._cluster.why_gone(node),
                actors=there + self._without.pop(node, 0),
            )  # fmt: skip
        for node in [one for one in now if one not in before]:
            self._came(Part.NODE, now[node], otherwise, node=node)

    def _went(
        self, part: Part, host: str, *, node: str, place: str = "", why: str = "", actors: int = 0
    ) -> None:
        self._missing[host, part] += 1
        why = why if len(why) <= _SHOWN else f"{why[:_SHOWN]} …"
        self._events.append(
            Changed(
                part=part, change=Change.GONE, host=host, node=node, place=place, why=why,
                actors=actors,
            )
        )  # fmt: skip

    def _came(
        self, part: Part, host: str, otherwise: Change, *, node: str, place: str = ""
    ) -> None:
        """Tell of what came: back, if the host misses one."""
        change = Change.BACK if self._missing[host, part] else otherwise
        self._missing[host, part] -= change is Change.BACK
        before, seconds = "", 0.0
        gone = self._gone.get(host, {}) if part is Part.NODE else {}
        if gone:
            # A node that is started again has another id: it stands for the one that went first.
            before = node if node in gone else next(iter(gone))
            seconds = time.monotonic() - gone.pop(before)
        self._events.append(
            Changed(
                part=part, change=change, host=host, node=node, place=place, before=before,
                seconds=seconds,
            )
        )  # fmt: skip

    def _count_moved(self) -> None:
        """Miss no actor of a node that lives when there are as many as there should be."""
        if sum(one.begun is not None for one in self._actors.values()) < self._wanted:
            return
        self._without.clear()
        for (host, part), count in list(self._missing.items()):
            if part is Part.ACTOR and count and not self._missing[host, Part.NODE]:
                self._missing[host, part] = 0
                moved = Changed(
                    part=part, change=Change.BACK, host=host, why="another host has its place"
                )
                self._events += [moved] * count

    def statuses(self) -> Sequence[WorkerStatus]:
        """Describe the actors, one line for each."""
        now = time.monotonic()
        return [self._status(actor, now) for actor in self._actors.values()]

    def _status(self, actor: _Actor, now: float) -> WorkerStatus:
        progress, begun = actor.progress, actor.begun
        silence = now - actor.called if actor.call is not None and begun is not None else 0.0
        if begun is None:
            device = "waiting for a place in the cluster"
        elif actor.left_out:
            device = f"left out: {actor.left_out}"
        else:
            device = f"{actor.name}: {actor.facts.device if actor.facts else 'starting'}"
        stalled = silence > SHOWN_STALLED_SECONDS or progress.stalled
        return replace(
            progress,
            number=actor.slot,
            host=begun.host if begun is not None else "",
            device=device,
            seconds=max(silence, progress.seconds),
            cases=self._cases[actor.slot] + progress.cases,
            stalled=stalled and not actor.left_out,
        )

    def close(self) -> None:
        """End all actors, and leave the cluster."""
        if self._closed:
            return
        self._closed = True
        actors = [*self._actors.values()]
        self._actors.clear()
        begun = [one.handle for one in actors if one.begun is not None]
        leave(self._cluster, [one.handle for one in actors], begun, _END_SECONDS)


def joining(address: str) -> str:
    """Say what takes the first seconds of a fleet."""
    if address == "local":
        return "starting a Ray cluster on this machine"
    return f"joining the Ray cluster {address}"


def starting_actors(cluster: Cluster) -> str:
    """Say what takes the seconds after it was joined."""
    nodes = len(cluster.hosts())
    places = cluster.places()
    return f"starting {counted(places, 'actor')} on {counted(nodes, 'node')} of the cluster"


def cluster_at(
    address: str,
    *,
    gpus: bool,
    workers: int | None,
    most: int | None = None,
    host: Callable[..., Any] = Host,
) -> Cluster:
    """Return the Ray cluster at an address. Raises as `ray_cluster.RayCluster` does.

    Raises UsageError if Ray is not installed.
    """
    try:
        from fuzz.fleet.ray_cluster import RayCluster
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "ray":
            raise
        raise UsageError(
            f"--fleet {address} needs Ray, which is not installed: pip install '.[fleet]' in "
            "the clone of warpfuzz, or divide the work with --shard"
        ) from None
    cluster = RayCluster(address, gpus=gpus, workers=workers, most=most, host=host)
    # Other clusters may be given nodes when somebody asks for them.
    if gpus and address == "local" and not cluster.places():
        cluster.close()
        raise InfrastructureError(f"--fleet local: this machine has {_NO_GPU}")
    return cluster
