"""The driver of a fleet: a `WorkerPool` of actors, which may come and go."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from corpus import BrokenEntryError, open_corpus
from fuzz.campaign.pool import (
    SHOWN_STALLED_SECONDS,
    Broken,
    Event,
    Lost,
    RoundEnd,
    WorkerPool,
    pickled,
)
from fuzz.campaign.status import ACTOR, GONE, JOINED, NODE, THERE, Changed, WorkerStatus
from fuzz.checks import protocol
from fuzz.fleet.host import (
    ActorGoneError,
    Begun,
    Cluster,
    Ended,
    Handle,
    Host,
    Parcel,
    leave,
    together,
)
from fuzz.output import counted
from oracle.errors import InfrastructureError, UsageError
from strategies.draws import derived_seed

_TEND_SECONDS = 2.0  # between two looks at which nodes and actors there are
_POLL_SECONDS = 0.2
_POLL_OF_AN_ACTOR = 2e-3
"""How long an exchange gathers news, in all, or for each actor there is if that is more: it costs
the driver 1 ms (benchmarks/fleet_driver.py)."""
_PLACE_SECONDS = 120.0  # for the first actor to get a place: an autoscaler takes so long for a node
_NO_GPU = "no GPU that Ray sees; `--runner sim` takes processors and the simulated device"
_BEGIN_DEATHS = 10  # actors in a row that may die as they begin; then none is started any more
_JOB_DEATHS = 10  # actors that may die over a round: a node that dies may have it by chance
_MOST_GIVEN = 256
"""Rounds that are given before news is heard again: drawing what one is about takes 1 to 2 ms."""
_SHOWN = 160  # characters of why an actor is gone that a line shows
_ACTORS_OF_AN_EXAMINATION = 8  # examinations at once: one for so many actors while rounds go on


@dataclass(kw_only=True, eq=False)
class _Actor:
    slot: int
    handle: Handle
    call: Any = None  # what will be the answer
    step: str = "begin"  # the method that was called last
    called: float = 0.0
    begun: Begun | None = None
    facts: protocol.Facts | None = None
    progress: WorkerStatus = field(default_factory=lambda: together(()))
    left_out: str = ""  # why it gets no jobs; it keeps its GPU, so that no other actor comes to it
    jobs: dict[int, protocol.Job] = field(default_factory=dict)  # not done yet, by ticket
    outgoing: list[tuple[int, protocol.RoundJob | Parcel]] = field(default_factory=list)
    rounds: int = 0  # how many of the jobs are rounds

    @property
    def name(self) -> str:
        return "an actor that waits for a place" if self.begun is None else self.begun.name


class FleetPool(WorkerPool):
    """Actors of a cluster, closed with it, that carry out a campaign's jobs.

    `repeat` is the fraction of the rounds that are carried out again by a second actor with the
    same device, 0 to 1.
    """

    def __init__(self, check: protocol.Check, cluster: Cluster, *, repeat: float = 0.0) -> None:
        super().__init__()
        self._check, self._cluster, self._workers = check, cluster, cluster.workers
        self._repeat, self._pickled = repeat, pickled(check)
        self._repeats: set[int] = set()  # tickets of rounds that are carried out once more
        self._actors: dict[int, _Actor] = {}  # by slot
        self._tickets = 0
        self._deaths: Counter[int] = Counter()
        """By the number of a round: actors that died while they had it."""
        self._begin_deaths, self._why = 0, ""
        self._interrupted = self._closed = False
        self._first: protocol.Facts | None = None
        self._cases: Counter[int] = Counter()  # by slot: those of the actors that had it before
        self._free: list[_Actor] = []
        self._wanted = 0  # actors that there should be
        self._tended, self._made = 0.0, time.monotonic()
        self._nodes: Mapping[str, str] | None = None  # None before the first look
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
        """Return how many rounds can be given: twice as many as there are processes."""
        ready = [] if self._interrupted else self._ready()
        # First everybody gets something to do, then something to do next.
        self._free = [
            one
            for most in (2 * self._workers, self._workers)
            for one in ready
            for _ in range(max(0, min(most - one.rounds, self._workers)))
        ][-_MOST_GIVEN:]
        return len(self._free)

    def places_for_examinations(self, waiting: int = 1, *, everybody: bool) -> int:
        ready = self._ready()
        places = -(-len(ready) // _ACTORS_OF_AN_EXAMINATION)
        if everybody:
            places = (self._workers + 1) * len(ready)
        return max(0, places - sum(len(one.jobs) - one.rounds for one in ready))

    def give(self, job: protocol.Job) -> None:
        if isinstance(job, protocol.RoundJob):
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
            parcel = job, entry.finding, entry.files()
        except (UsageError, BrokenEntryError):
            # A corpus is open to everybody: the finding may have been pruned in the meantime.
            left = protocol.Found(bucket=job.bucket, state=protocol.FoundState.LEFT)
            self._events.append(RoundEnd(job=job, report=left))
            return
        self._send(min(self._ready(), key=lambda one: len(one.jobs) - one.rounds), job, parcel)

    def _send(self, actor: _Actor, job: protocol.Job, given: protocol.RoundJob | Parcel) -> None:
        self._tickets += 1
        actor.jobs[self._tickets] = job
        actor.rounds += isinstance(job, protocol.RoundJob)
        actor.outgoing.append((self._tickets, given))

    def interrupt(self) -> None:
        self._interrupted = True

    # Events

    def poll(self, seconds: float) -> list[Event]:
        now = time.monotonic()
        if now - self._tended >= _TEND_SECONDS:
            self._tend()
        if not self._first and now - self._made > _PLACE_SECONDS and not self._cluster.places():
            raise InfrastructureError(
                f"no actor had a place within {_PLACE_SECONDS:.0f} s: the cluster has {_NO_GPU}"
            )
        self._exchange()
        waiting = {one.call: one for one in self._actors.values() if one.call is not None}
        for call in self._cluster.wait(list(waiting), 0.0 if self._events else seconds):
            self._hear(waiting[call])
        self._exchange()
        events, self._events = self._events, []
        return events

    def _exchange(self) -> None:
        seconds = max(_POLL_SECONDS, _POLL_OF_AN_ACTOR * len(self._actors))
        for actor in list(self._actors.values()):
            if actor.call is None:
                outgoing, actor.outgoing = actor.outgoing, []
                self._call(actor, "exchange", outgoing, self._interrupted, seconds)

    def _call(self, actor: _Actor, method: str, *arguments: object) -> None:
        actor.step, actor.called = method, time.monotonic()
        actor.call = self._cluster.call(actor.handle, method, *arguments)

    def _hear(self, actor: _Actor) -> None:
        call, actor.call = actor.call, None
        try:
            answer = self._cluster.result(call)
        except ActorGoneError as error:
            self._bury(actor, str(error))
            return
        if actor.step == "begin":
            self._begin(actor, answer)
        elif actor.step == "exchange":
            self._news(actor, *answer)
        elif answer is not None:
            self._leave_out(actor, answer)

    def _begin(self, actor: _Actor, begun: Begun) -> None:
        actor.begun, self._begin_deaths = begun, 0
        self._without[begun.node] -= self._without[begun.node] > 0
        there = sum(one.begun is not None for one in self._actors.values())
        complete = there >= self._wanted
        if complete:
            self._without.clear()
        came = Changed(ACTOR, THERE, begun.host, begun.node, begun.place, complete=complete)
        self._events.append(came)
        if begun.refusal:
            self._leave_out(actor, Broken(cause=UsageError, message=begun.refusal))
        else:
            self._call(actor, "open", self._pickled, self._workers)

    def _news(
        self, actor: _Actor, messages: Sequence[protocol.Facts | Ended | Broken],
        progress: WorkerStatus, alive: bool,
    ) -> None:  # fmt: skip
        actor.progress = progress
        for message in messages:
            match message:
                case protocol.Facts() if actor.facts is None:
                    self._opened(actor, message)
                case Ended() if message.ticket in actor.jobs:
                    job = actor.jobs.pop(message.ticket)
                    actor.rounds -= isinstance(job, protocol.RoundJob)
                    self._ended(actor, job, message)
                case Broken() if message.cause is UsageError or not alive:
                    self._leave_out(actor, message)
        if not alive:
            nobody = "it has no worker process any more"
            self._leave_out(actor, Broken(cause=InfrastructureError, message=nobody))

    def _ended(self, actor: _Actor, job: protocol.Job, ended: Ended) -> None:
        report = ended.report
        if ended.ticket in self._repeats:
            self._repeats.discard(ended.ticket)
            if isinstance(report, protocol.RoundReport) and report.disagreement is not None:
                self._events.append(report.disagreement)
            return
        if report is None:
            self._events.append(Lost(job=job, how=ended.how, guilty=ended.guilty))
            return
        if isinstance(report, protocol.RoundReport) and isinstance(job, protocol.RoundJob):
            self._deaths.pop(report.number, None)
            # To compare them with another device.
            outcomes, report.outcomes = report.outcomes, None
            mine = actor.facts.device if actor.facts else ""
            others = [
                one
                for one in self._ready()
                if one.facts and one.facts.device == mine and one is not actor
            ]
            if outcomes is not None and report.complete and others and not self._interrupted:
                other = min(others, key=lambda one: one.rounds)
                again = replace(job, against=outcomes, device=other.name)
                self._send(other, job, again)
                self._repeats.add(self._tickets)
            report.device = actor.slot
            if report.health is not None and actor.begun is not None:
                report.health = replace(report.health, host=actor.begun.host)
        self._events.append(RoundEnd(job=job, report=report))

    def _opened(self, actor: _Actor, facts: protocol.Facts) -> None:
        first = self._first = self._first or facts
        mine = (facts.target, facts.groups, facts.versions, facts.members)
        if mine != (first.target, first.groups, first.versions, first.members):
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
            self.remarks.setdefault(
                f"{actor.name} differs from the first host: {facts.device}, not {first.device}"
            )
        actor.facts = facts
        self._events.append(facts)

    def _leave_out(self, actor: _Actor, broken: Broken) -> None:
        """Give an actor nothing more to do; it keeps its GPU from others of the fleet."""
        if actor.left_out:
            return
        actor.left_out = f"{actor.name}: {broken.message}"
        self.remarks[f"left out: {actor.left_out}"] = None
        self._lose(actor, broken.message, guilty=False)
        if not self.workers:
            self._events.append(replace(broken, message=actor.left_out))

    def _bury(self, actor: _Actor, why: str) -> None:
        """Let go of an actor that is gone; another one takes its place when there is any."""
        self._cluster.kill(actor.handle)
        del self._actors[actor.slot]
        self._cases[actor.slot] += actor.progress.cases
        if actor.begun is not None:
            host, place, node = actor.begun.host, actor.begun.place, actor.begun.node
            self._without[node] += node in (self._nodes or ())
            self._events.append(Changed(ACTOR, GONE, host, node, place, why[:_SHOWN]))
        else:
            self._begin_deaths, self._why = self._begin_deaths + 1, why
        self._lose(actor, f"on {actor.name} is gone ({why})", guilty=True)

    def _lose(self, actor: _Actor, how: str, *, guilty: bool) -> None:
        for ticket, job in actor.jobs.items():
            if ticket in self._repeats:
                self._repeats.discard(ticket)
                continue
            to_blame = False
            if guilty and isinstance(job, protocol.RoundJob):
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
            self.remarks[f"no further actor is started: {why}"] = None
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
        before, now = self._nodes or {}, self._cluster.hosts()
        came = THERE if self._nodes is None else JOINED
        self._nodes = dict(now)
        for node in [one for one in before if one not in now]:
            there = [one.begun.node for one in self._actors.values() if one.begun is not None]
            actors = there.count(node) + self._without.pop(node, 0)
            why = self._cluster.why_gone(node)[:_SHOWN]
            self._events.append(Changed(NODE, GONE, before[node], node, why=why, actors=actors))
        self._events += [Changed(NODE, came, now[node], node) for node in now if node not in before]

    def statuses(self) -> Sequence[WorkerStatus]:
        return [self._status(actor) for actor in self._actors.values()]

    def _status(self, actor: _Actor) -> WorkerStatus:
        progress, begun, silence = actor.progress, actor.begun, 0.0
        device = "waiting for a place in the cluster"
        if begun is not None:
            device = f"{actor.name}: {actor.facts.device if actor.facts else 'starting'}"
            silence = time.monotonic() - actor.called
        return replace(
            progress,
            number=actor.slot,
            host=begun.host if begun is not None else "",
            device=f"left out: {actor.left_out}" if actor.left_out else device,
            seconds=max(silence, progress.seconds),
            cases=self._cases[actor.slot] + progress.cases,
            stalled=not actor.left_out and (silence > SHOWN_STALLED_SECONDS or progress.stalled),
        )

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            leave(self._cluster, {one.handle: one.begun for one in self._actors.values()})
            self._actors.clear()


def cluster_at(
    address: str,
    *,
    gpus: bool,
    workers: int | None,
    most: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Cluster:
    """Return the Ray cluster at an address; `tell` is told what takes the first seconds.

    Raises as `ray_cluster.RayCluster` does, and UsageError if Ray is not installed.
    """
    tell(f"joining the Ray cluster {address}")
    try:
        from fuzz.fleet.ray_cluster import RayCluster
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "ray":
            raise
        raise UsageError(
            f"--fleet {address} needs Ray, which is not installed: pip install '.[fleet]' in "
            "the clone of warpfuzz, or divide the work with --shard"
        ) from None
    cluster = RayCluster(address, gpus=gpus, workers=workers, most=most, host=Host)
    # Other clusters may be given nodes when somebody asks for them.
    if gpus and address == "local" and not cluster.places():
        cluster.close()
        raise InfrastructureError(f"--fleet local: this machine has {_NO_GPU}")
    places, nodes = cluster.places(), len(cluster.hosts())
    tell(f"starting {counted(places, 'actor')} on {counted(nodes, 'node')} of the cluster")
    return cluster
