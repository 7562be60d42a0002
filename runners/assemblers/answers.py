"""What assemblers answered, kept in the user's cache folder by the hash of the binary."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
from pathlib import Path

import msgspec

from oracle.errors import InfrastructureError
from runners.folders import cache_folder

# Changes whenever a question is asked otherwise, so that old answers are not read.
_SCHEMA = 1

Answer = str | bool | list[str]
_MOST_BYTES = 4 << 20
"""Most bytes of a file of answers; an answer takes 20, and there are a few hundred questions."""


class _Stored(msgspec.Struct):
    schema: int
    answers: dict[str, Answer]


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal.

    Raises
    ------
    InfrastructureError
        If it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InfrastructureError(f"{path} cannot be read: {error.strerror}") from None


class Answers:
    """The answers of one binary, by question."""

    def __init__(self, binary: str) -> None:
        self._file = cache_folder() / "answers" / f"{binary}.json"
        self._known = self._read()

    def get(self, question: str) -> Answer | None:
        """Return what was answered, None if it was never asked."""
        return self._known.get(question)

    def put(self, question: str, answer: Answer) -> None:
        """Keep an answer, also for other processes.

        A cache that cannot be written is left alone: the question is asked again next time.
        """
        self._known[question] = answer
        # Another process may have added answers since.
        merged = {**self._read(), **self._known}
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", dir=self._file.parent, prefix=".fresh-", delete=False
            ) as fresh:
                json.dump({"schema": _SCHEMA, "answers": merged}, fresh)
            Path(fresh.name).replace(self._file)

    def _read(self) -> dict[str, Answer]:
        # What is not whole, or not what was written here, was never answered.
        try:
            with self._file.open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
            stored = msgspec.json.decode(data[:_MOST_BYTES], type=_Stored)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}
        return stored.answers if stored.schema == _SCHEMA else {}
