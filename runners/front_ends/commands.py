"""Front ends as commands: programs, one after the other, that make PTX of a text."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from oracle.errors import UsageError
from runners.front_ends.child import refused
from runners.processes import OUTPUT_LIMIT, run_tool
from runners.protocol import Failure


def stages(command: str) -> list[list[str]]:
    """Return the words of the programs of a command, which have ` | ` between them.

    Raises
    ------
    UsageError
        If a program is missing, or the quotes do not match.
    """
    found: list[list[str]] = [[]]
    try:
        for word in shlex.split(command):
            if word == "|":
                found.append([])
            else:
                found[-1].append(word)
    except ValueError as error:
        raise UsageError(f"{command!r} is no command ({error}); quote it as in a shell") from None
    if not all(found):
        raise UsageError(
            f"{command!r} is no command: a program is missing; name a program and its options, "
            "with ' | ' before a second one"
        )
    return found


def check_there(programs: Sequence[Sequence[str]], spelled: str) -> None:
    """Raise UsageError if a program of a command cannot be executed."""
    for words in programs:
        if shutil.which(words[0]) is None:
            raise UsageError(
                f"--front-end {spelled!r}: there is no program {words[0]}; give its path, or put "
                "it where PATH leads, and let it be executable"
            )


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
