"""What is asked of a program is in it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from drawn_programs import drawn

from oracle.isa.forms import Form
from oracle.isa.lookup import (
    INSTRUCTIONS,
    LDMATRIX_FORMS,
    LOAD_FORMS,
    MMA_SYNC_FORMS,
    NARROW_FORMS,
    STORE_FORMS,
    warpgroup_forms,
)
from oracle.isa.targets import DEFAULT_TARGET, Module
from oracle.program.definedness import undefined
from oracle.program.program import requirements
from strategies.features import FEATURES, Feature, Focus, Has, features_of, possible_features
from strategies.programs import VALUED_FORMS, is_valued

_B16 = tuple(form for form in LDMATRIX_FORMS if form.texts["type"] == "b16")
_KINDS: dict[str, Sequence[Form | None]] = {
    "any form": (None,),
    "wmma.mma": VALUED_FORMS,
    "wmma.load": LOAD_FORMS,
    "wmma.store": STORE_FORMS,
    "ldmatrix": _B16,
}


def _honoured(feature: Feature, forms: Sequence[Form | None], each: int, key: int) -> list[bool]:
    found = []
    for index in range(each):
        form = forms[(key * 7919 + index * 104729) % len(forms)]
        focus = Focus(form=form, features=frozenset({feature}))
        target = "sm_120a" if form in NARROW_FORMS else DEFAULT_TARGET
        target = "sm_90a" if form is not None and form.warps > 1 else target
        for program in drawn(focus, count=2, key=key * 1000 + index, target=target, version="8.7"):
            assert not undefined(program, target=target)
            assert form is None or form in requirements(program)
            found.append(feature in features_of(program))
    return found


@pytest.mark.parametrize("feature", possible_features(VALUED_FORMS[0]), ids=str)
def test_a_feature_that_is_asked_for_is_there(feature: Feature) -> None:
    key = list(FEATURES.values()).index(feature)
    # About any form, and about one of the kinds in turn.
    chosen = ("any form", list(_KINDS)[1 + key % 4])
    found = [hit for kind in chosen for hit in _honoured(feature, _KINDS[kind], 1, key)]
    # Of 4 programs all but one.
    assert sum(found) >= 3, f"{sum(found)} of {len(found)}"


_LANES = tuple(form for form in MMA_SYNC_FORMS if is_valued(form, Module.named("sm_90", "8.7")))
_SPARSE = INSTRUCTIONS["mma.sp"].forms
_SCALED = [form for form in NARROW_FORMS if form.is_scaled and form.texts["stype"] == "ue8m0"][::9]


@pytest.mark.parametrize("feature", possible_features(_LANES[0]), ids=str)
def test_a_feature_that_is_asked_of_mma_sync_is_there(feature: Feature) -> None:
    key = list(FEATURES.values()).index(feature)
    found = _honoured(feature, _LANES, 3, key)
    # Not every form has every feature: that of f64 is fed by no ldmatrix.
    assert sum(found) >= 4, f"{sum(found)} of {len(found)}"


@pytest.mark.parametrize("feature", [one for one in FEATURES.values() if one.operand], ids=str)
def test_a_feature_that_only_forms_with_an_operand_have_is_there(feature: Feature) -> None:
    # A few forms have one selector alone.
    forms = {"sa": _SCALED, "scale-d": warpgroup_forms()[:8]}.get(feature.operand, _SPARSE[:8])
    assert sum(_honoured(feature, forms, 3, 7)) >= 5


def test_features_come_together() -> None:
    for features in (
        {Has.LOOP_WORD, Has.CHAIN, FEATURES["load: .shared"]},
        {Has.BRANCH_WORD, Has.TWO_ARMS, Has.STRIDE_REGISTER, FEATURES["store: .shared"]},
        {Has.SPILLS, Has.STRIDE_LEAST, FEATURES["ldmatrix"]},
        {Has.NESTED, Has.LOOP_WORD, Has.BRANCH_CONSTANT, Has.OFFSET_NEGATIVE},
    ):
        found = drawn(Focus(features=frozenset(features)), count=5, key=len(features))
        assert sum(features <= features_of(program) for program in found) >= 4
