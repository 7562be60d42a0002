"""How shrinking ends: complete, capped or flaky, whatever the verdicts are like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from shrinking_cases import WANTED, subjects, verdicts_of

from corpus import Kind, ShrinkStatus
from fuzz.findings.verdicts import Subject
from fuzz.shrinking import Trials, shrink, verdicts_by
from oracle.program.program import walk
from runners.protocol import Compiled, Failure, ForwardingRunner, Images, Trouble
from runners.simulated_runner import SimulatedRunner
from strategies.simplification.values import complexity


@settings(max_examples=2, phases=[Phase.generate])
@given(subjects())
def test_without_time_the_case_comes_back_capped(subject: Subject) -> None:
    got = shrink(subject, verdicts_of(lambda _: True), wanted=WANTED, seconds=0)
    assert got.status is ShrinkStatus.CAPPED
    assert got.subject.program == subject.program
    assert (got.subject.image == subject.image).all()


@pytest.mark.parametrize("good", [0, 1, 2, 5])
@settings(max_examples=1, phases=[Phase.generate])
@given(subjects())
def test_a_failure_that_stops_is_flaky_and_comes_back_as_it_was(
    good: int, subject: Subject
) -> None:
    calls = 0

    def verdicts(candidates: Sequence[Subject]) -> list[Kind | None]:
        nonlocal calls
        calls += 1
        return [WANTED if calls <= good else None for _ in candidates]

    got = shrink(subject, verdicts, wanted=WANTED, seconds=600)
    assert got.status is ShrinkStatus.FLAKY
    assert got.subject is subject


@settings(max_examples=2, phases=[Phase.generate])
@given(subjects())
def test_another_kind_of_failure_is_not_taken_for_the_wanted_one(subject: Subject) -> None:
    def verdicts(candidates: Sequence[Subject]) -> list[Kind | None]:
        return [WANTED if one.program == subject.program else Kind.DEVIATION for one in candidates]

    got = shrink(subject, verdicts, wanted=WANTED, seconds=600)
    assert got.subject.program == subject.program
    assert got.status is ShrinkStatus.COMPLETE
    assert complexity(got.subject.program, got.subject.image) == 0


@pytest.mark.parametrize("wanted", [Kind.HANG, Kind.CRASH, Kind.LAUNCH_FAILURE])
@settings(max_examples=2, phases=[Phase.generate])
@given(subjects())
def test_of_what_brings_a_runner_down_few_are_tried_at_once(wanted: Kind, subject: Subject) -> None:
    sizes = []

    def verdicts(candidates: Sequence[Subject]) -> list[Kind | None]:
        sizes.append(len(candidates))
        return [wanted] * len(candidates)

    got = shrink(subject, verdicts, wanted=wanted, seconds=600)
    assert max(sizes) <= 4
    assert got.status is ShrinkStatus.COMPLETE
    assert got.tried == sum(sizes)
    # Seven where two products of different types hang together: neither can go alone.
    assert sum(1 for _ in walk(got.subject.program.steps)) <= 7
    assert not got.subject.image.any()


@settings(max_examples=1, phases=[Phase.generate])
@given(subjects())
def test_what_fails_in_company_is_believed_only_where_it_fails_alone(subject: Subject) -> None:
    liar = subject.image ^ 1
    asked = []

    def verdicts(candidates: Sequence[Subject]) -> list[Kind | None]:
        asked.append(len(candidates))
        lies = [len(candidates) == 1 and (one.image == liar).all() for one in candidates]
        return [None if lie else WANTED for lie in lies]

    trials = Trials(subject, verdicts, wanted=WANTED, end=math.inf)
    first = trials.best
    lying, honest = (first.with_image(image) for image in (liar, subject.image ^ 2))
    assert trials.fail([lying, honest]) == [True, True]
    assert trials.take(honest)
    assert trials.best is honest
    assert not trials.take(lying)
    assert asked == [2, 1, 1]
    assert trials.best is honest
    # What has failed alone is not asked again.
    assert trials.fail([first]) == [True]
    assert trials.take(first)
    assert asked == [2, 1, 1, 1]


@settings(max_examples=3, phases=[Phase.generate])
@given(subjects())
def test_of_images_that_are_run_together_only_those_that_fail_are_wrong(subject: Subject) -> None:
    images = [subject.image ^ np.uint8(change) for change in (0, 1, 0, 3)]
    bad = images[3].tobytes()

    class Trapping(ForwardingRunner):
        def run(self, compiled: Compiled, images: Images, *, entry: str | None = None):
            if any(image.tobytes() == bad for image in images):
                return Failure(trouble=Trouble.LAUNCH_FAILURE, message="a trap")
            return super().run(compiled, images, entry=entry)

    verdicts = verdicts_by(Trapping(SimulatedRunner("sm_90")))
    for some, wanted in (
        (images, [None, None, None, Kind.LAUNCH_FAILURE]),
        (images[3:], [Kind.LAUNCH_FAILURE]),
    ):
        found = verdicts([replace(subject, image=one) for one in some])
        assert list(found) == wanted
