"""Instructions as text: what is drawn is one line, from the seed alone, and near what is legal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from fnmatch import fnmatchcase
from math import prod
from pathlib import Path

import pytest
from draft_strategies import any_drafts, legal
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from oracle.isa.forms import Form, Matrix, kind_of
from oracle.isa.legality import Verdict, verdict_of
from oracle.isa.lookup import FORMS, INSTRUCTIONS, form_of, is_available
from oracle.isa.targets import Module, parse_target, parse_version
from runners.assemblers.judgements import checked
from strategies.draws import Selection, draw
from strategies.instructions import (
    Draft,
    Neighbourhood,
    canonical,
    dealt_once,
    described,
    documented,
    fits_declarations,
    foreign,
    legal_drafts,
    neighbourhoods,
    round_drafts,
)

ACCESSES = st.sampled_from([f for f in FORMS if "p" in f.operands])


@given(any_drafts())
def test_a_draft_that_describes_no_matrices_has_none_and_raises_nothing(draft: Draft) -> None:
    for name, matrix in described(draft).items():
        if isinstance(matrix, Matrix):
            assert matrix.operand == name
            assert dealt_once(matrix) >= 1
            assert matrix.shape.name == draft.qualifier("shape")
        else:
            assert not INSTRUCTIONS[draft.mnemonic].opaque


@given(legal())
def test_legal_drafts_fit_their_declarations(draft: Draft) -> None:
    assert fits_declarations(draft, form_of(draft.opcode))


@given(legal(), st.data())
def test_a_register_of_another_type_does_not_fit(draft: Draft, data: st.DataObject) -> None:
    form = form_of(draft.opcode)
    # Selectors of scales stand in braces, too, and are numbers, or in registers of 16 bits.
    vectors = [i for i, operand in enumerate(draft.operands) if re.match(r"\{%[rfd]", operand)]
    assume(vectors)
    at = data.draw(st.sampled_from(vectors))
    names = draft.operands[at].strip("{}").split(", ")
    wrong = {"%r": ("%d0", "%h0", "%p0", "%f0"), "%f": ("%d0", "%h0"), "%d": ("%r0", "%f0", "%h0")}
    names[-1] = data.draw(st.sampled_from(wrong[names[-1][:2]]))
    operands = (*draft.operands[:at], "{" + ", ".join(names) + "}", *draft.operands[at + 1 :])
    assert not fits_declarations(replace(draft, operands=operands), form)


STORES = [form for form in FORMS if form.mnemonic == "wmma.store"]
ANY = st.sampled_from(FORMS).map(canonical)
WRONG = [
    *((ANY, {"predicate": one}) for one in ("%r0", "p", "!!%p0", "%p", "!%r0")),
    *((ACCESSES.map(lambda form, one=one: canonical(form, address=one)), {})
      for one in ("[%r0]", "[%stride]", "[undeclared]", "[0]", "[%f0+4]")),
    *((st.sampled_from(STORES).map(lambda form, one=one: canonical(form, stride=one)), {})
      for one in ("%addr", "%f0", "tile", "%r0", "s", "_")),
]  # fmt: skip


@pytest.mark.parametrize(("drafts", "changes"), WRONG)
@given(data=st.data())
def test_a_guard_address_or_stride_that_is_not_declared_so_does_not_fit(
    drafts: st.SearchStrategy[Draft], changes: dict[str, str], data: st.DataObject
) -> None:
    draft = replace(data.draw(drafts), **changes)
    assert not fits_declarations(draft, form_of(draft.opcode))


CANONICAL = {canonical(form): (form.mnemonic, form.page_family) for form in FORMS}
LIMIT = 2 * 800
"""Twice the limit of a neighbourhood: what is thinned by a whole step has less than that."""


@given(any_drafts())
def test_the_text_of_any_draft_is_one_line_of_ascii_that_a_module_can_hold(draft: Draft) -> None:
    text = draft.text
    assert len(text.splitlines()) == 1
    assert text.isascii()
    assert text.isprintable()
    assert text.endswith(";")
    assert checked(text) == text


# A neighbourhood lists up to 1,600 instructions.
few = settings(max_examples=10)


@few
@given(neighbourhoods(FORMS))
def test_a_neighbourhood_is_listed_whole_or_thinned_evenly(some: Neighbourhood) -> None:
    sizes = []
    for axis in some.axes:
        kind = kind_of(axis[0])
        sizes.append(1 + len(documented(kind)) + (len(foreign(kind)) if some.foreign else 0))
    found = list(some.drafts())
    assert 0 < len(found) < LIMIT
    if prod(sizes) <= LIMIT // 2:
        assert len(found) == prod(sizes)
        if all(len({some.origin.qualifier(slot) for slot in axis}) == 1 for axis in some.axes):
            assert some.origin.opcode in {draft.opcode for draft in found}
    else:
        assert len(found) > LIMIT // 4


@few
@given(neighbourhoods(FORMS))
def test_a_neighbour_differs_from_its_origin_along_the_axes_alone(some: Neighbourhood) -> None:
    along = {slot for axis in some.axes for slot in axis}
    for draft in some.drafts():
        assert draft.mnemonic == some.origin.mnemonic
        for (name, text), (_, old) in zip(draft.qualifiers, some.origin.qualifiers, strict=True):
            assert text == old or name in along
        for axis in some.axes:
            assert len({draft.qualifier(slot) for slot in axis}) == 1
        if some.registers == "origin":
            assert draft.operands == some.origin.operands
        # Selectors of scales stand in braces, too, and are numbers.
        vectors = [operand for operand in draft.operands if re.match(r"\{(?!\d)", operand)]
        assert all(re.fullmatch(r"\{(%[rfd]\d+(, |(?=\})))*\}", one) for one in vectors)
        if isinstance(some.registers, int) and draft.operands != some.origin.operands:
            assert {operand.count("%") for operand in vectors} == {some.registers}


def test_every_instruction_and_block_of_the_page_is_left_often() -> None:
    origins = [some.origin for some in draw(neighbourhoods(FORMS), 600, 1)]
    counts = Counter(CANONICAL[origin] for origin in origins)
    assert set(counts) == set(CANONICAL.values())
    assert min(Counter(origin.mnemonic for origin in origins).values()) > 10


@given(st.sampled_from(FORMS))
def test_legal_drafts_begin_with_the_canonical_one_and_differ(form: Form) -> None:
    found = legal_drafts(form)
    assert found[0] == canonical(form)
    assert len({draft.text for draft in found}) == len(found)
    assert tuple(slot.name for slot in form.slots) == INSTRUCTIONS[form.mnemonic].slots


ROOT = Path(__file__).parents[2]
TARGET, VERSION = parse_target("sm_90"), parse_version("8.0")

PRINTED = """
import neighbour
from strategies.instructions import round_drafts
from oracle.isa.lookup import FORMS
from oracle.isa.targets import parse_target, parse_version
drafts = round_drafts(FORMS, parse_target("sm_90"), parse_version("8.0"), seed=5, number=0)
print("\\n".join(draft.text for draft in drafts))
"""


def test_a_seed_draws_the_same_beside_any_other_modules(tmp_path):
    # Hypothesis draws integers that stand in modules outside of site-packages.
    constants = ", ".join(map(str, range(1, 700)))
    (tmp_path / "neighbour.py").write_text(f"NUMBERS = [{constants}]\n")
    printed = subprocess.run(
        [sys.executable, "-c", PRINTED], cwd=tmp_path, capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{tmp_path}", "PYTHONHASHSEED": "2"},
    ).stdout  # fmt: skip
    drafts = round_drafts(FORMS, TARGET, VERSION, seed=5, number=0)
    assert printed.splitlines() == [draft.text for draft in drafts]
    # Nor does drawing leave a folder of its own where a person happens to be.
    assert not (tmp_path / ".hypothesis").exists()


def test_a_round_holds_legal_and_illegal_instructions():
    drafts = round_drafts(FORMS, TARGET, VERSION, seed=2**64 - 1, number=3)
    assert len({draft.text for draft in drafts}) == len(drafts)
    where = {"target": "sm_90", "ptx_version": "8.0"}
    verdicts = Counter(verdict_of(draft.text, **where) for draft in drafts)
    assert verdicts[Verdict.LEGAL] > 200  # of about 300 in every round
    assert verdicts[Verdict.ILLEGAL] > len(drafts) // 3
    mnemonics = {draft.mnemonic for draft in drafts}
    assert mnemonics >= {"wmma.load", "wmma.mma", "wmma.store", "ldmatrix"}


def test_every_form_is_dealt_before_any_comes_again():
    ldmatrix = Selection(pattern="ldmatrix").forms()
    drafts = round_drafts(ldmatrix, TARGET, VERSION, seed=1, number=0)
    known = {form.opcode for form in ldmatrix if is_available(form, Module(TARGET, VERSION))}
    assert known <= {draft.opcode for draft in drafts}


@pytest.mark.parametrize(
    "pattern",
    ["*", "wmma.mma*", "*.tf32", "wmma.load.?.sync*", "[wl]*x4*", "ldmatrix", "f64", "zz"],
)
def test_a_selection_holds_the_forms_that_fit_its_pattern(pattern):
    chosen = set(Selection(pattern=pattern).forms())
    for form in FORMS:
        fits = fnmatchcase(form.opcode, pattern) or (pattern.isalnum() and pattern in form.opcode)
        assert (form in chosen) == fits, form.opcode
