"""Whatever happened to an entry is a sentence, and never more than that entry."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from corpus_cases import CASE, FILES, changed, new_corpus, only_folder
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus import BrokenEntryError, Cause, Corpus, Entry, Problem, durable
from corpus.exchange import verify
from corpus.finding import SCHEMA, decode


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    corpus = new_corpus(tmp_path_factory.mktemp("whole"))
    corpus.add(CASE, FILES)
    return corpus


def only_problem(corpus: Corpus) -> Problem:
    (problem,) = corpus.scan()
    assert isinstance(problem, Problem)
    assert str(problem.path) in problem.sentence
    assert "; " in problem.sentence, "it does not say what to do"
    return problem


@pytest.mark.parametrize("name", ["finding.json", *FILES])
def test_every_truncation_of_every_file_is_reported(name: str, whole: Corpus) -> None:
    path = only_folder(whole) / name
    data = path.read_bytes()
    try:
        # All but the last newline of finding.json, without which it means the same.
        for length in range(0, len(data) - (name == "finding.json"), 7):
            path.write_bytes(data[:length])
            assert only_problem(whole).cause in (Cause.MALFORMED, Cause.CHANGED_FILE)
            with pytest.raises(BrokenEntryError):
                whole.get(only_folder(whole).name)
    finally:
        path.write_bytes(data)


@pytest.mark.parametrize("name", ["finding.json", *FILES])
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_changed_bytes_are_reported_or_change_nothing_that_identifies(
    name: str, whole: Corpus, data: st.DataObject
) -> None:
    path = only_folder(whole) / name
    before = path.read_bytes()
    at = data.draw(st.integers(0, len(before) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != before[at]))
    try:
        path.write_bytes(before[:at] + bytes([other]) + before[at + 1 :])
        (found,) = whole.scan()
        if name in FILES:
            assert isinstance(found, Problem)
            assert found.cause is Cause.CHANGED_FILE
        elif isinstance(found, Entry):
            # A letter of the family, say: no harm to what the finding is.
            assert found.id == only_folder(whole).name
            assert found.files() == FILES
    finally:
        path.write_bytes(before)


@settings(max_examples=300)
@given(data=st.binary(max_size=200))
def test_no_bytes_at_all_raise_anything_but_a_sentence(data: bytes) -> None:
    with pytest.raises(BrokenEntryError, match=r"finding\.json: .*; "):
        decode(data, Path("finding.json"))


def replaced(old: str, new: str) -> Callable[[Path], object]:
    def do(folder: Path) -> None:
        path = folder / "finding.json"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return do


def linked(folder: Path) -> None:
    outside = folder.parent.parent / "module.ptx"
    (folder / "module.ptx").rename(outside)
    (folder / "module.ptx").symlink_to(outside)


def linked_whole(folder: Path) -> None:
    outside = folder.parent.parent / folder.name
    folder.rename(outside)
    folder.symlink_to(outside)


def made_a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("")


def in_place_of(name: str, make: Callable[[Path], object]) -> Callable[[Path], object]:
    def do(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return do


def renamed(name: str) -> Callable[[Path], object]:
    return lambda folder: folder.rename(folder.parent / name)


def described(text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "finding.json").write_text(text, "latin-1")


def line_ends(folder: Path) -> None:
    path = folder / "module.ptx"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


HARMS: list[tuple[str, Callable[[Path], object], Cause]] = [
    ("no description", lambda at: (at / "finding.json").unlink(), Cause.NO_DESCRIPTION),
    ("a file in place of the entry", made_a_file, Cause.NO_DESCRIPTION),
    ("a file is gone", lambda at: (at / "module.ptx").unlink(), Cause.MISSING_FILE),
    ("other line ends", line_ends, Cause.CHANGED_FILE),
    ("a folder in place of a file", in_place_of("module.ptx", Path.mkdir), Cause.STRANGE),
    ("a link out of it", linked, Cause.STRANGE),
    ("a pipe", in_place_of("finding.json", os.mkfifo), Cause.STRANGE),
    ("renamed", renamed("0" * 16), Cause.MISNAMED),
    ("edited", replaced("wmma.load.a", "wmma.load.b"), Cause.MISNAMED),
    ("later", replaced(f'"schema": {SCHEMA}', f'"schema": {SCHEMA + 1}'), Cause.NEWER),
    ("no schema", replaced('"schema"', '"scheme"'), Cause.INVALID),
    ("schema no number", replaced(f'"schema": {SCHEMA}', '"schema": true'), Cause.INVALID),
    ("an unknown field", replaced('"comment"', '"remark"'), Cause.INVALID),
    ("an unknown kind", replaced(f'"{CASE.kind}"', '"miracle"'), Cause.INVALID),
    ("a wrong type", replaced('"seed": 7', '"seed": "7"'), Cause.INVALID),
    ("a name that leads out", replaced('"module.ptx"', '"../../corpus.json"'), Cause.INVALID),
    ("a link in place of the entry", linked_whole, Cause.STRANGE),
    ("a list", described("[]"), Cause.INVALID),
    ("brackets without end", described("[" * 100_000), Cause.MALFORMED),
    ("Latin-1", described('{"comment": "\xe9"}'), Cause.MALFORMED),
    ("a name that is no id", renamed("my-finding"), Cause.STRANGE),
]


@pytest.mark.parametrize(("name", "do", "cause"), HARMS, ids=[row[0] for row in HARMS])
def test_each_harm_has_its_sentence_and_leaves_the_others_alone(
    name: str, do: Callable[[Path], object], cause: Cause, corpus: Corpus
) -> None:
    do(corpus.add(CASE, FILES).path)
    problem = only_problem(corpus)
    assert problem.cause is cause
    other = corpus.add(changed(CASE, target="sm_80"), FILES)
    reports: list[Problem] = []
    assert [entry.id for entry in corpus.entries(reports.append)] == [other.id]
    assert reports == [problem]
    before = sorted(corpus.path.rglob("*"))
    assert problem in verify(corpus)
    assert sorted(corpus.path.rglob("*")) == before


def test_verifying_names_what_a_scan_does_not(corpus: Corpus) -> None:
    raw = corpus.add(CASE, FILES)
    small = corpus.replace(raw.id, changed(CASE, instructions=("wmma.load;",)), FILES)
    assert list(verify(corpus)) == []
    (small.path / "notes.txt").write_text("mine")
    (corpus.path / "broken" / "0123").mkdir(parents=True)
    assert [(one.cause, one.path) for one in verify(corpus)] == [
        (Cause.STRANGE, small.path / "notes.txt"),
        (Cause.STRANGE, corpus.path / "broken" / "0123"),
    ]


def test_a_file_that_may_not_be_read_is_reported(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.add(CASE, FILES)

    def refuse(path: Path, *, most: int) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("corpus.store.read_plain", refuse)
    problem = only_problem(corpus)
    assert problem.cause is Cause.UNREADABLE
    assert "Permission denied" in problem.sentence


def test_what_is_being_written_is_no_problem(corpus: Corpus) -> None:
    with durable.workspace(corpus.findings):
        assert list(corpus.scan()) == []


def test_an_entry_that_goes_while_it_is_read_is_no_problem(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = corpus.get(corpus.add(CASE, FILES).id)
    lstat = Path.lstat

    def removed_before(self: Path) -> os.stat_result:
        monkeypatch.undo()
        corpus.remove(entry)
        return lstat(self)

    monkeypatch.setattr(Path, "lstat", removed_before)
    assert list(corpus.scan()) == []
