"""Screening while a campaign leaves a GPU idle, with programs that it has verified.

A thread of one worker for each GPU, with a context of its own: the GPU gives the batches of all
workers their turns between its launches, and a launch that hangs or traps costs no worker
anything. What is screened has no part in what a campaign commits from its rounds.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from fuzz.checks.protocol import Found, FoundState, RoundReport, ScreeningReport
from fuzz.findings.families import Bucket
from fuzz.runner import OpenRunner, opened
from fuzz.screening.distilling import describe, fits, set_program
from fuzz.screening.examining import ScreenExaminer
from fuzz.screening.screen import ScreenRun
from oracle.errors import WarpfuzzError
from oracle.isa.targets import Module
from strategies.coverage import Batch

_IMAGES = 128  # images of a program: several of every class of values that a recipe has
_PROGRAMS = 64  # programs that take turns; a new one takes the place of the oldest
_WAITING = 16  # programs that may wait until they are taken in; the oldest of more are dropped
_NEW_SECONDS = 2.0
"""Least time between two new programs: compiling one takes a core 42 ms (H200, 2026-11-22), which
cases do not get."""
_END_SECONDS = 3.0  # how long the last launches may take when the worker ends


class IdleScreening:
    """Screens beside a worker's rounds, if no other worker does so on its device."""

    def __init__(self, ready: OpenRunner, *, seed: int) -> None:
        self._ready, self._seed = ready, seed
        self._claim: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._end = threading.Event()
        self._verified: deque[tuple[int, Batch]] = deque(maxlen=_WAITING)
        """Programs that have yet to be taken in, and the rounds that they are from."""
        self._lock = threading.Lock()
        self._report = ScreeningReport()  # what came of it since it was last taken

    def after(self, number: int, report: RoundReport, verified: Sequence[Batch]) -> None:
        """Take in programs that a round has verified, and add to its report what was screened."""
        if self._claim is None:
            self._claim = _claim(self._ready)
            if self._claim is None:
                return
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()
        self._verified.extend((number, batch) for batch in verified if fits(batch))
        with self._lock:
            report.screening, self._report = self._report, ScreeningReport()

    def close(self) -> None:
        """End the launches that are on their way."""
        self._end.set()
        if self._thread is not None:
            self._thread.join(_END_SECONDS)
        if self._claim is not None:
            self._claim.close()

    def _work(self) -> None:
        try:
            with opened(self._ready.choice) as ready:
                self._screen(ready)
        except WarpfuzzError as error:
            with self._lock:
                self._report.trouble = str(error)

    def _screen(self, ready: OpenRunner) -> None:
        module = Module.named(self._ready.target, self._ready.ptx_version)
        screen = ScreenRun(ready, describe(module, seed=self._seed, covers={}), grows=True)
        examiner = ScreenExaminer(screen, device=f"GPU {ready.choice.device}")
        newest = -_NEW_SECONDS
        while not self._end.is_set():
            if self._verified and time.monotonic() - newest >= _NEW_SECONDS:
                newest = time.monotonic()
                self._take_in(screen, module)
            before = screen.tally.total
            screen.step()
            now = screen.tally.total
            with self._lock:
                self._report.comparisons += now.cases - before.cases
                self._report.wrong += now.wrong - before.wrong
            for found in examiner.new():
                bucket = Bucket(kind=found.case.kind, identity=found.case.identity)
                suspect = Found(
                    bucket=bucket, case=found.case, files=found.files, cases=found.wrong,
                    state=FoundState.REPLAYED,
                )  # fmt: skip
                with self._lock:
                    self._report.suspects.append(suspect)
        screen.finish()

    def _take_in(self, screen: ScreenRun, module: Module) -> None:
        number, batch = self._verified.popleft()
        program = set_program(batch, number, _IMAGES, module, target=self._ready.oracle_target)
        screen.add(replace(program, entry=f"{batch.entry}_of_round_{number}"))
        if screen.programs > _PROGRAMS:
            screen.drop()


def _claim(ready: OpenRunner) -> socket.socket | None:
    """Claim the idle time of a device for this process; None if another process has it.

    A name in Linux's abstract namespace of sockets is one process's, until that ends.
    """
    device = ready.uuid or f"{ready.device} of {os.getpid()}"
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0warpfuzz screens {device}"[:100])
    except OSError:
        claim.close()
        return None
    return claim
