"""Opcodes that are not documented: each damage is illegal, and the reason names it."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from instruction_texts import SECTION, forms

from oracle.errors import UsageError
from oracle.isa.forms import FORMATS, Form, kind_of
from oracle.isa.legality import Explanation, Rule, Verdict, explain, resolve
from oracle.isa.lookup import (
    FORMS,
    INSTRUCTIONS,
    form_of,
    form_spelt,
    forms_by_opcode,
    mnemonic_of,
    vocabulary,
)
from strategies.instructions import canonical, documented, foreign, tokens

KINDS = tuple(dict.fromkeys(kind_of(slot.name) for form in FORMS for slot in form.slots))
WORDS = st.sampled_from([word for word in tokens() if word])


def judged(form: Form, words: list[str]) -> Explanation:
    """Explain the form's instruction with other qualifiers, where every note is satisfied."""
    text = canonical(form).text.replace(form.opcode, ".".join((form.mnemonic, *words)))
    return explain(text, target="sm_100a", ptx_version="9.5")


def qualifiers(form: Form) -> list[str]:
    return [slot.text for slot in form.slots if slot.text]


@given(forms(), st.data())
def test_a_dropped_qualifier_is_illegal_or_another_form(form: Form, data: st.DataObject) -> None:
    words = qualifiers(form)
    dropped = data.draw(st.integers(0, len(words) - 1))
    name = [slot.name for slot in form.slots if slot.text][dropped]
    del words[dropped]
    opcode = ".".join((form.mnemonic, *words))
    found = judged(form, words)
    if name in ("space", "rnd", "satfinite") or (name == "trans" and form.opcode.endswith(".b16")):
        assert resolve(opcode).form is not None  # optional on the page
        return
    narrow = name in ("kind", "block_scale", "scale_vec", "stype")
    if narrow and resolve(opcode).form is not None:
        assert resolve(opcode).form is not form  # of e4m3 without .kind, or .scale_vec by default
        return
    assert found.verdict is Verdict.ILLEGAL
    named = f".{kind_of(name)}"
    if (
        narrow
        or (kind_of(name) == "type" and form.mnemonic in ("wmma.mma", "ldmatrix"))
        or name in ("popc", "op", "trans", "dst_fmt", "src_fmt")
    ):
        # Other forms do without them, so what is missing is told by what may stand together.
        assert {reason.rule for reason in found.reasons} >= {Rule.COMBINATION}
    else:
        missing = [r.text for r in found.reasons if r.rule is Rule.MISSING_QUALIFIER]
        assert [named in text for text in missing] == [True]


@given(forms(), st.data())
def test_a_doubled_qualifier_is_illegal_and_named(form: Form, data: st.DataObject) -> None:
    words = qualifiers(form)
    word = data.draw(st.sampled_from(words))
    words.insert(data.draw(st.integers(0, len(words))), word)
    # .row.col or the four types may hold one more of a kind: then the form is another, or none
    found = judged(form, words)
    assert found.verdict is Verdict.ILLEGAL
    assert any(f".{word}" in reason.text or "types" in reason.text for reason in found.reasons)
    kind = next(kind_of(slot.name) for slot in form.slots if slot.text == word)
    product = form.mnemonic.split("::")[0] in ("wmma.mma", "mma", "mma.sp")
    if not (product and kind in ("type", "layout")):
        repeated = [r for r in found.reasons if r.rule is Rule.REPEATED_QUALIFIER]
        assert [f".{word} .{word}" in reason.text for reason in repeated] == [True]


@given(forms(), st.sampled_from(KINDS), st.data())
def test_a_foreign_qualifier_is_illegal_and_named(
    form: Form, kind: str, data: st.DataObject
) -> None:
    own = {s.text for f in FORMS if f.mnemonic == form.mnemonic for s in f.slots}
    words_of = (word for word in (*foreign(kind), *documented(kind)) if "." not in word)
    strange = [word for word in words_of if word not in own]
    assume(strange)
    word = data.draw(st.sampled_from(strange))
    words = qualifiers(form)
    at = data.draw(st.integers(0, len(words)))
    words[at : at + data.draw(st.integers(0, 1))] = [word]
    found = judged(form, words)
    assert found.verdict is Verdict.ILLEGAL
    unknown = [r for r in found.reasons if r.rule is Rule.UNKNOWN_QUALIFIER]
    assert [f".{word} is not a qualifier of {form.mnemonic}" in r.text for r in unknown] == [True]


@given(forms(), st.data())
def test_other_orders_of_the_qualifiers_are_judged_as_ptxas_does_and_the_documented_ones_named(
    form: Form, data: st.DataObject
) -> None:
    words = data.draw(st.permutations(qualifiers(form)))
    opcode = ".".join((form.mnemonic, *words))
    if opcode in forms_by_opcode():
        return
    found = resolve(opcode)
    # What ptxas refuses of these (11.8, 12.4, 13.0, 13.5; 2026-11-28).
    pairs = (
        *(("b8x16", "b6x16_p32"), ("b8x16", "b4x16_p64"), ("s8", "s4")),
        *(("xor", "popc"), ("and", "popc")),
    )
    turned = any(x in words and y in words and words.index(x) > words.index(y) for x, y in pairs)
    stype = form.texts.get("stype")  # the last of the types (2026-11-29)
    turned |= bool(stype) and words.index(stype) < max(
        at for at, word in enumerate(words) if word in FORMATS
    )
    refused = turned or (form.is_access and words[0] != form.texts["matrix"])
    if found.form is None and found.faults[0].rule is not Rule.ORDER:
        # Types and layouts that change places with each other make another combination.
        assert form.is_product
        assert found.faults[0].rule is Rule.COMBINATION
        return
    likely = found.candidates[0]
    assert sorted(qualifiers(likely)) == sorted(words)
    assert (found.form is None) == refused
    explained = judged(form, list(words))
    said = explained.reasons or explained.remarks
    if refused or explained.legal:
        assert any(
            reason.rule is Rule.ORDER and likely.opcode.removeprefix(form.mnemonic) in reason.text
            for reason in said
        )
    else:
        # Another shape or type may have come out, with other registers.
        assert {reason.rule for reason in said} <= {Rule.AVAILABILITY, Rule.REGISTERS}


@given(forms(), st.data())
def test_a_qualifier_of_the_same_kind_makes_another_form_or_a_reason_that_says_what_may_stand(
    form: Form, data: st.DataObject
) -> None:
    slots = [slot for slot in form.slots if slot.text]
    at = data.draw(st.integers(0, len(slots) - 1))
    kind = kind_of(slots[at].name)
    own = [w for w in documented(kind) if vocabulary(form.mnemonic).get(w) == kind]
    word = data.draw(st.sampled_from(own))
    words = [slot.text for slot in slots]
    words[at] = word
    opcode = ".".join((form.mnemonic, *words))
    resolution = resolve(opcode)
    if resolution.form is not None:
        assert sorted(resolution.form.opcode.split(".")) == sorted(opcode.split("."))
        return
    assert resolution.faults
    assert resolution.candidates
    (fault,) = resolution.faults
    assert fault.rule is Rule.COMBINATION
    assert "together" in fault.text
    # What the reason offers in the place of the qualifier is documented there.
    match = re.search(rf"\.{slots[at].name} \.{word}, which may be ([^;]*) beside", fault.text)
    assert match is not None
    offered = re.findall(r"\.([\w:]+)", match[1])
    for other in offered:
        words[at] = other
        assert ".".join((form.mnemonic, *words)) in forms_by_opcode()
    assert slots[at].text in offered or " more" in match[1]


@given(st.sampled_from(tuple(INSTRUCTIONS)), st.lists(WORDS, max_size=14))
def test_any_qualifiers_are_a_form_or_have_faults_with_sections(
    mnemonic: str, words: list[str]
) -> None:
    opcode = ".".join((mnemonic, *words))
    assume(mnemonic_of(opcode) == mnemonic)  # mma.sp is another instruction
    found = resolve(opcode)
    assert found.row is INSTRUCTIONS[mnemonic]
    assert (found.form is None) == bool(found.faults) == (form_spelt(opcode) is None)
    assert found.form is None or found.candidates == (found.form,)
    assert found.aligned == ("aligned" in words)
    for fault in found.faults:
        assert SECTION.fullmatch(fault.section)
        assert fault.section == INSTRUCTIONS[mnemonic].section


@given(st.text(".abwm:", max_size=8), st.sampled_from(["", "wmm", "wmma", "ldmatri", "ldmatrixx"]))
def test_other_instructions_are_told_which_there_are(rest: str, head: str) -> None:
    opcode = head + rest
    assume(not any(opcode == m or opcode.startswith(m + ".") for m in INSTRUCTIONS))
    found = resolve(opcode)
    assert found.row is None
    (fault,) = found.faults
    assert fault.rule is Rule.INSTRUCTION
    assert all(mnemonic in fault.text for mnemonic in INSTRUCTIONS)
    assert fault.section == "9.7.14"


@pytest.mark.parametrize(
    ("opcode", "says"),
    [
        ("wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.u8.s32", ".btype .u8"),
        ("wmma.mma.sync.aligned.row.row.m8n8k32.s32.s4.s4.s32", ".blayout .row"),
        ("wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32.satfinite", ".satfinite"),
        ("wmma.mma.sync.aligned.row.col.m16n16k8.f32.f16.f16.f32", "may be .tf32 .tf32"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f16.f32.f16", "two types"),
        ("wmma.load.a.sync.aligned.col.m8n8k32.s4", "may be .row"),
        ("wmma.load.b.sync.aligned.row.m8n8k128.b1", "may be .col"),
        ("wmma.load.c.sync.aligned.row.m16n16k16.s8", ".matrix .c"),
        ("wmma.store.d.sync.aligned.row.m16n16k16.s8", ".s8 is not a qualifier of wmma.store"),
        ("wmma.store.a.sync.aligned.row.m16n16k16.f32", ".a is not a qualifier of wmma.store"),
        ("ldmatrix.sync.aligned.m16n16.x4.trans.shared.b8", ".num .x4"),
        ("ldmatrix.sync.aligned.m16n16.x1.shared.b8", "may be .trans"),
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b8", ".type .b8"),
        ("ldmatrix.sync.aligned.m8n16.x1.trans.shared.b8x16.b6x16_p32", ".trans"),
        ("ldmatrix.sync.aligned.m8n16.x1.shared.b8x16", ".src_fmt"),
        ("ldmatrix.sync.aligned.m8n8.x1.global.b16", ".global is not a qualifier of ldmatrix"),
        ("wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16",
         "missing; there are .m64n8k16, .m64n16k16, .m64n24k16, .m64n32k16,"),
        ("mma.sync.aligned.m16n8k12.row.col.f32.f16.f16.f32", "are .m8n8k4, .m16n8k8, .m16n8k16"),
    ],
)  # fmt: skip
def test_what_the_pages_exclude_is_illegal_for_the_reason_they_give(opcode: str, says: str) -> None:
    assert any(says in fault.text for fault in resolve(opcode).faults)
    with pytest.raises(UsageError, match="warpfuzz isa"):
        form_of(opcode)
