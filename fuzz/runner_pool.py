"""Processes that each have a runner of their own, for commands that share work out among them."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from multiprocessing.util import Finalize
from typing import Any

from fuzz.runner import RunnerChoice, open_runner

_MADE: list[Any] = []
"""What a process of a pool has made of its runner; set once by `_make`."""


def runner_pool(
    workers: int, choice: RunnerChoice, make: Callable[..., Any], *given: object
) -> Executor:
    """Return processes that each have a runner, and what is made of it and of what is given."""
    # Not forked: NumPy's threads would be cut off in the middle.
    context = multiprocessing.get_context("spawn")
    begin = partial(_make, choice, make, *given)
    return ProcessPoolExecutor(workers, mp_context=context, initializer=begin)


def _make(choice: RunnerChoice, make: Callable[..., Any], *given: object) -> None:
    runner = open_runner(choice).runner
    # A process of a pool ends without `atexit`; this is what it does run.
    Finalize(None, runner.close, exitpriority=10)
    _MADE[:] = [make(runner, *given)]


def made_here() -> Any:
    """Return what this process of a pool has made of its runner."""
    return _MADE[0]
