"""Actors of a fleet: workers around a GPU or on some cores of a host, or what screens a GPU."""

from __future__ import annotations

import json
import platform
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from corpus import Finding, create_corpus, open_corpus
from fuzz import warpfuzz_version
from fuzz.campaign.pool import Broken, Lost, ProcessPool, RoundEnd, WorkerPool, unpickled
from fuzz.campaign.status import WorkerStatus, stage_shares
from fuzz.checks.protocol import Examination, Facts, Job, Report, RoundJob, Stage
from oracle.errors import WarpfuzzError
from runners.processes import Tool, describe_status, helper, helper_environment

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
    _queue: dict[int, Job] = field(default_factory=dict)  # by ticket
    _given: dict[int, int] = field(default_factory=dict)
    """By the identity of a job that the pool has: its ticket."""
    _folders: dict[int, Path] = field(default_factory=dict)
    """By the ticket of an examination: the corpus that was made for it."""
    _interrupted: bool = False

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


# Screening

_NEWS_SECONDS = 1.0  # how long an actor waits for news: as often as a person looks
_SCREEN_END_SECONDS = (
    30.0  # for the end of a screening: a replay of what differed takes some seconds
)
_PLACE_SECONDS = 60.0  # how long a GPU may be taken by others when nothing is being screened


@dataclass(frozen=True, kw_only=True)
class ScreenNews:
    """How far the screening of a GPU is, and what it came to."""

    line: str = ""  # what it said last, for people
    over: bool = False
    summary: Mapping[str, Any] | None = None  # as of `warpfuzz screen --json`, once it is over
    findings: Sequence[tuple[Finding, Mapping[str, bytes]]] = ()
    error: str = ""  # why it could not be screened to the end


@dataclass(kw_only=True)
class ScreenHost(PlacedActor):
    """An actor that screens its GPU: `begin`, `start`, `news` until it is over."""

    _folder: Path = field(default_factory=Path)
    _tool: Tool | None = None

    def start(self, words: Sequence[str], files: Mapping[str, bytes]) -> ScreenNews:
        """Start screening with arguments of `warpfuzz screen`; "@NAME" stands for a file."""
        folder = self._folder = Path(tempfile.mkdtemp(prefix="warpfuzz-"))
        for name, data in files.items():
            (folder / name).write_bytes(data)
        given = [str(folder / word[1:]) if word[:1] == "@" else word for word in words]
        command = ["fuzz.__main__", "screen", *given, "--json", "--corpus", str(folder / "corpus")]
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            self._tool = Tool(
                helper(*command), stdout=out, stderr=err, environment=helper_environment(),
                cwd=folder,
            )  # fmt: skip
        return ScreenNews()

    def news(self, stop: bool) -> ScreenNews:
        """Wait a moment; say how far it is, and what came of it."""
        assert self._tool is not None
        process, folder = self._tool.process, self._folder
        if stop and process.poll() is None:
            process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_NEWS_SECONDS)
        line = ((folder / "err").read_text(errors="replace").splitlines() or [""])[-1]
        code = process.poll()
        if code is None:
            return ScreenNews(line=line)
        rows = map(json.loads, (folder / "out").read_text(errors="replace").splitlines())
        corpus = folder / "corpus"
        entries = open_corpus(corpus).entries() if corpus.is_dir() else ()
        return ScreenNews(
            line=line,
            over=True,
            summary=next((row["summary"] for row in rows if "summary" in row), None),
            findings=[(entry.finding, entry.files()) for entry in entries],
            error="" if code in (0, 1) else line or describe_status(code),
        )

    def end(self) -> None:
        """End the process, and remove what it has written."""
        if self._tool is not None:
            self._tool.kill(grace=_NEWS_SECONDS)
            shutil.rmtree(self._folder, ignore_errors=True)


@dataclass(kw_only=True, eq=False)
class FleetDevice:
    """A GPU of a fleet, and what became of it."""

    actor: Handle
    begun: Begun | None = None
    news: ScreenNews = ScreenNews()

    @property
    def name(self) -> str:
        """The GPU and its host, as reports name them."""
        return "a GPU that others use" if self.begun is None else self.begun.name

    @property
    def rows(self) -> Iterator[dict[str, Any]]:
        """What came of it, as `warpfuzz screen --json` has devices."""
        row = {"host": self.begun.host if self.begun else "", "error": self.news.error or None}
        for told in (self.news.summary or {}).get("devices", ()):
            name = f"{self.name}: {told['device'].partition(': ')[2] or told['device']}"
            yield told | row | {"device": name, "error": told.get("error") or row["error"]}
        if self.news.summary is None:
            yield {"device": self.name, "cases": 0, "wrong": 0, "multiprocessors": []} | row


def screened(
    cluster: Cluster, words: Sequence[str], files: Mapping[str, bytes], stop: threading.Event
) -> Iterator[list[FleetDevice]]:
    """Screen every GPU that a cluster has now, as `ScreenHost.start` says; then leave it.

    Iterates once a second over how it stands, until all are done; `stop` asks for the end.
    """
    begun, stopped = time.monotonic(), 0.0
    devices = [FleetDevice(actor=cluster.start()) for _ in range(max(1, cluster.places()))]
    try:
        calls = {cluster.call(device.actor, "begin"): device for device in devices}
        while calls:
            for call in cluster.wait(list(calls), _NEWS_SECONDS):
                device = calls.pop(call)
                following: tuple[Any, ...] = ("news", stop.is_set())
                try:
                    answer = cluster.result(call)
                except ActorGoneError as error:
                    answer = ScreenNews(over=True, error=str(error))
                if isinstance(answer, Begun):
                    device.begun, following = answer, ("start", [*words], dict(files))
                    answer = ScreenNews(over=bool(answer.refusal), error=answer.refusal)
                device.news = answer
                if not answer.over:
                    calls[cluster.call(device.actor, *following)] = device
            now = time.monotonic()
            stopped = stopped or (now if stop.is_set() else 0.0)
            waiting = [device for device in calls.values() if device.begun is None]
            late, why = list[FleetDevice](), "it was used by others all the time"
            if stopped and now - stopped > _SCREEN_END_SECONDS:
                late, why = [*calls.values()], "it did not end in time"
            elif stopped or (len(waiting) == len(calls) and now - begun > _PLACE_SECONDS):
                # Those that have a place are done: nobody waits for what others use.
                late = waiting
            for device in late:
                device.news = ScreenNews(over=True, error=why)
            calls = {call: device for call, device in calls.items() if device not in late}
            yield devices
    finally:
        leave(cluster, {device.actor: device.begun for device in devices})
