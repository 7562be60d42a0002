"""The record that ships: every finding is the one that was recorded, and can be asked for."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from corpus.finding import INPUT, PROGRAM, wrong_builds
from corpus.known import (
    FOLDER,
    Answers,
    KnownRow,
    answer_spans,
    answers_about,
    known_with,
    load_known,
    named_corpus,
    read_answers,
)
from corpus.programs import decode_program, unpack
from fuzz.findings.case import ACTUAL
from fuzz.findings.verdicts import judge
from oracle.isa.legality import explain

RECORDED = json.loads((Path(__file__).parent / "data" / "recorded_findings.json").read_text())
ENTRIES = {entry.id: entry for entry in named_corpus(Path("record")).entries(pytest.fail)}


def test_ids_kinds_and_families_are_what_they_were():
    said = {
        id_: {"kind": one.finding.kind.value, "family": one.finding.identity.text}
        for id_, one in ENTRIES.items()
    }
    assert {id_: said[id_] for id_ in RECORDED} == RECORDED


KNOWN = {
    "result-in-the-registers-of-a-multiplicand": {"a330f3ef", "aab1ca38"},
    "addend-in-another-order": {"3d765d0f"},
    "addend-of-bytes-in-another-order": {"b884f655"},
    "addend-of-bytes-lost": {"49c3d7f4"},
    "addend-of-sparse-bytes-in-another-order": {"4c2cee8a"},
    "addend-of-sparse-bytes-lost": {"98e7ef05"},
    "position-of-bfe-folded": {"a8997f2b"},
    "length-of-bfi-modulo-32": {"128a5e25"},
    "difference-of-shifts-rotated": {"ae98bf0a"},
    "repeated-comparison-without-ftz": {"2f131bab"},
    "absolute-values-left-out-behind-sat-of-one-instruction": {"457233a4"},
    "other-half-behind-set": {"8f983174"},
    "least-number-added-by-sub-sat": {"0750f349"},
    "addend-of-madc-hi-lost": {"eb66768c"},
    "shift-of-a-product-left-out": {"b7c3cc9b"},
    "neg-ftz-taken-for-neg": {"3a59b494"},
    "sign-in-front-of-a-shift": {"b5a3bb47"},
    "amount-of-a-16-bit-shift-lost": {"af752280", "7beaa852"},
    "constants-of-a-saturating-sum": {"d1fccb98"},
    "cnot-negated-behind-xor": {"79b33306"},
    "sign-in-front-of-xorsign-left-out": {"e3018b80"},
    "mask-compared-without-ftz": {"c0f7e6b0"},
    "mask-negated-behind-a-predicate": {"5a55df11"},
    "nan-of-64-bits-saturated": {"4c5a39c9"},
    "constant-multiplicand-of-bytes-unpacked-from-another-number": {"19c7b6f1", "09bdf6a7"},
    "copysign-of-one-register-merged": {"4fe92c5a"},
    "ftz-lost-in-front-of-a-maximum-with-0": {"dcc58354"},
    "half-converted-to-tf32-by-name": {"9168abff"},
    "lop3-of-one-register-merged": {"bf0d6aa8"},
    "negation-of-a-fragment-lost": {"691466f5", "69f82e72", "88f1af40"},
}
"""By the id of a known discrepancy: the findings that it explains. All others have another cause,
or the name that they had when they were recorded."""


def test_a_known_discrepancy_explains_the_findings_of_its_cause_and_no_others():
    found: dict[str, set[str]] = {}
    rows = load_known().entries
    for id_ in RECORDED:
        known = [one.id for one in rows if one.fits(ENTRIES[id_].finding)]
        assert len(known) <= 1, f"{id_}: {known}"
        for name in known:
            found.setdefault(name, set()).add(id_[:8])
    assert found == KNOWN


def test_no_two_causes_of_the_record_share_an_identity():
    found: dict[str, set[str]] = {}
    for id_, entry in ENTRIES.items():
        found.setdefault(entry.finding.identity.text, set()).add(id_[:8])
    assert [ids for ids in found.values() if len(ids) > 1] == [{"a330f3ef", "aab1ca38"}]


def test_every_finding_of_the_record_is_known_of_the_builds_that_it_names():
    listed = known_with(None)
    assert all(listed.match(entry.finding) is not None for entry in ENTRIES.values())


def test_a_row_names_a_finding_of_the_record_with_a_build_that_has_it():
    fitting = []
    for row in load_known().entries:
        assert isinstance(row, KnownRow)
        assert row.cause.count(". ") < 3
        if row.finding:
            finding = ENTRIES[row.finding].finding
            assert any(map(row.covers, wrong_builds(finding))), row.id
            fitting.append(row.fits(finding))
    # Some were found when experiments told less, and have the name that they had then.
    assert len(fitting) > 24
    assert fitting.count(False) <= 9


def test_the_isa_says_of_every_instruction_what_it_said():
    for entry in ENTRIES.values():
        finding = entry.finding
        if PROGRAM not in finding.files:
            (text,) = finding.instructions
            said = explain(text, target=finding.target, ptx_version=finding.ptx_version)
            assert said.verdict.value == finding.oracle.verdict, entry.id


def test_every_wrong_image_has_the_verdict_that_it_had():
    seen = 0
    for entry in ENTRIES.values():
        finding = entry.finding
        if PROGRAM in finding.files:
            program = decode_program(entry.read(PROGRAM), entry.id)
            before, after = unpack(entry, INPUT), unpack(entry, ACTUAL)
            assert before.dtype == np.uint8
            (verdict,) = judge(program, before, after, target=str(finding.details["architecture"]))
            assert verdict is finding.kind
            seen += 1
    assert seen == sum(PROGRAM in one.finding.files for one in ENTRIES.values()) >= 48


def test_there_is_an_answer_for_every_finding_of_an_assembler_and_for_no_other():
    answers = read_answers()
    assert answers.answers.keys() == {
        id_ for id_, one in ENTRIES.items() if PROGRAM not in one.finding.files
    }
    assert {len(row) for row in answers.answers.values()} == {len(answers.asked)}
    page = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "record.py"))
    assert page["text_of"](answers) == (FOLDER / "answers.json").read_text()


def test_answers_are_told_with_the_releases_that_gave_them():
    asked = ("12.2.9", "12.3.107", "12.4.99", "13.0.88", "13.5.37")
    told = Answers(asked=asked, answers={"x": (None, "crash", "rejected", None, "rejected")})
    assert answer_spans(told, "x") == "crash 12.3; rejected 12.4–13.5"
    assert answers_about(told, "x")[-1] == ("13.5.37", "rejected")
    assert (answer_spans(told, "y"), answers_about(told, "y")) == ("", [])
