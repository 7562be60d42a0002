"""Checking a whole corpus: everything that is wrong with it, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from corpus import durable
from corpus.entry import DESCRIPTION, Entry
from corpus.problems import Cause, Problem
from corpus.scanning import scan_folders
from corpus.store import BROKEN, Corpus


def verify(corpus: Corpus) -> list[Problem]:
    """Return everything that is wrong with a corpus, by finding; nothing is changed.

    Beyond what a scan reports: files that no description lists, smaller forms whose raw finding
    is gone, and broken entries that were set aside.

    Raises
    ------
    InfrastructureError
        If the folder itself cannot be read.
    """
    problems: list[Problem] = []
    for folder in (corpus.findings, corpus.raw):
        for found in scan_folders(folder, checksums=True):
            if isinstance(found, Problem):
                problems.append(found)
            else:
                problems.extend(chain(_strays(found), _dangling(corpus, found)))
    problems.extend(_set_aside(corpus))
    return problems


def _strays(entry: Entry) -> Iterator[Problem]:
    with durable.explained("read", entry.path):
        for path in sorted(entry.path.iterdir()):
            if path.name != DESCRIPTION and path.name not in entry.finding.files:
                yield Problem(
                    path=path,
                    cause=Cause.STRANGE,
                    sentence=f"{path}: the finding's {DESCRIPTION} does not list it, and merging "
                    "and exporting leave it out; move it out of the corpus",
                )


def _dangling(corpus: Corpus, entry: Entry) -> Iterator[Problem]:
    raw = entry.finding.shrunk_from
    if raw is not None and corpus.sound(raw) is None:
        yield Problem(
            path=entry.path,
            cause=Cause.DANGLING,
            sentence=f"{entry.path}: the raw finding {raw} that it was shrunk from is not there; "
            "merge a corpus that has it, or leave it: the smaller form is whole",
        )


def _set_aside(corpus: Corpus) -> Iterator[Problem]:
    folder = corpus.path / BROKEN
    with durable.explained("read", folder):
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            yield Problem(
                path=path,
                cause=Cause.STRANGE,
                sentence=f"{path}: a broken entry, set aside when the same finding was stored "
                "again; remove it when nobody needs it",
            )
