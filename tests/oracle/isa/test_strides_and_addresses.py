"""Strides and addresses that the text gives as numbers: legal, undefined or illegal."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.isa.forms import Form
from oracle.isa.legality import Explanation, Rule, Verdict, explain
from oracle.isa.lookup import LDMATRIX_FORMS, LOAD_FORMS, STORE_FORMS
from strategies.instructions import canonical

PLACE = {"target": "sm_90", "ptx_version": "9.3"}
ACCESSES: tuple[Form, ...] = (*LOAD_FORMS, *STORE_FORMS)
accesses = st.sampled_from(ACCESSES)
ldmatrices = st.sampled_from([form for form in LDMATRIX_FORMS if form.texts["type"] == "b16"])
# The rules of 9.7.14.4.2 ask of f16 A in m8n32k16 by columns, and of B in m32n8k16 by rows, what
# their default strides do not have: 16 bytes from one to the next, a fragment of 32.
CONTRADICTORY = {("a", "m8n32k16", "col", "f16"), ("b", "m32n8k16", "row", "f16")}


def default_stride(form: Form) -> int:
    """The extent of the leading dimension (9.7.14.4.2), from the dimensions in the opcode."""
    m, n, k = form.shape.m, form.shape.n, form.shape.k
    operand = form.matrix().operand if form.mnemonic == "wmma.load" else "d"
    rows, columns = {"a": (m, k), "b": (k, n)}.get(operand, (m, n))
    return columns if form.layout == "row" else rows


def spelled(value: int) -> st.SearchStrategy[str]:
    """The ways to write an integer constant (PTX ISA 4.5.1)."""
    size = abs(value)
    bare = [f"{size}", f"0{size:o}", f"{size:#x}", f"{size:#b}", f"0X{size:X}", f"0B{size:b}"]
    signs = ["-", "- "] if value < 0 else ["", "+"]
    return st.sampled_from([sign + text + u for sign in signs for text in bare for u in ("", "U")])


def with_stride(form: Form, stride: str) -> Explanation:
    return explain(canonical(form, stride=stride).text, **PLACE)


@given(accesses, st.data())
def test_the_default_stride_is_legal_in_every_spelling(form: Form, data: st.DataObject) -> None:
    text = data.draw(spelled(default_stride(form)))
    assert with_stride(form, text).verdict is Verdict.LEGAL


@given(accesses, st.data())
def test_a_stride_below_the_default_is_undefined_with_the_section_of_the_instruction(
    form: Form, data: st.DataObject
) -> None:
    # "Specifying a value lower than the default value results in undefined behavior."
    value = data.draw(st.integers(-(1 << 31), default_stride(form) - 1))
    found = with_stride(form, data.draw(spelled(value)))
    assert found.verdict is Verdict.UNDEFINED
    (reason,) = found.reasons
    assert (reason.rule, reason.section) == (Rule.STRIDE_BELOW_DEFAULT, form.section)
    assert f"{value} " in reason.text
    assert f" {default_stride(form)} " in reason.text


@given(accesses, st.integers(1, 5000), st.data())
def test_a_larger_stride_is_legal_exactly_if_it_keeps_every_row_aligned(
    form: Form, more: int, data: st.DataObject
) -> None:
    # "For each row of this matrix to be aligned at fragment size": stride in bytes is a multiple
    value = default_stride(form) + more
    found = with_stride(form, data.draw(spelled(value)))
    fragment_bits = form.matrix().registers * (64 if form.type().name == "f64" else 32)
    if value * form.type().bits % fragment_bits == 0:
        assert found.verdict is Verdict.LEGAL
    else:
        assert found.verdict is Verdict.UNDEFINED
        (reason,) = found.reasons
        assert (reason.rule, reason.section) == (Rule.ALIGNMENT, "9.7.14.4.2")
        assert f"stride {value} " in reason.text


def test_only_two_default_strides_contradict_the_rule_of_alignment() -> None:
    found = {
        (operand, form.shape.name, form.layout, form.type().name)
        for form in ACCESSES
        for operand in [form.matrix().operand if form.mnemonic == "wmma.load" else "d"]
        if default_stride(form) * form.type().bits % (8 * form.matrix().fragment_bytes)
    }
    assert found == CONTRADICTORY


@pytest.mark.parametrize(
    "stride", ["-0x80000001", "0x100000000", "4294967296", "9" * 30, "9" * 9000]
)
@given(form=accesses)
def test_a_stride_beyond_32_bits_is_illegal(stride: str, form: Form) -> None:
    # "stride is an optional 32-bit integer operand"
    found = with_stride(form, stride)
    assert found.verdict is Verdict.ILLEGAL
    assert [(r.rule, r.section) for r in found.reasons] == [(Rule.STRIDE, form.section)]


@pytest.mark.parametrize(
    "stride",
    ["1.0", "0f3F800000", "{%r0}", "[%r0]", "_", "09", "0b2", "0x", "1 6", "16u", "%", "--1", "1-"],
)
@given(form=accesses)
def test_what_is_neither_register_nor_integer_is_no_stride(stride: str, form: Form) -> None:
    found = with_stride(form, stride)
    assert found.verdict is Verdict.ILLEGAL
    assert [(r.rule, r.section) for r in found.reasons] == [(Rule.STRIDE, form.section)]


ADDRESSED = st.one_of(accesses, ldmatrices)


def alignment(form: Form) -> tuple[int, str]:
    """Bytes and section: the fragment's size (9.7.14.4.2), a row of 16 bytes (9.7.14.5.15)."""
    if form.mnemonic == "ldmatrix":
        return 16, "9.7.14.5.15"
    return form.matrix().registers * (8 if form.type().name == "f64" else 4), "9.7.14.4.2"


def with_address(form: Form, address: str) -> Explanation:
    return explain(canonical(form, address=address).text, **PLACE)


@given(ADDRESSED, st.integers(0, (1 << 32) - 1), st.integers(-200, 200), st.data())
def test_an_address_that_is_a_number_has_to_be_aligned(
    form: Form, base: int, offset: int, data: st.DataObject
) -> None:
    text = f"[{data.draw(spelled(base).filter(lambda t: ' ' not in t))}"
    if offset and data.draw(st.booleans()):
        text += f"+{offset}"
        base += offset
    found = with_address(form, text + "]")
    size, section = alignment(form)
    if base % size == 0:
        assert found.verdict is Verdict.LEGAL
    else:
        assert found.verdict is Verdict.UNDEFINED
        (reason,) = found.reasons
        assert (reason.rule, reason.section) == (Rule.ALIGNMENT, section)
        assert f"{base} " in reason.text


@given(ADDRESSED, st.integers(-(1 << 31), (1 << 31) - 1), st.sampled_from(["%addr", "tile", "p"]))
def test_an_offset_of_a_register_or_variable_is_taken_to_keep_it_aligned(
    form: Form, offset: int, base: str
) -> None:
    assert with_address(form, f"[{base}]").legal
    assert with_address(form, f"[{base}+{offset}]").legal
    assert with_address(form, f"[ {base} + {offset} ]").legal


# PTX ISA 6.4.1: "[reg+immOff] … a constant integer byte offset (signed, 32-bit)"; "[immAddr] an
# immediate absolute byte address (unsigned, 32-bit)".
@pytest.mark.parametrize(
    "address",
    ["[%addr+0x80000000]", "[%addr+-0x80000001]", "[tile+0x100000000]", "[-32]", "[0x100000000]",
     "[%addr+" + "9" * 9000 + "]", "[%addr-32]", "[%addr+%r0]", "[%addr+1.0]", "[]", "[1.0]",
     "[%addr+]", "[+%addr]", "[%addr %addr]", "[%addr+1+1]", "[_]", "%addr", "(%addr)", "{%addr}",
     "64", "[%addr*2]", "[é]"],
    ids=lambda address: address[:20],
)  # fmt: skip
@settings(max_examples=8)
@given(form=ADDRESSED)
def test_any_other_address_is_illegal_with_the_section_on_addresses(
    address: str, form: Form
) -> None:
    found = with_address(form, address)
    assert found.verdict is Verdict.ILLEGAL
    assert [(r.rule, r.section) for r in found.reasons] == [(Rule.ADDRESS, "6.4.1")]
