"""Programs as CUDA C++: what the text says, without a compiler."""

from __future__ import annotations

import re
from functools import cache

import pytest

from oracle.isa.forms import Form, Matrix
from oracle.isa.lookup import FORMS, form_of
from oracle.isa.targets import Module
from oracle.program.operands import WITH_CONSTANT, Buffer, Operation, Place
from oracle.program.operations import Elementwise
from oracle.program.program import Program, requirements, walk
from oracle.program.steps import Op, Step
from runners.emission import emit_all
from runners.front_ends import cuda_cpp as api
from runners.front_ends.languages import Llvmlite, Nvcc, Nvrtc
from runners.front_ends.protocol import is_named
from runners.toolchains import DRIVER
from strategies.draws import draw
from strategies.features import Focus
from strategies.programs import programs

MODULE = Module.named("sm_90", "8.0")
BUFFER = Buffer(name="m", space="global", size=4096, alignment=256)
_WORD_OF_API = re.compile(r"wmma::(?:load_matrix|store_matrix|mma|bmma)_sync\(")


@cache
def _drawn() -> tuple[Program, ...]:
    forms = tuple(form for form in FORMS if form.is_main)
    found = draw(programs(Focus(), module=MODULE, forms=forms), 45, 5)[1:]
    return tuple(program for program in found if is_named(program))[:20]


def _text(program: Program) -> str:
    (kernel,) = emit_all({"kernel": program}, module=MODULE).kernels
    return api.CudaCppWriter(program=program, kernel=kernel).text()


@pytest.mark.parametrize("number", range(20))
def test_every_matrix_instruction_is_said_once_where_its_step_is(number: int) -> None:
    program = _drawn()[number]
    text = _text(program)
    said = api.is_said(program)
    for form in requirements(program):
        inline = f'"{form.opcode} ' in text
        of_wmma = form.mnemonic.startswith("wmma.")
        assert inline != (of_wmma and said), form.opcode
    steps = sum(step.uses != () and "wmma" in _mnemonic(step) for step in walk(program.steps))
    assert len(_WORD_OF_API.findall(text)) == (steps if said else 0)


def _mnemonic(step: object) -> str:
    return str(getattr(getattr(step, "form", None), "mnemonic", ""))


def _loads(layout: str) -> Form:
    return form_of(f"wmma.load.a.sync.aligned.{layout}.m16n16k16.f16")


@pytest.mark.parametrize(
    ("offset", "stride", "said"),
    [(64, 24, True), (16, 24, False), (64, 20, False), (64, None, True)],
)
def test_what_the_api_leaves_undefined_is_inline_ptx(
    offset: int, stride: int | None, said: bool
) -> None:
    place = Place(buffer="m", offset=offset)
    step = Op.of(form=_loads("row"), fragment="a", place=place, stride=stride)
    assert api.is_said(Program(buffers=(BUFFER,), steps=(step,))) == said


def test_names_of_both_layouts_are_arrays_of_registers() -> None:
    steps: list[Step] = []
    for layout in ("row", "col"):
        form = _loads(layout)
        negate = Elementwise(
            operation=Operation.NEGATE, matrix=form.matrix(), source="a", destination="b"
        )
        steps += [Op.of(form=form, fragment="a", place=Place(buffer="m")), negate]
    assert api.layouts_of(Program(buffers=(BUFFER,), steps=tuple(steps[:2]))) is not None
    assert api.layouts_of(Program(buffers=(BUFFER,), steps=tuple(steps))) is None


def _accumulator(type_: str) -> Matrix:
    forms = (form for form in FORMS if form.mnemonic == "wmma.mma" and form.c_type.name == type_)
    return next(forms).matrix("c")


@pytest.mark.parametrize(
    ("type_", "operation", "constant", "hidden"),
    [
        ("f32", Operation.MULTIPLY, 0x3F800000, True),  # 1
        ("f32", Operation.MULTIPLY, 0xBF800000, True),  # -1
        ("f32", Operation.MULTIPLY, 0x40000000, False),  # 2
        ("f32", Operation.ADD, 0x80000000, True),  # -0
        ("f32", Operation.ADD, 0x7F800001, True),  # NaN
        ("f32", Operation.ADD, 0x7F800000, False),  # infinity
        ("f64", Operation.MULTIPLY, 0x3FF0000000000000, True),
        ("f64", Operation.ADD, 0x4000000000000000, False),
    ],
)
def test_constants_with_which_an_operation_vanishes_are_hidden(
    type_: str, operation: Operation, constant: int, hidden: bool
) -> None:
    matrix = _accumulator(type_)
    step = Elementwise(
        operation=operation, matrix=matrix, source="s", destination="d", constant=constant
    )
    cell = api.stored_type(type_)
    plain = api.statement(step, cell, "s", "d", count=None, fused=False)
    assert ("opaque(" in plain) == hidden
    assert "_rn(" not in plain
    assert "_rn(s.x[i]" in api.statement(step, cell, "s", "d", count=None, fused=True)


def test_integers_do_not_overflow_as_signed_ones() -> None:
    matrix = _accumulator("s32")
    for operation in (Operation.MULTIPLY, Operation.ADD, Operation.NEGATE):
        step = Elementwise(
            operation=operation, matrix=matrix, source="s", destination="d",
            constant=3 if operation in WITH_CONSTANT else 0,
        )  # fmt: skip
        assert "unsigned(s.x[i])" in api.statement(step, "int", "s", "d", count=None, fused=False)


def test_programs_that_are_drawn_for_the_api_are_said_in_it() -> None:
    forms = tuple(form for form in FORMS if form.mnemonic == "wmma.mma" and api.has_word(form))
    shares = []
    for bytes_ in (1, api.POINTER_BYTES):
        drawn = draw(programs(Focus(line_bytes=bytes_), module=MODULE, forms=forms), 30, 8)[1:]
        shares.append(sum(map(api.is_said, drawn)) / len(drawn))
    assert shares[0] < 0.5
    assert shares[1] > 0.8
    assert Nvcc.line_bytes == Nvrtc.line_bytes == api.POINTER_BYTES
    assert Llvmlite.line_bytes == DRIVER.line_bytes == 1
