"""Tests of the corpus flush nothing: that is for power cuts, which no test can make."""

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def _quick_disk() -> Iterator[None]:
    # Where flushing stands in the order of things is tested in tests/meta/corpus.
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(os, "fsync", lambda descriptor: None)
        yield
