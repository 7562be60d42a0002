"""What the driver of a fleet carries: milliseconds, bytes and messages of a round.

python benchmarks/fleet_driver.py [--actors 1000] [--seconds 8]

Actors answer every round at once with the report of a real one, so that all there is to be measured
is the driver: drawing what rounds are about, sending them, receiving reports, committing them in
order, and keeping the state. First without Ray (answers are pickled as Ray would, in this process),
with as many actors as asked for; then through Ray with two real actors of this machine, where the
cores are shared with them.
"""

from __future__ import annotations

import argparse
import cProfile
import pickle
import pstats
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import strategies.rounds
from corpus import create_corpus
from corpus.known import Known
from fuzz.campaign.campaign import Campaign
from fuzz.campaign.pool import WorkerHeartbeat, shared_heartbeats
from fuzz.campaign.status import CampaignStatus, WorkerStatus
from fuzz.campaign.store import Budget, CampaignStore
from fuzz.checks.programs import Programs
from fuzz.checks.protocol import Facts, RoundJob, RoundReport, Stage
from fuzz.fleet.host import Begun, Ended, News
from fuzz.fleet.pool import FleetPool
from fuzz.runner import RunnerChoice
from strategies.rounds import ProgramCoverage

CHECK = Programs(choice=RunnerChoice(name="sim", layout=1), seed=7)
FACTS = Facts(target="sm_90", ptx_version="8.0", version="1", device="a fake device")
WORKERS = 15
"""Processes of an actor: of an H200 with 16 cores."""
WARM = 256
"""Rounds before anything is measured."""


class FakeHost:
    """Answers every round at once with the same report."""

    def __init__(self, place: str = "", node: str = "") -> None:
        self._template, self._told = b"", False

    def begin(self) -> Begun:
        """Say where this is."""
        return Begun(host="a host", place="GPU 0")

    def open(self, check: bytes, workers: int) -> None:
        """Take the report that answers every round."""
        # The report of a real round travels in place of the check.
        self._template = check

    def exchange(
        self, jobs: Sequence[tuple[int, RoundJob]], interrupted: bool, seconds: float
    ) -> News:
        """Answer all rounds."""
        messages: list[Any] = [] if self._told else [FACTS]
        self._told = True
        for ticket, job in jobs:
            report = pickle.loads(self._template)
            report.number = job.number
            messages.append(Ended(ticket, report))
        progress = WorkerStatus(
            number=0, device="", round=1, stage=Stage.RUN, cases=0, seconds=0.0, stalled=False,
            shares=dict.fromkeys(Stage, 0.1),
        )  # fmt: skip
        return messages, progress, True

    def end(self) -> None:
        """Nothing is open."""


@dataclass(eq=False)
class Call:
    """What a call gave, pickled."""

    answer: tuple[bytes]


class PickledCluster:
    """Actors in this process; what goes to and fro is pickled, and counted."""

    workers = WORKERS

    def __init__(self, actors: int) -> None:
        self._actors = actors
        self.calls = self.sent = self.received = 0
        self.elsewhere = 0.0
        """Seconds that an actor's host would have spent."""

    def places(self) -> int:
        """Return how many actors there are."""
        return self._actors

    def hosts(self) -> dict[str, str]:
        """Return the one node that there is."""
        return {"node": "here"}

    def why_gone(self, node: str) -> str:
        """Return nothing: it stays."""
        return ""

    def start(self) -> FakeHost:
        """Return an actor."""
        return FakeHost()

    def call(self, actor: FakeHost, method: str, *arguments: Any) -> Call:
        """Carry out a call at once."""
        self.calls += 1
        data = pickle.dumps(arguments, 5)
        self.sent += len(data)
        begun = time.process_time()
        answer = pickle.dumps(getattr(actor, method)(*pickle.loads(data)), 5)
        self.elsewhere += time.process_time() - begun
        self.received += len(answer)
        return Call((answer,))

    def wait(self, calls: Sequence[Any], seconds: float) -> Sequence[Any]:
        """Return all calls."""
        return list(calls)

    def result(self, call: Any) -> Any:
        """Return what a call gave."""
        return pickle.loads(call.answer[0])

    def kill(self, actor: Any) -> None:
        """Nothing is killed."""

    def close(self) -> None:
        """Nothing is open."""


class Timed:
    """Ends a campaign after some seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.campaign: Campaign | None = None
        self.begun: tuple[float, float, int] | None = None
        self.ended: tuple[float, float, int] | None = None
        self.marks: Callable[[], None] = lambda: None

    def update(self, status: CampaignStatus) -> None:
        """Look at the clock."""
        now = time.perf_counter(), time.process_time(), status.rounds
        if self.begun is None and status.rounds > WARM:
            self.begun = now
            self.marks()
        elif self.begun is not None and now[0] - self.begun[0] >= self._seconds:
            self.ended = self.ended or now
            if self.campaign is not None:
                self.campaign.stop()


def template() -> bytes:
    """Return the report of a round, pickled."""
    with CHECK.opened(WorkerHeartbeat(shared_heartbeats(1), 0)) as opened_check:
        drawn = CHECK.plan(opened_check.facts).round(0, ProgramCoverage())
        report: RoundReport = opened_check.round(RoundJob(number=0, plan=drawn))
    return pickle.dumps(replace(report, suspects={}), 5)


def measured(cluster: Any, report: bytes, seconds: float) -> tuple[float, float, int]:
    """Return seconds, seconds of this process's CPU, and rounds."""
    timed = Timed(seconds)
    with tempfile.TemporaryDirectory() as folder:
        corpus = create_corpus(Path(folder) / "corpus", generator="a benchmark")
        with FleetPool(CHECK, cluster) as pool, CampaignStore(corpus.path) as store:
            pool._pickled = report
            timed.campaign = Campaign(
                pool, pool.facts(), check=CHECK, budget=Budget(), corpus=corpus,
                known=Known(entries=()), observer=timed.update, store=store,
            )  # fmt: skip
            if isinstance(cluster, PickledCluster):
                timed.marks = lambda: cluster.__dict__.update(
                    calls=0, sent=0, received=0, elsewhere=0.0
                )
            timed.campaign.run()
    assert timed.begun is not None
    assert timed.ended is not None
    wall, cpu, rounds = (b - a for a, b in zip(timed.begun, timed.ended, strict=True))
    return wall, cpu, int(rounds)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--actors", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--no-ray", action="store_true")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    # As many rounds can be given at once as late in a campaign.
    strategies.rounds.EPOCH = strategies.rounds.LONGEST_EPOCH
    report = template()
    print(f"a report has {len(report):,} bytes")
    for actors in (8, options.actors):
        cluster = PickledCluster(actors)
        profile = cProfile.Profile()
        if options.profile:
            profile.enable()
        wall, cpu, rounds = measured(cluster, report, options.seconds)
        profile.disable()
        if options.profile:
            pstats.Stats(profile, stream=sys.stdout).sort_stats("tottime").print_stats(25)
        own = cpu - cluster.elsewhere
        print(
            f"{actors} actors, no Ray: {60 * rounds / own:,.0f} rounds a minute of the driver's "
            f"CPU, {1000 * own / rounds:.2f} ms a round; {cluster.calls / rounds:.2f} exchanges, "
            f"{cluster.sent / rounds:,.0f} bytes sent, {cluster.received / rounds:,.0f} received "
            f"a round ({rounds:,} rounds in {wall:.1f} s)",
            flush=True,
        )
    if options.no_ray:
        return
    # Ray through it: where there is a token, that has to be said before Ray is imported.
    from fuzz.fleet.ray_cluster import RayCluster, ray

    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    cluster = RayCluster("local", gpus=False, workers=1, host=FakeHost)
    cluster.workers = WORKERS
    wall, cpu, rounds = measured(cluster, report, options.seconds)
    print(
        f"2 actors through Ray on this machine: {60 * rounds / wall:,.0f} rounds a minute, "
        f"{1000 * cpu / rounds:.2f} ms of the driver's CPU a round ({rounds:,} rounds)"
    )
    ray.shutdown()


if __name__ == "__main__":
    main()
