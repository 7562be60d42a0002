"""Campaigns, and the command line."""

from __future__ import annotations

from functools import cache

UNKNOWN = "not installed"
"""In place of a version where the packages lie in a folder on PYTHONPATH, without metadata."""


@cache
def warpfuzz_version() -> str:
    """Return the version of the installed distribution, or `UNKNOWN`."""
    # Late: it takes longer than all else until an interrupt is quiet.
    from importlib import metadata

    try:
        return metadata.version("warpfuzz")
    except metadata.PackageNotFoundError:
        return UNKNOWN
