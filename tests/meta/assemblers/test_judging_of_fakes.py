"""What a judge must say, whatever the assembler does."""

import shutil
import time

import psutil
import pytest
from fakes import OUTCOMES, fake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oracle.errors import InfrastructureError, UsageError
from runners.assemblers.judgements import Response
from runners.assemblers.judging import ToolJudge, judge_module


def judge_of(folder, mode="sound", **options):
    return ToolJudge(fake(folder, mode), target="sm_90", version="8.0", **options)


instructions = st.builds(
    lambda word, number: f"{word} %r{number};",
    st.sampled_from(sorted(OUTCOMES)),
    st.integers(0, 30),
)


def expected(text):
    return OUTCOMES[text.partition(" ")[0]]


@settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(texts=st.lists(instructions, max_size=8))
def test_an_instruction_has_the_same_outcome_in_any_company(tmp_path, texts):
    judged = judge_of(tmp_path).judge(texts)
    assert [one.instruction for one in judged] == texts
    assert [one.outcome for one in judged] == [expected(text) for text in texts]


@pytest.mark.parametrize("mode", ["sound", "one file"])
def test_every_kind_in_one_batch_is_told_apart_in_both_ways_of_sifting(tmp_path, mode):
    texts = [f"{word} %r{i};" for i in range(2) for word in OUTCOMES]
    judged = judge_of(tmp_path, mode).judge(texts)
    assert {one.instruction: one.outcome for one in judged} == {
        text: expected(text) for text in texts
    }


def test_a_hang_costs_its_own_instruction_only(tmp_path):
    judge = judge_of(tmp_path, deadline=0.8)
    texts = ["good %r0;", "hang %r0;", "good %r1;", "bad %r0;", "late_hang %r0;"]
    outcomes = [one.outcome for one in judge.judge(texts)]
    accepted, hung = Response.ACCEPTED, Response.HUNG
    assert outcomes == [accepted, hung, accepted, Response.REJECTED, hung]


@pytest.mark.parametrize("word", ["crash", "late_inside"])
def test_the_culprit_among_many_costs_a_few_processes(tmp_path, word):
    judge = judge_of(tmp_path)
    before = judge.processes
    texts = [f"good %r{i};" for i in range(60)] + [f"bad %r{i};" for i in range(200)]
    texts.insert(37, f"{word} %r0;")
    judged = judge.judge(texts)
    assert [one.instruction for one in judged if one.outcome > Response.REJECTED] == [texts[37]]
    # Without a culprit it takes 2; halving 61 survivors takes 2 for each of 6 levels.
    assert judge.processes - before <= 2 + 2 * 6 + 2


def test_identical_texts_are_judged_once(tmp_path):
    judge = judge_of(tmp_path)
    texts = ["crash %r0;", "good %r0;", "bad %r0;"]
    first = judge.judge(texts * 3)
    before = judge.processes
    assert judge.judge(texts * 3) == first
    assert judge.processes == before


def test_the_stored_module_shows_the_same_outcome(tmp_path):
    judge = judge_of(tmp_path)
    for one in judge.judge([f"{word} {{%r0, %f1}};" for word in OUTCOMES]):
        verdict = judge_module(judge.assembler, one.module)
        assert (verdict.outcome, verdict.messages) == (one.outcome, one.messages)
        assert one.instruction in one.module.splitlines()


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("silent", "was unreadable"),
        ("text for a cubin", "was unreadable"),
        ("flood", "wrote 64 MiB"),
        ("accepts everything", "lines that it must reject"),
        ("always hangs", "was hung"),
    ],
)
def test_what_is_no_assembler_is_recognised_before_it_judges(tmp_path, mode, says):
    with pytest.raises(InfrastructureError, match=says):
        judge_of(tmp_path, mode, deadline=0.8 if mode == "always hangs" else 60.0)


@pytest.mark.parametrize("mode", ["rejects everything", "no lines"])
def test_a_target_that_is_not_taken_is_a_usage_error(tmp_path, mode):
    with pytest.raises(UsageError, match=r"does not take .target sm_90 with .version 8.0"):
        judge_of(tmp_path, mode)


def left_behind():
    """Return the children that a fake assembler has left, by process number."""
    return {
        process.pid
        for process in psutil.process_iter(["cmdline", "status"])
        if "left behind" in (process.info["cmdline"] or ())
        and process.info["status"] != psutil.STATUS_ZOMBIE
    }


def test_no_process_is_left_behind(tmp_path):
    before = left_behind()
    judge = judge_of(tmp_path, "leaves a child", deadline=0.8)
    judge.judge(["good %r0;", "crash %r0;", "hang %r0;"])
    # A killed process is gone a little later.
    end = time.monotonic() + 60
    while not left_behind() <= before and time.monotonic() < end:
        time.sleep(0.05)
    assert left_behind() <= before


def test_a_full_disk_is_said_and_not_taken_for_a_finding(tmp_path, monkeypatch):
    judge = judge_of(tmp_path)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=0))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with pytest.raises(InfrastructureError, match="no space is left"):
        judge.judge(["late_quit %r0;"])


def test_an_assembler_that_vanishes_is_said(tmp_path):
    judge = judge_of(tmp_path)
    judge.assembler.path.unlink()
    with pytest.raises(InfrastructureError, match="cannot be started: No such file"):
        judge.judge(["good %r0;"])


@pytest.mark.parametrize("text", ["", "good;\ngood;", "a\0b;", "a \udc80;"])
def test_what_is_not_one_line_of_text_is_a_usage_error(tmp_path, text):
    with pytest.raises(UsageError, match=r"is not (one line of )?text"):
        judge_of(tmp_path).judge([text])


@pytest.mark.parametrize(
    "options", [{"target": "sm_90; rm"}, {"version": "8"}, {"deadline": float("nan")}]
)
def test_options_that_mean_nothing_are_usage_errors(tmp_path, options):
    with pytest.raises(UsageError):
        ToolJudge(fake(tmp_path), **{"target": "sm_90", "version": "8.0", **options})


def test_a_module_without_a_target_needs_one(tmp_path):
    with pytest.raises(UsageError, match="name the target"):
        judge_module(fake(tmp_path), ".version 8.0\n")
    assert judge_module(fake(tmp_path), ".version 8.0\n", target="sm_90").outcome == 0
