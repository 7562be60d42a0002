"""Cases to store, drawn and fixed, and a look at what a corpus holds on disk."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import strategies as st

from corpus import (
    Case,
    Corpus,
    Entry,
    Identity,
    Kind,
    OracleVerdict,
    Origin,
    RunnerVerdict,
    SaidReason,
    ShrinkStatus,
    Versions,
    create_corpus,
)

CASE = Case(
    kind=Kind.ACCEPTED,
    identity=Identity.of(Kind.ACCEPTED, "wmma.load .b8"),
    instructions=("wmma.load.a.sync.aligned.row.m16n16k16.b8 {%r0, %r1}, [%addr];",),
    target="sm_90",
    ptx_version="8.0",
    oracle=OracleVerdict(
        verdict="illegal", reasons=(SaidReason(text="no type .b8", section="1.2"),)
    ),
    runners=(RunnerVerdict(runner="made-up assembler", version="V1.2.3", outcome="accepted"),),
    versions=Versions(warpfuzz="0.1.0", generator=1),
    origin=Origin(seed=7, round=3),
    details={"replays": 3},
    created=datetime(2026, 11, 21, tzinfo=UTC),
)
FILES = {"module.ptx": b".version 8.0\n", "images.npy": bytes(range(256))}

# Whatever UTF-8 can say, control characters and line ends included.
_texts = st.text(st.characters(codec="utf-8"), max_size=20)
_words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
_counts = st.integers(0, 2**63 - 1)


def several(one: st.SearchStrategy[Any], *, least: int = 0) -> st.SearchStrategy[tuple[Any, ...]]:
    """A few of something."""
    return st.lists(one, min_size=least, max_size=2).map(tuple)


def cases() -> st.SearchStrategy[Case]:
    """Cases of every kind; they shrink towards short texts and the first kind."""
    reasons = st.builds(SaidReason, text=_words, section=_texts)
    numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    return st.builds(
        Case,
        kind=st.sampled_from(Kind),
        identity=st.builds(
            Identity, failure=_words, instructions=several(_words), condition=_texts, message=_texts
        ),
        instructions=several(_words, least=1),
        target=st.sampled_from(["sm_70", "sm_90a", "sm_100f"]),
        ptx_version=st.sampled_from(["6.0", "8.0", "9.4"]),
        oracle=st.builds(OracleVerdict, verdict=_words, reasons=several(reasons)),
        runners=several(
            st.builds(
                RunnerVerdict, runner=_words, version=_words, options=_texts, outcome=_words,
                message=_texts, device=_texts,
            )
        ),
        versions=st.builds(Versions, warpfuzz=_texts, generator=_counts),
        origin=st.none()
        | st.builds(Origin, seed=_counts, round=_counts, image=st.none() | _counts),
        shrink=st.sampled_from(ShrinkStatus),
        complexity=_counts,
        comment=_texts,
        details=st.dictionaries(_texts, _texts | st.booleans() | numbers, max_size=2),
        created=moments(),
    )  # fmt: skip


def moments() -> st.SearchStrategy[datetime]:
    """Points in time, UTC."""
    return st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


def file_sets() -> st.SearchStrategy[dict[str, bytes]]:
    """Files of a finding; they shrink towards none."""
    names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,9}", fullmatch=True)
    # "." at the start is a hidden file, and finding.json is the corpus's own.
    return st.dictionaries(names, st.binary(max_size=40), max_size=3)


def tree(corpus: Corpus) -> dict[str, bytes]:
    """Every file of a corpus's findings, by path."""
    return {
        str(path.relative_to(corpus.path)): path.read_bytes()
        for folder in (corpus.findings, corpus.raw)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def only_folder(corpus: Corpus) -> Path:
    """The folder of the one finding of a corpus."""
    (folder,) = corpus.findings.iterdir()
    return folder


def changed(case: Case, **fields: Any) -> Case:
    """The same case but for some fields."""
    return msgspec.structs.replace(case, **fields)


def new_corpus(folder: Path | str) -> Corpus:
    """An empty corpus in a folder."""
    return create_corpus(Path(folder) / "corpus", generator="test")


def settle(corpus: Corpus) -> None:
    """Put everything where it belongs, as pruning and merging do in the end."""
    with corpus.exclusively():
        corpus.settle()


def replaced(corpus: Corpus) -> list[Entry]:
    """The findings in whose place a smaller form is shown, by id."""
    return [one for one in corpus.sound_entries() if corpus.smaller_form(one).id != one.id]
