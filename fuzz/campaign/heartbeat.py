"""Signs of life: a row of shared memory for each worker, which it writes and the coordinator reads.

Writing costs some microseconds and no message, so that a worker can say at every stage what it
does. The memory is a temporary file without a name; it goes away with the last process that maps
it. Beside its reports, a worker sends two messages: what it runs on, when it is ready, and why it
gives up (`Broken`).
"""

from __future__ import annotations

import mmap
import os
import tempfile
import time
from dataclasses import dataclass

import numpy as np

from fuzz.checks.protocol import DeviceStatus, Heartbeat, Stage
from fuzz.runner import OpenRunner
from oracle.errors import DeviceLostError, InfrastructureError, UsageError, WarpfuzzError
from runners.cuda.messages import DeviceHealth
from runners.cuda.runner import CudaRunner
from runners.kernels import KernelModule
from runners.protocol import (
    Compiled,
    Failure,
    ForwardingRunner,
    Images,
    Lender,
    Pending,
    Ran,
    Runner,
)

_MODULES_KEPT = 64  # of those that are not compiled again


class BeatingRunner(ForwardingRunner):
    """A runner as it is, with signs of life; one that `keeps` compiles a module once.

    Experiments and shrinking come back to the same modules: in 182 of 778 compilations (2026-11).
    """

    def __init__(self, runner: Runner, heartbeat: Heartbeat, *, keeps: bool = False) -> None:
        super().__init__(runner)
        self._heartbeat, self._keeps = heartbeat, keeps
        self.kept: dict[KernelModule, Compiled] = {}

    def compile(self, module: KernelModule) -> Compiled | Failure:
        """Translate a module, as the runner does."""
        self._heartbeat.beat()
        compiled = (self._keeps and self.kept.get(module)) or self._runner.compile(module)
        if self._keeps and module not in self.kept and isinstance(compiled, Compiled):
            if len(self.kept) >= _MODULES_KEPT:
                del self.kept[next(iter(self.kept))]
            self.kept[module] = compiled
        self._heartbeat.beat()
        return compiled

    def lease(self, count: int, image_bytes: int) -> Images:
        """Return memory to fill, uint8 (count, image_bytes), of the runner if it has any."""
        if isinstance(self._runner, Lender):
            return self._runner.lease(count, image_bytes)
        return np.empty((count, image_bytes), np.uint8)

    def submit(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Pending:
        """Start a batch, as the runner does."""
        self._heartbeat.beat()
        return self._runner.submit(compiled, images, entry=entry)

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran | Failure:
        """Run a batch and wait for it, as the runner does."""
        ran = self.submit(compiled, images, entry=entry).collect()
        self._heartbeat.beat()
        return ran


def health_of(ready: OpenRunner) -> DeviceStatus | None:
    """Return what a runner's device reports about its health; None if it reports nothing."""
    if not isinstance(ready.runner, CudaRunner):
        return None
    facts, health = ready.runner.facts(), ready.runner.health()
    if isinstance(facts, Failure) or isinstance(health, Failure):
        return None
    return device_status(facts.name, facts.uuid, health)


def device_status(name: str, uuid: str, health: DeviceHealth) -> DeviceStatus:
    """Return what the management library says of a device, in the units of a status."""
    counts = {"ECC corrected": health.ecc_corrected, "ECC uncorrected": health.ecc_uncorrected}
    power, limit = (
        None if milliwatts is None else round(milliwatts / 1000)
        for milliwatts in (health.power_mw, health.power_limit_mw)
    )
    return DeviceStatus(
        name=name,
        uuid=uuid,
        temperature=health.temperature_c,
        sm_clock=health.sm_clock_mhz,
        busy=health.busy_percent,
        power=power,
        power_limit=limit,
        memory_clock=health.memory_clock_mhz,
        throttle_reasons=health.throttle_reasons,
        errors={name: count for name, count in counts.items() if count is not None},
        note=health.note,
    )


STAGES = tuple(Stage)
_ROW = np.dtype(
    [("written", "f8"), ("stage", "i8"), ("round", "i8"), ("cases", "i8"), ("spent", "f8", 7)]
)
"""When it was written, in seconds of time.monotonic (which on Linux is one clock for all processes;
0 before the first sign of life), number of the stage, round, cases, and the seconds that each of
the stages took so far."""
_FLAG_BYTES = 8


class Heartbeats:
    """The rows of all workers, and a flag that asks them to come to an end."""

    def __init__(self, count: int, descriptor: int | None = None) -> None:
        size = _FLAG_BYTES + count * _ROW.itemsize
        if descriptor is None:
            with tempfile.TemporaryFile() as file:
                file.truncate(size)
                descriptor = os.dup(file.fileno())
        self.descriptor = descriptor
        memory = np.frombuffer(mmap.mmap(descriptor, size), np.uint8)
        self._flag, self.rows = memory[:_FLAG_BYTES], memory[_FLAG_BYTES:].view(_ROW)

    @property
    def interrupted(self) -> bool:
        """Whether workers are to come to an end with what they do."""
        return bool(self._flag[0])

    def interrupt(self) -> None:
        """Ask them to."""
        self._flag[0] = 1

    def close(self) -> None:
        """Give the descriptor up."""
        os.close(self.descriptor)


class WorkerHeartbeat:
    """A worker's side of its row."""

    def __init__(self, heartbeats: Heartbeats, row: int) -> None:
        self._heartbeats = heartbeats
        # A worker that takes the place of one that was killed goes on with its figures.
        self._row = heartbeats.rows[row : row + 1]
        self._stage, self._at = STAGES.index(Stage.WAIT), time.monotonic()
        self._row["round"] = -1
        self.beat()

    @property
    def interrupted(self) -> bool:
        """Whether to come to an end with what is being done."""
        return self._heartbeats.interrupted

    def enter(self, stage: Stage, *, round: int | None = None) -> None:  # noqa: A002
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


SHOWN_STALLED_SECONDS = 30.0
"""Silence after which a worker is shown as stalled: longer than a batch takes that goes well."""


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
