"""Actors of a fleet: workers around a GPU or on some cores of a host."""

from __future__ import annotations

import platform
import shutil
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from corpus import Finding, create_corpus
from fuzz import warpfuzz_version
from fuzz.campaign.pool import Broken, Lost, ProcessPool, RoundEnd, WorkerPool, unpickled
from fuzz.campaign.status import WorkerStatus, stage_shares
from fuzz.checks.protocol import Examination, Facts, Job, Report, RoundJob, Stage
from oracle.errors import WarpfuzzError

Cluster = Any  # a `RayCluster`, whose module is imported for a fleet alone: it takes a second
Handle = Any  # an actor, as the cluster knows it
_ROOMS = ("oracle", "strategies", "runners", "corpus", "fuzz")
_TURN_SECONDS = 0.05  # longest wait for worker processes before an actor looks at its queue again
_END_SECONDS = 10.0  # how long actors may take to end their processes before they are killed


class ActorGoneError(Exception):
    """An actor is gone, or could not be started; the message says why."""


@cache
def code_here() -> str:
    """Return what makes rounds on two hosts the same: the code that draws, runs and judges them.

    Version and hash of all modules of warpfuzz, and the version of Python, whose pickles differ.
    """
    root, made = Path(__file__).parents[2], sha256()
    for path in (one for room in _ROOMS for one in sorted((root / room).rglob("*.py"))):
        made.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    python = ".".join(platform.python_version_tuple()[:2])
    return f"warpfuzz {warpfuzz_version()} ({made.hexdigest()[:12]}) on Python {python}"


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
        return "" if self.code == code_here() else (
            f"{self.host} has {self.code}, and the driver has {code_here()}: their results could "
            "not be compared; install the same on both"
        )  # fmt: skip

    @property
    def name(self) -> str:
        """Where the actor is, in words."""
        return f"{self.host} {self.place}".strip()


class Ended(NamedTuple):
    """A job is done, or is not."""

    ticket: int
    report: Report | None = None
    how: str = ""  # where there is no report: why, as the end of a sentence
    guilty: bool = False


Parcel = tuple[Examination, Finding, Mapping[str, bytes]]
"""An examination, with the finding that it is about: the corpus is on the driver's disk."""
News = tuple[Sequence[Facts | Ended | Broken], WorkerStatus, bool]
"""What happened in an actor, what it does, and whether any worker process is left."""


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
class Host:
    """An actor that carries out rounds: `begin`, then `open`, then `exchange` again and again."""

    place: str = ""
    node: str = ""
    make_pool: Callable[..., WorkerPool] = ProcessPool
    _pool: WorkerPool | None = None
    _queue: dict[int, Job] = field(default_factory=dict)  # by ticket
    _given: dict[int, int] = field(default_factory=dict)
    """By the identity of a job that the pool has: its ticket."""
    _folders: dict[int, Path] = field(default_factory=dict)
    """By the ticket of an examination: the corpus that was made for it."""
    _interrupted: bool = False

    def begin(self) -> Begun:
        """Say where this is, and what code it has."""
        return Begun(host=socket.gethostname(), place=self.place, node=self.node)

    def open(self, check: bytes, workers: int) -> Broken | None:
        """Start worker processes for a check, pickled; return why that cannot be."""
        try:
            self._pool = self.make_pool(unpickled(check), workers=workers)
        except WarpfuzzError as error:
            return Broken.of(error)
        return None

    def exchange(
        self, jobs: Sequence[tuple[int, RoundJob | Parcel]], interrupted: bool, seconds: float
    ) -> News:
        """Take jobs, each with a ticket, and return what happens within so many seconds."""
        pool, messages = self._pool, list[Facts | Ended | Broken]()
        if pool is None:
            return messages, together(()), False
        for ticket, given in jobs:
            try:
                laid_out = given if isinstance(given, RoundJob) else self._laid_out(ticket, *given)
                self._queue[ticket] = laid_out
            except (WarpfuzzError, OSError) as error:
                messages.append(Ended(ticket, how=str(error), guilty=True))
                self._sweep(ticket)
        if interrupted and not self._interrupted:
            self._interrupted = True
            pool.interrupt()
            # Rounds that nobody has begun go back.
            rounds = [one for one, job in self._queue.items() if isinstance(job, RoundJob)]
            messages += [
                Ended(one, how="was interrupted") for one in rounds if self._queue.pop(one)
            ]
        end = time.monotonic() + seconds
        self._hand_out(pool)
        while (left := end - time.monotonic()) > 0:
            for event in pool.poll(min(left, _TURN_SECONDS)):
                match event:
                    case Facts() | Broken():
                        messages.append(event)
                    case RoundEnd(job=job, report=report):
                        messages.append(Ended(self._done(job), report))
                    case Lost(job=job, how=how, guilty=guilty):
                        messages.append(Ended(self._done(job), None, how, guilty))
            self._hand_out(pool)
        if not pool.workers:
            messages += [Ended(ticket, how="has no GPU any more") for ticket in self._queue]
            self._queue.clear()
        return messages, together(pool.statuses()), pool.workers > 0

    def end(self) -> None:
        """End all processes."""
        if self._pool is not None:
            self._pool.close()
        for ticket in list(self._folders):
            self._sweep(ticket)

    def _laid_out(
        self, ticket: int, job: Examination, finding: Finding, files: Mapping[str, bytes]
    ) -> Examination:
        """Lay a finding out where worker processes can read it."""
        folder = self._folders[ticket] = Path(tempfile.mkdtemp(prefix="warpfuzz-"))
        made = create_corpus(folder / "corpus", generator="a fleet")
        made.deposit(finding, files)
        return replace(job, corpus=made.path)

    def _sweep(self, ticket: int) -> None:
        shutil.rmtree(self._folders.pop(ticket, ""), ignore_errors=True)

    def _done(self, job: Job) -> int:
        ticket = self._given.pop(id(job))
        self._sweep(ticket)
        return ticket

    def _hand_out(self, pool: WorkerPool) -> None:
        """Give jobs to those who have a place for them, the oldest first."""
        rounds = pool.places_for_rounds()
        for ticket, job in list(self._queue.items()):
            if isinstance(job, RoundJob):
                free, rounds = rounds, rounds - 1
            else:
                free = pool.places_for_examinations(everybody=self._interrupted)
            if free > 0:
                self._given[id(job)] = ticket
                pool.give(self._queue.pop(ticket))


def leave(cluster: Cluster, actors: Mapping[Handle, Begun | None]) -> None:
    """End actors, and leave the cluster; those that have begun get some seconds to end in order."""
    ending = [cluster.call(one, "end") for one, begun in actors.items() if begun is not None]
    deadline = time.monotonic() + _END_SECONDS
    while ending and time.monotonic() < deadline:
        ended = cluster.wait(ending, max(0.0, deadline - time.monotonic()))
        ending = [one for one in ending if one not in ended]
    for actor in actors:
        cluster.kill(actor)
    cluster.close()
