"""A compiler that moves a warp-level instruction under a condition that differs between lanes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from repro_cases import half, multiplication

from corpus import Kind, ShrinkStatus
from fuzz.diagnosis.culprit import culprit_of
from fuzz.diagnosis.experiments import ExperimentDevice, words_of
from fuzz.findings.verdicts import Subject, attempt
from fuzz.runner import OpenRunner, RunnerChoice, opened
from fuzz.shrinking import shrink, verdicts_by
from runners.emission import emit
from runners.foreign import RewritingRunner

_GUARDED = (
    "{ .reg .pred %half; .reg .b32 %who; mov.u32 %who, %laneid; setp.lt.u32 %half, %who, 16; "
    "@%half bra INSIDE; bra BEHIND; INSIDE: MMA BEHIND: }"
)
PROGRAM = multiplication(half())
SUBJECT = Subject(
    module=emit(PROGRAM), program=PROGRAM, image=np.full(PROGRAM.image_bytes, 7, np.uint8)
)


def moved(ptx: str) -> str:
    return re.sub(r"wmma\.mma[^;]*;", lambda found: _GUARDED.replace("MMA", found[0]), ptx)


@pytest.fixture(scope="module")
def ready() -> Iterator[OpenRunner]:
    with opened(RunnerChoice(name="sim")) as sound:
        yield replace(sound, runner=RewritingRunner(sound.runner, [moved]))


def test_it_is_a_finding_of_its_own_kind_with_the_line(ready: OpenRunner) -> None:
    seen = attempt(ready.runner, SUBJECT)
    assert seen.kind is Kind.DIVERGENCE
    assert seen.failure is not None
    number = re.match(r"line (\d+): divergent warp", seen.failure.detail)
    assert number is not None
    assert "wmma.mma" in moved(SUBJECT.module.ptx).splitlines()[int(number[1]) - 1]


def test_it_is_named_after_the_instruction_and_made_smaller(ready: OpenRunner) -> None:
    device = ExperimentDevice(ready.runner, SUBJECT.module)
    culprit = culprit_of(device, SUBJECT.program, SUBJECT.image)
    assert culprit is not None
    assert words_of(culprit) == "wmma.mma"
    shrunk = shrink(SUBJECT, verdicts_by(ready.runner), wanted=Kind.DIVERGENCE)
    assert shrunk.status is ShrinkStatus.COMPLETE
    assert shrunk.tried > 1
    assert not shrunk.subject.image.any()
