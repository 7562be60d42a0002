"""An actor of a fleet: worker processes around one GPU, or on some cores, of one host."""

from __future__ import annotations

import platform
import shutil
import socket
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from corpus import Finding, create_corpus
from fuzz import warpfuzz_version
from fuzz.campaign.heartbeat import Broken
from fuzz.campaign.pool import Lost, ProcessPool, RoundEnd, WorkerPool, unpickled
from fuzz.campaign.status import WorkerStatus, stage_shares
from fuzz.checks.protocol import Examination, Facts, Job, Report, RoundJob, Stage
from oracle.errors import WarpfuzzError

Cluster = Any
"""A `fuzz.fleet.ray_cluster.RayCluster`; that module is imported for a fleet alone, because Ray
takes a second."""
Handle = Any  # an actor, as the cluster knows it
Reference = Any  # what will be the answer to a call
_ROOMS = ("oracle", "strategies", "runners", "corpus", "fuzz")
_TURN_SECONDS = 0.05
"""Longest wait for news of worker processes before the queue is looked at again."""
_PROGRESS_SECONDS = 1.0  # between two pulses: as often as a person looks


def leave(
    cluster: Cluster, actors: Sequence[Handle], begun: Sequence[Handle], seconds: float
) -> None:
    """End actors, and leave the cluster; those that have begun get some seconds to end in order."""
    ending: Sequence[Reference] = [cluster.call(one, "end") for one in begun]
    deadline = time.monotonic() + seconds
    while ending and time.monotonic() < deadline:
        ended = cluster.wait(ending, max(0.0, deadline - time.monotonic()))
        ending = [one for one in ending if one not in ended]
    for actor in actors:
        cluster.kill(actor)
    cluster.close()


class ActorGoneError(Exception):
    """An actor is gone, or could not be started; the message says why."""


@cache
def code_here() -> str:
    """Return what makes rounds on two hosts the same: the code that draws, runs and judges them.

    The version of warpfuzz; a hash of all modules, because between releases versions differ and
    have one number; and the version of Python, because objects that one pickles may mean something
    else to another.
    """
    root, made = Path(__file__).parents[2], sha256()
    for path in (one for room in _ROOMS for one in sorted((root / room).rglob("*.py"))):
        made.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    python = ".".join(platform.python_version_tuple()[:2])
    return f"warpfuzz {warpfuzz_version()} ({made.hexdigest()[:12]}) on Python {python}"


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """An examination, with the finding that it is about: the corpus is on the driver's disk."""

    job: Examination
    finding: Finding
    files: Mapping[str, bytes]


@dataclass(frozen=True, kw_only=True)
class Begun:
    """What an actor says when it is placed."""

    host: str
    place: str  # the GPU as Ray counts it on its host, such as "GPU 3"; empty on cores
    code: str = field(default_factory=code_here)
    node: str = ""  # the id of the cluster's node: several may be on one host

    @property
    def refusal(self) -> str:
        """Why it cannot take part in what this process drives; empty if it can."""
        here = code_here()
        return "" if self.code == here else (
            f"{self.host} has {self.code}, and the driver has {here}: their results could not be "
            "compared; install the same on both"
        )  # fmt: skip

    @property
    def name(self) -> str:
        """Where the actor is, in words."""
        return " ".join(part for part in (self.host, self.place) if part)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A job is done, or is not."""

    ticket: int
    report: Report | None = None
    how: str = ""  # where there is no report: why, as the end of a sentence
    guilty: bool = False


@dataclass(frozen=True, kw_only=True)
class News:
    """What happened since the last exchange."""

    messages: list[Facts | Ended | Broken]
    progress: WorkerStatus | None  # now and then
    alive: bool  # whether any worker process is left


@dataclass(kw_only=True)
class PlacedActor:
    """What an actor holds; it is called by one thread."""

    place: str = ""
    node: str = ""

    def begin(self) -> Begun:
        """Say where this is, and what code it has."""
        return Begun(host=socket.gethostname(), place=self.place, node=self.node)


def together(statuses: Sequence[WorkerStatus]) -> WorkerStatus:
    """Return what the worker processes of an actor are doing, in one."""
    own = [one for one in statuses if not one.examiner]
    stages = Counter(one.stage for one in own)
    return WorkerStatus(
        number=0,
        device="",
        round=max((one.round for one in own), default=-1),
        stage=stages.most_common(1)[0][0] if stages else Stage.WAIT,
        cases=sum(one.cases for one in own),
        seconds=max((one.seconds for one in own), default=0.0),
        stalled=any(one.stalled for one in statuses),
        shares=stage_shares(own) if own else {},
    )


@dataclass(kw_only=True)
class Host(PlacedActor):
    """An actor that carries out rounds: `begin`, then `open`, then `exchange` again and again."""

    make_pool: Callable[..., WorkerPool] = ProcessPool
    _pool: WorkerPool | None = None
    _queue: deque[tuple[int, Job]] = field(default_factory=deque)
    _given: dict[int, int] = field(default_factory=dict)
    """By the identity of a job that the pool has: its ticket."""
    _folders: dict[int, Path] = field(default_factory=dict)
    """By the ticket of an examination: the corpus that was made for it."""
    _messages: list[Facts | Ended | Broken] = field(default_factory=list)  # of this exchange
    _interrupted: bool = False
    _opened: bool = False  # whether a worker process was ready yet
    _told: float = 0.0

    def open(self, check: bytes, workers: int) -> Broken | None:
        """Start worker processes for a check, pickled; return why that cannot be."""
        try:
            self._pool = self.make_pool(unpickled(check), workers=workers)
        except WarpfuzzError as error:
            return Broken.of(error)
        return None

    def exchange(
        self,
        jobs: Sequence[tuple[int, RoundJob | Parcel]],
        interrupted: bool,
        seconds: float,
        gather: float,
    ) -> News:
        """Take jobs, each with a ticket by which the driver knows it, and return what happened.

        `interrupted` is whether rounds are to come to an end where they are. News is waited for so
        many `seconds`, not at all where nothing is to be done; and when there is some, `gather`
        seconds for more: messages cost the driver more than news.
        """
        pool = self._pool
        if pool is None:
            return News(messages=[], progress=None, alive=False)
        messages = self._messages = []
        for ticket, given in jobs:
            if isinstance(given, Parcel):
                self._unpack(ticket, given)
            else:
                self._queue.append((ticket, given))
        if interrupted and not self._interrupted:
            self._interrupted = True
            pool.interrupt()
            # Rounds that nobody has begun go back.
            self._give_back([one for one in self._queue if isinstance(one[1], RoundJob)],
                            "was interrupted")  # fmt: skip
        end = time.monotonic() + seconds
        while True:
            self._hand_out(pool)
            left = end - time.monotonic()
            idle = self._opened and not (self._given or self._queue)
            for event in pool.poll(0.0 if idle else min(max(left, 0.0), _TURN_SECONDS)):
                match event:
                    case Facts() | Broken():
                        self._opened = True
                        messages.append(event)
                    case RoundEnd(job=job, report=report):
                        messages.append(Ended(ticket=self._done(job), report=report))
                    case Lost(job=job, how=how, guilty=guilty):
                        messages.append(Ended(ticket=self._done(job), how=how, guilty=guilty))
                    case _:
                        continue  # processes of one actor have one device, and are on one node
                if len(messages) == 1:
                    end = min(end, time.monotonic() + gather)
            if idle or time.monotonic() >= end:
                break
        self._hand_out(pool)
        if not pool.workers:
            self._give_back([*self._queue], "has no GPU any more")
        progress, now = None, time.monotonic()
        if now - self._told >= _PROGRESS_SECONDS:
            self._told, progress = now, together(pool.statuses())
        return News(messages=messages, progress=progress, alive=pool.workers > 0)

    def end(self) -> None:
        """End all processes."""
        if self._pool is not None:
            self._pool.close()
        for folder in self._folders.values():
            shutil.rmtree(folder, ignore_errors=True)

    def _unpack(self, ticket: int, parcel: Parcel) -> None:
        """Lay a finding out where worker processes can read it."""
        folder = self._folders[ticket] = Path(tempfile.mkdtemp(prefix="warpfuzz-"))
        try:
            made = create_corpus(folder / "corpus", generator="a fleet")
            made.deposit(parcel.finding, parcel.files)
        except (WarpfuzzError, OSError) as error:
            self._messages.append(Ended(ticket=ticket, how=str(error), guilty=True))
            self._sweep(ticket)
            return
        self._queue.append((ticket, replace(parcel.job, corpus=made.path)))

    def _sweep(self, ticket: int) -> None:
        if ticket in self._folders:
            shutil.rmtree(self._folders.pop(ticket), ignore_errors=True)

    def _done(self, job: Job) -> int:
        ticket = self._given.pop(id(job))
        self._sweep(ticket)
        return ticket

    def _give_back(self, jobs: Sequence[tuple[int, Job]], how: str) -> None:
        tickets = [ticket for ticket, _ in jobs]
        self._messages += [Ended(ticket=ticket, how=how) for ticket in tickets]
        self._queue = deque(one for one in self._queue if one[0] not in tickets)

    def _hand_out(self, pool: WorkerPool) -> None:
        """Give jobs to those who have a place for them, the oldest first."""
        rounds = pool.places_for_rounds()
        waiting: deque[tuple[int, Job]] = deque()
        for ticket, job in self._queue:
            if isinstance(job, RoundJob):
                free, rounds = rounds > 0, rounds - 1
            else:
                free = pool.places_for_examinations(everybody=self._interrupted) > 0
            if free:
                self._given[id(job)] = ticket
                pool.give(job)
            else:
                waiting.append((ticket, job))
        self._queue = waiting
