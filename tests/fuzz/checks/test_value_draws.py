"""What value campaigns draw: defined programs, contents from the recipe alone, JSON and back."""

from __future__ import annotations

from oracle.isa.lookup import FORMS, is_available
from oracle.isa.targets import Module
from strategies.draws import Selection
from strategies.rounds import selected_forms


def test_programs_of_selected_loads_and_stores_are_about_what_these_serve() -> None:
    target, version = "sm_90", "8.0"
    module = Module.named(target, version)
    accesses = [form for form in FORMS if form.is_access and is_available(form, module)]
    assert accesses
    for access in accesses[::4]:
        found = selected_forms(Selection(pattern=access.opcode), target=target, version=version)
        assert found
        for form in found:
            assert form.mnemonic == "wmma.mma"
            matrix = form.matrix(access.matrix().operand)
            assert (matrix.shape, matrix.type) == (access.shape, access.type())
            layouts = {"a": form.a_layout, "b": form.b_layout}
            assert layouts.get(matrix.operand, access.layout) == access.layout
