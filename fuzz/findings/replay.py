"""Runs stored findings again, with one compiler, or with one against another.

The record that ships is asked always in the same way, so that answers can be compared (`ask`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar, cast

import msgspec

from corpus import Entry, Finding, Kind
from corpus.finding import MODULE
from corpus.known import Answers, answer_spans, answers_about
from fuzz.findings.case import (
    ReplayOptions,
    is_by_hand,
    is_runnable,
    lacks_images,
    subject_for,
    subject_of,
)
from fuzz.findings.verdicts import (
    Answer,
    Basis,
    CannotBeAskedError,
    Rerun,
    asked,
    kind_of,
    probe,
    smallest_kernel,
    worst_of,
)
from fuzz.runner import OpenRunner, opened, rewriters
from oracle.errors import DeviceLostError, InfrastructureError, UsageError, WarpfuzzError
from oracle.isa.legality import Verdict, explain
from oracle.isa.targets import PtxVersion, parse_target, parse_version
from runners.assemblers.assembler import Assembler
from runners.assemblers.judging import judge_module
from runners.compilers import discover_assemblers, find_assembler
from runners.foreign import Rewriter, passed_on
from runners.protocol import ClosedAtTheEnd, Failure
from runners.ptx_text import with_header
from runners.variants import PLAIN, split_variant

_Made = TypeVar("_Made")
STAND_IN = "sm_80"
"""Known to every ptxas from 11.0 to 13.5, with every form that is not newer than its PTX ISA."""
_WORDS = {
    "accepted": "accepted",
    "rejected": "rejected",
    "internal": "internal error",
    "crashed": "crash",
    "hung": "hang",
    "unreadable": "unreadable",
}  # what the record calls an outcome, by the label of a run


class ReplayStatus(StrEnum):
    """What a new assembler does about a finding, beside the newest that was asked before."""

    MENDED = "mended"  # right, and it was wrong with the compiler before
    KEPT = "kept"  # as with the compiler before
    CHANGED = "changed"  # wrong, and otherwise than with the compiler before


def words_of(answer: Answer) -> str | None:
    """Return an answer as the record has it: "crash"; None if there is none, or several."""
    return _WORDS.get(answer.label)


def ask(assembler: Assembler, entry: Entry) -> Answer:
    """Assemble a finding's module at -O3, as all versions of the record were asked."""
    question = ModuleProbe(entry, stand_in=STAND_IN)
    return asked(lambda _: Counter([question.ask([(assembler, None)])]), times=1)


Asker = tuple[Assembler, int | None]  # an assembler and a level, None for its default


class ModuleProbe:
    """Whether assemblers accept a finding's module.

    One that does not know the module's `.version` is asked in the highest one that it knows, where
    the ISA says the same, and in `stand_in` where it lacks the target.
    """

    def __init__(
        self,
        entry: Entry,
        *,
        target: str | None = None,
        version: str | None = None,
        rewriters: Sequence[Rewriter] = (),
        stand_in: str | None = None,
    ) -> None:
        finding = entry.finding
        if MODULE not in finding.files:
            raise UsageError(f"finding {entry.id} has no {MODULE}; import it with one")
        if lacks_images(entry):
            raise CannotBeAskedError(f"finding {entry.id} has nothing that it could run on")
        self._finding = msgspec.structs.replace(
            finding,
            target=parse_target(target).name if target else finding.target,
            ptx_version=version or finding.ptx_version,
        )
        self._own, self._fixed = parse_version(self._finding.ptx_version), version is not None
        self._ptx = entry.read(MODULE).decode(errors="replace")
        self._rewriters, self._stand_in = rewriters, stand_in

    def module_for(self, assemblers: Sequence[Assembler]) -> tuple[str, PtxVersion]:
        """Return the .target and .version in which some assemblers are asked."""
        finding, version = self._finding, self._own
        if not self._fixed:
            version = min([version, *(one.highest_version for one in assemblers)])
        for target in filter(None, (finding.target, self._stand_in)):
            refusing = [one for one in assemblers if not one.accepts(version, target)]
            if refusing:
                continue
            for one in assemblers:
                if said := one.refusal(target, target):
                    raise CannotBeAskedError(f"{one} does not take its options: {said}")
            if target != self._stand_in and self._expected(target, version) is not self._expected(
                target, self._own
            ):
                raise CannotBeAskedError(
                    f".version {version}: the ISA says otherwise of {finding.id}"
                )
            return target, version
        raise CannotBeAskedError(
            f"{refusing[0]} takes no module with .version {version} and .target {finding.target}"
        )

    def _expected(self, target: str, version: PtxVersion) -> bool | None:
        """Return whether the ISA, as the oracle knows it now, has the instructions; None: open."""
        verdicts = {
            explain(text, target=target, ptx_version=str(version)).verdict
            for text in self._finding.instructions
        }
        if Verdict.ILLEGAL in verdicts:
            return False
        return None if verdicts & {Verdict.UNDEFINED, Verdict.NOT_JUDGED} else True

    def ask(self, askers: Sequence[Asker], *, among: Sequence[Assembler] = ()) -> Rerun:
        """Assemble once with each assembler at a level; CannotBeAskedError if one cannot be asked.

        `among`: more assemblers that have to know the module's `.version`.
        """
        everybody = list(dict.fromkeys([*(one for one, _ in askers), *among]))
        target, version = self.module_for(everybody)
        own = with_header(self._ptx, target=target, version=version)
        text = passed_on(own, self._rewriters)
        if isinstance(text, Failure):
            raise InfrastructureError(f"finding {self._finding.id}: {text.message}")
        verdicts = [judge_module(one, text, target=target, level=level) for one, level in askers]
        for (assembler, _), verdict in zip(askers, verdicts, strict=True):
            if assembler.variant.asks_too_much("\n".join(verdict.messages), text):
                raise CannotBeAskedError(f"{assembler.named}: {verdict.messages[0]}")
        seen, was = [verdict.outcome for verdict in verdicts], self._finding.kind
        expected = self._expected(target, version)
        kinds = [kind_of(expected, one) for one in seen]
        same = was in kinds or (was is Kind.DIFFER and len(set(seen)) > 1)
        return Rerun(
            label=", ".join(outcome.name.lower() for outcome in seen),
            kind=was if same else worst_of(kinds),
            way=Basis.JUDGED,
            message="\n".join(verdicts[0].messages) or verdicts[0].ending,
        )


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """What became of one finding."""

    entry: Entry
    now: Answer
    before: Answer | None = None  # with the baseline, if there is one
    baseline: str | None = None
    where: dict[str, object]
    """What it ran with, for the JSON row: runner, device and options, or assemblers and levels."""
    recorded: str = ""  # what the versions of the record said of it; "" where none was asked
    standing: ReplayStatus | None = None
    """What has become of the newest of these answers; None without one."""
    error: WarpfuzzError | None = None  # why it could not be run
    kernel: str | None = None
    """The smallest kernel that shows it; None where none does, or none was asked for."""

    @property
    def finding(self) -> Finding:
        """The description."""
        return self.entry.finding

    @property
    def verdict(self) -> str:
        """What became of it, as `Answer.verdict` says."""
        return self.now.verdict(self.finding.kind)

    @property
    def message(self) -> str:
        """What the tool said, or what differs; why nothing could be asked."""
        return self.now.message

    @property
    def way(self) -> Basis:
        """How it was judged: compared, or less; with a baseline, the weaker of the two."""
        ways = [one.way for one in (self.now, self.before) if one is not None]
        return max(ways, key=list(Basis).index)

    @property
    def answered(self) -> bool:
        """Whether what was asked for is known: a module judged, or images compared."""
        asked_for = Basis.COMPARED if is_runnable(self.entry) else Basis.JUDGED
        # A program that still fails before anything can be compared is an answer, too.
        return self.way is asked_for or (self.way in (Basis.JUDGED, Basis.FAILED) and self.now.bad)

    @property
    def counts(self) -> bool:
        """Whether it is something to report: it disagrees, or comes out otherwise than before."""
        if not self.now.known:
            return False
        if self.before is None:
            return self.verdict != "gone"
        return self.before.known and not self.now.same(self.before)

    def row(self) -> dict[str, object]:
        """Return the row as a JSON object says it, but for what is known."""
        finding, now = self.finding, self.now
        row: dict[str, object] = {
            "id": finding.id,
            "family": finding.identity.text,
            "kind": finding.kind.value,
            "verdict": self.verdict,
            "path": str(self.entry.path),
            "way": self.way.value,
            "outcomes": now.counts,
            "runs": now.runs,
            "failed": now.failed,
            "executions": now.executions,
            **self.where,
            "message": now.message,
            "counts": self.counts,
        }
        if self.before is not None:
            before = self.before.verdict(finding.kind)
            row |= {"baseline": self.baseline, "baseline_verdict": before, "regressed": self.counts}
        if self.standing is not None:
            row |= {"recorded": self.recorded, "standing": self.standing.value}
        return row


class Replays(ClosedAtTheEnd):
    """Replays findings with options, and against a baseline (a compiler or "none") if given.

    A runner that several findings need is opened once; `kernels` asks for smallest kernels, too.
    """

    def __init__(
        self,
        options: ReplayOptions,
        *,
        baseline: str | None = None,
        answers: Answers | None = None,
        kernels: bool = False,
    ) -> None:
        self._baseline, self._answers, self._kernels = baseline, answers, kernels
        self._ways = [options, *([] if baseline is None else [options.baseline(baseline)])]
        self._stack = ExitStack()
        self._made: dict[object, object] = {}
        """Runners by their choice, and assemblers by their name; or why there is none."""

    def close(self) -> None:
        """Close the runners."""
        self._stack.close()

    def replay(self, entry: Entry, *, times: int) -> Replayed:
        """Replay a finding; the row tells what keeps it from being run. DeviceLostError."""
        error: WarpfuzzError | None = None
        try:
            answers, row = (self._program if is_runnable(entry) else self._module)(entry, times)
            if unknown := [answer.reason for answer in answers if not answer.known]:
                error = CannotBeAskedError(unknown[0])
            now, before = (*answers, None)[:2]
            assert now is not None
            return Replayed(
                entry=entry, now=now, before=before, error=error, baseline=self._baseline, **row
            )
        except DeviceLostError:
            raise
        except WarpfuzzError as its:
            error = its
        except OSError as its:
            error = UsageError(str(its))
        except Exception as its:  # one finding of a stranger's ends no other's replay
            error = InfrastructureError(
                f"{entry.path} cannot be replayed ({type(its).__name__}: {its!s:.300}); mend "
                "or remove it, or report this"
            )
        return Replayed(entry=entry, now=Answer(reason=str(error)), where={}, error=error)

    def _program(self, entry: Entry, times: int) -> tuple[list[Answer], dict[str, Any]]:
        """Return the answers about what runs, and more fields of a row."""
        opened_: list[OpenRunner] = []
        answers = []
        for options in self._ways:
            choice = options.choice(entry)
            # A GPU takes its time to say that it is not there.
            ready = self._once(choice, lambda c=choice: self._stack.enter_context(opened(c)))  # type: ignore[misc]
            subject = subject_for(entry, target=ready.target, version=ready.ptx_version)
            answers.append(asked(partial(probe, ready.runner, subject), times=times))
            opened_.append(ready)
        ready, kind = opened_[0], answers[0].kind
        row: dict[str, Any] = {
            "where": {
                "runner": ready.choice.name, "device": ready.device, "options": ready.choice.options
            }
        }  # fmt: skip
        if self._kernels and kind is not None and not is_by_hand(entry):
            row["kernel"] = smallest_kernel(ready.runner, subject_of(entry), kind)
        return answers, row

    def _once(self, key: object, make: Callable[[], _Made]) -> _Made:
        """Return what was made before: what is missing is missing for every finding."""
        if key not in self._made:
            try:
                self._made[key] = make()
            except WarpfuzzError as error:
                self._made[key] = error
        if isinstance(found := self._made[key], WarpfuzzError):
            raise found
        return cast(_Made, found)

    def _module(self, entry: Entry, times: int) -> tuple[list[Answer], dict[str, Any]]:
        """Return the answers about a module that is judged, and more fields of a row."""
        told = None if self._answers is None else answers_about(self._answers, entry.id)
        ways = []
        for options in self._ways:
            question = ModuleProbe(
                entry,
                target=options.target,
                version=options.ptx_version,
                rewriters=rewriters(options.planted(entry), options.chosen(entry, "ptx_pass")),
                stand_in=STAND_IN if told else None,
            )
            ways.append((question, self._askers(entry.finding, options)))
        among = [one for _, askers in ways for one, _ in askers] if len(ways) > 1 else []
        (question, askers), *_ = ways
        answers = [
            asked(
                lambda _, ask=one.ask, who=who: Counter([ask(who, among=among)]),  # type: ignore[misc]
                times=times,
            )
            for one, who in ways
        ]
        now = answers[0]
        where: dict[str, object] = {
            "assemblers": list(dict.fromkeys(assembler.label for assembler, _ in askers)),
            "levels": list(dict.fromkeys(level for _, level in askers)),
        }
        if now.known:
            target, version = question.module_for([*(one for one, _ in askers), *among])
            where |= {"target": target, "ptx_version": str(version)}
        row: dict[str, Any] = {"where": where}
        if self._answers is not None:
            row["recorded"] = answer_spans(self._answers, entry.id)
            if told and (words := words_of(now)) is not None:
                changed = ReplayStatus.MENDED if now.kind is None else ReplayStatus.CHANGED
                row["standing"] = ReplayStatus.KEPT if told[-1][1] == words else changed
        return answers, row

    def _askers(self, finding: Finding, options: ReplayOptions) -> Sequence[Asker]:
        """Return who is asked: an assembler that was named, or those that the finding names."""
        told = [
            (*split_variant(one.version), int(level[1]) if level else None)
            for one in finding.runners
            if one.runner == "ptxas"
            for level in (re.search(r"-O(\d)", one.options),)
        ]
        if (name := options.assembler) is not None or not told:
            # A case that a person wrote need not say which: then the newest, as for a module.
            assembler = self._once(name, partial(find_assembler, name))
            here = dict.fromkeys((version for version, _, _ in told), assembler)
            if not told:
                return [(options.having(assembler, PLAIN), options.level)]
        else:
            here = self._once(
                "here", lambda: {one.version: one for one in discover_assemblers().assemblers}
            )
        if missing := list(dict.fromkeys(version for version, _, _ in told if version not in here)):
            releases = " ".join(".".join(one.lstrip("V").split(".")[:2]) for one in missing)
            # Without the finding's id: a corpus is told once of every version.
            raise UsageError(
                f"made with ptxas {', '.join(missing)}, which is not here (found: "
                f"{', '.join(here) or 'none'}); fetch it (`warpfuzz compilers fetch "
                f"{releases}`), or choose another with --assembler"
            )
        found = (
            (options.having(here[version], own), level if options.level is None else options.level)
            for version, own, level in told
        )
        return list(dict.fromkeys(found))


# How often a failure that is rare has to be looked for

MISSED = 1e-3  # probability with which a failure of the known rate may be overlooked
_LEAST = 2  # runs of what fails every time: one that is not repeated says nothing of being flaky
_MOST = 10_000
"""Runs after which the search gives up on rarer failures; the chance that is left is reported."""


def repeats_for(rate: float) -> int:
    """Return how many runs miss a failure of this rate, 0 to 1, with a probability below `MISSED`.

    All n runs pass with a probability of (1 - rate)^n.
    """
    if not 0 < rate < 1:
        return _LEAST if rate >= 1 else _MOST
    return max(_LEAST, min(_MOST, math.floor(math.log(MISSED) / math.log1p(-rate)) + 1))


def missed(rate: float, times: int) -> float:
    """Return the probability that `times` runs all pass although each fails with this rate."""
    return float((1 - min(max(rate, 0.0), 1.0)) ** times)


def shown_by(runs: int) -> float:
    """Return the least rate of failures of which runs show one with a probability of 95 %."""
    return float(1 - 0.05 ** (1 / runs))


def rate_of(finding: Finding) -> float:
    """Return the share of a finding's runs that failed when it was confirmed; 1 if none is told."""
    runs, failed = finding.details.get("runs"), finding.details.get("failed runs")
    if isinstance(runs, int) and isinstance(failed, int) and 0 < failed <= runs:
        return failed / runs
    rate = finding.details.get("rate")
    return rate if isinstance(rate, float) and 0 < rate <= 1 else 1.0
