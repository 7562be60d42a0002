"""Provisional names: what differs, where, and what made it."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from repro_cases import contents, half, multiplication

from corpus import Case, Identity, Kind
from corpus.finding import DIVERGED, WRONG_STEP
from corpus.known import KnownRow, load_known
from fuzz.diagnosis.experiments import CODE, Culprit
from fuzz.diagnosis.parts import NOTHING
from fuzz.findings.case import Evidence, instructions_of, named_after
from fuzz.findings.families import (
    Bucket,
    accused,
    bucket_of_failure,
    core_of,
    look_of,
)
from fuzz.findings.verdicts import Subject
from fuzz.kinds import sentence
from oracle.execution.execution import execute
from oracle.isa.forms import Form
from oracle.isa.legality import explain
from oracle.isa.lookup import FORMS, LOAD_FORMS, form_of, mma_form
from oracle.program.lane_code import Assign, LaneCode
from oracle.program.program import Program
from oracle.program.steps import accesses_matrix
from runners.emission import emit
from runners.protocol import Failure, Trouble
from strategies.instructions import canonical
from strategies.programs.warpgroups import plain_multiplication
from strategies.simplification.examples import alone


def test_the_producer_is_what_made_the_element_and_not_what_comes_first() -> None:
    first = multiplication(half())
    other = mma_form("wmma.mma.sync.aligned.row.row.m8n32k16.s32.s8.s8.s32")
    second = multiplication(other)
    names = {buffer.name: f"x{buffer.name}" for buffer in second.buffers}
    program = Program(
        buffers=(*first.buffers, *(_renamed(buffer, names) for buffer in second.buffers)),
        steps=(*first.steps, *(_moved(step, names) for step in second.steps)),
    )
    image = np.zeros(program.image_bytes, np.uint8)
    expected = execute(program, image[None]).images[0]
    for buffer, form in (("gd", half()), ("xgd", other)):
        actual = expected.copy()
        actual[program.offset(buffer) + 4] ^= 1
        name, _ = look_of(
            program, image[None], actual[None], expected=expected[None], target="sm_90", form=half()
        )
        assert ("8-bit integers" in name) == (form == other)


def test_code_that_writes_the_last_of_more_registers_is_what_made_those() -> None:
    """A D of a warpgroup has up to 128 registers, of which code may set two."""
    form = form_of("wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16")
    whole = plain_multiplication(form)
    code = LaneCode(
        destination="c.6 c.7", results=("r8", "r9"), code=(
            Assign(opcode="popc.b32", destinations=("r8",), sources=("lane",)),
            Assign(opcode="clz.b32", destinations=("r9",), sources=("lane",)),
        ),
    )  # fmt: skip
    program = replace(whole, steps=(*whole.steps[:-1], code, whole.steps[-1]))
    image = np.zeros((1, program.image_bytes), np.uint8)
    expected = execute(program, image, target="sm_90a").images
    for register, told in (
        (0, "wgmma.mma_async of f16 behind scalar code"),
        (6, "ends in popc"),
        (7, "ends in clz"),
    ):
        actual = expected.copy()
        actual[0, program.offset("d") + 4 * register] ^= 1
        name, _ = look_of(program, image, actual, expected=expected, target="sm_90a", form=form)
        assert name.endswith(told)


def _renamed(buffer, names):
    return replace(buffer, name=names[buffer.name])


def _moved(step, names):
    if not accesses_matrix(step):
        return step
    place = step.memory.place
    return step.changed(place=replace(place, buffer=names[place.buffer]))


@pytest.mark.parametrize(
    ("bucket", "message", "words"),
    [
        (
            Bucket.of(Kind.VIOLATION, "mul.wide.u32", "shl.b64"), "",
            "violation: mul.wide.u32 and shl.b64",
        ),
        (
            Bucket.of(Kind.DEVIATION, "setp.ge.f32", condition="in a loop of lanes"), "",
            "deviation: setp.ge.f32 in a loop of lanes",
        ),
        (
            Bucket.of(Kind.VIOLATION, "wmma.mma of f16", condition="d in the registers of c"), "",
            "violation: wmma.mma of f16: d in the registers of c",
        ),
        (
            Bucket.of(Kind.DIVERGENCE, "mma", condition=DIVERGED), "",
            "divergence: mma under a condition that differs between lanes",
        ),
        (
            Bucket.of(Kind.INTERNAL, message="Internal error: C7907"), "",
            "rejected with an internal error of ptxas: Internal error: C7907",
        ),
        (Bucket.of(Kind.HANG), "", "hang: hang"),
    ],
)  # fmt: skip
def test_a_finding_is_said_in_a_sentence(bucket: Bucket, message: str, words: str) -> None:
    case = Case(
        kind=bucket.kind, identity=bucket.identity, instructions=("x",), target="sm_90",
        ptx_version="8.0", details={WRONG_STEP: bucket.identity.text},
    )  # fmt: skip
    assert sentence(case) == words
    untold = sentence(msgspec.structs.replace(case, details={}))
    has_culprit = bucket.kind in (Kind.VIOLATION, Kind.DEVIATION)
    assert ("which instruction is wrong is not known" in untold) == has_culprit
    said = sentence(case, who="only V12.8.93 -O3", gives=" gives 1 where 2 is right")
    assert said.startswith("ptxas 12.8.93 at -O3: ")


_RAISED = """I only do movmatrix
Traceback (most recent call last):
  File "foreign_child.py", line 64, in _answer
    found = function(text, entry, given, **more)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "toy.py", line 3, in run
TypeError: 'NoneType' object is not subscriptable
noise
"""


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            "the runner mine raised TypeError: 'NoneType' object is not subscriptable",
            "the runner mine raised TypeError: 'NoneType' object is not subscriptable",
        ),
        (
            "the command './toy.py' ended with exit status",
            "the command './toy.py' ended with exit status "
            "TypeError: 'NoneType' object is not subscriptable",
        ),
    ],
)
def test_a_runner_that_raises_is_named_after_the_exception_alone(message: str, said: str) -> None:
    """The title ended with "Traceback (most recent call last):" (2026-11-23)."""
    failure = Failure(trouble=Trouble.LAUNCH_FAILURE, message=message, detail=_RAISED)
    family = bucket_of_failure(Kind.LAUNCH_FAILURE, None, failure)
    assert family.identity.message == said


@pytest.mark.parametrize("kind", [Kind.UNREADABLE, Kind.COMPILE_FAILURE])
def test_what_nobody_can_read_is_one_finding_whatever_the_program_is_about(kind: Kind) -> None:
    """A runner that gave back nothing was a finding for each instruction (2026-11-24)."""
    failures = [
        Failure(trouble=Trouble.CORRUPTED_REPLY, message=f"gave back {size} bytes", detail="x")
        for size in (0, 512)
    ]
    families = {
        bucket_of_failure(kind, form, failure) for form in FORMS[::50] for failure in failures
    }
    assert len(families) == 1


def test_code_of_which_no_instruction_is_known_to_be_wrong_keeps_the_name_of_its_end() -> None:
    """On an H200 five of them became one line, "scalar code", and four were given up."""
    bucket = Bucket.of(Kind.VIOLATION, "scalar code that ends in shf", condition="other result")
    program = multiplication(half())
    subject = Subject(module=emit(program), program=program, image=contents(program, 1)[0])
    raw = Evidence(kind=Kind.VIOLATION, bucket=bucket, subject=subject, attempts=[])
    assert named_after(raw, Culprit(instructions=(CODE,))) is named_after(raw, None) is raw


def test_a_finding_has_the_opcodes_of_its_code_behind_those_of_matrices() -> None:
    """Of programs with a matrix instruction `set` was not known, and a line of its own."""
    one = Assign(opcode="set.gt.f16.f16", destinations=("h0",), sources=(0, 0))
    code = LaneCode(source="", count=0, destination="y", results=("r0",), code=(one, _HALF))
    scalar, matrix = alone(code, NOTHING).program, multiplication(half())
    program = Program(
        buffers=(*matrix.buffers, *scalar.buffers), steps=(*scalar.steps, *matrix.steps)
    )
    opcodes = instructions_of(program)
    assert opcodes[-3].startswith("wmma.store.d")
    assert opcodes[-2:] == (one.opcode, _HALF.opcode)
    identity = Identity.of(Kind.DEVIATION, "set")
    case = Case(
        kind=Kind.DEVIATION,
        identity=identity,
        instructions=opcodes,
        target="sm_90",
        ptx_version="9.0",
    )
    known = [row.id for row in load_known().entries if isinstance(row, KnownRow) and row.fits(case)]
    assert known == ["other-half-behind-set-among-all-set"]
    assert accused(case) == one.opcode


_HALF = Assign(opcode="cvt.u32.u16", destinations=("r0",), sources=("h0",))


@pytest.mark.parametrize("form", LOAD_FORMS[::20], ids=str)
def test_an_instruction_is_named_with_the_shape_that_it_has(form: Form) -> None:
    draft = canonical(form)
    for shape, words in ((draft.qualifier("shape"),) * 2, ("m9n9k9", "another shape")):
        other = draft.with_qualifiers({"shape": shape})
        named = core_of(Kind.REJECTED, other, explain(other.text, target="sm_90")).key
        assert f" {words}" in named
        assert (words == "another shape") == ("another shape" in named)


@pytest.mark.parametrize("folder", ["", "/", "/root/.cache/13.5.37/", "/opt/a-1/b/"])
def test_a_family_does_not_depend_on_where_a_compiler_lies(folder: str) -> None:
    """It began with the user's cache: two hosts had two lines of one defect (2026-11-27)."""
    failure = Failure(
        trouble=Trouble.COMPILE_FAILURE,
        message=f"{folder}ptxas ended with status 255 on the module",
        detail="ptxas fatal   : (C7907) Internal compiler error.",
    )
    family = bucket_of_failure(Kind.COMPILE_FAILURE, None, failure)
    said = "ptxas ended with status # on the module ptxas fatal : (C7907) Internal compiler error."
    assert family.identity == Identity.of(Kind.COMPILE_FAILURE, message=said)
