"""What a fleet asks of where its actors are placed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

Handle = Any
"""An actor, as the cluster knows it."""
Reference = Any
"""What will be the answer to a call."""


class Cluster(Protocol):
    """Where actors are placed."""

    @property
    def workers(self) -> int:
        """Processes of each actor that carry out rounds."""
        ...

    def places(self) -> int:
        """Return how many actors there is room for, on all nodes that live."""
        ...

    def hosts(self) -> Mapping[str, str]:
        """Return the names of the hosts of all nodes that live and have a place, by their ids."""
        ...

    def start(self) -> Handle:
        """Ask for an actor; it waits for a place where there is none."""
        ...

    def call(self, actor: Handle, method: str, *arguments: object) -> Reference:
        """Call a method of an actor."""
        ...

    def wait(self, calls: Sequence[Reference], seconds: float) -> Sequence[Reference]:
        """Wait until a call has ended, but not longer than this; return all that have."""
        ...

    def result(self, call: Reference) -> Any:
        """Return what a call gave.

        Raises
        ------
        ActorGoneError
            If the actor is gone.
        """
        ...

    def kill(self, actor: Handle) -> None:
        """End an actor; nothing happens where it is gone."""
        ...

    def close(self) -> None:
        """Leave the cluster."""
        ...


class ActorGoneError(Exception):
    """An actor is gone, or could not be started; the message says why."""
