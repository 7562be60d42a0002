"""The catalogue as data, and its rewriters on text that they do not know."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_kernels import VARIANTS, kernel, ldmatrix, multiplication

from oracle.errors import UsageError
from oracle.isa.forms import FORMATS
from oracle.isa.lookup import FORMS, LOAD_FORMS, STORE_FORMS, warpgroup_forms
from runners.faults import CATALOGUE, Fault, FaultPlace, by_name
from runners.faults.rewriters import access_of, statements
from runners.simulated.parser import parse

TEXTS = [
    *(multiplication(each, target="sm_90").ptx for each in VARIANTS[::7]),
    *(multiplication(each, stride_register=True, space="shared").ptx for each in VARIANTS[::11]),
    ldmatrix("m8n8.x4.trans@.b16", 4),
    """.version 8.4
.target sm_90a
.visible .entry k() {
    .reg .b32 %d<4>; .reg .b64 %a<2>; .reg .pred %p;
    fence.proxy.async.shared::cta;
    wgmma.fence.sync.aligned; // once; for all
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0, %d1, %d2, %d3},
        %a0, %a1, %p, 1, -1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 1;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
}
""",
]
NOTHING = kernel("", image_bytes=64)


def test_the_catalogue_holds_at_least_sixty_faults_of_both_places_under_different_names() -> None:
    names = [fault.name for fault in CATALOGUE]
    assert len(names) == len(set(names)) >= 60
    assert {fault.place for fault in CATALOGUE} == set(FaultPlace)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)


@pytest.mark.parametrize("kind", ["f16", "bf16", "tf32", "f64", "s8", "u8", "s4", "u4", "b1"])
@pytest.mark.parametrize("place", list(FaultPlace))
def test_every_multiplicand_type_has_faults_of_both_places(kind: str, place: FaultPlace) -> None:
    (text,) = [multiplication(each).ptx for each in VARIANTS if each.a_type.name == kind][:1]
    touching = [fault for fault in CATALOGUE if fault.place is place and fault.applies(text)]
    assert len(touching) >= 5


def test_a_fault_says_in_one_line_what_it_does() -> None:
    for fault in CATALOGUE:
        assert 10 <= len(fault.meaning) <= 100, fault.name
        assert "\n" not in fault.meaning, fault.name


@pytest.mark.parametrize(
    ("name", "expected"),
    [("stuckbit", "stuck-bit"), ("satfinite", "satfinite-dropped"), ("popcount", "popcount-short")],
)
def test_an_unknown_name_is_answered_with_close_ones(name: str, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        by_name(name)


def test_a_fault_leaves_text_without_its_instructions_alone() -> None:
    for fault in CATALOGUE:
        assert fault.rewrite(NOTHING) == NOTHING, fault.name
        assert not fault.applies(NOTHING), fault.name


@pytest.mark.parametrize(
    "fault",
    [each for each in CATALOGUE if each.place is FaultPlace.PTX],
    ids=lambda each: each.name,
)
def test_rewritten_text_is_ptx_and_differs_where_the_fault_applies(fault: Fault) -> None:
    for text in TEXTS:
        rewritten = fault.rewrite(text)
        assert (rewritten != text) == fault.applies(text)
        parse(rewritten)


@given(st.sampled_from(TEXTS), st.lists(st.sampled_from(CATALOGUE), min_size=2, max_size=4))
def test_faults_can_be_planted_together(text: str, faults: list[Fault]) -> None:
    for fault in faults:
        text = fault.rewrite(text)
    parse(text)


def test_comments_are_never_rewritten() -> None:
    lines = (TEXTS[0] + TEXTS[-1]).splitlines()
    commented = "".join(f"// {line}\n" for line in lines)
    for fault in CATALOGUE:
        assert fault.rewrite(commented) == commented, fault.name


@given(st.text())
def test_rewriters_take_any_text(text: str) -> None:
    for fault in CATALOGUE:
        assert isinstance(fault.rewrite(text), str)


def test_statements_are_read_with_guards_vectors_and_comments() -> None:
    (one, two) = statements(
        "LABEL: @!%p1 st.global.v2.b32 [%rd1+8], {%a, // here: {;\n %b}; /* mov.b32 %r0, 1; */ "
        "bra.uni LABEL;"
    )
    assert (one.guard.strip(), one.opcode) == ("@!%p1", "st.global.v2.b32")
    assert one.operands[0] == "[%rd1+8]"
    assert one.vector(1) == ("%a", "%b")
    assert (two.opcode, two.operands) == ("bra.uni", ("LABEL",))


def test_every_fault_says_which_instructions_are_guilty() -> None:
    opcodes = [form.opcode for form in (*FORMS, *warpgroup_forms())]
    for fault in CATALOGUE:
        mnemonics = [name for name in fault.guilty if "." in name or name == "ldmatrix"]
        assert fault.guilty, fault.name
        assert all(any(name in opcode for opcode in opcodes) for name in mnemonics), fault.name
        if mnemonics:
            touched = [opcode for opcode in opcodes if fault.opcodes.search(opcode)]
            assert any(opcode.startswith(tuple(mnemonics)) for opcode in touched), fault.name


def test_text_that_no_assembler_takes_stays_as_it_is() -> None:
    """Operands are missing: a pass may be given anything."""
    opcodes = [form.opcode for form in FORMS] + [
        "wmma.mma.",
        "bra",
        "setp.eq.u32",
        "st.global.v4.b32",
    ]
    for fault in CATALOGUE:
        for opcode in opcodes[:: len(opcodes) // 60]:
            text = f".visible .entry k() {{\n    .reg .b32 {opcode} %r;\n    {opcode} %r0;\n}}\n"
            assert isinstance(fault.rewrite(text), str)


def test_a_rare_fault_strikes_where_and_as_often_as_it_says() -> None:
    text = multiplication(VARIANTS[0], target="sm_90").ptx
    found = 0
    for fault in CATALOGUE:
        said = re.search(r"multiprocessor (\d+).*one wmma\.mma in ([\d,^]+)", fault.meaning)
        if said is not None and fault.place is FaultPlace.PTX:
            share = eval(said[2].replace(",", "").replace("^", "**"))
            planted = fault.rewrite(text)
            assert f", %planted0, {said[1]};" in planted
            assert f", %planted1, {2**32 // share};" in planted
            found += 1
    assert found == 4


def test_faults_of_wmma_know_how_large_elements_are() -> None:
    sizes = {form.type().name: access_of(form.opcode)[0] for form in LOAD_FORMS + STORE_FORMS}
    assert sizes == {name: FORMATS[name].bits for name in sizes}
    assert len(sizes) == 11


def test_faults_of_wmma_know_the_stride_that_is_left_out() -> None:
    known = {form: access_of(form.opcode)[1] for form in LOAD_FORMS + STORE_FORMS}
    assert known == {form: form.matrix().default_stride(form.layout) for form in known}
