"""The process that holds the CUDA context: `python -m runners.cuda.child DESCRIPTOR DEVICE`.

It answers the supervisor's requests in order until its supervisor is gone or the context is dead.
It never cleans a context up: the driver does that when the process ends, and cannot be held up by
what a program did.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from multiprocessing import reduction
from multiprocessing.connection import Connection
from operator import attrgetter
from typing import Any

import numpy as np

from runners.cuda import self_check
from runners.cuda.modules import LaunchError, LoadError
from runners.cuda.session import SCREENS, NotReadyError, RunBatch, Session
from runners.kernels import Kernel
from runners.protocol import Failure, Trouble

_SELF_CHECK_IMAGES = 2048
"""Warps of the self-check: more than any device has multiprocessors, so that each gets some."""
_MAP, _LOAD, _SCREEN = "map_slot", "modules.take", "screen"
"""Requests that are taken up before those before them are answered; `screen` returns what waits for
the result."""


def _check(session: Session) -> None:
    """Raise NotReadyError unless the device computes what is known beforehand."""
    count = _SELF_CHECK_IMAGES
    source = self_check.images(count)
    destination = np.zeros_like(source)
    sms = np.zeros(4 * count, np.uint8)
    batch = RunBatch(
        key="self-check", count=count, chunk_images=count // 4,
        kernel=Kernel(
            entry=self_check.ENTRY, image_bytes=self_check.IMAGE_BYTES,
            warps_per_block=self_check.WARPS_PER_BLOCK,
        ),
    )  # fmt: skip
    try:
        session.modules.load(batch.key, self_check.PTX.encode(), 3)
        session.run_arrays(batch, source.reshape(-1), destination.reshape(-1), sms)
    except (LoadError, LaunchError) as error:
        text = "the device does not run the self-check kernel; `nvidia-smi` says how it is"
        raise NotReadyError(text, str(error)) from None
    session.modules.forget(batch.key)
    wrong = np.flatnonzero((destination != self_check.expected(count)).any(axis=1))
    if wrong.size:
        units = np.unique(sms.view(np.uint32)[wrong])
        raise NotReadyError(
            f"the device fails its self-check: {wrong.size} of {count} warps are wrong, on "
            f"multiprocessors {', '.join(map(str, units))}"
        )


def _result(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except LaunchError as error:
        return error.failure


def _answer(line: Connection[Any, Any], token: int | None, result: Any) -> bool:
    if token is not None:
        line.send_bytes(pickle.dumps((token, result)))  # 10 µs less than `send`
    return not (isinstance(result, Failure) and result.trouble is Trouble.STICKY_ERROR)


def _serve(line: Connection[Any, Any], session: Session) -> None:
    """Answer requests in order; screening kernels run on while the next requests are read.

    A request is a token, the name of a method of the session, and its arguments; the answer is the
    token and what the method returns, or a `Failure`. Those without a token are never answered.
    """
    waiting: deque[tuple[int, str, Any]] = deque()
    """Kernels and modules on their way: token, request, and what waits for the result."""

    def finish() -> bool:
        token, _, later = waiting.popleft()
        return _answer(line, token, _result(later) if callable(later) else later)

    while True:
        screens = sum(name == _SCREEN for _, name, _ in waiting)
        if waiting and (screens == SCREENS or not line.poll()):
            if not finish():
                return
            continue
        token, name, arguments = line.recv()
        work = partial(attrgetter(name)(session), *arguments)
        if name == _MAP:
            work(reduction.recv_handle(line))
        elif name in (_LOAD, _SCREEN):
            # Of a launch that cannot begin, one of those before may be to blame.
            waiting.append((token, name, _result(work)))
        else:
            while waiting:
                if not finish():
                    return
            if not _answer(line, token, _result(work)):
                return


def main(arguments: list[str]) -> None:
    """Serve the supervisor on a socket; the arguments are its descriptor and the device."""
    descriptor, ordinal = map(int, arguments)
    line: Connection[Any, Any] = Connection(descriptor)
    try:
        session = Session(ordinal)
        _check(session)
        line.send(session.facts())
        _serve(line, session)
    except NotReadyError as error:
        line.send(error.failure)
    except (EOFError, ConnectionError):
        return  # the supervisor is gone


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(1)
    # Not sys.exit: PyCUDA would clean up, and abort on a context that is dead.
    os._exit(0)
