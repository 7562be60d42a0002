"""The process that holds the CUDA context: `python -m runners.cuda.child SOCKET DEVICE PARENT`.

It answers the supervisor's requests in order until it is told to stop, its supervisor is gone, or
the context is dead. It never cleans a context up: the driver does that when the process ends, and
cannot be held up by what a program did.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import time
from collections import deque

import numpy as np

from oracle.errors import InfrastructureError
from runners.cuda import self_check
from runners.cuda.frames import FrameReader, encode
from runners.cuda.launches import LANES, Started
from runners.cuda.messages import (
    Done,
    Examine,
    Failed,
    Forget,
    ForgetReferences,
    Fresh,
    Health,
    LoadModule,
    MapSlot,
    NotReady,
    Ready,
    Reply,
    Request,
    RunBatch,
    Screen,
    Stop,
    UnmapSlot,
    decode_request,
)
from runners.cuda.messages import encode as encode_message
from runners.cuda.modules import LaunchError, LoadError, Loading
from runners.cuda.session import NotReadyError, Session

_PARENT_CHECK = 0.5
"""Seconds between looks at whether the supervisor still lives."""
_RECEIVE = 1 << 20
_DESCRIPTORS = 16
_SELF_CHECK_IMAGES = 2048
"""Warps of the self-check: more than any device has multiprocessors, so that each gets some."""


class _Line:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._reader = FrameReader()
        self._descriptors: deque[int] = deque()
        self._next: bytes | None = None
        """The next request, read already."""
        self._closed = False

    def receive(self) -> Request | None:
        while self._next is None and not self._closed:
            self._read()
        payload, self._next = self._next, None
        return None if payload is None else decode_request(payload)

    def has_request(self) -> bool:
        while self._next is None and not self._closed:
            if not select.select([self._connection], [], [], 0)[0]:
                return False
            self._read()
        return True

    def _read(self) -> None:
        self._next = self._reader.next()
        if self._next is None:
            data, descriptors, _, _ = socket.recv_fds(self._connection, _RECEIVE, _DESCRIPTORS)
            self._descriptors.extend(descriptors)
            self._closed = not data
            self._reader.feed(data)
            self._next = self._reader.next()

    def descriptor(self) -> int:
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
        session.modules.load(batch.key, self_check.PTX.encode(), 3)
        session.run_arrays(batch, source.reshape(-1), destination.reshape(-1), sms)
    except (LoadError, LaunchError) as error:
        raise NotReadyError(
            "the device does not run the self-check kernel; `nvidia-smi` says how it is",
            missing=False,
            detail=str(error),
        ) from None
    session.modules.forget(batch.key)
    wrong = np.flatnonzero((destination != self_check.expected(count)).any(axis=1))
    if wrong.size:
        units = np.unique(sms.view(np.uint32)[wrong])
        raise NotReadyError(
            f"the device fails its self-check: {wrong.size} of {count} warps are wrong, on "
            f"multiprocessors {', '.join(map(str, units))}",
            missing=False,
        )


class _Server:
    """Answers requests in order; screening kernels run on while the next requests are read."""

    def __init__(self, session: Session, line: _Line) -> None:
        self._session, self._line = session, line
        self._waiting: deque[Started | Loading] = deque()
        """Kernels and modules on their way, in the order of their answers."""

    def serve(self) -> None:
        going = True
        while going:
            launches = sum(isinstance(one, Started) for one in self._waiting)
            if self._waiting and (launches == LANES or not self._line.has_request()):
                going = self._finish_first()
                continue
            request = self._line.receive()
            going = request is not None and self._answer(request)

    def _finish_first(self) -> bool:
        first = self._waiting.popleft()
        if isinstance(first, Loading):
            self._line.send(self._session.modules.end_loading(first))
            return True
        try:
            self._line.send(self._session.launches.finish(first))
        except LaunchError as error:
            return self._failed(first.launch.token, error)
        return True

    def _finish(self) -> bool:
        while self._waiting:
            if not self._finish_first():
                return False
        return True

    def _failed(self, token: int, error: LaunchError) -> bool:
        """Say that a launch failed; return whether to go on."""
        self._line.send(Failed(token=token, sticky=error.sticky, text=error.text))
        return not error.sticky

    def _answer(self, request: Request) -> bool:
        session, line = self._session, self._line
        match request:
            case MapSlot():
                descriptor = line.descriptor()
                session.map_slot(request.slot, descriptor, request.size)
                os.close(descriptor)
                return True
            case LoadModule():
                loading = session.modules.begin_loading(request)
                if not request.ahead:
                    session.modules.end_loading(loading)
                self._waiting.append(loading)
                return True
            case Screen():
                try:
                    self._waiting.append(session.launches.start(request))
                except LaunchError as error:
                    # One of those before may be to blame.
                    return self._finish() and self._failed(request.token, error)
                return True
        if not self._finish():
            return False
        match request:
            case UnmapSlot():
                session.unmap_slot(request.slot)
            case Forget():
                session.modules.forget(request.key)
            case ForgetReferences():
                session.launches.forget_references(request.references)
            case RunBatch():
                try:
                    line.send(Done(token=request.token, seconds=session.run(request)))
                except LaunchError as error:
                    return self._failed(request.token, error)
            case Fresh():
                try:
                    line.send(session.compare(request))
                except LaunchError as error:
                    return self._failed(request.token, error)
                except (LoadError, InfrastructureError) as error:
                    text = str(error)
                    line.send(Failed(token=request.token, sticky=False, text=text, unusable=True))
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
    _Server(session, line).serve()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        os._exit(1)
    # Not sys.exit: PyCUDA would clean up, and abort on a context that is dead.
    os._exit(0)
