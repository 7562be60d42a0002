"""Seeds side by side, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from typing import Protocol

from fuzz.bench.searching import Plan, SearchResult, search
from oracle.errors import InfrastructureError

_POLL_SECONDS = 0.2
"""How often the seeds are asked how far they are."""


@dataclass(frozen=True, kw_only=True)
class Advance:
    """How far one seed is."""

    seed: int
    cases: int
    """Images drawn, over all columns."""
    left: int
    """Faults that are still looked for, over all columns."""


Watcher = Callable[[Advance], None]


class _Mailbox(Protocol):
    """The part of a queue between processes that is used here."""

    def put(self, item: Advance) -> None: ...

    def get_nowait(self) -> Advance: ...


_mailbox: _Mailbox | None = None
_stop: Event | None = None
_parent = 0


def _begin(mailbox: _Mailbox, stop: Event, parent: int) -> None:
    """Prepare a process of the pool."""
    global _mailbox, _stop, _parent
    _mailbox, _stop, _parent = mailbox, stop, parent
    # The terminal interrupts all processes at once; the parent alone says what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _search_in_process(plan: Plan, seed: int) -> SearchResult:
    def report(cases: int, left: int) -> None:
        if _mailbox is not None:
            _mailbox.put(Advance(seed=seed, cases=cases, left=left))

    def stopping() -> bool:
        # A parent that was killed cannot set the event; its children belong to another then.
        return (_stop is not None and _stop.is_set()) or os.getppid() != _parent

    return search(plan, seed, report=report, stopping=stopping)


def search_all(
    plan: Plan, seeds: Sequence[int], *, jobs: int, watcher: Watcher
) -> list[SearchResult]:
    """Search with every seed; the results come in the order of the seeds.

    Parameters
    ----------
    jobs
        How many seeds at the same time; 1 needs no other process.

    Raises
    ------
    InfrastructureError
        If sound device and oracle disagree, or a process dies.
    """
    if min(jobs, len(seeds)) == 1:
        return list(_one_by_one(plan, seeds, watcher))
    # Not forked: NumPy's and Rich's threads would be cut off in the middle.
    context = multiprocessing.get_context("spawn")
    mailbox = context.Queue()
    stop = context.Event()
    pool = ProcessPoolExecutor(
        min(jobs, len(seeds)),
        mp_context=context,
        initializer=_begin,
        initargs=(mailbox, stop, os.getpid()),
    )
    try:
        futures = [pool.submit(_search_in_process, plan, seed) for seed in seeds]
        waiting = set(futures)
        while waiting:
            done, waiting = wait(waiting, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
            for advance in _received(mailbox):
                watcher(advance)
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


def _one_by_one(plan: Plan, seeds: Sequence[int], watcher: Watcher) -> Iterator[SearchResult]:
    for seed in seeds:

        def report(cases: int, left: int, seed: int = seed) -> None:
            watcher(Advance(seed=seed, cases=cases, left=left))

        yield search(plan, seed, report=report, stopping=lambda: False)


def _received(mailbox: _Mailbox) -> Iterator[Advance]:
    while True:
        try:
            yield mailbox.get_nowait()
        except queue.Empty:
            return
