"""A folder is a corpus, becomes one, or is refused with a sentence."""

from pathlib import Path

import pytest
from corpus_cases import CASE, FILES, new_corpus, settle, tree

from corpus import Corpus, create_corpus, durable, open_corpus
from oracle.errors import InfrastructureError, UsageError


def test_opening_again_keeps_everything(corpus: Corpus) -> None:
    corpus.add(CASE, FILES)
    before = tree(corpus)
    again = create_corpus(corpus.path, generator="a later one")
    assert (tree(again), again.generator) == (before, "test")


def test_a_corpus_without_its_empty_folders_works(corpus: Corpus) -> None:
    # As git leaves it: empty folders are not cloned.
    corpus.findings.rmdir()
    opened = open_corpus(corpus.path)
    assert list(opened.scan()) == []
    settle(opened)
    assert opened.add(CASE, FILES).new


def test_a_folder_of_other_things_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(UsageError, match=r"not empty \(thesis\.tex…\); name an empty folder"):
        create_corpus(tmp_path, generator="test")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file, and a corpus is a folder"):
        create_corpus(tmp_path / "file", generator="test")
    with pytest.raises(UsageError, match="file is no corpus"):
        open_corpus(tmp_path / "file")
    with pytest.raises(InfrastructureError, match="a file is in the way"):
        create_corpus(tmp_path / "file" / "corpus", generator="test")


def test_what_is_no_corpus_is_not_opened(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UsageError, match=r"is no corpus: there is no corpus\.json"):
            open_corpus(folder)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema": "1", "generator": ""}'])
def test_a_broken_manifest_is_said(text: str, corpus: Corpus) -> None:
    (corpus.path / "corpus.json").write_text(text)
    for opening in (open_corpus, lambda path: create_corpus(path, generator="test")):
        with pytest.raises(InfrastructureError, match=r"corpus\.json is broken .*remove it"):
            opening(corpus.path)


def test_a_corpus_of_a_later_layout_is_left_alone(corpus: Corpus) -> None:
    (corpus.path / "corpus.json").write_text('{"schema": 2, "generator": "x", "new": 1}')
    with pytest.raises(InfrastructureError, match="a later warpfuzz made this corpus"):
        open_corpus(corpus.path)


def test_what_a_killed_campaign_left_is_removed_and_what_a_living_one_writes_is_not(
    corpus: Corpus,
) -> None:
    left = corpus.findings / ".tmp-0123456789abcdef"
    left.mkdir()
    (left / "module.ptx").write_text("half")
    with durable.workspace(corpus.findings) as living:
        create_corpus(corpus.path, generator="test")
        assert (left.exists(), living.exists()) == (False, True)


def test_a_lock_that_is_not_released_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "LOCK_SECONDS", 0.05)
    corpus = new_corpus(tmp_path)
    with corpus.exclusively():
        with pytest.raises(InfrastructureError, match="another process keeps it locked; wait"):
            settle(open_corpus(corpus.path))
        assert corpus.add(CASE, FILES).new
