"""A worker's side of the line: jobs in, reports out."""

from __future__ import annotations

from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from fuzz.device_lost import DeviceLostError
from fuzz.engine.beats import Heart
from fuzz.engine.messages import Blame, Broken
from fuzz.engine.plan import Facts, Plan
from fuzz.engine.station import Station
from fuzz.runner_choice import opened
from oracle.errors import UsageError, WarpfuzzError


def serve(line: Connection[Any, Any], heart: Heart) -> None:
    """Carry out jobs until the coordinator hangs up, or something ends this worker's work."""
    # The coordinator is gone: there is nobody to tell.
    with suppress(EOFError, ConnectionError):
        plan: Plan = line.recv()
        try:
            with opened(plan.choice) as ready, Station(ready, plan, heart) as station:
                line.send(Facts.of(ready))
                while True:
                    report = station.carry_out(line.recv())
                    line.send(report)
                    if report.lost:
                        raise DeviceLostError(report.lost)
        except WarpfuzzError as error:
            line.send(Broken(blame=_blame(error), message=str(error)))


def _blame(error: WarpfuzzError) -> Blame:
    if isinstance(error, DeviceLostError):
        return Blame.DEVICE_LOST
    return Blame.USAGE if isinstance(error, UsageError) else Blame.INFRASTRUCTURE
