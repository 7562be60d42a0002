"""What is emitted says what the program says, and nothing twice; the smallest kernel too."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import program_draws
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from outcomes import left_and_expected, left_by
from single_multiplies import Access, program

from corpus.finding import EXPECTED
from corpus.store import Entry, scan_folders
from fuzz.findings.case import image_of, is_value_finding, subject_of
from oracle.errors import UsageError
from oracle.execution.execution import execute
from oracle.isa.lookup import FORMS, form_of, mma_form
from oracle.isa.targets import Module
from oracle.program.operands import Buffer, Place
from oracle.program.program import Program, walk
from oracle.program.steps import Barrier, Copy, Loop, Op, PlainAccess
from runners.emission import emit, emit_all, emit_screening, emit_single
from runners.simulated_runner import SimulatedRunner
from strategies.draws import draw_one
from strategies.features import Focus, Has
from strategies.programs import programs

_F16 = mma_form("wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16")
_NO_HURRY = settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck))


@_NO_HURRY
@given(made=program_draws.programs())
def test_the_same_program_gives_the_same_text_with_every_step_under_a_comment(
    made: Program,
) -> None:
    ptx = emit(made).ptx
    assert ptx == emit(made).ptx
    assert len(re.findall(r"^    // [\d.a-z]+: ", ptx, re.M)) == sum(1 for _ in walk(made.steps))


@_NO_HURRY
@given(made=program_draws.programs(), screening=st.booleans())
def test_every_register_that_is_used_is_declared_once(made: Program, screening: bool) -> None:
    ptx = emit_screening({"screen": made}).ptx if screening else emit(made).ptx
    declared: set[str] = set()
    for line in re.findall(r"\.reg \.\w+ ([^;]+);", ptx):
        for name in line.split(", "):
            base, _, count = name.partition("<")
            names = {f"{base}{i}" for i in range(int(count.strip(">")))} if count else {base}
            assert not names & declared
            declared |= names
    code = "\n".join(line for line in ptx.splitlines() if ".reg" not in line and "//" not in line)
    special = {"%tid", "%ntid", "%ctaid", "%laneid", "%smid", "%warpid", "%globaltimer"}
    assert set(re.findall(r"%\w+", code)) - special <= declared


def test_where_each_lane_s_elements_begin_is_computed_once_for_a_pitch() -> None:
    def load(count: int, offset: int) -> PlainAccess:
        place = Place(buffer="g", offset=offset)
        return PlainAccess(loads=True, registers=f"a{count}", count=count, place=place)

    loop = Loop(count=2, body=(load(4, 512), load(2, 1024), load(2, 1536)))
    steps = (load(4, 0), loop, load(2, 1024), load(4, 1536))
    ptx = emit(Program(buffers=(Buffer(name="g", space="global", size=2048),), steps=steps)).ptx
    code = [line.split("//")[0].strip() for line in ptx.splitlines()]
    begins = [line for line in code if re.match(r"mad\.wide\.u32 %rd\d+, %lane, ", line)]
    # What a loop computes is not there behind it.
    assert [line.split(", ")[2] for line in begins] == ["16", "8", "8"]
    loads = [line.split("[")[1] for line in code if line.startswith("ld.global")]
    offsets = ["", "+512", "+1024", "+1536", "+1024", "+1536"]
    assert loads == [
        f"%rd{register}{offset}];" for register, offset in zip("001120", offsets, strict=True)
    ]


@given(version=st.sampled_from(["6.0", "6.1", "6.2", "6.3", "6.5", "7.0", "9.3"]))
def test_aligned_is_spelled_from_version_6_3_on(version: str) -> None:
    ptx = emit(program(_F16, Access()), module=Module.named("sm_70", version)).ptx
    assert f".version {version}\n.target sm_70\n" in ptx
    numbers = tuple(map(int, version.split(".")))
    assert (".sync.aligned.row" in ptx) == (numbers >= (6, 3))
    assert (".sync.row" in ptx) == (numbers < (6, 3))


@pytest.mark.parametrize(
    ("access", "pattern"),
    [
        (Access(), r"\[%image\];"),
        (Access(stride="immediate", padding=1), r"\[%image\], 16;"),
        (Access(stride="register", padding=1), r"\[%image\], %r\d+;"),
        (Access(space=""), r"\[%image_generic\];"),
        (Access(space="shared"), r"\.shared\.f16 .*\[%shared\];"),
        (Access(space="shared::cta"), r"\.shared::cta\.f16 .*\[%shared\];"),
        (Access(space="generic shared"), r"\[%shared_generic\];"),
        (Access(padding=1, offset=2, stride="immediate"), r"\[%rd\d+\], 16;"),
        (
            Access(padding=1, offset=2, stride="immediate", in_instruction=True),
            r"\[%image\+64\], 16;",
        ),
    ],
)
def test_the_first_load_is_spelled_as_its_access_says(access: Access, pattern: str) -> None:
    (load,) = [line for line in emit(program(_F16, access)).ptx.splitlines() if "load.a" in line]
    assert re.search(pattern, load), load


def test_a_stride_in_a_register_is_no_constant_to_a_compiler() -> None:
    ptx = emit(program(_F16, Access(stride="register", padding=1))).ptx
    (register,) = set(re.findall(r"\[%image\], (%r\d+);", ptx))
    assert f"add.u32 {register}, %zero, 16;" in ptx
    assert "cvt.u32.u64 %zero, %high;" in ptx
    assert "ld.param.u64 %image_generic, [images];\n" in ptx


@given(size=st.integers(1, 49152))
def test_a_block_never_has_more_shared_memory_than_48_kib(size: int) -> None:
    buffers = (
        Buffer(name="g", space="global", size=1),
        Buffer(name="s", space="shared", size=size),
    )
    step = Copy(source=Place(buffer="g"), destination=Place(buffer="s"), size=1)
    (kernel,) = emit(Program(buffers=buffers, steps=(step,))).kernels
    assert 1 <= kernel.warps_per_block <= 8
    assert kernel.warps_per_block * kernel.shared_bytes <= 49152
    assert (kernel.warps_per_block + 1) * kernel.shared_bytes > 49152 or kernel.warps_per_block == 8


def test_a_warp_that_needs_more_shared_memory_than_a_block_has_is_refused() -> None:
    made = Program(
        buffers=(
            Buffer(name="g", space="global", size=1),
            Buffer(name="s", space="shared", size=49153),
        ),
        steps=(),
    )
    with pytest.raises(UsageError, match="at most 49152"):
        emit(made)


@pytest.mark.parametrize("entry", ["", "1st", "a;"])
def test_a_name_that_is_no_identifier_is_refused(entry: str) -> None:
    with pytest.raises(UsageError, match="cannot name a kernel"):
        emit(program(_F16, Access()), entry=entry)


def test_unknown_targets_and_versions_and_empty_modules_are_refused() -> None:
    made = program(_F16, Access())
    for wrong in (("sm_91", "8.0"), ("sm_90", "6.9")):
        with pytest.raises(UsageError):
            emit(made, module=Module.named(*wrong))
    with pytest.raises(UsageError, match="at least one program"):
        emit_all({})


def test_a_buffer_reached_through_a_space_in_which_it_does_not_lie_is_refused() -> None:
    load = form_of("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16")
    made = Program(
        buffers=(Buffer(name="g", space="global", size=512),),
        steps=(Op.of(form=load, fragment="a", place=Place(buffer="g")),),
    )
    with pytest.raises(UsageError, match=r"lies in global memory and is accessed through \.shared"):
        emit(made)


_NAMES = ("a", "a_1", "a_", "a_b32", "r", "rd", "p", "lane", "warp", "image", "zero", "count")


@_NO_HURRY
@given(names=st.permutations(_NAMES), seed=st.integers(0, 99))
def test_no_name_of_a_fragment_collides_with_a_register_of_the_kernel(
    names: list[str], seed: int
) -> None:
    a, b, c, d, other = names[:5]
    f32 = mma_form("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32")
    made = program(f32, Access(stride="register"))
    renamed = dict(zip("abcd", (a, b, c, d), strict=True))
    steps = [
        step.changed(**{use.field: renamed[use.name] for use in step.uses}) for step in made.steps
    ]
    # `other` holds an f16 accumulator first and an f32 one afterwards.
    half = form_of("wmma.load.c.sync.aligned.row.m16n16k16.global.f16")
    steps.insert(0, Op.of(form=half, fragment=other, place=Place(buffer="ga")))
    full = form_of("wmma.load.c.sync.aligned.row.m16n16k16.global.f32")
    steps.insert(1, Op.of(form=full, fragment=other, place=Place(buffer="gc")))
    store = form_of("wmma.store.d.sync.aligned.row.m16n16k16.global.f16")
    steps[1:1] = [Op.of(form=store, fragment=other, place=Place(buffer="gb"))]
    steps.insert(2, Barrier())
    changed = Program(buffers=made.buffers, steps=tuple(steps))
    images = program_draws.images(changed, seed, 2)
    assert np.array_equal(*left_and_expected(SimulatedRunner(), changed, images))


MODULE = Module.named("sm_90", "8.0")
RECORD = Path(__file__).parents[3] / "corpus" / "record" / "findings"


@settings(deadline=None, max_examples=20)
@given(
    key=st.integers(0, 2**64 - 1), feature=st.sampled_from([Has.LANES_ALONE, Has.UNPACKED, None])
)
def test_a_single_kernel_leaves_what_the_oracle_says_and_is_shorter(
    key: int, feature: Has | None
) -> None:
    focus = Focus(features=frozenset(filter(None, [feature])))
    made = draw_one(programs(focus, module=MODULE, forms=FORMS), key)
    image = np.random.default_rng(key).integers(0, 256, (1, made.image_bytes), np.uint8)
    single = emit_single(made, module=MODULE)
    assert np.array_equal(left_by(SimulatedRunner(), single, image), execute(made, image).images)
    assert single.ptx.count("\n") < emit(made, module=MODULE).ptx.count("\n")


def test_single_kernels_of_the_record_s_findings_leave_what_is_expected() -> None:
    for entry in scan_folders(RECORD, checksums=False):
        if isinstance(entry, Entry) and is_value_finding(entry):
            subject, finding = subject_of(entry), entry.finding
            single = emit_single(
                subject.program, module=Module.named(finding.target, finding.ptx_version)
            )
            expected = image_of(entry, EXPECTED, subject.program.image_bytes)
            assert np.array_equal(
                left_by(SimulatedRunner(), single, subject.image[None])[0], expected
            ), entry.id
