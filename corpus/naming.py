"""The corpus or the finding that a person names on the command line."""

from __future__ import annotations

from pathlib import Path

from corpus.entry import DESCRIPTION, Entry, read_entry
from corpus.opening import MANIFEST, open_corpus
from corpus.recorded import FOLDER
from corpus.store import FINDINGS, Corpus
from oracle.errors import UsageError

RECORD = "record"
"""The word that names the record that ships, where no folder of that name is."""


def is_record(path: Path) -> bool:
    """Whether a path names the record that ships."""
    return str(path) == RECORD and not path.exists()


def named_corpus(path: Path) -> Corpus:
    """Open a corpus to read it: a folder, or the record that ships.

    Raises
    ------
    UsageError, InfrastructureError
        As `open_corpus`.
    """
    if not is_record(path):
        return open_corpus(path)
    if not (FOLDER / MANIFEST).is_file():
        raise UsageError(
            f"the record is not there: {FOLDER} is no corpus; install warpfuzz whole, or name the "
            "folder of a corpus"
        )
    return open_corpus(FOLDER)


def named_entry(name: str, corpus: Path) -> Entry:
    """Return a finding by its folder, or by the start of its id in a corpus.

    Parameters
    ----------
    name
        The folder, or the start of the id.
    corpus
        Where ids are looked for; as `named_corpus` takes it.

    Raises
    ------
    UsageError, BrokenEntryError
        If there is none, there are several, or it is broken.
    """
    folder = Path(name)
    if (folder / DESCRIPTION).exists():
        return read_entry(folder.resolve())
    if folder.is_file():
        raise UsageError(f"{name} is a file; name the folder of a finding, which holds it")
    if folder.is_dir():
        inside = folder / FINDINGS
        advice = (
            f"it is a corpus, so name a folder in {inside}"
            if inside.is_dir()
            else "`warpfuzz corpus list` shows what a corpus holds"
        )
        raise UsageError(f"{name} is no folder of a finding: it has no {DESCRIPTION}; {advice}")
    if not corpus.exists() and not is_record(corpus):
        raise UsageError(
            f"there is no folder {name}, and no corpus {corpus} to look for such a finding in; "
            "give the folder of a finding, or its id and --corpus"
        )
    return named_corpus(corpus).get(name)
