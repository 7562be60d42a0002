"""Confirmation of what was found, on random images: in this process, or in many with a GPU."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.util import Finalize
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.measuring.images import random_tiles
from fuzz.measuring.units import Device
from fuzz.runner import RunnerChoice, open_runner
from oracle.forms import MmaForm
from oracle.models import Model
from oracle.multiply import multiply
from oracle.targets import Module

Array = NDArray[Any]

CHUNK = 4096
"""Images that are made, run and compared together."""
_SHOWN = 32
"""Differing dot products of a chunk that are kept, to be explained."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """Random images of one form."""

    form: MmaForm
    model: Model
    count: int
    seed: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What became of them."""

    images: int
    differing: int
    """Images in which the device returned something else than the model."""
    a: Array
    """Rows of some dot products that differ, (count, k); likewise the columns, and C and D."""
    b: Array
    c: Array
    d: Array


def confirm(task: Task, device: Device) -> Outcome:
    """Compare the device with the model on random images."""
    form = task.form
    a, b, c = random_tiles(form, task.count, task.seed)
    found = device.multiply(form, a, b, c)
    different = multiply(form, a, b, c, model=task.model) != found
    tile, row, column = (index[:_SHOWN] for index in np.nonzero(different))
    return Outcome(
        images=len(c),
        differing=int(np.count_nonzero(different.any(axis=(1, 2)))),
        a=a[tile, row], b=b[tile, :, column], c=c[tile, row, column], d=found[tile, row, column],
    )  # fmt: skip


class Here:
    """Confirms in this process."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def outcomes(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        """Return the outcome of each task, in their order."""
        return (confirm(task, self.device) for task in tasks)


class Crew:
    """Confirms in processes, each with a runner of its own."""

    def __init__(self, pool: Executor) -> None:
        self.pool = pool

    def outcomes(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        """Return the outcome of each task, in their order."""
        return iter(self.pool.map(_confirmed, tasks))


_DEVICE: list[Device] = []
"""That of a process of a crew; one."""


def _open(choice: RunnerChoice, module: Module, forms: tuple[MmaForm, ...]) -> None:
    opened = open_runner(choice)
    # A process of a pool ends without `atexit`; this is what it does run.
    Finalize(None, opened.runner.close, exitpriority=10)
    _DEVICE[:] = [Device(opened.runner, module, forms)]


def _confirmed(task: Task) -> Outcome:
    return confirm(task, _DEVICE[0])


@contextmanager
def crew_of(
    choice: RunnerChoice, module: Module, forms: tuple[MmaForm, ...], workers: int
) -> Iterator[Crew]:
    """Start processes that can multiply forms; they end with the block."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        workers, mp_context=context, initializer=_open, initargs=(choice, module, forms)
    ) as pool:
        yield Crew(pool)
