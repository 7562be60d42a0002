"""One cause is one line, whatever kinds it shows in: live, in a pipe, and in the closing table."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from console_statuses import FEW, families, family, known_entry, on_a_gpu
from hypothesis import given
from hypothesis import strategies as st
from test_dashboard import shown

from corpus import Kind
from corpus.families import cause_key
from fuzz.campaign.rounds import Budget
from fuzz.console import watching
from fuzz.console.report import print_report, recording_console
from fuzz.console.view import heartbeat
from fuzz.findings.families import FamilyState, finding_groups, finding_row, unknown_groups

ONE_CAUSE = {Kind.DEVIATION, Kind.VIOLATION, Kind.LAUNCH_FAILURE, Kind.FLAKY}
BOTH = (Kind.DEVIATION, Kind.VIOLATION)


def _of_causes(causes: int) -> list[FamilyState]:
    """Return a deviation and a violation of each cause."""
    return [
        family(kind, f"wmma.mma: as with <{cause}>", 10 + cause)
        for kind in BOTH
        for cause in range(causes)
    ]


@FEW
@given(st.lists(families(), max_size=12))
def test_groups_hold_every_family_once_and_nothing_that_is_known_hides_what_is_not(
    found: list[FamilyState],
) -> None:
    groups = finding_groups(found)
    assert Counter(id(one) for group in groups for one in group.members) == Counter(map(id, found))
    for group in groups:
        assert len({one.known.id if one.known else "" for one in group.members}) == 1
        assert group.kind.severity == max(one.kind.severity for one in group.members)
        assert group.cases == sum(one.cases for one in group.members)
    assert unknown_groups(found) == sum(group.known is None for group in groups)


@given(st.sampled_from(Kind), st.sampled_from(Kind), st.sampled_from("xy"), st.sampled_from("xy"))
def test_families_are_one_group_exactly_if_the_corpus_has_them_in_one(
    first: Kind, second: Kind, one: str, other: str
) -> None:
    pair = [family(first, one, 1), family(second, other, 1)]
    together = len(finding_groups(pair)) == 1
    same_cause = cause_key(first, pair[0].key) == cause_key(second, pair[1].key)
    assert (
        together
        == same_cause
        == (one == other and (first == second or {first, second} <= ONE_CAUSE))
    )


@pytest.mark.parametrize("causes", [1, 2, 7])
def test_a_deviation_and_a_violation_of_one_cause_are_one_line(
    causes: int, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _of_causes(causes)
    words = "1 family" if causes == 1 else f"{causes} families"
    status = on_a_gpu(families=found)
    live = shown(status, 120, 80)
    with watching(Budget(), json=False) as watcher:
        # Each is told at a time of its own.
        for count in range(1, len(found) + 1):
            watcher.update(on_a_gpu(families=found[:count]))
    piped = capsys.readouterr().out
    out = recording_console()
    print_report(on_a_gpu(families=found, stopped="budget spent"), Path("corpus"), out)
    closing = out.export_text()
    for text in (live, piped, closing):
        assert sorted(re.findall(r"as with <\d+>", text)) == [
            f"as with <{cause}>" for cause in range(causes)
        ]
    for cause in range(causes):
        (line,) = [line for line in closing.splitlines() if f"as with <{cause}>" in line]
        assert line.startswith(f"violation {20 + 2 * cause:>6}")
    assert f"{words} of disagreements" in closing
    assert f"{words} found" in heartbeat(status)
    assert f" {words}\n" in live


def test_what_is_known_is_a_line_apart() -> None:
    known = family(Kind.DEVIATION, "x", 3, known=known_entry("k"))
    groups = finding_groups([known, family(Kind.VIOLATION, "x", 1)])
    assert [(group.known is None, group.cases) for group in groups] == [(True, 1), (False, 3)]


@pytest.mark.parametrize("provisional", [False, True])
def test_what_no_experiment_has_attributed_is_shown_as_provisional(
    provisional: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    found = family(Kind.VIOLATION, "wmma.mma of f16: other result", 3)
    found.provisional = provisional
    status = on_a_gpu(families=[found], stopped="budget spent")
    with watching(Budget(), json=False) as watcher:
        watcher.update(status)
    out = recording_console()
    print_report(status, Path("corpus"), out)
    for text in (shown(status, 200, 80), capsys.readouterr().out, out.export_text()):
        assert ("provisional" in " ".join(text.split())) == provisional
    assert finding_row(found)["provisional"] == provisional
