"""What a campaign tells those who watch it: one immutable snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from fuzz.campaign.progress import FamilyState


class Stage(StrEnum):
    """What a worker does; its time is the sum of these."""

    DRAW = "draw"
    """Drawing programs and emitting their PTX."""
    COMPILE = "compile"
    EXPAND = "expand"
    """Filling images."""
    ORACLE = "oracle"
    """Computing what must come out."""
    RUN = "run"
    """Waiting for the runner."""
    COMPARE = "compare"
    WAIT = "wait"
    """Waiting for the next round."""


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
    """Images that it has compared."""
    stalled: bool
    """Whether it has not been heard of for longer than any batch may take."""
    shares: Mapping[Stage, float]
    """Fraction of its time that each stage took, 0 to 1."""
    examiner: bool = False
    """Whether it replays and shrinks findings, and carries out no rounds."""


@dataclass(frozen=True, kw_only=True)
class DeviceStatus:
    """One device, as its management library tells; empty values where it does not."""

    name: str
    uuid: str = ""
    temperature: int | None = None
    """Degrees Celsius."""
    sm_clock: int | None = None
    """Megahertz."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """Error counters by name, such as ECC errors."""


@dataclass(frozen=True, kw_only=True)
class CoverageLine:
    """One dimension of what was reached."""

    name: str
    """Such as "forms", "stride classes", "value classes"."""
    reached: int
    total: int
    missing: Sequence[str] = ()
    """Some of what was not reached."""


@dataclass(frozen=True, kw_only=True)
class CampaignStatus:
    """A campaign at one moment."""

    subject: str
    """What is judged, in words."""
    target: str
    ptx_version: str
    seed: int
    seconds: float
    """Since the campaign began, over all resumptions, in seconds."""
    seconds_limit: float | None
    cases: int
    """Images drawn."""
    cases_limit: int | None
    compared: int
    """Whole images compared."""
    missing: int
    """Images without a result."""
    programs: int
    """Programs that were compiled."""
    uncompiled: int
    rounds: int
    recent_rate: float
    """Images a second over the last seconds."""
    seconds_since_new: float
    """Since something new was found or reached, in seconds."""
    workers: Sequence[WorkerStatus]
    devices: Sequence[DeviceStatus]
    coverage: Sequence[CoverageLine]
    families: Sequence[FamilyState]
    """One line each."""
    examining: int
    """Findings that wait to be confirmed and shrunk."""
    stopped: str
    """Why the campaign ended; empty while it goes on."""
