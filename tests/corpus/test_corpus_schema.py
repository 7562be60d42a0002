"""Entries of every schema that there was are read, and merging brings them up to date."""

import json
from pathlib import Path

import msgspec
import pytest
from corpus_cases import CASE, FILES, changed, new_corpus

from corpus import BrokenEntryError, Corpus, Kind, Making, open_corpus
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


@pytest.mark.parametrize(
    ("runs", "shrink", "kind", "suspected"),
    [
        (1, "raw", Kind.VIOLATION, True),
        (3, "raw", Kind.VIOLATION, False),
        (1, "complete", Kind.VIOLATION, False),
        (1, "raw", Kind.HANG, False),
    ],
)
def test_a_finding_of_schema_2_was_a_suspect_if_it_ran_once(
    runs: int, shrink: str, kind: Kind, suspected: bool, tmp_path: Path
) -> None:
    corpus = new_corpus(tmp_path)
    entry = corpus.get(corpus.add(changed(CASE, kind=kind), FILES).id)
    document = msgspec.to_builtins(entry.finding)
    for name in ("identity", "key", "made", "suspected"):
        del document[name]
    document |= {
        "schema": 2,
        "family": {"key": f"{kind}/wmma.mma of f16/other result/only V13.5.37 -O3", "title": "t"},
        "shrink": shrink,
        "details": {"runs": runs, "runner": "sim", "opt": 3, "faults": "a b", "rate": 1.0},
    }
    finding = decode(json.dumps(document).encode(), tmp_path)
    assert finding.suspected is suspected
    assert finding.made == Making(runner="sim", level=3, faults=("a", "b"))
    assert finding.details == {"runs": runs, "rate": 1.0}
    assert finding.identity.text == f"{kind.failure} | wmma.mma of f16"
    assert finding.key == document["family"]["key"]


def test_failures_of_values_share_a_name_and_all_others_have_their_own() -> None:
    shared = {kind for kind in Kind if kind.failure != kind.value}
    assert shared == {Kind.DEVIATION, Kind.VIOLATION, Kind.FLAKY}
