"""The status of a campaign and of a fleet's nodes, in memory and as read from files."""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct, field

from corpus import durable
from fuzz.campaign import store
from fuzz.campaign.store import Count, HostRecord, State
from fuzz.checks import protocol
from fuzz.findings.families import FamilyState, finding_groups, finding_rows, stored_id
from fuzz.findings.verdicts import Basis
from fuzz.output import counted, duration, harmless
from oracle.errors import InfrastructureError, UsageError
from strategies.rounds import CoverageLine

NODE_DIGITS = (
    8  # digits of a node's id that are shown; two of 1,000 share them once in 9,000 clusters
)
_SILENT_SECONDS = 60.0
"""Since figures were written, then a campaign is taken for dead: they come every 10 s."""
_SUMMARY_BYTES = 256 << 20  # most of a summary: as of a state, whose families it lists
_TAIL_BYTES = 1 << 20  # at the end of the statistics that are read: 2,000 lines of 0.5 KB
Seconds = Annotated[float, Meta(ge=0, le=1e10)]
Event = Mapping[str, str | int]  # a node or an actor of a fleet that went or came, as a JSON object


# Nodes and actors of a fleet


NODE, ACTOR = "node", "actor"
THERE, JOINED, GONE, BACK = "was there from the start", "joined", "is gone", "is back"


class Changed(NamedTuple):
    """A node or an actor went, or came."""

    part: str  # NODE or ACTOR
    change: str  # THERE, JOINED or GONE
    host: str
    node: str = ""  # its id in its cluster: several may be on one host
    place: str = ""  # where an actor is on its host, such as "GPU 3"
    why: str = ""
    actors: int = 0  # that went with a node
    complete: bool = False  # whether there are as many actors as there should be


def event_words(event: Event) -> tuple[str, str]:
    """Return when a fleet changed, in UTC, and how."""
    when, text = (harmless(str(event.get(name, "")), one_line=True) for name in ("time", "text"))
    return when.replace("T", " ").removesuffix("+00:00"), text


def event_line(event: Event) -> str:
    """Return the same as a line."""
    return " UTC: ".join(event_words(event))


class HostStatus(HostRecord, kw_only=True, forbid_unknown_fields=False):
    """A host of a fleet: what is missing now, and what was lost and came back over all resumptions.

    Hosts are told apart by their names: several nodes may be on one.
    """

    host: str
    nodes: int = 0
    nodes_missing: int = 0  # that went, and have not come back
    actors_missing: int = 0
    gone: dict[str, str] = field(default_factory=dict)
    """By the ids of its nodes that are missing: when they went, in UTC (ISO 8601)."""


def fleet_row(hosts: Sequence[HostStatus]) -> dict[str, int]:
    """Return what all hosts come to, as a JSON object; empty without a fleet."""
    names = [name for name in HostStatus.__struct_fields__ if name not in ("host", "gone")]
    return {name: sum(getattr(one, name) for one in hosts) for name in names if hosts}


def missing_words(hosts: Sequence[HostStatus]) -> str:
    """Return what is missing, and where."""
    row = fleet_row(hosts)
    counts = {name: row.get(f"{name}s_missing", 0) for name in ("node", "actor")}
    where = ", ".join(one.host for one in hosts if one.nodes_missing or one.actors_missing)
    what = " and ".join(counted(count, name) for name, count in counts.items() if count)
    return (
        f"{what} {'is' if sum(counts.values()) == 1 else 'are'} missing ({where})" if what else ""
    )


def fleet_words(figures: Mapping[str, int]) -> str:
    """Return what was lost and came back, from a `fleet_row`; empty where nothing was lost."""
    return "; ".join(
        f"{counted(figures[f'{name}s_lost'], name)} lost, {figures[f'{name}s_back']:,} back"
        for name in ("node", "actor")
        if figures.get(f"{name}s_lost")
    )


class Hosts:
    """Counts nodes and actors of a fleet that go and come back, in hosts and events of a state."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._nodes: Counter[str] = Counter()
        self._missing: Counter[tuple[str, str]] = Counter()
        self._gone: defaultdict[str, dict[str, datetime]] = defaultdict(dict)
        """By host and id: when nodes went that are missing, the first first."""
        self.count = 0

    def hear(self, changed: Changed) -> None:
        """Count a change; what came is back if its host misses one."""
        part, change, host, node, *_ = changed
        gone, now = self._gone[host], datetime.now(UTC)
        more, words = dict[str, str | int](), ""
        if part == NODE:
            self._nodes[host] = max(0, self._nodes[host] + (-1 if change == GONE else 1))
        if part == NODE and change == GONE:
            gone[node], more["actors"] = now, changed.actors
            words = f", and {counted(changed.actors, 'actor')} with it"
        elif change != GONE and self._missing[host, part]:
            change = BACK
            if part == NODE and gone:
                # A node that is started again has another id: it stands for the first that went.
                before = node if node in gone else next(iter(gone))
                seconds = (now - gone.pop(before)).total_seconds()
                more = {"before": before, "seconds": round(seconds)}
                words = f" in place of {before[:NODE_DIGITS]}" * (before != node)
                words += f" after {duration(seconds)}"
        self._count(changed._replace(change=change), words, more)
        for (other, kind), count in list(self._missing.items()) if changed.complete else ():
            # No actor of a node that lives is missed any more.
            if kind == ACTOR and not self._missing[other, NODE]:
                for _ in range(count):
                    self._count(
                        Changed(ACTOR, BACK, other, why="another host has its place"), "", {}
                    )

    def _count(self, changed: Changed, words: str, more: Mapping[str, str | int]) -> None:
        part, change, host, node, place, why, *_ = changed
        record = self._state.hosts.setdefault(host, HostRecord())
        if change == THERE:
            return
        if change in (GONE, BACK):
            self._missing[host, part] += 1 if change == GONE else -1
            name = f"{part}s_{'lost' if change == GONE else 'back'}"
            setattr(record, name, getattr(record, name) + 1)
        there = f"{host} {place}".strip() + f" ({node[:NODE_DIGITS]})" * bool(node)
        said = f"{part} {'on ' * (part == ACTOR)}{there} {change}{words}{f': {why}' if why else ''}"
        event: dict[str, str | int] = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"), "part": part,
            "change": change, "host": host, "node": node, "place": place, "why": why,
            "text": said, **more,
        }  # fmt: skip
        self.count += 1
        self._state.events.append(event)
        del self._state.events[: -store.MOST_EVENTS]

    def statuses(self) -> Sequence[HostStatus]:
        """Return the hosts in the order of their names."""
        return [
            HostStatus(
                host=host,
                nodes=self._nodes[host],
                nodes_missing=self._missing[host, NODE],
                actors_missing=self._missing[host, ACTOR],
                gone={
                    node: when.isoformat(timespec="seconds")
                    for node, when in self._gone[host].items()
                },
                **msgspec.structs.asdict(record),
            )
            for host, record in sorted(self._state.hosts.items())
        ]


# A campaign


@dataclass(frozen=True, kw_only=True)
class WorkerStatus:
    """One worker process."""

    number: int
    device: str
    round: int  # that it works on; -1 before its first
    stage: protocol.Stage
    seconds: float  # since it was last heard of
    cases: int  # that it has compared
    stalled: bool  # whether it has not been heard of for longer than any batch may take
    shares: Mapping[protocol.Stage, float]  # fraction of its time that each stage took, 0 to 1
    examiner: bool = False  # whether it replays and shrinks findings, and carries out no rounds
    host: str = ""


class FoundRow(Struct, kw_only=True):
    """A family of findings, as a summary lists it."""

    verdict: str
    title: str
    known: bool = False
    family: str = ""


class CampaignStatus(Struct, frozen=True, kw_only=True):
    """A campaign at one moment, in memory or as its files tell of it.

    What `_SUMMARY` and `_STATISTICS` name is written, under the names given here; its cases are
    told apart as in `RoundReport`.
    """

    words: protocol.CheckWords
    seed: int
    seconds: Seconds  # since the campaign began, over all resumptions
    cases: Count  # that are committed: compared, only answered, or not asked
    rounds: Count
    stopped: str  # why the campaign ended; empty while it goes on
    compared: Count = 0
    answered: Count = field(default=0, name="accepted_or_rejected")
    failed: Count = 0
    unasked: Count = field(default=0, name="not_asked")
    counts: protocol.Counts = field(default_factory=protocol.Counts)
    seconds_limit: float | None = None
    cases_limit: int | None = None
    skipped: Mapping[int, str] = field(default_factory=dict, name="skipped_rounds")
    recent_rate: float = field(default=0.0, name="rate")  # cases a second over the last seconds
    seconds_since_new: Seconds = 0.0  # found or reached
    forms: int = 0  # documented ones that are selected
    forms_reached: int = 0  # selected ones that at least one case was about
    workers: Sequence[WorkerStatus] = field(default=(), name="processes")
    carrying_out: Count = field(default=0, name="workers")  # rounds; they examine no findings
    stalled: Count = 0
    devices: Sequence[protocol.DeviceStatus] = ()
    coverage: Sequence[CoverageLine] = ()
    families: Sequence[FamilyState] = field(default=(), name="states")
    rows: list[FoundRow] = field(default_factory=list, name="findings")
    """Families as a file lists them; a campaign in memory has `families`."""
    waiting: Count = field(default=0, name="examining")
    """Suspects and findings that wait to be replayed or shrunk, or are being so."""
    gone: Count = field(default=0, name="unconfirmed")
    """Cases that differed once and did not when they were replayed."""
    suspects: Sequence[FamilyState] = ()
    """Suspects that were not replayed yet: no findings, and no count of families has them."""
    unreplayed: Count = 0  # how many these are, those of one cause once
    unstored: int = 0  # families that look like many that wait, of which no case was stored
    shrinking: Sequence[FamilyState] = ()
    """Families of which a case was replayed and is being made smaller: named after it."""
    finishing: bool = False
    """Whether no new round begins, and what was found is replayed and made smaller."""
    said: str = ""  # of the last program that did not compile or run; empty where all did
    untested: str | None = None
    """Which planted faults applied to no program, half a sentence; None where each did."""
    left_out: Sequence[str] = ()  # sentences about what was asked for and cannot be
    remarks: Sequence[str] = ()
    """Sentences about hosts and GPUs: which differ, and which cannot take part."""
    held: int = 0
    """Rounds that were carried out and wait for an earlier one: no figure has them yet."""
    hosts: Sequence[HostStatus] = ()
    events: Sequence[Event] = ()  # the latest over all resumptions
    event_count: int = 0  # since this process began
    summary: Mapping[str, Any] = field(default_factory=dict)  # of this check alone


Observer = Callable[[CampaignStatus], object]
"""Who is told a campaign's present status, such as a console."""


def unexplained(status: CampaignStatus) -> list[FamilyState]:
    """Return the families that nobody has explained yet."""
    return [family for family in status.families if family.known is None]


def rows_of_causes(status: CampaignStatus, *, known: bool) -> list[FoundRow]:
    """Return what a file lists that is known, or not: the first family of each cause."""
    rows = [row for row in status.rows if row.known is known]
    return list({row.family or row.title: row for row in reversed(rows)}.values())[::-1]


def uncompared_words(status: CampaignStatus) -> str:
    """Say why a campaign says nothing of what it judges; empty if it compared something."""
    if status.compared or unexplained(status) or not status.words.nothing_compared:
        return ""
    if status.rounds or status.cases or status.skipped or status.said:
        last = f"; the last message was: {status.said}" if status.said else ""
        return f"nothing was compared: {status.words.nothing_compared}{last}"
    why = "no round was finished in the time; give it longer (--time)"
    if status.stopped == "stopped on request":
        why = "it was stopped before a round was finished"
    elif status.stopped not in ("", "budget spent"):
        why = status.stopped
    return f"nothing was compared: {why}"


def untested_words(faults: Collection[str], programs: int) -> str:
    """Say that planted faults applied to none of so many programs; empty without such faults."""
    listed = ", ".join(f"--fault {name}" for name in sorted(faults))
    applied = f"applied to 0 of {counted(programs, 'program')}, so not tested"
    return f"{applied}: {listed}" if listed else ""


def check_tested(untested: str | None) -> None:
    """Raise InfrastructureError if there are such words: without findings, they are the result."""
    if untested:
        raise InfrastructureError(
            f"{untested}; `warpfuzz faults` says what each fault changes: select instructions of "
            "that kind, or give it longer"
        )


def stage_shares(workers: Sequence[WorkerStatus]) -> dict[protocol.Stage, float]:
    """Return the fraction of their time that each stage took those who carry out rounds, 0 to 1."""
    rounds = [worker for worker in workers if not worker.examiner]
    return {
        stage: sum(one.shares.get(stage, 0.0) for one in rounds) / max(1, len(rounds))
        for stage in protocol.Stage
    }


def held_words(status: CampaignStatus) -> str:
    """Say how many rounds wait for one that takes long; "" while that is how they come in."""
    if status.held <= status.carrying_out:
        return ""
    return f"{counted(status.held, 'more round')} to be counted when a slower one is done"


# What is written, and read again


TOLD_APART = ("compared", "accepted_or_rejected", "failed", "not_asked")
"""Cases that were compared, only accepted or rejected, failed, and not asked."""
_BOTH = ("cases", *TOLD_APART, "rounds")
"""What a summary and a line of statistics have as in the status; then what one of them has."""
_SUMMARY = (
    *("seconds", "seed", "stopped", "unreplayed", "unconfirmed", "untested", "left_out"),
    *("remarks", "skipped_rounds"),
)
_STATISTICS = (
    *("held", "rate", "workers", "stalled", "examining", "finishing"),
    "seconds_since_new",
)
_READ = frozenset((*_BOTH, *_SUMMARY, *_STATISTICS, "devices", "findings"))
_READINGS = ("name", "uuid", "host", "temperature", "sm_clock", "busy", "power", "errors")
"""What statistics keep of a device."""
_FIELDS = {one.encode_name: one for one in msgspec.structs.fields(CampaignStatus)}


def figures(status: CampaignStatus, names: Iterable[str]) -> dict[str, Any]:
    """Return fields by the names under which they are written, floats in thousandths."""
    row = {name: getattr(status, _FIELDS[name].name) for name in names}
    return {name: round(one, 3) if isinstance(one, float) else one for name, one in row.items()}


def _both(status: CampaignStatus, **more_of_fleet: object) -> dict[str, Any]:
    row = {**figures(status, _BOTH), **protocol.nested(status.counts)}
    if status.hosts:
        row["fleet"] = {**fleet_row(status.hosts), "hosts": status.hosts, **more_of_fleet}
    return row


def statistics(status: CampaignStatus) -> dict[str, Any]:
    """Return a line of the statistics."""
    shares = stage_shares(status.workers) if status.workers else {}
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(status.seconds, 1),
        **_both(status),
        **figures(status, _STATISTICS),
        "stages": {stage.value: round(share, 4) for stage, share in shares.items()},
        "families": len(finding_groups(status.families)),
        "reached": {line.name: line.reached for line in status.coverage},
        "devices": [
            {name: getattr(device, name) for name in _READINGS}
            for device in status.devices
            if device.uuid or device.temperature is not None
        ],
    }


def summary(status: CampaignStatus) -> dict[str, Any]:
    """Return what a campaign did so far, as the last JSON object of `warpfuzz run` says it."""
    return {
        **status.summary,
        **_both(status, events=list(status.events)),
        **figures(status, _SUMMARY),
        "forms": {"reached": status.forms_reached, "documented": status.forms},
        "suspects": [
            {
                "id": stored_id(one.shown),
                "looks_like": one.title,
                "cases": one.kinds.total(),
                "kinds": {kind.value: count for kind, count in one.kinds.items()},
                "ids": one.ids,
            }
            for one in finding_groups(status.suspects)
        ],
        "findings": finding_rows(status.families),
    }


class Life(StrEnum):
    """What a campaign is doing."""

    RUNNING = "running"
    ENDED = "ended"
    SILENT = "silent"  # not ended, and writes nothing: it was killed, or its host is gone


class StatusLine(Struct, kw_only=True):
    """What a line of statistics has that is shown over time."""

    seconds: Seconds = 0.0
    cases: Count = 0
    families: Count = 0
    rate: float = 0.0  # cases a second


@dataclass(frozen=True, kw_only=True)
class Figures:
    """A campaign as its files tell of it."""

    corpus: Path
    life: Life
    silence: float  # seconds since figures were written last
    status: CampaignStatus
    rows: Mapping[str, Any]
    """The summary and the newest line of statistics as they are, JSON objects."""


def read_figures(corpus: Path) -> Figures:
    """Return the status that the campaign of a corpus has written.

    Raises UsageError if there is no campaign, and InfrastructureError if its files cannot be read.
    """
    path = corpus / store.FOLDER / store.SUMMARY
    if not os.path.lexists(path):
        begun = ", or it began this second" if store.holds_campaign(corpus) else ""
        raise UsageError(
            "no campaign has written its status in "
            f"{corpus}{begun}; give the folder that `warpfuzz run --corpus FOLDER` was given"
        )
    with durable.explained("read", path):
        silence = max(0.0, time.time() - path.lstat().st_mtime)
        data = durable.read_plain(path, most=_SUMMARY_BYTES)
    rows: dict[str, Any] = {}
    try:
        rows["summary"] = msgspec.json.decode(data)["summary"]
        if lines := _last_lines(corpus):
            rows["statistics"] = msgspec.json.decode(lines[-1])
        status = _status_of(rows["summary"], rows.get("statistics", {}))
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise InfrastructureError(
            f"{path} cannot be used: {error!s:.300}; it is written anew while a campaign runs"
        ) from None
    life = Life.SILENT if silence > _SILENT_SECONDS else Life.RUNNING
    life = Life.ENDED if status.stopped else life
    return Figures(corpus=corpus, life=life, silence=silence, status=status, rows=rows)


def _status_of(summary: Mapping[str, Any], line: Mapping[str, Any]) -> CampaignStatus:
    """Return what a summary and a line of statistics say; ValueError or TypeError if nothing."""
    row = {name: one for name, one in {**line, **summary}.items() if name in _READ}
    fleet = summary.get("fleet") or {}
    row |= {name: fleet[name] for name in ("hosts", "events") if name in fleet}
    where = f"shard {shard}" if (shard := summary.get("shard")) else ""
    words = {"subject": summary.get("device", ""), "where": where, "unasked": Basis.NOT_ASKED.value}
    row["words"] = dict.fromkeys(("case", "agreement", "nothing_compared"), "case") | words
    values = {
        _FIELDS[name].name: msgspec.convert(value, _FIELDS[name].type, str_keys=True)
        for name, value in row.items()
    }
    counts = protocol.flattened({protocol.REFERENCE: summary.get(protocol.REFERENCE) or {}})
    return CampaignStatus(**values, counts=counts)


def read_statistics(corpus: Path) -> list[StatusLine]:
    """Return the lines of statistics of the last hours of a campaign; none if it left none."""
    return [line for line in map(_line, _last_lines(corpus)) if line is not None]


def _last_lines(corpus: Path) -> list[bytes]:
    """Return the last lines of the statistics; a cut one is left out."""
    path = corpus / store.FOLDER / store.STATISTICS
    if not os.path.lexists(path):
        return []
    with durable.explained("read", path), os.fdopen(durable.open_plain(path), "rb") as file:
        size = file.seek(0, os.SEEK_END)
        start = file.seek(max(0, size - _TAIL_BYTES))
        lines = file.read(_TAIL_BYTES).split(b"\n")
    # What is behind the last end of a line is being written; what begins it may be cut.
    whole = lines[1 if start else 0 : -1]
    while whole and _line(whole[-1]) is None:
        whole.pop()
    return whole


def _line(data: bytes) -> StatusLine | None:
    try:
        return msgspec.json.decode(data, type=StatusLine)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
