"""Putting corpora together, in any order and any number of times, with the same result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from corpus.entry import Entry
from corpus.problems import Cause, Problem
from corpus.scanning import scan_folders
from corpus.store import Corpus


@dataclass(frozen=True, kw_only=True)
class Merged:
    """What merging changed."""

    added: tuple[str, ...]
    """Ids of the findings that were not there."""
    updated: tuple[str, ...]
    """Ids of those whose description is another one now."""
    problems: tuple[Problem, ...]
    """What could not be read in the others."""


def merge(destination: Corpus, sources: Iterable[Corpus]) -> Merged:
    """Copy the findings of other corpora, raw ones included, into `destination`.

    Where both have a finding, the description stays that was shrunk furthest, or else was found
    first.

    Raises
    ------
    InfrastructureError
        If a corpus cannot be read or the destination not be written; what was copied until then
        is whole.
    """
    added: list[str] = []
    updated: list[str] = []
    problems: list[Problem] = []
    with destination.exclusively():
        for found in _everything(sources):
            if isinstance(found, Problem):
                if found.cause is not Cause.LEFTOVER:
                    problems.append(found)
                continue
            there = destination.sound(found.id)
            if there is None:
                if destination.deposit(found.finding, found.files()).new:
                    added.append(found.id)
            elif destination.combine(there, found.finding):
                updated.append(found.id)
        destination.settle()
    return Merged(added=tuple(added), updated=tuple(updated), problems=tuple(problems))


def _everything(sources: Iterable[Corpus]) -> Iterator[Entry | Problem]:
    for source in sources:
        yield from scan_folders(source.findings, source.raw, checksums=True)
