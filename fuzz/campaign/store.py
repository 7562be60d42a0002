"""The folder of a campaign in its corpus: state, statistics, summary, and a lock.

campaign/state.json        what `--resume` goes on from; replaced as a whole
campaign/statistics.jsonl  a line of figures every few seconds
campaign/summary.json      the figures of now; its time of change is a heartbeat
campaign/lock              held by the process that runs the campaign
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from corpus import Identity, Kind, durable
from corpus.durable import open_plain, read_plain
from fuzz.output import counted
from oracle.errors import InfrastructureError, UsageError
from runners.protocol import ClosedAtTheEnd
from strategies.rounds import LONGEST_EPOCH

SCHEMA = 3  # version of `state.json` that this module writes
MOST = 2**63 - 1  # the largest number that a state has
Count = Annotated[int, Meta(ge=0, le=MOST)]  # a count, in 64 bits: a state may come from anybody
_Seconds = Annotated[float, Meta(ge=0)]
MOST_EVENTS = 200  # latest changes of a fleet that a state keeps: more than anybody reads
_STATE_BYTES = 256 << 20
"""Most bytes of a state: 100,000 families, which no person would read, take half of it."""
_MOST_WHOLE = 2 * LONGEST_EPOCH  # rounds that are given at once at most
FOLDER = "campaign"
STATE, ABANDONED = "state.json", "state.abandoned.json"
STATISTICS, SUMMARY, LOCK = "statistics.jsonl", "summary.json", "lock"


_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_MOST_SECONDS = 1e12  # above a million weeks; longer times overflow what the system waits for


def parse_duration(text: str) -> float:
    """Return the seconds that a text such as "90", "10m", "1.5h" or "2w" means.

    Raises UsageError if it means no duration above zero.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw]?)", text.strip())
    if match is None or float(match[1]) == 0:
        raise UsageError(
            f"{text!r} is not a duration; write seconds, or a number with s, m, h, d or w, "
            'such as "60", "10m" or "2w"'
        )
    seconds = float(match[1]) * _SECONDS[match[2]]
    if seconds > _MOST_SECONDS:
        raise UsageError(
            f"{text!r} is longer than can be waited for; at most 1000000w can be asked"
        )
    return seconds


class FamilyRecord(Struct, kw_only=True, forbid_unknown_fields=True):
    """A family of findings, as `fuzz.findings.families.FamilyState` has it."""

    kind: Kind
    identity: Identity
    builds: str = ""
    id: str
    cases: Count
    new: bool = True
    confirmed: bool = False
    finished: bool = False


class Budget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of a campaign; whichever is reached first ends it. None: no such limit."""

    seconds: _Seconds | None = None
    cases: Count | None = None
    findings: Count | None = None  # families that nobody has explained yet
    quiet: _Seconds | None = None
    """Seconds without anything new: a family, or something reached for the first time."""

    def words(self) -> str:
        """Return the limits of time and cases, as options: "--time 60, --cases 2000"."""
        limits = (("--time", self.seconds), ("--cases", self.cases))
        return ", ".join(f"{name} {limit:.15g}" for name, limit in limits if limit is not None)

    def reason(self, seconds: float, cases: int, *, found: int = 0, quiet: float = 0.0) -> str:
        """Return which limit is reached, in words; empty if none is."""
        reached = [
            limit is not None and now >= limit
            for limit, now in (
                (self.seconds, seconds), (self.cases, cases), (self.findings, found),
                (self.quiet, quiet),
            )
        ]  # fmt: skip
        if reached[0] or reached[1]:
            return "budget spent"
        if reached[2]:
            return f"{counted(found, 'family', 'families')} found"
        return f"nothing new for {self.quiet:g} s" if reached[3] else ""


class HostRecord(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a host of a fleet has lost, and what came back."""

    nodes_lost: Count = 0
    nodes_back: Count = 0
    actors_lost: Count = 0
    actors_back: Count = 0


class State(Struct, kw_only=True, forbid_unknown_fields=True):
    """A campaign at a moment at which everything that it found is stored."""

    schema: int = SCHEMA
    options: dict[str, str | int | float | bool | list[str] | None]
    started: str
    seconds: Annotated[float, Meta(ge=0, le=1e10)] = 0.0  # it ran, over all resumptions
    limits: Budget = Budget()
    """Limits of the last run, which a resumption without limits of its own takes over."""
    ended: str = ""  # why it ended; empty while it goes on, and if it was killed
    rounds: Count = 0  # those before this one are committed
    parts: dict[Count, Count] = field(default_factory=dict)
    """Rounds from there on that were begun: cases of them that are committed."""
    whole: Annotated[list[Count], Meta(max_length=_MOST_WHOLE)] = field(default_factory=list)
    """Rounds from there on that are committed."""
    skipped: dict[Count, str] = field(default_factory=dict)
    cases: Count = 0
    compared: Count = 0
    answered: Count = 0
    failed: Count = 0
    unasked: Count = 0
    gone: Count = 0
    screened: Count = 0  # comparisons of screening in idle time
    screened_wrong: Count = 0
    counts: dict[str, Any] = field(default_factory=dict)  # `nested` counters of the check
    notes: list[dict[str, Any]] = field(default_factory=list)  # of campaigns before 2026-11-29
    coverage: dict[str, Any] = field(default_factory=dict)
    families: list[FamilyRecord] = field(default_factory=list)
    tries: dict[str, Count] = field(default_factory=dict)
    """By the key of a family: how often it was to be confirmed."""
    hosts: dict[str, HostRecord] = field(default_factory=dict)
    events: Annotated[list[dict[str, str | int]], Meta(max_length=MOST_EVENTS)] = field(
        default_factory=list
    )  # the latest nodes and actors of a fleet that went or came, as JSON objects
    turned: dict[str, str] = field(default_factory=dict)
    """From the key of a family that was not confirmed to the key of the family as which it was
    identified."""
    doomed: list[str] = field(default_factory=list)
    """Ids of findings that a resumption removes if they are there: those that were about to be
    stored and counted, and those that were about to be removed because their family was
    identified as another one."""


def decode(data: bytes) -> State:
    """Return the state that JSON describes.

    Raises ValueError if it is cut off, something else, or of another schema.
    """
    if not data.strip(b"\0"):
        raise ValueError("it is empty: what the campaign had reached since is lost")
    try:
        head = msgspec.json.decode(data)
        found = head.get("schema") if isinstance(head, dict) else None
        if isinstance(found, int) and found < SCHEMA:
            raise ValueError(f"an older warpfuzz wrote it (schema {found}; this one: {SCHEMA})")
        if found != SCHEMA:
            raise ValueError(f"its schema is {found!r:.80}, and this warpfuzz knows {SCHEMA}")
        state = msgspec.json.decode(data, type=State)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"it is not whole: {error!s:.300}") from error
    return state


def _encoded(figures: object) -> bytes:
    try:
        return msgspec.json.encode(figures)
    except UnicodeEncodeError:
        # The name of a folder need not be text, and no JSON reader takes what Python makes of it.
        return json.dumps(msgspec.to_builtins(figures), ensure_ascii=False).encode(errors="replace")


def holds_campaign(corpus: Path) -> bool:
    """Whether a corpus holds the state of a campaign, whatever can be done with it."""
    return os.path.lexists(corpus / FOLDER / STATE)


class CampaignStore(ClosedAtTheEnd):
    """The folder of a campaign, locked as long as this is open.

    Raises InfrastructureError if another process runs a campaign there, or nothing can be written.
    """

    def __init__(self, corpus: Path) -> None:
        self.folder = corpus / FOLDER
        with durable.explained("write to", self.folder):
            durable.make_folder(self.folder)
            self._lock = open_plain(self.folder / LOCK, os.O_RDWR | os.O_CREAT)
        try:
            self._take()
            with durable.explained("write to", self.folder):
                durable.sweep(self.folder)
        except BaseException:
            os.close(self._lock)
            raise

    def _take(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(self._lock, 32, 0).decode(errors="replace").strip()
            raise InfrastructureError(
                f"a campaign runs in {self.folder.parent} already"
                f"{f' (process {owner})' if owner else ''}; wait for it, end it, or give this one "
                "another folder (--corpus) and merge them later (`warpfuzz corpus merge INTO FROM`)"
            ) from None
        except OSError:
            # A file system without locks: one campaign at a time is up to the user.
            return
        # A full disk is found out, and told, by what has to be written.
        with suppress(OSError):
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)

    def close(self) -> None:
        """Release the lock."""
        os.close(self._lock)

    def load(self) -> State | None:
        """Return the state, if there is one; InfrastructureError if it cannot be used."""
        path = self.folder / STATE
        with durable.explained("read", path):
            try:
                data = read_plain(path, most=_STATE_BYTES)
            except FileNotFoundError:
                return None
        try:
            return decode(data)
        except ValueError as error:
            raise InfrastructureError(
                f"{path} cannot be used: {error}; --new in place of --resume begins another there "
                "(the findings stay)"
            ) from None

    def save(self, state: State) -> None:
        """Replace the state; killed at any moment or not written, the old one stays."""
        path = self.folder / STATE
        with durable.explained("keep the state of the campaign in", path):
            durable.replace_file(path, msgspec.json.encode(state) + b"\n", self.folder)

    def abandon(self) -> bool:
        """Put the state of a campaign aside; tell whether there was one."""
        with durable.explained("move", self.folder / STATE), suppress(FileNotFoundError):
            (self.folder / STATE).replace(self.folder / ABANDONED)
            return True
        return False

    def forget(self) -> None:
        """Remove the state, statistics and summary of a campaign."""
        with durable.explained("remove", self.folder):
            for name in (STATE, STATISTICS, SUMMARY):
                with suppress(FileNotFoundError):
                    (self.folder / name).unlink()

    def summarise(self, summary: object) -> None:
        """Replace the summary."""
        data = msgspec.json.format(_encoded(summary), indent=2) + b"\n"
        path = self.folder / SUMMARY
        with durable.explained("write", path):
            durable.replace_file(path, data, self.folder)

    def record(self, figures: object) -> None:
        """Add a line to the statistics; a line that was cut off by a kill is ended first."""
        line = _encoded(figures) + b"\n"
        path = self.folder / STATISTICS
        with (
            durable.explained("write", path),
            os.fdopen(open_plain(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "ab+") as file,
        ):
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(size - 1)
                if file.read(1) != b"\n":
                    line = b"\n" + line
            file.write(line)
