"""Fragments, default strides and alignment, against the tables and sentences of the page."""

from __future__ import annotations

import re
from itertools import product

import pytest

from oracle.isa.forms import FORMATS, LANES, ROW_BYTES, Form, Matrix
from oracle.isa.lookup import FORMS, LDMATRIX_FORMS, SHAPES

# PTX ISA 9.7.14.4.1: types, shapes, matrices, and what stands in the table behind "A vector
# expression of" or "containing", without "from the matrix".
TABLE = """
Types | Shapes | Matrices | Fragment
u8 s8 | m16n16k16 | ab | two `.b32` registers, with each register containing four elements
u8 s8 | m8n32k16 | a | a single `.b32` register containing four elements
u8 s8 | m8n32k16 | b | four `.b32` registers, with each register containing four elements
u8 s8 | m32n8k16 | a | four `.b32` registers, with each register containing four elements
u8 s8 | m32n8k16 | b | single `.b32` register, with each containing four elements
s32 | m16n16k16 m8n32k16 m32n8k16 | cd | eight `.s32` registers
f16 | m16n16k16 m8n32k16 m32n8k16 | ab | eight `.f16x2` registers
f16 | m16n16k16 m8n32k16 m32n8k16 | cd | four `.f16x2` registers
f32 | m16n16k16 m8n32k16 m32n8k16 | cd | eight `.f32` registers
bf16 | m16n16k16 | ab | four `.b32` registers, with each register containing two elements
bf16 | m8n32k16 | a | a two `.b32` registers, with containing two elements
bf16 | m8n32k16 | b | eight `.b32` registers, with each register containing two elements
bf16 | m32n8k16 | a | eight `.b32` registers, with each register containing two elements
bf16 | m32n8k16 | b | two `.b32` registers, with each containing two elements
tf32 | m16n16k8 | ab | four `.b32` registers
f32 | m16n16k8 | cd | eight `.f32` registers
f64 | m8n8k4 | ab | single `.f64` register
u4 s4 | m8n8k32 | ab | a single `.b32` register, containing eight elements
b1 | m8n8k128 | ab | a single `.b32` register, containing 32 elements
s32 | m8n8k32 | cd | two `.s32` registers
s32 | m8n8k128 | cd | two `.s32` registers
"""
WORDS = {"single": 1, "two": 2, "four": 4, "eight": 8, "32": 32}
BITS = {"b32": 32, "s32": 32, "f16x2": 32, "f32": 32, "f64": 64}


def rows() -> list[tuple[Matrix, str]]:
    lines = [line.split(" | ") for line in TABLE.strip().splitlines()[1:]]
    return [
        (Matrix(operand=operand, shape=SHAPES[shape], type=FORMATS[type_]), sentence)
        for types, shapes, operands, sentence in lines
        for type_, shape, operand in product(types.split(), shapes.split(), operands)
    ]


def name(value: object) -> str:
    if isinstance(value, Matrix):
        return f"{value.operand}-{value.shape.name}-{value.type.name}"
    return ""


@pytest.mark.parametrize(("matrix", "sentence"), rows(), ids=name)
def test_a_fragment_has_the_registers_of_the_table(matrix: Matrix, sentence: str) -> None:
    match = re.search(r"(single|two|four|eight) `\.(\w+)` registers?", sentence)
    assert match is not None
    assert matrix.registers == WORDS[match[1]]
    assert matrix.register_bits == BITS[match[2]]
    assert matrix.fragment_bytes == WORDS[match[1]] * BITS[match[2]] // 8
    # .f16x2 is declared .b32, as the examples do
    assert matrix.register_type == {"f16x2": "b32"}.get(match[2], match[2])
    holding = re.search(r"containing (two|four|eight|32) elements", sentence)
    if holding is not None:
        assert matrix.register_bits == WORDS[holding[1]] * matrix.type.bits


def matrices() -> list[Matrix]:
    found: dict[Matrix, None] = {}
    for form in FORMS:
        if form.mnemonic == "wmma.mma":
            found.update(dict.fromkeys(form.matrix(operand) for operand in "abcd"))
        elif form.is_access:
            found[form.matrix()] = None
    return list(found)


def test_the_tables_have_every_matrix_that_a_form_has_and_no_other() -> None:
    f64 = {m for m in matrices() if m.type.name == "f64" and m.operand in "cd"}
    assert set(matrices()) - f64 == {matrix for matrix, _ in rows()}


def test_a_fragment_holds_every_element_once_but_multiplicands_of_f16_twice() -> None:
    for matrix in matrices():
        held = matrix.registers * matrix.register_bits * LANES // matrix.type.bits
        # A of m8n32k16 has 128 elements, A of m32n8k16 has 512; all have eight .f16x2 registers
        half = matrix.type.name == "f16" and matrix.operand in "ab"
        assert held == (512 if half else matrix.rows * matrix.columns), matrix


# PTX ISA 9.7.14.4.2, "the default strides for the supported matrix shapes".
STRIDES = """
Shape | A (row) | A (column) | B (row) | B (column) | Accumulator (row) | Accumulator (column)
16x16x16 | 16 | 16 | 16 | 16 | 16 | 16
8x32x16 | 16 | 8 | 32 | 16 | 32 | 8
32x8x16 | 16 | 32 | 8 | 16 | 8 | 32
8x8x32 | 32 | 8 | 8 | 32 | 8 | 8
8x8x128 | 128 | 8 | 8 | 128 | 8 | 8
16x16x8 | 8 | 16 | 16 | 8 | 16 | 16
8x8x4 | 4 | 8 | 8 | 4 | 8 | 8
"""


def strides() -> list[tuple[str, list[int]]]:
    lines = [line.split(" | ") for line in STRIDES.strip().splitlines()[1:]]
    return [(line[0], [int(text) for text in line[1:]]) for line in lines]


@pytest.mark.parametrize(("dimensions", "expected"), strides())
def test_default_strides_are_those_of_the_table(dimensions: str, expected: list[int]) -> None:
    m, n, k = dimensions.split("x")
    shape = SHAPES[f"m{m}n{n}k{k}"]
    type_ = FORMATS["s32"]  # of no matter to the stride, which counts elements
    for operands, at in (("a", 0), ("b", 2), ("cd", 4)):
        for operand in operands:
            matrix = Matrix(operand=operand, shape=shape, type=type_)
            found = [matrix.default_stride("row"), matrix.default_stride("col")]
            assert found == expected[at : at + 2]


@pytest.mark.parametrize("form", LDMATRIX_FORMS, ids=lambda form: form.opcode)
def test_ldmatrix_moves_every_element_into_a_register_as_16_or_8_bits(form: Form) -> None:
    in_register = 16 if form.texts["type"] == "b16" else 8
    assert form.registers * 32 * LANES == form.number * form.shape.m * form.shape.n * in_register


# "Following table shows the valid use of 6-bit or 4-bit data load": elements and padding of a row.
@pytest.mark.parametrize(
    ("format_", "elements", "bits", "padding"), [("b6x16_p32", 16, 6, 32), ("b4x16_p64", 16, 4, 64)]
)
def test_packed_rows_have_the_elements_and_padding_of_the_table(
    format_: str, elements: int, bits: int, padding: int
) -> None:
    found = [form for form in LDMATRIX_FORMS if form.texts["src_fmt"] == format_]
    assert {form.shape.m for form in found} == {8, 16}
    for form in found:
        assert (form.shape.n, form.element_bits) == (elements, bits)
        assert elements * bits + padding == ROW_BYTES * 8


@pytest.mark.parametrize("form", LDMATRIX_FORMS, ids=lambda form: form.opcode)
def test_unpacked_rows_fill_the_16_bytes_that_an_address_points_to(form: Form) -> None:
    if not form.texts["src_fmt"]:
        assert form.shape.n * form.element_bits == ROW_BYTES * 8
    assert form.addresses == form.number * form.shape.m <= LANES
