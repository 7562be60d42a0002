"""The nodes and actors of a fleet: which went, and which came back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from fuzz.campaign.store import MOST_EVENTS, HostRecord, State
from fuzz.output import counted

_MOST_NEWS = 2_000
"""Latest events that watchers are told of: more than happen between two looks."""


class Part(StrEnum):
    """What a cluster has."""

    NODE = "node"
    ACTOR = "actor"


class Change(StrEnum):
    """What became of a part."""

    THERE = "was there from the start"
    JOINED = "joined"
    GONE = "is gone"
    BACK = "is back"


@dataclass(frozen=True, kw_only=True)
class Changed:
    """A node or an actor went, or came."""

    part: Part
    change: Change
    host: str
    place: str = ""
    """Of an actor: where on its host, such as "GPU 3"."""
    why: str = ""

    def __str__(self) -> str:
        """Return it in words."""
        where = " ".join(word for word in (self.host, self.place) if word)
        on = "on " if self.part is Part.ACTOR else ""
        return f"{self.part} {on}{where} {self.change}" + (f" ({self.why})" if self.why else "")


@dataclass(frozen=True, kw_only=True)
class HostStatus:
    """A host of a fleet: what is missing now, and what was lost and came back over all resumptions.

    Hosts are told apart by their names: several nodes may be on one.
    """

    host: str
    nodes: int
    """That are there."""
    nodes_missing: int
    """That went, and have not come back."""
    actors_missing: int
    nodes_lost: int
    nodes_back: int
    actors_lost: int
    actors_back: int

    def row(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return asdict(self)


def fleet_row(hosts: Sequence[HostStatus]) -> dict[str, int]:
    """Return what all hosts come to, as a JSON object; empty without a fleet."""
    rows = [one.row() for one in hosts]
    names = [name for name in (rows[0] if rows else {}) if name != "host"]
    return {name: sum(row[name] for row in rows) for name in names}


def missing_words(hosts: Sequence[HostStatus]) -> str:
    """Return what is missing, and where: "1 node and 2 actors are missing (host7)"."""
    nodes, actors = (
        sum(getattr(one, name) for one in hosts) for name in ("nodes_missing", "actors_missing")
    )
    parts = [counted(count, name) for count, name in ((nodes, "node"), (actors, "actor")) if count]
    if not parts:
        return ""
    where = ", ".join(one.host for one in hosts if one.nodes_missing or one.actors_missing)
    verb = "is" if nodes + actors == 1 else "are"
    return f"{' and '.join(parts)} {verb} missing ({where})"


def fleet_words(figures: Mapping[str, int]) -> str:
    """Return what was lost and came back, from a `fleet_row`; empty where nothing was lost."""
    parts = [
        f"{counted(figures[f'{name}s_lost'], name)} lost, {figures[f'{name}s_back']:,} back"
        for name in ("node", "actor")
        if figures.get(f"{name}s_lost")
    ]
    return "; ".join(parts)


@dataclass(kw_only=True)
class Hosts:
    """Hears of changes, and counts them.

    Parameters
    ----------
    state
        Of the campaign; its hosts and events are kept up to date.
    """

    state: State
    _nodes: dict[str, int] = field(default_factory=dict)
    _missing: dict[tuple[str, Part], int] = field(default_factory=dict)
    news: list[Mapping[str, str]] = field(default_factory=list)
    """The latest events of this process, as JSON objects."""
    count: int = 0
    """Events of this process."""

    def hear(self, changed: Changed) -> None:
        """Count a change."""
        host, part, change = changed.host, changed.part, changed.change
        record = self.state.hosts.setdefault(host, HostRecord())
        key = host, part
        came = change in (Change.JOINED, Change.BACK, Change.THERE)
        if part is Part.NODE:
            self._nodes[host] = max(0, self._nodes.get(host, 0) + (1 if came else -1))
        if change is Change.GONE:
            self._missing[key] = self._missing.get(key, 0) + 1
            setattr(record, f"{part}s_lost", getattr(record, f"{part}s_lost") + 1)
        elif change is Change.BACK:
            self._missing[key] = max(0, self._missing.get(key, 0) - 1)
            setattr(record, f"{part}s_back", getattr(record, f"{part}s_back") + 1)
        if change is not Change.THERE:
            event = {
                "time": datetime.now(UTC).isoformat(timespec="seconds"),
                "part": part.value, "change": change.value, "host": host, "place": changed.place,
                "why": changed.why, "text": str(changed),
            }  # fmt: skip
            self.count += 1
            self.news.append(event)
            del self.news[:-_MOST_NEWS]
            self.state.events.append(event)
            del self.state.events[:-MOST_EVENTS]

    def statuses(self) -> Sequence[HostStatus]:
        """Return the hosts in the order of their names."""
        return [
            HostStatus(
                host=host,
                nodes=self._nodes.get(host, 0),
                nodes_missing=self._missing.get((host, Part.NODE), 0),
                actors_missing=self._missing.get((host, Part.ACTOR), 0),
                nodes_lost=record.nodes_lost,
                nodes_back=record.nodes_back,
                actors_lost=record.actors_lost,
                actors_back=record.actors_back,
            )
            for host, record in sorted(self.state.hosts.items())
        ]
