"""Verdicts: on any text there is one, with reasons, and nothing that should not matter does."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from instruction_texts import SECTION, any_texts, forms, legal_texts

from oracle.errors import UsageError
from oracle.isa.forms import Form
from oracle.isa.legality import Rule, Verdict, explain, verdict_of
from oracle.isa.lookup import FORMS, INSTRUCTIONS, OTHERS, is_available
from oracle.isa.targets import (
    TARGETS,
    VERSIONS,
    Module,
    newest_for_cuda,
    parse_target,
    parse_version,
)
from strategies.instructions import canonical, legal_drafts

versions = st.sampled_from([str(version) for version in VERSIONS])
targets = st.sampled_from(list(TARGETS))
# What gives every form a place where it is legal (9.7.14.5.15 for the second).
PLACES = (("9.4", "sm_90"), ("9.4", "sm_100a"), ("6.4", "sm_75"), ("9.4", "sm_120a"))


@given(any_texts(), versions, targets)
def test_any_text_has_a_verdict_with_reasons_and_sections(
    text: str, version: str, target: str
) -> None:
    found = explain(text, target=target, ptx_version=version)
    assert found.instruction == text
    assert found.legal == (found.verdict is Verdict.LEGAL)
    assert bool(found.reasons) == (found.verdict is not Verdict.LEGAL)
    assert found.form is None or found.form in FORMS
    for reason in (*found.reasons, *found.remarks):
        assert reason.text.strip()
        assert SECTION.fullmatch(reason.section)
        assert isinstance(reason.rule, Rule)
        assert str(reason) == f"{reason.text} [PTX ISA 9.0, {reason.section}]"
    assert not (found.remarks and not found.legal and found.verdict is Verdict.ILLEGAL)


@given(any_texts(), versions, targets)
def test_the_quick_verdict_is_that_of_the_explanation(text: str, version: str, target: str) -> None:
    expected = explain(text, target=target, ptx_version=version).verdict
    assert verdict_of(text, target=target, ptx_version=version) is expected


UNJUDGED = (
    "add.s32 %r1, %r2, %r3;",
    "@!%p mov.b32 %r1, %r2;",
    "tcgen05.mma.cta_group::1.kind::f16 [d], a, b, i, p;",
    ".reg .b32 %r<9>;",
    ".blocksareclusters",
    ".abi_preserve 8;",
    "{",
    "}",
    "$L__BB0_1:",
    "A: B: @!%p ret;",
)


@pytest.mark.parametrize("text", UNJUDGED)
@pytest.mark.parametrize(("version", "target"), PLACES)
def test_what_is_not_known_is_not_judged_and_nothing_is_said_against_it(
    text: str, version: str, target: str
) -> None:
    found = explain(text, target=target, ptx_version=version)
    assert found.verdict is Verdict.NOT_JUDGED
    assert found.verdict == "not judged"
    assert not found.legal
    (reason,) = found.reasons
    assert all(name in reason.text for name in INSTRUCTIONS)
    assert verdict_of(text, target=target, ptx_version=version) is found.verdict


@pytest.mark.parametrize(
    "text", ["wmma.mul.sync x;", "zork %r1;", "mma.x.sync;", ".zork 1;", "mma;", ":", "{{"]
)
def test_what_the_isa_does_not_have_stays_illegal(text: str) -> None:
    assert explain(text).verdict is Verdict.ILLEGAL
    assert verdict_of(text) is Verdict.ILLEGAL


@pytest.mark.parametrize("mnemonic", INSTRUCTIONS)
def test_legal_drafts_are_legal_wherever_the_form_is_available(mnemonic: str) -> None:
    for form in FORMS:
        if form.mnemonic != mnemonic:
            continue
        where = [
            (version, target)
            for version, target in PLACES
            if is_available(form, Module.named(target, version))
        ]
        assert where
        for draft, (version, target) in product(legal_drafts(form), where[:1]):
            found = explain(draft.text, target=target, ptx_version=version)
            assert found.verdict is Verdict.LEGAL, found
            assert found.form is form


@given(forms(), versions, targets)
def test_a_canonical_instruction_is_legal_exactly_where_its_form_is_available(
    form: Form, version: str, target: str
) -> None:
    found = explain(canonical(form).text, target=target, ptx_version=version)
    assert found.legal == is_available(form, Module.named(target, version))
    assert all(reason.rule is Rule.AVAILABILITY for reason in found.reasons)


WHITE = st.text(" \t\n\r\f\v", max_size=3)
COMMENT = st.sampled_from(["/* */", "/* a; b */", "/*// */", "// c\n", "/* [\n{ */"])


@given(legal_texts(), st.data())
def test_spaces_and_comments_between_the_parts_do_not_matter(
    text: str, data: st.DataObject
) -> None:
    parts = re.findall(r"[{}\[\],;]|[^\s{}\[\],;]+", text)
    assert "".join(parts) == text.replace(" ", "")
    opcode, *others = parts
    gap = st.one_of(WHITE, COMMENT)
    spread = data.draw(gap) + opcode + data.draw(gap)
    spread += " " + "".join(part + data.draw(gap) for part in others)
    for version, target in PLACES:
        found = explain(spread, target=target, ptx_version=version)
        expected = explain(text, target=target, ptx_version=version)
        assert (found.verdict, found.reasons) == (expected.verdict, expected.reasons)


@given(legal_texts(), st.sampled_from([" ", "/**/", "\n"]), st.data())
def test_spaces_and_comments_inside_the_opcode_are_illegal(
    text: str, gap: str, data: st.DataObject
) -> None:
    opcode = text.partition(" ")[0]
    at = data.draw(st.integers(1, len(opcode) - 1).filter(lambda at: opcode[:at] not in OTHERS))
    assert verdict_of(text[:at] + gap + text[at:], ptx_version="9.3") is Verdict.ILLEGAL


@pytest.mark.parametrize("guard", ["@%p0 ", "@!%p0 ", "@ p ", "@! $p\t", "@ ! p ", "@p\n"])
@given(text=legal_texts())
def test_a_guard_does_not_change_the_verdict(guard: str, text: str) -> None:
    assert verdict_of(guard + text) is verdict_of(text)


@pytest.mark.parametrize(
    "guard", ["@", "@!", "@!!p ", "@1 ", "!p ", "@p", "@p, ", "@{p} ", "@p @q "]
)
@given(text=legal_texts())
def test_a_malformed_guard_is_illegal(guard: str, text: str) -> None:
    assert verdict_of(guard + text) is Verdict.ILLEGAL


@given(legal_texts(), st.characters(min_codepoint=128), st.data())
def test_a_letter_or_space_beyond_ascii_is_illegal_outside_comments(
    text: str, letter: str, data: st.DataObject
) -> None:
    # "PTX source modules are ASCII text" (4.1)
    at = data.draw(st.integers(0, len(text)))
    assert verdict_of(text[:at] + letter + text[at:], ptx_version="9.3") is Verdict.ILLEGAL
    commented = f"{text} // {letter}"
    assert verdict_of(commented) is verdict_of(text)


@given(st.text(max_size=12), st.text(max_size=8))
def test_a_target_or_version_is_known_or_an_error(target: str, version: str) -> None:
    for parse, text, known in (
        (parse_target, target, set(TARGETS)),
        (parse_version, version, {str(one) for one in VERSIONS}),
    ):
        if text in known:
            assert parse(text) is not None
        else:
            with pytest.raises(UsageError):
                parse(text)


# Each would take minutes if two parts of an expression could share its spaces, or raise an error
# if Python converted its digits.
LONG = 50_000
LOAD = "wmma.load.a.sync.aligned.row.m16n16k16.f16 {a,b,c,d,e,f,g,h}, [p]"


@pytest.mark.parametrize(
    "text",
    [
        " " * LONG, "@" + " " * LONG + "1", "@!" + " " * LONG + "!", "@p" + " " * LONG,
        "a" * LONG, "wmma.load" + ".x" * LONG, "wmma.load" + "." * LONG, "@" + "p" * LONG,
        LOAD + " " * LONG + "x", LOAD.replace("p", "p" + " " * LONG + "x"),
        LOAD.replace("p", "p" + " " * LONG + "+" + " " * LONG + "-"), LOAD + "," * LONG,
        LOAD.replace("a,", "a," * LONG), "{" * LONG, "[" * LONG, "wmma.load {" * LONG,
        "/*" * LONG, "/* " * LONG, "//" * LONG, LOAD + ", " + "1" * LONG,
        LOAD + ", 0x" + "f" * LONG, LOAD + ", -" + " " * LONG,
        LOAD.replace("p", "p+" + "1" * LONG), LOAD.replace("p", "1" * LONG), ";" * LONG,
        LOAD + " ;" * LONG, LOAD + ", 0b" + "2" * LONG, LOAD + "/* " * LONG,
    ],
    ids=lambda text: re.sub(r"(.{1,12}?)\1{20,}", r"<\1>", text[:200], flags=re.DOTALL),
)  # fmt: skip
def test_a_very_long_text_is_illegal_and_judged_at_once(text: str) -> None:
    assert explain(text).verdict is Verdict.ILLEGAL
    assert verdict_of(text) is Verdict.ILLEGAL


def kinds(form: Form) -> tuple[str, ...]:
    if form.is_product:
        sparse, scaled = form.mnemonic.startswith("mma.sp"), "block_scale" in form.opcode
        others = ("metadata", "selector") if sparse else ()
        return ("d", "a", "b", "c", *others, *(("x", "x ids", "y", "y ids") if scaled else ()))
    if form.mnemonic == "movmatrix":
        return ("to", "from")
    moved = ("p", "r") if form.is_store else ("r", "p")
    return (*moved, "stride") if form.opaque else moved


def place(form: Form) -> dict[str, str]:
    version, target = next((v, t) for v, t in PLACES if is_available(form, Module.named(t, v)))
    return {"ptx_version": version, "target": target}


def registers(form: Form, kind: str) -> int:
    return form.vectors[kind].registers


@given(forms(), st.data())
def test_another_number_of_registers_is_illegal_and_the_right_one_is_named(
    form: Form, data: st.DataObject
) -> None:
    draft = canonical(form)
    vectors = [i for i, kind in enumerate(kinds(form)) if kind in form.vectors]
    assume(vectors)
    at = data.draw(st.sampled_from(vectors))
    right = registers(form, kinds(form)[at])
    count = data.draw(st.integers(0, 40).filter(lambda n: n != right))
    operands = list(draft.operands)
    operands[at] = "{" + ", ".join(f"%r{i}" for i in range(count)) + "}"
    found = explain(f"{form.opcode} {', '.join(operands)}", **place(form))
    (reason,) = found.reasons
    assert reason.rule is Rule.REGISTERS
    assert re.search(rf"\b{count} registers?\b.*\b{right}\b", reason.text)
    wmma = form.mnemonic.startswith("wmma.")
    assert reason.section == ("9.7.14.4.1" if wmma else form.section)


@given(forms(), st.data())
def test_another_number_of_operands_is_illegal(form: Form, data: st.DataObject) -> None:
    operands = list(canonical(form, stride="%stride").operands)
    required = len([kind for kind in kinds(form) if kind != "stride"])
    allowed = range(required, len(kinds(form)) + 1)
    count = data.draw(st.integers(0, 11).filter(lambda n: n not in allowed))
    text = f"{form.opcode} {', '.join((operands * 7)[:count])}"
    (reason,) = explain(text, **place(form)).reasons
    assert reason.rule is Rule.OPERANDS
    assert reason.section == form.section
    assert str(count) in reason.text


NOT_REGISTERS = ("_", "7", "1.0", "", "%", "a b", "a.x", "%r0.x", "a-b", "-a", "é", "[a]", "(a)")


@pytest.mark.parametrize("item", NOT_REGISTERS)
@given(form=forms(), data=st.data())
def test_what_is_no_register_is_illegal_in_a_vector(
    item: str, form: Form, data: st.DataObject
) -> None:
    operands = list(canonical(form).operands)
    vectors = [i for i, operand in enumerate(operands) if operand.startswith("{%")]
    assume(vectors)  # movmatrix has none
    at = data.draw(st.sampled_from(vectors))
    names = operands[at].strip("{}").split(", ")
    names[data.draw(st.integers(0, len(names) - 1))] = item
    assume(names != [""])  # no registers at all: another rule
    operands[at] = "{" + ", ".join(names) + "}"
    found = explain(f"{form.opcode} {', '.join(operands)};", **place(form))
    assert found.verdict is Verdict.ILLEGAL
    assert {reason.rule for reason in found.reasons} <= {Rule.REGISTER, Rule.SYNTAX}


# PTX ISA 4.4: [a-zA-Z]{followsym}* or [_$%]{followsym}+
@given(forms(), st.from_regex(r"\A([a-zA-Z][a-zA-Z0-9_$]*|[_$%][a-zA-Z0-9_$]+)\Z"))
def test_every_identifier_names_a_register(form: Form, name: str) -> None:
    operands = [
        re.sub(r"%[rfd]\d+", lambda _: name, operand) for operand in canonical(form).operands
    ]
    assert explain(f"{form.opcode} {', '.join(operands)};", **place(form)).legal


@given(
    forms(), st.sampled_from(["{}%r0", "%r0", "[%r0]", "({0})", "{{%r0}}", "{%r0", "%r0}", "..."])
)
def test_what_is_no_vector_is_illegal_in_the_place_of_one(form: Form, operand: str) -> None:
    operands = list(canonical(form).operands)
    at = next((i for i, kind in enumerate(kinds(form)) if kind in form.vectors), 0)
    assume(form.vectors or operand != "%r0")
    operands[at] = operand
    assert (
        explain(f"{form.opcode} {', '.join(operands)};", **place(form)).verdict is Verdict.ILLEGAL
    )


RELEASES = {
    "3.0": "sm_30", "3.1": "sm_35", "4.0": "sm_32 sm_50", "4.1": "sm_37 sm_52", "4.2": "sm_53",
    "5.0": "sm_60 sm_61 sm_62", "6.0": "sm_70", "6.1": "sm_72", "6.3": "sm_75", "7.0": "sm_80",
    "7.1": "sm_86", "7.4": "sm_87", "7.8": "sm_89 sm_90", "8.0": "sm_90a",
    "8.6": "sm_100 sm_100a sm_101 sm_101a", "8.7": "sm_120 sm_120a",
    "8.8": "sm_100f sm_101f sm_103 sm_103a sm_103f sm_120f sm_121 sm_121a sm_121f",
    "9.0": "sm_88 sm_110 sm_110a sm_110f",
    "9.4": "sm_107 sm_107a sm_107f",
}  # fmt: skip
"""Targets by the release that brought them (PTX ISA, "Release Notes"; 9.4: ptxas 13.4)."""


def test_each_release_of_cuda_reads_one_version_more_but_for_one() -> None:
    """PTX ISA, "Release Notes": 8.5 is of CUDA 12.5 and 12.6."""
    releases = [f"11.{minor}" for minor in range(9)] + [f"12.{minor}" for minor in range(10)]
    releases += [f"13.{minor}" for minor in range(6)]
    newest = [newest_for_cuda(release) for release in releases]
    assert newest.pop(releases.index("12.6")) == parse_version("8.5")
    assert newest == [version for version in VERSIONS if version >= parse_version("7.0")]


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_a_version_knows_the_targets_of_its_release_and_of_those_before(version: object) -> None:
    known = {
        name for release, names in RELEASES.items() for name in names.split()
        if parse_version(release) <= version
    }  # fmt: skip
    if version >= parse_version("9.0"):  # sm_101 is sm_110 from there on
        known -= {"sm_101", "sm_101a", "sm_101f"}
    assert {name for name, target in TARGETS.items() if Module(target, version).exists} == known
