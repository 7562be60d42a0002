"""Images are filled where the runner reads them: not copied on the way, and not mixed up."""

import numpy as np

from fuzz.campaign.heartbeat import Heartbeats, WorkerHeartbeat
from fuzz.checks.program_rounds import ProgramRounds
from fuzz.checks.protocol import RoundJob, RoundPlan
from fuzz.checks.rounds import Work
from fuzz.runner import OpenRunner, RunnerChoice
from runners.protocol import Lender, Runner
from runners.simulated_runner import SimulatedRunner
from strategies.coverage import ProgramCoverage
from strategies.draws import Selection
from strategies.rounds import Versions, round_focuses, selected_forms

TARGET, VERSION = "sm_90", "8.0"


class LendingRunner(SimulatedRunner):
    """A simulated device with memory of its own, and garbage in it."""

    def __init__(self):
        super().__init__()
        self.lent = []
        self.submitted = []

    def lease(self, count, image_bytes):
        self.lent.append(np.full((count, image_bytes), 0xA5, np.uint8))
        return self.lent[-1]

    def submit(self, compiled, images, *, entry=None):
        self.submitted.append(images)
        return super().submit(compiled, images, entry=entry)


def carried_out(runner):
    forms = selected_forms(Selection(pattern="*"), target=TARGET, version=VERSION)
    focuses = round_focuses(forms, seed=3, number=0, reached=ProgramCoverage())
    ready = OpenRunner(
        choice=RunnerChoice(name="sim"),
        runner=runner,
        target=TARGET,
        ptx_version=VERSION,
        version="1",
        device="a simulated device",
    )
    heartbeats = Heartbeats(1)
    try:
        worker = ProgramRounds(
            ready,
            versions=Versions.only(VERSION),
            seed=3,
            selection=Selection(),
            smallest=False,
            heartbeat=WorkerHeartbeat(heartbeats, 0),
        )
        drawn = RoundPlan(work=Work(focuses=tuple(focuses), count=5), cases=60)
        return worker.report(RoundJob(number=0, plan=drawn))
    finally:
        heartbeats.close()


def test_a_round_is_filled_into_the_memory_that_the_runner_lends():
    with LendingRunner() as runner:
        report = carried_out(runner)
        assert isinstance(runner, Runner)
        assert isinstance(runner, Lender)
    assert len(runner.submitted) == len(runner.lent) == 12
    assert all(one is other for one, other in zip(runner.lent, runner.submitted, strict=True))
    assert (report.cases, report.compared, report.suspects) == (60, 60, {})
