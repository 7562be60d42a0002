"""The rows are the forms of the pages' syntax: no more, no less, spelled and ordered as there."""

from __future__ import annotations

import re

import pytest
from page_syntax import opcodes

from oracle.isa.lookup import (
    FORMS,
    INSTRUCTIONS,
    LDMATRIX_FORMS,
    LOAD_FORMS,
    MMA_FORMS,
    STORE_FORMS,
    Instruction,
    describes,
    form_of,
    forms_by_opcode,
    sentences,
    slots_of,
    spellings,
    warpgroup_forms,
)

# PTX ISA 9.7.14.4.3, Syntax: of each block layouts of A and of B, shapes, types of A, B and C.
HALVES = ".m16n16k16, .m8n32k16, .m32n8k16"
LOAD_BLOCKS = (
    (".row, .col", ".row, .col", HALVES, ".f16, .s8, .u8", ".f16, .f32, .s32"),
    (".row, .col", ".row, .col", HALVES, ".bf16", ".f32"),
    (".row, .col", ".row, .col", ".m16n16k8", ".tf32", ".f32"),
    (".row, .col", ".row, .col", ".m8n8k4", ".f64", ".f64"),
    (".row", ".col", ".m8n8k32", ".s4, .u4", ".s32"),
    (".row", ".col", ".m8n8k128", ".b1", ".s32"),
)
LOADS = [
    f"""
    wmma.load.a.sync.aligned.alayout.shape{{.ss}}.atype r, [p] {{, stride}};
    wmma.load.b.sync.aligned.blayout.shape{{.ss}}.atype r, [p] {{, stride}};
    wmma.load.c.sync.aligned.layout.shape{{.ss}}.ctype r, [p] {{, stride}};
    .alayout = {{{a}}}; .blayout = {{{b}}}; .layout = {{.row, .col}};
    .shape = {{{shapes}}};
    .ss = {{.global, .shared{{::cta}}}};
    .atype = {{{types}}};
    .ctype = {{{accumulators}}};
    """
    for a, b, shapes, types, accumulators in LOAD_BLOCKS
]

# PTX ISA 9.7.14.4.4, Syntax.
STORES = [
    f"""
    wmma.store.d.sync.aligned.layout.shape{{.ss}}.type [p], r {{, stride}};
    .layout = {{.row, .col}};
    .shape = {{{shapes}}};
    .ss = {{.global, .shared{{::cta}}}};
    .type = {{{types}}};
    """
    for shapes, types in (
        (HALVES, ".f16, .f32, .s32"), (".m8n8k32, .m8n8k128", ".s32"),
        (".m16n16k8", ".f32"), (".m8n8k4", ".f64"),
    )
]  # fmt: skip

# PTX ISA 9.7.14.4.5, Syntax; the heading of each block, and how many variants stand under it where
# .atype and .btype are the same ("the values for .atype and .btype must be the same").
MMAS = {
    heading: (
        count,
        f"""
        wmma.mma{syntax} d, a, b, c;
        .alayout = {{.row, .col}};
        .blayout = {{.row, .col}};
        .shape = {{{shapes}}};
        {qualifiers}
        """,
    )
    for heading, count, syntax, shapes, qualifiers in (
        (
            "Floating point (.f16 multiplicands)", 48,
            ".sync.aligned.alayout.blayout.shape.dtype.ctype", HALVES,
            ".dtype = {.f16, .f32}; .ctype = {.f16, .f32};",
        ),
        (
            "Integer (.u8/.s8 multiplicands)", 48,
            ".sync.aligned.alayout.blayout.shape.s32.atype.btype.s32{.satfinite}", HALVES,
            ".atype = {.s8, .u8}; .btype = {.s8, .u8};",
        ),
        (
            "Floating point format .bf16", 12,
            ".sync.aligned.alayout.blayout.shape.f32.bf16.bf16.f32", HALVES, "",
        ),
        (
            "Floating point format .tf32", 4,
            ".sync.aligned.alayout.blayout.shape.f32.tf32.tf32.f32", ".m16n16k8", "",
        ),
        (
            "Floating point Double precision", 20,
            ".sync.aligned.alayout.blayout.shape{.rnd}.f64.f64.f64.f64", ".m8n8k4",
            ".rnd = { .rn, .rz, .rm, .rp };",
        ),
        (
            "Sub-byte", 4, ".sync.aligned.row.col.shape.s32.atype.btype.s32{.satfinite}",
            ".m8n8k32", ".atype = {.s4, .u4}; .btype = {.s4, .u4};",
        ),
        (
            "Single-bit", 2, ".op.popc.sync.aligned.row.col.shape.s32.b1.b1.s32", ".m8n8k128",
            ".op = {.xor, .and}",
        ),
    )
}  # fmt: skip

# "Support for .satfinite on floating point wmma.mma is deprecated in PTX ISA version 6.4 and is
# removed from PTX ISA version 6.5" (9.7.14.4.5, PTX ISA Notes): older pages have it here.
REMOVED = """
    wmma.mma.sync.aligned.alayout.blayout.shape.dtype.ctype.satfinite d, a, b, c;
    .alayout = {.row, .col};
    .blayout = {.row, .col};
    .shape  =  {.m16n16k16, .m8n32k16, .m32n8k16};
    .dtype   = {.f16, .f32};
    .ctype   = {.f16, .f32};
    """

# PTX ISA 9.7.14.5.15, Syntax.
LDMATRIX = """
    ldmatrix.sync.aligned.shape.num{.trans}{.ss}.type r, [p];

    ldmatrix.sync.aligned.m8n16.num{.ss}.dst_fmt.src_fmt        r, [p];
    ldmatrix.sync.aligned.m16n16.num.trans{.ss}.dst_fmt.src_fmt r, [p];

    .shape   = {.m8n8, .m16n16};
    .num     = {.x1, .x2, .x4};
    .ss      = {.shared{::cta}};
    .type    = {.b16, .b8};
    .dst_fmt = { .b8x16 };
    .src_fmt = { .b6x16_p32, .b4x16_p64 };
    """

# Of PTX ISA 9.4.
LDMATRIX_SIGNED = """
    ldmatrix.sync.aligned.m8n16.num{.ss}.s8.s4 r, [p];

    .num     = {.x1, .x2, .x4};
    .ss      = {.shared{::cta}};
    """


def same_multiplicands(opcode: str) -> bool:
    """ "The values for .atype and .btype must be the same" (9.7.14.4.5)."""
    pair = re.search(r"\.s32\.(\w+)\.(\w+)\.s32", opcode)
    return pair is None or pair[1] == pair[2]


def ldmatrix_allows(opcode: str) -> bool:
    """Apply what the description of 9.7.14.5.15 adds to the syntax."""
    words = opcode.split(".")
    if "m8n8" in words:  # table: .m8n8, 8x8, 16-bit
        return "b16" in words
    if "m16n16" in words:  # table: 8-bit or 6-bit or 4-bit; only .x1 and .x2; .trans is mandatory
        return "b16" not in words and "x4" not in words and "trans" in words
    return True


def test_the_load_forms_are_those_of_the_syntax() -> None:
    assert {f.opcode for f in LOAD_FORMS} == {o for block in LOADS for o in opcodes(block)}


def test_the_store_forms_are_those_of_the_syntax() -> None:
    assert {f.opcode for f in STORE_FORMS} == {o for block in STORES for o in opcodes(block)}


@pytest.mark.parametrize("heading", MMAS)
def test_the_mma_forms_under_each_heading_are_those_of_its_syntax(heading: str) -> None:
    count, block = MMAS[heading]
    rows = {f.opcode for f in MMA_FORMS if f.page_family == heading}
    if "f16" in heading and "bf16" not in heading:
        rows -= set(opcodes(REMOVED))
    assert rows == set(filter(same_multiplicands, opcodes(block)))
    assert len(rows) == count


def test_the_ldmatrix_forms_are_those_of_the_syntax_and_the_description() -> None:
    assert {f.opcode for f in LDMATRIX_FORMS} == {
        *filter(ldmatrix_allows, opcodes(LDMATRIX)), *opcodes(LDMATRIX_SIGNED)
    }  # fmt: skip


def test_every_form_is_there_once() -> None:
    every = (*FORMS, *warpgroup_forms())
    assert len({form.opcode for form in every}) == len(every)
    assert len(every) == sum(len(row.forms) for row in INSTRUCTIONS.values())


def test_the_second_spelling_has_the_shape_before_the_layout_and_the_rest_in_its_place() -> None:
    for form in FORMS:
        first, *others = spellings(form)
        assert first == form.slots
        if not form.mnemonic.startswith("wmma."):
            assert not others
            continue
        (second,) = others
        names = [slot.name for slot in second]
        assert sorted(names) == sorted(slot.name for slot in first)
        layouts = [i for i, name in enumerate(names) if name.endswith("layout")]
        before = ["shape"] if form.mnemonic == "wmma.mma" else ["shape", "space"]
        assert names[min(layouts) - len(before) : min(layouts)] == before
        others_of = [
            [s for s in some if s.name not in ("shape", "space")] for some in (first, second)
        ]
        assert others_of[0] == others_of[1]


def test_every_spelling_leads_to_its_form_and_no_two_forms_share_one() -> None:
    table = forms_by_opcode()
    expected = 0
    for form in (*FORMS, *warpgroup_forms()):
        texts = {
            ".".join((form.mnemonic, *(slot.text for slot in slots if slot.text)))
            for slots in spellings(form)
        }
        texts |= {text.replace(".aligned", "") for text in texts}
        assert all(table[text] is form and form_of(f" {text} ") is form for text in texts)
        expected += len(texts)
    assert len(table) == expected


@pytest.mark.parametrize("row", INSTRUCTIONS.values(), ids=lambda row: row.mnemonic)
def test_a_row_names_slots_that_it_has_and_says_nothing_of_no_form(row: Instruction) -> None:
    named = {
        name for block in row.blocks for names in slots_of(block.slots) for name in names.split()
    }
    assert named <= set(row.slots)
    assert {name for some in row.fertile for names in some for name in names.split()} <= set(
        row.slots
    )
    quotes = sentences()["matrix"].get(row.mnemonic, ())
    for where in (*(note.where for note in row.notes), *(one.get("where", "") for one in quotes)):
        some = [part for part in where.split(" or ") if part]
        assert {name for part in some for name in slots_of(part)} <= {*row.slots, *row.most}
        assert all(any(describes(part, form) for form in row.forms) for part in (*some, where))
