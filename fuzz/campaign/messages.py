"""What a worker process tells the coordinator beside its reports: that it is ready, or gives up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from fuzz.checks.protocol import Facts, Report
from oracle.errors import DeviceLostError, InfrastructureError, UsageError, WarpfuzzError

SHOWN_STALLED_SECONDS = 30.0
"""Silence after which a worker is shown as stalled: longer than a batch takes that goes well."""


class Blame(StrEnum):
    """Which of the project's exceptions a worker met."""

    USAGE = "usage"
    INFRASTRUCTURE = "infrastructure"
    DEVICE_LOST = "device lost"

    @classmethod
    def of(cls, error: WarpfuzzError) -> Blame:
        """Return what an exception is."""
        if isinstance(error, DeviceLostError):
            return cls.DEVICE_LOST
        return cls.USAGE if isinstance(error, UsageError) else cls.INFRASTRUCTURE


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


Message = Facts | Report | Broken
"""What a worker sends: Facts once, at its start."""
