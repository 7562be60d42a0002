"""What assemblers answered, kept in the user's cache folder by the hash of the binary."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
from pathlib import Path

import platformdirs

from oracle.errors import InfrastructureError

# Changes whenever a question is asked otherwise, so that old answers are not read.
_SCHEMA = 1

Answer = str | bool | list[str]


def cache_folder() -> Path:
    """Return this user's folder for fetched assemblers and for answers."""
    return platformdirs.user_cache_path("warpfuzz")


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
        try:
            stored = json.loads(self._file.read_text())
        except (OSError, ValueError):
            return {}
        if not isinstance(stored, dict) or stored.get("schema") != _SCHEMA:
            return {}
        answers = stored.get("answers")
        return dict(answers) if isinstance(answers, dict) else {}
