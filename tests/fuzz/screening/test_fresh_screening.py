"""Screening with images of the device, on the simulated one, with a reference for the processor."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
from small_sets import MODULE, MULTIPROCESSORS

from corpus import Kind
from fuzz.runner import RunnerChoice, opened
from fuzz.screening import screen as screen_module
from fuzz.screening.examining import ScreenExaminer
from fuzz.screening.screen import ScreenRun, Sighting
from fuzz.screening.sets import about, candidates, describe, judged, numbered
from oracle.errors import InfrastructureError
from oracle.isa.lookup import warpgroup_forms
from runners import simulated_runner
from runners.protocol import Collected, Compiled, Failure, Images, Ran
from runners.screening import References, Screened, Screening
from runners.simulated_runner import SimulatedRunner
from strategies.contents import expand
from strategies.draws import Selection
from strategies.rounds import Batch, selected_forms

IMAGES = 2
"""Images of a program that the oracle judges before the device makes others."""
WRONG = 5
"""Multiprocessor that is wrong."""


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    try:
        simulated_runner.host_reference()
    except InfrastructureError as error:
        pytest.skip(str(error))


class Defective(SimulatedRunner):
    """A device of which one multiprocessor gets images wrong that are run once."""

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran | Failure:
        ran = super().run(compiled, images, entry=entry)
        if isinstance(ran, Failure):
            return ran
        wrong = ran.images.copy()
        wrong[ran.sms == WRONG, -1] ^= 1
        return replace(ran, images=wrong)


class WrongOnce(SimulatedRunner):
    """A device of which one multiprocessor gets one image wrong, and that one time alone."""

    is_right = False

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran | Failure:
        ran = super().run(compiled, images, entry=entry)
        if isinstance(ran, Failure) or self.is_right or WRONG not in ran.sms:
            return ran
        self.is_right, wrong = True, ran.images.copy()
        wrong[ran.sms.tolist().index(WRONG), -1] ^= 1
        return replace(ran, images=wrong)


class Miscompiled(SimulatedRunner):
    """A device whose code, not one of its multiprocessors, gets some contents wrong.

    Each time in another way, as code does that reads a register which it has not written.
    """

    times = 0

    def __init__(self, period: int = 8) -> None:
        super().__init__()
        self.period = period

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran | Failure:
        ran = super().run(compiled, images, entry=entry)
        if isinstance(ran, Failure):
            return ran
        wrong = ran.images.copy()
        self.times += 1
        wrong[images[:, 0].astype(np.uint16) % self.period == 1, -1] ^= 1 + self.times % 255
        return replace(ran, images=wrong)


def batch() -> Batch:
    forms = selected_forms(
        Selection(pattern="wmma.mma*s8*"), target=MODULE.target.name, version=str(MODULE.version)
    )
    drawn = (one for some in candidates(forms, MODULE, 1) for one in some)
    return next(islice(drawn, 1))


def group_batch() -> Batch:
    """Return a program of a warpgroup."""
    form = next(form for form in warpgroup_forms() if "m64n8k16.f32.f16" in form.opcode)
    (one,) = about([form], [form], MODULE, 1)
    return one


def scalar_batch() -> Batch:
    """Return a program of scalar code alone."""
    forms = selected_forms(Selection(), target=MODULE.target.name, version=str(MODULE.version))
    drawn = (one for some in candidates(forms, MODULE, 1) for one in some)
    return next(one for one in drawn if one.form is None)


@contextmanager
def screening(
    maker: Any = None, fresh: bool = True, drawn: Callable[[], Batch] = batch
) -> Iterator[tuple[Any, deque[Sighting]]]:
    with opened(RunnerChoice(name="sim", target="sm_90", maker=maker)) as ready:
        description = describe(MODULE, seed=1)
        screen = ScreenRun(ready, description, fresh=fresh)
        screen.add(judged(numbered(drawn(), 0, IMAGES), 0, MODULE.target.name))
        yield screen, screen.sightings


def test_a_sound_device_compares_new_images_on_its_multiprocessors() -> None:
    with screening() as (screen, sightings):
        screen.step()
        verified = screen.tally.total.cases
        for _ in range(3):
            screen.step()
        screen.finish()
    assert not sightings
    assert screen.fresh
    assert screen.tally.total.cases - verified >= screen.fresh
    assert screen.tally.multiprocessors.size == MULTIPROCESSORS


def test_a_multiprocessor_that_is_wrong_is_named_and_its_image_is_made_again() -> None:
    with screening(lambda choice: Defective()) as (screen, sightings):
        while not sightings:
            screen.step()
        examiner = ScreenExaminer(screen, device="GPU 3")
        (found,) = examiner.examine(sightings[0])
    assert screen.tally.faulty.tolist() == [WRONG]
    assert found.case.kind is Kind.FLAKY
    assert f"multiprocessor {WRONG}" in found.title
    assert "clock" not in found.sentence
    number = found.case.origin.image
    assert number is not None
    assert number >= IMAGES
    references = sightings[0].item.source.references
    place = references.drawn.index(number)
    one = batch()
    assert np.array_equal(
        references.images[place], expand(one.recipe, one.program, 1, first=number)[0]
    )


def test_one_wrong_image_that_never_comes_again_is_a_finding_of_its_multiprocessor() -> None:
    with screening(lambda choice: WrongOnce()) as (screen, sightings):
        while not sightings:
            screen.step()
        examiner = ScreenExaminer(screen, device="GPU 3")
        (found,) = examiner.examine(sightings[0])
        screen.step()
        screen.finish()
    assert len(sightings) == 1
    assert screen.tally.total.wrong == 1
    assert not screen.miscompiled
    assert found.case.kind is Kind.FLAKY
    assert f"multiprocessor {WRONG} of GPU 3" in found.title
    assert f"on multiprocessor {WRONG}" in found.sentence


@pytest.mark.parametrize("period", [8, 256])
def test_a_program_whose_code_is_wrong_is_left_out_and_says_nothing_of_the_device(
    period: int,
) -> None:
    """Of every eighth image, or of so few that one multiprocessor alone has seen one."""
    with screening(lambda choice: Miscompiled(period)) as (screen, sightings):
        while not screen.miscompiled:
            screen.step()
        screen.finish()
        (one,) = screen.miscompiled.values()
    assert not sightings
    assert not screen.tally.faulty.size
    assert not screen.programs
    said = re.search(r"image (\d+) is wrong on multiprocessors (\d+) and (\d+)", one.why)
    assert said
    assert said[2] != said[3]
    assert f"{one.program} (wmma.mma" in one.why
    made = batch()
    image = expand(made.recipe, made.program, 1, first=int(said[1]))[0]
    assert int(image[0]) % period == 1


class WrongScreening(SimulatedRunner):
    """A device that gets all images of a screening wrong, on some of its multiprocessors."""

    where: Sequence[int]

    def screen(
        self, compiled: Compiled, references: References, *, limit: int, **named: Any
    ) -> Screening:
        others = references.expected.copy()
        others[:, -1] ^= 1
        ran = (
            super()
            .screen(compiled, replace(references, expected=others), limit=limit, **named)
            .collect()
        )
        assert isinstance(ran, Screened)
        here = np.isin(np.arange(ran.ledger.wrong.size), self.where)
        ledger = replace(
            ran.ledger,
            wrong=np.where(here, ran.ledger.wrong, 0).astype(ran.ledger.wrong.dtype),
            differing=tuple(one for one in ran.ledger.differing if here[one.sm]),
        )
        return Collected(outcome=replace(ran, ledger=ledger))


def scalar_screening(
    where: Sequence[int], fresh: bool, drawn: Callable[[], Batch] = scalar_batch
) -> tuple[ScreenRun, deque[Sighting]]:
    def device(choice: RunnerChoice) -> SimulatedRunner:
        made = WrongScreening()
        made.where = where
        return made

    with screening(device, fresh, drawn) as (screen, sightings):
        while not screen.miscompiled and not sightings:
            screen.step()
        screen.finish()
        return screen, sightings


def test_scalar_code_that_is_wrong_everywhere_says_nothing_of_the_device() -> None:
    screen, sightings = scalar_screening(range(1000), True)
    (one,) = screen.miscompiled.values()
    assert not sightings
    assert not screen.tally.faulty.size
    assert not screen.programs
    assert "(scalar code): image" in one.why


def test_scalar_code_that_few_multiprocessors_get_wrong_is_not_left_out() -> None:
    screen, sightings = scalar_screening([3, WRONG], False)
    assert sightings
    assert screen.tally.faulty.tolist() == [3, WRONG]
    assert not screen.miscompiled


def test_code_of_a_warpgroup_that_two_multiprocessors_get_wrong_says_nothing_of_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(screen_module, "AGAIN_SECONDS", 0.0)
    screen, sightings = scalar_screening([3, WRONG], True, group_batch)
    (one,) = screen.miscompiled.values()
    assert not sightings
    assert not screen.tally.faulty.size
    assert "(wgmma.mma_async" in one.why
    assert "is wrong on multiprocessors 3 and 5" in one.why
    screen, sightings = scalar_screening([WRONG], True, group_batch)
    assert sightings
    assert screen.tally.faulty.tolist() == [WRONG]
    assert not screen.miscompiled


def test_a_wrong_reference_ends_the_screening_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    right = simulated_runner.host_reference()

    class Wrong:
        def fill(self, *given: Any) -> Images:
            return right.fill(*given)

        def compare(self, encoded: Any, before: Images, after: Images, first: int) -> Any:
            return replace(
                right.compare(encoded, before, after, first), differing=1, numbers=(first,)
            )

    monkeypatch.setattr(simulated_runner, "host_reference", Wrong)
    with screening() as (screen, sightings):
        screen.step()
        screen.step()
        with pytest.raises(InfrastructureError, match=r"reference on .* is wrong about image"):
            screen.finish()
    assert not sightings
