"""What the files of a campaign say of it, for those who do not run it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from corpus import durable
from corpus.durable import open_plain, read_plain
from fuzz.campaign.hosts import HostStatus
from fuzz.campaign.store import FOLDER, STATISTICS, SUMMARY, Count, holds_campaign
from fuzz.checks.protocol import DeviceStatus
from oracle.errors import InfrastructureError, UsageError

_SILENT_SECONDS = 60.0
"""Since figures were written last, after which a campaign is taken for dead: it writes them every
10 s, and another host's clock, or a file system that is shared, may be late."""
_SUMMARY_BYTES = 256 << 20
"""Most bytes of a summary: as of a state, whose families it lists."""
_TAIL_BYTES = 1 << 20
"""Bytes at the end of the statistics that are read: 2,000 lines of 0.5 KB."""
_Seconds = Annotated[float, Meta(ge=0, le=1e10)]


class Life(StrEnum):
    """What a campaign is doing."""

    RUNNING = "running"
    ENDED = "ended"
    SILENT = "silent"
    """It has not ended, and writes nothing: killed, or cut off."""


class Fleet(Struct, kw_only=True):
    """The nodes of a fleet."""

    hosts: list[HostStatus] = field(default_factory=list)


class FoundRow(Struct, kw_only=True):
    """A family of findings, as a summary lists it."""

    verdict: str
    title: str
    known: bool = False
    cases: Count = 0
    group: str = ""


class Screened(Struct, kw_only=True):
    """What was screened in idle time."""

    comparisons: Count
    wrong: Count


class Summary(Struct, kw_only=True):
    """The summary of a campaign, as far as all campaigns have it."""

    cases: Count
    seconds: _Seconds
    rounds: Count
    seed: int
    stopped: str
    compared: Count = 0
    device: str = ""
    shard: str = ""
    unreplayed: Count = 0
    screening: Screened | None = None
    device_reference: dict[str, Count | dict[str, Count | dict[str, Count]]] | None = None
    fleet: Fleet | None = None
    findings: list[FoundRow] = field(default_factory=list)

    @property
    def unknown(self) -> list[FoundRow]:
        """Findings that nobody has explained yet: the first family of each cause."""
        return self._of_causes(known=False)

    @property
    def known(self) -> list[FoundRow]:
        """The same of those that are known."""
        return self._of_causes(known=True)

    def _of_causes(self, *, known: bool) -> list[FoundRow]:
        rows = [row for row in self.findings if row.known is known]
        return list({row.group or row.title: row for row in reversed(rows)}.values())[::-1]


class _Wrapped(Struct, kw_only=True):
    summary: Summary


class Line(Struct, kw_only=True):
    """A line of statistics, as far as all campaigns have it."""

    seconds: _Seconds = 0.0
    cases: Count = 0
    families: Count = 0
    rate: float = 0.0
    """Cases a second."""
    workers: Count = 0
    stalled: Count = 0
    examining: Count = 0
    finishing: bool = False
    seconds_since_new: _Seconds = 0.0
    devices: list[DeviceStatus] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """A campaign as its files tell of it."""

    corpus: Path
    life: Life
    silence: float
    """Since figures were written last, in seconds."""
    summary: Summary
    newest: Line
    rates: Sequence[float]
    """Cases a second, every 10 s, of the last hours; the oldest first."""
    rows: Mapping[str, Any]
    """The summary and the newest line of statistics as they are, JSON objects."""


def read_figures(corpus: Path) -> Figures:
    """Return what the campaign of a corpus says of itself.

    Raises
    ------
    UsageError
        If there is no campaign.
    InfrastructureError
        If its files cannot be read.
    """
    folder = corpus / FOLDER
    path = folder / SUMMARY
    if not os.path.lexists(path):
        begun = ", or it began this second" if holds_campaign(corpus) else ""
        raise UsageError(
            f"no campaign has written figures in {corpus}{begun}; give the folder that `warpfuzz "
            "run --corpus FOLDER` was given"
        )
    with durable.explained("read", path):
        silence = max(0.0, time.time() - path.lstat().st_mtime)
        data = read_plain(path, most=_SUMMARY_BYTES)
    lines = _last_lines(folder / STATISTICS)
    figures = read_statistics(corpus)
    try:
        summary = msgspec.json.decode(data, type=_Wrapped).summary
        rows = {"summary": msgspec.json.decode(data)["summary"]}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InfrastructureError(
            f"{path} cannot be used: {error!s:.300}; it is written anew while a campaign runs"
        ) from None
    if figures:
        rows["statistics"] = msgspec.json.decode(lines[-1])
    silent = silence > _SILENT_SECONDS
    return Figures(
        corpus=corpus,
        life=Life.ENDED if summary.stopped else Life.SILENT if silent else Life.RUNNING,
        silence=silence,
        summary=summary,
        newest=figures[-1] if figures else Line(),
        rates=[line.rate for line in figures],
        rows=rows,
    )


def read_statistics(corpus: Path) -> list[Line]:
    """Return the lines of statistics of the last hours of a campaign; none if it left none."""
    lines = _last_lines(corpus / FOLDER / STATISTICS)
    return [line for line in map(_line, lines) if line is not None]


def _last_lines(path: Path) -> list[bytes]:
    """Return the last lines of a file of JSON objects; a cut one is left out."""
    if not os.path.lexists(path):
        return []
    with durable.explained("read", path), os.fdopen(open_plain(path), "rb") as file:
        size = file.seek(0, os.SEEK_END)
        start = file.seek(max(0, size - _TAIL_BYTES))
        lines = file.read(_TAIL_BYTES).split(b"\n")
    # What is behind the last end of a line is being written; what begins it may be cut.
    whole = lines[1 if start else 0 : -1]
    while whole and _line(whole[-1]) is None:
        whole.pop()
    return whole


def _line(data: bytes) -> Line | None:
    try:
        return msgspec.json.decode(data, type=Line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
