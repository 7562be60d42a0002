"""What is said of a wrong program of a warpgroup, on compilers whose defects are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from corpus import Kind, ShrinkStatus
from fuzz.diagnosis.culprit import culprit_of, in_company
from fuzz.diagnosis.experiments import CODE, Culprit, ExperimentDevice, key_of
from fuzz.diagnosis.hangs import what_hangs
from fuzz.diagnosis.multiplications import (
    LIMITED,
    SAME_OF_A,
    SAME_OF_D,
    wrong_multiplication,
)
from fuzz.findings.case import Evidence, named_after
from fuzz.findings.families import Bucket
from fuzz.findings.verdicts import Attempt, Subject, smallest_kernel
from fuzz.shrinking import shrink, verdicts_by
from oracle.execution.execution import execute
from oracle.isa.lookup import form_of
from oracle.isa.targets import Module
from oracle.program.definedness import undefined
from oracle.program.lane_code import Assign, LaneCode, Leave, Repeat
from oracle.program.operands import Buffer, Place, Turn, Word
from oracle.program.operations import set_registers
from oracle.program.program import Program, walk
from oracle.program.steps import (
    Barrier,
    Branch,
    Copy,
    Loop,
    OneWarp,
    Step,
    is_lane_code,
    plain_load,
    plain_store,
    product_of,
)
from oracle.program.warpgroup import THREADS, AsyncProduct, SharedTile, WarpgroupSync
from runners.emission import emit, emit_single
from runners.kernels import KernelModule
from runners.protocol import (
    Capabilities,
    Collected,
    Compiled,
    Failure,
    Images,
    Pending,
    Ran,
    Trouble,
)
from strategies.matrices import Image
from strategies.simplification.examples import Example, of_one_warp
from strategies.simplification.multiplications import narrower

FORM = form_of("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16")
TILE = SharedTile(place=Place(buffer="s"), leading=128, stride=256)
FENCE, COMMIT, PROXY, WAIT = (
    WarpgroupSync(kind=kind) for kind in ("fence", "commit_group", "proxy_fence", "wait_group")
)


def code(destination: str, source: str, opcode: str, operand: str | int) -> LaneCode:
    """Each of four registers with something: a constant, or the fourth behind it."""
    results = tuple(f"r{8 + index}" for index in range(4))
    return LaneCode(
        source=source, count=8 if operand == "next" else 4, destination=destination,
        results=results, code=tuple(
            Assign(opcode=opcode, destinations=(results[index],),
                   sources=(f"r{index}", f"r{index + 4}" if operand == "next" else operand))
            for index in range(4)
        ),
    )  # fmt: skip


def listed(*names: str) -> str:
    return " ".join(f"{name}.{index}" for name in names for index in range(4))


def product(a: str = "", d: str = "d") -> AsyncProduct:
    return AsyncProduct(form=FORM, d=d, a=a, a_tile=None if a else TILE, b_tile=TILE)


def program(*steps: Step) -> Program:
    loads = (
        plain_load(registers=name, count=4, place=Place(buffer="g"), lanes=THREADS)
        for name in "adxty"
    )
    fill = Copy(source=Place(buffer="g"), destination=Place(buffer="s"), size=2048)
    stores = (
        plain_store(registers=name, count=4, place=Place(buffer=f"o{name}"), lanes=THREADS)
        for name in "dy"
    )
    return Program(
        buffers=(
            Buffer(name="g", space="global", size=2048),
            Buffer(name="od", space="global", size=2048),
            Buffer(name="oy", space="global", size=2048),
            Buffer(name="ow", space="global", size=512),
            Buffer(name="s", space="shared", size=2048),
        ),
        steps=(*loads, fill, PROXY, Barrier(), *steps, COMMIT, WAIT, *stores), warps=4,
    )  # fmt: skip


MADE, SEEN = code("a", "x", "xor.b32", 257), code("t", "x", "xor.b32", 257)
ADDED = code("y", listed("y", "t"), "add.u32", "next")
READ = code("y", listed("y", "d"), "xor.b32", "next")
READ_LAST = code("y", "d.2 d.3 d.3 d.2", "xor.b32", 257)
TWINS = program(
    Loop(count=2, body=(SEEN, ADDED, WAIT, MADE, FENCE, product(), product("a"), COMMIT,
                        code("x", "x", "xor.b32", 1))),
)  # fmt: skip
LAPPED = program(
    Loop(count=2, body=(FENCE, product(), SEEN, ADDED, WAIT, MADE, FENCE, product("a"), COMMIT,
                        code("x", "x", "xor.b32", 1))),
)  # fmt: skip
CHANGED = program(
    Loop(count=2, body=(FENCE, product("x"), COMMIT, WAIT, SEEN, ADDED,
                        code("x", "x", "xor.b32", 1))),
)  # fmt: skip
QUEUED = program(
    Loop(count=2, body=(FENCE, product("x"), product(), COMMIT, WAIT, SEEN, ADDED,
                        code("x", "x", "xor.b32", 1))),
)  # fmt: skip
SECOND = OneWarp(warp=2, body=(
    plain_load(registers="u", count=4, place=Place(buffer="g")),
    code("v", "u", "xor.b32", 1), code("w", "v", "xor.b32", 1),
    plain_store(registers="w", count=4, place=Place(buffer="ow")),
))  # fmt: skip
ALONE = program(FENCE, product(), SECOND)
TWICE = product_of(form_of("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32")).changed(
    d="t", a="x.0 x.1", b="d.0", c="d"
)
READS_TWICE = program(TWICE, FENCE, product(), COMMIT, WAIT, TWICE)
UNREAD = program(FENCE, product(), COMMIT, replace(product(), scale_d=0))
GIVEN = program(FENCE, product(), COMMIT, WAIT, code("d", "x", "xor.b32", 257))
REPEATED = program(FENCE, product(), product(), COMMIT)
BEGUN = program(FENCE, replace(product(d="n"), scale_d=0), product("a", "n"), FENCE)
ASKED = Turn(asks="ne", number=0), Word(place=Place(buffer="g"), mask=1)
LATER = Loop(count=2, body=(Branch(condition=ASKED[0], then=(SECOND,)),))
ALONE_LATER = program(FENCE, product(), LATER)
TURNING, READING = (
    program(Loop(count=2, body=(FENCE, replace(product(), scale_d=asked), COMMIT)))
    for asked in ASKED
)
FACTOR = TWICE.changed(b="z.0", c="y")
MADE_OF = set_registers(destination="z", count=1), FACTOR, FENCE
BESIDE, ASKING = (program(*MADE_OF, replace(product(), scale_d=one)) for one in (1, ASKED[1]))
READS, READS_LAST = (program(one, FENCE, product(), COMMIT, WAIT, one) for one in (READ, READ_LAST))

FORGOTTEN = program(READ, FENCE, replace(product(), scale_d=ASKED[1]), COMMIT, WAIT, READ)


def emitted(wrong: Program) -> tuple[KernelModule, Image]:
    """Return the module of a program, and an image of small numbers."""
    image = np.random.default_rng(1).integers(0, 64, wrong.image_bytes, np.uint8)
    return emit(wrong, module=Module.named("sm_90a", "8.0")), image


def flat(steps: tuple[Step, ...]) -> list[Step]:
    return [
        one
        for step in steps
        for one in (step, *(step.body if isinstance(step, Loop | OneWarp) else ()))
    ]


def waits_behind(steps: list[Step], which: Callable[[AsyncProduct], bool]) -> bool:
    return all(
        steps[at + 1 : at + 3] == [COMMIT, WAIT]
        for at, one in enumerate(steps)
        if isinstance(one, AsyncProduct) and which(one)
    )


def is_wait(step: Step) -> bool:
    return isinstance(step, WarpgroupSync) and step.kind == WAIT.kind


def overwrites_a(steps: list[Step]) -> bool:
    return not waits_behind(steps, lambda one: bool(one.a))


def overwrites_a_at_once(steps: list[Step]) -> bool:
    """The same, but late enough where a commit and any wait stand behind those."""
    return overwrites_a([replace(one, pending=0) if is_wait(one) else one for one in steps])


def overwrites_a_of_the_turn_before(steps: list[Step]) -> bool:
    """A is written where the same is made first, in front of the wait, in the next turn."""
    bodies = [one.body for one in steps if isinstance(one, Loop) and product("a") in one.body]
    return any(
        WAIT not in (*body[body.index(product("a")) :], *body[: body.index(SEEN)])
        for body in bodies
    )


def forgets_a_wait(steps: list[Step]) -> bool:
    return not waits_behind(steps, lambda _: True)


def reuses_an_unread_d(steps: list[Step]) -> bool:
    unread = any(isinstance(one, AsyncProduct) and one.scale_d == 0 for one in steps)
    return unread and forgets_a_wait(steps)


def loses_what_d_is_given(steps: list[Step]) -> bool:
    """What code gives a D is lost where a barrier, a fence, a commit or a wait is next."""
    return any(
        is_lane_code(one) and one.destination == "d" and isinstance(after, Barrier | WarpgroupSync)
        for one, after in pairwise(steps)
    )


def takes_d_for_unchanged(steps: list[Step]) -> bool:
    """What is made of D is made once of it before and behind a multiplication."""
    return 2 in map(steps.count, (READ, READ_LAST, TWICE)) and multiplies_wrong(steps)


def takes_a_for_unchanged(steps: list[Step]) -> bool:
    """What is made of an A is what was made of it before its registers changed."""
    read = {use.bank for one in steps if is_lane_code(one) for use in one.reads}
    return not read.isdisjoint(one.a for one in steps if isinstance(one, AsyncProduct))


def takes_a_for_unchanged_without_a_commit(steps: list[Step]) -> bool:
    """The same, but not where a commit and any wait stand behind each multiplication."""
    behind = [
        steps[at + 1] == COMMIT and is_wait(steps[at + 2])
        for at, one in enumerate(steps)
        if isinstance(one, AsyncProduct)
    ]
    return takes_a_for_unchanged(steps) and not all(behind)


def multiplies_once(steps: list[Step]) -> bool:
    """Of equal multiplications with nothing between only one is done."""
    return any(one == two and isinstance(one, AsyncProduct) for one, two in pairwise(steps))


def takes_another_predicate(steps: list[Step]) -> bool:
    """Wrong where scale-d is a predicate."""
    return any(isinstance(one, AsyncProduct) and one.scale_d in ASKED for one in steps)


def loses_what_was_made(steps: list[Step]) -> bool:
    """Wrong where code reads what code has made, in programs of one warp as well."""
    made = [one for one in steps if is_lane_code(one)]
    return any(one.source == other.destination == "v" for one in made for other in made)


def adds_wrong(steps: list[Step]) -> bool:
    """Wrong sums, in programs of one warp as well."""
    return any("add.u32" in str(one.fields) for one in steps if is_lane_code(one))


def loses_a_constant_factor(steps: list[Step]) -> bool:
    """Wrong beside a multiplication of the warpgroup alone."""
    return FACTOR in steps and multiplies_wrong(steps)


def multiplies_wrong(steps: list[Step]) -> bool:
    return any(isinstance(one, AsyncProduct) for one in steps)


def loses_what_is_not_stored(steps: list[Step]) -> bool:
    """Wrong unless what code makes is stored at once."""
    return multiplies_wrong(steps) and not any("kept" in str(one.bytes_written) for one in steps)


class Defective:
    """Runs programs as the oracle does, and those that a compiler gets wrong with a bit more."""

    def __init__(self, defect: Callable[[list[Step]], bool]) -> None:
        self.defect = defect

    def compile(self, module: KernelModule) -> Compiled:
        return Compiled(module=module, architecture="sm_90a", compiler="none", key=module.digest)

    def prepare(self, module: KernelModule) -> Compiled:
        return self.compile(module)

    def capabilities(self) -> Capabilities:
        return Capabilities(name="none", targets=frozenset({"sm_90a"}), description="none")

    def close(self) -> None: ...

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran:
        program = compiled.module.programs[compiled.module.kernel(entry).entry]
        came = execute(program, images, target="sm_90a").images.copy()
        if self.defect(steps := flat(program.steps)):
            names = [one.name for one in program.buffers if one.name.startswith("seen")]
            # What a multiplication made is looked at behind a commit and a wait.
            behind = [
                steps[at + 3] for at, one in enumerate(steps) if isinstance(one, AsyncProduct)
            ]
            made = {span.buffer for one in behind for span in one.bytes_written}
            if self.defect is not loses_a_constant_factor:
                names = [one for one in names if one in made] or names
            names = names or ["od" if program.warps > 1 else program.buffers[-1].name]
            came[:, program.offset(names[0])] ^= 1
        return Ran(images=came, sms=np.zeros(len(images), np.uint32), seconds=0.0)

    def submit(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Pending:
        return Collected(outcome=self.run(compiled, images, entry=entry))


@pytest.mark.parametrize(("defect", "wrong", "named"), [
    (overwrites_a, TWINS, "wgmma.mma_async/in flight with a in registers"),
    (overwrites_a, BEGUN, "wgmma.mma_async/in flight with a in registers"),
    (overwrites_a_at_once, TWINS, "wgmma.mma_async/in flight with a in registers"),
    (overwrites_a_of_the_turn_before, LAPPED, "wgmma.mma_async/in flight with a in registers"),
    (reuses_an_unread_d, UNREAD, "wgmma.mma_async/in flight with a d that nothing reads"),
    (loses_what_d_is_given, GIVEN, "wgmma.mma_async/with a d that other code writes"),
    (forgets_a_wait, TWINS, "wgmma.mma_async/in flight beside other steps"),
    (takes_d_for_unchanged, READS, "wgmma.mma_async/with a d of which the same is computed before "
     "and behind it"),
    (takes_d_for_unchanged, READS_LAST, "wgmma.mma_async/with a d of which the same is computed "
     "before and behind it"),
    (takes_d_for_unchanged, READS_TWICE, "wgmma.mma_async/with a d of which the same is computed "
     "before and behind it"),
    (takes_a_for_unchanged, CHANGED, "wgmma.mma_async/with a in registers of which the same is "
     "computed before and behind it"),
    (takes_a_for_unchanged_without_a_commit, QUEUED, "wgmma.mma_async/with a in registers of which "
     "the same is computed before and behind it"),
    (multiplies_once, REPEATED, "wgmma.mma_async/more than once with the same operands"),
    (takes_another_predicate, TURNING, "wgmma.mma_async/with a predicate for scale-d"),
    (takes_another_predicate, READING, "wgmma.mma_async/with a predicate for scale-d"),
    (loses_what_was_made, ALONE, "loading registers/beside other steps only"),
    (loses_what_is_not_stored, TWINS, "wgmma.mma_async/behind scalar code"),
    (multiplies_wrong, READS, "wgmma.mma_async of f16"),
    (multiplies_wrong, ALONE, "wgmma.mma_async of f16"),
    (adds_wrong, TWINS, "add.u32"),
    (loses_a_constant_factor, BESIDE, "mma.sync of f16/multiplicands that scalar code computes"),
    (loses_a_constant_factor, ASKING, "mma.sync of f16/multiplicands that scalar code computes"),
])  # fmt: skip
def test_a_program_is_named_by_what_it_is_right_without(
    defect: Callable[[list[Step]], bool], wrong: Program, named: str
) -> None:
    module, image = emitted(wrong)
    found = culprit_of(ExperimentDevice(Defective(defect), module, copies=2), wrong, image)
    assert found is not None
    assert key_of(found) == named
    # What is told by its types, or by code, may be more than one defect.
    together = named.endswith((" of f16", " code", " only", " computes"))
    together |= defect is overwrites_a_at_once
    assert in_company(found) == together
    if defect in (overwrites_a, overwrites_a_of_the_turn_before):
        assert found.which == f"{FORM.opcode}, multiplication 2 of 2"


class Recording(Defective):
    """Keeps the programs that it runs, with their images."""

    def __init__(self, defect: Callable[[list[Step]], bool]) -> None:
        super().__init__(defect)
        self.ran: list[tuple[Program, Images]] = []

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran:
        program = compiled.module.programs[compiled.module.kernel(entry).entry]
        self.ran.append((program, images))
        return super().run(compiled, images, entry=entry)


def test_a_step_of_all_warps_is_tried_once_on_what_each_of_them_met() -> None:
    (module, image), runner = emitted(TWINS), Recording(overwrites_a)
    assert culprit_of(ExperimentDevice(runner, module), TWINS, image) is not None
    alone = [(one, images) for one, images in runner.ran if one.warps == 1]
    programs = [one for one, _ in alone]
    assert len({*programs}) == len(programs) > 4
    # Words that warps 0 and 3 load at first.
    for first in (image[:512], image[1536:2048]):
        assert sum(first.tobytes() in images.tobytes() for _, images in alone) > 1


class Failing(Defective):
    """Does not run some programs to their ends, and gets all others wrong."""

    def __init__(self, defect: Callable[[list[Step]], bool], trouble: Trouble) -> None:
        super().__init__(multiplies_wrong)
        self.fails, self.trouble, self.failed = defect, trouble, 0

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran | Failure:
        program = compiled.module.programs[compiled.module.kernel(entry).entry]
        if self.fails(flat(program.steps)):
            self.failed += 1
            return Failure(trouble=self.trouble, message="it failed")
        return super().run(compiled, images, entry=entry)


def takes_a_and_d_for_unchanged(steps: list[Step]) -> bool:
    return takes_d_for_unchanged(steps) or takes_a_for_unchanged(steps)


def test_of_two_defects_either_is_named_without_the_other() -> None:
    wrong = program(READ, FENCE, product("x"), COMMIT, WAIT, READ, SEEN, ADDED)
    module, image = emitted(wrong)
    device = ExperimentDevice(Defective(takes_a_and_d_for_unchanged), module)
    found = wrong_multiplication(device, wrong, image)
    assert found is not None
    assert found.condition == SAME_OF_A
    assert found.together


class Refusing(Defective):
    """Does not compile some programs."""

    def __init__(
        self, defect: Callable[[list[Step]], bool], refused: Callable[[Program], bool]
    ) -> None:
        super().__init__(defect)
        self.refused = refused

    def compile(self, module: KernelModule) -> Compiled | Failure:
        if any(map(self.refused, module.programs.values())):
            return Failure(trouble=Trouble.COMPILE_FAILURE, message="too few registers")
        return super().compile(module)


def has_zeros(program: Program) -> bool:
    """It copies a D."""
    return any(buffer.name == "zeros" for buffer in program.buffers)


@pytest.mark.parametrize(("refused", "limit", "named"), [
    (lambda one: bool(one.registers) and has_zeros(one), 64, SAME_OF_D),
    (has_zeros, 64, None),
    (has_zeros, 0, None),
])  # fmt: skip
def test_what_is_not_compiled_has_nothing_named_that_would_be_asked_behind_it(
    refused: Callable[[Program], bool], limit: int, named: str | None
) -> None:
    wrong = replace(FORGOTTEN, registers=limit)
    module, image = emitted(wrong)
    device = ExperimentDevice(Refusing(takes_d_for_unchanged, refused), module)
    found = wrong_multiplication(device, wrong, image)
    assert (found and found.condition) == named


class Limited(Defective):
    """Gets wrong only what has a limit of registers."""

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran:
        program = compiled.module.programs[compiled.module.kernel(entry).entry]
        return (super() if program.registers else Defective(lambda _: False)).run(
            compiled, images, entry=entry
        )


def test_what_is_right_without_a_limit_of_registers_is_named_by_that() -> None:
    wrong = replace(CHANGED, registers=64)  # registers of its own for A cure it as well
    module, image = emitted(wrong)
    device = ExperimentDevice(Limited(takes_a_for_unchanged), module)
    found = wrong_multiplication(device, wrong, image)
    assert found is not None
    assert found.condition == LIMITED


def test_what_fails_is_named_by_what_it_runs_to_its_end_without() -> None:
    module, image = emitted(UNREAD)
    runner = Failing(reuses_an_unread_d, Trouble.LAUNCH_FAILURE)
    found = culprit_of(ExperimentDevice(runner, module, copies=2), UNREAD, image)
    assert found is not None
    assert key_of(found) == "wgmma.mma_async/in flight with a d that nothing reads"


def leaves_lanes_apart(steps: list[Step]) -> bool:
    """Some lanes enter a loop within its body."""
    code = (one for step in steps if is_lane_code(step) for one in step.code)
    return any(isinstance(one, Repeat) and bool(one.entry) for one in code)


def turns(*leaving: Leave) -> LaneCode:
    loop = Repeat(
        count=2, counter="r9", entry="p0", skipped=1,
        body=(Assign(opcode="add.u32", destinations=("r8",), sources=("r8", 1)), *leaving),
    )  # fmt: skip
    asked = Assign(opcode="setp.eq.u32", destinations=("p0",), sources=("r0", 1))
    begun = Assign(opcode="add.u32", destinations=("r8",), sources=("r0", 1))
    return LaneCode(
        source="y", count=4, destination="y", results=("r8",) * 4, code=(asked, begun, loop)
    )


ONE_WARP = Program(
    buffers=tuple(Buffer(name=name, space="global", size=512) for name in "go"),
    steps=(
        plain_load(registers="y", count=4, place=Place(buffer="g")), turns(),
        plain_store(registers="y", count=4, place=Place(buffer="o")),
    ),
)  # fmt: skip


@pytest.mark.parametrize(("defect", "hanging", "named", "most"), [
    (leaves_lanes_apart, program(turns(), FENCE, product()),
     "a loop of lanes entered within its body", 1),
    (leaves_lanes_apart, program(turns(Leave(predicate="p0")), FENCE, product()),
     "a loop of lanes entered within its body", 1),
    (leaves_lanes_apart, ONE_WARP, "a loop of lanes entered within its body", 0),
    (reuses_an_unread_d, UNREAD, "wgmma.mma_async/in flight with a d that nothing reads", 0),
    (forgets_a_wait, TWINS, "wgmma.mma_async/in flight beside other steps", 1),
    (multiplies_wrong, READS, None, 1),
])  # fmt: skip
def test_what_hangs_is_named_by_what_it_ends_without(
    defect: Callable[[list[Step]], bool], hanging: Program, named: str | None, most: int
) -> None:
    module, image = emitted(hanging)
    runner = Failing(defect, Trouble.HANG)
    found = what_hangs(ExperimentDevice(runner, module), hanging, image)
    assert (found and key_of(found)) == named
    assert runner.failed == most


class Racing(Defective):
    """A third of the copies of an image, in each launch others, is wrong."""

    def __init__(self, defect: Callable[[list[Step]], bool]) -> None:
        super().__init__(defect)
        self.random = np.random.default_rng(1)

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran:
        ran = super().run(compiled, images, entry=entry)
        program = compiled.module.programs[compiled.module.kernel(entry).entry]
        right = execute(program, images, target="sm_90a").images
        late = self.random.random(len(images)) < 1 / 3
        return replace(ran, images=np.where(late[:, None], ran.images, right))


def test_what_is_wrong_in_a_third_of_its_copies_is_made_as_small_as_what_always_is() -> None:
    begin = program(READ, TWINS.steps[8], COMMIT, WAIT, READ)
    module, image = emitted(begin)
    left = []
    for runner, copies in ((Defective(overwrites_a), 1), (Racing(overwrites_a), 64)):
        subject = Subject(module=module, program=begin, image=image, copies=copies)
        shrunk = shrink(subject, verdicts_by(runner), wanted=Kind.DEVIATION, seconds=120)
        assert shrunk.status is ShrinkStatus.COMPLETE
        left.append(shrunk.subject)
    alone, racing = left
    assert alone.program == racing.program
    kernel = smallest_kernel(Racing(overwrites_a), racing, Kind.DEVIATION, seconds=2)
    assert kernel is not None
    whole = emit_single(racing.program, module=module.header).ptx
    assert len(kernel.splitlines()) < len(whole.splitlines())
    # Each block has an image of its own.
    assert "%ctaid.x" in kernel


def test_code_that_reads_the_end_of_a_wide_d_reads_of_a_narrow_one() -> None:
    wide = form_of(FORM.opcode.replace("n8", "n64"))
    begin = program(
        FENCE, replace(product(d="w"), form=wide, scale_d=0), COMMIT, WAIT,
        code("y", "w.28 w.29 w.30 w.1", "xor.b32", 257),
    )  # fmt: skip
    image = np.zeros(begin.image_bytes, np.uint8)
    (first, *_) = narrower(Example(program=begin, image=image))
    assert undefined(first.program, target="sm_90a") == undefined(begin, target="sm_90a")
    (only,) = (one for one in flat(first.program.steps) if isinstance(one, AsyncProduct))
    assert only.form == FORM
    assert "w.0 w.1 w.2 w.1" in {use.name for one in first.program.steps for use in one.reads}


@pytest.mark.parametrize("program", [ALONE, ALONE_LATER, READS])
def test_what_one_warp_does_by_itself_is_what_it_does_among_four(program: Program) -> None:
    image = np.random.default_rng(1).integers(0, 64, program.image_bytes, np.uint8)
    (whole,) = execute(program, image[None], target="sm_90a").images
    seen = 0
    for one in of_one_warp(Example(program=program, image=image), target="sm_90a"):
        (came,) = execute(one.program, one.image[None], target="sm_90a").images
        for span in (span for step in walk(one.program.steps) for span in step.bytes_written):
            here, there = (own.offset(span.buffer) + span.offsets for own in (one.program, program))
            assert np.array_equal(came[here], whole[there])
            seen += 1
    assert seen == {ALONE: 9, ALONE_LATER: 10, READS: 8}[program]


@pytest.mark.parametrize("wrong", [TWINS, READS])
def test_of_what_is_right_nothing_is_said(wrong: Program) -> None:
    module = emit(wrong, module=Module.named("sm_90a", "8.0"))
    image = np.zeros(wrong.image_bytes, np.uint8)
    runner = Defective(lambda steps: False)
    assert culprit_of(ExperimentDevice(runner, module), wrong, image) is None


def test_wrong_code_is_not_named_after_a_product_where_builds_are_compared() -> None:
    module, image = emitted(ALONE)
    expected = execute(ALONE, image[None], target="sm_90a").images
    actual = expected.copy()
    actual[:, ALONE.offset("ow")] ^= 1
    kind, code_of_lanes = Kind.VIOLATION, Culprit(instructions=(CODE,))
    evidence = Evidence(
        kind=kind, bucket=Bucket.of(kind, "wgmma.mma_async m64n8k16 f32 f16 f16"),
        subject=Subject(module=module, program=ALONE, image=image, copies=1),
        attempts=[Attempt(kind=kind, actual=actual, expected=expected[0], failed=1)],
    )  # fmt: skip
    named = named_after(evidence, code_of_lanes, builds="")
    assert named.bucket.identity.instructions == ("scalar code that ends in xor",)
    assert not named.culprit
    assert named_after(evidence, code_of_lanes) is evidence
    assert named_after(evidence, None, builds="") is evidence
