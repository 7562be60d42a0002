"""Commands that a corpus names: shown, and run only with the user's word.

A corpus may come from anybody, and its findings and its campaign name assemblers and PTX passes.
The word is `--trust`, the same option given again, or that the same command was given in the same
folder on this machine before, which is remembered outside of any corpus. A version, such as
"13.5", is no command: it names one of the assemblers that this machine has anyway.
"""

from __future__ import annotations

import re
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from oracle.errors import UsageError
from runners.assemblers.answers import cache_folder

_RELEASE = re.compile(r"\d{1,4}(\.\d{1,4}){0,3}")


def remember(*commands: str | None) -> None:
    """Keep that the user gave these commands here; a cache that cannot be written is none."""
    for command in filter(None, commands):
        with suppress(OSError):
            path = _mark(command)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()


def check_trusted(command: str, *, option: str, named_by: str, trust: bool) -> None:
    """Check that a command of a corpus may be run.

    Parameters
    ----------
    option
        What it is for, as a person types it: "--assembler".
    named_by
        Who names it, for the message.
    trust
        Whether the user said that what the corpus names may be run.

    Raises
    ------
    UsageError
        If not; the command is shown.
    """
    if trust or _RELEASE.fullmatch(command) or _mark(command).exists():
        return
    raise UsageError(
        f"{named_by} names the command {command!r:.500}, which was never given here: a corpus may "
        f"come from anybody, so it is not run; give --trust if you know it, or {option} with it or "
        "with another one"
    )


def _mark(command: str) -> Path:
    # Together with the folder: what a relative path names is another program elsewhere.
    key = f"{Path.cwd()}\0{command}".encode(errors="surrogateescape")
    return cache_folder() / "trusted" / sha256(key).hexdigest()
