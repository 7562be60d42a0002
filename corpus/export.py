"""Findings on their way to somebody else: one file, the same bytes for the same findings."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from corpus import durable
from corpus.entry import DESCRIPTION, Entry
from corpus.opening import MANIFEST, manifest
from corpus.schema import encode
from corpus.store import FINDINGS, RAW, Corpus

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a ZIP file can name (APPNOTE.TXT, 4.4.6)."""


def export_zip(corpus: Corpus, entries: Iterable[Entry], path: Path) -> None:
    """Write findings, and the raw ones that they were shrunk from, as a corpus in a ZIP file.

    Unpacked, it is a corpus to open or to merge. Nothing is compressed, because what a
    compressor writes depends on its version; times and owners are left out.

    Parameters
    ----------
    corpus
        The corpus that they are in.
    entries
        The findings, in any order.
    path
        The file; replaced as a whole if it is there.

    Raises
    ------
    InfrastructureError
        If a finding cannot be read, or the file not be written.
    """
    chosen = {entry.id: (FINDINGS, entry) for entry in entries}
    for entry in [entry for _, entry in chosen.values()]:
        origin = entry.finding.shrunk_from
        while origin is not None and origin not in chosen:
            raw = corpus.sound(origin)
            if raw is None:
                break
            chosen[origin] = RAW, raw
            origin = raw.finding.shrunk_from
    with durable.explained("write", path), durable.workspace(path.parent) as temporary:
        fresh = temporary / path.name
        with zipfile.ZipFile(fresh, "x", zipfile.ZIP_STORED) as archive:
            _write(archive, MANIFEST, manifest(corpus.generator))
            # One finding after the other, so that memory does not grow with the corpus.
            for _, (folder, entry) in sorted(chosen.items(), key=lambda one: (one[1][0], one[0])):
                place = f"{folder}/{entry.id}"
                contents = {DESCRIPTION: encode(entry.finding), **entry.files()}
                for name, data in sorted(contents.items()):
                    _write(archive, f"{place}/{name}", data)
        durable.sync_file(fresh)
        fresh.replace(path)
        durable.sync_folder(path.parent)


def _write(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    member = zipfile.ZipInfo(name, _EPOCH)
    member.create_system = 3  # Unix, wherever it is made (APPNOTE.TXT, 4.4.2)
    member.external_attr = 0o644 << 16
    archive.writestr(member, data)


def json_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the description of each finding as one line of JSON, without the line's end."""
    for entry in entries:
        yield msgspec.json.format(encode(entry.finding), indent=-1).decode()
