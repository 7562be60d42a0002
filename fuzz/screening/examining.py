"""Runs again what differed while screening: there and elsewhere, at once and after a pause."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from corpus import Case, Corpus, Identity, Kind, Origin, Saved, ShrinkStatus
from corpus.known import Known, Row
from fuzz.findings.case import Evidence, case_of, files_of
from fuzz.findings.families import (
    Bucket,
    bucket_of_difference,
    bucket_of_failure,
    bucket_of_flaky,
    form_name,
)
from fuzz.findings.verdicts import Attempt, Subject, differences, judge
from fuzz.kinds import sentence
from fuzz.runner import kind_of_failure
from fuzz.screening.screen import MOST_FAULTY, ScreenItem, ScreenRun, Sighting
from oracle.isa.targets import Module
from runners.emission import emit
from runners.ledger import Differing, Rate
from runners.protocol import Failure
from runners.screening import Screened
from strategies.features import main_form

_HOT_SECONDS = 0.5  # time of the replay right after the launch, while the device is hot
_PAUSE_SECONDS = 1.0  # time that the device has nothing to do before the replay after a pause
_COOL_SECONDS = 0.05  # time of that replay: so short that it stays cool
_MOST_EXAMINED = 8
"""Programs of which an image is replayed; what others get wrong is only counted, because a device
that is wrong in all of them has to be screened on."""
_MOST_NAMED = 1024
"""Programs that a finding names: more than a set has, and a bound for campaigns of weeks."""
_COPIES = 256  # warps of a stored case: more than a device has multiprocessors (132 on an H200)
_MULTIPROCESSOR, _INSTRUCTIONS, _CLOCK = "multiprocessor", "instructions", "clock of the device"
_SET = "set"
_NOT_SAID = (_MULTIPROCESSOR, _INSTRUCTIONS, _CLOCK, _SET, "model")
"""Details that the sentence about a finding leaves to its title and its page."""

_Again = tuple[Rate, Rate] | Failure
"""What became of an image that was run again on all multiprocessors: the rates of the one where it
had differed, and of all others."""


@dataclass(kw_only=True)
class ScreenFinding:
    """Something that differed, or a program that brought the device down."""

    case: Case
    files: Mapping[str, bytes]
    sentence: str  # where, how often, and under which circumstances
    programs: list[str]  # names of the programs that show it
    instructions: list[str]  # what these programs are about, each once
    wrong: int = 1  # images that differed, or launches that failed, when it was found
    saved: Saved | None = None  # where it is in the corpus; None until `keep` has stored it
    known: Row | None = None  # why it needs not be reported; None if nobody has explained it

    @property
    def title(self) -> str:
        """The line that a person reads of it, and as what it is known."""
        return sentence(self.case) + (f" (known: {self.known.id})" if self.known else "")

    @property
    def path(self) -> str:
        """Where it is stored; empty until then."""
        return "" if self.saved is None else str(self.saved.path)

    def keep(self, corpus: Corpus, known: Known) -> bool:
        """Store it, or what has become known of it; tell whether it was not there."""
        self.known = known.match(self.case)
        if self.saved is not None:
            corpus.learn(self.case, self.files)
            return False
        self.saved = corpus.add(self.case, self.files)
        return True


class ScreenExaminer:
    """Replays what one device, named such as "GPU 2", got wrong, the first of each cause."""

    def __init__(self, screen: ScreenRun, *, device: str) -> None:
        self.screen, self.device = screen, device
        self.findings: dict[Identity, ScreenFinding] = {}
        self._examined: set[str] = set()  # names of the programs whose images were replayed

    def new(self) -> Iterator[ScreenFinding]:
        """Take in what launches showed; iterate over findings that are new, or have become wider.

        A finding that has become wider has a case of the same identity as before.
        """
        while self.screen.sightings:
            yield from self.examine(self.screen.sightings.popleft())

    def examine(self, sighting: Sighting) -> Iterator[ScreenFinding]:
        """Do so for one launch."""
        item, first = sighting.item, {one.sm: one for one in reversed(sighting.differing)}
        if sighting.failure is not None:
            found = [self._failure(item, sighting.failure)]
        else:
            # Where none is kept it is only counted: there are enough like it.
            shown = first.values() if self._is_local(item) else sighting.differing[:1]
            found = [self._differing(item, one) for one in shown]
        for one in filter(None, found):
            one.wrong = sighting.wrong
            yield one

    def _is_local(self, item: ScreenItem) -> bool:
        """Whether few multiprocessors are wrong: in a program, and in all with few."""
        wrong = {name: each > 0 for name, each in self.screen.tally.programs.items()}
        few = [each for each in wrong.values() if each.sum() <= MOST_FAULTY]
        own = wrong[item.source.entry]
        return int(own.sum()) <= MOST_FAULTY and int(np.any(few, axis=0).sum()) <= MOST_FAULTY

    def _multiprocessor(self, kind: Kind, sm: int) -> Bucket:
        uuid = self.screen.ready.uuid or self.device
        return Bucket.of(kind, f"multiprocessor {sm} of {uuid}")

    def _differing(self, item: ScreenItem, one: Differing) -> ScreenFinding | None:
        source = item.source
        there = self.findings.get(self._multiprocessor(Kind.FLAKY, one.sm).identity)
        if there is not None and self._is_local(item):
            return _joined(there, item)
        if source.entry in self._examined or len(self._examined) >= _MOST_EXAMINED:
            return None
        self._examined.add(source.entry)
        hot = self._replay(item, one, _HOT_SECONDS)
        time.sleep(_PAUSE_SECONDS)
        cool = self._replay(item, one, _COOL_SECONDS)
        image = np.array(source.references.images[one.image])
        expected = np.array(source.references.expected[one.image])
        form = main_form(source.program)
        (verdict,) = judge(
            source.program, image[None], one.actual[None], target=self.screen.oracle_target,
            expected=expected[None],
        )  # fmt: skip
        if verdict is None:
            return None  # by the bounds alone: the model has no figures of the compiler
        again = [replay for replay in (hot, cool) if not isinstance(replay, Failure)]
        steady = bool(again) and all(here.wrong == here.cases for here, _ in again)
        kind = verdict if steady else Kind.FLAKY
        if self._is_local(item) and not any(others.wrong for _, others in again):
            bucket = self._multiprocessor(kind, one.sm)
        elif steady:
            found = differences(source.program, expected, one.actual)
            bucket = bucket_of_difference(kind, form, outside=found.outside)
        else:
            bucket = bucket_of_flaky(form)
        attempt = Attempt(
            kind=verdict, actual=one.actual[None], expected=expected, sms=(one.sm,), failed=1,
            compiled=None,
        )  # fmt: skip
        model, set_name = self.screen.description.model, Path(self.screen.set_name).name
        words: dict[str, str | int] = {
            _MULTIPROCESSOR: one.sm,
            **({} if one.warp is None else {"warp slot": one.warp}),
            **({} if one.nanoseconds is None else {_CLOCK: f"{one.nanoseconds} ns"}),
            "while screening": f"{self.screen.tally.rate(one.sm)} on multiprocessor {one.sm}",
            "again at once": _words(hot, one.sm),
            "again after a pause": _words(cool, one.sm),
            _INSTRUCTIONS: form_name(form),
            **({_SET: set_name} if set_name else {}),
            **({"model": model} if model else {}),
        }
        return self._found(item, bucket, attempt, one.image, words)

    def _replay(self, item: ScreenItem, one: Differing, seconds: float) -> _Again:
        outcome = self.screen.again(item, one.image, seconds)
        if not isinstance(outcome, Screened):
            kind_of_failure(outcome)
            return outcome
        cases, wrong = (
            each.astype(np.int64) for each in (outcome.ledger.finished, outcome.ledger.wrong)
        )
        here = Rate(cases=int(cases[one.sm]), wrong=int(wrong[one.sm]))
        return here, Rate(cases=int(cases.sum()) - here.cases, wrong=int(wrong.sum()) - here.wrong)

    def _failure(self, item: ScreenItem, failure: Failure) -> ScreenFinding | None:
        kind = kind_of_failure(failure)
        bucket = bucket_of_failure(kind, main_form(item.source.program), failure)
        attempt = Attempt(kind=kind, failure=failure, failed=1)
        words = {"while screening": f"{len(item.failures)} launches of {item.source.entry} failed"}
        return self._found(item, bucket, attempt, 0, words)

    def _found(
        self, item: ScreenItem, bucket: Bucket, attempt: Attempt, image: int,
        words: Mapping[str, str | int],
    ) -> ScreenFinding | None:  # fmt: skip
        """Return a finding, and remember it; None, where its cause has one already."""
        source, description = item.source, self.screen.description
        key = bucket.identity
        if key in self.findings:
            self.findings[key].programs.append(source.entry)
            return None
        module = Module.named(description.target, description.ptx_version)
        subject = Subject(
            module=emit(source.program, module=module),
            program=source.program,
            image=np.array(source.references.images[image]),
            copies=1 if attempt.failure is not None else _COPIES,
        )
        evidence = Evidence(kind=bucket.kind, bucket=bucket, subject=subject, attempts=[attempt])
        drawn = source.references.drawn
        number = drawn[image] if drawn else image
        origin = Origin(seed=description.seed, round=source.round, image=number)
        case = case_of(evidence, self.screen.ready, origin=origin, status=ShrinkStatus.RAW)
        shown = (f"{name}: {words[name]}" for name in words if name not in _NOT_SAID)
        self.findings[key] = ScreenFinding(
            case=msgspec.structs.replace(case, details={**case.details, **words}),
            files=files_of(evidence),
            sentence="; ".join((self.device, *shown)),
            programs=[source.entry],
            instructions=[form_name(main_form(source.program))],
        )
        return self.findings[key]


def _joined(there: ScreenFinding, item: ScreenItem) -> ScreenFinding | None:
    """Add a program to the finding of a multiprocessor; return it if that says more."""
    name = form_name(main_form(item.source.program))
    if item.source.entry not in there.programs and len(there.programs) < _MOST_NAMED:
        there.programs.append(item.source.entry)
    if name in there.instructions:
        return None
    there.instructions.append(name)
    details = {**there.case.details, _INSTRUCTIONS: "; ".join(there.instructions)}
    there.case = msgspec.structs.replace(there.case, details=details)
    return there


def _words(replay: _Again, sm: int) -> str:
    if isinstance(replay, Failure):
        return str(replay)
    here, others = replay
    return f"{here} on multiprocessor {sm}, {others} on all others"
