"""Measures after how many images planted faults are found; runs tasks in several processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from oracle.errors import InfrastructureError

Task = TypeVar("Task")
Result = TypeVar("Result")
Report = Callable[[int], None]
"""Is told that so many more tasks are done."""


def _begin() -> None:
    # The terminal interrupts all processes at once; the parent alone says what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_the_parent() -> None:
        # Whoever waits for its next task waits for ever: all processes of a pool hold both ends of
        # its queues.
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_the_parent, daemon=True).start()


def run_all(
    work: Callable[[Task], Result], tasks: Sequence[Task], *, jobs: int, report: Report
) -> list[Result]:
    """Do all tasks; the results come in the order of the tasks.

    Parameters
    ----------
    work
        A function of a module, so that another process can find it.
    jobs
        How many at the same time; 1 needs no other process.
    """
    results = []
    if min(jobs, len(tasks)) <= 1:
        for task in tasks:
            results.append(work(task))
            report(1)
        return results
    # Not forked: NumPy's and Rich's threads would be cut off in the middle.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=context, initializer=_begin)
    try:
        futures = [pool.submit(work, task) for task in tasks]
        for future in as_completed(futures):
            future.result()
            report(1)
        return [future.result() for future in futures]
    except BrokenProcessPool as error:
        raise InfrastructureError(
            f"a process of the bench died ({error}); perhaps memory ran out: try fewer --jobs"
        ) from None
    finally:
        # What is being done is not waited for.
        for child in multiprocessing.active_children():
            child.terminate()
        pool.shutdown(cancel_futures=True)
