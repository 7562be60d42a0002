"""What value campaigns draw: defined programs, contents from the recipe alone, JSON and back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.errors import UsageError
from oracle.isa.forms import Form
from oracle.isa.lookup import FORMS, is_available
from oracle.isa.targets import Module
from oracle.program.program import Program
from strategies.draws import Selection, draw
from strategies.features import Focus
from strategies.matrices import inputs, outputs
from strategies.programs import VALUED_FORMS, programs
from strategies.rounds import selected_forms


def _plainest(form: Form) -> Program:
    strategy = programs(Focus(form=form), module=Module.named("sm_90", "8.0"), forms=FORMS)
    # The first example that Hypothesis makes is the simplest one there is.
    return draw(strategy, 1, 0)[0]


PLAIN = tuple(map(_plainest, VALUED_FORMS[::9]))
"""Programs of one multiplication, whose matrices lie in buffers of their own."""


@settings(max_examples=30)
@given(st.sampled_from(PLAIN))
def test_matrices_are_found_where_they_are_loaded_and_stored(program: Program) -> None:
    assert [placed.operand for placed in inputs(program)] == ["a", "b", "c"]
    assert [placed.place.buffer for placed in inputs(program)] == ["ga", "gb", "gc"]
    assert [placed.place.buffer for placed in outputs(program)] == ["gd"]


@pytest.mark.parametrize(("target", "version"), [("sm_70", "6.0"), ("sm_90", "8.0")])
def test_programs_of_selected_loads_and_stores_are_about_what_these_serve(
    target: str, version: str
) -> None:
    module = Module.named(target, version)
    accesses = [form for form in FORMS if form.is_access and is_available(form, module)]
    assert accesses
    for access in accesses:
        found = selected_forms(Selection(pattern=access.opcode), target=target, version=version)
        assert found
        for form in found:
            assert form.mnemonic == "wmma.mma"
            matrix = form.matrix(access.matrix().operand)
            assert (matrix.shape, matrix.type) == (access.shape, access.type())
            layouts = {"a": form.a_layout, "b": form.b_layout}
            assert layouts.get(matrix.operand, access.layout) == access.layout


def test_a_selection_of_which_the_target_has_nothing_is_refused() -> None:
    for pattern in ("wmma.load*f64", "wmma.nothing*"):
        with pytest.raises(UsageError, match=r"no matrix instruction of sm_\d+ and PTX ISA"):
            selected_forms(Selection(pattern=pattern), target="sm_75", version="8.0")
    with pytest.raises(UsageError, match=r"no matrix instruction of sm_\d+ and PTX ISA"):
        selected_forms(Selection(pattern="bf16"), target="sm_75", version="8.0")
