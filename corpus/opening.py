"""Opening a corpus or one of its findings by name, making a corpus, and the record that ships.

`corpus/record` has findings of many campaigns and is a corpus like any other. `answers.json` in it
holds, for every finding of an assembler, the answer of each version of ptxas that was asked, at -O3
and as `ask` of `fuzz.findings.stored` puts it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Annotated

import msgspec

from corpus import durable
from corpus.durable import DESCRIPTION_BYTES, read_plain
from corpus.entry import DESCRIPTION, Entry, read_entry
from corpus.finding import BrokenEntryError, explain, read_document
from corpus.store import BROKEN, FINDINGS, RAW, Corpus
from oracle.errors import InfrastructureError, UsageError

MANIFEST = "corpus.json"
LAYOUT = 1
"""Version of the folder's layout, which `corpus.json` names."""


class _Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of `corpus.json`; fields that are not known are left to later versions."""

    schema: Annotated[int, msgspec.Meta(ge=1, le=2**31)]
    generator: Annotated[str, msgspec.Meta(max_length=200)]


def open_corpus(path: Path | str) -> Corpus:
    """Open a corpus that is there, without writing anything; UsageError if there is none."""
    folder = Path(path)
    with durable.explained("open", folder):
        if not folder.exists():
            raise UsageError(
                f"there is no folder {folder}; name a corpus, such as the folder given to "
                "`warpfuzz run --corpus FOLDER`"
            )
        _check_folder(folder)
    file = folder / MANIFEST
    with durable.explained("open", file):
        try:
            data = read_plain(file, most=DESCRIPTION_BYTES)
        except FileNotFoundError:
            raise UsageError(
                f"{folder} is no corpus: it has no {MANIFEST}; name the folder that has it"
            ) from None
    for name in (FINDINGS, RAW, BROKEN):
        with durable.explained("open", folder / name):
            durable.is_folder(folder / name)
    try:
        row = msgspec.convert(read_document(data, file), _Manifest)
    except (msgspec.ValidationError, BrokenEntryError) as error:
        raise InfrastructureError(
            f"{file} is broken ({explain(error)}); restore it from a backup, or remove it: the "
            "next campaign writes it anew"
        ) from error
    if row.schema > LAYOUT:
        raise InfrastructureError(
            f"{file}: a later warpfuzz made this corpus (schema {row.schema}; this one knows "
            f"{LAYOUT}); upgrade warpfuzz, or name another folder"
        )
    return Corpus(folder, row.generator)


def create_corpus(path: Path | str, *, generator: str) -> Corpus:
    """Open a corpus to write to it; the writing is tried.

    Where it does not exist, or is an empty folder, it is made, by a `generator` such as "warpfuzz
    0.1.0", which is kept.
    """
    folder = Path(path)
    with durable.explained("write to", folder):
        if folder.exists():
            _check_folder(folder)
        if not os.path.lexists(folder / MANIFEST):
            folder.parent.mkdir(parents=True, exist_ok=True)
            durable.make_folder(folder)
            ours = (FINDINGS, RAW, BROKEN)
            foreign = sorted(
                child.name
                for child in folder.iterdir()
                if child.name not in ours
                and not child.name.lower().startswith((".", "readme", "license"))
            )
            if foreign:
                raise UsageError(
                    f"{folder} is no corpus, and not empty ({', '.join(foreign[:3])}…); name an "
                    "empty folder or one that does not exist"
                )
            durable.make_folder(folder / FINDINGS)
            durable.replace_file(folder / MANIFEST, manifest(generator), folder / FINDINGS)
    opened = open_corpus(folder)
    with durable.explained("write to", folder):
        durable.make_folder(opened.findings)
        durable.sweep(opened.findings)
        with durable.workspace(opened.findings) as probe:
            durable.write_file(probe / "probe", b"can this be written?\n")
    return opened


def _check_folder(path: Path) -> None:
    if not path.is_dir():
        raise UsageError(f"{path} is a file, and a corpus is a folder; name the folder")


def manifest(generator: str) -> bytes:
    """Return the contents of `corpus.json`."""
    row = _Manifest(schema=LAYOUT, generator=generator)
    return msgspec.json.format(msgspec.json.encode(row, order="sorted"), indent=2) + b"\n"


ANSWERS = "answers.json"
FOLDER = Path(__file__).with_name("record")
"""The record's folder, a corpus."""
RECORD = "record"
"""The word that names the record that ships, where no folder of that name is."""


def is_record(path: Path) -> bool:
    """Whether a path names the record that ships."""
    return str(path) == RECORD and not path.exists()


def named_corpus(path: Path) -> Corpus:
    """Open a corpus to read it: a folder, or the record that ships."""
    if not is_record(path):
        return open_corpus(path)
    if not (FOLDER / MANIFEST).is_file():
        raise UsageError(
            f"the record is not there: {FOLDER} is no corpus; install warpfuzz whole, or name the "
            "folder of a corpus"
        )
    return open_corpus(FOLDER)


def named_entry(name: str, corpus: Path) -> Entry:
    """Return a finding by its folder, or by the start of its id in a corpus."""
    folder = Path(name)
    if (folder / DESCRIPTION).exists():
        return read_entry(folder.resolve())
    if folder.is_file():
        raise UsageError(f"{name} is a file; name the folder of a finding, which holds it")
    if folder.is_dir():
        advice = "`warpfuzz corpus list` shows what a corpus holds"
        if (folder / FINDINGS).is_dir():
            advice = f"it is a corpus, so name a folder in {folder / FINDINGS}"
        raise UsageError(f"{name} is no folder of a finding: it has no {DESCRIPTION}; {advice}")
    if not corpus.exists() and not is_record(corpus):
        raise UsageError(
            f"there is no folder {name}, and no corpus {corpus} to look for such a finding in; "
            "give the folder of a finding, or its id and --corpus"
        )
    return named_corpus(corpus).get(name)


class Answers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What versions of ptxas said of the findings of a record."""

    asked: tuple[str, ...]  # full versions, such as "13.5.37", oldest first
    answers: Mapping[str, tuple[str | None, ...]]
    """By a finding's id, one for each version: "accepted", "crash"; None if it was not asked."""

    def of(self, identity: str) -> list[tuple[str, str]]:
        """Return versions with their answers about a finding, of those that were asked."""
        told = zip(self.asked, self.answers.get(identity, ()), strict=False)
        return [(version, answer) for version, answer in told if answer is not None]

    def spans(self, identity: str) -> str:
        """Return the answers with the releases that gave them: "crash 12.3; rejected 12.4–13.5"."""
        spans = []
        for answer, told in groupby(self.of(identity), key=itemgetter(1)):
            releases = [version.rpartition(".")[0] for version, _ in told]
            spans.append(f"{answer} {'–'.join(dict.fromkeys((releases[0], releases[-1])))}")
        return "; ".join(spans)


def read_answers(folder: Path = FOLDER) -> Answers:
    """Return the answers of a record."""
    path = folder / ANSWERS
    try:
        return msgspec.json.decode(path.read_bytes(), type=Answers)
    except (OSError, msgspec.DecodeError) as error:
        raise InfrastructureError(
            f"{path} cannot be read ({error}); install warpfuzz anew"
        ) from error
