"""Drafts: text in the making says what the form says, and tells which registers it needs."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from draft_strategies import any_drafts, legal
from hypothesis import assume, given
from hypothesis import strategies as st

from oracle.forms import Form
from oracle.instructions import INSTRUCTIONS
from oracle.isa import FORMS, form_of
from oracle.legality import explain
from oracle.matrices import Matrix
from strategies.drafts import (
    Draft,
    as_operands,
    canonical,
    dealt_once,
    described,
    fits_declarations,
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
    vectors = [i for i, operand in enumerate(draft.operands) if operand[0] == "{"]
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


@given(ACCESSES)
def test_the_variable_in_shared_memory_fits_accesses_to_shared_memory(
    form: Form,
) -> None:
    draft = canonical(form, address="[tile+128]")
    assert fits_declarations(draft, form) == form.space.startswith("shared")
    assert explain(draft.text, target="sm_100a", ptx_version="9.3").legal


@given(st.sampled_from([form for form in FORMS if form.mnemonic == "wmma.mma"]))
def test_the_registers_of_a_b_and_of_the_accumulators_are_apart(form: Form) -> None:
    operands = as_operands({name: form.matrix(name) for name in "dabc"})
    _, a, b, c = (set(re.findall(r"%\w+", operand)) for operand in operands)
    assert not a & b
    assert not c & (a | b)
