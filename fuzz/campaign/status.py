"""A campaign at one moment, as those who watch it, its statistics and its report are told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from fuzz.campaign.hosts import HostStatus, fleet_row
from fuzz.checks.protocol import (
    FAULTS,
    Counts,
    DeviceStatus,
    ScreeningReport,
    Stage,
    Words,
    nested,
)
from fuzz.findings.families import FamilyState, finding_groups, finding_rows
from fuzz.output import counted
from strategies.coverage import CoverageLine


@dataclass(frozen=True, kw_only=True)
class WorkerStatus:
    """One worker process."""

    number: int
    device: str
    """What it runs programs on."""
    round: int
    """The round that it works on; -1 before its first."""
    stage: Stage
    seconds: float
    """Since it was last heard of, in seconds."""
    cases: int
    """Cases that it has compared."""
    stalled: bool
    """Whether it has not been heard of for longer than any batch may take."""
    shares: Mapping[Stage, float]
    """Fraction of its time that each stage took, 0 to 1."""
    examiner: bool = False
    """Whether it replays and shrinks findings, and carries out no rounds."""
    host: str = ""
    """The name of its host, where there are several."""


@dataclass(frozen=True, kw_only=True)
class CampaignStatus:
    """A campaign at one moment."""

    words: Words
    """How it is told."""
    seed: int
    seconds: float
    """Since the campaign began, over all resumptions, in seconds."""
    seconds_limit: float | None
    cases: int
    """Cases that are committed: compared, only answered, or not asked."""
    cases_limit: int | None
    compared: int
    """Cases whose outcome was compared with what must come out."""
    answered: int
    """Cases that were only accepted or rejected."""
    unasked: int
    """Cases that could not be asked."""
    counts: Counts
    """Counters of the check."""
    rounds: int
    skipped: Mapping[int, str]
    """Rounds that nobody could run, and why."""
    recent_rate: float
    """Cases a second over the last seconds."""
    rates: Sequence[float]
    """The same, over equal times from the start of this process until now."""
    seconds_since_new: float
    """Since something new was found or reached, in seconds."""
    forms: int
    """Documented forms that are selected."""
    forms_reached: int
    """Those of them that some case was about."""
    workers: Sequence[WorkerStatus]
    devices: Sequence[DeviceStatus]
    coverage: Sequence[CoverageLine]
    families: Sequence[FamilyState]
    """Families of findings, each with its cases."""
    waiting: int
    """Suspects and findings that wait to be replayed or shrunk, or are being so."""
    unreplayed: int
    """Those of them that were not replayed yet."""
    gone: int
    """Cases that differed once and did not when they were replayed."""
    stopped: str
    """Why the campaign ended; empty while it goes on."""
    suspects: Sequence[FamilyState] = ()
    """Those that were not replayed yet: no findings, and in no count of families."""
    failed: int = 0
    """Cases that were not compiled, or did not run to their end, though they have to."""
    shrinking: Sequence[FamilyState] = ()
    """Families of which a case was replayed and is being made smaller: named after it."""
    turned_out: Callable[[str], str | None] = lambda key: None
    """Returns what the family of a key turned out to be (`Triage.turned_out`)."""
    finishing: bool = False
    """Whether no new round begins, and what was found is replayed and made smaller."""
    said: str = ""
    """What was said of the last program that did not compile or run; empty where all did."""
    left_out: Sequence[str] = ()
    """Sentences about what was asked for and cannot be."""
    remarks: Sequence[str] = ()
    """Sentences about hosts and GPUs: which differ, and which cannot take part."""
    hosts: Sequence[HostStatus] = ()
    """Of a fleet."""
    events: Sequence[Mapping[str, str]] = ()
    """The latest nodes and actors of a fleet that went or came, as JSON objects."""
    event_count: int = 0
    """Those since this process began."""
    notes: Sequence[Mapping[str, Any]] = ()
    """What is worth keeping and no finding, as JSON objects."""
    summary: Mapping[str, Any] = field(default_factory=dict)
    """What the summary says of this check alone."""
    screening: ScreeningReport | None = None
    """What screening in idle time has come to; None where there was none."""

    def events_since(self, count: int) -> Sequence[Mapping[str, str]]:
        """Return the events that came after so many, as far as they are kept."""
        new = min(self.event_count - count, len(self.events))
        return self.events[len(self.events) - new :]

    @property
    def findings(self) -> list[FamilyState]:
        """Families that nobody has explained yet."""
        return [family for family in self.families if family.known is None]

    @property
    def untested(self) -> str:
        """Which planted faults applied to no program, half a sentence; empty where each did."""
        names = [
            words[1] for words, count in self.counts.items() if words[0] == FAULTS and not count
        ]
        return untested_words(names, self.counts["programs", "compiled"])

    @property
    def nothing_compared(self) -> str:
        """Why the campaign says nothing of what it judges; empty if it compared something."""
        if self.compared or self.findings or not self.words.nothing_compared:
            return ""
        if not (self.rounds or self.cases or self.skipped or self.said):
            why = "the first round was not done in time; give it longer"
            if self.stopped == "stopped on request":
                why = "it was stopped before the first round was done"
            elif self.stopped not in ("", "budget spent"):
                why = self.stopped
            return f"nothing was compared: {why}"
        last = f"; what was said last: {self.said}" if self.said else ""
        return f"nothing was compared: {self.words.nothing_compared}{last}"


def untested_words(faults: Collection[str], programs: int) -> str:
    """Say that planted faults applied to none of so many programs; empty without such faults."""
    if not faults:
        return ""
    listed = ", ".join(f"--fault {name}" for name in sorted(faults))
    return f"applied to 0 of {counted(programs, 'program')}, so not tested: {listed}"


def stage_shares(workers: Sequence[WorkerStatus]) -> dict[Stage, float]:
    """Return the fraction of their time that each stage took those who carry out rounds, 0 to 1."""
    rounds = [worker for worker in workers if not worker.examiner]
    if not rounds:
        return dict.fromkeys(Stage, 0.0)
    return {
        stage: sum(worker.shares.get(stage, 0.0) for worker in rounds) / len(rounds)
        for stage in Stage
    }


def told_apart(status: CampaignStatus) -> dict[str, int]:
    """Return how many cases were compared, only accepted or rejected, failed, and not asked."""
    return {
        "compared": status.compared,
        "accepted_or_rejected": status.answered,
        "failed": status.failed,
        "not_asked": status.unasked,
    }


def screened(status: CampaignStatus) -> dict[str, Any]:
    """Return what was screened in idle time, apart from all cases; empty where nothing was."""
    screening = status.screening
    if screening is None:
        return {}
    row: dict[str, Any] = {"comparisons": screening.comparisons, "wrong": screening.wrong}
    if screening.trouble:
        row["ended"] = screening.trouble
    return {"screening": row}


def fleet(status: CampaignStatus) -> dict[str, Any]:
    """Return what nodes and actors there are, are missing, and were lost; empty without a fleet."""
    if not status.hosts:
        return {}
    return {"fleet": {**fleet_row(status.hosts), "hosts": [one.row() for one in status.hosts]}}


def statistics(status: CampaignStatus) -> dict[str, Any]:
    """Return a line of the statistics."""
    shares = stage_shares(status.workers)
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(status.seconds, 1),
        "cases": status.cases,
        **told_apart(status),
        **nested(status.counts),
        **screened(status),
        "rounds": status.rounds,
        "rate": round(status.recent_rate, 1),
        "stages": {stage.value: round(share, 4) for stage, share in shares.items()}
        if status.workers
        else {},
        "workers": sum(not worker.examiner for worker in status.workers),
        "stalled": sum(worker.stalled for worker in status.workers),
        **fleet(status),
        "families": len(finding_groups(status.families)),
        "examining": status.waiting,
        "finishing": status.finishing and not status.stopped,
        "seconds_since_new": round(status.seconds_since_new, 1),
        "reached": {line.name: line.reached for line in status.coverage},
        "devices": [
            {
                "name": device.name,
                "uuid": device.uuid,
                "host": device.host,
                "temperature": device.temperature,
                "sm_clock": device.sm_clock,
                "busy": device.busy,
                "power": device.power,
                "errors": dict(device.errors),
            }
            for device in status.devices
            if device.uuid or device.temperature is not None
        ],
    }


def summary(status: CampaignStatus) -> dict[str, Any]:
    """Return what a campaign did so far, as the last JSON object of `warpfuzz run` says it."""
    return {
        **status.summary,
        "cases": status.cases,
        **told_apart(status),
        **nested(status.counts),
        **screened(status),
        "seconds": round(status.seconds, 3),
        "seed": status.seed,
        "rounds": status.rounds,
        "skipped_rounds": dict(status.skipped),
        "forms": {"reached": status.forms_reached, "documented": status.forms},
        "left_out": list(status.left_out),
        "remarks": list(status.remarks),
        **fleet(status),
        "unreplayed": status.unreplayed,
        "suspects": [
            {"id": one.id, "looks_like": one.words, "cases": one.cases} for one in status.suspects
        ],
        "unconfirmed": status.gone,
        "stopped": status.stopped,
        "findings": finding_rows(status.families),
    }
