"""The figures of a campaign: for those who watch, for the statistics, and for the summary."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fuzz.campaign.progress import nested
from fuzz.campaign.status import CampaignStatus, DeviceStatus, WorkerStatus
from fuzz.console import by_severity, finding_row
from fuzz.console.dashboard import stage_shares
from fuzz.findings.groups import finding_groups

if TYPE_CHECKING:
    from fuzz.campaign.campaign import Campaign


_RECENT_SECONDS = 10.0
"""What a rate is an average over: a round on a GPU takes some seconds."""


class Figures:
    """Figures of a campaign, and how fast they change."""

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._recent: deque[tuple[float, int]] = deque()
        """(time.monotonic, images compared by all workers) of the last seconds."""
        self._lines = campaign.reached.total.lines()
        self._looked = time.monotonic()

    def _rate(self, workers: Sequence[WorkerStatus]) -> float:
        """Return the images a second that the workers compared lately."""
        now = time.monotonic()
        self._recent.append((now, sum(worker.cases for worker in workers)))
        while len(self._recent) > 2 and now - self._recent[0][0] > _RECENT_SECONDS:
            self._recent.popleft()
        (then, before), (_, cases) = self._recent[0], self._recent[-1]
        return max(0.0, (cases - before) / (now - then)) if now > then else 0.0

    def status(self) -> CampaignStatus:
        """Return the campaign as it is now."""
        campaign, progress, budget = self._campaign, self._campaign.progress, self._campaign.budget
        now = time.monotonic()
        if now - self._looked > 1.0:
            # Counting what was reached takes milliseconds.
            self._lines, self._looked = campaign.reached.total.lines(), now
        workers = campaign.crew.statuses()
        return CampaignStatus(
            subject=progress.subject,
            target=campaign.facts.target,
            ptx_version=campaign.facts.ptx_version,
            seed=progress.seed,
            seconds=now - progress.started,
            seconds_limit=budget.seconds,
            cases=progress.cases,
            cases_limit=budget.cases,
            compared=progress.judged,
            missing=progress.missing,
            programs=progress.compiled,
            uncompiled=progress.uncompiled,
            rounds=progress.rounds,
            recent_rate=self._rate(workers),
            seconds_since_new=now - campaign.newest,
            workers=workers,
            devices=campaign.devices or (DeviceStatus(name=progress.subject),),
            coverage=self._lines,
            families=campaign.triage.announced,
            examining=campaign.triage.waiting,
            stopped=progress.stopped,
        )

    def line(self) -> dict[str, object]:
        """Return a line of the statistics."""
        status = self.status()
        return {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(status.seconds, 1),
            "cases": status.cases,
            "compared": status.compared,
            "missing": status.missing,
            "programs": status.programs,
            "uncompiled": status.uncompiled,
            **_undefined(self._campaign),
            "rounds": status.rounds,
            "rate": round(status.recent_rate, 1),
            "stages": _stage_shares(status.workers),
            "workers": sum(not worker.examiner for worker in status.workers),
            "stalled": sum(worker.stalled for worker in status.workers),
            "families": len(finding_groups(self._campaign.triage.families.values())),
            "examining": status.examining,
            "seconds_since_new": round(status.seconds_since_new, 1),
            "reached": {line.name: line.reached for line in status.coverage},
            "devices": [
                {
                    "name": device.name,
                    "temperature": device.temperature,
                    "sm_clock": device.sm_clock,
                    "errors": dict(device.errors),
                }
                for device in _read_devices(status)
            ],
        }


def _read_devices(status: CampaignStatus) -> Sequence[DeviceStatus]:
    """Return the devices of which something was read."""
    return [device for device in status.devices if device.uuid or device.temperature is not None]


def _stage_shares(workers: Sequence[WorkerStatus]) -> dict[str, float]:
    """Return the mean share of the workers' time that each stage took."""
    shares = stage_shares(workers)
    return {stage.value: round(share, 4) for stage, share in shares.items() if workers}


def _undefined(campaign: Campaign) -> dict[str, object]:
    """Return what became of undefined programs; nothing unless they were asked for."""
    if not campaign.plan.undefined:
        return {}
    return {"undefined": nested(campaign.progress.undefined)}


def summary(campaign: Campaign) -> dict[str, object]:
    """Return what a campaign did so far, as the last JSON object of `warpfuzz run` says it."""
    progress, choice, facts = campaign.progress, campaign.plan.choice, campaign.facts
    return {
        "cases": progress.cases,
        "compared": progress.judged,
        "missing": progress.missing,
        "programs": {"compiled": progress.compiled, "failed": progress.uncompiled},
        **_undefined(campaign),
        "seconds": round(progress.seconds, 3),
        "seed": progress.seed,
        "rounds": progress.rounds,
        "skipped_rounds": progress.skipped_rounds,
        "forms": {"reached": len(progress.reached), "documented": progress.forms},
        "runner": choice.name,
        "device": facts.device,
        "options": choice.options,
        "target": facts.target,
        "ptx_version": facts.ptx_version,
        "verdicts": {kind.value: count for kind, count in progress.by_kind.items()},
        "stopped": progress.stopped,
        "findings": [finding_row(family) for family in by_severity(progress)],
    }
