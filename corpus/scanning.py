"""Reading a folder of findings, past those that are broken."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from corpus import durable
from corpus.entry import Entry, is_id, read_entry
from corpus.plain_files import check_folder
from corpus.problems import BrokenEntryError, Cause, Problem


def ids_in(folder: Path) -> list[str]:
    """Return the ids of the findings in a folder, sound or not; none where it does not exist.

    Raises
    ------
    InfrastructureError
        If it cannot be read.
    """
    return sorted(child.name for child in _children(folder) if is_id(child.name))


def scan_folders(*folders: Path, checksums: bool) -> Iterator[Entry | Problem]:
    """Yield every finding in some folders, by id, or what is wrong with it.

    Parameters
    ----------
    folders
        Such as `findings/`; where one does not exist, there are none. A finding that is sound in
        an earlier one is left out of the later ones.
    checksums
        Whether the contents of the files are checked, and not only their size.

    Raises
    ------
    InfrastructureError
        If a folder itself cannot be read.
    """
    paths = [path for folder in folders for path in _children(folder)]
    last = ""
    # Sorting is stable: among equal names, the earlier folder comes first.
    for path in sorted(paths, key=lambda path: path.name):
        if not is_id(path.name):
            problem = _stranger(path)
            if problem is not None:
                yield problem
        elif path.name != last:
            try:
                entry = read_entry(path, checksums=checksums)
            except BrokenEntryError as error:
                # Gone in the meantime: pruned, or replaced by its smaller form.
                if os.path.lexists(path):
                    yield error.problem
            else:
                last = path.name
                yield entry


def _children(folder: Path) -> list[Path]:
    with durable.explained("read", folder):
        check_folder(folder)
        try:
            return list(folder.iterdir())
        except FileNotFoundError:
            return []


def _stranger(path: Path) -> Problem | None:
    if path.name.startswith(durable.TEMPORARY):
        if not durable.is_abandoned(path):
            return None
        return Problem(
            path=path,
            cause=Cause.LEFTOVER,
            sentence=f"{path}: half written when its campaign was killed; it is nothing that was "
            "reported as saved, and the next campaign in this corpus removes it",
        )
    if path.name.startswith("."):
        return None
    return Problem(
        path=path,
        cause=Cause.STRANGE,
        sentence=f"{path}: no finding has this name; move it out of the corpus, or import it if "
        "it is a case written by hand",
    )
