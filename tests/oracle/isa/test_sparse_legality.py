"""mma.sp: what the notes of its page ask for, and what is wrong with metadata and selectors.

The verdicts are read from PTX ISA 9.7.14.6.1 and .3; ptxas 11.8, 12.1, 12.4, 12.6 and 13.5 took and
refused the same forms (2026-11-23).
"""

from __future__ import annotations

import pytest

from oracle.isa.forms import Form
from oracle.isa.legality import Rule, Verdict, explain
from oracle.isa.lookup import FORMS
from strategies.instructions import canonical, fits_declarations

SPARSE = [form for form in FORMS if form.has_metadata]
C = "{{%f0, %f1, %f2, %f3}}"
F16 = f"mma.sp.sync.aligned.{{}}.row.col.f32.f16.f16.f32 {C}, {{}}, {{}}, {C}, {{}}, {{}};"
TWO, FOUR = "{%r0, %r1}", "{%r0, %r1, %r2, %r3}"


def verdict(text: str, version: str = "8.5", target: str = "sm_90") -> Verdict:
    return explain(text, target=target, ptx_version=version).verdict


@pytest.mark.parametrize("ordered", [False, True])
def test_versions_and_targets_are_those_of_the_page(ordered: bool) -> None:
    for form in SPARSE:
        if (form.mnemonic == "mma.sp") == ordered or form.texts.get("kind"):
            continue
        fp8 = form.a_type.name in ("e4m3", "e5m2")
        first = "8.5" if ordered else "8.4" if fp8 else "7.1"
        before = {"8.5": "8.4", "8.4": "8.3", "7.1": "7.0"}[first]
        least, below = ("sm_89", "sm_86") if fp8 else ("sm_80", "sm_75")
        text = canonical(form).text
        assert verdict(text, first, least) is Verdict.LEGAL
        assert verdict(text, before, least) is Verdict.ILLEGAL
        assert verdict(text, first, below) is Verdict.ILLEGAL


SELECTORS = [("m16n8k16", TWO, TWO, range(4)), ("m16n8k32", FOUR, FOUR, range(2))]


@pytest.mark.parametrize(("shape", "a", "b", "known"), SELECTORS)
def test_selectors_are_defined_or_not_or_out_of_range(
    shape: str, a: str, b: str, known: range
) -> None:
    for selector in ("0", "1", "0x2", "3", "4", "-1", "%r9", "1.0", "4294967296"):
        found = explain(F16.format(shape, a, b, "%r9", selector), target="sm_90", ptx_version="8.5")
        number = int(selector, 0) if selector in ("0", "1", "0x2", "3") else None
        if number is None:
            assert found.verdict is Verdict.ILLEGAL
            assert [reason.rule for reason in found.reasons] == [Rule.SELECTOR]
            continue
        assert found.verdict is (Verdict.LEGAL if number in known else Verdict.UNDEFINED)
        if number not in known:
            (reason,) = found.reasons
            assert (reason.section, reason.rule) == ("9.7.14.6.1", Rule.SELECTOR)
            assert "it is 0 or 1" in reason.text


def test_metadata_are_one_register_and_all_six_operands_are_needed() -> None:
    for metadata in ("{%r9}", "17", "0x44444444", "%r9+1", "[%r9]"):
        text = F16.format("m16n8k16", TWO, TWO, metadata, "0")
        found = explain(text, target="sm_90", ptx_version="8.5")
        assert found.verdict is Verdict.ILLEGAL
        assert [reason.rule for reason in found.reasons] == [Rule.REGISTER]
    short = F16.format("m16n8k16", TWO, TWO, "%r9", "0").replace(", 0;", ";")
    (reason,) = explain(short, target="sm_90", ptx_version="8.5").reasons
    assert reason.rule is Rule.OPERANDS
    assert "6 operands (d, a, b, c, e, selector)" in reason.text


@pytest.mark.parametrize("form", SPARSE[::7], ids=lambda form: form.opcode)
def test_a_sparse_a_has_half_of_the_registers_of_a_dense_one(form: Form) -> None:
    counts = {name: one.registers for name, one in form.vectors.items()}
    m, n, k = form.shape.m, form.shape.n, form.shape.k
    assert counts["a"] == m * k // 2 * form.a_type.bits // 1024
    assert counts["b"] == k * n * form.b_type.bits // 1024
    assert counts["c"] == counts["d"] == m * n * form.d_type.bits // 1024
    assert counts["e"] == 1
    assert fits_declarations(canonical(form), form)


@pytest.mark.parametrize(
    "types", ["f16.f16.f16.f32", "f32.f16.f16.f16", "f16.e4m3.e4m3.f16", "f32.f16.bf16.f32"]
)
def test_types_that_the_page_does_not_have_together_are_illegal(types: str) -> None:
    for shape in ("m16n8k16", "m16n8k32", "m16n8k64"):
        opcode = f"mma.sp.sync.aligned.{shape}.row.col.{types}"
        assert opcode not in {form.opcode for form in SPARSE}
        assert verdict(f"{opcode} {TWO}, {TWO}, {TWO}, {TWO}, %r9, 0;") is Verdict.ILLEGAL
