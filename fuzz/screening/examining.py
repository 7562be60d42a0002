"""What differed while screening, run again: there, elsewhere, at once, and after a pause."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np

from corpus import Case, Corpus, Family, Kind, Origin, Saved, ShrinkStatus
from fuzz.findings.case import Evidence, case_of, files_of
from fuzz.findings.families import family_of_difference, family_of_failure, family_of_flaky
from fuzz.findings.replay import Attempt, Subject
from fuzz.findings.verdicts import differences, judge
from fuzz.runner import kind_of_failure
from fuzz.screening.screen import Item, Rate, Screen, Sighting
from fuzz.screening.sets import Description
from oracle.targets import Module
from runners.emission import emit
from runners.ledger import Differing
from runners.protocol import Failure
from runners.screening import Screened
from strategies.features import main_form

_HOT_SECONDS = 0.5
"""Time of the replay right after the launch, while the device is hot."""
_PAUSE_SECONDS = 1.0
"""Time that the device has nothing to do before the replay after a pause."""
_COOL_SECONDS = 0.05
"""Time of that replay: so short that it stays cool."""
_MOST_EXAMINED = 8
"""Programs of which an image is replayed; what others get wrong is only counted, because a device
that is wrong in all of them has to be screened on."""
_COPIES = 256
"""Warps of a stored case: more than a device has multiprocessors (132 on an H200)."""


@dataclass(frozen=True, kw_only=True)
class Replay:
    """What became of an image that was run again on all multiprocessors."""

    here: Rate
    """On the multiprocessor where it had differed."""
    others: Rate
    """On all others."""


@dataclass(frozen=True, kw_only=True)
class ScreenFinding:
    """Something that differed, or a program that brought the device down, as it was stored."""

    kind: Kind
    family: Family
    saved: Saved
    sentence: str
    """Where, how often, and under which circumstances."""


@dataclass(kw_only=True)
class Examiner:
    """Replays what one device got wrong, and stores the first of each family."""

    description: Description
    corpus: Corpus
    device: str
    """Such as "GPU 2"."""
    findings: dict[str, ScreenFinding] = field(default_factory=dict)
    """By the key of the family."""
    _examined: set[str] = field(default_factory=set)
    """Names of the programs whose images were replayed."""

    def examine(self, screen: Screen, sighting: Sighting) -> ScreenFinding | None:
        """Take in what a launch showed; return what was stored for it, if it is new.

        Raises
        ------
        DeviceLostError, InfrastructureError
            If the device is gone, or the finding cannot be stored.
        """
        if sighting.failure is not None:
            return self._failure(screen, sighting.item, sighting.failure)
        item, one = sighting.item, sighting.differing[0]
        if item.source.entry in self._examined or len(self._examined) >= _MOST_EXAMINED:
            return None
        self._examined.add(item.source.entry)
        hot = self._replay(screen, item, one, _HOT_SECONDS)
        time.sleep(_PAUSE_SECONDS)
        cool = self._replay(screen, item, one, _COOL_SECONDS)
        return self._difference(screen, item, one, hot, cool)

    def _replay(
        self, screen: Screen, item: Item, one: Differing, seconds: float
    ) -> Replay | Failure:
        outcome = screen.again(item, one.image, seconds)
        if not isinstance(outcome, Screened):
            kind_of_failure(outcome)
            return outcome
        cases = outcome.ledger.finished.astype(np.int64)
        wrong = outcome.ledger.wrong.astype(np.int64)
        here = Rate(cases=int(cases[one.sm]), wrong=int(wrong[one.sm]))
        return Replay(
            here=here,
            others=Rate(cases=int(cases.sum()) - here.cases, wrong=int(wrong.sum()) - here.wrong),
        )

    def _difference(
        self,
        screen: Screen,
        item: Item,
        one: Differing,
        hot: Replay | Failure,
        cool: Replay | Failure,
    ) -> ScreenFinding | None:
        source = item.source
        image = np.array(source.references.images[one.image])
        expected = np.array(source.references.expected[one.image])
        form = main_form(source.program)
        target = self.description.architecture
        (verdict,) = judge(
            source.program, image[None], one.actual[None], target=target, expected=expected[None]
        )
        rates = [replay.here for replay in (hot, cool) if isinstance(replay, Replay)]
        steady = bool(rates) and all(rate.wrong == rate.cases for rate in rates)
        found = differences(source.program, expected, one.actual)
        if steady:
            kind = verdict.kind
            family = family_of_difference(kind, form, found)
        else:
            kind, family = Kind.FLAKY, family_of_flaky(form)
        if family.key in self.findings:
            return None
        subject = Subject(
            module=emit(source.program, module=self._module),
            program=source.program,
            image=image,
            copies=_COPIES,
        )
        attempt = Attempt(
            kind=verdict.kind,
            actual=one.actual[None],
            expected=expected,
            sms=(one.sm,),
            failed=1,
            compiled=None,
        )
        evidence = Evidence(kind=kind, family=family, subject=subject, attempts=[attempt])
        words: dict[str, str | int] = {
            "multiprocessor": one.sm,
            "warp slot": one.warp,
            "while screening": f"{screen.tally.rate(one.sm)} on multiprocessor {one.sm}",
            "again at once": _words(hot, one.sm),
            "again after a pause": _words(cool, one.sm),
        }
        return self._stored(screen, item, evidence, one.image, words)

    def _failure(self, screen: Screen, item: Item, failure: Failure) -> ScreenFinding | None:
        kind = kind_of_failure(failure)
        source = item.source
        family = family_of_failure(kind, main_form(source.program), failure)
        if family.key in self.findings:
            return None
        subject = Subject(
            module=emit(source.program, module=self._module),
            program=source.program,
            image=np.array(source.references.images[0]),
        )
        attempt = Attempt(kind=kind, failure=failure, failed=1)
        evidence = Evidence(kind=kind, family=family, subject=subject, attempts=[attempt])
        words = {"while screening": f"{len(item.failures)} launches of {source.entry} failed"}
        return self._stored(screen, item, evidence, 0, words)

    @property
    def _module(self) -> Module:
        return Module.named(self.description.target, self.description.ptx_version)

    def _stored(
        self,
        screen: Screen,
        item: Item,
        evidence: Evidence,
        image: int,
        words: Mapping[str, str | int],
    ) -> ScreenFinding:
        number = int(item.source.entry.rpartition("_")[2])
        origin = Origin(seed=self.description.seed, round=number, image=image)
        case: Case = case_of(evidence, screen.ready, origin=origin, status=ShrinkStatus.RAW)
        case = msgspec.structs.replace(case, details={**case.details, **words})
        saved = self.corpus.add(case, files_of(evidence))
        sentence = "; ".join(
            [self.device, *(f"{name}: {words[name]}" for name in words if name != "multiprocessor")]
        )
        finding = ScreenFinding(
            kind=evidence.kind, family=evidence.family, saved=saved, sentence=sentence
        )
        self.findings[evidence.family.key] = finding
        return finding


def _words(replay: Replay | Failure, sm: int) -> str:
    if isinstance(replay, Failure):
        return str(replay)
    return f"{replay.here} on multiprocessor {sm}, {replay.others} on all others"
