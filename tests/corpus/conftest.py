"""An empty corpus for each test that wants one."""

from pathlib import Path

import pytest
from corpus_cases import new_corpus

from corpus import Corpus


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return new_corpus(tmp_path)
