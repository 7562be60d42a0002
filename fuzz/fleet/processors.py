"""Shares of a machine's processors: a GPU's own ones, whole cores, near it where that is known."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path


def processors_of(gpus: Sequence[str], *, root: Path = Path("/")) -> dict[str, frozenset[int]]:
    """Return the processors of each GPU of this machine: disjoint shares of those of this process.

    Where they are left to the system's scheduler, processes move away from their caches, and on
    machines with several sockets from their memory and their GPU.

    Parameters
    ----------
    gpus
        Their names in CUDA_VISIBLE_DEVICES: numbers, or UUIDs, of which it is not known here.
    root
        The folder that has /proc and /sys.

    Returns
    -------
    By GPU; empty where processes cannot be bound, or there are fewer processors than GPUs.
    """
    if not hasattr(os, "sched_setaffinity"):
        return {}
    own = os.sched_getaffinity(0)
    # The management library's order, and so Ray's, is that of the bus (nvmlDeviceGetHandleByIndex).
    buses = sorted(path.name for path in (root / "proc/driver/nvidia/gpus").glob("*"))
    near = {}
    for name in gpus:
        bus = buses[int(name)] if name.isdecimal() and int(name) < len(buses) else "none"
        near[name] = _listed(root / "sys/bus/pci/devices" / bus / "local_cpulist") & own
    threads = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    cores = {one: min(_listed(root / threads.format(one)), default=one) for one in own}
    return divided(near, cores)


def divided(
    near: Mapping[str, frozenset[int]], cores: Mapping[int, int]
) -> dict[str, frozenset[int]]:
    """Divide processors among GPUs: disjoint shares, none with less than an equal one.

    Parameters
    ----------
    near
        By GPU: the processors near it; empty where that is not known.
    cores
        By processor: the core that it is a thread of.

    Returns
    -------
    By GPU: those near it where all GPUs come to an equal share so, else any.
    """
    least = len(cores) // max(1, len(near))
    if not near or not least:
        return {}
    divisions = (
        _divided(places, cores) for places in (near, dict.fromkeys(near, frozenset(cores)))
    )
    return next(
        shares
        for shares in divisions
        if min(map(len, shares.values())) >= least
        and sum(map(len, shares.values())) == len(set(chain(*shares.values())))
    )


def _divided(
    places: Mapping[str, frozenset[int]], cores: Mapping[int, int]
) -> dict[str, frozenset[int]]:
    """Divide the same processors among those that have them."""
    shares = {}
    for name, place in places.items():
        sharers = [other for other in places if places[other] == place]
        order = sorted(place, key=lambda processor: (cores[processor], processor))
        at = sharers.index(name)
        first, end = (len(order) * part // len(sharers) for part in (at, at + 1))
        shares[name] = frozenset(order[first:end])
    return shares


def _listed(path: Path) -> frozenset[int]:
    """Return the numbers in a list of the kernel's, such as "0-3,8"; none if there is no file."""
    try:
        text = path.read_text().strip()
    except OSError:
        return frozenset()
    parts = (part.partition("-") for part in text.split(",") if part)
    return frozenset(
        number for first, _, last in parts for number in range(int(first), int(last or first) + 1)
    )
