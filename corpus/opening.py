"""Opening a corpus or one of its findings by name, making a corpus, and the record that ships.

`corpus/record` has findings of many campaigns and is a corpus like any other. `answers.json` in it
holds, for every finding of an assembler, the answer of each version of ptxas that was asked, at -O3
and as `ask` of `fuzz.findings.stored` puts it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from corpus import durable
from corpus.durable import DESCRIPTION_BYTES, check_folder, read_plain
from corpus.entry import DESCRIPTION, Entry, read_entry
from corpus.finding import BrokenEntryError, explain, read_document
from corpus.store import BROKEN, FINDINGS, RAW, Corpus
from oracle.errors import InfrastructureError, UsageError

MANIFEST = "corpus.json"
LAYOUT = 1
"""Version of the folder's layout, which `corpus.json` names."""

_MAY_BE_THERE = ("readme", "license")


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
        if not folder.is_dir():
            raise UsageError(f"{folder} is a file, and a corpus is a folder; name the folder")
    with durable.explained("open", folder / MANIFEST):
        try:
            data = read_plain(folder / MANIFEST, most=DESCRIPTION_BYTES)
        except FileNotFoundError:
            raise UsageError(
                f"{folder} is no corpus: it has no {MANIFEST}; name the folder that has it"
            ) from None
    for name in (FINDINGS, RAW, BROKEN):
        with durable.explained("open", folder / name):
            check_folder(folder / name)
    return Corpus(folder, _read_manifest(data, folder / MANIFEST).generator)


def create_corpus(path: Path | str, *, generator: str) -> Corpus:
    """Open a corpus to write to it, made if it is not there; the writing is tried.

    Parameters
    ----------
    path
        Its folder: a corpus, an empty folder, or one that does not exist.
    generator
        What makes it, such as "warpfuzz 0.1.0"; kept only where it is made.
    """
    folder = Path(path)
    with durable.explained("write to", folder):
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder} is a file, and a corpus is a folder; name another one")
        if not os.path.lexists(folder / MANIFEST):
            _make(folder, generator)
    open_corpus(folder)
    with durable.explained("write to", folder):
        durable.make_folder(folder / FINDINGS)
        durable.sweep(folder / FINDINGS)
        with durable.workspace(folder / FINDINGS) as probe:
            durable.write_file(probe / "probe", b"can this be written?\n")
    return open_corpus(folder)


def manifest(generator: str) -> bytes:
    """Return the contents of `corpus.json`."""
    row = _Manifest(schema=LAYOUT, generator=generator)
    return msgspec.json.format(msgspec.json.encode(row, order="sorted"), indent=2) + b"\n"


def _make(folder: Path, generator: str) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    durable.make_folder(folder)
    foreign = [
        child.name
        for child in folder.iterdir()
        if child.name not in (FINDINGS, RAW, BROKEN)
        and not child.name.startswith(".")
        and not child.name.lower().startswith(_MAY_BE_THERE)
    ]
    if foreign:
        raise UsageError(
            f"{folder} is no corpus, and not empty ({', '.join(sorted(foreign)[:3])}…); name an "
            "empty folder or one that does not exist"
        )
    durable.make_folder(folder / FINDINGS)
    durable.replace_file(folder / MANIFEST, manifest(generator), folder / FINDINGS)


def _read_manifest(data: bytes, path: Path) -> _Manifest:
    remedy = "restore it from a backup, or remove it: the next campaign writes it anew"
    try:
        row = msgspec.convert(read_document(data, path), _Manifest)
    except (msgspec.ValidationError, BrokenEntryError) as error:
        raise InfrastructureError(f"{path} is broken ({explain(error)}); {remedy}") from error
    if row.schema > LAYOUT:
        raise InfrastructureError(
            f"{path}: a later warpfuzz made this corpus (schema {row.schema}; this one knows "
            f"{LAYOUT}); upgrade warpfuzz, or name another folder"
        )
    return row


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


class Answers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What versions of ptxas said of the findings of a record."""

    asked: tuple[str, ...]
    """Full versions, such as "13.5.37", oldest first."""
    answers: Mapping[str, tuple[str | None, ...]]
    """By a finding's id, one for each version: "accepted", "crash"; None if it was not asked."""

    def of(self, identity: str) -> tuple[str | None, ...]:
        """Return the answers about a finding; none where no assembler was asked."""
        return self.answers.get(identity, ())

    def spans(self, identity: str) -> str:
        """Return the answers with the releases that gave them: "crash 12.3; rejected 12.4–13.5"."""
        told: list[tuple[str, list[str]]] = []
        for version, answer in zip(self.asked, self.of(identity), strict=False):
            if answer is None:
                continue
            release = version.rpartition(".")[0]
            if not told or told[-1][0] != answer:
                told.append((answer, []))
            told[-1][1].append(release)
        return "; ".join(
            f"{answer} {'–'.join(dict.fromkeys((releases[0], releases[-1])))}"
            for answer, releases in told
        )

    def latest(self, identity: str) -> tuple[str, str] | None:
        """Return the newest version that was asked about a finding, and its answer."""
        told = [pair for pair in zip(self.asked, self.of(identity), strict=False) if pair[1]]
        return (told[-1][0], told[-1][1] or "") if told else None


def read_answers(folder: Path = FOLDER) -> Answers:
    """Return the answers of a record."""
    path = folder / ANSWERS
    try:
        return msgspec.json.decode(path.read_bytes(), type=Answers)
    except (OSError, msgspec.DecodeError) as error:
        raise InfrastructureError(
            f"{path} cannot be read ({error}); install warpfuzz anew"
        ) from error


def write_answers(answers: Answers, folder: Path) -> None:
    """Write the answers of a record, a line for each finding."""
    encode = msgspec.json.encode
    rows = ",\n".join(
        f"{encode(identity).decode()}: {encode(told).decode()}"
        for identity, told in sorted(answers.answers.items())
    )
    asked = encode(answers.asked).decode()
    text = f'{{\n"asked": {asked},\n"answers": {{\n{rows}\n}}\n}}\n'
    (folder / ANSWERS).write_text(text)
