"""The driver's side of a fleet: a pool of actors, which may come and go."""

from __future__ import annotations

import itertools
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from corpus import BrokenEntryError, open_corpus
from fuzz.campaign.heartbeat import SHOWN_STALLED_SECONDS, Broken
from fuzz.campaign.pool import Event, Lost, RoundEnd, WorkerPool, pickled
from fuzz.campaign.status import Change, Changed, Role, WorkerStatus
from fuzz.checks.protocol import (
    Check,
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
    Ended,
    Handle,
    Host,
    News,
    Parcel,
    Reference,
    leave,
    together,
)
from fuzz.output import counted
from oracle.errors import InfrastructureError, UsageError
from strategies.draws import derived_seed

_TEND_SECONDS = 2.0
"""Between two looks at which nodes the cluster has, and which are missing actors."""
_POLL_SECONDS = 0.5
"""How long an actor with work waits for news: so late an interruption reaches it at most."""
_IDLE_SECONDS = 0.5  # between two exchanges with an actor that has nothing to do
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
_END_SECONDS = 10.0  # how long actors may take to end their processes before they are killed
_MOST_GIVEN = 256
"""Rounds that are given before news is heard again: drawing what one is about takes 1 to 2 ms."""
_MOST_REPEATS = 64  # rounds that wait to be repeated; their sums have 256 KB each (65,536 images)
_SHOWN = 160  # characters of why an actor is gone that a line shows
_ACTORS_OF_AN_EXAMINATION = 8  # examinations at once: one for so many actors while rounds go on
_STARTING = together(())


@dataclass(kw_only=True, eq=False)
class _Actor:
    slot: int
    handle: Handle
    call: Reference | None = None
    step: str = "begin"  # the method that was called last
    called: float = field(default_factory=time.monotonic)
    heard: float = field(default_factory=time.monotonic)
    begun: Begun | None = None
    facts: Facts | None = None
    progress: WorkerStatus = _STARTING
    left_out: str = ""
    """Why it gets no jobs; it keeps its GPU, so that no other actor comes to it."""
    interrupted: bool = False
    jobs: dict[int, Job] = field(default_factory=dict)  # by ticket: what it has not done yet
    outgoing: list[tuple[int, RoundJob | Parcel]] = field(default_factory=list)
    rounds: int = 0  # how many of the jobs are rounds

    @property
    def name(self) -> str:
        return "an actor that waits for a place" if self.begun is None else self.begun.name

    @property
    def device(self) -> str:
        return "" if self.facts is None else self.facts.device

    @property
    def examinations(self) -> int:
        return len(self.jobs) - self.rounds


class FleetPool(WorkerPool):
    """Actors of a Ray cluster, closed with it, that carry out a campaign's jobs.

    `repeat` is the fraction of the rounds that are carried out again by a second actor with the
    same device, 0 to 1.
    """

    def __init__(self, check: Check, cluster: Cluster, *, repeat: float = 0.0) -> None:
        super().__init__()
        self._check, self._cluster, self._workers = check, cluster, cluster.workers
        self._repeat, self._pickled = repeat, pickled(check)
        self._repeats: set[int] = set()  # tickets of rounds that are carried out once more
        self._to_repeat: deque[tuple[_Actor, RoundJob, Outcomes]] = deque(maxlen=_MOST_REPEATS)
        """Rounds for another device of the same kind, with what the first one made of them."""
        self._actors: dict[int, _Actor] = {}  # by slot
        self._tickets = 0
        self._deaths: Counter[int] = Counter()
        """By the number of a round: actors that died while they had it."""
        self._begin_deaths, self._begin_died = 0, 0.0
        self._why = ""  # what was said of the last actor that could not be started
        self._interrupted = self._closed = False
        self._first: Facts | None = None
        self._cases: Counter[int] = Counter()  # by slot: those of the actors that had it before
        self._free: list[_Actor] = []
        self._wanted = 0  # actors that there should be
        self._tended, self._begun = 0.0, time.monotonic()
        self._nodes: Mapping[str, str] | None = None
        """Those that there were; None before the first look."""
        self._without: Counter[str] = Counter()
        """By the id of a node: actors that went, and of which none has taken the place there."""
        try:
            self._tend()
        except BaseException:
            self.close()
            raise

    @property
    def workers(self) -> int:
        missing = max(0, self._wanted - len(self._actors))
        return missing + sum(not actor.left_out for actor in self._actors.values())

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
        ready = self._ready()
        taken = sum(one.examinations for one in ready)
        places = -(-len(ready) // _ACTORS_OF_AN_EXAMINATION)
        if everybody:
            places = (self._workers + 1) * len(ready)
        return max(0, places - taken)

    def give(self, job: Job) -> None:
        if isinstance(job, RoundJob):
            actor = self._free.pop()
            # Always the same ones are carried out once more.
            chance = derived_seed(self._check.seed, "repeat", job.number) / 2**64
            summed = chance < self._repeat and len(self._actors) > 1
            summed = summed and job.skip == 0 and job.limit is None
            given = replace(job, summed=True, device=actor.name) if summed else job
            self._send(actor, job, given)
            return
        try:
            entry = open_corpus(job.corpus).get(job.id)
            parcel = Parcel(job=job, finding=entry.finding, files=entry.files())
        except (UsageError, BrokenEntryError):
            # A corpus is open to everybody: the finding may have been pruned in the meantime.
            self._events.append(
                RoundEnd(job=job, report=Found(bucket=job.bucket, state=FoundState.LEFT))
            )
            return
        actor = min(self._ready(), key=lambda one: (one.examinations, one.slot))
        self._send(actor, job, parcel)

    def _give_repeats(self) -> None:
        """Give rounds that are to be repeated to other actors with the same device."""
        for _ in range(len(self._to_repeat)):
            first, job, outcomes = self._to_repeat.popleft()
            alike = [one for one in self._ready() if one.device == first.device]
            free = [one for one in alike if one.rounds < 2 * self._workers]
            others = [one for one in free if one.slot != first.slot]
            if others:
                actor = min(others, key=lambda one: one.rounds)
                self._send(actor, job, replace(job, against=outcomes, device=actor.name))
                self._repeats.add(self._tickets)
            else:
                self._to_repeat.append((first, job, outcomes))

    def _send(self, actor: _Actor, job: Job, parcel: RoundJob | Parcel) -> None:
        self._tickets += 1
        actor.jobs[self._tickets] = job
        actor.rounds += isinstance(job, RoundJob)
        actor.outgoing.append((self._tickets, parcel))

    def interrupt(self) -> None:
        self._interrupted = True

    # Events

    def poll(self, seconds: float) -> list[Event]:
        now = time.monotonic()
        if now - self._tended >= _TEND_SECONDS:
            self._tend()
        if not self._first and now - self._begun > _PLACE_SECONDS and not self._cluster.places():
            raise InfrastructureError(
                f"no actor had a place within {_PLACE_SECONDS:.0f} s: the cluster has {_NO_GPU}"
            )
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
            busy = not actor.left_out and (actor.jobs or news or not actor.facts)
            if busy or now - actor.heard >= pause:
                outgoing, actor.outgoing = actor.outgoing, []
                actor.interrupted = self._interrupted
                wait = _POLL_SECONDS + gather
                self._call(actor, "exchange", outgoing, self._interrupted, wait, gather)

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
        there = sum(one.begun is not None for one in self._actors.values())
        complete = there >= self._wanted
        if complete:
            self._without.clear()
        self._tell_actor(begun, Change.THERE, complete=complete)
        if begun.refusal:
            self._leave_out(actor, Broken(cause=UsageError, message=begun.refusal))
            return
        self._call(actor, "open", self._pickled, self._workers)

    def _news(self, actor: _Actor, news: News) -> None:
        actor.progress = news.progress or actor.progress
        for message in news.messages:
            match message:
                case Facts() as facts:
                    self._opened(actor, facts)
                case Ended():
                    job = actor.jobs.pop(message.ticket, None)
                    if job is None:
                        continue
                    actor.rounds -= isinstance(job, RoundJob)
                    self._ended(actor, job, message)
                case Broken() as broken:
                    if broken.cause is UsageError or not news.alive:
                        self._leave_out(actor, broken)
        if not news.alive and not actor.left_out:
            nobody = "it has no worker process any more"
            self._leave_out(actor, Broken(cause=InfrastructureError, message=nobody))

    def _ended(self, actor: _Actor, job: Job, ended: Ended) -> None:
        report = ended.report
        if ended.ticket in self._repeats:
            self._repeats.discard(ended.ticket)
            if isinstance(report, RoundReport) and report.disagreement is not None:
                self._events.append(report.disagreement)
            return
        if report is None:
            self._events.append(Lost(job=job, how=ended.how, guilty=ended.guilty))
            return
        if isinstance(report, RoundReport) and isinstance(job, RoundJob):
            self._deaths.pop(report.number, None)
            # To compare them with another device.
            outcomes, report.outcomes = report.outcomes, None
            if outcomes is not None and report.complete:
                self._to_repeat.append((actor, job, outcomes))
            report.device = actor.slot
            if report.health is not None and actor.begun is not None:
                report.health = replace(report.health, host=actor.begun.host)
        self._events.append(RoundEnd(job=job, report=report))

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
            self._tell_actor(begun, Change.GONE, why=why)
        self._lose(actor, f"on {actor.name} is gone ({why})", guilty=True)

    def _lose(self, actor: _Actor, how: str, *, guilty: bool) -> None:
        for ticket, job in actor.jobs.items():
            if ticket in self._repeats:
                self._repeats.discard(ticket)
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
        slots = (slot for slot in itertools.count() if slot not in self._actors)
        while len(self._actors) < wanted:
            actor = _Actor(slot=next(slots), handle=self._cluster.start())
            self._actors[actor.slot] = actor
            self._call(actor, "begin")

    def _look(self) -> None:
        """Find out which nodes went and came."""
        before, now = self._nodes or {}, self._cluster.hosts()
        came = Change.THERE if self._nodes is None else Change.JOINED
        self._nodes = dict(now)
        for node in [one for one in before if one not in now]:
            there = sum(
                one.begun is not None and one.begun.node == node for one in self._actors.values()
            )
            self._tell(
                Role.NODE, Change.GONE, before[node], node=node, why=self._cluster.why_gone(node),
                actors=there + self._without.pop(node, 0),
            )  # fmt: skip
        for node in [one for one in now if one not in before]:
            self._tell(Role.NODE, came, now[node], node=node)

    def _tell_actor(self, begun: Begun, change: Change, **more: Any) -> None:
        self._tell(Role.ACTOR, change, begun.host, node=begun.node, place=begun.place, **more)

    def _tell(self, part: Role, change: Change, host: str, *, why: str = "", **more: Any) -> None:
        why = why if len(why) <= _SHOWN else f"{why[:_SHOWN]} …"
        self._events.append(Changed(part=part, change=change, host=host, why=why, **more))

    def statuses(self) -> Sequence[WorkerStatus]:
        return [self._status(actor) for actor in self._actors.values()]

    def _status(self, actor: _Actor) -> WorkerStatus:
        progress, begun, silence = actor.progress, actor.begun, 0.0
        if actor.call is not None and begun is not None:
            silence = time.monotonic() - actor.called
        if begun is None:
            device = "waiting for a place in the cluster"
        elif actor.left_out:
            device = f"left out: {actor.left_out}"
        else:
            device = f"{actor.name}: {actor.device or 'starting'}"
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
        if self._closed:
            return
        self._closed = True
        actors = [*self._actors.values()]
        self._actors.clear()
        begun = [one.handle for one in actors if one.begun is not None]
        leave(self._cluster, [one.handle for one in actors], begun, _END_SECONDS)


def cluster_at(
    address: str,
    *,
    gpus: bool,
    workers: int | None,
    most: int | None = None,
    host: Callable[..., Any] = Host,
    tell: Callable[[str], None] = lambda _: None,
) -> Cluster:
    """Return the Ray cluster at an address; `tell` is told what takes the first seconds.

    Raises as `ray_cluster.RayCluster` does, and UsageError if Ray is not installed.
    """
    tell(
        "starting a Ray cluster on this machine"
        if address == "local"
        else f"joining the Ray cluster {address}"
    )
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
    places, nodes = cluster.places(), len(cluster.hosts())
    tell(f"starting {counted(places, 'actor')} on {counted(nodes, 'node')} of the cluster")
    return cluster
