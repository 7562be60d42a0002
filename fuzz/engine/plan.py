"""What every process of a campaign has to know."""

from __future__ import annotations

from dataclasses import dataclass

from fuzz.runner_choice import OpenRunner, RunnerChoice
from fuzz.value_rounds import Speed

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
