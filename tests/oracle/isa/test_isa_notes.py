"""Versions and targets: every note of the pages, just before its boundary and just at it."""

from __future__ import annotations

from itertools import product

import pytest
from page_notes import NOTES, PageNote, available

from oracle.isa.forms import Form
from oracle.isa.legality import Explanation, Rule, Verdict, explain
from oracle.isa.lookup import FORMS, form_of, is_available, needs_aligned, notes_of
from oracle.isa.targets import TARGETS, VERSIONS, Module, PtxVersion, parse_target
from strategies.instructions import canonical

NOTE_ROWS = [(mnemonic, note) for mnemonic, (_, notes) in NOTES.items() for note in notes]
SATFINITE = "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16.satfinite"
PACKED = "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64"


def name(value: object) -> str:
    return value.text.replace(" ", "_") if isinstance(value, PageNote) else str(value)


def before(version: PtxVersion) -> PtxVersion:
    return VERSIONS[VERSIONS.index(version) - 1]


def judged(opcode: str, version: PtxVersion | str, target: str) -> Explanation:
    text = canonical(form_of(opcode)).text.replace(form_of(opcode).opcode, opcode)
    return explain(text, target=target, ptx_version=str(version))


@pytest.mark.parametrize("mnemonic", NOTES)
def test_the_notes_of_the_rows_are_those_of_the_page(mnemonic: str) -> None:
    section, notes = NOTES[mnemonic]
    rows = {note for form in FORMS if form.mnemonic == mnemonic for note in notes_of(form)}
    assert {form.section for form in FORMS if form.mnemonic == mnemonic} == {section}
    specific = {row.text for row in rows if row.specific}
    assert len(specific) == 2 * (mnemonic == "ldmatrix")
    assert {row.text for row in rows} - specific == {note.text.replace("`", "") for note in notes}


@pytest.mark.parametrize(("mnemonic", "note"), NOTE_ROWS, ids=name)
def test_a_note_is_given_as_a_reason_up_to_its_boundary_and_not_beyond(
    mnemonic: str, note: PageNote
) -> None:
    if note.since is not None:
        good = (PtxVersion(*note.since), "sm_90")
        bad = (before(PtxVersion(*note.since)), "sm_90")
    elif note.until is not None:
        good = (before(PtxVersion(*note.until)), "sm_90")
        bad = (PtxVersion(*note.until), "sm_90")
    else:
        older = {70: 62, 72: 70, 75: 72, 80: 75}
        good = (PtxVersion(9, 0), f"sm_{note.target}")
        bad = (PtxVersion(9, 0), f"sm_{older[note.target or 0]}")
    text, section = note.text.replace("`", ""), NOTES[mnemonic][0]
    forms = [form for form in FORMS if form.mnemonic == mnemonic]
    concerned = [form for form in forms if note.concerns(form.opcode)]
    assert concerned
    for form in {*concerned[::5], *forms[::9]}:
        assert not _gives(form, *good, text, section)
        assert _gives(form, *bad, text, section) == note.concerns(form.opcode)


def _gives(form: Form, version: PtxVersion, target: str, text: str, section: str) -> bool:
    explanation = judged(form.opcode, version, target)
    given = {
        (reason.text[: len(text)], reason.section)
        for reason in explanation.reasons
        if reason.rule is Rule.AVAILABILITY
    }
    if (text, section) not in given:
        return False
    assert explanation.verdict is Verdict.ILLEGAL
    return True


# Each boundary of the notes and the version before it, and one beyond all.
GRID_VERSIONS = [
    VERSIONS[at]
    for since in ((6, 0), (6, 1), (6, 3), (6, 5), (7, 0), (7, 1), (7, 8), (8, 6), (8, 8), (9, 0))
    for at in (VERSIONS.index(PtxVersion(*since)) - 1, VERSIONS.index(PtxVersion(*since)))
] + [PtxVersion(8, 7), PtxVersion(9, 3), PtxVersion(9, 4), VERSIONS[-1]]


STORED_PAGES = ("wmma.load", "wmma.mma", "wmma.store", "ldmatrix")
"""Instructions whose pages `page_notes` has."""


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_a_form_is_available_exactly_where_all_notes_of_the_page_are_satisfied(step: int) -> None:
    """At each boundary, a form is met on a seventh of the targets (by default)."""
    forms = [form for form in FORMS if form.mnemonic in STORED_PAGES]
    targets = [target for target in TARGETS.values() if target.number >= 60]
    wrong = [
        (form.opcode, str(version), target.name)
        for version in dict.fromkeys(GRID_VERSIONS)
        for index, target in enumerate(targets)
        for form in forms[index % step :: step]
        if is_available(form, Module(target, version))
        != available(form.opcode, version, target.name)
    ]
    assert not wrong


@pytest.mark.parametrize(
    ("section", "since", "target"),
    [
        # "PTX ISA Notes" and "Target ISA Notes" of the sections
        ("9.7.14.5.14", (6, 4), 70), ("9.7.14.5.15", (6, 5), 75), ("9.7.14.6.3", (7, 1), 80),
        ("9.7.14.5.17", (7, 8), 75), ("9.7.14.5.16", (7, 8), 90),
    ],
)  # fmt: skip
def test_an_instruction_came_with_a_version_and_a_target(section, since, target) -> None:
    forms = [form for form in FORMS if form.section == section]
    first = PtxVersion(*since)
    for version, name in (
        (first, "sm_90"),
        (before(first), "sm_90"),
        (VERSIONS[-1], f"sm_{target}"),
    ):
        module = Module(parse_target(name), version)
        assert any(is_available(form, module) for form in forms) == (version >= first)
    older = Module(parse_target(f"sm_{ {70: 62, 75: 72, 80: 75, 90: 89}[target] }"), VERSIONS[-1])
    assert not any(is_available(form, older) for form in forms)


# "Modifier .aligned is required from PTX ISA version 6.3 onwards, and considered implicit in PTX
# ISA versions less than 6.3." (9.7.14.4.3 to .5)
def test_aligned_may_be_left_out_of_wmma_before_6_3_and_of_nothing_else() -> None:
    versions = (PtxVersion(6, 0), PtxVersion(6, 2), PtxVersion(6, 3))
    for form, version in product(FORMS[::4], versions):
        needed = not form.mnemonic.startswith("wmma.") or version >= (6, 3)
        assert needs_aligned(form, Module(parse_target("sm_90"), version)) == needed
        bare = judged(form.opcode.replace(".aligned", ""), version, "sm_90")
        missing = [r for r in bare.reasons if r.rule is Rule.MISSING_QUALIFIER]
        assert len(missing) == needed
        for reason in missing:
            assert ".aligned" in reason.text
            assert reason.section == form.section


@pytest.mark.parametrize(
    ("version", "verdict", "remarked"),
    [("6.0", "legal", False), ("6.3", "legal", False), ("6.4", "legal", True),
     ("6.5", "illegal", False), ("9.3", "illegal", False)],
)  # fmt: skip
def test_satfinite_of_floating_point_is_legal_then_deprecated_then_removed(
    version: str, verdict: str, remarked: bool
) -> None:
    found = judged(SATFINITE, version, "sm_70")
    assert found.verdict == verdict
    assert [remark.rule for remark in found.remarks] == [Rule.DEPRECATED] * remarked
    if verdict == "illegal":
        (reason,) = found.reasons
        assert "removed from PTX ISA version 6.5" in reason.text
        assert reason.section == "9.7.14.4.5"


def test_short_sums_of_ada_are_remarked_on_and_no_others() -> None:
    for opcode, target, said in (
        ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32", "sm_89", True),
        ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32", "sm_90", False),
        ("mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e5m2.f16", "sm_89", False),
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "sm_89", False),
    ):
        found = judged(opcode, "8.7", target)
        assert found.legal
        assert [one.rule for one in found.remarks] == [Rule.PRECISION] * said
