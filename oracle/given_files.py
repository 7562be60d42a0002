"""Reads files that a user names, with bounds on size and time, and writes values of TOML."""

from __future__ import annotations

import errno
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

from oracle.errors import UsageError

GIVEN_BYTES = 64 << 20
"""Most bytes of a module or a list of instructions: a million of them."""
TOML_BYTES = 1 << 20
"""Most bytes of a model or a list of known discrepancies; those that ship have 5 KB to 40 KB."""

_KEY = rb"""(?:(?<![\w-])[\w-]++|"[^"\n]{0,80}"|'[^'\n]{0,80}')"""
"""Part of a key. One that is long is looked at from its first letter alone, not from each."""
_LONG_KEY = re.compile(rb"(?:" + _KEY + rb"[ \t]*\.[ \t]*){64}")
"""A key of so many parts, for which `tomllib` takes the square of the time."""


def read_given(path: Path, *, most: int = GIVEN_BYTES) -> bytes:
    """Return a file that the user named; OSError: EFBIG, or ENXIO of a pipe that would wait."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        # One of a shell, such as /dev/stdin, leads to no name.
        if stat.S_ISFIFO(found.st_mode) and path.resolve().exists():
            raise OSError(errno.ENXIO, "it is a pipe", str(path))
        os.set_blocking(file.fileno(), True)
        # As much as there is, where that is known: all that is asked for is allocated at once.
        data = b"" if found.st_size > most else file.read((found.st_size or most) + 1)
    if max(found.st_size, len(data)) > most:
        raise OSError(errno.EFBIG, "it is larger than any file of this kind", str(path))
    return data


def read_named(path: Path, what: str, *, most: int = TOML_BYTES) -> bytes:
    """Return a file that the user named as a `what`, "kernel"; UsageError says why it cannot be."""
    try:
        return read_given(path, most=most)
    except OSError as error:
        raise UsageError(f"the {what} {path} cannot be read: {reason_of(error)}") from None


def read_text(path: Path, what: str) -> str:
    """Return such a file as text."""
    try:
        return read_named(path, what, most=GIVEN_BYTES).decode()
    except UnicodeDecodeError:
        raise UsageError(f"the {what} {path} is no text in UTF-8") from None


def parse_toml(data: bytes, name: str) -> dict[str, Any]:
    """Return what a TOML text says; UsageError if it is none, or as nobody writes it."""
    try:
        if _LONG_KEY.search(data):
            raise ValueError("a key has more than 64 parts")
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise UsageError(f"{name} is not TOML: it is no text in UTF-8; correct the file") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not TOML: {error!s:.300}; correct the file") from None


def toml_of(value: object) -> str:
    """Return a text, a number, a list or a dictionary as TOML 1.0 writes it, in one line."""
    match value:
        case str():
            text = value.encode(errors="replace").decode().replace("\\", "\\\\").replace('"', '\\"')
            return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08X}" for c in text) + '"'
        case list() | tuple():
            return f"[{', '.join(map(toml_of, value))}]"
        case dict():
            return f"{{ {', '.join(f'{name} = {toml_of(one)}' for name, one in value.items())} }}"
    return str(value)


def reason_of(error: OSError) -> str:
    """Return why a file that a user named cannot be read, as a part of a sentence."""
    folder = isinstance(error, IsADirectoryError)
    return "it is a folder" if folder else error.strerror or str(error)
