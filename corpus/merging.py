"""Putting corpora together: what a corpus has stays as it is, and what it lacks is added."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from corpus.entry import Entry
from corpus.problems import BrokenEntryError, Cause, Problem
from corpus.scanning import scan_folders
from corpus.store import Corpus
from oracle.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Merged:
    """What merging changed."""

    added: tuple[str, ...]
    """Ids of the findings that were not there."""
    problems: tuple[Problem, ...]
    """What could not be read in the others."""


def merge(destination: Corpus, sources: Iterable[Corpus]) -> Merged:
    """Copy the findings of other corpora, raw ones included, into `destination`.

    In any order the same findings are there in the end. Where several have a finding, the
    description of the first stays, `destination` before all: titles, comments and links are
    anybody's word, and no hash of them is part of the id.

    Raises
    ------
    InfrastructureError
        If a corpus cannot be read or the destination not be written; what was copied until then
        is whole.
    """
    added: list[str] = []
    problems: list[Problem] = []
    with destination.exclusively():
        for found in _everything(sources):
            if isinstance(found, Problem):
                if found.cause is not Cause.LEFTOVER:
                    problems.append(found)
            elif destination.sound(found.id) is None:
                try:
                    new = destination.deposit(found.finding, found.files()).new
                except BrokenEntryError as error:  # changed in the meantime
                    problems.append(error.problem)
                except UsageError as error:
                    problems.append(
                        Problem(
                            path=found.path, cause=Cause.INVALID, sentence=f"{found.path}: {error}"
                        )
                    )
                else:
                    added.extend([found.id] if new else [])
        destination.settle()
    return Merged(added=tuple(added), problems=tuple(problems))


def _everything(sources: Iterable[Corpus]) -> Iterator[Entry | Problem]:
    for source in sources:
        yield from scan_folders(source.findings, source.raw, checksums=True)
