"""Merging corpora gives the same whatever the order, and however often."""

from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from corpus_cases import CASE, FILES, changed, moments, new_corpus, tree
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus import Case, Corpus, Kind, ShrinkStatus
from corpus.difference import compare
from corpus.families import families
from corpus.merging import merge
from corpus.pruning import prune
from corpus.verification import verify

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


@settings(deadline=None, max_examples=40)
@given(contents=corpora())
def test_merging_does_not_depend_on_order_grouping_or_repetition(
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
        assert tree(forward) == tree(backward) == tree(grouped)
        again = merge(forward, [one, forward, three])
        assert (again.added, again.updated, again.problems) == ((), (), ())
        assert tree(forward) == tree(backward)
        assert verify(forward) == []


@settings(deadline=None, max_examples=40)
@given(contents=corpora())
def test_merging_into_one_of_them_is_merging_into_a_new_one(
    contents: list[list[tuple[Case, Case | None]]],
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        one, two, _ = (filled(folder / str(at), found) for at, found in enumerate(contents))
        fresh = new_corpus(folder / "fresh")
        merge(fresh, [one, two])
        merge(one, [two])
        assert tree(one) == tree(fresh)


@settings(deadline=None, max_examples=40)
@given(contents=corpora())
def test_merging_loses_no_finding(contents: list[list[tuple[Case, Case | None]]]) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        sources = [filled(folder / str(at), found) for at, found in enumerate(contents)]
        merged = new_corpus(folder / "merged")
        merge(merged, sources)
        before = tree(merged)
        for source in sources:
            for entry in (*source.entries(), *source.replaced()):
                # Stored under its id, or by now represented by its smaller form.
                assert merged.deposit(entry.finding, entry.files()).new is False
                assert merged.get(entry.id).files() == entry.files()
        assert tree(merged) == before


@settings(deadline=None, max_examples=40)
@given(contents=corpora())
def test_pruning_keeps_the_smallest_of_each_family_with_what_it_came_from(
    contents: list[list[tuple[Case, Case | None]]],
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        corpus = new_corpus(folder / "corpus")
        merge(corpus, (filled(folder / str(at), found) for at, found in enumerate(contents)))
        groups = families(corpus.entries())
        before = tree(corpus)
        plan = prune(corpus, dry_run=True)
        assert tree(corpus) == before
        done = prune(corpus)
        assert [entry.id for entry in done.removed] == [entry.id for entry in plan.removed]
        assert {entry.id for entry in corpus.entries()} == {group.smallest.id for group in groups}
        assert verify(corpus) == []
        assert prune(corpus).removed == ()


def test_pruning_hides_what_was_shrunk_to_two_forms(tmp_path: Path) -> None:
    corpora = [new_corpus(tmp_path / str(at)) for at in range(2)]
    for corpus, text in zip(corpora, TEXTS[:2], strict=True):
        raw = corpus.add(CASE, FILES)
        corpus.replace(raw.id, changed(CASE, instructions=(text,)), FILES)
    merge(corpora[0], [corpora[1]])
    shown = families(corpora[0].entries())[0].members
    assert len(shown) == 2
    # The worse case: the link that was kept leads to the form that is not.
    entry = corpora[0].get(raw.id)
    corpora[0].rewrite(entry, msgspec.structs.replace(entry.finding, shrunk_to=shown[1].id))
    assert [entry.id for entry in prune(corpora[0]).kept] == [shown[0].id]
    assert [entry.id for entry in corpora[0].entries()] == [shown[0].id]
    assert [entry.id for entry in corpora[0].replaced()] == [raw.id]


def test_pruning_keeps_the_shown_member_of_a_ring_shown(tmp_path: Path) -> None:
    corpus = new_corpus(tmp_path)
    note = changed(CASE, kind=Kind.NOTE)
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
    assert [entry.id for entry in corpus.replaced()] == [raw.id]


def test_a_family_is_listed_smallest_first_and_the_worst_kind_first(tmp_path: Path) -> None:
    corpus = new_corpus(tmp_path)
    long = corpus.add(changed(CASE, instructions=("wmma.load 12345;",)), {})
    heavy = corpus.add(changed(CASE, instructions=("wmma;",)), {"image.bin": bytes(9)})
    light = corpus.add(changed(CASE, instructions=("mmaw;",)), {"image.bin": bytes(8)})
    busy = corpus.add(changed(CASE, instructions=("w;",), complexity=3), {})
    crash = corpus.add(changed(CASE, kind=Kind.CRASH), {})
    first, second = families(corpus.entries())
    assert [entry.id for entry in first.members] == [crash.id]
    assert [entry.id for entry in second.members] == [light.id, heavy.id, long.id, busy.id]
    assert (second.title, second.smallest.id) == ("wmma.load takes .b8", light.id)


@pytest.mark.parametrize("turned", [False, True])
def test_merging_keeps_what_was_shrunk_furthest_and_then_what_was_found_first(
    turned: bool, tmp_path: Path
) -> None:
    long_ago, today = datetime(2000, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
    # The comments would decide the other way round.
    better = [
        (
            changed(CASE, shrink=ShrinkStatus.COMPLETE, created=today, comment="z"),
            changed(CASE, shrink=ShrinkStatus.CAPPED, created=long_ago, comment="a"),
        ),
        (
            changed(CASE, created=long_ago, comment="z"),
            changed(CASE, created=today, comment="a"),
        ),
    ]
    for at, pair in enumerate(better):
        sources = [new_corpus(tmp_path / f"{at}{side}") for side in range(2)]
        for source, case in zip(sources, reversed(pair) if turned else pair, strict=True):
            source.add(case, FILES)
        merge(sources[0], [sources[1]])
        (entry,) = sources[0].entries()
        assert entry.finding.comment == "z"


def test_merging_reports_what_is_broken_and_goes_on(tmp_path: Path) -> None:
    source, corpus = new_corpus(tmp_path / "1"), new_corpus(tmp_path / "2")
    broken = source.add(CASE, FILES)
    sound = source.add(changed(CASE, target="sm_80"), FILES)
    (broken.path / "module.ptx").unlink()
    merged = merge(corpus, [source])
    assert merged.added == (sound.id,)
    (problem,) = merged.problems
    assert problem.path.parent == broken.path


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


def test_the_difference_of_two_corpora_is_told_by_finding_and_by_family(tmp_path: Path) -> None:
    left, right = new_corpus(tmp_path / "1"), new_corpus(tmp_path / "2")
    both, ours, theirs, crash = (
        changed(CASE, **fields)
        for fields in ({}, {"target": "sm_80"}, {"target": "sm_75"}, {"kind": Kind.CRASH})
    )
    common = left.add(both, {}), right.add(both, {})
    only_ours, crashed, only_theirs = left.add(ours, {}), left.add(crash, {}), right.add(theirs, {})
    difference = compare(left, right)
    assert {entry.id for entry in difference.only_left} == {only_ours.id, crashed.id}
    assert [entry.id for entry in difference.only_right] == [only_theirs.id]
    assert {difference.common} == {(saved.id,) for saved in common}
    assert [group.kind for group in difference.families_only_left] == [Kind.CRASH]
    assert difference.families_only_right == ()
    (only_theirs.path / "finding.json").unlink()
    assert len(compare(left, right).problems) == 1
