"""Watching a campaign of many workers: live, as lines, or as JSON; ending it by a signal."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from types import FrameType
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from fuzz.campaign.campaign import Observer
from fuzz.campaign.status import (
    CampaignStatus,
    event_line,
    missing_words,
    statistics,
)
from fuzz.campaign.store import Budget
from fuzz.console.dashboard import dashboard, foot_words, pace_words
from fuzz.findings.families import (
    FamilyState,
    FindingGroup,
    accused,
    finding_groups,
    finding_row,
    group_counts,
    group_name,
)
from fuzz.kinds import sentence
from fuzz.output import HEARTBEAT_SECONDS, console, counted, duration, emit, harmless, is_watched
from oracle.errors import UsageError

STATE_SECONDS = 10.0
"""Between two lines of state with --json: as often as a campaign writes its statistics."""
_REPLAYED = 5
"""Findings that get a line before they were made smaller, too: with those of ptxas a hundred lines
came before the first that says something (2026-11-23)."""
_PER_SECOND = 4
"""Redraws of a terminal."""


class Watching:
    """Somebody who is told of a campaign, within a `with` statement."""

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the terminal as it was."""

    def update(self, status: CampaignStatus) -> None:
        """Take the campaign's present status; cheap enough to be called at any rate."""
        raise NotImplementedError


class Several:
    """Several who watch the same campaign."""

    def __init__(self, *watchers: Observer) -> None:
        self._watchers = watchers

    def update(self, status: CampaignStatus) -> None:
        """Tell all of them."""
        for watcher in self._watchers:
            watcher.update(status)


@contextmanager
def serving(address: str | None, kind: str, *given: object) -> Iterator[tuple[Any, ...]]:
    """Serve figures for Prometheus as long as this is open, if somebody wants them.

    Parameters
    ----------
    address
        As `--metrics` takes it; None: nothing is served, and nobody is given.
    kind
        The class of `fuzz.console.metrics` that has the figures, which is given.
    """
    if address is None:
        yield ()
        return
    try:
        metrics = import_module("fuzz.console.metrics")
    except ModuleNotFoundError as error:
        if error.name != "prometheus_client":
            raise
        raise UsageError(
            f"--metrics {address} needs prometheus_client, which is not installed: pip install "
            "'.[metrics]' in the clone of warpfuzz"
        ) from None
    collector = getattr(metrics, kind)(*given)
    with metrics.served(collector, address):
        yield (collector,)


class LiveWatching(Watching):
    """A view that redraws itself, for a terminal."""

    def __init__(self, budget: Budget, out: Console) -> None:
        self._budget = budget
        self._shown: RenderableType = Text("starting …", style="quiet")
        self._live = Live(
            console=out,
            get_renderable=lambda: self._shown,
            refresh_per_second=_PER_SECOND,
            transient=True,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def update(self, status: CampaignStatus) -> None:
        """Keep what the next redraw shows."""
        self._shown = dashboard(status, self._budget)


class LineWatching(Watching):
    """A line now and then, and one for each new family, for a pipe or a log."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._told: dict[object, FamilyState] = {}
        """By the name of a group: what stood for it when something was said of it last."""
        self._found: set[object] = set()
        """Names of groups that were said to be found, and not only replayed."""
        self._begun = self._finishing = False
        self._remarks = self._events = self._replayed = 0
        """How many there were a line for."""
        self._last = time.monotonic()

    def update(self, status: CampaignStatus) -> None:
        """Print what is new, and how far the campaign is if the last such line is a while ago."""
        if not self._begun:
            self._begun = True
            self._print("Ctrl-C ends the campaign with its report, a second one at once")
            for sentence in status.left_out:
                self._print(f"left out: {sentence}")
        for remark in status.remarks[self._remarks :]:
            self._print(harmless(remark, one_line=True))
        self._remarks = len(status.remarks)
        for event in status.events_since(self._events):
            self._print(event_line(event))
        self._events = status.event_count
        self._findings(status)
        now = time.monotonic()
        finishing = status.finishing and bool(status.waiting)
        if now - self._last >= HEARTBEAT_SECONDS or (finishing and not self._finishing):
            self._last = now
            self._print(heartbeat(status))
        self._finishing = finishing

    def _findings(self, status: CampaignStatus) -> None:
        """Print what is new of findings: replayed, found, named otherwise, gone."""
        groups = finding_groups(status.families)
        for group in finding_groups(status.shrinking):
            name = group_name(group.shown)
            if name not in self._told and group.known is None and self._replayed < _REPLAYED:
                self._replayed += 1
                self._told[name] = replace(group.shown)
                self._say(f"replayed, being made smaller: {group.title}{group.remark}")
                if self._replayed == _REPLAYED:
                    self._print("more findings get a line once they are made smaller")
        for group in groups:
            name, shown = group_name(group.shown), group.shown
            if name not in self._found:
                self._say(_news(group))
            # A state goes on changing.
            self._told[name] = replace(shown)
            self._found.add(name)
        there = {group_name(one) for one in (*status.families, *status.shrinking)}
        for gone in [one for one in self._told if one not in there]:
            now = status.turned_out(self._told[gone].bucket.key)
            if now is not None:
                title = sentence(self._told.pop(gone).case)
                self._found.discard(gone)
                what = f"now named {now}" if now else "did not happen again"
                self._say(f"{title}: {what}")

    def _say(self, line: str) -> None:
        self._print(harmless(line, one_line=True))

    def _print(self, line: str) -> None:
        self._out.print(line, markup=False, soft_wrap=True)


def _news(group: FindingGroup) -> str:
    family = group.shown
    stored = f" ({family.saved.id})" if family.saved is not None else ""
    shown = f"{accused(family.case)} (PTX ISA {family.case.ptx_version})"
    return f"{group.title}{group.remark}; smallest case{stored}: {shown}"


def heartbeat(status: CampaignStatus) -> str:
    """Return a campaign as one line."""
    parts = [
        f"{duration(status.seconds)}: {counted(status.cases, status.words.case)}, "
        f"{status.recent_rate:,.0f} a second",
        pace_words(status),
        _found(status),
        *foot_words(status, Budget()),
    ]
    if status.finishing:
        parts.append("finishing")
    if status.stalled:
        parts.append(
            f"{status.stalled} of {counted(len(status.workers), 'process', 'processes')} stalled"
        )
    if missing := missing_words(status.hosts):
        parts.append(harmless(missing, one_line=True))
    parts += [
        harmless(f"{device.name}: {count:,} {name}", one_line=True)
        for device in status.devices
        for name, count in device.errors.items()
        if count
    ]
    return "; ".join(parts)


def _found(status: CampaignStatus) -> str:
    unknown, known = group_counts((*status.families, *status.shrinking))
    if not unknown + known:
        return "nothing found yet" if status.waiting else "nothing found"
    words = f"{counted(unknown + known, 'family', 'families')} found"
    return f"{words}, {known:,} of them known" if known else words


class JsonWatching(Watching):
    """One JSON object for each new family, each change of a fleet, and the state now and then."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._events = 0
        """How many there were an object for."""
        self._last = time.monotonic()

    def update(self, status: CampaignStatus) -> None:
        """Print families that are new, and the state if the last one is a while ago."""
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
