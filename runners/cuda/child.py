"""The process that holds the CUDA context: `python -m runners.cuda.child SOCKET DEVICE PARENT`.

It answers the supervisor's requests in order until it is told to stop, its supervisor is gone, or
the context is dead. It never cleans a context up: the driver does that when the process ends, and
cannot be held up by what a program did.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections import deque

import numpy as np

from runners.cuda import self_check
from runners.cuda.frames import FrameReader, encode
from runners.cuda.messages import (
    Done,
    Examine,
    Failed,
    Forget,
    ForgetReferences,
    Health,
    Loaded,
    LoadModule,
    MapSlot,
    NotReady,
    Ready,
    Refused,
    Reply,
    Request,
    RunBatch,
    Screen,
    Stop,
    UnmapSlot,
    decode_request,
)
from runners.cuda.messages import encode as encode_message
from runners.cuda.session import LaunchError, LoadError, NotReadyError, Session

_PARENT_CHECK = 0.5
"""Seconds between looks at whether the supervisor still lives."""
_RECEIVE = 1 << 20
_DESCRIPTORS = 16
_SELF_CHECK_IMAGES = 2048
"""Warps of the self-check: more than any device has multiprocessors, so that each gets some."""


class _Line:
    """The child's end of the connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._reader = FrameReader()
        self._descriptors: deque[int] = deque()

    def receive(self) -> Request | None:
        """Wait for the next request; None when the supervisor has hung up."""
        while (payload := self._reader.next()) is None:
            data, descriptors, _, _ = socket.recv_fds(self._connection, _RECEIVE, _DESCRIPTORS)
            self._descriptors.extend(descriptors)
            if not data:
                return None
            self._reader.feed(data)
        return decode_request(payload)

    def descriptor(self) -> int:
        """Return the file descriptor that came with the request."""
        return self._descriptors.popleft()

    def send(self, reply: Reply) -> None:
        self._connection.sendall(encode(encode_message(reply)))


def _watch(parent: int) -> None:
    """End this process when its supervisor is gone, also while a kernel runs on."""
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK)
    os.kill(os.getpid(), signal.SIGKILL)


def _check(session: Session) -> None:
    """Raise NotReadyError unless the device computes what is known beforehand."""
    count = _SELF_CHECK_IMAGES
    source = self_check.images(count)
    destination = np.zeros_like(source)
    sms = np.zeros(4 * count, np.uint8)
    batch = RunBatch(
        token=0, key="self-check", entry=self_check.ENTRY, image_bytes=self_check.IMAGE_BYTES,
        count=count, warps_per_block=self_check.WARPS_PER_BLOCK, source=0, source_offset=0,
        destination=0, sms_offset=0, chunk_images=count // 4,
    )  # fmt: skip
    try:
        session.load_module(batch.key, self_check.PTX.encode(), 3)
        session.run_arrays(batch, source.reshape(-1), destination.reshape(-1), sms)
    except (LoadError, LaunchError) as error:
        raise NotReadyError(
            "the device does not run the self-check kernel; `nvidia-smi` says how it is",
            missing=False,
            detail=str(error),
        ) from None
    session.forget_module(batch.key)
    wrong = np.flatnonzero((destination != self_check.expected(count)).any(axis=1))
    if wrong.size:
        units = np.unique(sms.view(np.uint32)[wrong])
        raise NotReadyError(
            f"the device fails its self-check: {wrong.size} of {count} warps are wrong, on "
            f"multiprocessors {', '.join(map(str, units))}",
            missing=False,
        )


def _answer(session: Session, line: _Line, request: Request) -> bool:
    """Carry out a request; return whether to go on."""
    match request:
        case MapSlot():
            descriptor = line.descriptor()
            session.map_slot(request.slot, descriptor, request.size)
            os.close(descriptor)
        case UnmapSlot():
            session.unmap_slot(request.slot)
        case LoadModule():
            try:
                session.load_module(request.key, request.code, request.optimization)
                line.send(Loaded(key=request.key))
            except LoadError as error:
                line.send(Refused(key=request.key, text=str(error)))
        case Forget():
            session.forget_module(request.key)
        case RunBatch():
            try:
                line.send(Done(token=request.token, seconds=session.run(request)))
            except LaunchError as error:
                line.send(Failed(token=request.token, sticky=error.sticky, text=error.text))
                return not error.sticky
        case Screen():
            try:
                line.send(session.screen(request))
            except LaunchError as error:
                line.send(Failed(token=request.token, sticky=error.sticky, text=error.text))
                return not error.sticky
        case ForgetReferences():
            session.forget_references(request.references)
        case Examine():
            line.send(Health(health=session.health()))
        case Stop():
            return False
    return True


def main(arguments: list[str]) -> None:
    """Serve the supervisor on a socket; the arguments are its descriptor, device, parent."""
    descriptor, ordinal, parent = map(int, arguments)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    line = _Line(socket.socket(fileno=descriptor))
    try:
        session = Session(ordinal)
        _check(session)
        line.send(Ready(facts=session.facts()))
    except NotReadyError as error:
        line.send(NotReady(missing=error.missing, text=error.text, detail=error.detail))
        return
    while (request := line.receive()) is not None:
        if not _answer(session, line, request):
            break


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(1)
    # Not sys.exit: PyCUDA would clean up, and abort on a context that is dead.
    os._exit(0)
