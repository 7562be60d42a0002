"""PTX that comes from anywhere, and which compilers the words of --compilers name."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.isa.lookup import form_of
from oracle.program.program import Program
from oracle.program.steps import product_of
from runners import compilers
from runners.assemblers.assembler import Assembler
from runners.compilers import FoundCompiler, select
from runners.emission import emit, emit_all
from runners.ptx_text import kernel_texts, ptx_digests, with_kernel_of, without_kernel
from runners.toolchains import RELEASES, ToolOrigin
from strategies.matrices import single_program


def program_of(opcode: str) -> Program:
    return single_program(product_of(form_of(opcode)))


PROGRAMS = [
    program_of(f"mma.sync.aligned.{shape}")
    for shape in (
        "m16n8k32.row.col.s32.s8.s8.s32",
        "m16n8k16.row.col.f32.f16.f16.f32",
        "m16n8k8.row.col.f32.tf32.tf32.f32",
        "m8n8k4.row.col.f64.f64.f64.f64",
    )
]
modules = st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True), st.sampled_from(PROGRAMS), min_size=1
)


@given(modules)
def test_a_module_is_what_stands_in_front_and_its_kernels(programs: dict[str, Program]) -> None:
    ptx = emit_all(programs).ptx
    head, texts = kernel_texts(ptx)
    assert head + "".join(texts.values()) == ptx
    assert list(texts) == list(programs)
    for name, text in texts.items():
        assert text.startswith(f"// {name}: one warp per image")
        assert text.count(".entry") == 1


@given(modules, st.data())
def test_a_module_without_a_kernel_is_that_of_the_others(
    programs: dict[str, Program], data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(list(programs)))
    left = {name: one for name, one in programs.items() if name != gone}
    text = without_kernel(emit_all(programs).ptx, gone)
    assert ptx_digests(text) == (ptx_digests(emit_all(left).ptx) if left else {})


@given(modules, st.sampled_from(PROGRAMS), st.data())
def test_a_kernel_stands_where_another_one_stood(
    programs: dict[str, Program], other: Program, data: st.DataObject
) -> None:
    place = data.draw(st.sampled_from(list(programs)))
    text = with_kernel_of(emit_all(programs).ptx, emit(other, entry=place).ptx, place)
    assert ptx_digests(text) == ptx_digests(emit_all({**programs, place: other}).ptx)
    assert list(kernel_texts(text)[1]) == list(programs)


def test_all_are_those_that_are_here_and_every_release_that_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = [
        Assembler(path=Path(f"/{release}/ptxas"), version=version,
                  origin=next(iter(ToolOrigin)))
        for release, version in (("12.4", "V12.4.99"), ("13.5", "V13.5.37"), ("99.1", "V99.1.2"))
    ]  # fmt: skip
    monkeypatch.setattr(
        compilers, "discover_assemblers", lambda: FoundCompiler(assemblers=tuple(here), problems=())
    )
    selected = select("all").candidates
    assert [one.order[:2] for one in selected] == sorted(
        {tuple(map(int, release.split("."))) for release in (*RELEASES, "99.1")}
    )
    assert [one.here for one in selected if one.here is not None] == here
    assert [one.here for one in select("installed").candidates] == here
