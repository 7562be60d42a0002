"""A corpus gives back what it was given, once, whoever else writes."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from corpus_cases import (
    CASE,
    FILES,
    cases,
    changed,
    file_sets,
    new_corpus,
    only_folder,
    replaced,
    settle,
    tree,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corpus import (
    Case,
    Corpus,
    Entry,
    Identity,
    Kind,
    Origin,
    ShrinkStatus,
    create_corpus,
    open_corpus,
)
from corpus.finding import SCHEMA, digest, finding_id
from oracle.errors import UsageError

ON_DISK = settings(deadline=None, max_examples=25)


@ON_DISK
@given(case=cases(), files=file_sets())
@example(case=changed(CASE, details={"least": -(2**63), "most": 2**63 - 1}), files=FILES)
def test_what_was_added_is_read_back(case: Case, files: dict[str, bytes]) -> None:
    with TemporaryDirectory() as folder:
        saved = new_corpus(folder).add(case, files)
        entry = open_corpus(f"{folder}/corpus").get(saved.id)
        given_fields = {name: getattr(case, name) for name in Case.__struct_fields__}
        assert {name: getattr(entry.finding, name) for name in given_fields} == given_fields
        assert entry.files() == files
        assert (saved.new, saved.path) == (True, entry.path)


@given(case=cases(), files=file_sets(), data=st.data())
def test_an_id_does_not_depend_on_when_or_how_it_was_found(
    case: Case, files: dict[str, bytes], data: st.DataObject
) -> None:
    digests = {name: digest(contents) for name, contents in files.items()}
    other = data.draw(cases())
    found_otherwise = changed(
        case,
        **{
            name: getattr(other, name)
            for name in ("identity", "made", "oracle", "versions", "origin", "shrink",
                         "complexity", "comment", "details", "created")
        },
        runners=tuple(data.draw(st.permutations(case.runners))),
    )  # fmt: skip
    shuffled = dict(data.draw(st.permutations(list(digests.items()))))
    assert finding_id(found_otherwise, shuffled) == finding_id(case, digests)


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": Kind.CRASH},
        {"instructions": ("wmma.mma;",)},
        {"instructions": (*CASE.instructions, "wmma.mma;")},
        {"target": "sm_90a"},
        {"ptx_version": "8.1"},
        {"runners": ()},
        {"runners": (msgspec.structs.replace(CASE.runners[0], version="V1.2.4"),)},
        {"runners": (msgspec.structs.replace(CASE.runners[0], options="-O0"),)},
        {"runners": (msgspec.structs.replace(CASE.runners[0], outcome="crashed"),)},
        {"runners": CASE.runners * 2},
    ],
)
def test_an_id_depends_on_what_was_found(fields: dict[str, Any]) -> None:
    assert finding_id(changed(CASE, **fields), {}) != finding_id(CASE, {})


def test_ids_stay_what_they_are_from_one_version_to_the_next() -> None:
    # Stored corpora depend on it: change this figure only together with a migration of folders.
    assert finding_id(CASE, {"module.ptx": digest(b"text")}) == "b44a406d8900ab46"


def test_a_finding_is_text_that_git_can_compare(corpus: Corpus) -> None:
    corpus.add(CASE, FILES)
    text = (only_folder(corpus) / "finding.json").read_text()
    document = json.loads(text)
    assert text == json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    assert document["created"] == "2026-11-21T00:00:00Z"
    assert {path.name for path in only_folder(corpus).iterdir()} == {"finding.json", *FILES}


def test_what_is_learnt_of_a_finding_changes_neither_its_id_nor_its_files(corpus: Corpus) -> None:
    saved = corpus.add(CASE, FILES)
    identity = Identity(failure="crash", instructions=("wider",))
    wider = changed(CASE, identity=identity, details={"replays": 4})
    corpus.learn(wider, FILES)
    (entry,) = corpus.entries()
    assert entry.id == saved.id
    assert entry.finding.identity == identity
    assert entry.finding.details == {"replays": 4}
    corpus.learn(wider, {})
    assert [one.id for one in corpus.entries()] == [saved.id]


def test_the_smallest_form_of_a_finding_is_shown_as_long_as_it_is_there(corpus: Corpus) -> None:
    raw = corpus.add(CASE, FILES)
    # Two campaigns that found the same shrink it one after the other.
    small = corpus.replace(raw.id, changed(CASE, instructions=("wmma.load 1;",)), {})
    last = corpus.replace(raw.id, changed(CASE, instructions=("wmma.load;",)), {})
    assert [entry.id for entry in corpus.entries()] == [last.id]
    assert corpus.get(small.id).finding.shrunk_from == raw.id
    assert corpus.get(raw.id).files() == FILES
    assert {entry.id for entry in replaced(corpus)} == {raw.id, small.id}
    again = corpus.add(CASE, FILES)
    assert (again.id, again.new) == (last.id, False)
    # What others are shrunk to is known to be small by then.
    complete = changed(CASE, instructions=("wmma.load;",), shrink=ShrinkStatus.COMPLETE)
    assert corpus.replace(raw.id, complete, {})[::2] == (last.id, False)
    assert corpus.get(last.id).finding.shrink is ShrinkStatus.COMPLETE
    corpus.remove(corpus.get(last.id))
    assert [entry.id for entry in corpus.entries()] == [small.id]
    settle(corpus)
    assert only_folder(corpus).name == small.id


def test_a_finding_that_cannot_be_made_smaller_only_says_so(corpus: Corpus) -> None:
    raw = corpus.add(CASE, FILES)
    saved = corpus.replace(raw.id, changed(CASE, shrink=ShrinkStatus.COMPLETE), FILES)
    (entry,) = corpus.entries()
    assert (entry.id, saved.new) == (raw.id, False)
    assert entry.finding.shrink is ShrinkStatus.COMPLETE
    assert entry.finding.shrunk_from is None


def test_a_broken_entry_that_is_found_again_is_stored_again_and_kept_aside(corpus: Corpus) -> None:
    saved = corpus.add(CASE, FILES)
    (saved.path / "module.ptx").write_bytes(b"")
    again = corpus.add(CASE, FILES)
    assert (again.id, again.new) == (saved.id, True)
    assert corpus.get(saved.id).files() == FILES
    (aside,) = (corpus.path / "broken").iterdir()
    assert (aside / "module.ptx").read_bytes() == b""


@pytest.mark.parametrize("folder", ["findings", "raw"])
def test_a_finding_of_a_later_schema_is_not_overwritten(folder: str, corpus: Corpus) -> None:
    saved = corpus.add(CASE, {})
    corpus.replace(saved.id, changed(CASE, instructions=("wmma.load;",)), {})
    if folder == "findings":
        (corpus.raw / saved.id).rename(saved.path)
    description = corpus.path / folder / saved.id / "finding.json"
    text = description.read_text()
    assert f'"schema": {SCHEMA}' in text
    description.write_text(text.replace(f'"schema": {SCHEMA}', f'"schema": {SCHEMA + 1}'))
    before = tree(corpus)
    assert corpus.add(CASE, {}).new is False
    assert tree(corpus) == before


def test_a_unique_prefix_in_either_case_names_a_finding(corpus: Corpus) -> None:
    ids = [
        corpus.add(changed(CASE, instructions=(f"wmma {number};",)), {}).id for number in range(40)
    ]
    for identity in ids:
        rivals = [other for other in ids if other != identity]
        length = next(
            n for n in range(1, 17) if not any(r.startswith(identity[:n]) for r in rivals)
        )
        assert corpus.get(identity[:length].upper()).id == identity
        if length > 1:
            with pytest.raises(UsageError, match="an id that starts with"):
                corpus.get(identity[: length - 1])


@pytest.mark.parametrize(
    "name", ["", "../x", "a/b", ".hidden", "finding.json", "Finding.JSON", "é"]
)
def test_a_file_name_that_leads_elsewhere_is_refused(name: str, corpus: Corpus) -> None:
    with pytest.raises(UsageError, match="cannot be called"):
        corpus.add(CASE, {name: b""})
    assert tree(corpus) == {}


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"target": "90"}, "target"),
        ({"ptx_version": "8"}, "ptx_version"),
        ({"instructions": ()}, "instructions"),
        ({"instructions": ["a list"]}, "differently"),
        ({"instructions": ("\ud800",)}, "surrogates"),
        ({"kind": "no such kind"}, "kind"),
        ({"details": {"rate": float("nan")}}, "details"),
        ({"details": {"rate": object()}}, "object"),
        ({"complexity": -1}, "complexity"),
        ({"created": datetime(2026, 1, 1)}, "created"),
        ({"origin": Origin(seed=-1, round=0)}, "origin.seed"),
    ],
)
def test_what_could_not_be_read_back_is_not_written(
    fields: dict[str, Any], word: str, corpus: Corpus
) -> None:
    with pytest.raises(UsageError, match=f"cannot be stored: .*{word}"):
        corpus.add(changed(CASE, **fields), {})
    assert tree(corpus) == {}


@pytest.mark.parametrize(
    ("act", "new"),
    [
        (lambda corpus: corpus.add(CASE, FILES), False),
        (lambda corpus: corpus.add(changed(CASE, target="sm_80"), FILES), True),
        (settle, True),
        (lambda corpus: create_corpus(corpus.path, generator="another"), True),
    ],
)
def test_a_campaign_that_writes_at_the_same_moment_does_no_harm(
    act: Callable[[Corpus], object], new: bool, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def interrupted(self: Path, target: Path) -> Path:
        monkeypatch.undo()
        act(corpus)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    saved = corpus.add(CASE, FILES)
    assert saved.new is new
    found = list(corpus.scan())
    assert all(isinstance(one, Entry) for one in found)
    assert corpus.get(saved.id).files() == FILES


def test_failures_of_values_share_a_name_and_all_others_have_their_own() -> None:
    shared = {kind for kind in Kind if kind.failure != kind.value}
    assert shared == {Kind.DEVIATION, Kind.VIOLATION, Kind.FLAKY}
