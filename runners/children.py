"""A process that answers requests, supervised from its start to its end.

Requests and answers are Python objects that travel over `multiprocessing.connection`.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import select
import socket
import struct
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

from runners.processes import Tool, describe_status, tail
from runners.protocol import Trouble

_MOST_BYTES = 256 << 20
"""Longest answer, in bytes: a thousand images of 128 KiB, before and after."""
_AT_ONCE_BYTES = 64 << 10
"""Longest request that is sent at once: a line that takes anything has room for three quarters of
208 KiB (Linux, unix_writable, net.core.wmem_default)."""
_REST_SECONDS = 10
"""How long the next part of an answer may take, on a machine that is busy."""
_DYING_SECONDS = 10.0
"""How long a child that has closed its end of the line may take to be found dead."""

_Part = bytes | int | None
"""What is sent: an object, a file descriptor; None: no more."""


class NoAnswerError(Exception):
    """There is no answer, and the child was ended."""

    def __init__(self, trouble: Trouble, how: str, log: str) -> None:
        super().__init__(how)
        self.trouble = trouble
        """HANG, CRASH or CORRUPTED_REPLY."""
        self.how = how
        """How the child ended, or what it answered, as the end of a sentence."""
        self.log = log
        """What it printed last."""


class SupervisedChild:
    """A child in a session, and so a process group, of its own.

    It is told the descriptor of its end of the connection, and ends where that ends.

    `command`: the program and its first arguments; the descriptor follows, and the other arguments.
    `environment`: its variables; None: those of this process. `file_bytes`: most bytes of a file
    that it writes; None: no bound. Raises OSError if the process cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        file_bytes: int | None = None,
    ) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the child)
        self._socket, theirs = socket.socketpair()
        rest = struct.pack("ll", _REST_SECONDS, 0)  # socket(7), SO_RCVTIMEO
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, rest)
        with theirs, contextlib.ExitStack() as failed:
            failed.callback(self._socket.close)
            self._tool = Tool(
                [*command, str(theirs.fileno()), *arguments],
                file_bytes=file_bytes,
                environment=environment,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
            )
            failed.pop_all()
        self.process = self._tool.process
        self._line: Connection[Any, Any] = Connection(os.dup(self._socket.fileno()))
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(self._line, select.POLLIN)
        self._writable.register(self._line, select.POLLOUT)
        self._unsent: queue.Queue[_Part] = queue.Queue()
        """What did not go at once: a child that hangs, or sends an answer that the line does not
        hold, reads nothing."""
        self._sender = threading.Thread(
            target=_send_on, args=(self._line, self._unsent, self.process.pid), daemon=True
        )
        self._sender.start()
        # Whatever becomes of this object, the group goes with it, at the latest at exit.
        self._kill = weakref.finalize(self, _end, self._tool, self._unsent)

    def send(self, request: Any, *, descriptor: int | None = None) -> None:
        """Send a request, with a file descriptor if it needs one, without waiting for the child.

        The descriptor has to stay open until the child has answered. That the child is gone is
        for `receive` to say.
        """
        data = pickle.dumps(request)
        # The thread may have to wait 5 ms for its turn (sys.getswitchinterval).
        at_once = (
            len(data) <= _AT_ONCE_BYTES
            and not self._unsent.unfinished_tasks
            and self._writable.poll(0)
        )
        for part in (data, descriptor) if descriptor is not None else (data,):
            if not at_once:
                self._unsent.put(part)
                continue
            with contextlib.suppress(OSError):
                _send(self._line, part, self.process.pid)

    def receive(self, *, deadline: float) -> Any:
        """Wait for the next answer; raises NoAnswerError if there is none.

        `deadline` is on the clock of time.monotonic, in seconds: when it must have begun.
        """
        try:
            # Look once even if the deadline has passed: the answer may have come long ago.
            if not self._readable.poll(1000 * max(0.0, deadline - time.monotonic())):
                self.end()
                raise NoAnswerError(Trouble.HANG, describe_status(None), self.log())
            data = self._line.recv_bytes(_MOST_BYTES)
        except (EOFError, OSError) as error:
            # A part of an answer, too, is all that comes of a process that died meanwhile.
            if not isinstance(error, BlockingIOError) and "length" not in str(error):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(_DYING_SECONDS)
            gone, ending = self.process.poll() is not None, self.end()
            if gone or isinstance(error, EOFError):
                raise NoAnswerError(Trouble.CRASH, ending, self.log()) from error
            raise self._garbage(error) from error
        try:
            return pickle.loads(data)
        except Exception as error:
            self.end()
            raise self._garbage(error) from error

    def _garbage(self, error: Exception) -> NoAnswerError:
        how = f"answered garbage ({type(error).__name__}: {error})"
        return NoAnswerError(Trouble.CORRUPTED_REPLY, how, self.log())

    def end(self) -> str:
        """End the process and its group; return how it ended, as the end of a sentence.

        It may have been ended already.
        """
        if not self._kill.alive:
            # Its number may be another process's by now.
            return describe_status(self.process.returncode)
        gone_before = self.process.poll()
        gone = self._tool.kill()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._unsent.put(None)
        self._sender.join()
        self._line.close()
        self._socket.close()
        if gone:
            self._kill.detach()
        return describe_status(self.process.returncode if gone_before is None else gone_before)

    def log(self) -> str:
        """Return the end of what the process printed."""
        return tail(self._log.fileno())

    def forget_log(self) -> None:
        """Cut off what the process printed so far."""
        os.ftruncate(self._log.fileno(), 0)
        # The process writes where this ends: both have the file open as one.
        os.lseek(self._log.fileno(), 0, os.SEEK_SET)


def _send(line: Connection[Any, Any], part: bytes | int, pid: int) -> None:
    if isinstance(part, int):
        reduction.send_handle(line, part, pid)
    else:
        line.send_bytes(part)


def _send_on(line: Connection[Any, Any], unsent: queue.Queue[_Part], pid: int) -> None:
    """Send what is to be sent, one after the other, until there is no more or nobody reads it."""
    with contextlib.suppress(OSError):
        while (part := unsent.get()) is not None:
            _send(line, part, pid)
            unsent.task_done()


def _end(tool: Tool, unsent: queue.Queue[_Part]) -> None:
    tool.kill()
    unsent.put(None)
