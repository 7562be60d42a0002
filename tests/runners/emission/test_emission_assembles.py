"""A real assembler takes what is emitted, for the versions and targets that it knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from drawn_programs import drawn
from lane_programs import programs
from single_multiplies import VARIANTS, Access, accesses, program

from oracle.isa.forms import Form
from oracle.isa.lookup import FORMS, MMA_SYNC_FORMS, is_available
from oracle.isa.targets import Module
from oracle.program.program import Program
from runners.compilers import discover_assemblers
from runners.cuda.compilation import PtxasCompiler
from runners.emission import emit_all, emit_screening
from runners.kernels import KernelModule
from runners.protocol import Compiled, Failure, Trouble

Emitter = Callable[..., KernelModule]
_THERE = tuple(form for form in FORMS if is_available(form, Module.named("sm_80", "7.8")))


@pytest.fixture(scope="module")
def assembler() -> PtxasCompiler:
    """The newest ptxas that is here."""
    assemblers = discover_assemblers().assemblers
    if not assemblers:
        pytest.skip("no ptxas is here; `pip install nvidia-cuda-nvcc` brings one")
    return PtxasCompiler(assemblers[0].path, level=0)


def _assembles(
    assembler: PtxasCompiler,
    programs: list[Program],
    target: str,
    version: str,
    emitters: tuple[Emitter, ...] = (emit_all, emit_screening),
) -> None:
    named = {f"kernel_{index}": made for index, made in enumerate(programs)}
    for emitter in emitters:
        module = emitter(named, module=Module.named(target, version))
        outcome = assembler.compile(module, "sm_90")
        assert isinstance(outcome, Compiled), f"{outcome} {outcome.detail}"


def test_every_variant_assembles_reached_in_every_way(assembler: PtxasCompiler) -> None:
    ways = tuple(accesses())
    assert len(VARIANTS) >= len(ways) - 2
    for which, emitter in enumerate((emit_all, emit_screening)):
        # 37 shares no factor with the number of ways. Screening takes ptxas much longer.
        variants = (*VARIANTS[::4], VARIANTS[-1]) if which else VARIANTS[::3]
        programs = [
            program(form, ways[(2 * index + which) * 37 % len(ways)])
            for index, form in enumerate(variants)
        ]
        _assembles(assembler, programs, "sm_80", "7.8", (emitter,))


def test_forms_of_mma_sync_assemble_with_what_feeds_and_stores_them(
    assembler: PtxasCompiler,
) -> None:
    # One form in fourteen, each in a way of its own.
    ways = [list(programs(form).values()) for form in MMA_SYNC_FORMS[::14]]
    made = [some[number % len(some)] for number, some in enumerate(ways)]
    _assembles(assembler, made, "sm_90", "8.7")


def test_ptx_newer_than_the_assembler_is_no_fault_of_who_wrote_it(
    assembler: PtxasCompiler,
) -> None:
    whole = emit_all({"k": program(VARIANTS[0], Access())}, module=Module.named("sm_80", "7.8"))
    newer = replace(whole, ptx=whole.ptx.replace(".version 7.8", ".version 99.9"))
    outcome = assembler.compile(newer, "sm_90")
    assert isinstance(outcome, Failure)
    assert outcome.trouble is Trouble.UNSUPPORTED
    assert "and what was written is 99.9; have a newer ptxas" in outcome.message


@pytest.mark.slow
def test_every_form_of_mma_sync_assembles_in_every_way(assembler: PtxasCompiler) -> None:
    made = [program for form in MMA_SYNC_FORMS for program in programs(form).values()]
    _assembles(assembler, made, "sm_90", "8.7")


def _is_plain(form: Form) -> bool:
    """Whether a form is one of PTX ISA 6.1 on sm_70: f16 matrices, no `::cta`, no ldmatrix."""
    if form.is_access:
        return form.type().name in ("f16", "f32") and form.space != "shared::cta"
    return form.mnemonic == "wmma.mma" and form.a_type.name == "f16" and not form.satfinite


@pytest.mark.parametrize(
    "version",
    ["6.1", *(pytest.param(name, marks=pytest.mark.slow) for name in ("6.3", "7.0", "8.0"))],
)
def test_one_program_assembles_in_every_version_since_its_instructions_came(
    assembler: PtxasCompiler, version: str
) -> None:
    spaces = [Access(space=space, stride="register") for space in ("", "global", "shared")]
    plain = [form for form in VARIANTS if _is_plain(form)][::2]
    programs = [program(form, spaces[i % 3]) for i, form in enumerate(plain)]
    _assembles(assembler, programs, "sm_70", version)


def test_drawn_programs_assemble(assembler: PtxasCompiler) -> None:
    made = drawn(count=12, key=3, target="sm_80", version="7.8", forms=_THERE)
    _assembles(assembler, made, "sm_80", "7.8")
