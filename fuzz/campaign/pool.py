"""Worker processes of a campaign: started, given jobs, listened to, replaced, ended.

A worker is `python -m fuzz.campaign.pool SOCKET ROWS ROW`: it opens a runner, says what that is,
and carries out jobs until the coordinator hangs up. What it does meanwhile it writes into its row
of shared memory, a file without a name.
"""

from __future__ import annotations

import gc
import mmap
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
import zlib
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import reduction
from multiprocessing.connection import Connection, wait
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fuzz.campaign.status import Changed, WorkerStatus
from fuzz.checks import protocol
from oracle.errors import DeviceLostError, InfrastructureError, UsageError, WarpfuzzError
from runners.allocation import keep_memory
from runners.processes import (
    ONE_THREAD,
    NoAnswerError,
    SupervisedChild,
    helper,
    helper_environment,
)
from runners.protocol import ClosedAtTheEnd, Trouble

_END_SECONDS = 8.0  # before workers that were told to end are killed: they give themselves less
_START_SECONDS = 120.0  # until a worker is ready: a device may take 60 s for its self-check
_DEATHS_AT_START = 3  # in a row, before it is ready; then a worker is not started again
_KILLS_AT_START = 20  # of these from outside, by a person or for want of memory
SHOWN_STALLED_SECONDS = 30.0
"""Silence after which a worker is shown as stalled: longer than a batch takes that goes well."""
_WORKERS_OF_AN_EXAMINER = 4
"""With 16 workers on an H200 of 16 cores, 50 s: one for every 2 gave 248 programs a second and 27
lines, one for every 4 gave 261 and 26, both 18 by the 20th second (2026-11-29). They have as much
of the processor as workers: with niceness 5, 55 findings waited (2026-11-29)."""


def pickled(check: protocol.Check) -> bytes:
    """Return a check as bytes.

    Raises UsageError if it, or the runner that it names, cannot be made again in another process.
    """
    try:
        data = pickle.dumps(check)
        if b"\x8c\x08__main__" in data:
            raise AttributeError("it is defined in the script that was started")
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise _not_made_again(error) from None
    return zlib.compress(data, 1)


def unpickled(data: bytes) -> protocol.Check:
    """Return a check that was sent. Raises UsageError if what it names is not there."""
    try:
        check: protocol.Check = pickle.loads(zlib.decompress(data))
    except (ImportError, AttributeError) as error:
        raise _not_made_again(error) from None
    return check


def _not_made_again(why: Exception) -> UsageError:
    return UsageError(
        f"the runner cannot be made again in a worker process ({why!s:.300}); let RunnerChoice."
        "maker be a function of a module that PYTHONPATH leads to, not of a script or of another "
        "function"
    )


@dataclass(frozen=True, kw_only=True)
class RoundEnd:
    """A job is done."""

    job: protocol.Job
    report: protocol.Report


@dataclass(frozen=True, kw_only=True)
class Lost:
    """A job is not done, because its worker is gone."""

    job: protocol.Job
    how: str  # it ended, as the end of a sentence
    guilty: bool  # whether the job may have to do with it


@dataclass(frozen=True, kw_only=True)
class Broken:
    """A worker cannot go on; it ends after this."""

    cause: type[WarpfuzzError]  # DeviceLostError, UsageError or InfrastructureError
    message: str

    @classmethod
    def of(cls, error: WarpfuzzError) -> Broken:
        """Return what an exception ends a worker with."""
        kinds = (DeviceLostError, UsageError)
        cause = next((one for one in kinds if isinstance(error, one)), InfrastructureError)
        return cls(cause=cause, message=str(error))

    def error(self) -> WarpfuzzError:
        """Return the exception that it met."""
        return self.cause(self.message)


Event = protocol.Facts | RoundEnd | Lost | Broken | protocol.Found | Changed
"""Facts: somebody is ready. Broken: somebody cannot go on, and no other takes the place. Found: two
devices disagree about an image of a round that both carried out."""


class WorkerPool(ClosedAtTheEnd):
    """Those who carry out a campaign's jobs: processes of this machine, or actors of a cluster."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self.remarks: dict[str, None] = {}
        """Sentences about those who differ, or cannot take part: each once."""

    def facts(self) -> protocol.Facts:
        """Wait until somebody is ready; return what they say of their runner.

        Raises UsageError, DeviceLostError or InfrastructureError if somebody cannot open a runner;
        with several devices, if nobody can.
        """
        earlier: list[Event] = []
        while True:
            for event in self.poll(1.0):
                earlier.append(event)
                if isinstance(event, protocol.Facts):
                    self._events = earlier + self._events
                    return event
                lost = isinstance(event, Broken) and event.cause is DeviceLostError
                if isinstance(event, Broken) and not (lost and self.workers):
                    raise event.error()

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many carry out rounds, those that are starting included."""

    @abstractmethod
    def places_for_rounds(self) -> int:
        """Return how many more rounds can be given."""

    @abstractmethod
    def places_for_examinations(self, waiting: int = 1, *, everybody: bool) -> int:
        """Return how many more examinations can be given, where so many are `waiting`.

        To `everybody`, or to examiners alone.
        """

    @abstractmethod
    def give(self, job: protocol.Job) -> None:
        """Give a job to somebody who has a place for it."""

    @abstractmethod
    def poll(self, seconds: float) -> list[Event]:
        """Wait until something happens, but not longer than this; return it."""

    @abstractmethod
    def interrupt(self) -> None:
        """Ask for rounds to come to an end where they are."""

    @abstractmethod
    def statuses(self) -> Sequence[WorkerStatus]:
        """Describe everybody."""


STAGES = tuple(protocol.Stage)
_ROW = np.dtype(
    [("written", "f8"), ("stage", "i8"), ("round", "i8"), ("cases", "i8"), ("spent", "f8", 7)]
)
"""When it was written, in seconds of time.monotonic (which on Linux is one clock for all processes;
0 before the first sign of life), number of the stage, round, cases, and the seconds that each of
the stages took so far."""
_FLAG_BYTES = 8


class Heartbeats(NamedTuple):
    """Memory that the coordinator and all workers share."""

    descriptor: int  # of its file; who made it closes it
    flag: NDArray[np.uint8]  # whose first byte is 1 when workers are to come to an end
    rows: NDArray[np.void]  # one of each worker


def shared_heartbeats(count: int, descriptor: int | None = None) -> Heartbeats:
    """Return the memory of so many workers, in the file of a descriptor or in a new one."""
    size = _FLAG_BYTES + count * _ROW.itemsize
    if descriptor is None:
        with tempfile.TemporaryFile() as file:
            file.truncate(size)
            descriptor = os.dup(file.fileno())
    memory = np.frombuffer(mmap.mmap(descriptor, size), np.uint8)
    return Heartbeats(descriptor, memory[:_FLAG_BYTES], memory[_FLAG_BYTES:].view(_ROW))


class WorkerHeartbeat:
    """A worker's side of its row."""

    def __init__(self, heartbeats: Heartbeats, row: int) -> None:
        self._flag = heartbeats.flag
        # A worker that takes the place of one that was killed goes on with its figures.
        self._row = heartbeats.rows[row : row + 1]
        self._stage, self._at = STAGES.index(protocol.Stage.WAIT), time.monotonic()
        self._row["round"] = -1
        self.beat()

    @property
    def interrupted(self) -> bool:
        """Whether to come to an end with what is being done."""
        return bool(self._flag[0])

    def enter(self, stage: protocol.Stage, *, round: int | None = None) -> None:  # noqa: A002
        """Say that a stage begins; the one before it has ended."""
        self.beat()
        self._stage = STAGES.index(stage)
        if round is not None:
            self._row["round"] = round
        self.beat()

    def count(self, cases: int) -> None:
        """Add cases that were compared."""
        self._row["cases"] += cases

    def beat(self) -> None:
        """Give a sign of life."""
        now = time.monotonic()
        self._row["spent"][0, self._stage] += now - self._at
        self._row["stage"], self._row["written"], self._at = self._stage, now, now


@dataclass(kw_only=True, eq=False)
class _Member:
    """A worker process, and what it does."""

    child: SupervisedChild
    row: int
    device: int
    given: float  # when it was started, or given its job, on the clock of time.monotonic
    job: protocol.Job | None = None
    facts: protocol.Facts | None = None


class ProcessPool(WorkerPool):
    """Worker processes on this machine.

    `workers` of them carry out rounds; one more examines findings, from the first finding on, and
    one more for every `_WORKERS_OF_AN_EXAMINER` of them, if so many findings wait. The numbers of
    the `devices` are dealt out to them in turn.
    """

    def __init__(
        self, check: protocol.Check, *, workers: int, devices: Sequence[int] = (0,)
    ) -> None:
        super().__init__()
        self._check, self._devices, self._pickled = check, devices, pickled(check)
        rows = workers + 1 + workers // _WORKERS_OF_AN_EXAMINER
        self._rounds, self._examiners = range(workers), range(workers, rows)
        self._heartbeats = shared_heartbeats(rows)
        self._closed = False
        self._members: dict[int, _Member] = {}
        self._deaths = [0] * rows  # times in a row that this worker died before it was ready
        try:
            for row in self._rounds:
                self._start(row)
        except BaseException:
            self.close()
            raise

    @property
    def workers(self) -> int:
        return sum(row in self._rounds for row in self._members)

    def _start(self, row: int) -> None:
        device, given = self._devices[row % len(self._devices)], time.monotonic()
        try:
            child = SupervisedChild(
                helper("fuzz.campaign.pool"), str(len(self._heartbeats.rows)), str(row),
                environment={**helper_environment(), **ONE_THREAD},
            )  # fmt: skip
        except OSError as error:
            raise InfrastructureError(
                f"no worker process can be started ({error}); ask for fewer with --workers, or "
                "end other programs"
            ) from error
        child.send((self._pickled, device), descriptor=self._heartbeats.descriptor)
        self._members[row] = _Member(child=child, row=row, device=device, given=given)

    def _free(self, rows: Sequence[int]) -> list[_Member]:
        members = (self._members.get(row) for row in rows)
        return [member for member in members if member and member.facts and member.job is None]

    def places_for_rounds(self) -> int:
        return len(self._free(self._rounds))

    def places_for_examinations(self, waiting: int = 1, *, everybody: bool) -> int:
        """Return how many examiners are idle, and idle workers if everybody may be asked.

        For those that find none idle examiners are started.
        """
        if everybody:
            return len(self._free(range(self._examiners.stop)))
        free = len(self._free(self._examiners))
        there = [self._members.get(row) for row in self._examiners]
        coming = free + sum(one is not None and one.facts is None for one in there)
        absent = [row for row in self._examiners if not (row in self._members or self._deaths[row])]
        for row in absent[: max(0, waiting - coming)]:
            self._start(row)
        return free

    def give(self, job: protocol.Job) -> None:
        """Give a job to an idle worker; examinations to an examiner if one is idle."""
        everybody = range(self._examiners.stop - 1, -1, -1)
        member = self._free(self._rounds if isinstance(job, protocol.RoundJob) else everybody)[0]
        member.job, member.given = job, time.monotonic()
        member.child.send(job)

    def poll(self, seconds: float) -> list[Event]:
        """Listen to the workers; replace those that are gone or silent for too long."""
        if not self._events:
            members: dict[Any, _Member] = {one.child: one for one in self._members.values()}
            for child in wait(members, seconds):
                self._hear(members[child])
            self._end_stalled()
        events, self._events = self._events, []
        return events

    def _hear(self, member: _Member) -> None:
        try:
            message = member.child.receive(deadline=time.monotonic())
        except NoAnswerError as error:
            said = error.log.strip().splitlines()
            killed = error.how.endswith("SIGKILL") and error.trouble is Trouble.CRASH
            how = f"{error.how} ({said[-1][:400]})" if said else error.how
            self._bury(member, how, killed=killed)
            return
        if isinstance(message, protocol.Facts):
            member.facts = message
            self._deaths[member.row] = 0
            self._events.append(message)
        elif isinstance(message, Broken):
            self._end(member, message.message, guilty=False)
            self._deaths[member.row] = _DEATHS_AT_START
            if len(self._devices) > 1:
                self.remarks[f"left out: GPU {member.device}: {message.message}"] = None
            self._events.append(message)
        elif member.job is not None:
            self._events.append(RoundEnd(job=member.job, report=message))
            member.job = None

    def _end(self, member: _Member, how: str, *, guilty: bool) -> None:
        del self._members[member.row]
        member.child.end(_END_SECONDS)
        if member.job is not None:
            self._events.append(Lost(job=member.job, how=how, guilty=guilty))

    def _bury(self, member: _Member, how: str, *, killed: bool = False) -> None:
        """Put another worker in the place of one that is gone; `killed` from outside."""
        row = member.row
        self._end(member, how, guilty=True)
        self._deaths[row] += member.facts is None
        if self._deaths[row] < (_KILLS_AT_START if killed else _DEATHS_AT_START):
            self._start(row)
            return
        message = f"worker processes cannot be kept alive: the last one {how}"
        self._events.append(Broken(cause=InfrastructureError, message=message))

    def _silence(self, member: _Member) -> float:
        """Return for how long a worker that has something to do gave no sign of life, in s."""
        if member.facts is not None and member.job is None:
            return 0.0
        heard = max(float(self._heartbeats.rows["written"][member.row]), member.given)
        return time.monotonic() - heard

    def _end_stalled(self) -> None:
        for member in list(self._members.values()):
            silence, patience = self._silence(member), self._check.patience
            if silence > (patience if member.facts else max(patience, _START_SECONDS)):
                stage = STAGES[self._heartbeats.rows["stage"][member.row]]
                self._bury(member, f"gave no sign of life for {silence:.0f} s, at {stage}")

    def interrupt(self) -> None:
        self._heartbeats.flag[0] = 1

    def statuses(self) -> Sequence[WorkerStatus]:
        return [
            self._status(member, self._heartbeats.rows[row])
            for row, member in self._members.items()
        ]

    def _status(self, member: _Member, row: Any) -> WorkerStatus:
        device = member.facts.device if member.facts else "starting"
        silence, spent = self._silence(member), row["spent"].tolist()
        total = sum(spent) or 1.0
        return WorkerStatus(
            number=member.row,
            device=f"{member.device}: {device}" if len(self._devices) > 1 else device,
            round=int(row["round"]),
            stage=STAGES[row["stage"]] if member.facts else protocol.Stage.WAIT,
            seconds=silence,
            cases=int(row["cases"]),
            stalled=silence > min(SHOWN_STALLED_SECONDS, self._check.patience),
            shares={stage: own / total for stage, own in zip(STAGES, spent, strict=True)},
            examiner=member.row in self._examiners,
        )

    def close(self) -> None:
        """End all workers: in order if they are idle, else by force after a moment."""
        if self._closed:
            return
        self._closed = True
        deadline = time.monotonic() + _END_SECONDS
        for member in self._members.values():
            member.child.process.terminate()
        for member in self._members.values():
            member.child.end(max(0.01, deadline - time.monotonic()))
        self._members.clear()
        os.close(self._heartbeats.descriptor)


_GARBAGE = 100_000
"""New objects after which a worker looks for cycles: with Python's own 700 that is an eighth of the
time of drawing programs (2026-11). They take some 20 MB."""
_HEALTH_SECONDS = 10.0  # between two looks at the device's temperature, clock and error counters


def carry_out(check: protocol.OpenCheck, job: protocol.Job) -> protocol.Report:
    """Carry out a job of any sort; a finding that cannot be examined is left as it is."""
    if isinstance(job, protocol.RoundJob):
        return check.round(job)
    try:
        return check.examine(job)
    except (DeviceLostError, InfrastructureError, OSError, MemoryError):
        raise
    except Exception:
        # A corpus is open to everybody, and the finding may have been pruned; or warpfuzz has a
        # defect, of which its log tells.
        traceback.print_exc()
        return protocol.Found(bucket=job.bucket, state=protocol.FoundState.LEFT)


def serve(line: Connection[Any, Any], rows: int, row: int) -> None:
    """Carry out jobs until the coordinator hangs up, or something ends this worker's work."""
    # The coordinator is gone: there is nobody to tell.
    with suppress(EOFError, ConnectionError):
        data, device = line.recv()
        heartbeat = WorkerHeartbeat(shared_heartbeats(rows, reduction.recv_handle(line)), row)
        asked = -_HEALTH_SECONDS
        try:
            with unpickled(data).on(device).opened(heartbeat) as check:
                gc.freeze()
                gc.set_threshold(_GARBAGE, *gc.get_threshold()[1:])
                line.send(check.facts)
                while True:
                    report = carry_out(check, line.recv())
                    if isinstance(report, protocol.RoundReport):
                        report.device = device
                        if time.monotonic() - asked >= _HEALTH_SECONDS and not report.lost:
                            asked, report.health = time.monotonic(), check.health()
                    line.send(report)
                    if report.lost:
                        raise DeviceLostError(report.lost)
        except WarpfuzzError as error:
            line.send(Broken.of(error))


def _end(number: int, frame: FrameType | None) -> None:
    """End in order: what is open is closed on the way out."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


def main(arguments: list[str]) -> None:
    """Serve the coordinator on a socket."""
    descriptor, rows, row = map(int, arguments)
    # An interrupt from the terminal goes to every process; the coordinator says what is to be done.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    keep_memory()
    serve(Connection(descriptor), rows, row)


if __name__ == "__main__":
    # What it sends has to have names that the coordinator knows.
    import_module("fuzz.campaign.pool").main(sys.argv[1:])
