"""Whatever happened to an entry is a sentence, and never more than that entry."""

import errno
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True, kw_only=True)
class Harm:
    """Something done to the folder of an entry, and what is said of it."""

    name: str
    do: Callable[[Path], object]
    cause: Cause
    says: str


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


HARMS = [
    Harm(
        name="no description",
        do=lambda folder: (folder / "finding.json").unlink(),
        cause=Cause.NO_DESCRIPTION,
        says="the file is not there",
    ),
    Harm(
        name="a file is gone",
        do=lambda folder: (folder / "module.ptx").unlink(),
        cause=Cause.MISSING_FILE,
        says=r"module\.ptx: the file is not there",
    ),
    Harm(
        name="a folder in place of a file",
        do=in_place_of("module.ptx", Path.mkdir),
        cause=Cause.STRANGE,
        says="not a plain file",
    ),
    Harm(name="a link out of it", do=linked, cause=Cause.STRANGE, says="not a plain file"),
    Harm(
        name="a pipe in place of the description",
        do=in_place_of("finding.json", os.mkfifo),
        cause=Cause.STRANGE,
        says="not a plain file",
    ),
    Harm(
        name="renamed",
        do=lambda folder: folder.rename(folder.parent / ("0" * 16)),
        cause=Cause.MISNAMED,
        says="not the id",
    ),
    Harm(
        name="the instruction edited",
        do=replaced("wmma.load.a", "wmma.load.b"),
        cause=Cause.MISNAMED,
        says="it was edited",
    ),
    Harm(
        name="a later schema",
        do=replaced(f'"schema": {SCHEMA}', f'"schema": {SCHEMA + 1}'),
        cause=Cause.NEWER,
        says="upgrade warpfuzz",
    ),
    Harm(
        name="no schema",
        do=replaced('"schema"', '"scheme"'),
        cause=Cause.INVALID,
        says="schema is None",
    ),
    Harm(
        name="schema no number",
        do=replaced(f'"schema": {SCHEMA}', '"schema": true'),
        cause=Cause.INVALID,
        says="schema is True",
    ),
    Harm(
        name="an unknown field",
        do=replaced('"comment"', '"remark"'),
        cause=Cause.INVALID,
        says="unknown field `remark`",
    ),
    Harm(
        name="an unknown kind",
        do=replaced(f'"{CASE.kind}"', '"miracle"'),
        cause=Cause.INVALID,
        says="'miracle' in field kind",
    ),
    Harm(
        name="a wrong type",
        do=replaced('"seed": 7', '"seed": "7"'),
        cause=Cause.INVALID,
        says="in field origin.seed",
    ),
    Harm(
        name="a name that leads out",
        do=replaced('"module.ptx"', '"../../corpus.json"'),
        cause=Cause.INVALID,
        says="no plain file name",
    ),
    Harm(
        name="a list",
        do=lambda folder: (folder / "finding.json").write_text("[]"),
        cause=Cause.INVALID,
        says="JSON object",
    ),
    Harm(
        name="brackets without end",
        do=lambda folder: (folder / "finding.json").write_text("[" * 100_000),
        cause=Cause.MALFORMED,
        says="not whole JSON",
    ),
    Harm(
        name="Latin-1",
        do=lambda folder: (folder / "finding.json").write_bytes(b'{"comment": "\xe9"}'),
        cause=Cause.MALFORMED,
        says="not whole JSON",
    ),
    Harm(
        name="a file in place of the entry",
        do=made_a_file,
        cause=Cause.NO_DESCRIPTION,
        says="the file is not there",
    ),
    Harm(
        name="a name that is no id",
        do=lambda folder: folder.rename(folder.parent / "my-finding"),
        cause=Cause.STRANGE,
        says="no finding has this name",
    ),
    Harm(
        name="half written",
        do=lambda folder: folder.rename(folder.parent / ".tmp-0123456789abcdef"),
        cause=Cause.LEFTOVER,
        says="half written when its campaign was killed",
    ),
]


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.name)
def test_each_harm_has_its_sentence_and_leaves_the_others_alone(harm: Harm, tmp_path: Path) -> None:
    corpus = new_corpus(tmp_path)
    harm.do(corpus.add(CASE, FILES).path)
    problem = only_problem(corpus)
    assert problem.cause is harm.cause
    assert re.search(harm.says, problem.sentence)
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
