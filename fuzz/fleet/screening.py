"""Screening on a fleet: runs `warpfuzz screen` on each GPU, and brings the results together."""

from __future__ import annotations

import json
import shutil
import signal
import socket
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
from fuzz.fleet.host import ActorGoneError, Begun, Cluster, Code, Handle, leave
from runners.processes import describe_status, helper, helper_environment

_NEWS_SECONDS = 1.0
"""How long an actor waits for news: as often as a person looks."""
_END_SECONDS = 30.0
"""How long a screening may take to end in order: a replay of what differed takes some seconds."""
_PLACE_SECONDS = 60.0
"""How long a GPU may be taken by others when all that is free is being screened."""
_FOUND_BYTES = 256 << 20
"""Most bytes of findings that one GPU sends: images of 8 programs, and what brought it down."""


@dataclass(frozen=True, kw_only=True)
class ScreenNews:
    """How far the screening of a GPU is."""

    line: str
    """What it said last, for people."""
    code: int | None
    """Exit status; None while it goes on."""


@dataclass(frozen=True, kw_only=True)
class Harvest:
    """What the screening of a GPU came to."""

    summary: Mapping[str, Any] | None
    """As `warpfuzz screen --json` says it; None where it said nothing."""
    findings: Sequence[tuple[Finding, Mapping[str, bytes]]]
    error: str
    """What was said last where it did not end well; else empty."""


@dataclass(kw_only=True)
class ScreenHost:
    """An actor that screens its GPU: `begin`, `start`, `news` until there is a code, `harvest`."""

    place: str = ""
    node: str = ""
    _folder: Path | None = None
    _process: subprocess.Popen[bytes] | None = None

    def begin(self) -> Begun:
        """Say where this is, and what code it has."""
        return Begun(host=socket.gethostname(), place=self.place, node=self.node, code=Code.here())

    def start(self, words: Sequence[str], files: Mapping[str, bytes]) -> None:
        """Start screening.

        Parameters
        ----------
        words
            Arguments of `warpfuzz screen`; "@NAME" stands for a file.
        files
            Contents by name.
        """
        folder = self._folder = Path(tempfile.mkdtemp(prefix="warpfuzz-"))
        for name, data in files.items():
            (folder / name).write_bytes(data)
        given = [str(folder / word[1:]) if word[:1] == "@" else word for word in words]
        command = helper(
            "fuzz.__main__", "screen", *given, "--json", "--corpus", str(folder / "corpus")
        )
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                env=helper_environment(), cwd=folder,
            )  # fmt: skip

    def news(self, stop: bool) -> ScreenNews:
        """Wait a moment; say how far it is."""
        process = self._process
        if process is None:
            return ScreenNews(line="", code=-signal.SIGKILL)
        if stop and process.poll() is None:
            process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_NEWS_SECONDS)
        return ScreenNews(line=self._said(), code=process.poll())

    def _said(self) -> str:
        if self._folder is None:
            return ""
        lines = (self._folder / "err").read_text(errors="replace").splitlines()
        return lines[-1] if lines else ""

    def harvest(self) -> Harvest:
        """Return the results."""
        if self._folder is None or self._process is None:
            return Harvest(summary=None, findings=(), error="it was not started")
        summary, found = None, []
        for line in (self._folder / "out").read_text(errors="replace").splitlines():
            row = json.loads(line)
            summary = row.get("summary", summary)
        path = self._folder / "corpus"
        if path.is_dir():
            size = 0
            for entry in open_corpus(path).entries():
                files = entry.files()
                size += sum(map(len, files.values()))
                if size <= _FOUND_BYTES:
                    found.append((entry.finding, files))
        code = self._process.returncode
        ended = code in (0, 1)
        error = "" if ended else self._said() or describe_status(code)
        return Harvest(summary=summary, findings=found, error=error)

    def end(self) -> None:
        """End the process, and remove what it has written."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_NEWS_SECONDS)
            self._process.kill()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


@dataclass(kw_only=True, eq=False)
class FleetDevice:
    """A GPU of a fleet, and what became of it."""

    actor: Handle
    begun: Begun | None = None
    line: str = ""
    step: str = "begin"
    harvest: Harvest | None = None
    error: str = ""
    """Why it could not be screened to the end."""

    @property
    def name(self) -> str:
        """The GPU and its host, as reports name them."""
        if self.begun is None:
            return "a GPU that others use"
        return self.begun.name

    @property
    def done(self) -> bool:
        """Whether nothing more comes of it."""
        return self.harvest is not None or bool(self.error)


@dataclass(kw_only=True)
class FleetScreening:
    """The screening of every GPU that a cluster has when it begins.

    Each has an actor, which keeps it until all are done, so that none is screened twice.
    """

    cluster: Cluster
    words: Sequence[str]
    """Arguments of `warpfuzz screen`, as of `ScreenHost.start`."""
    files: Mapping[str, bytes]
    devices: list[FleetDevice] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    """To be set where somebody wants the end."""

    def run(self) -> Iterator[list[FleetDevice]]:
        """Iterate once a second over how it stands, until all are done."""
        cluster = self.cluster
        for _ in range(max(1, cluster.places())):
            self.devices.append(FleetDevice(actor=cluster.start()))
        calls = {cluster.call(one.actor, "begin"): one for one in self.devices}
        begun = time.monotonic()
        stopped = 0.0
        while calls:
            for call in cluster.wait(list(calls), _NEWS_SECONDS):
                device = calls.pop(call)
                following = self._hear(device, call)
                if following is not None:
                    calls[following] = device
            now = time.monotonic()
            stopped = stopped or (now if self.stop.is_set() else 0.0)
            waiting = {call: one for call, one in calls.items() if one.begun is None}
            if waiting and (len(waiting) == len(calls) < len(self.devices) or self.stop.is_set()):
                # Those that have a place are done: nobody waits for what others use.
                self._give_up(calls, waiting, "it was used by others all the time")
            elif waiting and len(waiting) == len(calls) and now - begun > _PLACE_SECONDS:
                self._give_up(calls, waiting, "no GPU was free")
            if stopped and now - stopped > _END_SECONDS:
                self._give_up(calls, dict(calls), "it did not end in time")
            yield self.devices

    @staticmethod
    def _give_up(calls: dict[Any, FleetDevice], which: Mapping[Any, FleetDevice], why: str) -> None:
        for call, device in which.items():
            device.error = why
            del calls[call]

    def _hear(self, device: FleetDevice, call: Any) -> Any:
        """Take in an answer; return the next call, None if there is none."""
        try:
            answer = self.cluster.result(call)
        except ActorGoneError as error:
            device.error = str(error)
            return None
        if device.step == "begin":
            return self._begin(device, answer)
        if device.step == "harvest":
            device.harvest, device.error = answer, answer.error
            return None
        if device.step == "news":
            device.line = answer.line
            if answer.code is not None:
                return self._call(device, "harvest")
        return self._call(device, "news", self.stop.is_set())

    def _begin(self, device: FleetDevice, begun: Begun) -> Any:
        device.begun = begun
        here = Code.here()
        if begun.code != here:
            device.error = (
                f"{begun.host} has {begun.code}, and the driver has {here}; install the same on "
                "both"
            )
            return None
        return self._call(device, "start", list(self.words), dict(self.files))

    def _call(self, device: FleetDevice, method: str, *arguments: object) -> Any:
        device.step = method
        return self.cluster.call(device.actor, method, *arguments)

    def close(self) -> None:
        """End all actors, and leave the cluster."""
        begun = [one.actor for one in self.devices if one.begun is not None]
        leave(self.cluster, [one.actor for one in self.devices], begun, 2 * _NEWS_SECONDS)
