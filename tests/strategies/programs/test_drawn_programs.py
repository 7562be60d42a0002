"""Drawn programs are legal, defined and small, lose no product, and shrink to plain ones."""

from __future__ import annotations

import re
from functools import cache
from statistics import mean

import pytest
from drawn_programs import PLACES, drawn
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from oracle.errors import UsageError
from oracle.isa.forms import Form
from oracle.isa.legality import Verdict, explain
from oracle.isa.lookup import FORMS, INSTRUCTIONS, LDMATRIX_FORMS, MMA_FORMS, is_available
from oracle.isa.targets import Module
from oracle.program.definedness import undefined
from oracle.program.operands import Place
from oracle.program.program import Program, requirements, walk
from oracle.program.steps import (
    Barrier,
    Branch,
    Copy,
    Lines,
    Loop,
    Op,
    PlainAccess,
    Step,
    accesses_matrix,
    loads_fragment,
    loads_rows,
    multiplies_fragments,
    stores_fragment,
)
from runners.emission import emit
from strategies.features import FEATURES, Focus, Has, features_of
from strategies.programs import VALUED_FORMS, programs

_SETTINGS = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
_MATRIX_LINE = re.compile(
    rf"^ *((?:{'|'.join(map(re.escape, INSTRUCTIONS))})\.[^;]*;)", re.MULTILINE
)


@st.composite
def placed(draw: st.DrawFn) -> tuple[Program, str, str]:
    target, version = draw(st.sampled_from(PLACES))
    return (
        draw(programs(Focus(), module=Module.named(target, version), forms=FORMS)),
        target,
        version,
    )


@settings(_SETTINGS, max_examples=15)
@given(placed())
def test_programs_are_defined_and_legal_where_they_are_for(case: tuple[Program, str, str]) -> None:
    program, target, version = case
    assert not undefined(program, target=target)
    for form in requirements(program):
        assert is_available(form, Module.named(target, version)), form.opcode
    lines = _MATRIX_LINE.findall(emit(program, module=Module.named(target, version)).ptx)
    assert len(lines) == sum(step.count for step in walk(program.steps) if isinstance(step, Op))
    for line in lines:
        found = explain(line, target=target, ptx_version=version)
        assert found.verdict is Verdict.LEGAL, f"{line} {found}"


def test_programs_of_a_campaign_are_defined_on_every_target() -> None:
    for key, (target, version) in enumerate(PLACES):
        for program in drawn(count=10, key=key, target=target, version=version):
            assert not undefined(program, target=target)


@cache
def many() -> list[Program]:
    """Programs that several tests look at."""
    return drawn(count=200, key=12)


def test_programs_and_images_are_mostly_small() -> None:
    found = many()
    assert mean(program.image_bytes for program in found) < 10 << 10
    assert max(program.image_bytes for program in found) <= 64 << 10
    assert max(program.shared_bytes for program in found) <= 24 << 10
    steps = sorted(sum(1 for _ in walk(program.steps)) for program in found)
    assert steps[0] <= 5
    assert steps[100] <= 16
    assert steps[-10] >= 24


def test_huge_strides_come_only_where_they_are_asked_for_and_in_a_mebibyte() -> None:
    asked = drawn(Focus(features=frozenset({Has.STRIDE_HUGE})), count=30, key=13)
    assert all(Has.STRIDE_HUGE in features_of(program) for program in asked)
    assert max(program.image_bytes for program in asked) <= 1 << 20
    assert not any(Has.STRIDE_HUGE in features_of(p) for p in many()[:100])


def _lost(steps: tuple[Step, ...], needed: set[str], found: list[Step]) -> set[str]:
    """Collect the multiplications whose D nothing needs; return what is needed before."""
    for step in reversed(steps):
        match step:
            case Branch():
                arms = [_lost(arm, set(needed), found) for arm in (step.then, step.otherwise)]
                needed = arms[0] | arms[1]
            case Loop():
                needed |= _lost(step.body, set(needed), [])
                needed |= _lost(step.body, set(needed), found)
            case _:
                written = "" if step.writes is None else step.writes.name
                if multiplies_fragments(step) and written not in needed:
                    found.append(step)
                needed.discard(written)
                needed.update(use.name for use in step.reads)
    return needed


def test_no_product_is_lost() -> None:
    for program in many():
        found: list[Step] = []
        _lost(program.steps, set(), found)
        assert not found, program


@pytest.mark.parametrize("form", [*VALUED_FORMS[::40], MMA_FORMS[-1]], ids=lambda f: f.opcode)
def test_a_multiplication_shrinks_to_itself_between_plain_loads_and_a_plain_store(
    form: Form,
) -> None:
    strategy = programs(Focus(form=form), module=Module.named("sm_90", "8.0"), forms=FORMS)
    plain = find(strategy, lambda _: True, settings=settings(phases=[Phase.generate, Phase.shrink]))
    loads, (product, store) = plain.steps[:3], plain.steps[3:]
    assert all(map(loads_fragment, loads))
    assert multiplies_fragments(product)
    assert product.form == form
    assert stores_fragment(store)
    for step in (*loads, store):
        assert accesses_matrix(step)
        assert step.form.space == "global"
        assert step.memory == Lines(place=Place(buffer=step.memory.place.buffer))
    assert [step.form.layout for step in (loads[2], store) if accesses_matrix(step)] == [
        "row", "row"
    ]  # fmt: skip
    assert features_of(plain) <= {
        FEATURES["load a"], FEATURES["load b"], FEATURES["load c"], FEATURES["multiplication"],
        FEATURES["store"],
        Has.ONE_MULTIPLICATION, Has.STRIDE_OMITTED, Has.ALIGNED_128,
        FEATURES["load: .global"], FEATURES["store: .global"],
    }  # fmt: skip


@pytest.mark.parametrize("form", LDMATRIX_FORMS[:1], ids=lambda form: form.opcode)
def test_an_ldmatrix_shrinks_to_itself(form: Form) -> None:
    strategy = programs(Focus(form=form), module=Module.named("sm_90", "8.0"), forms=FORMS)
    plain = find(strategy, lambda _: True, settings=settings(phases=[Phase.generate, Phase.shrink]))
    copy, barrier, rows, store = plain.steps
    assert isinstance(copy, Copy)
    assert isinstance(barrier, Barrier)
    assert loads_rows(rows)
    assert isinstance(store, PlainAccess)
    assert store.stores
    assert rows.memory.addresses == tuple(range(0, 512, 16))


def test_a_form_that_the_target_lacks_is_refused() -> None:
    bf16 = next(form for form in VALUED_FORMS if form.a_type.name == "bf16")
    with pytest.raises(UsageError, match="does not exist on sm_75"):
        programs(Focus(form=bf16), module=Module.named("sm_75", "7.0"), forms=FORMS)
    with pytest.raises(UsageError, match="none of the given forms"):
        programs(Focus(), module=Module.named("sm_75", "7.0"), forms=(bf16,))
