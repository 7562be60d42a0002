"""Programs from anybody: read whole, or refused in a sentence, in bounded time and memory."""

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from own_inputs import changed

from corpus.programs import decode_program, encode_program
from oracle.errors import InfrastructureError, UsageError
from oracle.isa.lookup import FORMS
from oracle.isa.targets import Module
from oracle.program.definedness import undefined
from oracle.program.lane_code import MAX_DEPTH, Assign, LaneCode, Repeat, Statement
from oracle.program.operands import Place
from oracle.program.program import MAX_WORK, Program, work
from oracle.program.steps import MAX_NESTING, Barrier, Branch, Loop, Step, plain_load
from strategies.features import Focus
from strategies.programs import programs

BUFFER = {"name": "x", "space": "global", "size": 64, "alignment": 256}
BARRIER = {"step": "Barrier"}
OPCODE = "wmma.load.a.sync.aligned.row.m16n16k16.global.f16"
LOAD = {
    "step": "Load", "form": OPCODE, "fragment": "a", "place": {"buffer": "x", "offset": 0},
    "stride": None, "stride_in_register": False, "immediate": 0,
}  # fmt: skip


def document(*steps: Any, **fields: Any) -> bytes:
    return json.dumps({"format": 1, "buffers": [BUFFER], "steps": steps, **fields}).encode()


def refused(data: bytes) -> str:
    started = time.thread_time()
    with pytest.raises(InfrastructureError, match=r"here\.json describes no program") as raised:
        decode_program(data, "here.json")
    assert time.thread_time() - started < 2
    assert len(str(raised.value)) < 600
    return str(raised.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("form", 7), ("form", "wmma.nonsense"), ("form", "wmma.store.d.sync.x"), ("fragment", 7),
        ("fragment", []), ("place", "x"), ("place", {"buffer": 7}), ("place", {"offset": 7}),
        ("place", {"buffer": "x", "offset": 1.5}), ("place", {"buffer": "x", "offset": True}),
        ("stride", "16"), ("stride", 1.5), ("stride", 10**30), ("stride", True),
        ("stride_in_register", 1), ("immediate", None), ("immediate", "0"), ("colour", 7),
        ("step", 7), ("step", None), ("step", "Halt"),
    ],
)  # fmt: skip
def test_a_field_of_another_type_is_said(field: str, value: object) -> None:
    refused(document({**LOAD, field: value}))


@pytest.mark.parametrize("field", ["form", "fragment", "place", "step"])
def test_a_field_that_is_missing_is_said(field: str) -> None:
    refused(document({name: value for name, value in LOAD.items() if name != field}))


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b'{"format": 1, "buffers": 3, "steps": []}',
        b'{"format": 1, "buffers": [3], "steps": []}',
        b'{"format": 1, "buffers": [], "steps": {}}',
        b'{"format": ' + b"1" * 5000 + b"}",
        document(*[BARRIER] * (MAX_WORK + 1)),
        document(buffers=[{**BUFFER, "size": "64"}]),
        document(buffers=[{**BUFFER, "name": f"b{at}", "size": 1 << 24} for at in range(9)]),
        document(buffers=[BUFFER, {**BUFFER, "name": "s", "space": "shared", "size": 10**10}]),
        document(buffers=[BUFFER, {**BUFFER, "name": "s", "space": "shared", "size": 1 << 20}]),
        b" " * (2 << 20),
        document() + b" " * (1 << 20),
    ],
)
def test_what_is_too_much_is_said(data: bytes) -> None:
    refused(data)


@pytest.mark.parametrize("depth", [MAX_NESTING + 1, 200, 5000])
def test_steps_that_are_nested_deeply_are_refused(depth: int) -> None:
    start, end = '{"step": "Loop", "count": 1, "body": [', "]}"
    inner = start * depth + '{"step": "Barrier"}' + end * depth
    text = f'{{"format": 1, "buffers": [{json.dumps(BUFFER)}], "steps": [{inner}]}}'
    refused(text.encode())


def test_loops_in_loops_that_never_end_are_refused() -> None:
    body: dict[str, Any] = BARRIER
    for _ in range(4):
        body = {"step": "Loop", "count": 15, "body": [body]}
    assert "counted as often as they may run" in refused(document(body))


def test_a_step_cannot_be_nested_deeper_than_it_may() -> None:
    step: Step = Barrier()
    for _ in range(MAX_NESTING):
        step = Loop(count=1, body=(step,))
    for nest in (
        lambda: Loop(count=1, body=(step,)),
        lambda: Branch(condition=1, then=(), otherwise=(step,)),
    ):
        with pytest.raises(UsageError, match=f"nested {MAX_NESTING + 1} deep"):
            nest()


def test_what_is_nested_as_deeply_as_it_may_is_read() -> None:
    code: Statement = Assign(opcode="add.s32", destinations=("r0",), sources=("r0", 1))
    for at in range(MAX_DEPTH):
        code = Repeat(count=1, counter=f"r{at + 1}", body=(code,))
    step: Step = LaneCode(source="x", count=1, destination="y", results=("r0",), code=(code,))
    for _ in range(MAX_NESTING):
        step = Loop(count=1, body=(step,))
    load = plain_load(registers="x", count=1, place=Place(buffer="x"))
    program = Program(buffers=decode_program(document(), "x").buffers, steps=(load, step))
    assert decode_program(encode_program(program), "here.json") == program


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 200, 5000])
def test_statements_that_are_nested_deeply_are_refused(depth: int) -> None:
    start, end = '{"statement": "If", "predicate": "p0", "then": [', "]}"
    code = start * depth + '{"statement": "Leave"}' + end * depth
    step = f'{{"step": "LaneCode", "destination": "y", "results": ["r0"], "code": [{code}]}}'
    refused(f'{{"format": 1, "buffers": [], "steps": [{step}]}}'.encode())


def test_the_largest_program_is_analysed_in_seconds() -> None:
    step: Step = Barrier()
    for at in range(MAX_NESTING):
        step = Loop(count=2, body=(step,)) if at % 2 else Branch(condition=1, then=(step,) * 2)
    buffers = decode_program(document(), "x").buffers
    program = Program(buffers=buffers, steps=(step,) * (MAX_WORK // work((step,))))
    started = time.thread_time()
    assert undefined(program) == ()
    assert time.thread_time() - started < 5


@settings(max_examples=50, deadline=None)
@given(program=programs(Focus(), module=Module.named(), forms=FORMS), data=st.data())
def test_a_mutated_program_is_read_or_refused(program: Program, data: st.DataObject) -> None:
    other = json.dumps(changed(data.draw, json.loads(encode_program(program)))).encode()
    try:
        read = decode_program(other, "here.json")
    except InfrastructureError:
        return
    undefined(read)
    assert decode_program(encode_program(read), "here.json") == read
