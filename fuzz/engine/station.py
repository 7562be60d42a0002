"""The place where jobs are carried out: one runner, and signs of life."""

from __future__ import annotations

from fuzz.engine.beats import Heart
from fuzz.engine.examining import Examiner
from fuzz.engine.messages import Examined, Job, RoundJob, RoundReport
from fuzz.engine.plan import Plan
from fuzz.engine.rounds import RoundWorker
from fuzz.runner_choice import OpenRunner


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
        self._rounds = RoundWorker(ready, plan, heart)
        self._examiner = Examiner(ready, heart)

    def carry_out(self, job: Job) -> RoundReport | Examined:
        """Carry out a job.

        Raises
        ------
        WarpfuzzError
            If it cannot be carried out.
        """
        if isinstance(job, RoundJob):
            return self._rounds.report(job)
        return self._examiner.examine(job)
