"""A compiler in a process of its own, which may crash: lines of JSON in, lines of JSON out."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runners.processes import describe_status, kill_group, tail
from runners.protocol import Failure, Trouble

_START_SECONDS = 60.0
"""Time in which a compiler must be loaded: 1 s here, and many times that on a busy machine."""
_ANSWER_BYTES = 64 << 20
"""Most bytes of one answer: a thousand times the largest drawn program."""


def refused(who: str, what: str, detail: str = "") -> Failure:
    """Return the failure of a front end that gave no PTX.

    Parameters
    ----------
    who
        The front end in words.
    what
        What became of it, as the end of a sentence.
    detail
        What it said.
    """
    return Failure(
        trouble=Trouble.COMPILE_FAILURE, message=f"the front end {who} {what}", detail=detail
    )


class Child:
    """A process that says what it is in one line, and answers each line with one.

    It is started when it is asked, and again after it died.

    Parameters
    ----------
    command
        The program and its arguments.
    who
        The compiler in words, for failures.
    seconds
        Time that one answer may take.
    """

    def __init__(self, command: Sequence[str | Path], *, who: str, seconds: float) -> None:
        self._command, self._who, self._seconds = tuple(command), who, seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the child)
        self._rest = b""

    def start(self) -> dict[str, Any] | Failure:
        """Start the process; return its first line."""
        self._rest = b""
        self._forget()
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,
            )
        except OSError as error:
            return refused(self._who, f"cannot be started ({error})")
        return self._answer(_START_SECONDS)

    def asked(self, request: Mapping[str, Any]) -> dict[str, Any] | Failure:
        """Return the answer to a request."""
        if self._process is None and isinstance(started := self.start(), Failure):
            return started
        assert self._process is not None
        assert self._process.stdin is not None
        self._forget()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        return self._answer(self._seconds)

    def _forget(self) -> None:
        """Cut off what was said of earlier requests: of a failure only its own words are told."""
        os.ftruncate(self._errors.fileno(), 0)
        # The process writes where this ends: both have the file open as one.
        os.lseek(self._errors.fileno(), 0, os.SEEK_SET)

    def _answer(self, seconds: float) -> dict[str, Any] | Failure:
        """Return the next line of the process; without one, end it."""
        assert self._process is not None
        assert self._process.stdout is not None
        deadline = time.monotonic() + seconds
        descriptor = self._process.stdout.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while b"\n" not in self._rest and len(self._rest) <= _ANSWER_BYTES:
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    return self._ended(None)
                read = os.read(descriptor, 1 << 20)
                if not read:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        self._process.wait(_START_SECONDS)
                    return self._ended(self._process.returncode)
                self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            answer = json.loads(line)
        except ValueError:
            return self._ended(0)
        return answer if isinstance(answer, dict) else self._ended(0)

    def _ended(self, status: int | None) -> Failure:
        said = tail(self._errors.fileno())
        self.end()
        return refused(
            self._who, "gave no answer" if status == 0 else describe_status(status), said
        )

    def end(self) -> None:
        """End the process; the next request starts another."""
        if self._process is not None:
            kill_group(self._process)
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
            self._process = None

    def close(self) -> None:
        """End the process for good."""
        self.end()
        self._errors.close()
