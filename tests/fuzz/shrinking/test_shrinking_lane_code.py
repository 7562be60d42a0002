"""Code of lanes on a compiler that gets one instruction wrong: made small, and named after it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from corpus import Kind
from fuzz.diagnosis.culprit import culprit_of, in_company
from fuzz.diagnosis.experiments import ExperimentDevice, key_of
from fuzz.findings.families import look_of
from fuzz.findings.verdicts import Subject, attempt
from fuzz.shrinking import shrink, verdicts_by
from oracle.execution.execution import execute
from oracle.isa.lookup import FORMS
from oracle.isa.targets import Module
from oracle.program.lane_code import Assign, If, LaneCode, Leave, Repeat, Statement, every
from oracle.program.operands import Place
from oracle.program.program import Program, walk
from oracle.program.steps import product_of
from runners.emission import emit
from runners.kernels import KernelModule
from runners.protocol import Compiled, Failure, ForwardingRunner, Ran
from runners.simulated_runner import SimulatedRunner
from strategies.draws import draw_one
from strategies.features import OF_SCALAR, Focus, Has, main_form
from strategies.matrices import buffers_of, plain_access
from strategies.programs import programs
from strategies.simplification.examples import Example, alone, smaller_code
from strategies.simplification.steps import dropped

MODULE = Module.named("sm_90", "8.0")
ALONE, TESTP, SET = (
    programs(Focus(features=frozenset({Has.LANES_ALONE, *also})), module=MODULE, forms=FORMS)
    for also in ((), (OF_SCALAR["testp"],), (OF_SCALAR["set"],))
)
BEFORE = programs(Focus(features=frozenset({Has.LANES_BEFORE})), module=MODULE, forms=FORMS)
ROWS = programs(Focus(features=frozenset({Has.ROWS_COMPUTED})), module=MODULE, forms=FORMS)


class Rewriting(ForwardingRunner):
    """A compiler that takes a pattern in the text for something else."""

    def __init__(self, pattern: str, other: str) -> None:
        super().__init__(SimulatedRunner())
        self.pattern, self.other = re.compile(pattern), other

    def compile(self, module: KernelModule) -> Compiled | Failure:
        return super().compile(replace(module, ptx=self.pattern.sub(self.other, module.ptx)))


@cache
def drawn(strategy: object, key: int) -> tuple[Program, KernelModule]:
    program = draw_one(strategy, key)  # type: ignore[arg-type]
    return program, emit(program, module=MODULE)


def wrong(runner: Rewriting, strategy: object, keys: range) -> Iterator[Subject]:
    for key in keys:
        program, module = drawn(strategy, key)
        if not runner.pattern.search(module.ptx):
            continue
        images = np.random.default_rng(key).integers(0, 256, (8, program.image_bytes), np.uint8)
        code = runner.compile(module)
        assert isinstance(code, Compiled)
        ran = runner.run(code, images)
        assert isinstance(ran, Ran)
        differs = (ran.images != execute(program, images).images).any(axis=1)
        if differs.any():
            one = Subject(module=module, program=program, image=images[differs.argmax()], copies=1)
            # What rounds otherwise behind a multiplication of floats may be a deviation.
            if attempt(runner, one).kind is Kind.VIOLATION:
                yield one


def key_named(runner: Rewriting, program: Program, image: np.ndarray) -> str:
    """What is named of a program."""
    device = ExperimentDevice(runner, emit(program, module=MODULE))
    culprit = culprit_of(device, program, image)
    assert culprit is not None
    return key_of(culprit)


@pytest.mark.parametrize(
    ("pattern", "other", "name", "strategy"),
    [
        (r"shf\.r\.wrap\.b32", "shf.r.clamp.b32", "shf.r.wrap.b32", ALONE),
        (r"@!(%p\d+) (?!bra)", r"@\1 ", "a predicate", ALONE),
        # Every ptxas from 12.4 to 13.5 loses a predicate before testp; one name for all of them.
        (r"@!?%p\d+ testp\.", "testp.", "testp/under a predicate", TESTP),
        # Of set with f32 they keep it for a part of what it becomes.
        (r"@!?%p\d+ (set\.\S+\.f32\.)", r"\1", "set.*.f32.*/under a predicate", SET),
        # Loops that count down take one turn more.
        (r"setp\.le\.s32 (%\w+, %\w+, 0;)", r"setp.lt.s32 \1", "a loop of lanes", ALONE),
        (r"brev\.b32", "not.b32", "brev.b32", ROWS),
    ],
)
def test_a_wrong_instruction_is_left_with_little_around_it(
    pattern: str, other: str, name: str, strategy: object
) -> None:
    runner = Rewriting(pattern, other)
    subject = next(wrong(runner, strategy, range(10_000)))
    small = shrink(subject, verdicts_by(runner), wanted=Kind.VIOLATION, seconds=300).subject
    steps = [*walk(small.program.steps)]
    code = [one for step in steps if isinstance(step, LaneCode) for one in every(step.code)]
    # Rows are copied to shared memory first, with a barrier.
    assert len(steps) <= (4 if strategy is ROWS else 3)
    assert len(code) <= 8
    device = ExperimentDevice(runner, small.module)
    culprit = culprit_of(device, small.program, small.image)
    assert culprit is not None
    assert key_of(culprit) == name


@pytest.mark.parametrize(
    ("pattern", "other", "strategy"),
    [(r"\bor\.b32", "xor.b32", BEFORE), (r"brev\.b32", "not.b32", ROWS)],
)
def test_no_instruction_is_accused_of_what_comes_from_code_of_lanes(
    pattern: str, other: str, strategy: object
) -> None:
    """In a campaign on an H200 testp had lines of mma.sp, as long as none was examined."""
    runner = Rewriting(pattern, other)
    subject = next(wrong(runner, strategy, range(1000)))
    shown = attempt(runner, subject)
    assert shown.actual is not None
    assert shown.expected is not None
    name, _ = look_of(
        subject.program, subject.image[None], shown.actual, expected=shown.expected[None],
        target="sm_90", form=main_form(subject.program),
    )  # fmt: skip
    assert "scalar code" in name


def _assign(opcode: str, destination: str, *sources: str | int, guard: str = "") -> Assign:
    return Assign(opcode=opcode, destinations=(destination,), sources=sources, guard=guard)


SHIFT = (
    _assign("mov.b64.pack", "d0", "r7", "r6"),
    _assign("add.rn.sat.f32", "r8", "r0", "r7"),
    _assign("shl.b64", "d1", "d0", "r8"),
    Assign(opcode="mov.b64.unpack", destinations=("r1", "r2"), sources=("d1",)),
)
SIGNED = (
    _assign("add.rn.sat.f32", "r8", "r0", "r7"),
    _assign("abs.bf16x2", "r1", "r8"),
    _assign("max.NaN.bf16x2", "r1", "r1", "r1"),
)
DEAD = (
    _assign("setp.lt.ftz.f32", "p0", "r0", "r7"),
    If(predicate="p0", then=(_assign("mul.hi.s32", "r1", "r6", "r7", guard="!p0"),)),
)
LEFT = (
    _assign("setp.lt.f32", "p0", "r0", "r7"),
    Repeat(
        count=1, counter="r9",
        body=(
            Leave(predicate="p0"),
            Repeat(
                count=2, counter="r10", entry="!p0", skipped=0,
                body=(
                    If(predicate="p0", then=(_assign("add.s32", "r1", "r1", 5),)),
                    _assign("not.pred", "p0", "p0"),
                ),
            ),
        ),
    ),
)  # fmt: skip
TOLD = (
    _assign("setp.ne.s32", "p0", 8, "r1"),
    If(predicate="!p0", then=(_assign("add.rn.f16x2", "r1", "r1", "r2"),)),
)


COMPARED, THREE, FIVE, MIXED = (
    _assign("setp.lt.u32", "p0", "r0", 20),
    _assign("mov.b32", "r1", 3),
    _assign("add.s32", "r1", "r1", 5),
    _assign("xor.b32", "r1", "r1", "r0"),
)
WITHIN = Repeat(count=1, counter="r2", down=True, entry="p0", skipped=1, body=(FIVE, MIXED))
AROUND = Repeat(count=2, counter="r2", down=True, body=(replace(WITHIN, counter="r3", down=False),))
ANEW = (
    COMPARED,
    If(predicate="p0", then=(
        Repeat(count=2, counter="r9", body=(
            _assign("selp.s32", "r1", 5, "r0", "p0"), _assign("setp.ge.u32", "p0", "r0", 20),
        )),
    )),
)  # fmt: skip
SHIFTED = (
    _assign("shr.u64", "d1", "d0", 0),
    _assign("shr.u64", "d3", "d1", 29),
    _assign("shl.b64", "d2", "d1", 35),
    _assign("sub.s64", "d1", "d2", "d3"),
)


@pytest.mark.parametrize(
    ("pattern", "other", "code", "name"),
    [
        # Every ptxas takes an amount that an instruction of f32 made for a number: F2I.U64.
        (
            r"((?:add|sub|mul|min|max)\S*f32 (%r\d+), [^;]+;\s+sh[lr]\.[bsu]64 \S+ \S+ )\2;",
            r"\1 0;",
            SHIFT,
            "add.rn.sat.f32 and shl.b64",
        ),
        # Every ptxas leaves out abs of what .sat has made, though the lower half may have a sign.
        (
            r"((?:add|sub|mul|min|max)\S*\.sat\.f32 (%r\d+), [^;]+;\s+)abs\.(?:b?f16x2) (\S+,) \2;",
            r"\1mov.b32 \3 \2;",
            SIGNED,
            "add.rn.sat.f32 and abs.bf16x2",
        ),
        # ptxas asks a second time, and without .ftz, where a branch has asked before.
        (
            r"(setp\.\w+\.ftz\.f32 (%p\d+), [^;]+;\s+@!\2 bra \w+;(?:\s+[^@\s][^;]*;)*\s+)@!\2 ",
            r"\1",
            DEAD,
            "setp.*.ftz.f32/under a predicate, in a branch of lanes",
        ),
        # ptxas merges a lop3 of three times the same constant and what is done with its result.
        (
            r"(lop3\.b32 (%r\d+), 0x1, 0x1, 0x1, 0x79;\s+)xor\.b32 (%r\d+), \2, 0x1;",
            r"\1mov.b32 \3, 0xfffffffe;",
            (_assign("lop3.b32", "r8", 1, 1, 1, 0x79), _assign("xor.b32", "r1", "r8", 1)),
            "lop3.b32 and xor.b32/with constants",
        ),
        # ptxas up to 13.1 takes a predicate with which lanes leave a loop for what it was before.
        (
            r"(?s)(@(%p\d+) bra LEFT_\d+;\s.*TURN_\d+:.*)not\.pred \2, \2;",
            r"\1",
            LEFT,
            "not.pred/in a branch of lanes, in a loop of lanes that lanes leave "
            "entered within its body",
        ),
        # ptxas up to 13.1 takes what a branch asked for what its predicate is in a loop.
        (
            r"(@!(%p\d+) bra JOIN_\d+;[^{}]*TURN_\d+:[^{}]*)selp\.s32 (%r\d+), 0x5, %r\d+, \2;",
            r"\1mov.b32 \3, 0x5;",
            (*ANEW[:1], _assign("mov.b32", "r1", "r0"), *ANEW[1:]),
            "a branch of lanes on a predicate that a loop in it sets anew",
        ),
        # ptxas up to 13.3 takes the lower half of a constant that a branch tells for both.
        (
            r"(setp\.ne\.s32 (%p\d+), 0x8, (%r\d+);\s+@\2 bra \w+;\s+)"
            r"(add\.rn\.f16x2 %r\d+, )\3,",
            r"\1add.u32 \3, \3, 0x80000; \4\3,",
            TOLD,
            "add.rn.f16x2 and setp.*.s32/in a branch of lanes, with constants",
        ),
        # In any order, and with a copy before it.
        (
            r"(shr\.u64 (%\w+), (%\w+), 0x1d;\s+shl\.b64 (%\w+), \3, 0x23;\s+)"
            r"sub\.s64 (%\w+), \4, \2;",
            r"\1or.b64 \5, \4, \2;",
            SHIFTED,
            "shl.b64 and shr.u64 and sub.s64/with constants",
        ),
        # Every ptxas from 11.8 to 13.5 counts turns for the whole warp, which is apart by then.
        (
            r"(?s)(mov\.b32 (%r\d+), 0x2;\s[^{}]*bra ENTRY_\d+;.*LEFT_1:\s)",
            r"\1 sub.s32 \2, \2, 1;",
            (COMPARED, THREE, AROUND, _assign("add.s32", "r1", "r1", "r2")),
            "setp.*.u32/in a loop of lanes entered within its body, with constants",
        ),
        # Every ptxas to 13.4 fills with the sign from a position above 31 that a mov has brought.
        (
            r"(mov\.b32 (%r\d+), 0x28;\s+bfe\.s32 (%r\d+), %r\d+, )\2, ",
            r"\1 0, ",
            (_assign("mov.b32", "r8", 40), _assign("bfe.s32", "r1", "r1", "r8", 1)),
            "bfe.s32/with constants",
        ),
    ],
)
def test_what_is_wrong_together_only_is_named(
    pattern: str, other: str, code: tuple[Statement, ...], name: str
) -> None:
    inputs = np.random.default_rng(1).integers(1, 50, (32, 8), np.uint32)
    inputs[:, [0, 7]] = (inputs[:, [0, 7]] / 100).astype(np.float32).view(np.uint32)
    inputs[::4, 0], inputs[::4, 7] = 1, 2  # subnormal
    inputs[::5, 1] = 8
    count, bits, results = 8, 32, ("r1",) * 8
    if code is SHIFTED:
        count, bits, results = 1, 64, ("d1",)
        inputs = np.full((32, 2), 0xFFFF_FFFF, np.uint32)
    elif COMPARED in code:
        count, results, inputs = 1, ("r1",), np.arange(32, dtype=np.uint32)[:, None]
    step = LaneCode(source="x", count=count, bits=bits, destination="y", results=results, code=code)
    example = alone(step, inputs)
    assert key_named(Rewriting(pattern, other), example.program, example.image) == name


def test_what_is_right_by_chance_in_other_stores_is_named() -> None:
    """ptxas moves a set to f16 to most stores with the upper half of what nothing wrote."""
    runner = Rewriting(
        r"(?s)(set\.\w+\.f16\.f16 (%h\d+), [^;]+;\s+)cvt\.u32\.u16 (%r\d+), \2;"
        r"(?=\s+(?:add\.s32 %r\d+, \3, |mov\.b32 %there_0, \3;[^@]*st\.global\.v2\.))",
        r"\1 mov.b32 \3, {\2, \2};",
    )
    code = _assign("set.num.f16.f16", "h3", 0, 0), _assign("cvt.u32.u16", "r9", "h3")
    step = LaneCode(source="", count=0, destination="there", results=("r9", "r9"), code=code)
    store = plain_access(step.writes, Place(buffer="out"), store=True)
    program = Program(buffers=buffers_of([store]), steps=(step, store))
    image = np.zeros(program.image_bytes, np.uint8)
    assert key_named(runner, program, image) == "set.*.f16.f16"


TOGETHER = (
    _assign("not.b32", "r20", "r3"),
    _assign("prmt.b32", "r21", "r20", "r4", 0x1234),
    _assign("max.u32", "r22", "r21", 14),
    _assign("and.b32", "r23", "r22", "r5"),
)


@pytest.mark.parametrize("branches", [False, True])
def test_what_is_wrong_together_is_named_in_long_code_that_is_not_made_smaller(
    branches: bool,
) -> None:
    """Of less that is left less may be named, but there it is made smaller at once."""
    runner = Rewriting(
        r"(prmt\.b32 (%r\d+), .*;\s+max\.u32 (%r\d+), \2, .*;)", r"\1\n xor.b32 \3, \3, 1;"
    )
    around = [
        tuple(_assign("add.s32", f"r{number}", f"r{number - 1}", number) for number in part)
        for part in (range(30, 50), range(51, 70))
    ]
    last = _assign("sub.s32", "r70", "r69", "r23")
    code: tuple[Statement, ...] = TOGETHER
    if branches:
        code = (_assign("setp.lt.u32", "p0", "r1", 9), If(predicate="p0", then=TOGETHER[:1]), *code)
    code = (
        _assign("mov.b32", "r20", 7),
        _assign("mov.b32", "r29", "r2"),
        *around[0],
        *code,
        _assign("xor.b32", "r50", "r49", "r23"),
        *around[1],
        last,
    )
    inputs = np.random.default_rng(1).integers(0, 1 << 32, (32, 8), np.uint32)
    step = LaneCode(
        source="x", count=8, destination="y", results=("r69", "r30", "r70", "r6"), code=code
    )
    example = alone(step, inputs)
    device = ExperimentDevice(runner, emit(example.program, module=MODULE))
    culprit = culprit_of(device, example.program, example.image)
    assert culprit is not None
    assert culprit.witness is not None
    assert key_of(culprit) == "prmt.b32 and max.u32"
    assert in_company(culprit)
    left = [one for one in walk(culprit.witness.program.steps) if isinstance(one, LaneCode)]
    assert sum(1 for one in left for _ in every(one.code)) < 10


def test_statements_that_need_each_other_alone_are_not_needed() -> None:
    """Registers that are written again and again kept each other in the code."""
    code = (
        _assign("or.b32", "r2", "r1", "r0"),
        _assign("xor.b32", "r3", "r2", "r2"),
        _assign("and.b32", "r2", "r3", "r1"),
        _assign("add.s32", "r3", "r2", 1, guard=""),
        _assign("not.b32", "r4", "r0"),
        _assign("mov.b32", "r3", "r4"),
    )
    step = LaneCode(source="x", count=2, destination="y", results=("r3",), code=code)
    assert step.needed == code[4:]
    assert replace(step, results=("r2",)).needed == code[:3]


def test_a_product_of_which_two_operands_are_one_vector_can_be_left_out() -> None:
    """What reads its result reads what it would have added to, in every place."""
    opcode = "mma.sp.sync.aligned.m16n8k64.row.col.f32.e4m3.e5m2.f32"
    (form,) = (one for one in FORMS if one.opcode == opcode)
    one = product_of(form)
    first = one.changed(b="c", d="made")
    second = one.changed(b="made", c="made", d="out")
    reads = {use.name: use for use in first.reads}.values()
    loads = [plain_access(use, Place(buffer=use.name)) for use in reads]
    (out,) = (use for use in second.uses if use.written)
    steps = (*loads, first, second, plain_access(out, Place(buffer="out"), store=True))
    program = Program(buffers=buffers_of((*loads, steps[-1])), steps=steps)
    example = Example(program=program, image=np.zeros(program.image_bytes, np.uint8))
    left = [each.program.steps for each in dropped(example, [((len(loads),), first)])]
    assert any(second.changed(b="c", c="c") in kept and first not in kept for kept in left)


def test_a_product_that_is_right_with_the_same_multiplicands_loaded_is_named_with_the_code() -> (
    None
):
    """ptxas unpacks multiplicands of fp8 wrongly that it has found out to be constants."""
    runner = Rewriting(r"(?s)(= scalar code.*?mma\.sync\.\S+ \{)(%\w+), (%\w+)", r"\1\3, \2")
    subject = next(wrong(runner, BEFORE, range(1000)))
    culprit = culprit_of(ExperimentDevice(runner, subject.module), subject.program, subject.image)
    assert culprit is not None
    assert re.fullmatch(r"mma\.sync of .*/multiplicands that scalar code computes", key_of(culprit))
    assert in_company(culprit)


def test_an_empty_branch_is_left_out_and_not_turned_round() -> None:
    empty = If(predicate="p0", then=(), otherwise=())
    made = Assign(opcode="setp.ne.u32", destinations=("p0",), sources=("r0", 0))
    result = Assign(opcode="not.b32", destinations=("r1",), sources=("r0",))
    step = LaneCode(
        source="x", count=1, destination="y", results=("r1",), code=(made, empty, result)
    )
    inputs = np.zeros((32, 1), np.uint32)
    branches = [
        one
        for example in smaller_code(alone(step, inputs))
        for code in walk(example.program.steps)
        if isinstance(code, LaneCode)
        for one in every(code.code)
        if isinstance(one, If)
    ]
    assert {*branches} <= {empty}
