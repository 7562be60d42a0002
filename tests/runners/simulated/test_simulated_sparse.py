"""mma.sp against mma.sync on an expanded A, and what it refuses."""

import numpy as np
import pytest
from sparse_products import FORMS, PAIRS, PLAIN, random_words

from runners.simulated import SimulatedDevice, SimulatedTrap, TrapKind

DEVICE = SimulatedDevice("sm_90")


def test_there_are_44_forms_and_76_with_a_selector_of_each_kind_of_metadata() -> None:
    assert (len({form.opcode for form in FORMS}), len(PAIRS)) == (88, 152)


def test_metadata_of_other_lanes_are_not_looked_at() -> None:
    rng = np.random.default_rng(4)
    for form, selector in PAIRS:
        a, b, c = (random_words(rng, 2, 32, form.registers(role)) for role in "abc")
        metadata = random_words(rng, 2, 32)
        items = form.depth * {32: 4, 4: 1}.get(form.bits("a"), 2) // 2
        read = {form.index_at(selector, *at)[0] for at in np.ndindex(16, items)}
        others = [lane for lane in range(32) if lane not in read]
        changed = metadata.copy()
        changed[:, others] ^= random_words(rng, 2, len(others))
        results = [form.run(DEVICE, selector, a, b, c, each) for each in (metadata, changed)]
        np.testing.assert_array_equal(*results, form.opcode)
        assert len(read) == 32 // form.selectors


def refused(ptx: str, message: str) -> None:
    with pytest.raises(SimulatedTrap, match=message) as caught:
        DEVICE.load(ptx)
    assert caught.value.trap.kind.at_load


def test_a_selector_that_a_form_has_not_is_refused_or_traps_as_on_an_h200() -> None:
    """f16 m16n8k32 with f32: ptxas takes 2 and 3, and an H200 gives error 715 for both."""
    for form in FORMS:
        for selector in range(form.selectors, 5):
            ptx = form.ptx(selector)
            if (form.k, form.a, form.d) != (32, "f16", "f32") or selector == 4:
                refused(ptx, "the sparsity selector has to be one of the constants 0")
                continue
            shape = 2, 32, sum(form.registers(role) for role in "abcd") + 1
            images = np.zeros(shape, np.uint32).reshape(2, -1).view(np.uint8)
            with pytest.raises(SimulatedTrap, match="illegal") as caught:
                DEVICE.load(ptx).launch("kernel", images)
            assert (caught.value.trap.kind, caught.value.trap.warps) == (TrapKind.STOPPED, (0, 1))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("%e, 1;", "5, 1;", "the metadata stand in a register"),
        ("%e, 1;", "%e, %e;", "has to be one of the constants 0, 1, 2, 3"),
        ("%e, 1;", "%e;", "has 5 operands where 6 are known"),
        ("%e, 1;", "%rd5, 1;", "32 bits are needed"),
        (".f32.f16.f16.f32", ".f32.f16.f16.f16", "qualifiers is not known"),
        ("m16n8k16", "m16n8k8", "no such shape and types are known"),
        (".row.col", ".col.col", "is not known to the simulated device"),
        (".row.col", ".row.col.satfinite", "qualifiers is not known"),
        ("sm_90", "sm_75", "needs sm_80"),
    ],
)
def test_what_an_assembler_refuses_is_refused(old: str, new: str, message: str) -> None:
    form = next(one for one in PLAIN if (one.k, one.a, one.d) == (16, "f16", "f32"))
    ptx = form.ptx(1)
    assert old in ptx
    refused(ptx.replace(old, new), message)
