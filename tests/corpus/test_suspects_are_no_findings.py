"""What differed once and was not run again is stored, and is no finding."""

import json
from pathlib import Path

import msgspec
import pytest
from corpus_cases import CASE, FILES, changed, new_corpus

from corpus import Kind, Making
from corpus.finding import decode


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
    assert finding.keys == (document["family"]["key"],)
