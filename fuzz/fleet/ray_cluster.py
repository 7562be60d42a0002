"""A Ray cluster: where the actors of a fleet are placed, and how they are called."""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
from ray import cloudpickle
from ray._private import worker
from ray.exceptions import RayError

from fuzz.fleet.host import ActorGoneError, Handle
from fuzz.runner import cores
from oracle.errors import InfrastructureError

_MOST_CORES = 8
"""Most cores of an actor without a GPU: few messages for many cores, and room beside others."""
_SHOWN = 400  # characters of what Ray says of an error that are shown
_ANSWER_SECONDS = 10.0  # in which an address has to answer
_LOOK_SECONDS = 2.0  # in which a head has to answer that answered before: nobody hears news then
_SILENT_SECONDS = 30.0
"""How long a head may be silent, such as while it is started anew: as long is left to end the
campaign in order before Ray ends this process."""


class RayCluster:
    """A Ray cluster that this process is connected to, by an address as `--fleet` takes it.

    With `gpus` an actor has a GPU, else cores alone; `workers` are the processes of each, None: its
    share of the cores of a node. There are at most `most` actors, or as many as there is room for.
    `host` makes what an actor holds, from the name of its place and the id of its node. Raises
    InfrastructureError if there is no cluster, or it cannot be joined.
    """

    def __init__(
        self,
        address: str,
        *,
        gpus: bool,
        workers: int | None = None,
        most: int | None = None,
        host: Callable[..., Any],
    ) -> None:
        self._gpus, self._most = gpus, most
        self._ours = not ray.is_initialized()
        if self._ours:
            _join(address)
        self._head, self._silent = "", 0.0  # since when it has not answered; 0 while it does
        if not ray.util.client.ray.is_connected():  # Ray's client has a server in its place
            self._head = ray.get_runtime_context().gcs_address
        self._known: list[dict[str, Any]] = []  # nodes, as the head told of them last
        try:
            # The share of an actor on the node that has fewest cores, for a GPU.
            rows = [node["Resources"] for node in self._nodes()]
            counts = [int(row.get("CPU", 0)) for row in rows]
            share = min([_MOST_CORES, *filter(None, counts)])
            if gpus:
                own = [int(row.get("CPU", 0) // row["GPU"]) for row in rows
                       if row.get("GPU", 0) >= 1]  # fmt: skip
                share = max(1, min(own, default=1))
            self.cores = share if workers is None else workers + gpus
            # On a GPU one core is left for it.
            self.workers = max(1, self.cores - gpus)
        except BaseException:
            self.close()
            raise

        here, pickled = str(Path.cwd()), cloudpickle.dumps(host)

        class Actor:
            def __init__(self) -> None:
                # Ray puts the driver's current folder before what is installed (2.60), and a
                # package there may have the name of one of warpfuzz's.
                if not Path(here, "fuzz", "fleet", "ray_cluster.py").is_file():
                    sys.path[:] = [path for path in sys.path if path != here]
                numbers = ray.get_gpu_ids()
                self._host = cloudpickle.loads(pickled)(
                    place=f"GPU {numbers[0]}" if numbers else "",
                    node=ray.get_runtime_context().get_node_id(),
                )

            def call(self, method: str, *arguments: object) -> object:
                return getattr(self._host, method)(*arguments)

        # An actor that dies is not restarted by Ray: the driver gives its rounds to others first.
        self._actor = ray.remote(Actor).options(
            num_cpus=self.cores, num_gpus=int(gpus), max_restarts=0, max_task_retries=0
        )

    def answers(self) -> bool:
        """Tell whether the head answers; InfrastructureError if it has not for too long.

        Ray would wait for it, and end this process with 1 after 60 s (2.60).
        """
        host, _, port = self._head.rpartition(":")
        try:
            if host:
                socket.create_connection((host.strip("[]"), int(port)), _LOOK_SECONDS).close()
        except OSError as error:
            self._silent = self._silent or time.monotonic()
            if time.monotonic() - self._silent > _SILENT_SECONDS:
                why = f"has not answered for {_SILENT_SECONDS:.0f} s: {error.strerror or error}"
                raise _gone(f"its head, {self._head}, {why}") from None
            return False
        self._silent = 0.0
        return True

    def _nodes(self) -> list[dict[str, Any]]:
        if self.answers():
            try:
                self._known = list(ray.nodes())
            except RayError as error:
                raise _gone(error) from error
        return [node for node in self._known if node["Alive"]]

    def _room(self, node: Mapping[str, Any]) -> int:
        row = node["Resources"]
        room = int(row.get("CPU", 0) // self.cores)
        return min(room, int(row.get("GPU", 0))) if self._gpus else room

    def places(self) -> int:
        """Return how many actors there is room for, on all nodes that live."""
        places = sum(map(self._room, self._nodes()))
        return places if self._most is None else min(places, self._most)

    def hosts(self) -> Mapping[str, str]:
        """Return the names of the hosts of all nodes that live and have a place, by their ids."""
        nodes = [node for node in self._nodes() if self._room(node)]
        return {node["NodeID"]: node["NodeManagerHostname"] for node in nodes}

    def why_gone(self, node: str) -> str:
        """Return what is known of why a node is gone; empty where nothing is."""
        gone = [one for one in self._known if one["NodeID"] == node]
        return _said(next((one.get("DeathReasonMessage") or "" for one in gone), ""))

    def start(self) -> Handle:
        """Ask for an actor; it waits for a place where there is none."""
        return self._actor.remote()

    def call(self, actor: Handle, method: str, *arguments: object) -> Any:
        """Call a method of an actor; return what will be the answer."""
        return actor.call.remote(method, *arguments)

    def wait(self, calls: Sequence[Any], seconds: float) -> Sequence[Any]:
        """Wait until a call has ended, but not longer than this; return all that have."""
        if not calls:
            time.sleep(min(seconds, 0.05))
            return []
        try:
            ready, rest = ray.wait(list(calls), num_returns=1, timeout=seconds)
            if ready and rest:
                ready += ray.wait(rest, num_returns=len(rest), timeout=0)[0]
        except RayError as error:
            raise _gone(error) from error
        return list(ready)

    def result(self, call: Any) -> Any:
        """Return what a call gave. Raises ActorGoneError if the actor is gone."""
        try:
            return ray.get(call)
        except RayError as error:
            died = "its node has died" in str(error)
            raise ActorGoneError("its node died" if died else _said(error)) from error

    def kill(self, actor: Handle) -> None:
        """End an actor; nothing happens where it is gone."""
        ray.kill(actor)

    def close(self) -> None:
        """Leave the cluster; one that was started for this process ends."""
        if self._ours:
            ray.shutdown()


def _join(address: str) -> None:
    # A cluster that is started here tells nobody that it is used.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Its workers have the priority of a campaign without a fleet; Ray would give them niceness 15
    # (2.60), which is meant for the other tenants of a cluster that is there.
    os.environ.setdefault("RAY_worker_niceness", "0")
    # Ray prints of nodes that die and has no option against it (2.60); its log files say the same.
    worker.print_to_stdstream = lambda *_, **__: None
    try:
        host, _, port = address.removeprefix("ray://").rpartition(":")
        if host and port.isdecimal():
            # Ray asks again and again for minutes where nobody answers.
            socket.create_connection((host, int(port)), _ANSWER_SECONDS).close()
        # Ray (2.60) counts what the machine or a container has, whatever `taskset` or Slurm leaves.
        bound = cores() if address == "local" and cores() < (os.cpu_count() or 1) else None
        with warnings.catch_warnings():
            # Its client warns of what it then raises.
            warnings.simplefilter("ignore")
            ray.init(
                address=address, num_cpus=bound, log_to_driver=False, logging_level=logging.ERROR
            )
    except (RayError, ConnectionError, RuntimeError, ValueError, OSError, ImportError) as error:
        raise InfrastructureError(
            f"--fleet {address} cannot be joined ({_said(error)}); `ray status` says whether a "
            "cluster is there, one that asks for a token wants RAY_AUTH_MODE=token and the "
            "RAY_AUTH_TOKEN that `ray get-auth-token` prints on its head, and `--fleet local` "
            "starts one on this machine alone"
        ) from error


def _gone(error: Exception | str) -> InfrastructureError:
    return InfrastructureError(
        f"the Ray cluster is gone ({_said(error)}); what was found is kept, and --resume goes on, "
        "with another cluster as well"
    )


def _said(error: Exception | str) -> str:
    # Without what Ray (2.60) says of an actor before it says why the actor is gone.
    text = re.sub(r"(?m)^\s*(class_name|actor_id|pid|name|namespace|ip):.*$", "", str(error))
    return " ".join(text.split())[:_SHOWN]
