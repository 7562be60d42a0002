"""The kernel of a finding: as little text as shows it, and right where nothing is wrong."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from corpus import Kind, ShrinkStatus
from fuzz.findings.verdicts import Subject, attempt, smallest_kernel
from fuzz.reducer import (
    Reducer,
    _backward,
    _folded,
    _forwarded,
    _unread,
    pieces_of,
    reads_unwritten,
)
from oracle.isa.targets import Module
from oracle.program.lane_code import Assign, LaneCode
from runners.emission import emit, emit_single
from runners.foreign import RewritingRunner
from runners.protocol import Compiled, Failure, Ran
from runners.simulated_runner import SimulatedRunner
from strategies.contents import expand
from strategies.draws import draw_one
from strategies.rounds import filled_programs
from strategies.simplification.examples import alone

MODULE = Module.named("sm_90", "8.0")
SIMULATED = SimulatedRunner("sm_90")
CODE = LaneCode(
    source="x", count=2, destination="y", results=("r4",),
    code=(
        Assign(opcode="shl.b32", destinations=("r2",), sources=("r0", 0)),
        Assign(opcode="brev.b32", destinations=("r3",), sources=("r2",)),
        Assign(opcode="add.s32", destinations=("r4",), sources=("r3", 7)),
    ),
)  # fmt: skip


def subject() -> Subject:
    example = alone(CODE, np.arange(64, dtype=np.uint32).reshape(32, 2))
    module = emit(example.program, module=MODULE)
    return Subject(module=module, program=example.program, image=example.image)


def wrong(*changes: tuple[str, str]) -> RewritingRunner:
    def rewrite(ptx: str) -> str:
        for pattern, other in changes:
            ptx = re.sub(pattern, other, ptx)
        return ptx

    return RewritingRunner(SimulatedRunner("sm_90"), [rewrite])


def test_what_only_the_program_needs_is_left_out() -> None:
    one = subject()
    kernel = smallest_kernel(wrong((r"brev\.b32", "not.b32")), one, Kind.VIOLATION, seconds=60)
    assert kernel is not None
    whole = emit_single(one.program, module=MODULE)
    assert len(kernel.splitlines()) < len(whole.ptx.splitlines())
    assert "brev.b32" in kernel
    assert "shl.b32" not in kernel, "of 0 bits"
    # It still computes what the program does: nothing but the build is wrong.
    shown = replace(one, module=replace(whole, ptx=kernel))
    assert attempt(SimulatedRunner("sm_90"), shown).kind is None
    assert attempt(wrong((r"brev\.b32", "not.b32")), shown).kind is Kind.VIOLATION
    inside = kernel[kernel.index("{") + 2 : kernel.rindex("}")]
    assert all(line.startswith("    ") for line in inside.splitlines())


@pytest.mark.parametrize("key", [0, 1, 2])
def test_moves_go_all_at_once_and_leave_what_is_computed(key: int) -> None:
    (program, recipe), runner = draw_one(filled_programs("movmatrix*", MODULE), key), SIMULATED
    images, whole = expand(recipe, program, 2), emit_single(program, module=MODULE)

    def after(ptx: str) -> Ran | Failure:
        compiled = runner.compile(replace(whole, ptx=ptx))
        return runner.run(compiled, images) if isinstance(compiled, Compiled) else compiled

    before = after(whole.ptx)
    assert isinstance(before, Ran)

    def holds(ptx: str) -> bool:
        came = after(ptx)
        return isinstance(came, Ran) and np.array_equal(came.images, before.images)

    reducer = Reducer(holds, whole.ptx, end=math.inf)
    reducer.told = lambda _, tries: setattr(reducer, "end", math.inf if tries < 2 else 0)
    assert reducer.reduce() is ShrinkStatus.CAPPED
    move = re.compile(r"(?:mov\.b\d+|cvta\.to\.global\.u64) %\w+, %\w+;")
    moves = [len(move.findall(ptx)) for ptx in (whole.ptx, reducer.text)]
    assert moves[1] < moves[0]


def test_moves_go_but_for_the_one_without_which_nothing_shows() -> None:
    moves = "".join(
        f"mov.b32 %a{at}, %x{at};\nst.global.b32 [%rd{at}], %a{at};\n" for at in range(8)
    )
    loads = "".join(f"ld.global.b32 %x{at}, [%rd{at}];\n" for at in range(8))
    reducer = Reducer(lambda ptx: "mov.b32 %a5, %x5;" in ptx, loads + moves, end=math.inf)
    reducer._by_halves(_forwarded)
    assert [words for words in reducer.text.splitlines() if "mov" in words] == ["mov.b32 %a5, %x5;"]
    assert reducer.text.count("st.global") == 8


@pytest.mark.parametrize(
    ("between", "lines"),
    [("", 1), ("mov.b32 %x0, 7;\n", 2), ("ld.global.b32 %a0, [%rd0];\n", 2)],
)
def test_what_equal_lines_compute_is_computed_once(between: str, lines: int) -> None:
    text = (
        "ld.global.b32 %x0, [%rd0];\n"
        f"add.u32 %a0, %x0, 3;\nmul.lo.u32 %b0, %a0, %a0;\n{between}"
        "add.u32 %a1, %x0, 3;\nmul.lo.u32 %b1, %a1, %a1;\n"
        "st.global.v2.b32 [%rd0], {%b0, %b1};\n"
    )
    reducer = Reducer(lambda ptx: True, text, end=math.inf)
    reducer._by_halves(_forwarded)
    assert reducer.text.count("add.u32") == reducer.text.count("mul.lo") == lines
    assert ("{%b0, %b0}" in reducer.text) == (lines == 1)


def test_what_is_moved_into_a_register_of_a_loop_is_computed_there() -> None:
    text = (
        "mov.b32 %y0, 0;\nLOOP:\nadd.u32 %r0, %y0, %x0;\nadd.u32 %r1, %x0, 1;\n"
        "mov.b32 %y0, %r0;\nmov.b32 %x0, %r1;\n@%p0 bra LOOP;\nst.global.b32 [%rd0], %y0;\n"
    )
    whole = pieces_of(text)
    made = _backward(whole, range(len(whole)))
    assert ("add.u32 %y0, %y0, %x0;", True) in made
    # The other register is written in one place, and `_forwarded` is for such.
    assert [words for words, _ in made if "mov" in words] == [
        "mov.b32 %y0, 0;",
        "mov.b32 %x0, %r1;",
    ]


def test_what_nothing_reads_goes_with_all_that_was_computed_for_it() -> None:
    text = (
        "ld.global.b32 %x0, [%rd0];\nLOOP:\nadd.u32 %x1, %x0, 1;\nadd.u32 %x2, %x1, %x2;\n"
        "setp.eq.u32 %p0, %x0, 0;\n@%p0 bra LOOP;\nbar.sync 0;\n"
    )
    left = [words for words, _ in _unread(pieces_of(text), range(7)) if words]
    assert left == [words for words in text.splitlines() if not words.startswith("add")]
    assert len(_unread(pieces_of(text), [0])) == 7, "it is read"


def test_of_several_sums_and_moves_those_go_that_are_named_where_they_can_stand() -> None:
    text = (
        "add.s64 %rd1, %rd0, 16;\nadd.s64 %rd2, %rd0, 32;\nmov.b32 %x0, 7;\n"
        "ld.global.b32 %x1, [%rd1];\nadd.s64 %rd3, %rd2, %rd1;\nst.global.b32 [%rd2], %x0;\n"
        "add.s64 %rd4, %rd0, 8;\nst.global.b32 [%rd4], %x1;\n"
    )
    whole = pieces_of(text)
    left = [words for words, _ in _folded(whole, range(len(whole))) if words]
    assert left == [
        *text.splitlines()[:2], *text.splitlines()[3:5],
        "st.global.b32 [%rd2], 7;", "st.global.b32 [%rd0+8], %x1;",
    ]  # fmt: skip
    assert "st.global.b32 [%rd0+32], %x0;" in (words for words, _ in _folded(whole, [1]))


def _unrolled_when_small(ptx: str) -> bool:
    """Whether a compiler that unrolls loops of less than three sums is wrong about one."""
    return "@%p0 bra LOOP;" in ptx and ("nounroll" in ptx or ptx.count("add") > 2)


@pytest.mark.parametrize(
    ("holds", "left"),
    [
        (_unrolled_when_small, ['.pragma "nounroll";', "@%p0 bra LOOP;"]),
        (lambda ptx: "@%p0 bra LOOP;" in ptx and "nounroll" not in ptx, ["@%p0 bra LOOP;"]),
        (lambda ptx: "@%p0 bra LOOP;" in ptx, ["@%p0 bra LOOP;"]),
    ],
)
def test_a_loop_is_kept_from_being_unrolled_where_that_lets_lines_go(
    holds: Callable[[str], bool], left: list[str]
) -> None:
    sums = "".join(f"add.u32 %a{at}, %x0, {at};\n" for at in range(4))
    reducer = Reducer(holds, f"LOOP:\n{sums}@%p0 bra LOOP;\nEND:\nret;\n", end=math.inf)
    assert reducer.reduce() is ShrinkStatus.COMPLETE
    assert [words for words in reducer.text.splitlines() if words in left] == left
    assert "add" not in reducer.text or holds is not _unrolled_when_small


def test_without_time_it_is_the_kernel_of_the_program() -> None:
    one = subject()
    kernel = smallest_kernel(wrong((r"brev\.b32", "not.b32")), one, Kind.VIOLATION, seconds=0)
    assert kernel == emit_single(one.program, module=MODULE).ptx


def test_what_the_frame_is_needed_for_has_none() -> None:
    """A compiler that is wrong only where multiprocessors are recorded."""
    runner = wrong((r"(?s)(%smid.*)brev\.b32", r"\1not.b32"))
    assert attempt(runner, subject()).kind is Kind.VIOLATION
    assert smallest_kernel(runner, subject(), Kind.VIOLATION) is None


@pytest.mark.parametrize(
    ("line", "open_"),
    [
        ("mov.b32 %r0, %r9;", True),
        ("@%p0 mov.b32 %r0, 1;", True),
        ("st.global.b32 [%rd0], %r9;", True),
        ("mov.u32 %r0, %tid.x;", False),
        ("mov.b32 {%h0, %h1}, %r0;", False),
        ("ld.global.v2.b32 {%r3, %r4}, [%rd0];", False),
        ("add.s32 %r9, %r0, 1; mov.b32 %r1, %r9;", False),
    ],
)
def test_a_register_that_nothing_writes_leaves_a_kernel_open(line: str, open_: bool) -> None:
    ptx = (
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry kernel(.param .u64 image) {"
        ".reg .b32 %r<22>; .reg .b64 %rd<2>; .reg .pred %p<2>; .reg .b16 %h<2>;"
        f"ld.param.u64 %rd0, [image]; ld.global.b32 %r0, [%rd0]; {line} ret; }}"
    )
    assert reads_unwritten(ptx) is open_
