"""The rows of wgmma against the tables of PTX ISA 9.0, 9.7.15, and what may stand as operands."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.isa.forms import Form
from oracle.isa.legality import Rule, Verdict, explain
from oracle.isa.lookup import form_of, is_available, selectors_of, warpgroup_forms, with_registers
from oracle.isa.targets import TARGETS, Module, PtxVersion
from strategies.instructions import legal_drafts

FORMS = warpgroup_forms()
PRODUCTS = [form for form in FORMS if form.is_product]
EVERY_8 = {*range(8, 257, 8)}
EVERY_16 = {8, 16, 24, 32, *range(48, 257, 16)}
K = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32, "b1": 256}


def expected() -> set[str]:
    """Write every opcode of the syntax of 9.7.15.5.2 and 9.7.15.6.3."""
    kinds = [("f16", "f16", "f16"), ("f32", "f16", "f16"), ("f32", "bf16", "bf16")]
    kinds += [("f32", "tf32", "tf32"), ("s32", "b1", "b1")]
    kinds += product(("f16", "f32"), ("e4m3", "e5m2"), ("e4m3", "e5m2"))
    kinds += product(("s32",), ("s8", "u8"), ("s8", "u8"))
    found = set()
    for (d, a, b), sparse in product(kinds, (False, True)):
        if sparse and a == "b1":
            continue
        for n in EVERY_16 if d == "s32" else EVERY_8:
            head = "wgmma.mma_async" + (".sp" if sparse else "")
            shape = f"m64n{n}k{K[a] * (1 + sparse)}"
            for satfinite in ("", ".satfinite") if a in ("s8", "u8") else ("",):
                types = f"{d}.{a}.{b}" + (".and.popc" if a == "b1" else "")
                found.add(f"{head}.sync.aligned.{shape}{satfinite}.{types}")
    return found


def test_the_forms_are_those_of_the_syntax() -> None:
    others = {f"wgmma.{name}.sync.aligned" for name in ("fence", "commit_group", "wait_group")}
    assert {form.opcode for form in FORMS} == expected() | others


@pytest.mark.parametrize(("version", "count"), [("8.0", 948), ("8.2", 1860), ("8.4", 2148)])
def test_so_many_are_assembled_from_a_version_on(version: str, count: int) -> None:
    """Counted with A in shared memory and in registers: what ptxas 12.4 to 13.5 take."""
    module = Module.named("sm_90a", version)
    assert 2 * sum(is_available(form, module) for form in PRODUCTS) == count
    assert all(is_available(form, module) for form in FORMS if not form.is_product)


def test_no_other_target_has_them() -> None:
    module = [Module(target, PtxVersion(9, 0)) for target in TARGETS.values()]
    for form in FORMS[::50]:
        assert {one.target.name for one in module if is_available(form, one)} == {"sm_90a"}


@pytest.mark.parametrize("form", PRODUCTS[::13], ids=lambda form: form.opcode)
def test_registers_and_operands_are_those_of_the_page(form: Form) -> None:
    assert form.threads == 128
    n = form.shape.n
    assert form.vectors["d"].registers == (n // 4 if form.d_type.name == "f16" else n // 2)
    assert form.vectors["a"].registers == 4
    floats, halves = form.a_type.is_float, form.a_type.bits == 16
    tail = ["imm-scale-a", "imm-scale-b"] * floats + ["imm-trans-a", "imm-trans-b"] * halves
    sparse = ["e", "selector"] * form.has_metadata
    assert list(form.operands) == ["d", "a-desc", "b-desc", *sparse, "scale-d", *tail]
    in_registers = list(with_registers(form.operands))
    assert in_registers[1] == "a"
    assert ("imm-trans-b" in in_registers, "imm-trans-a" in in_registers) == (halves, False)
    if form.has_metadata:
        assert [*selectors_of(form)] == ([0, 1] if form.a_type.bits >= 16 else [0])


@given(st.sampled_from(FORMS), st.data())
def test_what_is_drawn_as_legal_is_so_in_both_orders_of_satfinite(
    form: Form, data: st.DataObject
) -> None:
    draft = data.draw(st.sampled_from(legal_drafts(form)))
    found = explain(draft.text, target="sm_90a", ptx_version="8.4")
    assert found.verdict is Verdict.LEGAL
    assert {reason.rule for reason in found.remarks} <= {Rule.PRECISION}
    assert form_of(draft.opcode) == form


HALF = "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%d0, %d1}, "


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (HALF + "%a, %b, 2, 1, 1, 0, 0;", Rule.CONSTANT),
        (HALF + "%a, %b, 1, 0, 1, 0, 0;", Rule.CONSTANT),
        (HALF + "%a, %b, 1, 1, %x, 0, 0;", Rule.CONSTANT),
        (HALF + "%a, %b, 1, 1, 1, -1, 0;", Rule.CONSTANT),
        (HALF + "%a, 7, 1, 1, 1, 0, 0;", Rule.REGISTER),
        (HALF + "%a, %b, 1, 1, 1, 0;", Rule.OPERANDS),
        (HALF + "{%a, %b, %c, %d}, %b, 1, 1, 1, 0, 0;", Rule.OPERANDS),
        (HALF + "{%a, %b, %c}, %b, 1, 1, 1, 0;", Rule.REGISTERS),
        ("wgmma.wait_group.sync.aligned -1;", Rule.CONSTANT),
        ("wgmma.wait_group.sync.aligned %r;", Rule.CONSTANT),
        ("wgmma.fence.sync;", Rule.MISSING_QUALIFIER),
        ("wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 {%d}, %a, %b, 1;", Rule.COMBINATION),
        ("wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.xor.popc {%d}, %a, %b, 1;",
         Rule.UNKNOWN_QUALIFIER),
    ],
)  # fmt: skip
def test_what_no_page_has_is_refused_by_its_rule(text: str, rule: Rule) -> None:
    found = explain(text, target="sm_90a", ptx_version="9.0")
    assert found.verdict is Verdict.ILLEGAL
    assert rule in {reason.rule for reason in found.reasons}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("wgmma.wait_group.sync.aligned;", "takes 1 operand (groups), not 0"),
        ("wgmma.commit_group.sync.aligned 0;", "takes no operands, not 1"),
    ],
)
def test_a_wrong_number_of_operands_is_said_in_plain_english(text: str, said: str) -> None:
    (reason,) = explain(text, target="sm_90a", ptx_version="8.0").reasons
    assert reason.rule is Rule.OPERANDS
    assert reason.text.endswith(said)
