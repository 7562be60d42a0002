"""Whichever call fails or is the last one, a corpus opens, and loses nothing that it reported."""

import errno
import os
import signal
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from corpus_faults import (
    DEEDS,
    ERRORS,
    FILES,
    Calls,
    Deed,
    case,
    failing,
    forked,
    killed_at,
    known_texts,
    prepare,
    shown,
)

from corpus import Corpus, create_corpus, open_corpus
from oracle.errors import InfrastructureError, UsageError

FOR_GOOD = 10**9


def undisturbed(deed: Deed) -> tuple[int, dict[str, bytes], dict[str, bytes]]:
    """How many calls a deed takes, and what the corpus shows before and after it."""
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as monkeypatch:
        path = prepare(Path(name), deed)
        before = shown(open_corpus(path)) if path.exists() else {}
        calls = Calls(at=lambda count, name: None)
        calls.install(monkeypatch)
        deed.do(path)
        monkeypatch.undo()
        return calls.count, before, shown(open_corpus(path))


def check(path: Path, deed: Deed, before: dict[str, bytes], after: dict[str, bytes]) -> None:
    """The corpus holds what it held, or what it shall hold, and the deed can be done again."""
    try:
        corpus = open_corpus(path)
    except UsageError:
        assert deed.name == "create", "a corpus that was there does not open"
    else:
        found = shown(corpus)
        assert found.keys() <= before.keys() | after.keys() | {_raw(corpus)}
        if deed.name != "prune":
            assert before.keys() <= {entry.id for entry in corpus.sound_entries()}
        assert after.keys() & before.keys() <= found.keys()
        assert (path / "corpus.json").stat().st_size > 0
    deed.do(path)
    create_corpus(path, generator="test")
    corpus = open_corpus(path)
    assert shown(corpus) == after
    assert [one for one in corpus.findings.iterdir() if one.name.startswith(".")] == []


def _raw(corpus: Corpus) -> str:
    # Shown between being added and being replaced, by the deed that does both.
    return next((entry.id for entry in corpus.entries() if entry.finding.text == case(7).text), "")


every_call = pytest.mark.parametrize(
    "every",
    [5, pytest.param(1, marks=pytest.mark.slow)],
    ids=["some calls", "every call"],
)

# The errors differ in what is said and not in what is done, so that one deed shows that.
TROUBLES = [(deed, "full disk") for deed in DEEDS] + [
    (deed, error) for deed in DEEDS if deed.name == "add" for error in ERRORS
]


@every_call
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize(("deed", "error"), TROUBLES, ids=lambda one: getattr(one, "name", one))
def test_whichever_call_fails_is_a_sentence_and_loses_nothing(
    deed: Deed, error: str, lasting: bool, every: int
) -> None:
    count, before, after = undisturbed(deed)
    said: list[str] = []
    tried = range(1, count + 1, every)
    for first in tried:
        with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as monkeypatch:
            path = prepare(Path(name), deed)
            last = FOR_GOOD if lasting else first
            Calls(at=failing(first, last, ERRORS[error])).install(monkeypatch)
            try:
                deed.do(path)
            except InfrastructureError as error_said:
                said.append(str(error_said))
            monkeypatch.undo()
            check(path, deed, before, after)
    assert len(said) > len(tried) // 3, "the faults were not felt"
    assert all("cannot " in sentence and "; " in sentence for sentence in said)


@every_call
@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.name)
def test_killed_before_whichever_call_a_corpus_loses_nothing(deed: Deed, every: int) -> None:
    count, before, after = undisturbed(deed)
    for call in range(1, count + 1, every):
        with TemporaryDirectory() as name:
            path = prepare(Path(name), deed)

            def act(path: Path = path, call: int = call) -> None:
                Calls(at=killed_at(call)).install(pytest.MonkeyPatch())
                deed.do(path)

            assert os.waitpid(forked(act), 0)[1] == signal.SIGKILL
            check(path, deed, before, after)


def test_a_read_only_corpus_is_read_and_refuses_to_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = create_corpus(tmp_path, generator="test").add(case(1), FILES)
    Calls(at=failing_unless_reading).install(monkeypatch)
    assert [entry.id for entry in open_corpus(tmp_path).entries()] == [saved.id]
    assert open_corpus(tmp_path).add(case(1), FILES).new is False
    with pytest.raises(InfrastructureError, match="read-only; name a folder that can be written"):
        create_corpus(tmp_path, generator="test")
    with pytest.raises(InfrastructureError, match="read-only"):
        open_corpus(tmp_path).add(case(2), FILES)


def failing_unless_reading(count: int, name: str) -> None:
    if name not in ("open", "fsync"):
        raise OSError(errno.EROFS, "Read-only file system")


def test_a_disk_that_takes_a_byte_at_a_time_gets_every_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = create_corpus(tmp_path, generator="test")
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, bytes(data)[:1]))
    saved = corpus.add(case(1), FILES)
    assert corpus.get(saved.id).files() == FILES


def test_everything_is_flushed_before_it_is_named_and_named_before_it_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a power cut leaves cannot be tried here; the order of the calls decides it.
    corpus = create_corpus(tmp_path, generator="test")
    events: list[tuple[str, str]] = []
    real_write, real_rename = os.write, os.rename

    def name_of(descriptor: int) -> str:
        return str(Path(f"/proc/self/fd/{descriptor}").readlink())

    def fsync(descriptor: int) -> None:
        events.append(("flush", name_of(descriptor)))

    def write(descriptor: int, data: bytes) -> int:
        events.append(("write", name_of(descriptor)))
        return real_write(descriptor, data)

    def rename(source: Path, target: Path) -> None:
        events.append(("rename", str(source)))
        real_rename(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "write", write)
    monkeypatch.setattr(os, "rename", rename)
    corpus.add(case(1), FILES)
    (at,) = [index for index, (what, _) in enumerate(events) if what == "rename"]
    temporary = events[at][1]
    written = {path for what, path in events if what == "write"}
    flushed_before = {path for what, path in events[:at] if what == "flush"}
    assert len(written) == len(FILES) + 1
    assert written | {temporary} <= flushed_before
    assert events[-1] == ("flush", str(corpus.findings))
    assert at < len(events) - 1


def test_two_campaigns_and_a_tidy_one_share_a_corpus(tmp_path: Path) -> None:
    create_corpus(tmp_path, generator="test")
    numbers = range(25)

    def campaign(order: range) -> None:
        corpus = create_corpus(tmp_path, generator="test")
        for number in order:
            raw = corpus.add(case(number), FILES)
            corpus.replace(raw.id, case(number, small=True), FILES)
            with corpus.exclusively():
                corpus.settle()

    child = forked(lambda: campaign(numbers))
    campaign(numbers[::-1])
    assert os.waitpid(child, 0)[1] == 0
    corpus = open_corpus(tmp_path)
    assert len(shown(corpus)) == len(numbers)
    assert {entry.finding.text for entry in corpus.entries()} == {
        case(number, small=True).text for number in numbers
    }
    texts = {case(number, small=small).text for number in numbers for small in (False, True)}
    assert known_texts(corpus) == texts
