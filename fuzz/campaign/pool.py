"""The worker processes of a campaign: started, given jobs, listened to, replaced, ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from fuzz.campaign.check_wrappers import pickled
from fuzz.campaign.heartbeat import SHOWN_STALLED_SECONDS, Broken, Heartbeats
from fuzz.campaign.status import Changed, WorkerStatus
from fuzz.checks.protocol import Check, Facts, Found, Job, Report, RoundJob, Stage
from oracle.errors import DeviceLostError, InfrastructureError
from runners.processes import describe_status, helper, helper_environment, tail
from runners.protocol import ClosedAtTheEnd

_END_SECONDS = 8.0
"""How long workers that were told to end may take before they are killed: longer than they give
themselves."""
_START_SECONDS = 120.0
"""Least time that a worker has until it is ready: a device may take 60 s for its self-check."""
_DEATHS_AT_START = 3
"""Times in a row that a worker may die before it is ready; then it is not started again."""
_KILLS_AT_START = 20
"""How often a worker may be killed from outside at its start, by a person or for want of memory."""
_WORKERS_OF_AN_EXAMINER = 4
"""15 workers on an H200 met wrong programs of the driver's compiler of CUDA 13.0 faster than one
examiner took them, 3 s each: some twenty waited all the time (2026-11-23)."""
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Environment that limits NumPy to one thread: there is a process for every core already."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A job is done."""

    job: Job
    report: Report


@dataclass(frozen=True, kw_only=True)
class Lost:
    """A job is not done, because its worker is gone."""

    job: Job
    how: str
    """How it ended, as the end of a sentence."""
    guilty: bool
    """Whether the job may have to do with it."""


Event = Facts | Finished | Lost | Broken | Found | Changed
"""Facts: somebody is ready. Broken: somebody cannot go on, and no other takes the place. Found: two
devices disagree about an image of a round that both carried out."""


class WorkerPool(Protocol):
    """Interface of the workers that carry out a campaign's jobs."""

    @property
    def workers(self) -> int:
        """How many carry out rounds, those that are starting included."""

    def places_for_rounds(self) -> int:
        """Return how many more rounds can be given."""

    def places_for_examinations(self, *, everybody: bool) -> int:
        """Return how many more examinations can be given.

        With `everybody`, those who carry out rounds may be asked as well.
        """

    def give(self, job: Job) -> None:
        """Give a job to somebody who has a place for it."""

    def poll(self, seconds: float) -> list[Event]:
        """Wait until something happens, but not longer than this; return it."""

    def interrupt(self) -> None:
        """Ask for rounds to come to an end where they are."""

    def statuses(self) -> Sequence[WorkerStatus]:
        """Describe everybody."""

    def remarks(self) -> Sequence[str]:
        """Return sentences about those who differ, or cannot take part."""

    def close(self) -> None:
        """End everybody at once."""


class _Member:
    def __init__(self, row: int, check: bytes, device: int, heartbeats: Heartbeats) -> None:
        self.row = row
        self.job: Job | None = None
        self.facts: Facts | None = None
        self.given = time.monotonic()
        """When it was started, or given its job."""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the member)
        ours, theirs = socket.socketpair()
        variables = {**helper_environment(), **_ONE_THREAD}
        shared = heartbeats.descriptor, heartbeats.rows
        words = map(str, (theirs.fileno(), *shared, row, os.getpid()))
        with theirs:
            self.process = subprocess.Popen(
                helper("fuzz.campaign.worker", *words),
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                env=variables,
                pass_fds=[theirs.fileno(), heartbeats.descriptor],
            )
        self._kill = weakref.finalize(self, self.process.kill)
        self.line: Connection[Any, Any] = Connection(ours.detach())
        # One that is dead already is found, and replaced, as any other.
        with suppress(OSError):
            self.line.send((check, device))

    def end(self, deadline: float) -> str:
        """Wait for the process until the deadline, kill it then; return how it ended."""
        self.line.close()
        try:
            self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._kill.detach()
        said = tail(self._log.fileno()).strip()
        self._log.close()
        ending = describe_status(self.process.returncode)
        return f"{ending} ({said.splitlines()[-1][:400]})" if said else ending


class ProcessPool(ClosedAtTheEnd):
    """Worker processes on this machine.

    Parameters
    ----------
    workers
        How many carry out rounds; one more examines findings, from the first finding on, and one
        more for every `_WORKERS_OF_AN_EXAMINER` of them, as long as findings wait.
    devices
        Numbers of the devices, dealt out to the workers in turn.
    """

    def __init__(self, check: Check, *, workers: int, devices: Sequence[int] = (0,)) -> None:
        self._check, self._devices, self._workers = check, devices, workers
        self._pickled = pickled(check)
        rows = workers + 1 + workers // _WORKERS_OF_AN_EXAMINER
        self._heartbeats = Heartbeats(rows)
        self._closed = False
        self._members: dict[int, _Member] = {}
        self._deaths = [0] * rows
        """Times in a row that this worker died before it was ready."""
        self._events: list[Event] = []
        self._remarks: dict[str, None] = {}
        self._examiners = range(workers, rows)
        try:
            for row in range(workers):
                self._start(row)
        except BaseException:
            self.close()
            raise

    def facts(self) -> Facts:
        """Wait until a worker is ready; return what it says of its runner.

        Raises UsageError, DeviceLostError or InfrastructureError if a worker cannot open a runner;
        with several devices, if none can.
        """
        earlier: list[Event] = []
        while True:
            for event in self.poll(1.0):
                earlier.append(event)
                if isinstance(event, Facts):
                    self._events = earlier + self._events
                    return event
                if isinstance(event, Broken) and (
                    event.cause is not DeviceLostError or not self.workers
                ):
                    raise event.error()

    @property
    def workers(self) -> int:
        """How many carry out rounds, those that are starting included."""
        return sum(row < self._workers for row in self._members)

    def _device(self, row: int) -> int:
        return self._devices[row % len(self._devices)]

    def _start(self, row: int) -> None:
        try:
            self._members[row] = _Member(row, self._pickled, self._device(row), self._heartbeats)
        except OSError as error:
            raise InfrastructureError(
                f"no worker process can be started ({error}); ask for fewer with --workers, or "
                "end other programs"
            ) from error

    def _free(self, rows: Sequence[int]) -> list[_Member]:
        members = (self._members.get(row) for row in rows)
        return [one for one in members if one is not None and one.facts and one.job is None]

    def places_for_rounds(self) -> int:
        """Return how many workers are idle."""
        return len(self._free(range(self._workers)))

    def places_for_examinations(self, *, everybody: bool) -> int:
        """Return how many examiners are idle, and idle workers if everybody may be asked.

        If no examiner is, one more is started.
        """
        if everybody:
            return len(self._free(range(self._examiners.stop)))
        free = len(self._free(self._examiners))
        starting = (
            one.facts is None for row, one in self._members.items() if row in self._examiners
        )
        if not free and not any(starting):
            absent = (row for row in self._examiners if row not in self._members)
            row = next((row for row in absent if self._deaths[row] == 0), None)
            if row is not None:
                self._start(row)
        return free

    def give(self, job: Job) -> None:
        """Give a job to an idle worker; examinations to an examiner if one is idle."""
        if isinstance(job, RoundJob):
            member = self._free(range(self._workers))[0]
        else:
            member = self._free(range(self._examiners.stop - 1, -1, -1))[0]
        member.job, member.given = job, time.monotonic()
        try:
            member.line.send(job)
        except OSError:
            self._bury(member)

    def poll(self, seconds: float) -> list[Event]:
        """Listen to the workers; replace those that are gone or silent for too long."""
        if not self._events:
            lines = {member.line: member for member in self._members.values()}
            for line in wait(list(lines), seconds):
                self._hear(lines[line])  # type: ignore[index]
            self._end_stalled()
        events, self._events = self._events, []
        return events

    def _hear(self, member: _Member) -> None:
        try:
            message = member.line.recv()
        except (EOFError, OSError):
            self._bury(member)
            return
        if isinstance(message, Facts):
            member.facts = message
            self._deaths[member.row] = 0
            self._events.append(message)
        elif isinstance(message, Broken):
            self._retire(member, message)
        elif member.job is not None:
            self._events.append(Finished(job=member.job, report=message))
            member.job = None

    def _retire(self, member: _Member, broken: Broken) -> None:
        del self._members[member.row]
        member.end(time.monotonic() + _END_SECONDS)
        if member.job is not None:
            self._events.append(Lost(job=member.job, how=broken.message, guilty=False))
        self._deaths[member.row] = _DEATHS_AT_START
        if len(self._devices) > 1:
            self._remarks[f"left out: GPU {self._device(member.row)}: {broken.message}"] = None
        self._events.append(broken)

    def _bury(self, member: _Member, why: str = "") -> None:
        row = member.row
        del self._members[row]
        ending = member.end(time.monotonic() + _END_SECONDS)
        how = why or ending
        if member.job is not None:
            self._events.append(Lost(job=member.job, how=how, guilty=True))
        self._deaths[row] += member.facts is None
        killed = not why and member.process.returncode == -signal.SIGKILL
        if self._deaths[row] >= (_KILLS_AT_START if killed else _DEATHS_AT_START):
            message = f"worker processes cannot be kept alive: the last one {how}"
            broken = Broken(cause=InfrastructureError, message=message)
            self._events.append(broken)
            return
        self._start(row)

    def _silence(self, member: _Member) -> float:
        """Return for how long a worker that has something to do gave no sign of life, in s."""
        if member.facts is not None and member.job is None:
            return 0.0
        heard = max(self._heartbeats.read(member.row).written, member.given)
        return time.monotonic() - heard

    def _end_stalled(self) -> None:
        for member in list(self._members.values()):
            silence = self._silence(member)
            patience = self._check.patience
            if member.facts is None:
                patience = max(patience, _START_SECONDS)
            if silence > patience:
                stage = self._heartbeats.read(member.row).stage
                # Asked first: it may have a tool running that it then takes along.
                member.process.terminate()
                self._bury(member, f"gave no sign of life for {silence:.0f} s, at {stage}")

    def interrupt(self) -> None:
        """Ask for rounds to come to an end where they are."""
        self._heartbeats.interrupted = True

    def statuses(self) -> Sequence[WorkerStatus]:
        """Describe the workers that there are."""
        found = []
        for member in self._members.values():
            heartbeat = self._heartbeats.read(member.row)
            total = sum(heartbeat.seconds.values()) or 1.0
            device = member.facts.device if member.facts else "starting"
            if len(self._devices) > 1:
                device = f"{self._device(member.row)}: {device}"
            silence = self._silence(member)
            found.append(
                WorkerStatus(
                    number=member.row,
                    device=device,
                    round=heartbeat.round,
                    stage=heartbeat.stage if member.facts else Stage.WAIT,
                    seconds=silence,
                    cases=heartbeat.cases,
                    stalled=silence > min(SHOWN_STALLED_SECONDS, self._check.patience),
                    shares={stage: spent / total for stage, spent in heartbeat.seconds.items()},
                    examiner=member.row in self._examiners,
                )
            )
        return found

    def remarks(self) -> Sequence[str]:
        """Return a sentence about each GPU that can no longer take part, where there are others."""
        return tuple(self._remarks)

    def close(self) -> None:
        """End all workers: in order if they are idle, else by force after a moment."""
        if self._closed:
            return
        self._closed = True
        deadline = time.monotonic() + _END_SECONDS
        for member in self._members.values():
            member.process.terminate()
        for member in self._members.values():
            member.end(deadline)
        self._members.clear()
        self._heartbeats.close()
