"""What differed while screening, run again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

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
from fuzz.findings.verdicts import Attempt, Subject, differ_outside, judge
from fuzz.kinds import sentence
from fuzz.runner import kind_of_failure
from fuzz.screening.screen import AGAIN_SECONDS, MOST_FAULTY, ScreenItem, ScreenRun, Sighting
from oracle.models import model_for
from runners.emission import emit
from runners.ledger import Differing, Rate
from runners.protocol import Failure
from strategies.features import main_form

_MOST_EXAMINED = 8  # programs of which an image is replayed; the rest is only counted
_MOST_NAMED = 1024  # programs that a finding names
_COPIES = 256  # warps of a stored case: more than a device has multiprocessors (132 on an H200)


@dataclass(kw_only=True)
class ScreenFinding:
    """Something that differed, or a program that brought the device down."""

    case: Case
    files: Mapping[str, bytes]
    sentence: str  # where, how often, and under which circumstances
    programs: list[str]  # names of the programs that show it
    instructions: list[str]  # what these programs are about, each once
    saved: Saved | None = None  # where it is in the corpus; None until `keep` has stored it
    known: Row | None = None  # why it needs not be reported; None if nobody has explained it

    @property
    def title(self) -> str:
        """The line that a person reads of it, and as what it is known."""
        return sentence(self.case) + (f" (known: {self.known.id})" if self.known else "")

    def keep(self, corpus: Corpus, known: Known) -> None:
        """Store it, or find out as what it is known."""
        self.known = known.match(self.case)
        self.saved = corpus.add(self.case, self.files)


class ScreenExaminer:
    """Replays what one device, named such as "GPU 2", got wrong, the first of each cause."""

    def __init__(self, screen: ScreenRun, *, device: str) -> None:
        self.screen, self.device = screen, device
        self.findings: dict[Identity, ScreenFinding] = {}
        self._examined: set[str] = set()  # names of the programs whose images were replayed

    def new(self) -> Iterator[ScreenFinding]:
        """Take in what launches showed; iterate over findings that are new."""
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
        yield from filter(None, found)

    def _is_local(self, item: ScreenItem) -> bool:
        """Whether few multiprocessors are wrong: in a program, and in all with few."""
        wrong = {name: each > 0 for name, each in self.screen.tally.programs.items()}
        few = [each for each in wrong.values() if each.sum() <= MOST_FAULTY]
        own = int(wrong[item.source.entry].sum())
        return max(own, int(np.any(few, axis=0).sum())) <= MOST_FAULTY

    def _multiprocessor(self, kind: Kind, sm: int) -> Bucket:
        return Bucket.of(kind, f"multiprocessor {sm} of {self.screen.ready.uuid or self.device}")

    def _differing(self, item: ScreenItem, one: Differing) -> ScreenFinding | None:
        source, is_local = item.source, self._is_local(item)
        there = self.findings.get(self._multiprocessor(Kind.FLAKY, one.sm).identity)
        if there is not None and is_local:
            _widen(there, item)
            return None
        if source.entry in self._examined or len(self._examined) >= _MOST_EXAMINED:
            return None
        self._examined.add(source.entry)
        again = self.screen.again(item, one.image, AGAIN_SECONDS)
        image = np.array(source.references.images[one.image])
        expected = np.array(source.references.expected[one.image])
        (verdict,) = judge(
            source.program, image[None], one.actual[None], target=self.screen.ready.oracle_target,
            expected=expected[None],
        )  # fmt: skip
        if verdict is None:
            return None  # by the bounds alone: the model has no figures of the compiler
        form, here, others = main_form(source.program), Rate(cases=0, wrong=0), None
        if isinstance(again, Failure):
            kind_of_failure(again)
            said = f"{again}"
        else:
            cases, wrong = again.ledger.finished, again.ledger.wrong
            here = Rate(cases=int(cases[one.sm]), wrong=int(wrong[one.sm]))
            others = Rate(cases=int(cases.sum()) - here.cases, wrong=int(wrong.sum()) - here.wrong)
            said = f"{here} on multiprocessor {one.sm}, {others} on all others"
        steady = others is not None and here.wrong == here.cases
        kind = verdict if steady else Kind.FLAKY
        if is_local and not (others and others.wrong):
            bucket = self._multiprocessor(kind, one.sm)
        elif steady:
            outside = differ_outside(source.program, expected[None], one.actual[None])
            bucket = bucket_of_difference(kind, form, outside=outside)
        else:
            bucket = bucket_of_flaky(form)
        attempt = Attempt(
            kind=verdict, actual=one.actual[None], expected=expected, sms=(one.sm,), failed=1
        )
        told: dict[str, str | int | None] = {
            "while screening": f"{self.screen.tally.rate(one.sm)} on multiprocessor {one.sm}",
            "again at once": said,
            "warp slot": one.warp,
            "multiprocessor": one.sm,
            "clock of the device": one.nanoseconds and f"{one.nanoseconds} ns",
            "instructions": form_name(form),
            "model": model_for(self.screen.ready.oracle_target).name,
        }
        return self._found(item, bucket, attempt, one.image, told)

    def _failure(self, item: ScreenItem, failure: Failure) -> ScreenFinding | None:
        kind = kind_of_failure(failure)
        bucket = bucket_of_failure(kind, main_form(item.source.program), failure)
        attempt = Attempt(kind=kind, failure=failure, failed=1)
        said = f"{len(item.failures)} launches of {item.source.entry} failed"
        return self._found(item, bucket, attempt, 0, {"while screening": said})

    def _found(
        self, item: ScreenItem, bucket: Bucket, attempt: Attempt, image: int,
        told: Mapping[str, str | int | None],
    ) -> ScreenFinding | None:  # fmt: skip
        """Return a finding, and remember it; None, where its cause has one already."""
        source, description = item.source, self.screen.description
        if (there := self.findings.get(bucket.identity)) is not None:
            _widen(there, item)
            return None
        subject = Subject(
            module=emit(source.program, module=source.module),
            program=source.program,
            image=np.array(source.references.images[image]),
            copies=1 if attempt.failure is not None else _COPIES,
        )
        evidence = Evidence(kind=bucket.kind, bucket=bucket, subject=subject, attempts=[attempt])
        number = source.references.drawn[image]
        origin = Origin(seed=description.seed, round=source.round, image=number)
        case = case_of(evidence, self.screen.ready, origin=origin, status=ShrinkStatus.RAW)
        words = {name: word for name, word in told.items() if word not in (None, "")}
        shown = [f"{name}: {words[name]}" for name in _SAID if name in words]
        found = self.findings[bucket.identity] = ScreenFinding(
            case=msgspec.structs.replace(case, details={**case.details, **words}),
            files=files_of(evidence),
            sentence="; ".join((self.device, *shown)),
            programs=[source.entry],
            instructions=[form_name(main_form(source.program))],
        )
        return found


_SAID = ("while screening", "again at once", "warp slot")
"""Details that the sentence about a finding has."""


def _widen(there: ScreenFinding, item: ScreenItem) -> None:
    entry, name = item.source.entry, form_name(main_form(item.source.program))
    if entry not in there.programs and len(there.programs) < _MOST_NAMED:
        there.programs.append(entry)
    if name not in there.instructions:
        there.instructions.append(name)
