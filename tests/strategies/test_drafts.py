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
    vector,
)

forms = st.sampled_from(FORMS)
ACCESSES = st.sampled_from([f for f in FORMS if "p" in f.operands])
TYPES = {"r": "b32", "f": "f32", "d": "f64"}


@pytest.mark.parametrize("mnemonic", ["wmma.load", "wmma.mma", "wmma.store", "ldmatrix"])
def test_the_canonical_draft_of_a_form_has_its_opcode_and_fits_its_declarations(
    mnemonic: str,
) -> None:
    for form in FORMS:
        if form.mnemonic == mnemonic:
            draft = canonical(form)
            assert draft.opcode == form.opcode
            assert draft.text == f"{form.opcode} {', '.join(draft.operands)};"
            assert fits_declarations(draft, form)
            assert [name for name, _ in draft.qualifiers] == [slot.name for slot in form.slots]


@given(forms)
def test_canonical_vectors_are_of_the_type_and_length_of_the_fragment(form: Form) -> None:
    vectors = [operand for operand in canonical(form).operands if operand.startswith("{")]
    kinds = [kind for kind in form.operands if kind in form.vectors and kind != "e"]
    expected = [
        (form.vectors[kind].register_type.replace("s32", "b32"), form.vectors[kind].registers)
        for kind in kinds
    ]
    found = []
    for text in vectors:
        names = re.findall(r"%([rfd])(\d+)", text)
        found.append((TYPES[names[0][0]], len(names)))
        first = int(names[0][1])
        assert [int(number) for _, number in names] == list(range(first, first + len(names)))
    assert found == expected


@given(forms.filter(lambda form: form.mnemonic.startswith("wmma.")))
def test_the_matrices_of_a_canonical_draft_are_those_of_its_form(form: Form) -> None:
    matrices = {matrix.operand: matrix for matrix in form.matrices.values()}
    assert described(canonical(form)) == matrices


@given(any_drafts())
def test_a_draft_that_describes_no_matrices_has_none_and_raises_nothing(draft: Draft) -> None:
    for name, matrix in described(draft).items():
        if isinstance(matrix, Matrix):
            assert matrix.operand == name
            assert dealt_once(matrix) >= 1
            assert matrix.shape.name == draft.qualifier("shape")
        else:
            assert not INSTRUCTIONS[draft.mnemonic].opaque


@given(any_drafts())
def test_the_text_of_a_draft_is_predicate_opcode_operands_and_a_semicolon(draft: Draft) -> None:
    guard, _, rest = draft.text.rpartition(draft.opcode)
    assert guard == (f"@{draft.predicate} " if draft.predicate else "")
    assert rest == f" {', '.join(draft.operands)};"


@given(legal(), st.sampled_from(["layout", "alayout", "shape", "type", "num", "none"]))
def test_another_text_in_a_slot_is_there_and_nowhere_else(draft: Draft, slot: str) -> None:
    changed = draft.with_qualifiers({slot: "new"})
    there = any(name == slot for name, _ in draft.qualifiers)
    assert changed.qualifier(slot) == ("new" if there else "")
    assert [n for n, _ in changed.qualifiers] == [n for n, _ in draft.qualifiers]
    for name, text in draft.qualifiers:
        assert changed.qualifier(name) == ("new" if name == slot else text)


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


@pytest.mark.parametrize("predicate", ["%r0", "p", "!!%p0", "%p", "!%r0"])
@given(draft=legal())
def test_a_guard_that_is_no_declared_predicate_does_not_fit(predicate: str, draft: Draft) -> None:
    assert not fits_declarations(replace(draft, predicate=predicate), form_of(draft.opcode))


@pytest.mark.parametrize("address", ["[%r0]", "[%stride]", "[undeclared]", "[0]", "[%f0+4]"])
@given(form=ACCESSES)
def test_an_address_that_is_no_declared_pointer_does_not_fit(address: str, form: Form) -> None:
    assert not fits_declarations(canonical(form, address=address), form)


@given(ACCESSES)
def test_the_variable_in_shared_memory_fits_accesses_to_shared_memory(
    form: Form,
) -> None:
    draft = canonical(form, address="[tile+128]")
    assert fits_declarations(draft, form) == form.space.startswith("shared")
    assert explain(draft.text, target="sm_100a", ptx_version="9.3").legal


@pytest.mark.parametrize("stride", ["%addr", "%f0", "tile", "%r0", "s", "_"])
@given(form=st.sampled_from([form for form in FORMS if form.mnemonic == "wmma.store"]))
def test_a_stride_that_is_no_declared_integer_does_not_fit(stride: str, form: Form) -> None:
    assert not fits_declarations(canonical(form, stride=stride), form)


@given(st.integers(1, 40), st.sampled_from(["b32", "s32", "f32", "f64"]), st.integers(0, 40))
def test_a_vector_has_consecutive_registers_of_its_type(count: int, type_: str, first: int) -> None:
    prefix = {"b32": "r", "s32": "r", "f32": "f", "f64": "d"}[type_]
    expected = ", ".join(f"%{prefix}{first + i}" for i in range(count))
    assert vector(count, type_, first) == f"{{{expected}}}"
    assert vector(count, type_) == vector(count, type_, 0)


@given(st.sampled_from([form for form in FORMS if form.mnemonic == "wmma.mma"]))
def test_the_registers_of_a_b_and_of_the_accumulators_are_apart(form: Form) -> None:
    operands = as_operands({name: form.matrix(name) for name in "dabc"})
    _, a, b, c = (set(re.findall(r"%\w+", operand)) for operand in operands)
    assert not a & b
    assert not c & (a | b)
