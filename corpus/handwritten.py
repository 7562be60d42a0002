"""Cases that a person wrote: a folder with `case.json` and a PTX module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from corpus import durable
from corpus.durable import read_plain
from corpus.entry import DESCRIPTION
from corpus.finding import Case, Kind, explain, read_document
from corpus.problems import BrokenEntryError
from corpus.store import Corpus, Saved
from oracle.errors import UsageError
from oracle.statements import directives, matrix_instructions, without_comments

_MODULE = "module.ptx"
CASE_FILE = "case.json"
"""Name of the file that describes the case."""

_CASE_BYTES = 16 << 20
"""Most bytes of all files of a case together."""


def import_case(corpus: Corpus, folder: Path) -> Saved:
    """Store a case that a person wrote. Raises as `read_case`, or if it cannot be written."""
    return corpus.add(*read_case(folder))


def read_case(folder: Path) -> tuple[Case, dict[str, bytes]]:
    """Read a case that a person wrote, and its files.

    `case.json` holds the fields of `corpus.finding.Case`; only `kind` has to be there.
    `instructions`, `target` and `ptx_version` are taken from the module and the family from the
    first instruction's opcode, if they are left out. All other files of the folder belong to the
    case.

    Parameters
    ----------
    folder
        The case.

    Raises
    ------
    UsageError
        If the folder is not such a case.
    InfrastructureError
        If it cannot be read.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise UsageError(f"{folder} {what}; name a folder that has a {CASE_FILE} and a PTX module")
    with durable.explained("read", folder):
        contents = _contents(folder)
    path = folder / CASE_FILE
    if CASE_FILE not in contents:
        raise UsageError(
            f"{folder} has no {CASE_FILE}; write one, with at least "
            f'{{"kind": "{Kind.VIOLATION}"}} (a folder with a {DESCRIPTION} is a stored finding: '
            "merge its corpus)"
        )
    try:
        document = read_document(contents.pop(CASE_FILE), path)
        fields = {**_from_module(folder, contents), **document}
        if missing := [name for name in ("family", "instructions") if name not in fields]:
            raise UsageError(
                f"{path}: the module has no matrix instruction to call the case after; write "
                f'{" and ".join(missing)} there, such as {{"family": {{"key": "copy", '
                '"title": "copy"}, "instructions": ["ld.global.u32", "st.global.u32"]}'
            )
        case = msgspec.convert(fields, Case)
    except BrokenEntryError as error:
        raise UsageError(str(error)) from error
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{path}: {explain(error)}; its fields are {', '.join(Case.__struct_fields__)}"
        ) from error
    if _MODULE not in contents:
        # What is replayed and reproduced has this name.
        (name, *_) = (name for name in contents if name.endswith(".ptx"))
        contents[_MODULE] = contents.pop(name)
    return case, contents


def _contents(folder: Path) -> dict[str, bytes]:
    contents = {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_symlink() or not path.is_file():
            raise UsageError(f"{path} is not a plain file; a case is a folder of plain files")
        contents[path.name] = read_plain(path, most=_CASE_BYTES)
        if sum(map(len, contents.values())) > _CASE_BYTES:
            raise UsageError(
                f"{folder} has more than {_CASE_BYTES >> 20} MiB; a case is a module, its inputs "
                "and a description"
            )
    return contents


def _from_module(folder: Path, contents: dict[str, bytes]) -> dict[str, Any]:
    modules = [name for name in contents if name.endswith(".ptx")]
    if not modules:
        raise UsageError(f"{folder} has no PTX module; put the module there, as module.ptx, say")
    text = without_comments(contents[modules[0]].decode(errors="replace"))
    found: dict[str, Any] = {}
    instructions = [instruction for _, instruction in matrix_instructions(text)]
    if instructions:
        opcode = instructions[0].split()[0]
        found["instructions"] = instructions
        found["family"] = {"key": opcode, "title": opcode}
    named = zip(("target", "ptx_version"), directives(text), strict=True)
    return found | {field: value for field, value in named if value is not None}
