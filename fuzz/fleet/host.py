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
from fuzz.campaign.check_wrappers import unpickled
from fuzz.campaign.heartbeat import Broken
from fuzz.campaign.pool import Event, Lost, ProcessPool, WorkerPool
from fuzz.campaign.status import Changed, WorkerStatus, stage_shares
from fuzz.checks.protocol import Examination, Facts, Found, Job, Report, RoundJob, Stage
from oracle.errors import WarpfuzzError

Cluster = Any
"""A `fuzz.fleet.ray_cluster.RayCluster`; that module is imported for a fleet alone, because Ray
takes a second."""
Handle = Any
"""An actor, as the cluster knows it."""
Reference = Any
"""What will be the answer to a call."""


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


_ROOMS = ("oracle", "strategies", "runners", "corpus", "fuzz")
_TURN_SECONDS = 0.05
"""Longest wait for news of worker processes before the queue is looked at again."""


@cache
def code_here() -> str:
    """Return what makes rounds on two hosts the same: the code that draws, runs and judges them.

    The version of warpfuzz; a hash of all modules, because between releases versions differ and
    have one number; and the version of Python, because objects that one pickles may mean something
    else to another.
    """
    root, made = Path(__file__).parents[2], sha256()
    for room in _ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            made.update(path.relative_to(root).as_posix().encode() + b"\0")
            made.update(path.read_bytes())
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
    place: str
    """The GPU as Ray counts it on its host, such as "GPU 3"; empty on cores."""
    code: str = field(default_factory=code_here)
    """As of `code_here`."""
    node: str = ""
    """The id of the cluster's node: several may be on one host."""

    @property
    def refusal(self) -> str:
        """Why it cannot take part in what this process drives; empty if it can."""
        here = code_here()
        if self.code == here:
            return ""
        return (
            f"{self.host} has {self.code}, and the driver has {here}: their results could not be "
            "compared; install the same on both"
        )

    @property
    def name(self) -> str:
        """Where the actor is, in words."""
        return " ".join(part for part in (self.host, self.place) if part)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A job is done, or is not."""

    ticket: int
    report: Report | None = None
    how: str = ""
    """Where there is no report: why, as the end of a sentence."""
    guilty: bool = False


Message = Facts | Ended | Broken


@dataclass(kw_only=True)
class Placed:
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


@dataclass(frozen=True, kw_only=True)
class News:
    """What happened since the last exchange."""

    messages: list[Message]
    progress: WorkerStatus | None
    """Now and then."""
    alive: bool
    """Whether any worker process is left."""


_PROGRESS_SECONDS = 1.0
"""Between two pulses: as often as a person looks."""


@dataclass(kw_only=True)
class Host(Placed):
    """An actor that carries out rounds: `begin`, then `open`, then `exchange` again and again."""

    make_pool: Callable[..., WorkerPool] = ProcessPool
    """Starts those who carry out the jobs, as `ProcessPool` does."""
    _pool: WorkerPool | None = None
    _queue: deque[tuple[int, Job]] = field(default_factory=deque)
    _given: dict[int, int] = field(default_factory=dict)
    """By the identity of a job that the pool has: its ticket."""
    _folders: dict[int, Path] = field(default_factory=dict)
    """By the ticket of an examination: the corpus that was made for it."""
    _interrupted: bool = False
    _opened: bool = False
    """Whether a worker process was ready yet."""
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
        """Take jobs, and return what happened.

        Parameters
        ----------
        jobs
            Each with a ticket, by which the driver knows it.
        interrupted
            Whether rounds are to come to an end where they are.
        seconds
            How long to wait for news; not at all where nothing is to be done.
        gather
            How long to wait for more when there are some: messages cost the driver more than news.
        """
        pool = self._pool
        if pool is None:
            return News(messages=[], progress=None, alive=False)
        messages: list[Message] = []
        for ticket, given in jobs:
            if isinstance(given, Parcel):
                self._unpack(ticket, given, messages)
            else:
                self._queue.append((ticket, given))
        if interrupted and not self._interrupted:
            self._interrupted = True
            pool.interrupt()
            self._drop_rounds(messages)
        end = time.monotonic() + seconds
        while True:
            self._hand_out(pool)
            left = end - time.monotonic()
            idle = self._opened and not (self._given or self._queue)
            for event in pool.poll(0.0 if idle else min(max(left, 0.0), _TURN_SECONDS)):
                message = self._message(event)
                if message is not None:
                    if not messages:
                        end = min(end, time.monotonic() + gather)
                    messages.append(message)
            if idle or time.monotonic() >= end:
                break
        self._hand_out(pool)
        if not pool.workers:
            messages += [Ended(ticket=one, how="has no GPU any more") for one, _ in self._queue]
            self._queue.clear()
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

    def _unpack(self, ticket: int, parcel: Parcel, messages: list[Message]) -> None:
        """Lay a finding out where worker processes can read it."""
        folder = Path(tempfile.mkdtemp(prefix="warpfuzz-"))
        self._folders[ticket] = folder
        try:
            made = create_corpus(folder / "corpus", generator="a fleet")
            made.deposit(parcel.finding, parcel.files)
        except (WarpfuzzError, OSError) as error:
            messages.append(Ended(ticket=ticket, how=str(error), guilty=True))
            self._sweep(ticket)
            return
        self._queue.append((ticket, replace(parcel.job, corpus=made.path)))

    def _sweep(self, ticket: int) -> None:
        folder = self._folders.pop(ticket, None)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def _drop_rounds(self, messages: list[Message]) -> None:
        """Give back the rounds that nobody has begun."""
        for ticket, job in self._queue:
            if isinstance(job, RoundJob):
                messages.append(Ended(ticket=ticket, how="was interrupted"))
        self._queue = deque(one for one in self._queue if not isinstance(one[1], RoundJob))

    def _hand_out(self, pool: WorkerPool) -> None:
        """Give jobs to those who have a place for them, the oldest first."""
        rounds = pool.places_for_rounds()
        waiting: deque[tuple[int, Job]] = deque()
        while self._queue:
            ticket, job = self._queue.popleft()
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

    def _message(self, event: Event) -> Message | None:
        if isinstance(event, Facts | Broken):
            self._opened = True
            return event
        if isinstance(event, Found | Changed):
            return None  # processes of one actor have one device, and are on one node
        ticket = self._given.pop(id(event.job))
        self._sweep(ticket)
        if isinstance(event, Lost):
            return Ended(ticket=ticket, how=event.how, guilty=event.guilty)
        return Ended(ticket=ticket, report=event.report)
