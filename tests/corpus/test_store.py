"""A corpus gives back what it was given, once."""

from pathlib import Path

import msgspec
import pytest

from corpus import Case, Family, Kind, create_corpus, open_corpus
from oracle.errors import UsageError

CASE = Case(
    kind=Kind.ACCEPTED,
    family=Family(key="wmma.load .b8", title="wmma.load takes .b8"),
    instructions=("wmma.load.a.sync.aligned.row.m16n16k16.b8 {%r0, %r1}, [%addr];",),
    target="sm_90",
    ptx_version="8.0",
)


def test_what_was_added_is_read_back(tmp_path: Path) -> None:
    corpus = create_corpus(tmp_path / "corpus", generator="test")
    saved = corpus.add(CASE, {"module.ptx": b"text"})
    entry = open_corpus(tmp_path / "corpus").get(saved.id[:3])
    assert entry.files() == {"module.ptx": b"text"}
    assert entry.finding.text == CASE.text


def test_the_smaller_form_replaces_the_raw_one(tmp_path: Path) -> None:
    corpus = create_corpus(tmp_path / "corpus", generator="test")
    raw = corpus.add(CASE, {})
    small = corpus.replace(raw.id, msgspec.structs.replace(CASE, instructions=("wmma.load;",)), {})
    assert [entry.id for entry in corpus.entries()] == [small.id]
    assert corpus.get(raw.id).finding.shrunk_to == small.id
    assert corpus.add(CASE, {}).id == small.id


def test_an_unknown_id_is_said(tmp_path: Path) -> None:
    corpus = create_corpus(tmp_path / "corpus", generator="test")
    with pytest.raises(UsageError, match="no finding whose id starts with 'abc'"):
        corpus.get("abc")
