"""What can be wrong with an entry of a corpus, each said in a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from oracle.errors import InfrastructureError


class Cause(StrEnum):
    """Why a folder of a corpus is no sound finding."""

    LEFTOVER = "leftover"
    """A temporary folder whose writer was killed."""
    NO_DESCRIPTION = "no description"
    """There is no `finding.json`."""
    MALFORMED = "malformed"
    """`finding.json` is no JSON, cut off say."""
    INVALID = "invalid"
    """`finding.json` is JSON, but not what the schema asks for."""
    NEWER = "newer"
    """Written by a later warpfuzz."""
    MISSING_FILE = "missing file"
    CHANGED_FILE = "changed file"
    """A file is not the one that was stored."""
    MISNAMED = "misnamed"
    """The folder's name, the id and the contents do not belong together."""
    UNREADABLE = "unreadable"
    """The operating system does not let it be read."""
    STRANGE = "strange"
    """Something that the corpus did not put there."""
    DANGLING = "dangling"
    """A link to a finding that is not there."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong with a corpus."""

    path: Path
    """The file or folder."""
    cause: Cause
    sentence: str
    """What is wrong and what to do, for a person."""


class BrokenEntryError(InfrastructureError):
    """An entry of a corpus cannot be used."""

    def __init__(self, path: Path, cause: Cause, what: str, remedy: str) -> None:
        self.problem = Problem(path=path, cause=cause, sentence=f"{path}: {what}; {remedy}")
        super().__init__(self.problem.sentence)
