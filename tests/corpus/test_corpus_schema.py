"""Entries of every schema that there was are read, and merging brings them up to date."""

import json
from pathlib import Path

import pytest
from corpus_cases import new_corpus

from corpus import BrokenEntryError, Corpus, Kind, open_corpus
from corpus.exchange import merge, verify
from corpus.finding import SCHEMA, decode

# Written by the commit that had schema 1: its assembler is made up, its format was real.
OLDER = Path(__file__).parent / "data" / "schema1"
RAW, SMALL = "15170bf8de96c11e", "c6f4e9e244240aef"


def test_an_entry_of_schema_1_keeps_its_id_and_gets_a_list_of_instructions() -> None:
    corpus = open_corpus(OLDER)
    assert list(verify(corpus)) == []
    (entry,) = corpus.entries()
    assert entry.id == SMALL
    assert entry.finding.kind is Kind.ACCEPTED
    assert entry.finding.shrunk_from == RAW
    stored = json.loads((entry.path / "finding.json").read_text())
    assert (stored["schema"], "instructions" in stored) == (1, False)
    assert entry.finding.instructions == (stored["instruction"],)
    assert corpus.get(RAW).finding.shrunk_to == SMALL


def test_merging_writes_older_entries_in_this_schema(tmp_path: Path) -> None:
    corpus: Corpus = new_corpus(tmp_path)
    assert len(merge(corpus, [open_corpus(OLDER)])[0]) == 2
    for path in corpus.path.rglob("finding.json"):
        assert json.loads(path.read_text())["schema"] == SCHEMA
    assert list(verify(corpus)) == []


def test_an_older_entry_without_its_fields_is_a_sentence() -> None:
    with pytest.raises(BrokenEntryError, match="not what schema 1 asks for"):
        decode(b'{"schema": 1}', Path("finding.json"))
