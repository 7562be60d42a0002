"""`finding.json` as text: one schema version in every file, and a way up from the older ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from corpus.finding import Finding
from corpus.problems import BrokenEntryError, Cause
from oracle.errors import UsageError

SCHEMA = 2
"""Version of `finding.json` that this module writes."""

Document = dict[str, Any]
_SAID = 300
"""Most characters of a decoder's message."""


def _from_1(document: Document) -> Document:
    # Schema 1 held one instruction; programs have several. The id of a single one is the same.
    rest = {key: value for key, value in document.items() if key != "instruction"}
    return {**rest, "instructions": [document["instruction"]]}


MIGRATIONS: Mapping[int, Callable[[Document], Document]] = {1: _from_1}
"""From a schema version to the next one."""


def encode(finding: Finding) -> bytes:
    """Return `finding.json`: indented, keys sorted, a newline at the end.

    Raises
    ------
    UsageError
        If the finding is not what the schema allows.
    """
    try:
        document = {"schema": SCHEMA, **msgspec.to_builtins(finding)}
        data = msgspec.json.format(msgspec.json.encode(document, order="sorted"), indent=2)
        # A struct's constructor does not check types. What is written has to be what is read.
        stored = msgspec.convert(_without_schema(msgspec.json.decode(data)), Finding)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"this finding cannot be stored: {explain(error)}") from error
    if stored != finding:
        raise UsageError(
            "this finding cannot be stored: it reads back differently from what was given; give "
            "plain text, finite numbers and UTC times without fractions of a second"
        )
    return data + b"\n"


def decode(data: bytes, path: Path) -> Finding:
    """Return the finding that a `finding.json` of any known schema describes.

    Parameters
    ----------
    data
        Contents of the file.
    path
        Its name, for the message.

    Raises
    ------
    BrokenEntryError
        If it is no JSON, not what its schema asks for, or of a later schema.
    """
    document = read_document(data, path)
    version = document.get("schema")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise BrokenEntryError(
            path,
            Cause.INVALID,
            f"its field schema is {version!r:.80} and not a version number",
            "restore it from a backup, or remove the folder",
        )
    if version > SCHEMA:
        raise BrokenEntryError(
            path,
            Cause.NEWER,
            f"it was written in schema {version!r:.80}, and this warpfuzz knows {SCHEMA} and older",
            "upgrade warpfuzz",
        )
    try:
        for step in range(version, SCHEMA):
            document = MIGRATIONS[step](document)
        return msgspec.convert(_without_schema(document), Finding)
    except (msgspec.ValidationError, LookupError, TypeError, AttributeError) as error:
        raise BrokenEntryError(
            path,
            Cause.INVALID,
            f"it is not what schema {version} asks for: {explain(error)}",
            "restore it from a backup, or remove the folder",
        ) from error


def read_document(data: bytes, path: Path) -> Document:
    """Return the JSON object that a file holds.

    Raises
    ------
    BrokenEntryError
        If it does not hold one.
    """
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BrokenEntryError(
            path,
            Cause.MALFORMED,
            f"it is not whole JSON: {explain(error)}",
            "restore it from a backup, or remove the folder",
        ) from error
    if not isinstance(document, dict):
        raise BrokenEntryError(
            path,
            Cause.INVALID,
            "it does not hold a JSON object",
            "restore it from a backup, or remove the folder",
        )
    return document


def explain(error: Exception) -> str:
    """Return a decoder's message with its field in words; names out of the file are cut."""
    what, mark, where = str(error).rpartition(" - at `$.")
    said = f"{what} in field {where.rstrip('`')}" if mark else str(error)
    return said if len(said) <= _SAID else f"{said[:_SAID]}…"


def _without_schema(document: Document) -> Document:
    return {key: value for key, value in document.items() if key != "schema"}
