"""The version of warpfuzz."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

UNKNOWN = "not installed"
"""In place of a version where the packages lie in a folder on PYTHONPATH, without metadata."""


@cache
def warpfuzz_version() -> str:
    """Return the version of the installed distribution, or `UNKNOWN`."""
    try:
        return version("warpfuzz")
    except PackageNotFoundError:
        return UNKNOWN
