"""The place where jobs are carried out: one runner, and signs of life."""

from __future__ import annotations

import time
from typing import Self

from corpus import BrokenEntryError
from fuzz.campaign_status import DeviceStatus
from fuzz.engine.beats import Heart
from fuzz.engine.examining import Examiner
from fuzz.engine.messages import Examined, Job, NotExamined, RoundJob, RoundReport
from fuzz.engine.plan import Plan
from fuzz.engine.rounds import RoundWorker
from fuzz.engine.undefined import UndefinedWorker, has_undefined
from fuzz.runner_choice import OpenRunner
from oracle.errors import UsageError
from runners.cuda.runner import CudaRunner
from runners.protocol import Failure

_HEALTH_SECONDS = 10.0
"""Between two looks at the device's temperature, clock and error counters."""


class Station:
    """Carries out jobs of every sort.

    Parameters
    ----------
    ready
        Where programs run.
    plan
        The campaign.
    heart
        Who is told of every stage.

    Raises
    ------
    UsageError
        If nothing is selected that the target has.
    """

    def __init__(self, ready: OpenRunner, plan: Plan, heart: Heart) -> None:
        self._ready = ready
        self._asked = -_HEALTH_SECONDS
        self._rounds = RoundWorker(ready, plan, heart)
        self._undefined = (
            UndefinedWorker(ready, seed=plan.seed, pattern=plan.pattern, heart=heart)
            if plan.undefined
            else None
        )
        self._examiner = Examiner(ready, heart)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._examiner.close()
        if self._undefined is not None:
            self._undefined.close()

    def carry_out(self, job: Job) -> RoundReport | Examined | NotExamined:
        """Carry out a job.

        Raises
        ------
        WarpfuzzError
            If it cannot be carried out.
        """
        if isinstance(job, RoundJob):
            report = self._rounds.report(job)
            if self._undefined is not None and report.complete and has_undefined(job.number):
                counts = self._undefined.counts(job.number)
                # Interrupted: a resumption does all of them, and the round is not done before.
                report.complete = counts is not None
                report.undefined = counts or report.undefined
            report.device = self._ready.choice.device
            if time.monotonic() - self._asked >= _HEALTH_SECONDS and not report.lost:
                self._asked = time.monotonic()
                report.health = self._health()
            return report
        try:
            return self._examiner.examine(job)
        except (UsageError, BrokenEntryError):
            # A corpus is open to everybody: the finding may have been pruned in the meantime.
            return NotExamined(id=job.id)

    def _health(self) -> DeviceStatus | None:
        """Return what the device says of itself; None where it does not."""
        runner = self._ready.runner
        if not isinstance(runner, CudaRunner):
            return None
        facts, health = runner.facts(), runner.health()
        if isinstance(facts, Failure) or isinstance(health, Failure):
            return None
        counts = {"ECC corrected": health.ecc_corrected, "ECC uncorrected": health.ecc_uncorrected}
        return DeviceStatus(
            name=facts.name,
            uuid=facts.uuid,
            temperature=health.temperature_c,
            sm_clock=health.sm_clock_mhz,
            errors={name: count for name, count in counts.items() if count is not None},
        )
