"""Merging corpora adds what is missing, in any order, and changes nothing that is there."""

from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from corpus_cases import CASE, FILES, changed, moments, new_corpus, replaced, tree
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus import Case, Corpus, Identity, Kind, ShrinkStatus
from corpus.exchange import compare, grouped, merge, prune, verify

TEXTS = ("wmma.load 1;", "wmma.load;", "wmma.mma;", "ldmatrix;")


@st.composite
def small_cases(draw: st.DrawFn) -> Case:
    """Cases of which many are one, found at different times and shrunk differently far."""
    return changed(
        CASE,
        kind=draw(st.sampled_from([Kind.CRASH, Kind.NOTE])),
        instructions=(draw(st.sampled_from(TEXTS)),),
        created=draw(moments()),
        shrink=draw(st.sampled_from(ShrinkStatus)),
        comment=draw(st.sampled_from(["", "a", "b"])),
    )


def corpora() -> st.SearchStrategy[list[list[tuple[Case, Case | None]]]]:
    """Three corpora: cases, some with their smaller form."""
    return st.lists(
        st.lists(st.tuples(small_cases(), st.none() | small_cases()), max_size=4),
        min_size=3,
        max_size=3,
    )


def filled(folder: Path, found: list[tuple[Case, Case | None]]) -> Corpus:
    corpus = new_corpus(folder)
    for case, smaller in found:
        saved = corpus.add(case, FILES)
        if smaller is not None:
            corpus.replace(saved.id, smaller, FILES)
    return corpus


def everything(corpus: Corpus) -> dict[str, dict[str, bytes]]:
    """The files of all findings, raw or not, without their descriptions, by id."""
    return {entry.id: entry.files() for entry in corpus.sound_entries()}


@settings(deadline=None, max_examples=5)
@given(contents=corpora())
def test_merging_gives_the_same_findings_in_any_order_and_however_often(
    contents: list[list[tuple[Case, Case | None]]],
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        one, two, three = (filled(folder / str(at), found) for at, found in enumerate(contents))
        forward, backward, grouped = (new_corpus(folder / at) for at in ("f", "b", "g"))
        merge(forward, [one, two, three])
        merge(backward, [three, two, one])
        merge(grouped, [two, three])
        merge(grouped, [one, grouped])
        assert everything(forward) == everything(backward) == everything(grouped)
        before = tree(forward)
        again = merge(forward, [three, forward, one])
        assert again == ([], [])
        assert tree(forward) == before
        assert list(verify(forward)) == []


@settings(deadline=None, max_examples=5)
@given(contents=corpora())
def test_merging_leaves_every_description_of_the_destination_as_it_is(
    contents: list[list[tuple[Case, Case | None]]],
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        mine, *others = (filled(folder / str(at), found) for at, found in enumerate(contents))
        before = {entry.id: entry.finding for entry in mine.sound_entries()}
        shown = {entry.id for entry in mine.entries()}
        merge(mine, others)
        after = {entry.id: entry.finding for entry in mine.sound_entries()}
        assert {identity: after[identity] for identity in before} == before
        # A link of mine to what only they had leads somewhere now; nothing else is hidden.
        hidden = shown - {entry.id for entry in mine.entries()}
        assert all(before[identity].shrunk_to is not None for identity in hidden)


@settings(deadline=None, max_examples=5)
@given(contents=corpora())
def test_pruning_keeps_the_smallest_of_each_family_with_what_it_came_from(
    contents: list[list[tuple[Case, Case | None]]],
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        corpus = new_corpus(folder / "corpus")
        merge(corpus, (filled(folder / str(at), found) for at, found in enumerate(contents)))
        groups = grouped(corpus.entries())
        before = tree(corpus)
        plan = prune(corpus, dry_run=True)
        assert tree(corpus) == before
        done = prune(corpus)
        assert [entry.id for entry in done.removed] == [entry.id for entry in plan.removed]
        assert {entry.id for entry in corpus.entries()} == {group.smallest.id for group in groups}
        assert list(verify(corpus)) == []
        assert prune(corpus).removed == []


CRASHED = Identity.of(Kind.CRASH, "x")


def test_pruning_keeps_the_shown_member_of_a_ring_shown(corpus: Corpus) -> None:
    note = changed(CASE, kind=Kind.NOTE, identity=Identity.of(Kind.NOTE, "x"))
    shorter = changed(CASE, instructions=("w;",))
    raw, small, other = (corpus.add(case, {}) for case in (CASE, shorter, note))
    for saved, fields in (
        (raw, {"shrunk_to": small.id}),
        (small, {"shrunk_to": raw.id, "shrunk_from": raw.id}),
        (other, {"shrunk_from": raw.id}),
    ):
        entry = corpus.get(saved.id)
        corpus.rewrite(entry, msgspec.structs.replace(entry.finding, **fields))
    assert {entry.id for entry in corpus.entries()} == {small.id, other.id}
    prune(corpus)
    assert {entry.id for entry in corpus.entries()} == {small.id, other.id}
    assert [entry.id for entry in replaced(corpus)] == [raw.id]


def test_a_family_is_listed_smallest_first_and_the_worst_kind_first(corpus: Corpus) -> None:
    long = corpus.add(changed(CASE, instructions=("wmma.load 12345;",)), {})
    heavy = corpus.add(changed(CASE, instructions=("wmma;",)), {"image.bin": bytes(9)})
    light = corpus.add(changed(CASE, instructions=("mmaw;",)), {"image.bin": bytes(8)})
    busy = corpus.add(changed(CASE, instructions=("w;",), complexity=3), {})
    crash = corpus.add(changed(CASE, kind=Kind.CRASH, identity=CRASHED), {})
    first, second = grouped(corpus.entries())
    assert [entry.id for entry in first.members] == [crash.id]
    assert [entry.id for entry in second.members] == [light.id, heavy.id, long.id, busy.id]
    assert second.smallest.id == light.id


def test_a_stranger_cannot_describe_or_hide_a_finding_of_mine(tmp_path: Path) -> None:
    mine, theirs = new_corpus(tmp_path / "1"), new_corpus(tmp_path / "2")
    before = mine.add(changed(CASE, comment="mine"), FILES)
    # Shrunk further, found earlier, and replaced by something of their own.
    better = changed(
        CASE,
        identity=Identity(failure="wrong result", instructions=("wmma.load .b8",)),
        comment="theirs",
        shrink=ShrinkStatus.COMPLETE,
        created=datetime(2000, 1, 1, tzinfo=UTC),
    )
    raw = theirs.add(better, FILES)
    small = theirs.replace(raw.id, changed(better, instructions=("nothing;",)), FILES)
    assert raw.id == before.id
    assert merge(mine, [theirs]) == ([small.id], [])
    shown = {entry.id: entry.finding.comment for entry in mine.entries()}
    assert shown == {before.id: "mine", small.id: "theirs"}


@pytest.mark.parametrize("folder", ["findings", "raw"])
def test_merging_mends_a_broken_entry(folder: str, tmp_path: Path) -> None:
    source, corpus = new_corpus(tmp_path / "1"), new_corpus(tmp_path / "2")
    for one in (source, corpus):
        raw = one.add(CASE, FILES)
        small = one.replace(raw.id, changed(CASE, instructions=("wmma.load;",)), FILES)
    path = corpus.path / folder / (small if folder == "findings" else raw).id
    (path / "module.ptx").unlink()
    merge(corpus, [source])
    assert tree(corpus) == tree(source)
    assert [entry.id for entry in corpus.entries()] == [small.id]


def test_the_difference_of_two_corpora_is_told_by_identity(tmp_path: Path) -> None:
    left, right = new_corpus(tmp_path / "1"), new_corpus(tmp_path / "2")
    both, ours, theirs, crash = (
        changed(CASE, **fields)
        for fields in (
            {},
            {"target": "sm_80"},
            {"identity": Identity.of(Kind.ACCEPTED, "theirs"), "target": "sm_75"},
            {"kind": Kind.CRASH, "identity": CRASHED},
        )
    )
    common = left.add(both, {}), right.add(both, {})
    _, crashed, only_theirs = left.add(ours, {}), left.add(crash, {}), right.add(theirs, {})
    difference = compare(left, right)
    assert [group.smallest.id for group in difference.only_left] == [crashed.id]
    assert [group.smallest.id for group in difference.only_right] == [only_theirs.id]
    assert [difference.common] * 2 == [[saved.id] for saved in common]
    (only_theirs.path / "finding.json").unlink()
    assert len(compare(left, right).problems) == 1
