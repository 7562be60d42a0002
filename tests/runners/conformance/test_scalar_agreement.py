"""The oracle's rows of scalar instructions, as runners execute them and assemblers take them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from scalar_kernels import LETTERS, Answer, answers, cases, compared

from oracle.scalar import SCALARS, ScalarInstruction
from runners.compilers import discover_assemblers
from runners.cuda.compilation import PtxasCompiler
from runners.kernels import Kernel, KernelModule
from runners.protocol import Compiled, Runner
from runners.ptx_text import opening
from runners.simulated_runner import SimulatedRunner
from strategies.programs.lane_code import always_wrong

ROWS = list(SCALARS.values())
SAMPLE = ROWS[::16]


def disagreements(runner: Runner, rows: list, count: int, *, guarded: bool) -> list[str]:
    found = []
    if not isinstance(runner, SimulatedRunner):
        rows = [row for row in rows if not always_wrong(row, "p" if guarded else "")]
    some = cases(rows, guarded=guarded)
    for first in range(0, len(some), 50):
        for case, answer in zip(
            some[first : first + 50], answers(runner, some[first : first + 50], count), strict=True
        ):
            if not isinstance(answer, Answer):
                found.append(f"{case.row.opcode}: {answer.line}")
            elif answer.wrong:
                found.append(f"{case.row.opcode} {case.constants}: {answer.example}")
    return found


GUARDED = pytest.mark.parametrize("guarded", [False, True], ids=["alone", "guarded"])


@GUARDED
def test_a_runner_agrees_with_the_rows(unoptimized_runner: Runner, guarded: bool) -> None:
    assert not disagreements(unoptimized_runner, SAMPLE, 8, guarded=guarded)


def test_the_simulated_device_agrees_with_all_rows() -> None:
    assert not disagreements(SimulatedRunner("sm_90"), ROWS, 8, guarded=False)


@GUARDED
@pytest.mark.slow
def test_a_runner_agrees_with_all_rows(unoptimized_runner: Runner, guarded: bool) -> None:
    assert not disagreements(unoptimized_runner, ROWS, 100, guarded=guarded)


def test_what_every_compiler_makes_wrong_is_what_an_h200_showed() -> None:
    # ptxas 13.5.37 at -O0, every row, 3 * 10^4 lanes, half of them with the guard (2026-11-23).
    shown = Counter(set=736, testp=12, cvt=5, bfe=2, bfi=1)
    # Of cvt.rm.ftz.sat.f16.f32, .sat hides what .ftz does not flush.
    hidden = Counter(cvt=1)
    assert Counter(row.family for row in ROWS if always_wrong(row, "p")) == shown + hidden
    alone = Counter(row.family for row in ROWS if always_wrong(row))
    assert alone == Counter(cvt=5, bfe=2, bfi=1) + hidden


def test_a_wrong_result_is_told_from_one_that_is_open() -> None:
    rows = [SCALARS["add.rn.f16x2"], SCALARS["abs.s32"], SCALARS["addc.cc.u32"]]
    for case in cases(rows):
        given = case.operands(200, 0)
        found = list(case.row.evaluate(*given))
        assert compared(case, given, found).wrong == 0
        if case.row.carry_out:
            found[1] = found[1].copy()
            found[1][3, 4] ^= True
            assert compared(case, given, found).wrong == 1
            continue
        # Another NaN, or what is outside of the domain, is open; one bit elsewhere is wrong.
        flipped = [found[0] ^ np.uint32(1)]
        answer = compared(case, given, flipped)
        assert answer.elsewhere > 0
        assert answer.wrong + answer.elsewhere == answer.compared
        assert "the oracle" in answer.example


def test_an_assembler_takes_every_row_and_every_end_of_its_constants() -> None:
    assemblers = discover_assemblers().assemblers
    if not assemblers:
        pytest.skip("no ptxas is here; `pip install nvidia-cuda-nvcc` brings one")
    registers = [f".reg .{name} %{letter}<12>;" for name, letter in LETTERS.items()]
    lines = [line for row in ROWS for line in statements(row)]
    text = [opening("sm_90", "9.0"), ".visible .entry kernel() {", *registers, *lines, "ret; }"]
    kernel = Kernel(entry="kernel", image_bytes=0)
    module = KernelModule(ptx="\n".join(text), target="sm_90", version="9.0", kernels=(kernel,))
    outcome = PtxasCompiler(assemblers[0].path, level=0).compile(module, "sm_90")
    assert isinstance(outcome, Compiled), f"{outcome} {outcome.detail}"


def statements(row: ScalarInstruction) -> Iterator[str]:
    """Write an instruction with registers, and with each end of each constant that it may have."""
    results = [f"%{LETTERS[name]}{at}" for at, name in enumerate(row.destinations)]
    plain = [f"%{LETTERS[name]}{at + 2}" for at, name in enumerate(row.sources)]
    for at, limits in row.immediates.items():
        if limits.required:
            plain[at] = hex(limits.low)
    yield row.text(results, plain)
    for at, limits in row.immediates.items():
        for constant in (limits.low, limits.high):
            yield row.text(results, [*plain[:at], hex(constant), *plain[at + 1 :]])
