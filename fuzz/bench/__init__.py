"""Measures after how many images planted faults are found; runs tasks in several processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.synchronize import Event
from typing import Any, TypeVar

from oracle.errors import InfrastructureError

_POLL_SECONDS = 0.2
"""How often the tasks are asked how far they are."""

Task = TypeVar("Task")
Result = TypeVar("Result")
Report = Callable[[int], None]
"""Is told how much more of a task is done; the task defines the unit."""
Stopping = Callable[[], bool]
"""Says whether to end early."""
Work = Callable[[Task, Report, Stopping], Result]

_shared: tuple[Any, Event]
"""How much all tasks of a pool did, and whether they have to end."""


def _begin(done: Any, stop: Event) -> None:
    global _shared
    _shared = done, stop
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    # The terminal interrupts all processes at once; the parent alone says what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end_with_the_parent() -> None:
    """End this process when its parent is gone.

    A parent that was killed sets no event, and whoever waits for the next task waits for ever: all
    processes of a pool hold both ends of its queues.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _in_process(work: Work[Task, Result], task: Task) -> Result:
    done, stop = _shared

    def report(more: int) -> None:
        with done:
            done.value += more

    return work(task, report, stop.is_set)


def run_all(
    work: Work[Task, Result], tasks: Sequence[Task], *, jobs: int, report: Report
) -> list[Result]:
    """Do all tasks; the results come in the order of the tasks.

    Parameters
    ----------
    work
        A function of a module, so that another process can find it.
    jobs
        How many at the same time; 1 needs no other process.
    """
    if min(jobs, len(tasks)) <= 1:
        return [work(task, report, lambda: False) for task in tasks]
    # Not forked: NumPy's and Rich's threads would be cut off in the middle.
    context = multiprocessing.get_context("spawn")
    done, stop, told = context.Value("q"), context.Event(), 0
    pool = ProcessPoolExecutor(
        min(jobs, len(tasks)), mp_context=context, initializer=_begin, initargs=(done, stop)
    )
    try:
        futures = [pool.submit(_in_process, work, task) for task in tasks]
        waiting = set(futures)
        while waiting:
            ended, waiting = wait(waiting, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
            report((far := done.value) - told)
            told = far
            for future in ended:
                future.result()
        return [future.result() for future in futures]
    except BrokenProcessPool as error:
        raise InfrastructureError(
            f"a process of the bench died ({error}); perhaps memory ran out: try fewer --jobs"
        ) from None
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)
