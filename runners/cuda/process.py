"""The supervisor's end: one child process from its start to its end."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import tempfile
import time
import weakref
from collections import deque
from collections.abc import Mapping

import msgspec

from runners.cuda.frames import CorruptFrameError, FrameReader, encode
from runners.cuda.messages import Reply, Request, Stop, decode_reply
from runners.cuda.messages import encode as encode_message
from runners.processes import describe_status, helper, helper_environment, kill_group, tail

_RECEIVE = 1 << 16
_REST_SECONDS = 10.0
"""How long the next part of an answer may take, on a machine that is busy."""
_STOP_SECONDS = 2.0
"""How long a child that was told to stop may take before it is killed."""


class ChildGoneError(Exception):
    """The child has ended."""


class GarbledError(Exception):
    """The child sent something that is no reply."""


class ChildProcess:
    """A child in a session, and so a process group, of its own.

    Parameters
    ----------
    ordinal
        Number of the CUDA device.
    environment
        Variables to set besides those of this process.

    Raises
    ------
    OSError
        If the process cannot be started.
    """

    def __init__(self, ordinal: int, environment: Mapping[str, str]) -> None:
        self._line, theirs = socket.socketpair()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the child)
        variables = {**helper_environment(), **environment}
        # So that no stale machine code hides a change of the driver's compiler
        # (CUDA C++ Programming Guide, CUDA Environment Variables).
        variables["CUDA_CACHE_DISABLE"] = "1"
        number = str(theirs.fileno())
        command = helper("runners.cuda.child", number, str(ordinal), str(os.getpid()))
        with theirs:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                env=variables,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        # Whatever becomes of this object, the group goes with it, at the latest at exit.
        self._kill = weakref.finalize(self, kill_group, self.process)
        self._reader = FrameReader()
        # Not waited for: a child that sends an answer which the line does not hold reads nothing
        # until that is read.
        self._line.setblocking(False)
        self._unsent: deque[tuple[memoryview, int | None]] = deque()
        """What the line has not taken yet, with file descriptors."""

    def send(self, request: Request, *, descriptor: int | None = None) -> None:
        """Send a request, with a file descriptor if it needs one.

        What the line does not take at once goes with the next request, or while a reply is waited
        for; the descriptor has to stay open until the child has answered. That the child is gone
        is for `receive` to say.
        """
        self._unsent.append((memoryview(encode(encode_message(request))), descriptor))
        self._send_on()

    def _send_on(self) -> None:
        """Send what the line takes."""
        try:
            while self._unsent:
                frame, descriptor = self._unsent[0]
                if descriptor is None:
                    sent = self._line.send(frame)
                else:
                    sent = socket.send_fds(self._line, [frame], [descriptor])
                self._unsent[0] = frame[sent:], None
                if sent == len(frame):
                    self._unsent.popleft()
        except BlockingIOError:
            pass
        except OSError:
            self._unsent.clear()  # it is gone; what it had answered is still there

    def receive(self, *, deadline: float) -> Reply:
        """Wait for the next reply, and send what has yet to be sent.

        Parameters
        ----------
        deadline
            On the clock of time.monotonic, in seconds: when the reply must have begun.

        Raises
        ------
        ChildGoneError, GarbledError, TimeoutError
        """
        poll = select.poll()
        while (payload := self._next()) is None:
            poll.register(self._line, select.POLLIN | (select.POLLOUT if self._unsent else 0))
            # Look once even if the deadline has passed: the reply may have come long ago.
            events = poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
            if not events:
                raise TimeoutError
            self._send_on()
            if events[0][1] == select.POLLOUT:
                continue
            try:
                data = self._line.recv(_RECEIVE)
            except OSError as error:
                raise ChildGoneError from error
            if not data:
                raise ChildGoneError
            self._reader.feed(data)
            # Of a long answer, more than the line holds is sent when that has been read.
            deadline = max(deadline, time.monotonic() + _REST_SECONDS)
        try:
            return decode_reply(payload)
        except msgspec.MsgspecError as error:
            raise GarbledError(str(error)) from error

    def _next(self) -> bytes | None:
        try:
            return self._reader.next()
        except CorruptFrameError as error:
            raise GarbledError(str(error)) from error

    def end(self, *, politely: bool = False) -> str:
        """End the process and its group; return how it ended, as the end of a sentence.

        Parameters
        ----------
        politely
            Whether to ask first.
        """
        if politely:
            self.send(Stop())
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_STOP_SECONDS)
        else:
            # A child that died by itself is given the moment to be found dead.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.2)
        gone_before = self.process.poll()
        self._line.close()
        if not kill_group(self.process):
            return "cannot be killed: the driver holds it"
        self._kill.detach()
        return describe_status(self.process.returncode if gone_before is None else gone_before)

    def log(self) -> str:
        """Return the end of what the process printed."""
        return tail(self._log.fileno())
