"""What the coordinator and its workers tell each other: jobs, and reports of what came of them.

Small data only: a finding travels as the files that the corpus keeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from corpus import Case, Family, Kind
from fuzz.campaign.coverage import Coverage
from fuzz.campaign.progress import UndefinedCounts
from fuzz.campaign.status import DeviceStatus
from fuzz.checks.program_draws import Speed
from fuzz.runner import OpenRunner, RunnerChoice
from oracle.errors import DeviceLostError, InfrastructureError, UsageError, WarpfuzzError
from strategies.features import Focus

STALL_SECONDS = {"sim": 300.0, "cuda": 900.0}
"""By runner: how long a worker may stay silent before it is killed, in seconds. A PTX pass may
take 60 s for a module, and the simulated device runs a batch within a few seconds. On a GPU one
batch may take 10 s, and bringing the device back after it four starts of 60 s and a module that
takes 120 s to load (the deadlines of `runners`)."""
SHOWN_STALLED_SECONDS = 30.0
"""Silence after which a worker is shown as stalled: longer than a batch takes that goes well."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A campaign as its workers know it."""

    choice: RunnerChoice
    seed: int
    pattern: str = "*"
    """Which forms it is about, as `instruction_rounds.Selection` takes it."""
    images: int | None = None
    """Images of each program; None: what the number of the round says."""
    undefined: bool = False
    """Whether programs that the ISA leaves undefined are run, too."""
    smallest: bool = False
    """Whether every program is the smallest one of its form, as for measuring speed."""
    stall_seconds: float | None = None
    """Silence after which a worker is killed; None: STALL_SECONDS of the runner."""

    @property
    def speed(self) -> Speed:
        """How fast images are run."""
        return Speed.INTERPRETED if self.choice.name == "sim" else Speed.NATIVE

    @property
    def patience(self) -> float:
        """Seconds of silence after which a worker is killed."""
        if self.stall_seconds is not None:
            return self.stall_seconds
        return STALL_SECONDS[self.choice.name]


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a worker says of the runner that it has opened."""

    target: str
    ptx_version: str
    version: str
    device: str

    @classmethod
    def of(cls, ready: OpenRunner) -> Facts:
        """Return what is to be said of a runner."""
        return cls(
            target=ready.target,
            ptx_version=ready.ptx_version,
            version=ready.version,
            device=ready.device,
        )


@dataclass(frozen=True, kw_only=True)
class RoundJob:
    """Run a round, or the rest of one."""

    number: int
    focuses: tuple[Focus, ...]
    """What each program should be about."""
    count: int
    """Images of each program."""
    skip: int = 0
    """Cases of it that were committed before, from its start."""
    limit: int | None = None
    """Cases after which to stop; None: the whole round."""
    settled: frozenset[str] = frozenset()
    """Keys of families of which no further case is needed."""

    @property
    def size(self) -> int:
        """Most cases that it has."""
        whole = len(self.focuses) * self.count - self.skip
        return whole if self.limit is None else min(whole, self.limit)


@dataclass(frozen=True, kw_only=True)
class ConfirmJob:
    """Replay a finding that was stored raw."""

    corpus: Path
    id: str
    family: Family
    """The family that it stands for."""


@dataclass(frozen=True, kw_only=True)
class ShrinkJob:
    """Make a confirmed finding smaller."""

    corpus: Path
    id: str
    family: Family
    """The family that it stands for."""
    seconds: float
    """Time for it."""


Job = RoundJob | ConfirmJob | ShrinkJob


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A finding as the corpus takes it."""

    case: Case
    files: Mapping[str, bytes]


@dataclass(kw_only=True)
class Suspect:
    """What differs in a round, by family; not replayed yet."""

    family: Family
    kind: Kind
    cases: int
    stored: Stored | None
    """The first of them; None where the family is settled."""


@dataclass(kw_only=True)
class RoundReport:
    """What came of a round, or of the part of it that was done."""

    number: int
    skip: int
    """Cases that were left out at its start."""
    complete: bool = False
    """Whether it was done to its end."""
    cases: int = 0
    judged: int = 0
    missing: int = 0
    compiled: int = 0
    uncompiled: int = 0
    refusal: str = ""
    """What the last program that was not compiled failed with."""
    by_kind: Counter[Kind] = field(default_factory=Counter)
    reached: set[str] = field(default_factory=set)
    """Opcodes of the forms that programs were about."""
    coverage: Coverage = field(default_factory=Coverage)
    suspects: dict[str, Suspect] = field(default_factory=dict)
    """By the key of the family, in the order in which they came up."""
    undefined: UndefinedCounts = field(default_factory=Counter)
    """Undefined programs that were run after it."""
    lost: str = ""
    """How the device was lost; empty while it is there."""
    device: int = 0
    """Number of the device."""
    health: DeviceStatus | None = None
    """What the device said of itself, now and then."""


@dataclass(frozen=True, kw_only=True)
class Examined:
    """What replaying or shrinking a finding gave."""

    id: str
    """Of the finding that was to be examined."""
    kind: Kind
    """What it is now called."""
    family: Family
    stored: Stored
    lost: str = ""
    """How the device was lost over it; empty while it is there."""


@dataclass(frozen=True, kw_only=True)
class NotExamined:
    """A finding could not be examined: somebody has removed it, or it broke."""

    id: str
    lost: str = ""
    """As of other reports: empty, the device is there."""


class Blame(StrEnum):
    """Which of the project's exceptions a worker met."""

    USAGE = "usage"
    INFRASTRUCTURE = "infrastructure"
    DEVICE_LOST = "device lost"


@dataclass(frozen=True, kw_only=True)
class Broken:
    """A worker cannot go on; it ends after this."""

    blame: Blame
    message: str

    def error(self) -> WarpfuzzError:
        """Return the exception that it met."""
        return _ERRORS[self.blame](self.message)


_ERRORS: Mapping[Blame, type[WarpfuzzError]] = {
    Blame.USAGE: UsageError,
    Blame.INFRASTRUCTURE: InfrastructureError,
    Blame.DEVICE_LOST: DeviceLostError,
}


Message = Facts | RoundReport | Examined | NotExamined | Broken
"""What a worker sends: Facts once, at its start."""
