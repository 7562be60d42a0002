"""The calls by which a corpus changes what is on the disk, counted, and made to fail."""

import errno
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from corpus import (
    Case,
    Corpus,
    Entry,
    Identity,
    Kind,
    Problem,
    ShrinkStatus,
    create_corpus,
    open_corpus,
)
from corpus.exchange import merge, prune

CHANGING = ("open", "write", "fsync", "mkdir", "rename", "replace", "unlink", "rmdir")
"""Functions of `os` through which everything goes that a corpus writes."""
_CHANGING_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_DIRECTORY
"""Flags of an `open` that is part of changing something, to lock or flush a folder, too."""

FILES = {"module.ptx": b".version 8.0\n", "images.bin": bytes(64)}


def case(number: int, *, small: bool = False) -> Case:
    """The case of a number, or its smaller form."""
    return Case(
        kind=Kind.CRASH,
        identity=Identity(failure="wrong result", instructions=("k",)),
        instructions=(f"wmma.{number};" if small else f"wmma.load.{number} and more;",),
        target="sm_90",
        ptx_version="8.0",
        created=datetime(2026, 11, 21, tzinfo=UTC),
    )


@dataclass(kw_only=True)
class Calls:
    """Counts the changing calls, and lets `at` decide what becomes of each."""

    at: Callable[[int, str], None]
    count: int = 0
    log: list[str] = field(default_factory=list)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in CHANGING:
            monkeypatch.setattr(os, name, self._wrapped(name, getattr(os, name)))

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if name == "open" and not args[1] & _CHANGING_FLAGS:
                return real(*args, **kwargs)
            self.count += 1
            self.log.append(name)
            try:
                self.at(self.count, name)
            except OSError:
                # A full disk takes what it still can.
                if name == "write":
                    real(args[0], bytes(args[1])[: len(args[1]) // 2])
                raise
            return real(*args, **kwargs)

        return call


def failing(first: int, last: int, number: int) -> Callable[[int, str], None]:
    """Let the calls from `first` to `last` fail with an error number."""

    def at(count: int, name: str) -> None:
        if first <= count <= last:
            raise OSError(number, os.strerror(number))

    return at


def killed_at(call: int) -> Callable[[int, str], None]:
    """Kill this process right before a call."""

    def at(count: int, name: str) -> None:
        if count == call:
            os.kill(os.getpid(), signal.SIGKILL)

    return at


def forked(act: Callable[[], object]) -> int:
    """Do something in a forked child; return its process id. Its status is 0 if all went well."""
    child = os.fork()
    if child == 0:
        try:
            act()
            os._exit(0)
        except BaseException:  # the child must not run the parent's tests on
            os._exit(1)
    return child


class Deed(NamedTuple):
    """Something that changes a corpus, and that can be done again after it failed."""

    name: str
    do: Callable[[Path], object]


def _filled(folder: Path) -> Corpus:
    corpus = create_corpus(folder, generator="test")
    for number in range(2):
        raw = corpus.add(case(number), FILES)
        corpus.replace(raw.id, case(number, small=True), FILES)
    return corpus


def _opened(path: Path) -> Corpus:
    return create_corpus(path, generator="test")


def _replace(path: Path) -> None:
    corpus = open_corpus(path)
    corpus.replace(corpus.add(case(7), FILES).id, case(7, small=True), FILES)


def _mend(path: Path) -> None:
    corpus = _opened(path)
    for entry in corpus.entries():
        corpus.rewrite(entry, msgspec.structs.replace(entry.finding, comment="mended"))


DEEDS = [
    Deed("create", _opened),
    Deed("add", lambda path: _opened(path).add(case(7), FILES)),
    Deed("replace", _replace),
    Deed("merge", lambda path: merge(_opened(path), [open_corpus(path.parent / "other")])),
    Deed("prune", lambda path: prune(open_corpus(path))),
    Deed("rewrite", _mend),
]


def prepare(folder: Path, deed: Deed) -> Path:
    """Make the corpora that a deed works on; return the path of the one that it changes."""
    path = folder / "corpus"
    if deed.name != "create":
        _filled(path)
    if deed.name == "merge":
        other = _filled(folder / "other")
        other.add(case(3), FILES)
        # Known by both, and better described by the other: merging updates it.
        open_corpus(path).add(case(4), FILES)
        other.add(msgspec.structs.replace(case(4), shrink=ShrinkStatus.COMPLETE), FILES)
    return path


def shown(corpus: Corpus) -> dict[str, bytes]:
    """What a corpus shows, by id; broken entries fail."""
    found = list(corpus.scan())
    broken = [one.sentence for one in found if isinstance(one, Problem)]
    assert broken == []
    return {
        one.id: msgspec.json.encode((one.finding.text, one.finding.comment, sorted(one.files())))
        for one in found
        if isinstance(one, Entry)
    }


def known_texts(corpus: Corpus) -> set[str]:
    """The instructions of everything that is stored, raw or not."""
    return {entry.finding.text for entry in corpus.sound_entries()}


ERRORS = {"full disk": errno.ENOSPC, "no permission": errno.EACCES, "read-only": errno.EROFS}
