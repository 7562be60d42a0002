"""Compilers in processes of their own: one that stays and answers lines, and commands in a row.

A line of JSON goes in, a line of JSON comes out.
"""

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

from oracle.errors import UsageError
from runners.processes import (
    OUTPUT_LIMIT,
    check_program,
    describe_status,
    kill_group,
    quoted,
    run_tool,
    tail,
    words_of,
)
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


def stages(command: str) -> list[list[str]]:
    """Return the words of the programs of a command, which have ` | ` between them.

    Raises UsageError if a program is missing, or the quotes do not match.
    """
    found: list[list[str]] = [[]]
    for word in words_of(command):
        if word == "|":
            found.append([])
        else:
            found[-1].append(word)
    if not all(found):
        raise UsageError(
            f"{quoted(command)} is no command: a program is missing; name a program and its "
            "options, with ' | ' before a second one"
        )
    return found


def check_there(programs: Sequence[Sequence[str]], spelled: str) -> None:
    """Raise UsageError if a program of a command cannot be executed."""
    for words in programs:
        check_program(words[0], f"--front-end {quoted(spelled)}")


def piped(
    programs: Sequence[Sequence[str]],
    text: str,
    values: Mapping[str, str],
    *,
    who: str,
    seconds: float,
) -> str | Failure:
    """Return what programs, one after the other, make of a text.

    Parameters
    ----------
    values
        What stands for a part of a word, such as "sm_80" for "{target}".
    who
        The front end in words, for failures.
    seconds
        Time that each may take.
    """
    given = text.encode()
    for words in programs:
        program = Path(words[0]).name
        for name, value in values.items():
            words = [word.replace(name, value) for word in words]
        try:
            finished = run_tool(words, deadline=seconds, given=given)
        except OSError as error:
            return refused(who, f"cannot be run ({words[0]}: {error}); check its path")
        if len(finished.output) >= OUTPUT_LIMIT:
            return refused(
                who, f"({program}) wrote {OUTPUT_LIMIT >> 20} MiB and more", finished.errors
            )
        if finished.status != 0:
            return refused(who, f"({program}) {finished.ending}", finished.errors)
        given = finished.output
    return given.decode(errors="replace")
