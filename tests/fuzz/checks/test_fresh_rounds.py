"""Campaigns that go on with images of the device and compare them with its reference.

The device is the simulated one, and the reference that of the GPU, built for the processor.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import force_setattr
from value_runs import campaign, entries

from corpus import Kind
from fuzz.bench import Silence
from fuzz.campaign.status import CampaignStatus, summary
from fuzz.campaign.store import State
from fuzz.checks import fresh, idle, programs
from fuzz.checks.programs import Programs
from fuzz.checks.protocol import REFERENCE, OpenCheck, RoundJob, RoundReport, Stage, nested
from fuzz.commands.run import _resolved, resumed
from fuzz.console.report import reference_lines
from fuzz.options.testing import Run
from fuzz.runner import RunnerChoice, opened
from oracle.errors import InfrastructureError
from runners import simulated_runner
from runners.protocol import Compiled, Failure, Images, Ran, Trouble
from runners.reference.encoding import Encoded
from runners.reference.self_check import Compared
from runners.reference.shipped import HostReference
from runners.simulated_runner import SimulatedRunner
from strategies.contents import expand
from strategies.draws import Selection
from strategies.rounds import Batch, ProgramCoverage, round_batches, round_key, selected_forms

ONLY = "wmma.mma*s8*"
FIRST = 1
"""Images of each program that the oracle judges; the device makes those from here on."""


@pytest.fixture(scope="module", autouse=True)
def built() -> HostReference:
    try:
        return simulated_runner.host_reference()
    except InfrastructureError as error:
        pytest.skip(str(error))


def is_met(image: Images, residue: int = 5) -> bool:
    """Whether an image is one of those that a defect depends on."""
    return zlib.crc32(image) % 16 == residue


STOPS = 0
"""Residue of the images at which a device stops; none that the oracle judges has it."""


class Defective(SimulatedRunner):
    """A device that gets the last bit wrong, for some contents."""

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran | Failure:
        ran = super().run(compiled, images, entry=entry)
        if isinstance(ran, Failure):
            return ran
        wrong = ran.images.copy()
        wrong[[is_met(image) for image in images], -1] ^= 1
        return replace(ran, images=wrong)


class Trapping(SimulatedRunner):
    """A device that stops, for some contents."""

    def run(self, compiled: Compiled, images: Images, *, entry: str | None = None) -> Ran | Failure:
        if any(is_met(image, STOPS) for image in images):
            return Failure(trouble=Trouble.STICKY_ERROR, message="it stops")
        return super().run(compiled, images, entry=entry)


def sound(choice: RunnerChoice) -> SimulatedRunner:
    return SimulatedRunner()


def defective(choice: RunnerChoice) -> Defective:
    return Defective()


def trapping(choice: RunnerChoice) -> Trapping:
    return Trapping()


def check_of(maker: Any) -> Programs:
    return Programs(
        choice=RunnerChoice(name="sim", maker=maker, ptx_version="8.7"),
        seed=3,
        selection=Selection(pattern=ONLY),
        images=FIRST,
        reference=True,
    )


def reports(maker: Any, rounds: int = 1, *, reference: bool = True) -> list[RoundReport]:
    check = replace(check_of(maker), reference=reference)
    with check.opened(Silence()) as opened_check:
        plan = check.plan(opened_check.facts)
        known = plan.coverage()
        return [
            opened_check.round(RoundJob(number=at, plan=plan.round(at, known)))
            for at in range(rounds)
        ]


def counts_of(made: list[RoundReport]) -> Counter[tuple[str, ...]]:
    every = sum((report.counts for report in made), Counter())
    return Counter({words[1:]: n for words, n in every.items() if words[0] == REFERENCE})


def shown(made: list[RoundReport]) -> list[tuple[str, int, Images]]:
    """Return family, number and contents of the image that each suspect shows."""
    found = []
    for report in made:
        for suspect in (*report.suspects.values(), *report.apart):
            assert suspect.case is not None
            number = suspect.case.origin.image
            assert number is not None
            found.append(
                (suspect.bucket.key, number, np.load(BytesIO(suspect.files["input.npy"]))[0])
            )
    return found


def numbers(made: list[RoundReport]) -> list[tuple[str, int]]:
    return [(key, number) for key, number, _ in shown(made)]


def test_a_sound_device_and_its_reference_agree_and_are_counted_apart() -> None:
    made = reports(sound, 2)
    counts = counts_of(made)
    assert not shown(made)
    assert counts["images",] > 200
    assert counts["programs",] + counts["programs left out",] == 16
    assert set(counts) <= {("images",), ("programs",), ("programs left out",)}
    assert all(report.cases == report.compared == 8 * FIRST for report in made)


def test_a_round_has_the_same_programs_images_and_suspects_whatever_came_of_idle_time() -> None:
    with_it, without = (reports(defective, 2, reference=one) for one in (True, False))
    assert any(report.apart for report in with_it)
    assert counts_of(without) == {}
    for one, other in zip(with_it, without, strict=True):
        assert one.coverage.state() == other.coverage.state()
        one.apart, one.coverage, one.counts = other.apart, other.coverage, other.counts
        for suspect in (*one.suspects.values(), *other.suspects.values()):
            assert suspect.case is not None
            force_setattr(suspect.case, "created", "")  # seconds lie between
        assert one == other


def with_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have threads compare, as on a GPU, as many images as are compared without them."""
    monkeypatch.setattr(idle, "_IDLE", ("sim",))
    monkeypatch.setattr(idle, "_FIRST", {True: 32})
    monkeypatch.setattr(idle, "_MOST", {True: 1})


def round_of(check: Programs, opened_check: OpenCheck, number: int, **named: int) -> RoundJob:
    plan = check.plan(opened_check.facts).round(number, ProgramCoverage())
    return RoundJob(number=number, plan=plan, **named)


def test_a_thread_compares_what_rounds_have_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, check = reports(defective), check_of(defective)
    with_threads(monkeypatch)
    with check.opened(Silence()) as opened_check:
        made, end = [opened_check.round(round_of(check, opened_check, 0))], time.monotonic() + 60
        while counts_of(made) != counts_of(alone):
            assert time.monotonic() < end
            time.sleep(0.01)
            # What the thread has found comes with a later round, as of its own.
            made.append(opened_check.round(round_of(check, opened_check, 1, limit=0)))
    assert {key for key, _ in numbers(made)} == {key for key, _ in numbers(alone)}
    assert {*numbers(made)} >= {*numbers(alone)}
    assert {one.case.origin.round for report in made for one in report.apart if one.case} == {0}


def test_two_workers_use_a_device_until_no_more_rounds_are_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_threads(monkeypatch)
    heartbeat, check, before = Silence(), check_of(sound), set(threading.enumerate())
    with ExitStack() as stack:
        for _ in range(3):
            opened_check = stack.enter_context(check.opened(heartbeat))
            opened_check.round(round_of(check, opened_check, 0))
        threads = set(threading.enumerate()) - before
        assert len(threads) == 2
        assert all(thread.is_alive() for thread in threads)
        heartbeat.interrupted = True
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()


def test_a_defect_that_depends_on_contents_is_found_by_number_and_made_again_here() -> None:
    made = reports(defective, 2)
    counts = counts_of(made)
    assert counts["differing",] > 4
    assert counts["judged",] == counts["differing",]
    assert not {"reference wrong", "once", "failed"} & {words[0] for words in counts}
    by_unit = {words[1:]: n for words, n in counts.items() if words[0] == "wrong on"}
    assert sum(by_unit.values()) == counts["differing",]
    assert {device for device, _ in by_unit} == {"device 0"}
    later = [(number, image) for _, number, image in shown(made) if number >= FIRST]
    assert later
    batches = [batch for number in range(2) for batch in batches_of(number)]
    for number, image in later:
        again = [expand(one.recipe, one.program, 1, first=number)[0] for one in batches]
        assert any(np.array_equal(one, image) for one in again)


def batches_of(number: int) -> Iterator[Batch]:
    check = check_of(sound)
    with check.opened(Silence()) as opened_check:
        plan = check.plan(opened_check.facts)
        work = plan.round(number, plan.coverage()).work
    forms = selected_forms(check.selection, target="sm_90", version="8.7")
    key = round_key(check.seed, number)
    return round_batches(
        forms, target="sm_90", version="8.7", key=key, focuses=work.focuses, count=work.count
    )


class Interrupting(Silence):
    """Asks for an end after some signs of life."""

    def __init__(self, beats: int) -> None:
        self._left = beats

    @property
    def interrupted(self) -> bool:
        return self._left <= 0

    def enter(self, stage: Stage, *, round: int | None = None) -> None:  # noqa: A002
        self._left -= 1


def test_nothing_is_skipped_and_nothing_twice_where_a_round_is_cut() -> None:
    (whole,) = reports(defective)
    check = check_of(defective)
    parts: list[RoundReport] = []
    heartbeat: Silence = Interrupting(beats=14)
    while not parts or not parts[-1].complete:
        with check.opened(heartbeat) as opened_check:
            plan = check.plan(opened_check.facts)
            drawn, skip = plan.round(0, plan.coverage()), sum(part.cases for part in parts)
            # The second part ends at its limit, and the last with the round.
            limit = 3 if len(parts) == 1 else None
            job = RoundJob(number=0, plan=drawn, skip=skip, limit=limit)
            parts.append(opened_check.round(job))
        heartbeat = Silence()
    assert len(parts) == 3
    assert sum(part.cases for part in parts) == whole.cases
    assert counts_of(parts) == counts_of([whole])
    assert {*numbers(parts)} >= {*numbers([whole])}


class Told:
    """A reference that is wrong about a comparison, by `says`, or flips a bit of what it fills."""

    def __init__(self, right: HostReference, says: Any = None, flips: int = 0) -> None:
        self._right, self._says, self._flips = right, says, flips

    def fill(self, *given: Any) -> Images:
        images = self._right.fill(*given)
        images[:, 0] ^= self._flips
        return images

    def compare(self, encoded: Encoded, before: Images, after: Images, first: int) -> Compared:
        found = self._right.compare(encoded, before, after, first)
        return found if self._says is None else self._says(found, first)


def says_that_the_first_differs(found: Compared, first: int) -> Compared:
    others = {*found.numbers} | {first}
    return replace(found, numbers=tuple(sorted(others)), differing=len(others))


def says_that_all_agree(found: Compared, first: int) -> Compared:
    return replace(found, numbers=(), differing=0)


def told(monkeypatch: pytest.MonkeyPatch, reference: Told) -> None:
    monkeypatch.setattr(simulated_runner, "host_reference", lambda: reference)
    monkeypatch.setattr(fresh, "SAMPLED", 7)


def test_a_wrong_reference_raises_no_alarm_is_told_and_left_out(
    built: HostReference, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(monkeypatch, Told(built, says_that_the_first_differs))
    made = reports(sound, 2)
    counts = counts_of(made)
    assert not shown(made)
    wrong = {words[1]: n for words, n in counts.items() if words[0] == "reference wrong"}
    assert wrong
    assert set(wrong.values()) == {1}, "a form is left out at once"
    assert counts["programs left out",] + counts["programs",] == 16
    _, *odd = reference_lines(sum((one.counts for one in made), Counter()))
    assert len(odd) == len(wrong)
    assert all(any(form in str(one) for one in odd) for form in wrong)


def test_what_the_reference_was_wrong_about_is_left_out_by_every_worker(
    built: HostReference, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told(monkeypatch, Told(built, says_that_the_first_differs))
    options: dict[str, Any] = {"only": ONLY, "images": FIRST, "seed": 3, "reference": True}
    with opened(check_of(sound).choice) as ready:
        one = campaign(ready, tmp_path, cases=8, **options)
        status = one.run()
    wrong = {words[2] for words in status.counts if words[1] == "reference wrong"}
    assert wrong
    assert one._settled >= wrong
    check = check_of(sound)
    with check.opened(Silence()) as opened_check:
        plan = check.plan(opened_check.facts)
        job = RoundJob(number=0, plan=plan.round(0, plan.coverage()), settled=one._settled)
        report = opened_check.round(job)
    assert not wrong & {words[2] for words in report.counts if words[1] == "reference wrong"}
    assert report.counts[REFERENCE, "programs left out"] >= len(wrong)


def test_a_reference_that_is_wrong_once_leaves_nothing_out(
    built: HostReference, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = {"is": True}

    def says(found: Compared, number: int) -> Compared:
        if not first.pop("is", False):
            return found
        return says_that_the_first_differs(found, number)

    told(monkeypatch, Told(built, says))
    (report,) = reports(sound)
    assert not shown([report])
    assert counts_of([report])["once",] == 1
    assert not any(words[0] == "reference wrong" for words in counts_of([report]))


def test_a_sample_of_what_agrees_shows_a_reference_that_is_wrong_like_the_device(
    built: HostReference, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(monkeypatch, Told(built, says_that_all_agree))
    made = reports(defective, 2)
    counts = counts_of(made)
    assert not counts["differing",]
    assert counts["judged",] >= (counts["images",] - 2 * 16 * 7) // 7
    assert any(words[0] == "reference wrong" for words in counts)
    assert any(number >= FIRST for _, number in numbers(made))


def test_contents_that_the_device_makes_otherwise_are_seen_in_the_sample(
    built: HostReference, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(monkeypatch, Told(built, flips=1))
    (report,) = reports(sound)
    assert not shown([report])
    assert any(words[0] == "reference wrong" for words in counts_of([report]))


def test_an_image_at_which_the_device_stops_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_ISOLATED", 4)
    made = reports(trapping)
    assert counts_of(made)["failed",] > 0
    ((_, number, image),) = shown(made)
    assert number >= FIRST
    assert is_met(image, STOPS)


@given(
    first=st.integers(0, 1 << 40),
    count=st.integers(1, 1 << 18),
    bad=st.sets(st.integers(0, (1 << 18) - 1), max_size=3),
    enough=st.integers(1, 4096),
)
def test_an_image_that_ends_a_run_is_among_those_that_are_looked_at(first, count, bad, enough):
    def runs(start: int, some: int) -> bool:
        assert first <= start < start + some <= first + count
        return not any(start <= first + one < start + some for one in bad)

    found = fresh.narrowed(runs, first, count, enough)
    there = {first + one for one in bad if one < count}
    assert len(found) <= enough
    assert not there or there & set(found)


def test_a_campaign_stores_and_replays_what_differs_and_goes_on_when_resumed(
    tmp_path: Path,
) -> None:
    options: dict[str, Any] = {"only": ONLY, "images": FIRST, "seed": 3, "reference": True}
    choice = check_of(defective).choice
    whole, part = tmp_path / "whole", tmp_path / "part"

    def run(folder: Path, cases: int, *, resumed: bool = False) -> CampaignStatus:
        with opened(choice) as ready:
            one = campaign(ready, folder, cases=cases, resumed=resumed, **options)
            one.triage.shrinks = lambda case: False
            try:
                return one.run()
            finally:
                one._store.close()

    status = run(whole, 16)
    run(part, 5)
    again = run(part, 16, resumed=True)
    assert status.counts["verdicts", Kind.VIOLATION] > 16 or len(entries(whole)) > 0
    ours = {words: n for words, n in status.counts.items() if words[0] == REFERENCE}
    assert ours[REFERENCE, "images"] > 200
    assert ours == {words: n for words, n in again.counts.items() if words[0] == REFERENCE}
    assert status.cases == again.cases == status.compared == 16
    assert summary(status)["device_reference"] == nested(status.counts)["device_reference"]
    assert {one.id for one in entries(whole)} <= {one.id for one in entries(part)}
    assert status.gone == 0


@pytest.mark.parametrize("runner", ["cuda", "sim"])
@pytest.mark.parametrize("stored", [True, False])
def test_a_campaign_that_is_resumed_has_its_reference_again(runner: str, stored: bool) -> None:
    asked = {"runner": runner, "device_reference": stored}
    state = State(options={}, asked=asked, started="")
    assert _resolved(resumed(Run(), state), ()).device_reference is stored
