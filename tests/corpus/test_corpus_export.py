"""What is exported is the same bytes each time, and comes in again."""

import json
import zipfile
from pathlib import Path

from corpus_cases import CASE, FILES, changed, new_corpus, tree

from corpus import Corpus, open_corpus
from corpus.exchange import export_zip, json_lines, merge


def two_findings(folder: Path) -> Corpus:
    corpus = new_corpus(folder)
    raw = corpus.add(CASE, FILES)
    corpus.replace(raw.id, changed(CASE, instructions=("wmma.load;",)), FILES)
    corpus.add(changed(CASE, target="sm_80"), {})
    return corpus


def test_the_same_findings_are_the_same_bytes(tmp_path: Path) -> None:
    one, two = two_findings(tmp_path / "1"), two_findings(tmp_path / "2")
    export_zip(one, one.entries(), tmp_path / "1.zip")
    export_zip(two, reversed(list(two.entries())), tmp_path / "2.zip")
    assert (tmp_path / "1.zip").read_bytes() == (tmp_path / "2.zip").read_bytes()


def test_an_unpacked_export_is_a_corpus_with_the_raw_findings(tmp_path: Path) -> None:
    corpus = two_findings(tmp_path)
    export_zip(corpus, corpus.entries(), tmp_path / "all.zip")
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        archive.extractall(tmp_path / "unpacked")
    unpacked = open_corpus(tmp_path / "unpacked")
    assert tree(unpacked) == tree(corpus)
    merged = new_corpus(tmp_path / "merged")
    merge(merged, [unpacked])
    assert tree(merged) == tree(corpus)


def test_an_export_holds_only_what_was_chosen(tmp_path: Path) -> None:
    corpus = two_findings(tmp_path)
    chosen = [entry for entry in corpus.entries() if entry.finding.target == "sm_80"]
    export_zip(corpus, chosen, tmp_path / "one.zip")
    names = zipfile.ZipFile(tmp_path / "one.zip").namelist()
    assert names == ["corpus.json", f"findings/{chosen[0].id}/finding.json"]


def test_each_finding_is_one_line_of_json(tmp_path: Path) -> None:
    corpus = two_findings(tmp_path)
    entries = list(corpus.entries())
    lines = list(json_lines(entries))
    assert not any("\n" in line for line in lines)
    for line, entry in zip(lines, entries, strict=True):
        assert json.loads(line) == json.loads((entry.path / "finding.json").read_text())


def test_an_export_names_no_time_and_compresses_nothing(tmp_path: Path) -> None:
    corpus = two_findings(tmp_path)
    export_zip(corpus, corpus.entries(), tmp_path / "all.zip")
    with zipfile.ZipFile(tmp_path / "all.zip") as file:
        found = {(one.date_time, one.compress_type) for one in file.infolist()}
    assert found == {((1980, 1, 1, 0, 0, 0), zipfile.ZIP_STORED)}
