"""Measures after how many images planted faults are found; runs tasks in several processes."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing.synchronize import Event
from typing import Protocol, TypeVar

from oracle.errors import InfrastructureError

_POLL_SECONDS = 0.2
"""How often the tasks are asked how far they are."""

Task = TypeVar("Task")
Result = TypeVar("Result")
Report = Callable[[int, int], None]
"""Callback that takes two numbers which say how far a task is; the task defines their meaning."""
Stopping = Callable[[], bool]
"""Says whether to end early."""
Watcher = Callable[[int, int, int], None]
"""Callback that takes the number of a task and what the task reported."""
Work = Callable[[Task, Report, Stopping], Result]


class _Mailbox(Protocol):
    def put(self, item: tuple[int, int, int]) -> None: ...

    def get_nowait(self) -> tuple[int, int, int]: ...


_mailbox: _Mailbox | None = None
_stop: Event | None = None


def _begin(mailbox: _Mailbox, stop: Event) -> None:
    global _mailbox, _stop
    _mailbox, _stop = mailbox, stop
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


def _in_process(work: Work[Task, Result], number: int, task: Task) -> Result:
    def report(done: int, left: int) -> None:
        if _mailbox is not None:
            _mailbox.put((number, done, left))

    return work(task, report, lambda: _stop is not None and _stop.is_set())


def run_all(
    work: Work[Task, Result], tasks: Sequence[Task], *, jobs: int, watcher: Watcher
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
        return [
            work(task, partial(watcher, number), lambda: False) for number, task in enumerate(tasks)
        ]
    # Not forked: NumPy's and Rich's threads would be cut off in the middle.
    context = multiprocessing.get_context("spawn")
    mailbox = context.Queue()
    stop = context.Event()
    pool = ProcessPoolExecutor(
        min(jobs, len(tasks)),
        mp_context=context,
        initializer=_begin,
        initargs=(mailbox, stop),
    )
    try:
        futures = [
            pool.submit(_in_process, work, number, task) for number, task in enumerate(tasks)
        ]
        waiting = set(futures)
        while waiting:
            done, waiting = wait(waiting, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
            for message in _received(mailbox):
                watcher(*message)
            for future in done:
                future.result()
        return [future.result() for future in futures]
    except BrokenProcessPool as error:
        raise InfrastructureError(
            f"a process of the bench died ({error}); perhaps memory ran out: try fewer --jobs"
        ) from None
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)
        mailbox.close()
        mailbox.cancel_join_thread()


def _received(mailbox: _Mailbox) -> Iterator[tuple[int, int, int]]:
    while True:
        try:
            yield mailbox.get_nowait()
        except queue.Empty:
            return
