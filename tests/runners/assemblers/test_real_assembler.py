"""What the newest ptxas that is here says, through a judge and without one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.errors import UsageError
from oracle.isa.lookup import FORMS, is_available
from oracle.isa.targets import Module, parse_target
from runners.assemblers.judgements import Response
from runners.assemblers.judging import ToolJudge, judge_module
from runners.compilers import find_assembler
from strategies.instructions import canonical

MODULE = Module.named("sm_90", "8.0")
LEGAL = [canonical(form) for form in FORMS if is_available(form, MODULE)]
QUALIFIERS = [
    "sync", "aligned", "row", "col", "global", "shared", "local", "f16", "bf16", "tf32", "f32",
    "f64", "s8", "u8", "s4", "u4", "b1", "s32", "b16", "b8", "satfinite", "rn", "xor", "popc", "x1",
    "x4", "trans", "m8n8", "m16n16k16", "m16n16k8", "m8n8k4", "m8n8k32", "m8n8k128", "a", "d",
]  # fmt: skip
TOKENS = ["wmma.mma", "ldmatrix", ".sync", ".row", "{", "}", "%r0", "[", "]", ";", "//", "/*", '"',
          ".reg", ":", "@%p0", ",", "ret", "0x", "1.0"]  # fmt: skip


@pytest.fixture(scope="module")
def assembler():
    try:
        return find_assembler()
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def judge(assembler):
    return ToolJudge(assembler, target="sm_90", version="8.0")


@st.composite
def near_legal(draw):
    opcode, _, operands = draw(st.sampled_from(LEGAL)).text.partition(" ")
    words = opcode.split(".")
    at = draw(st.integers(0, len(words) - 1))
    change = draw(st.sampled_from(["replace", "drop", "insert", "swap"]))
    if change == "replace":
        words[at] = draw(st.sampled_from(QUALIFIERS))
    elif change == "drop":
        del words[at]
    elif change == "insert":
        words.insert(at, draw(st.sampled_from(QUALIFIERS)))
    else:
        words[at], words[-1] = words[-1], words[at]
    others = [one.text.partition(" ")[2] for one in LEGAL[::50]]
    return f"{'.'.join(words)} {draw(st.sampled_from([operands, *others]))}"


soup = st.lists(st.sampled_from(TOKENS), min_size=1, max_size=8).map(" ".join)


def alone(assembler, judgement):
    verdict = judge_module(assembler, judgement.module)
    return judgement.instruction, verdict.outcome


@settings(max_examples=8, deadline=None)
@given(texts=st.lists(st.one_of(near_legal(), soup), min_size=1, max_size=25))
def test_a_batch_is_judged_as_each_instruction_alone(assembler, judge, texts):
    judged = judge.judge(texts)
    assert [(one.instruction, one.outcome) for one in judged] == [
        alone(assembler, one) for one in judged
    ]


def test_documented_forms_that_the_target_has_are_accepted_down_to_a_cubin(judge):
    texts = [draft.text for draft in LEGAL]
    assert len(texts) > 700
    assert {one.instruction: one.messages for one in judge.judge(texts) if one.outcome} == {}


def test_a_syntax_error_reaches_no_neighbour(judge):
    load = "wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, "
    good = [f"{load}[%addr], {stride};" for stride in range(16, 48)]
    # Its modifiers would be counted for the next instruction.
    broken = [f"{load}[%addr] .sync %f{number} ret [ , ;" for number in range(32)]
    texts = [text for pair in zip(good, broken, strict=True) for text in pair]
    expected = [Response.ACCEPTED, Response.REJECTED] * 32
    assert [one.outcome for one in judge.judge(texts)] == expected


def test_every_target_of_the_help_is_accepted_with_the_highest_version(assembler):
    assert all(assembler.accepts(assembler.highest_version, name) for name in assembler.targets)


def test_pairs_are_accepted_as_the_rows_of_the_oracle_say(assembler):
    for name in ("sm_75", "sm_80", "sm_90"):
        since = parse_target(name).since
        assert assembler.accepts(since, name)
        assert not assembler.accepts(since._replace(minor=since.minor - 1), name)


def test_a_target_that_it_does_not_have_is_a_usage_error(assembler):
    with pytest.raises(UsageError, match=r"does not take .target sm_999 with .version 8.0"):
        ToolJudge(assembler, target="sm_999", version="8.0")
    with pytest.raises(UsageError, match=r"does not take .target sm_90 with .version 77.0"):
        ToolJudge(assembler, target="sm_90", version="77.0")
