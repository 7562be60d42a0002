"""A cluster in this process: actors whose calls are carried out when somebody waits for them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from fuzz.fleet.host import ActorGoneError


class FakeCall:
    """A call that is carried out when it is waited for."""

    def __init__(self, actor: FakeActor, method: str, arguments: tuple[object, ...]) -> None:
        self.actor, self.method, self.arguments = actor, method, arguments
        self.answer: Any = None
        self.done = False


class FakeActor:
    """An actor; `host` is None until there is a place for it."""

    def __init__(self) -> None:
        self.host: Any = None
        self.node: int | None = None
        self.gone = ""


class FakeCluster:
    """Nodes with so many places, which come and go; `make` makes what an actor holds."""

    def __init__(
        self,
        nodes: Sequence[int],
        make: Callable[[str], Any],
        workers: int = 1,
    ) -> None:
        self.nodes = dict(enumerate(nodes))
        self.workers = workers
        self._make = make
        self.actors: list[FakeActor] = []
        self.calls = 0

    def places(self) -> int:
        return sum(self.nodes.values())

    def hosts(self) -> dict[str, str]:
        return {str(node): f"node{node}" for node in self.nodes}

    def why_gone(self, node: str) -> str:
        return "it was unplugged"

    def start(self) -> FakeActor:
        actor = FakeActor()
        self.actors.append(actor)
        self._place()
        return actor

    def _place(self) -> None:
        for actor in self.actors:
            if actor.host is None and not actor.gone:
                for node, most in self.nodes.items():
                    taken = sum(one.node == node and not one.gone for one in self.actors)
                    if taken < most:
                        actor.node, actor.host = node, self._make(f"node{node}")
                        break

    def remove(self, node: int) -> None:
        """A node goes, and everything that runs on it."""
        del self.nodes[node]
        for actor in self.actors:
            if actor.node == node and not actor.gone:
                actor.gone = "its node died"

    def add(self, node: int, places: int) -> None:
        self.nodes[node] = places
        self._place()

    def call(self, actor: FakeActor, method: str, *arguments: object) -> FakeCall:
        self.calls += 1
        return FakeCall(actor, method, arguments)

    def wait(self, calls: Sequence[FakeCall], seconds: float) -> list[FakeCall]:
        ready = []
        for call in random.sample(list(calls), len(calls)):
            actor = call.actor
            if not call.done and actor.host is not None and not actor.gone:
                call.answer = getattr(actor.host, call.method)(*call.arguments)
                call.done = True
            if call.done or actor.gone:
                ready.append(call)
        return ready

    def result(self, call: FakeCall) -> Any:
        # What a node has answered is lost with it if nobody has heard it.
        if call.actor.gone:
            raise ActorGoneError(call.actor.gone)
        return call.answer

    def kill(self, actor: FakeActor) -> None:
        actor.gone = actor.gone or "killed"
        self._place()

    def close(self) -> None: ...
