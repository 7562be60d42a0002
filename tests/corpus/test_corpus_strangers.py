"""A corpus from anybody: nothing in it leads out, is read without bound, or ends in a traceback."""

import os
import shutil
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise, product
from pathlib import Path

import msgspec
import pytest
from corpus_cases import CASE, FILES, changed, new_corpus, only_folder, replaced

from corpus import Corpus, Problem, create_corpus, durable, open_corpus
from corpus.durable import FILE_BYTES
from corpus.exchange import DIRECTORY_BYTES, merge, opened_archive, prune, read_case
from corpus.finding import encode
from corpus.programs import unpack
from oracle.errors import InfrastructureError, UsageError, WarpfuzzError


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A folder outside of the corpus, which nothing may touch."""
    folder = tmp_path / "precious"
    (folder / "inner").mkdir(parents=True)
    (folder / "thesis.txt").write_text("years of work")
    (folder / "inner" / "data").write_text("more")
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {str(path): path.read_text() for path in folder.rglob("*") if path.is_file()}


def used(path: Path) -> None:
    """Do everything with a corpus that changes it."""
    for act in (
        lambda: merge(create_corpus(path, generator="test"), [open_corpus(path)]),
        lambda: prune(open_corpus(path)),
        lambda: create_corpus(path, generator="test").add(changed(CASE, target="sm_75"), FILES),
        lambda: create_corpus(path, generator="test").replace(
            only_id(path), changed(CASE, instructions=("w;",)), FILES
        ),
    ):
        with suppress(WarpfuzzError):
            act()


def only_id(path: Path) -> str:
    return next(iter(open_corpus(path).entries())).id


@pytest.mark.parametrize("name", ["findings/.tmp-0123456789abcdef", "findings", "raw", "broken"])
def test_a_link_in_a_corpus_is_not_followed(name: str, corpus: Corpus, precious: Path) -> None:
    corpus.add(CASE, FILES)
    place = corpus.path / name
    if place.exists():
        shutil.rmtree(place)
    place.symlink_to(precious)
    before = contents(precious)
    used(corpus.path)
    assert contents(precious) == before
    assert sorted(path.name for path in precious.iterdir()) == ["inner", "thesis.txt"]


@pytest.mark.parametrize("name", ["findings", "raw", "broken"])
def test_a_link_in_place_of_a_folder_is_named(name: str, corpus: Corpus, precious: Path) -> None:
    shutil.rmtree(corpus.path / name, ignore_errors=True)
    (corpus.path / name).symlink_to(precious)
    with pytest.raises(InfrastructureError, match=f"{name}: a link is there"):
        open_corpus(corpus.path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(FILE_BYTES * 100)


@pytest.mark.parametrize("name", ["finding.json", "module.ptx", "images.npy"])
@pytest.mark.parametrize("put", [os.mkfifo, endless, sparse, Path.mkdir])
def test_what_is_no_plain_file_of_bounded_size_is_a_problem(
    name: str, put: Callable[[Path], None], corpus: Corpus
) -> None:
    corpus.add(CASE, FILES)
    path = only_folder(corpus) / name
    path.unlink()
    put(path)
    (problem,) = corpus.scan()
    assert isinstance(problem, Problem)
    assert str(path) in problem.sentence


@pytest.mark.parametrize("put", [os.mkfifo, endless, sparse, Path.mkdir])
def test_a_manifest_that_is_no_plain_file_is_said(
    put: Callable[[Path], None], corpus: Corpus
) -> None:
    (corpus.path / "corpus.json").unlink()
    put(corpus.path / "corpus.json")
    for opened in (open_corpus, lambda path: create_corpus(path, generator="test")):
        with pytest.raises(InfrastructureError, match=r"corpus\.json: (it is|a link)"):
            opened(corpus.path)


DIGITS = "1" * 5000


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"sm_90"', f'"sm_{DIGITS}"'),
        ('"sm_90"', '"sm_90\\n"'),
        ('"8.0"', f'"8.{DIGITS}"'),
        ('"complexity": 0', f'"complexity": {DIGITS}'),
        ('"complexity": 0', f'"complexity": {10**30}'),
        ('"replays": 3', f'"replays": {10**30}'),
        ('"seed": 7', f'"seed": {10**30}'),
        ('"schema": 3', f'"schema": {10**30}'),
        ('"schema": 3', '"schema": "' + "x" * 10_000 + '"'),
        ('"comment": ""', '"' + "x" * 10_000 + '": ""'),
        ('"comment": ""', '"comment": ' + "[" * 100_000),
    ],
)
def test_a_value_out_of_bounds_is_a_short_sentence(old: str, new: str, corpus: Corpus) -> None:
    corpus.add(CASE, FILES)
    path = only_folder(corpus) / "finding.json"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    (problem,) = corpus.scan()
    assert isinstance(problem, Problem)
    assert len(problem.sentence) < 1000


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


@pytest.mark.parametrize(
    "data",
    [
        npy("{'descr': '|u1', 'fortran_order': False, 'shape': (-1,), }", bytes(4)),
        npy("{'descr': '|u1', 'fortran_order': False, 'shape': (999999999999,), }"),
        npy("{'descr': '|u1', 'fortran_order': False, 'shape': (0, 999999999, 999999999), }"),
        npy("{'descr': '|u1', 'fortran_order': False, 'shape': 4, }", bytes(4)),
        npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 2), }", bytes(4)),
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", bytes(8)),
        npy("{'descr': '|V4', 'fortran_order': False, 'shape': (1,), }", bytes(4)),
        npy("{'descr': [('a', '|u1')], 'fortran_order': False, 'shape': (1,), }", bytes(1)),
        npy("(" * 100),
        npy("{'descr': '|u1', 'fortran_order': False, 'shape': (" + "1, " * 70 + "), }", bytes(1)),
    ],
)
def test_a_header_that_no_array_of_ours_has_is_refused(data: bytes, corpus: Corpus) -> None:
    entry = corpus.get(corpus.add(CASE, {**FILES, "images.npy": data}).id)
    with pytest.raises(InfrastructureError, match="holds no array"):
        unpack(entry, "images.npy")


def test_a_chain_of_many_findings_is_walked_once(corpus: Corpus) -> None:
    saved = [corpus.add(changed(CASE, complexity=at, target=f"sm_{at}"), {}) for at in range(60)]
    for one, following in pairwise(saved):
        entry = corpus.get(one.id)
        linked = msgspec.structs.replace(
            entry.finding, shrunk_to=following.id, shrunk_from=saved[0].id
        )
        (entry.path / "finding.json").write_bytes(encode(linked))
    started = time.thread_time()
    assert [entry.id for entry in corpus.entries()] == [saved[-1].id]
    seconds = time.thread_time() - started
    assert len(list(replaced(corpus))) == 59
    assert seconds < 0.5, "0.04 s of a core; walking each chain anew takes 1 s"


def archive(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


MANIFEST = b'{"schema": 1, "generator": "test"}'


@pytest.mark.parametrize(
    "name",
    [
        "../out", "/tmp/out", "findings/../../out", "findings/0123456789abcdef/../x",
        "findings/0123456789abcdef/a/b", "findings/short/finding.json", "campaign/state.json",
        "findings/0123456789abcdef/.hidden",
    ],
)  # fmt: skip
def test_an_archive_with_other_things_in_it_is_refused(name: str, tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", {"corpus.json": MANIFEST, name: b"x"})
    with pytest.raises(UsageError, match="is no exported corpus"), opened_archive(path):
        pass


def test_an_archive_that_unpacks_to_far_more_is_refused(tmp_path: Path) -> None:
    place = "findings/0123456789abcdef/image.npy"
    path = archive(
        tmp_path / "a.zip",
        {"corpus.json": MANIFEST, place: bytes(FILE_BYTES + 1)},
        zipfile.ZIP_DEFLATED,
    )
    assert path.stat().st_size < 1 << 20
    with pytest.raises(UsageError, match="unpacks to more than"), opened_archive(path):
        pass


@pytest.mark.parametrize("cut", [0, 1, 30, -30, -1])
def test_an_archive_that_is_cut_off_is_said(cut: int, tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", {"corpus.json": MANIFEST})
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(UsageError, match="is no whole ZIP file"), opened_archive(path):
        pass


def test_a_written_output_replaces_what_was_there_only_when_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.xml"
    path.write_text("before")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(InfrastructureError, match="the disk or its quota is full"):
            durable.write_output(path, b"after")
    assert path.read_text() == "before"
    link = tmp_path / "link.xml"
    link.symlink_to(path)
    durable.write_output(link, b"after")
    assert (path.read_text(), link.is_symlink()) == ("after", True)
    durable.write_output(Path("/dev/null"), b"after")
    assert {one.name for one in tmp_path.iterdir()} == {"report.xml", "link.xml"}


@pytest.mark.parametrize("text", ["/*" * 200_000, "wmma." * 200_000, ".version " + DIGITS])
def test_a_long_module_is_read_in_one_go(text: str, tmp_path: Path) -> None:
    folder = tmp_path / "case"
    folder.mkdir()
    (folder / "case.json").write_text('{"kind": "crash"}')
    (folder / "module.ptx").write_text(text)
    started = time.thread_time()
    with pytest.raises(UsageError):
        new_corpus(tmp_path).add(*read_case(folder))
    assert time.thread_time() - started < 3


def large_directory(data: bytes) -> bytes:
    """Say of the list of files that it has a byte more than is read (APPNOTE.TXT, 4.3.16)."""
    at = data.rfind(b"PK\x05\x06") + 12
    return data[:at] + (DIRECTORY_BYTES + 1).to_bytes(4, "little") + data[at + 4 :]


def large_as_the_end(data: bytes) -> bytes:
    """Say of the list of files that it has so many bytes as spell the signature of the end."""
    at = data.rfind(b"PK\x05\x06") + 12
    return data[:at] + b"PK\x05\x06" + data[at + 4 :]


def large_archive(data: bytes) -> bytes:
    """Put a locator of the form for more than 4 GiB in front of the end (APPNOTE.TXT, 4.3.15)."""
    at = data.rfind(b"PK\x05\x06")
    return data[:at] + b"PK\x06\x07" + bytes(16) + data[at:]


@pytest.mark.parametrize(
    ("change", "comment"),
    [
        *product([large_directory, large_archive], [b"", b"said", bytes(0xFFFF)]),
        (large_as_the_end, b""),
    ],
)  # fmt: skip
def test_a_list_of_files_that_is_too_large_is_refused_before_it_is_read(
    change: Callable[[bytes], bytes], comment: bytes, tmp_path: Path
) -> None:
    path = archive(tmp_path / "a.zip", {"corpus.json": MANIFEST})
    with zipfile.ZipFile(path, "a") as file:
        file.comment = comment
    with opened_archive(path):
        pass
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(UsageError, match="unpacks to more than"), opened_archive(path):
        pass
