"""mma.sp: what is refused. `conformance/test_single_products` compares what it multiplies to."""

import numpy as np
import pytest

from oracle.isa.forms import Form
from oracle.isa.lookup import INSTRUCTIONS, selectors_of
from oracle.isa.targets import Module
from oracle.program.steps import product_of
from runners.emission import emit
from runners.simulated import SimulatedDevice, SimulatedTrap, TrapKind
from strategies.matrices import single_program

DEVICE = SimulatedDevice("sm_90")
PLAIN = INSTRUCTIONS["mma.sp"].forms
ORDERED = INSTRUCTIONS["mma.sp::ordered_metadata"].forms


def ptx_of(form: Form, selector: int = 0) -> str:
    program = single_program(product_of(form))
    ptx = emit(program, module=Module.named("sm_90", "8.7")).ptx
    assert "%e_0, 0;" in ptx
    return ptx.replace("%e_0, 0;", f"%e_0, {selector};")


def refused(ptx: str, message: str) -> None:
    with pytest.raises(SimulatedTrap, match=message) as caught:
        DEVICE.load(ptx)
    assert caught.value.trap.kind.at_load


def test_a_selector_that_a_form_has_not_is_refused_or_traps_as_on_an_h200() -> None:
    """f16 m16n8k32 with f32: ptxas takes 2 and 3, and an H200 gives error 715 for both."""
    for form in (*PLAIN, *(one for one in ORDERED if not one.kind)):
        for selector in range(len(selectors_of(form)), 5):
            ptx = ptx_of(form, selector)
            if (form.shape.k, form.types) != (32, "f32.f16.f16.f32") or selector == 4:
                refused(ptx, "the sparsity selector has to be one of the constants 0")
                continue
            with pytest.raises(SimulatedTrap, match="illegal") as caught:
                DEVICE.load(ptx).launch("kernel", np.zeros((2, 4096), np.uint8))
            assert (caught.value.trap.kind, caught.value.trap.warps) == (TrapKind.STOPPED, (0, 1))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("%e_0, 1;", "5, 1;", "the metadata stand in a register"),
        ("%e_0, 1;", "%e_0, %e_0;", "has to be one of the constants 0, 1, 2, 3"),
        ("%e_0, 1;", "%e_0;", "has 5 operands where 6 are known"),
        ("%e_0, 1;", "%rd0, 1;", "32 bits are needed"),
        (".f32.f16.f16.f32", ".f32.f16.f16.f16", "qualifiers is not known"),
        ("m16n8k16", "m16n8k8", "no such shape and types are known"),
        (".row.col", ".col.col", "is not known to the simulated device"),
        (".row.col", ".row.col.satfinite", "qualifiers is not known"),
        ("sm_90", "sm_75", "needs sm_80"),
    ],
)
def test_what_an_assembler_refuses_is_refused(old: str, new: str, message: str) -> None:
    form = next(one for one in PLAIN if (one.shape.k, one.types) == (16, "f32.f16.f16.f32"))
    ptx = ptx_of(form, 1)
    assert old in ptx
    refused(ptx.replace(old, new), message)
