"""Whatever happened to an entry is a sentence, and never more than that entry."""

import errno
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from corpus_cases import CASE, FILES, changed, new_corpus, only_folder, tree
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus import BrokenEntryError, Cause, Corpus, Entry, Problem, durable
from corpus.finding import SCHEMA, decode
from corpus.upkeep import verify
from oracle.errors import InfrastructureError


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
        for length in range(len(data) - (name == "finding.json")):
            path.write_bytes(data[:length])
            assert only_problem(whole).cause in (Cause.MALFORMED, Cause.CHANGED_FILE)
            with pytest.raises(BrokenEntryError):
                whole.get(only_folder(whole).name)
    finally:
        path.write_bytes(data)


@pytest.mark.parametrize("name", ["finding.json", *FILES])
@settings(deadline=None, max_examples=150)
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


def made_a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("")


def in_place_of(name: str, make: Callable[[Path], object]) -> Callable[[Path], object]:
    def do(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return do


HARMS: list[tuple[str, Callable[[Path], object], Cause, str]] = [
    (
        "no description",
        lambda folder: (folder / "finding.json").unlink(),
        Cause.NO_DESCRIPTION,
        "the file is not there",
    ),
    (
        "a file is gone",
        lambda folder: (folder / "module.ptx").unlink(),
        Cause.MISSING_FILE,
        r"module\.ptx: the file is not there",
    ),
    (
        "a folder in place of a file",
        in_place_of("module.ptx", Path.mkdir),
        Cause.STRANGE,
        "not a plain file",
    ),
    ("a link out of it", linked, Cause.STRANGE, "not a plain file"),
    (
        "a pipe in place of the description",
        in_place_of("finding.json", os.mkfifo),
        Cause.STRANGE,
        "not a plain file",
    ),
    (
        "renamed",
        lambda folder: folder.rename(folder.parent / ("0" * 16)),
        Cause.MISNAMED,
        "not the id",
    ),
    (
        "the instruction edited",
        replaced("wmma.load.a", "wmma.load.b"),
        Cause.MISNAMED,
        "it was edited",
    ),
    (
        "a later schema",
        replaced(f'"schema": {SCHEMA}', f'"schema": {SCHEMA + 1}'),
        Cause.NEWER,
        "upgrade warpfuzz",
    ),
    ("no schema", replaced('"schema"', '"scheme"'), Cause.INVALID, "schema is None"),
    (
        "schema no number",
        replaced(f'"schema": {SCHEMA}', '"schema": true'),
        Cause.INVALID,
        "schema is True",
    ),
    (
        "an unknown field",
        replaced('"comment"', '"remark"'),
        Cause.INVALID,
        "unknown field `remark`",
    ),
    (
        "an unknown kind",
        replaced(f'"{CASE.kind}"', '"miracle"'),
        Cause.INVALID,
        "'miracle' in field kind",
    ),
    ("a wrong type", replaced('"seed": 7', '"seed": "7"'), Cause.INVALID, "in field origin.seed"),
    (
        "a name that leads out",
        replaced('"module.ptx"', '"../../corpus.json"'),
        Cause.INVALID,
        "no plain file name",
    ),
    (
        "a list",
        lambda folder: (folder / "finding.json").write_text("[]"),
        Cause.INVALID,
        "JSON object",
    ),
    (
        "brackets without end",
        lambda folder: (folder / "finding.json").write_text("[" * 100_000),
        Cause.MALFORMED,
        "not whole JSON",
    ),
    (
        "Latin-1",
        lambda folder: (folder / "finding.json").write_bytes(b'{"comment": "\xe9"}'),
        Cause.MALFORMED,
        "not whole JSON",
    ),
    ("a file in place of the entry", made_a_file, Cause.NO_DESCRIPTION, "the file is not there"),
    (
        "a name that is no id",
        lambda folder: folder.rename(folder.parent / "my-finding"),
        Cause.STRANGE,
        "no finding has this name",
    ),
    (
        "half written",
        lambda folder: folder.rename(folder.parent / ".tmp-0123456789abcdef"),
        Cause.LEFTOVER,
        "half written when its campaign was killed",
    ),
]


@pytest.mark.parametrize(
    ("do", "cause", "says"), [row[1:] for row in HARMS], ids=[row[0] for row in HARMS]
)
def test_each_harm_has_its_sentence_and_leaves_the_others_alone(
    do: Callable[[Path], object], cause: Cause, says: str, tmp_path: Path
) -> None:
    corpus = new_corpus(tmp_path)
    do(corpus.add(CASE, FILES).path)
    problem = only_problem(corpus)
    assert problem.cause is cause
    assert re.search(says, problem.sentence)
    other = corpus.add(changed(CASE, target="sm_80"), FILES)
    reports: list[Problem] = []
    assert [entry.id for entry in corpus.entries(reports.append)] == [other.id]
    assert reports == [problem]
    assert problem in verify(corpus)


def test_a_file_that_may_not_be_read_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = new_corpus(tmp_path)
    corpus.add(CASE, FILES)

    def refuse(path: Path, *, most: int) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("corpus.entry.read_plain", refuse)
    problem = only_problem(corpus)
    assert problem.cause is Cause.UNREADABLE
    assert "Permission denied" in problem.sentence


def test_a_quick_scan_sees_files_that_are_gone_or_cut_off(whole: Corpus, tmp_path: Path) -> None:
    harms: list[Callable[[Path], object]] = [Path.unlink, lambda path: path.write_bytes(b"")]
    for harm in harms:
        corpus = Corpus(tmp_path / "copy", "test")
        shutil.copytree(whole.path, corpus.path)
        harm(only_folder(corpus) / "images.npy")
        (found,) = corpus.scan(checksums=False)
        assert isinstance(found, Problem)
        shutil.rmtree(corpus.path)


def test_what_is_being_written_is_no_problem(tmp_path: Path) -> None:
    corpus = new_corpus(tmp_path)
    with durable.workspace(corpus.findings):
        assert list(corpus.scan()) == []


def test_an_entry_that_goes_while_it_is_read_is_no_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = new_corpus(tmp_path)
    entry = corpus.get(corpus.add(CASE, FILES).id)
    lstat = Path.lstat

    def removed_before(self: Path) -> os.stat_result:
        monkeypatch.undo()
        corpus.remove(entry)
        return lstat(self)

    monkeypatch.setattr(Path, "lstat", removed_before)
    assert list(corpus.scan()) == []


def test_a_file_that_changes_after_it_was_listed_is_not_handed_out(tmp_path: Path) -> None:
    corpus = new_corpus(tmp_path)
    entry = corpus.get(corpus.add(CASE, FILES).id)
    (entry.path / "module.ptx").write_bytes(b"other")
    with pytest.raises(InfrastructureError, match="cut off or changed"):
        entry.read("module.ptx")


def test_verifying_names_files_that_nobody_listed(tmp_path: Path) -> None:
    corpus = new_corpus(tmp_path)
    saved = corpus.add(CASE, FILES)
    assert verify(corpus) == []
    (saved.path / "notes.txt").write_text("mine")
    (problem,) = verify(corpus)
    assert problem.path == saved.path / "notes.txt"
    assert "does not list it" in problem.sentence


def test_verifying_names_a_raw_finding_that_is_gone(tmp_path: Path) -> None:
    corpus = new_corpus(tmp_path)
    raw = corpus.add(CASE, FILES)
    small = corpus.replace(raw.id, changed(CASE, instructions=("wmma.load;",)), {})
    assert verify(corpus) == []
    shutil.rmtree(corpus.raw / raw.id)
    (problem,) = verify(corpus)
    assert (problem.cause, problem.path) == (Cause.DANGLING, small.path)


def test_verifying_names_what_was_set_aside(tmp_path: Path) -> None:
    corpus = new_corpus(tmp_path)
    saved = corpus.add(CASE, FILES)
    (saved.path / "module.ptx").unlink()
    corpus.add(CASE, FILES)
    (problem,) = verify(corpus)
    assert problem.path.parent.name == "broken"


def test_verifying_changes_nothing(tmp_path: Path) -> None:
    corpus = new_corpus(tmp_path)
    corpus.add(CASE, FILES)
    (corpus.findings / ".tmp-0").mkdir()
    before = tree(corpus)
    verify(corpus)
    assert tree(corpus) == before
    assert (corpus.findings / ".tmp-0").is_dir()


def test_line_ends_that_a_tool_has_changed_are_named(tmp_path: Path) -> None:
    corpus = new_corpus(tmp_path)
    corpus.add(CASE, FILES)
    path = only_folder(corpus) / "module.ptx"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    (problem,) = corpus.scan()
    assert isinstance(problem, Problem)
    assert "core.autocrlf" in problem.sentence


def test_a_file_that_may_not_become_so_large_is_said(tmp_path: Path) -> None:
    """The kernel says the same of what is written as warpfuzz of what is read."""
    with (
        pytest.raises(InfrastructureError, match=r"may not become so large; .*ulimit -f"),
        durable.explained("write", tmp_path),
    ):
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
