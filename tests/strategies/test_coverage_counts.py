"""Counts of what was reached: merged in any order, kept as JSON, and steering what comes next."""

from __future__ import annotations

import json
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oracle.errors import InfrastructureError
from oracle.isa.lookup import FORMS
from strategies.draws import Selection
from strategies.features import WISHED, Dimension, possible_features
from strategies.rounds import Batch, ProgramCoverage, family_of, round_batches, selected_forms

TARGET, VERSION = "sm_100a", "8.6"
SELECTED = selected_forms(Selection(), target=TARGET, version=VERSION)
FAMILIES = sorted({family_of(form) for form in SELECTED})
KEYS = st.integers(0, 2**64 - 1)
ROUNDS = st.integers(0, 2)
"""Keys of rounds that several tests look at: drawing one takes a search of its own."""
NESTED = settings(suppress_health_check=[HealthCheck.nested_given, HealthCheck.too_slow])


@cache
def batches_of(key: int) -> list[Batch]:
    return list(round_batches(SELECTED, target=TARGET, version=VERSION, key=key, count=8))


def counted(*batches: Batch) -> ProgramCoverage:
    coverage = ProgramCoverage()
    for batch in batches:
        coverage.add(batch)
    return coverage


@settings(NESTED, max_examples=4)
@given(ROUNDS, st.data())
def test_counts_do_not_depend_on_the_order_in_which_they_are_added_and_merged(
    key: int, data: st.DataObject
) -> None:
    batches = batches_of(key)
    shuffled = data.draw(st.permutations(batches))
    cut = data.draw(st.integers(0, len(batches)))
    merged = counted(*shuffled[:cut])
    merged.merge(counted(*shuffled[cut:]))
    assert merged.state() == counted(*batches).state()
    assert merged.focuses(key, 30, SELECTED) == counted(*batches).focuses(key, 30, SELECTED)


@settings(NESTED, max_examples=4)
@given(ROUNDS)
def test_counts_come_back_from_json(key: int) -> None:
    coverage = counted(*batches_of(key))
    state = json.loads(json.dumps(coverage.state()))
    again = ProgramCoverage.from_state(state)
    assert again.state() == coverage.state()
    assert again.focuses(key, 40, SELECTED) == coverage.focuses(key, 40, SELECTED)


@pytest.mark.parametrize(
    "state", [{}, {"programs": 1}, {**ProgramCoverage().state(), "forms": [1]},
              {**ProgramCoverage().state(), "programs": "many"},
              {**ProgramCoverage().state(), "pairs": {"a": "few"}}]
)  # fmt: skip
def test_what_are_no_counts_is_said_with_a_remedy(state: dict[str, object]) -> None:
    with pytest.raises(InfrastructureError, match="start it anew"):
        ProgramCoverage.from_state(state)


@given(KEYS, st.integers(0, 1000))
def test_all_families_come_before_any_comes_again(key: int, turn: int) -> None:
    focuses = ProgramCoverage().focuses(key, len(FAMILIES), SELECTED, first=turn * len(FAMILIES))
    assert sorted(family_of(focus.form) for focus in focuses if focus.form) == FAMILIES


@settings(max_examples=8)
@given(KEYS, st.sampled_from(SELECTED))
def test_the_form_comes_next_that_was_reached_least(key: int, left_out: object) -> None:
    forms = [form for form in SELECTED if family_of(form) == family_of(left_out)]  # type: ignore[arg-type]
    coverage = ProgramCoverage()
    state = coverage.state()
    state["main_forms"] = {form.opcode: 1 + (key + place) % 3 for place, form in enumerate(forms)
                           if form is not left_out}  # fmt: skip
    (focus,) = ProgramCoverage.from_state(state).focuses(key, 1, forms)
    assert focus.form is left_out


@settings(max_examples=8)
@given(KEYS, st.sampled_from(WISHED), st.data())
def test_features_are_wished_for_where_a_family_had_them_least(
    key: int, dimension: Dimension, data: st.DataObject
) -> None:
    forms = [form for form in SELECTED if family_of(form) == "wmma.mma.f32.f32"]
    there = [one for one in possible_features(forms[0]) if one.dimension is dimension]
    rare = data.draw(st.sampled_from(there))
    state = ProgramCoverage().state()
    state["pairs"] = {
        f"wmma.mma.f32.f32, {dimension.value}: {one.value}": 0 if one is rare else 5
        for one in there
    }
    coverage = ProgramCoverage.from_state(state)
    wishes = [focus.features for focus in coverage.focuses(key, 64, forms)]
    asked = {one for features in wishes for one in features if one.dimension is dimension}
    assert asked == {rare}
    # What was asked for again and again and never came makes room for others.
    state["asked"] = {f"wmma.mma.f32.f32, {dimension.value}: {rare.value}": 6}
    wishes = [one.features for one in ProgramCoverage.from_state(state).focuses(key, 64, forms)]
    assert not any(rare in features for features in wishes)


def test_lines_name_what_is_missing() -> None:
    opcodes = [form.opcode for form in FORMS]
    empty = ProgramCoverage().lines(opcodes)
    assert [line.reached for line in empty] == [0] * len(empty)
    assert {line.name for line in empty} == {
        "forms",
        "PTX ISA versions",
        "value class",
        *map(str, Dimension),
    }
    assert empty[0].total == len(FORMS)
    batch = batches_of(5)[0]
    line = counted(batch).lines([batch.form.opcode])[0]
    assert (line.reached, line.total, tuple(line.missing)) == (1, 1, ())
    # What was not selected counts neither way (`--only ldmatrix`: "159 of 922", 2026-11-24).
    other = next(opcode for opcode in opcodes if opcode not in counted(batch).counts["forms"])
    line = counted(batch).lines([other])[0]
    assert (line.reached, line.total, tuple(line.missing)) == (0, 1, (other,))
