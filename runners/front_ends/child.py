"""Compilers in processes of their own: one that stays and answers, and commands in a row."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from oracle.errors import UsageError
from runners.children import NoAnswerError, SupervisedChild
from runners.processes import (
    OUTPUT_LIMIT,
    check_program,
    quoted,
    run_tool,
    words_of,
)
from runners.protocol import Failure, Trouble

_START_SECONDS = 60.0
"""Time in which a compiler must be loaded: 1 s here, and many times that on a busy machine."""


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
    """A process that says what it is, and answers each request with one mapping.

    It is started when it is asked, and again after it died.

    Parameters
    ----------
    command
        The program and its first arguments.
    arguments
        Those that follow the descriptor of its end of the line (`SupervisedChild`).
    who
        The compiler in words, for failures.
    seconds
        Time that one answer may take.
    """

    def __init__(
        self, command: Sequence[str | Path], *arguments: str | Path, who: str, seconds: float
    ) -> None:
        self._command, self._arguments = [*map(str, command)], [*map(str, arguments)]
        self._who, self._seconds = who, seconds
        self._child: SupervisedChild | None = None

    def start(self) -> dict[str, Any] | Failure:
        """Start the process; return what it says first."""
        try:
            self._child = SupervisedChild(self._command, *self._arguments)
        except OSError as error:
            return refused(self._who, f"cannot be started ({error})")
        return self._answer(self._child, _START_SECONDS)

    def asked(self, request: Mapping[str, Any]) -> dict[str, Any] | Failure:
        """Return the answer to a request."""
        if self._child is None and isinstance(started := self.start(), Failure):
            return started
        assert self._child is not None
        # Of a failure only its own words are told.
        self._child.forget_log()
        self._child.send(request)
        return self._answer(self._child, self._seconds)

    def _answer(self, child: SupervisedChild, seconds: float) -> dict[str, Any] | Failure:
        """Return the next answer of the process; without one, end it."""
        how, log = "gave no answer", ""
        try:
            answer = child.receive(deadline=time.monotonic() + seconds)
            if isinstance(answer, dict):
                return answer
        except NoAnswerError as error:
            log = error.log
            if error.trouble is not Trouble.CORRUPTED_REPLY and child.process.returncode != 0:
                how = error.how
        self.close()
        return refused(self._who, how, log)

    def close(self) -> None:
        """End the process; the next request starts another."""
        if self._child is not None:
            self._child.end()
            self._child = None


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
