"""One cause is one line, whatever kinds it shows in: live, in a pipe, and in the closing table."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from console_statuses import FEW, families, family, known_entry, on_a_gpu
from hypothesis import given
from hypothesis import strategies as st
from test_dashboard import shown

from corpus import Case, Identity, Kind, RunnerVerdict, Versions
from fuzz.console.report import campaign_report, heartbeat, watching
from fuzz.findings.families import (
    FamilyState,
    accused,
    finding_groups,
    finding_row,
    group_counts,
)
from fuzz.output import recording_console

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
        assert len({one.known is None for one in group.members}) == 1
        assert group.shown.case.kind.severity == max(kind.severity for kind in group.kinds)
        assert group.kinds.total() == sum(one.cases for one in group.members)
    assert group_counts(found)[0] == sum(group.shown.known is None for group in groups)


@given(st.sampled_from(Kind), st.sampled_from(Kind), st.sampled_from("xy"), st.sampled_from("xy"))
def test_families_are_one_group_exactly_if_the_corpus_has_them_in_one(
    first: Kind, second: Kind, one: str, other: str
) -> None:
    pair = [family(first, one, 1), family(second, other, 1)]
    together = len(finding_groups(pair)) == 1
    assert together == (one == other and (first == second or {first, second} <= ONE_CAUSE))


@pytest.mark.parametrize("causes", [1, 3])
def test_a_deviation_and_a_violation_of_one_cause_are_one_line(
    causes: int, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _of_causes(causes)
    words = "1 family" if causes == 1 else f"{causes} families"
    status = on_a_gpu(families=found)
    live = shown(status, 120)
    with watching(json=False) as watcher:
        # Each is told at a time of its own.
        for count in range(1, len(found) + 1):
            watcher(on_a_gpu(families=found[:count]))
    piped = capsys.readouterr().out
    out = recording_console()
    campaign_report(on_a_gpu(families=found, stopped="budget spent"), Path("corpus")).show(out)
    closing = out.export_text()
    for text in (live, piped, closing):
        assert sorted(re.findall(r"as with <\d+>", text)) == [
            f"as with <{cause}>" for cause in range(causes)
        ]
    for cause in range(causes):
        (line,) = [line for line in closing.splitlines() if f"as with <{cause}>" in line]
        assert line.startswith(f"violation {20 + 2 * cause:>6}")
    assert f": {causes} finding" in closing
    assert f"{words} found" in heartbeat(status)
    assert f"findings: {words}" in live


def test_what_is_known_is_a_line_apart() -> None:
    known = family(Kind.DEVIATION, "x", 3, known=known_entry("k"))
    groups = finding_groups([known, family(Kind.VIOLATION, "x", 1)])
    assert [group.shown.known is None for group in groups] == [True, False]
    assert [group.kinds.total() for group in groups] == [1, 3]


def test_known_deviations_and_violations_of_one_cause_are_one_line() -> None:
    """Two entries know the two kinds of D over a multiplicand; both opened every campaign."""
    (group,) = finding_groups(
        family(kind, "x", 1, known=known_entry(f"known-{kind}")) for kind in BOTH
    )
    assert group.remark == " (known: known-violation, known-deviation)"


def _of_compilers(kind: Kind, what: str, *wrong: str) -> FamilyState:
    """Return a family that some of three compilers have, at -O0 or -O2."""
    asked = tuple(
        RunnerVerdict(
            runner="llvm",
            version=version,
            options=f"-O{level}",
            outcome="violation" if f"{version} -O{level}" in wrong else "match",
        )
        for version in ("llvm:14", "llvm:20", "llvm:22")
        for level in (0, 2)
    )
    return family(kind, what, 10, runners=asked)


ALL = [f"llvm:{version} -O{level}" for version in (14, 20, 22) for level in (0, 2)]


@pytest.mark.parametrize(
    ("wrong", "who"),
    [
        ((("llvm:14 -O2",), ("llvm:20 -O2",)), "only llvm:14 to llvm:20 at -O2"),
        ((("llvm:14 -O2",), ("llvm:14 -O2", "llvm:22 -O2")), "only llvm:14 at -O2, llvm:22 at -O2"),
        ((("llvm:14 -O2",), ("llvm:14 -O0", "llvm:14 -O2")), "only llvm:14 at -O0 and -O2"),
        ((("llvm:14 -O2",), ALL), "every compiler"),
        ((("llvm:22 -O0",),), "only llvm:22 at -O0"),
    ],
)
@pytest.mark.parametrize("kind", [Kind.VIOLATION, Kind.DIFFER])
def test_one_cause_is_one_line_whoever_has_it(kind: Kind, wrong: list[list[str]], who: str) -> None:
    """Four defects of LLVM were ten families: "only X", "X to Y"."""
    found = [_of_compilers(kind, "wmma.store", *some) for some in wrong]
    (group,) = finding_groups([*found])
    assert (group.what, group.kinds.total()) == (f"wmma.store: {who}", 10 * len(found))
    assert len({finding_row(one)["family"] for one in found}) == 1
    assert len(finding_groups([*found, _of_compilers(kind, "ldmatrix", *wrong[0])])) == 2


def test_a_divergence_is_had_by_versions_whatever_their_levels() -> None:
    found = [
        _of_compilers(Kind.DIVERGENCE, "mma", *some)
        for some in (["llvm:14 -O2"], ["llvm:14 -O2", "llvm:22 -O0"])
    ]
    (group,) = finding_groups(found)
    assert group.what == "mma: only llvm:14, llvm:22"


@pytest.mark.parametrize(
    ("title", "accused_one"),
    [
        ("violation: wmma.store m8n8k4 f64", 3),
        ("violation: wmma.load.c or wmma.store m8n8k4 f64", 1),
        ("deviation: ldmatrix m8n8 x2 b16", 4),
        ("deviation: mma.sync m16n8k8 f16 f16 f16 f16", 5),
        ("divergence: mma", 5),
        ("deviation: wmma.mma of f64", 2),
        ("violation: branch or loop", 2),
    ],
)
def test_the_instruction_that_stands_for_a_case_is_the_accused_one(
    title: str, accused_one: int
) -> None:
    instructions = (
        "wmma.load.c.sync.aligned.row.m16n16k16.global.f16",
        "wmma.load.c.sync.aligned.row.m8n8k4.global.f64",
        "wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64",
        "wmma.store.d.sync.aligned.row.m8n8k4.global.f64",
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16",
        "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16",
    )
    word, _, names = title.partition(": ")
    kind = Kind(word)
    case = Case(
        kind=kind, identity=Identity.of(kind, *names.split(", ")), instructions=instructions,
        target="sm_90", ptx_version="8.0", versions=Versions(warpfuzz="0.1.0", generator=1),
    )  # fmt: skip
    assert accused(case) == instructions[accused_one]
    assert accused(msgspec.structs.replace(case, instructions=())) == "no matrix instruction"
