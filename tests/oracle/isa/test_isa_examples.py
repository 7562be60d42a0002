"""The examples of the pages are legal, but for those that are no instructions as they stand."""

from __future__ import annotations

import pytest

from oracle.isa.legality import Rule, Verdict, explain

# PTX ISA 9.7.14.4.3, Examples. The first has `x` where it must mean `x6`: declared as the example
# declares them, it would not assemble, but as text it is an instruction like any other.
LOADS = """
wmma.load.b.sync.aligned.m16n16k16.row.f16 {x0,x1,x2,x3,x4,x5,x,x7}, [ptr];
wmma.load.c.sync.aligned.m16n16k16.col.f32
                 {x0,x1,x2,x3,x4,x5,x6,x7}, [ptr];
wmma.load.a.sync.aligned.m32n8k16.row.u8 {x0,x1,x2,x3}, [ptr];
wmma.load.a.sync.aligned.m8n8k32.row.s4 {x0}, [ptr];
wmma.load.a.sync.aligned.m16n16k16.row.bf16
                {x0,x1,x2,x3}, [ptr];
wmma.load.a.sync.aligned.m16n16k8.row.tf32
                {x0,x1,x2,x3}, [ptr];
wmma.load.a.sync.aligned.m8n8k4.row.f64
                {x0}, [ptr];
"""
# PTX ISA 9.7.14.4.4, Examples.
STORES = """
wmma.store.d.sync.aligned.m16n16k16.row.s32
              [ptr], {d0, d1, d2, d3, d4, d5, d6, d7};
wmma.store.d.sync.aligned.m8n8k128.row.s32
[ptr], {d0, d1};
wmma.store.d.sync.aligned.m8n8k4.row.f64
              [ptr], {d0, d1};
"""
# PTX ISA 9.7.14.4.5, Examples.
MMAS = """
wmma.load.a.sync.aligned.m16n16k16.global.row.f16
        {a0, a1, a2, a3, a4, a5, a6, a7}, [A];
wmma.load.b.sync.aligned.m16n16k16.global.col.f16
        {b0, b1, b2, b3, b4, b5, b6, b7}, [B];
wmma.load.c.sync.aligned.m16n16k16.global.row.f32
        {c0, c1, c2, c3, c4, c5, c6, c7}, [C];
wmma.mma.sync.aligned.m16n16k16.row.col.f32.f32
        {d0, d1, d2, d3, d4, d5, d6, d7},
        {a0, a1, a2, a3, a4, a5, a6, a7},
        {b0, b1, b2, b3, b4, b5, b6, b7},
        {c0, c1, c2, c3, c4, c5, c6, c7};
wmma.store.d.sync.aligned.m16n16k16.global.col.f32
        [D], {d0, d1, d2, d3, d4, d5, d6, d7};
wmma.mma.sync.aligned.m8n32k16.row.col.s32.s8.s8.s32
        {d0, d1, d2, d3, d4, d5, d6, d7},
        {a}, {b0, b1, b2,  b3},
        {c0, c1, c2, c3, c4, c5, c6, c7};
wmma.mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32
        {d0, d1}, {a}, {b}, {c0, c1};
wmma.mma.xor.popc.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32
        {d0, d1}, {a}, {b}, {c0, c1};
wmma.mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64
        {d0, d1}, {a}, {b}, {c0, c1};
wmma.mma.sync.aligned.m16n16k8.row.col.f32.tf32.tf32.f32
        {d0, d1, d2, d3, d4, d5, d6, d7},
        {a0, a1, a2, a3}, {b0, b1, b2, b3},
        {c0, c1, c2, c3, c4, c5, c6, c7};
"""
# PTX ISA 9.7.14.5.15, Examples.
LDMATRICES = """
ldmatrix.sync.aligned.m8n8.x1.shared::cta.b16 {d}, [addr];
ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {d0, d1}, [addr];
ldmatrix.sync.aligned.m8n8.x4.b16 {d0, d1, d2, d3}, [addr];
ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {d0, d1}, [addr];
ldmatrix.sync.aligned.m16n16.x2.trans.shared::cta.b8 {d0, d1, d2, d3}, [addr];
ldmatrix.sync.aligned.m16n16.x2.trans.shared::cta.b8x16.b6x16_p32 {d0, d1, d2, d3}, [addr];
"""
EXAMPLES = [
    example.strip() + ";"
    for page in (LOADS, STORES, MMAS, LDMATRICES)
    for example in page.split(";")
    if example.strip()
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_legal_with_the_newest_version(example: str) -> None:
    target = "sm_100a" if "m16n16.x" in example else "sm_90"
    found = explain(example, target=target, ptx_version="9.3")
    assert found.verdict is Verdict.LEGAL
    assert not found.reasons
    assert found.form is not None


def test_all_examples_of_the_four_pages_are_here() -> None:
    assert len(EXAMPLES) == 7 + 3 + 10 + 6


# The first example of 9.7.14.4.4 is of the time before 6.3: it has no .aligned.
OLD = "wmma.store.d.sync.m16n16k16.row.f32 [ptr], {d0, d1, d2, d3, d4, d5, d6, d7};"


@pytest.mark.parametrize(("version", "legal"), [("6.0", True), ("6.2", True), ("6.3", False)])
def test_the_example_without_aligned_is_legal_before_6_3_alone(version: str, legal: bool) -> None:
    found = explain(OLD, target="sm_70", ptx_version=version)
    assert found.legal == legal
    assert [reason.rule for reason in found.reasons] == [Rule.MISSING_QUALIFIER] * (not legal)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_illegal_where_its_notes_are_not_satisfied(example: str) -> None:
    assert not explain(example, target="sm_62", ptx_version="9.3").legal
    assert not explain(example, target="sm_90", ptx_version="5.0").legal


# "wmma.load.a.sync.aligned.row.m16n16k16.f16 {x0,...,x7}, [p], s;" (9.7.14.4.2), written out.
ALIGNMENT = "wmma.load.a.sync.aligned.row.m16n16k16.f16 {x0,x1,x2,x3,x4,x5,x6,x7}"


@pytest.mark.parametrize(
    ("address", "stride", "verdict"),
    [("p", "s", "legal"), ("64", "32", "legal"), ("p", "16", "legal"), ("p", "24", "undefined"),
     ("32", "16", "legal"), ("16", "16", "undefined"), ("48", "s", "undefined")],
)  # fmt: skip
def test_alignment_is_judged_as_in_the_example_of_the_page(
    address: str, stride: str, verdict: str
) -> None:
    # "p is a multiple of 32; 2*s is a multiple of 32"
    found = explain(f"{ALIGNMENT}, [{address}], {stride};")
    assert found.verdict == verdict
    assert {reason.section for reason in found.reasons} <= {"9.7.14.4.2"}
