"""Making an instruction plainer, part by part and to an end, and the module in which it stands."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from draft_strategies import any_drafts, legal
from hypothesis import given
from hypothesis import strategies as st

from oracle.isa.legality import verdict_of
from oracle.isa.lookup import form_of
from oracle.isa.targets import TARGETS, VERSIONS, Module
from strategies.draws import draw_one
from strategies.instructions import Draft, canonical, token_soup
from strategies.simplification.instructions import parts, plainest, plainest_module, simplified


@given(any_drafts(), st.data())
def test_a_part_has_a_name_of_its_own_and_once_it_is_plain_is_none(
    draft: Draft, data: st.DataObject
) -> None:
    names = parts(draft)
    assert len(set(names)) == len(names)
    assert simplified(draft, frozenset()) == draft
    for name in names:
        plainer = simplified(draft, frozenset({name}))
        assert plainer != draft, name
        # Words and operands are named by their places, which move.
        assert name.startswith(("word", "operand")) or name not in parts(plainer)
    plain = frozenset(data.draw(st.lists(st.sampled_from(names or ("none",)), unique=True)))
    assert simplified(draft, plain | {"nothing of this name"}) == simplified(draft, plain)


@given(any_drafts(), st.data())
def test_no_order_of_making_parts_plain_goes_in_circles(draft: Draft, data: st.DataObject) -> None:
    seen = {draft}
    for _ in range(60):
        names = parts(draft)
        if not names:
            return
        draft = simplified(draft, frozenset({data.draw(st.sampled_from(names))}))
        assert draft not in seen, draft.text
        seen.add(draft)
    pytest.fail(f"still {parts(draft)} after 60 steps: {draft.text}")


@given(token_soup())
def test_soup_can_be_taken_apart_to_the_bare_mnemonic(draft: Draft) -> None:
    bare = simplified(draft, frozenset(parts(draft)))
    assert bare == Draft(mnemonic=draft.mnemonic, qualifiers=(), operands=())


SAFE = ("predicate", "operand 0", "operand 1", "operand 2", "order")
"""Parts of a legal instruction that may be made plain without asking about the rest."""
PLACES = (("9.4", "sm_100a"), ("6.4", "sm_75"), ("9.4", "sm_120a"))


def is_legal(draft: Draft) -> bool:
    return any(verdict_of(draft.text, ptx_version=v, target=t) == "legal" for v, t in PLACES)


@given(legal(), st.sets(st.sampled_from(SAFE)), st.sampled_from(["", "%p0", "!%p0"]))
def test_plainer_operands_order_and_guard_keep_a_legal_instruction_legal(
    draft: Draft, names: set[str], predicate: str
) -> None:
    draft = replace(draft, predicate=predicate)
    assert is_legal(draft)
    assert is_legal(simplified(draft, frozenset(names & set(parts(draft)))))


@pytest.mark.parametrize(
    ("form", "plainest"),
    [
        (
            "wmma.store.d.sync.aligned.col.m16n16k8.global.f32",
            "wmma.store.d.sync.aligned.row.m16n16k8.f32 [%addr], "
            "{%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7};",
        ),
        (
            "wmma.mma.sync.aligned.col.row.m8n8k4.rz.f64.f64.f64.f64",
            "wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64 "
            "{%d0, %d1}, {%d16}, {%d32}, {%d0, %d1};",
        ),
        (
            "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
            "ldmatrix.sync.aligned.m8n8.x1.b16 {%r0}, [%addr];",
        ),
    ],
)
def test_what_a_form_comes_to_when_all_but_shape_and_type_is_plain(
    form: str, plainest: str
) -> None:
    draft = canonical(form_of(form), address="[%addr+64]")
    names = frozenset(parts(draft)) - {"multiplicands", "accumulators"}
    found = simplified(draft, names)
    if form_of(form).mnemonic == "ldmatrix":
        found = replace(found, operands=("{%r0}", found.operands[1]))
    assert found.text == plainest


def test_the_words_that_are_needed_are_all_that_the_plainest_soup_keeps() -> None:
    for key in range(8):
        draft = draw_one(token_soup(), key)
        words = [text for _, text in draft.qualifiers]
        needed = Counter(random.Random(key).sample(words, -(-len(words) // 3)))
        found = plainest(draft, lambda one: needed <= Counter(text for _, text in one.qualifiers))  # noqa: B023
        assert Counter(text for _, text in found.qualifiers) == needed
        assert not found.operands


MODULES = st.sampled_from(
    [
        Module(target, version)
        for target in TARGETS.values()
        for version in VERSIONS
        if target.number >= 70 and Module(target, version).exists
    ]
)


@given(MODULES)
def test_what_every_module_shows_is_asked_of_the_oldest_and_what_only_one_shows_there(module):
    found = plainest_module(lambda one: True, module)
    assert (found.target.name, str(found.version)) == ("sm_70", "6.0")
    assert plainest_module(lambda one: one == module, module) == module


@given(MODULES, st.randoms(use_true_random=False))
def test_what_is_returned_shows_it(module, random):
    kept = {}

    def shows(one):
        return one == module or kept.setdefault(
            (one.target.name, one.version), random.random() < 0.3
        )

    asked = []
    found = plainest_module(lambda one: asked.append(one) or shows(one), module)
    assert shows(found)
    assert len(asked) <= 90
    assert bool(found.target.suffix) <= bool(module.target.suffix)


@given(MODULES, st.integers(0, len(VERSIONS) - 1))
def test_the_lowest_version_is_found(module, first):
    least = min(VERSIONS[first], module.version)
    found = plainest_module(
        lambda one: one.version >= least and one.target == module.target, module
    )
    assert found.target == module.target
    assert found.version == max(least, module.target.since)
