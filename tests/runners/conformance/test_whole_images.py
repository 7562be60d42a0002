"""Every multiplication, reached in every way, and kernels of their own parameters: whole images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from lane_programs import programs
from single_multiplies import VARIANTS, Access, accesses, contents, program

from oracle.bounds.permission import permitted
from oracle.execution.execution import execute
from oracle.isa.forms import Form
from oracle.isa.lookup import MMA_SYNC_FORMS
from oracle.isa.targets import Module
from oracle.program.program import Program, undefined
from runners.emission import emit_all
from runners.kernels import Kernel, KernelModule, Launch
from runners.protocol import Compiled, Failure, Images, Ran, Runner, Trouble
from strategies.contents import Recipe, ValueClass, expand

_ALL = tuple(accesses())
_IMAGES = 20
"""One of each class of values, and one more."""
_FAMILIES = sorted({form.a_type.name for form in MMA_SYNC_FORMS})
_MISALIGNED = tuple(
    Access(space=space, stride=stride, padding=1, offset=1, page_alignment=True)
    for space in ("global", "shared", "generic shared")
    for stride in ("immediate", "register")
)
"""Rows in shared memory that are aligned as the page asks for, and no better."""


def compiled_of(runner: Runner, module: KernelModule) -> Compiled:
    compiled = runner.compile(module)
    assert isinstance(compiled, Compiled), f"{compiled} {compiled.detail}"
    return compiled


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
    assert isinstance(ran, Ran), f"{ran} {ran.detail}"
    return int((ran.images != expected).sum())


def test_the_suite_has_138_variants_in_140_ways_and_110_forms() -> None:
    assert len({form.opcode for form in VARIANTS}) == 138
    assert len(set(_ALL)) == 140
    assert len({form.opcode for form in MMA_SYNC_FORMS}) == 110


@pytest.mark.parametrize("form", VARIANTS, ids=lambda form: form.opcode)
def test_products_of_fragments_equal_the_oracles(runner: Runner, layout: int, form: Form) -> None:
    number = VARIANTS.index(form)
    # A GPU tries all; a stride that shares no factor with their number has the samples reach all.
    chosen = [_ALL[(2 * number + layout) * 37 % len(_ALL)]]
    chosen = [*_ALL] if runner.capabilities().name == "cuda" else chosen
    made = {f"access_{index}": program(form, access) for index, access in enumerate(chosen)}
    images = {
        entry: contents(form, access, 8, seed=number)[1]
        for entry, access in zip(made, chosen, strict=True)
    }
    found = compared(runner, made, images, "7.8")
    wrong = [(entry, count) for entry, ran, due in found if (count := wrong_bytes(ran, due))]
    assert not wrong, f"{form.opcode}: (access, wrong bytes) {wrong[:5]} and {len(wrong)} in all"


@pytest.mark.parametrize("name", _FAMILIES)
def test_products_of_registers_equal_the_oracles(runner: Runner, layout: int, name: str) -> None:
    made = {}
    for number, form in enumerate(MMA_SYNC_FORMS):
        if form.a_type.name == name:
            ways = list(programs(form).items())
            # A GPU tries all ways, CI one on each simulated device.
            first = 5 * number + layout
            chosen = ways if runner.capabilities().name == "cuda" else [ways[first % len(ways)]]
            made.update({f"{way}_{number}": program for way, program in chosen})
    recipe = Recipe(classes=tuple(ValueClass), seed=len(name))
    images = {entry: expand(recipe, one, _IMAGES) for entry, one in made.items()}
    wrong = []
    for entry, ran, expected in compared(runner, made, images, "8.7", "sm_90"):
        if count := wrong_bytes(ran, expected):
            wrong.append((entry, count))
        if layout == 0:  # what is expected is the same on both
            assert permitted(made[entry], images[entry][:4]).allows(expected[:4]).all(), entry
    assert not wrong, f"(entry, wrong bytes) {wrong[:5]} and {len(wrong)} in all"


@pytest.mark.parametrize(
    "form",
    [
        form if index % 3 == 0 else pytest.param(form, marks=pytest.mark.slow)
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


PTX = """\
.version 8.0
.target sm_80
.address_size 64
.extern .shared .align 4 .b32 tile[];
.visible .entry turned(.param .u64 out, .param .u32 added, .param .u64 in)
{
    .reg .b32 %r<12>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [out];
    ld.param.u64 %rd2, [in];
    ld.param.u32 %r1, [added];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.y;
    mad.lo.u32 %r2, %r4, %r3, %r2;
    mov.u32 %r4, %ntid.y;
    mul.lo.u32 %r3, %r3, %r4;
    mov.u32 %r4, %ctaid.y;
    mad.lo.u32 %r5, %r4, %r3, %r2;
    mul.wide.u32 %rd3, %r5, 4;
    add.u64 %rd2, %rd2, %rd3;
    add.u64 %rd1, %rd1, %rd3;
    ld.global.u32 %r6, [%rd2];
    mov.u32 %r7, tile;
    mad.lo.u32 %r8, %r2, 4, %r7;
    st.shared.u32 [%r8], %r6;
    bar.sync 0;
    sub.u32 %r9, %r3, 1;
    sub.u32 %r9, %r9, %r2;
    mad.lo.u32 %r8, %r9, 4, %r7;
    ld.shared.u32 %r6, [%r8];
    add.u32 %r6, %r6, %r1;
    st.global.u32 [%rd1], %r6;
    ret;
}
"""
BLOCKS, THREADS = 3, 45
OUT, IN, BYTES = 256, 1024, 2048
LAUNCH = Launch(
    grid=(1, BLOCKS, 1), block=(15, 3, 1), shared_bytes=4 * THREADS,
    parameters=bytes(8) + (7).to_bytes(8, "little") + bytes(8), pointers=((0, OUT), (16, IN)),
    buffers=((OUT, 4 * BLOCKS * THREADS), (IN, 4 * BLOCKS * THREADS)),
)  # fmt: skip
MODULE = KernelModule(
    ptx=PTX, target="sm_80", version="8.0",
    kernels=(Kernel(entry="turned", image_bytes=BYTES, launch=LAUNCH),),
)  # fmt: skip


@pytest.mark.stand_in
@pytest.mark.parametrize("count", [1, 5])
def test_every_image_has_a_grid_of_its_own(runner: Runner, count: int) -> None:
    before = np.random.default_rng(count).integers(0, 256, (count, BYTES), np.uint8)
    expected = before.copy().view(np.uint32)
    size = BLOCKS * THREADS
    given = expected[:, IN // 4 : IN // 4 + size].reshape(count, BLOCKS, THREADS)
    turned = given[:, :, ::-1].reshape(count, size) + np.uint32(7)
    expected[:, OUT // 4 : OUT // 4 + size] = turned
    ran = runner.run(compiled_of(runner, MODULE), before.copy())
    assert isinstance(ran, Ran), ran
    assert np.array_equal(ran.images, expected.view(np.uint8))
    assert (ran.sms == 0xFFFFFFFF).all()
