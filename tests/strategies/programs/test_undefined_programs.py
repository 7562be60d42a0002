"""Undefined programs are undefined, for many reasons, and touch nothing but their own bytes."""

from __future__ import annotations

import re

from drawn_programs import PLACES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oracle.isa.lookup import FORMS
from oracle.isa.targets import Module
from oracle.program.definedness import undefined
from oracle.program.program import Program, walk
from strategies.draws import draw
from strategies.features import Focus, features_of
from strategies.programs import undefined_programs


@st.composite
def placed(draw: st.DrawFn) -> tuple[Program, str, str]:
    target, version = draw(st.sampled_from(PLACES))
    strategy = undefined_programs(Focus(), module=Module.named(target, version), forms=FORMS)
    return draw(strategy), target, version


_SETTINGS = settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@_SETTINGS
@given(placed())
def test_each_is_undefined_for_a_reason_and_touches_nothing_but_its_own_memory(
    case: tuple[Program, str, str],
) -> None:
    program, target, _ = case
    assert undefined(program, target=target)
    assert features_of(program)
    for step in walk(program.steps):
        for span in (*step.bytes_read, *step.bytes_written) if step.uses else ():
            start = program.offset(span.buffer)
            shared = program.buffer(span.buffer).space == "shared"
            assert start + span.start >= 0
            assert start + span.end <= (program.shared_bytes if shared else program.image_bytes)


def test_every_kind_of_reason_is_drawn() -> None:
    strategy = undefined_programs(Focus(), module=Module.named("sm_90", "8.0"), forms=FORMS)
    text = "\n".join(
        str(reason) for program in draw(strategy, 150, 9) for reason in undefined(program)
    )
    for kind in ("below the default", "bits apart", "is not a multiple of", "leaves buffer",
                 "since the last barrier"):  # fmt: skip
        assert re.search(kind, text), kind
