"""Programs of many steps: copies, branches, loops, ldmatrix, element-wise operations."""

from __future__ import annotations

import numpy as np
import program_draws
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from outcomes import left_and_expected

from oracle.isa.forms import Form
from oracle.program.operands import Buffer, Place
from oracle.program.program import Program, requirements, walk
from oracle.program.steps import Barrier, Copy, accesses_matrix, is_lane_code
from runners.protocol import Runner
from runners.simulated_runner import SimulatedRunner
from strategies.features import SHARED_ROW_BYTES

_SETTINGS = settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)


def _check(runner: Runner, program: Program, seed: int, target: str, version: str) -> None:
    # More images than a block has warps where shared memory is short.
    images = program_draws.images(program, seed, 9)
    left, expected = left_and_expected(runner, program, images, target, version)
    wrong = np.argwhere(left != expected)
    assert wrong.size == 0, f"wrong bytes, the first at (image, byte) {wrong[0]}"


def _removed(form: Form) -> bool:
    """Whether a form was removed with PTX ISA 6.5: `.satfinite` of floats (9.7.14.4.5)."""
    return form.mnemonic == "wmma.mma" and form.satfinite and form.d_type.is_float


def _has_narrow_rows(program: Program) -> bool:
    """Whether rows in shared memory are aligned as the page asks for and no better.

    sm_90 may trap then (docs/findings.md, H200, 2026-11-21); `test_whole_images.py` tries
    them alone.
    """
    shared = {buffer.name for buffer in program.buffers if buffer.space == "shared"}
    steps = (step for step in walk(program.steps) if accesses_matrix(step))
    spans = (span for step in steps for span in (*step.bytes_read, *step.bytes_written))
    return any(
        span.buffer in shared and (span.start % SHARED_ROW_BYTES or span.pitch % SHARED_ROW_BYTES)
        for span in spans
    )


@pytest.mark.stand_in
@_SETTINGS
@given(program=program_draws.programs("sm_80", "7.8"), seed=st.integers(0, 2**32 - 1))
def test_any_defined_program_gives_the_oracles_images(
    runner: Runner, program: Program, seed: int
) -> None:
    # No known defect of a compiler touches these programs: no code of lanes is among them, and no
    # operands share registers.
    assume(not program.shared_banks)
    assume(not any(is_lane_code(step) for step in walk(program.steps)))
    assume(not _has_narrow_rows(program))
    forms = requirements(program)
    assume(not any(_removed(form) for form in forms))
    assume(all(form.texts["type"] == "b16" for form in forms if form.mnemonic == "ldmatrix"))
    _check(runner, program, seed, "sm_80", "7.8")


@_SETTINGS
@given(program=program_draws.programs("sm_100a", "8.8"), seed=st.integers(0, 2**32 - 1))
def test_programs_for_sm_100a_give_the_oracles_images_on_the_simulated_device(
    program: Program, seed: int
) -> None:
    assume(not any(_removed(form) for form in requirements(program)))
    with SimulatedRunner("sm_100a", layout_seed=seed % 2) as runner:
        _check(runner, program, seed, "sm_100a", "8.8")


@st.composite
def _copies(draw: st.DrawFn) -> Program:
    """Copies of any size between any alignments, through shared memory."""
    alignments = [2 ** draw(st.integers(0, 8)) for _ in range(3)]
    size = draw(st.integers(1, 6000))
    offsets = [draw(st.integers(0, 33)) for _ in range(3)]
    spaces = ("global", "shared", "global")
    buffers = [
        Buffer(name=name, space=space, size=size + 64, alignment=alignment)
        for name, space, alignment in zip("abc", spaces, alignments, strict=True)
    ]
    places = [Place(buffer=n, offset=o) for n, o in zip("abc", offsets, strict=True)]
    return Program(
        buffers=(Buffer(name="first", space="global", size=draw(st.integers(1, 40))), *buffers),
        steps=(
            Copy(source=places[0], destination=places[1], size=size),
            Barrier(),
            Copy(source=places[1], destination=places[2], size=size),
        ),
    )


@pytest.mark.stand_in
@_SETTINGS
@given(program=_copies(), seed=st.integers(0, 2**32 - 1))
def test_copies_of_any_size_and_alignment_move_these_bytes_and_no_other(
    runner: Runner, program: Program, seed: int
) -> None:
    _check(runner, program, seed, "sm_75", "6.5")
