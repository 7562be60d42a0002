"""The packages in a folder on PYTHONPATH, without the metadata of an installation."""

from __future__ import annotations

import importlib.metadata

import pytest

from fuzz import UNKNOWN, warpfuzz_version
from fuzz.commands.corpus import generator


def test_what_is_not_installed_has_a_version_to_show(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    warpfuzz_version.cache_clear()
    try:
        assert generator() == f"warpfuzz {UNKNOWN}"
    finally:
        warpfuzz_version.cache_clear()
