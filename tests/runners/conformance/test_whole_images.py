"""Every multiplication, reached in every way, and kernels of their own parameters: whole images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from lane_programs import programs
from outcomes import compiled_of, ran_of
from single_multiplies import VARIANTS, Access, accesses, contents, program

from oracle.bounds.permission import allowed_bytes, permitted
from oracle.execution.execution import execute
from oracle.isa.forms import Form
from oracle.isa.lookup import MMA_SYNC_FORMS
from oracle.isa.targets import Module
from oracle.program.definedness import undefined
from oracle.program.program import Program
from runners.emission import emit_all
from runners.protocol import Failure, Images, Ran, Runner, Trouble
from strategies.contents import Recipe, ValueClass, expand

_ALL = tuple(accesses())
_IMAGES = 20
"""One of each class of values, and one more."""
_MISALIGNED = tuple(
    Access(space=space, stride=stride, padding=1, offset=1, page_alignment=True)
    for space in ("global", "shared", "generic shared")
    for stride in ("immediate", "register")
)
"""Rows in shared memory that are aligned as the page asks for, and no better."""


def compared(
    runner: Runner, made: Mapping[str, Program], images: Mapping[str, Images], version: str,
    target: str = "sm_80",
) -> Iterator[tuple[str, Ran | Failure, Images]]:  # fmt: skip
    """Iterate over programs of a module: their names, what ran, and what must come out."""
    compiled = compiled_of(runner, emit_all(made, module=Module.named(target, version)))
    for entry, one in made.items():
        ran = runner.run(compiled, images[entry], entry=entry)
        yield entry, ran, execute(one, images[entry], target=compiled.architecture).images


def wrong_bytes(ran: Ran | Failure, expected: Images) -> int:
    return int((ran_of(ran).images != expected).sum())


def test_the_suite_has_138_variants_in_140_ways_and_110_forms() -> None:
    assert len({form.opcode for form in VARIANTS}) == 138
    assert len(set(_ALL)) == 140
    assert len({form.opcode for form in MMA_SYNC_FORMS}) == 110


@pytest.mark.parametrize("form", VARIANTS, ids=lambda form: form.opcode)
def test_products_of_fragments_equal_the_oracles(runner: Runner, form: Form) -> None:
    number, made, images = VARIANTS.index(form), {}, {}
    # A GPU tries all; 37 shares no factor with their number, so that samples reach all.
    chosen = [_ALL[2 * number * 37 % len(_ALL)]]
    for index, access in enumerate(_ALL if runner.capabilities().name == "cuda" else chosen):
        entry = f"access_{index}"
        made[entry], images[entry] = contents(form, access, 8, seed=number)
    found = compared(runner, made, images, "7.8")
    wrong = [(entry, count) for entry, ran, due in found if (count := wrong_bytes(ran, due))]
    assert not wrong, f"{form.opcode}: (access, wrong bytes) {wrong[:5]} and {len(wrong)} in all"


@pytest.mark.parametrize("name", sorted({form.a_type.name for form in MMA_SYNC_FORMS}))
def test_products_of_registers_equal_the_oracles(runner: Runner, name: str) -> None:
    made = {}
    for number, form in enumerate(MMA_SYNC_FORMS):
        if form.a_type.name == name:
            ways = list(programs(form).items())
            chosen = (
                ways if runner.capabilities().name == "cuda" else [ways[5 * number % len(ways)]]
            )
            made.update({f"{way}_{number}": program for way, program in chosen})
    recipe = Recipe(classes=tuple(ValueClass), seed=len(name))
    images = {entry: expand(recipe, made_, _IMAGES) for entry, made_ in made.items()}
    wrong = []
    for entry, ran, expected in compared(runner, made, images, "8.7", "sm_90"):
        if count := wrong_bytes(ran, expected):
            wrong.append((entry, count))
        assert allowed_bytes(permitted(made[entry], images[entry][:4]), expected[:4]).all(), entry
    assert not wrong, f"(entry, wrong bytes) {wrong[:5]} and {len(wrong)} in all"


@pytest.mark.parametrize(
    "form",
    [
        form if index % 6 == 0 else pytest.param(form, marks=pytest.mark.slow)
        for index, form in enumerate(VARIANTS[::5])
    ],
    ids=lambda form: form.opcode,
)
def test_rows_aligned_to_the_fragment_give_the_oracles_image_or_a_trap(
    runner: Runner, form: Form
) -> None:
    """Never a wrong image: where the machine asks for more than the page, it says so."""
    ways = {f"access_{number}": access for number, access in enumerate(_MISALIGNED)}
    made = {entry: program(form, access) for entry, access in ways.items()}
    assert not any(undefined(one, target="sm_80") for one in made.values())
    images = {entry: contents(form, access, 4, seed=1)[1] for entry, access in ways.items()}
    for entry, ran, expected in compared(runner, made, images, "7.8"):
        if isinstance(ran, Failure):
            assert runner.capabilities().name == "cuda", "the simulated device follows the page"
            assert ran.trouble is Trouble.STICKY_ERROR
            assert "misaligned address" in ran.detail
            assert ways[entry].space != "global"
        else:
            assert not wrong_bytes(ran, expected), ways[entry]
