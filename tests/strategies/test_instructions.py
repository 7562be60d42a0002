"""Strategies for instructions: what they give is one line, from the seed alone, and near."""

from __future__ import annotations

import re
from collections import Counter
from math import prod

import pytest
from draft_strategies import any_drafts, legal
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from oracle.forms import Form, kind_of
from oracle.instructions import INSTRUCTIONS
from oracle.isa import FORMS, spellings
from oracle.legality import verdict_of
from runners.instruction_modules import checked
from strategies.drafts import Draft, canonical, documented, foreign
from strategies.instructions import (
    Neighbourhood,
    damaged_drafts,
    legal_drafts,
    neighbourhoods,
)

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
few = settings(max_examples=30)


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
        vectors = [operand for operand in draft.operands if operand.startswith("{")]
        assert all(re.fullmatch(r"\{(%[rfd]\d+(, |(?=\})))*\}", one) for one in vectors)
        if isinstance(some.registers, int) and draft.operands != some.origin.operands:
            assert {operand.count("%") for operand in vectors} == {some.registers}


def test_every_instruction_and_block_of_the_page_is_left_often() -> None:
    origins: list[Draft] = []

    @seed(1)
    @settings(max_examples=1200, database=None, deadline=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(neighbourhoods(FORMS))
    def draw(some: Neighbourhood) -> None:
        origins.append(some.origin)

    draw()
    counts = Counter(CANONICAL[origin] for origin in origins)
    assert set(counts) == set(CANONICAL.values())
    assert min(Counter(origin.mnemonic for origin in origins).values()) > 20


@given(damaged_drafts(FORMS))
def test_a_damaged_draft_is_at_most_one_damage_from_a_legal_one(draft: Draft) -> None:
    assert draft.mnemonic in INSTRUCTIONS
    names = Counter(name for name, _ in draft.qualifiers)
    slots = Counter(INSTRUCTIONS[draft.mnemonic].slots)
    assert (names - slots).total() <= 1
    assert not slots - names


def test_damage_of_every_sort_is_drawn() -> None:
    orders = {tuple(slot.name for slot in slots) for form in FORMS for slots in spellings(form)}
    seen: set[str] = set()

    @seed(3)
    @settings(max_examples=200, database=None, deadline=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(damaged_drafts(FORMS))
    def draw(draft: Draft) -> None:
        names = [name for name, _ in draft.qualifiers]
        fewest = 4 if draft.mnemonic == "wmma.mma" else 2
        strides = ("-8", "0x100000000", "1.0", "{%stride}")
        shown = {
            "order": len(names) == len(set(names)) and tuple(names) not in orders,
            "doubled": len(names) > len(set(names)),
            "guard": bool(draft.predicate),
            "few operands": len(draft.operands) < fewest,
            "many operands": len(draft.operands) > 4,
            "stride": any(operand in strides for operand in draft.operands),
            "address": any(operand in ("[]", "[0]", "[%addr+2]") for operand in draft.operands),
            "bare register": any(re.fullmatch(r"%[rfd]\d+", o) for o in draft.operands),
        }
        seen.update(name for name, is_there in shown.items() if is_there)

    draw()
    assert seen == {"order", "doubled", "guard", "few operands", "many operands", "stride",
                    "address", "bare register"}  # fmt: skip


@given(st.sampled_from(FORMS))
def test_legal_drafts_begin_with_the_canonical_one_and_differ(form: Form) -> None:
    found = legal_drafts(form)
    assert found[0] == canonical(form)
    assert len({draft.text for draft in found}) == len(found)


@given(legal())
def test_legal_drafts_are_legal_where_the_newest_targets_are(draft: Draft) -> None:
    places = ((("9.3", "sm_100a")), ("6.4", "sm_75"))
    assert any(verdict_of(draft.text, ptx_version=v, target=t) == "legal" for v, t in places)


@pytest.mark.parametrize("mnemonic", INSTRUCTIONS)
def test_all_forms_of_an_instruction_have_the_same_slots(mnemonic: str) -> None:
    for form in FORMS:
        if form.mnemonic == mnemonic:
            assert tuple(slot.name for slot in form.slots) == INSTRUCTIONS[mnemonic].slots
