"""Watching a campaign of many workers: live, as lines, or as JSON; ending it by a signal."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from fuzz.campaign.status import CampaignStatus, event_line, statistics
from fuzz.campaign.store import Budget
from fuzz.console.report import dashboard, heartbeat
from fuzz.findings.families import accused, finding_groups, finding_row, group_name
from fuzz.output import HEARTBEAT_SECONDS, console, emit, harmless, is_watched

STATE_SECONDS = 10.0
"""Between two lines of state with --json: as often as a campaign writes its statistics."""
_PER_SECOND = 4
"""Redraws of a terminal."""


class Watching:
    """Somebody who is told of a campaign, within a `with` statement."""

    status: CampaignStatus | None = None
    """The newest."""

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the terminal as it was."""

    def update(self, status: CampaignStatus) -> None:
        """Take the campaign's present status; cheap enough to be called at any rate."""
        self.status = status


class LiveWatching(Watching):
    """A view that redraws itself, for a terminal."""

    def __init__(self, budget: Budget, out: Console) -> None:
        self._live = Live(
            console=out,
            get_renderable=lambda: (
                Text("starting …", style="quiet")
                if self.status is None
                else dashboard(self.status, budget)
            ),
            refresh_per_second=_PER_SECOND,
            transient=True,
            vertical_overflow="crop",
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()


class LineWatching(Watching):
    """A line now and then, and one for each new family, for a pipe or a log."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._found: set[object] = set()
        """Names of groups that had a line."""
        self._finishing = False
        self._remarks = self._events = 0
        """How many there were a line for."""
        self._last = time.monotonic()

    def update(self, status: CampaignStatus) -> None:
        """Print what is new, and how far the campaign is if the last such line is a while ago."""
        if self.status is None:
            self._say("Ctrl-C ends the campaign with its report, a second one at once")
            for left_out in status.left_out:
                self._say(f"left out: {left_out}")
        super().update(status)
        for remark in status.remarks[self._remarks :]:
            self._say(remark)
        self._remarks = len(status.remarks)
        for event in status.events_since(self._events):
            self._say(event_line(event))
        self._events = status.event_count
        for group in finding_groups(status.families):
            name, family = group_name(group.shown), group.shown
            if name not in self._found:
                self._found.add(name)
                stored = f" ({family.saved.id})" if family.saved is not None else ""
                shown = f"{accused(family.case)} (PTX ISA {family.case.ptx_version})"
                self._say(f"{group.title}{group.remark}; smallest case{stored}: {shown}")
        now = time.monotonic()
        finishing = status.finishing and bool(status.waiting)
        if now - self._last >= HEARTBEAT_SECONDS or (finishing and not self._finishing):
            self._last = now
            self._say(heartbeat(status))
        self._finishing = finishing

    def _say(self, line: str) -> None:
        self._out.print(harmless(line, one_line=True), markup=False, soft_wrap=True)


class JsonWatching(Watching):
    """One JSON object for each new family, each change of a fleet, and the state now and then."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._events = 0
        """How many there were an object for."""
        self._last = time.monotonic()

    def update(self, status: CampaignStatus) -> None:
        """Print families that are new, and the state if the last one is a while ago."""
        super().update(status)
        for family in status.families:
            if family.bucket.key not in self._told:
                self._told.add(family.bucket.key)
                emit({"finding": finding_row(family)})
        for event in status.events_since(self._events):
            emit({"event": event})
        self._events = status.event_count
        now = time.monotonic()
        if now - self._last >= STATE_SECONDS:
            self._last = now
            emit({"state": statistics(status)})


def watching(budget: Budget, *, json: bool, out: Console | None = None) -> Watching:
    """Return the one who watches as fits where the output goes: by itself to standard output."""
    if json:
        return JsonWatching()
    out = out or console()
    return LiveWatching(budget, out) if is_watched(out) else LineWatching(out)


_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ECHO_SECONDS = 0.5
"""In which a signal that comes again is the same one: timeout(1) of GNU coreutils sends it to the
process and, at once, to the group to which that belongs."""


@contextmanager
def ended_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at SIGINT, SIGTERM or SIGHUP; another one of them ends the program at once.

    A signal that is ignored, as SIGHUP under nohup, stays so. Works in the main thread alone.
    `stop` has what is in the `with` statement end soon. It is called between two steps of Python
    code of the main thread, whatever that does, so it may not wait for it.
    """
    first: list[float] = []

    def end(number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if not first:
            first.append(now)
            stop()
        elif now - first[0] > _ECHO_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    heard = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = [(number, signal.signal(number, end)) for number in heard]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
