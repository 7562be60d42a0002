"""Screening on a fleet: runs `warpfuzz screen` on each GPU, and brings the results together."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corpus import Finding, open_corpus
from fuzz.fleet.host import ActorGoneError, Begun, Cluster, Handle, PlacedActor, leave
from runners.processes import Tool, describe_status, helper, helper_environment

_NEWS_SECONDS = 1.0  # how long an actor waits for news: as often as a person looks
_END_SECONDS = 30.0  # for the end of a screening: a replay of what differed takes some seconds
_PLACE_SECONDS = 60.0  # how long a GPU may be taken by others when nothing is being screened
_FOUND_BYTES = 256 << 20
"""Most bytes of findings that one GPU sends: images of 8 programs, and what brought it down."""


@dataclass(frozen=True, kw_only=True)
class ScreenNews:
    """How far the screening of a GPU is, and what it came to."""

    line: str = ""  # what it said last, for people
    over: bool = False
    summary: Mapping[str, Any] | None = None  # as of `warpfuzz screen --json`, once it is over
    findings: Sequence[tuple[Finding, Mapping[str, bytes]]] = ()
    error: str = ""  # why it could not be screened to the end


@dataclass(kw_only=True)
class ScreenHost(PlacedActor):
    """An actor that screens its GPU: `begin`, `start`, `news` until it is over."""

    _folder: Path = field(default_factory=Path)
    _tool: Tool | None = None

    def start(self, words: Sequence[str], files: Mapping[str, bytes]) -> ScreenNews:
        """Start screening with arguments of `warpfuzz screen`; "@NAME" stands for a file."""
        folder = self._folder = Path(tempfile.mkdtemp(prefix="warpfuzz-"))
        for name, data in files.items():
            (folder / name).write_bytes(data)
        given = [str(folder / word[1:]) if word[:1] == "@" else word for word in words]
        command = ["fuzz.__main__", "screen", *given, "--json", "--corpus", str(folder / "corpus")]
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            self._tool = Tool(
                helper(*command), stdout=out, stderr=err, environment=helper_environment(),
                cwd=folder,
            )  # fmt: skip
        return ScreenNews()

    def news(self, stop: bool) -> ScreenNews:
        """Wait a moment; say how far it is, and what came of it."""
        assert self._tool is not None
        process, folder = self._tool.process, self._folder
        if stop and process.poll() is None:
            process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_NEWS_SECONDS)
        line = ((folder / "err").read_text(errors="replace").splitlines() or [""])[-1]
        code = process.poll()
        if code is None:
            return ScreenNews(line=line)
        rows = map(json.loads, (folder / "out").read_text(errors="replace").splitlines())
        corpus, found, size = folder / "corpus", [], 0
        for entry in open_corpus(corpus).entries() if corpus.is_dir() else ():
            files = entry.files()
            size += sum(map(len, files.values()))
            if size <= _FOUND_BYTES:
                found.append((entry.finding, files))
        return ScreenNews(
            line=line,
            over=True,
            summary=next((row["summary"] for row in rows if "summary" in row), None),
            findings=found,
            error="" if code in (0, 1) else line or describe_status(code),
        )

    def end(self) -> None:
        """End the process, and remove what it has written."""
        if self._tool is not None:
            self._tool.kill(grace=_NEWS_SECONDS)
            shutil.rmtree(self._folder, ignore_errors=True)


@dataclass(kw_only=True, eq=False)
class FleetDevice:
    """A GPU of a fleet, and what became of it."""

    actor: Handle
    begun: Begun | None = None
    news: ScreenNews = ScreenNews()

    @property
    def name(self) -> str:
        """The GPU and its host, as reports name them."""
        return "a GPU that others use" if self.begun is None else self.begun.name

    @property
    def rows(self) -> Iterator[dict[str, Any]]:
        """What came of it, as `warpfuzz screen --json` has devices."""
        row = {"host": self.begun.host if self.begun else "", "error": self.news.error or None}
        for told in (self.news.summary or {}).get("devices", ()):
            name = f"{self.name}: {told['device'].partition(': ')[2] or told['device']}"
            yield told | row | {"device": name, "error": told.get("error") or row["error"]}
        if self.news.summary is None:
            yield {"device": self.name, "cases": 0, "wrong": 0, "multiprocessors": []} | row


def screened(
    cluster: Cluster, words: Sequence[str], files: Mapping[str, bytes], stop: threading.Event
) -> Iterator[list[FleetDevice]]:
    """Screen every GPU that a cluster has now, as `ScreenHost.start` says; then leave it.

    Iterates once a second over how it stands, until all are done; `stop` is set by who wants the
    end.
    """
    begun, stopped = time.monotonic(), 0.0
    devices = [FleetDevice(actor=cluster.start()) for _ in range(max(1, cluster.places()))]
    try:
        calls = {cluster.call(device.actor, "begin"): device for device in devices}
        while calls:
            for call in cluster.wait(list(calls), _NEWS_SECONDS):
                device = calls.pop(call)
                following: tuple[Any, ...] = ("news", stop.is_set())
                try:
                    answer = cluster.result(call)
                except ActorGoneError as error:
                    answer = ScreenNews(over=True, error=str(error))
                if isinstance(answer, Begun):
                    device.begun, following = answer, ("start", [*words], dict(files))
                    answer = ScreenNews(over=bool(answer.refusal), error=answer.refusal)
                device.news = answer
                if not answer.over:
                    calls[cluster.call(device.actor, *following)] = device
            now = time.monotonic()
            stopped = stopped or (now if stop.is_set() else 0.0)
            waiting = [device for device in calls.values() if device.begun is None]
            late, why = list[FleetDevice](), "it was used by others all the time"
            if stopped and now - stopped > _END_SECONDS:
                late, why = [*calls.values()], "it did not end in time"
            elif stopped or (
                len(waiting) == len(calls)
                and (len(calls) < len(devices) or now - begun > _PLACE_SECONDS)
            ):
                # Those that have a place are done: nobody waits for what others use.
                late = waiting
            for device in late:
                device.news = ScreenNews(over=True, error=why)
            calls = {call: device for call, device in calls.items() if device not in late}
            yield devices
    finally:
        leave(cluster, {device.actor: device.begun for device in devices})
