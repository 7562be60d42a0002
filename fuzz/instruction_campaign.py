"""The campaign against an assembler: draw, ask oracle and assembler, compare, shrink, store."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version as distribution_version
from typing import Protocol

from corpus import (
    Case,
    Corpus,
    Kind,
    OracleVerdict,
    Origin,
    Reason,
    RunnerVerdict,
    Saved,
    ShrinkStatus,
    Versions,
)
from corpus.known import Known, KnownEntry
from fuzz.budget import Budget
from fuzz.disagreements import expectation_of, kind_of
from fuzz.families import core_of, family_of, rules_of
from fuzz.instruction_rounds import GENERATOR_VERSION, Selection, derived_seed, round_drafts
from fuzz.instruction_shrinking import shrink
from oracle.errors import UsageError, WarpfuzzError
from oracle.isa import forms_by_opcode
from oracle.legality import Explanation, Verdict, explain, verdict_of
from oracle.targets import TARGETS, VERSIONS, PtxVersion, Target, parse_target, parse_version
from runners.assemblers.assembler import Assembler
from runners.assemblers.judgements import Judgement, Outcome
from runners.assemblers.judging import DEADLINE_SECONDS, Judge, judge_module
from strategies.drafts import Draft

_MAIN_TARGET = "sm_90"
"""Target of every second block of rounds where none is asked for: what most is known of."""
_ROUNDS_OF_A_PAIR = 4
"""Rounds that stay with one target and version: the legal instructions of the first are judged
once, and cost nothing in the next."""


@dataclass(kw_only=True)
class FamilyState:
    """One line of the report: a family of disagreements and its smallest member."""

    kind: Kind
    key: str
    title: str
    text: str
    """The instruction that stands for the family: the smallest, once it is shrunk."""
    verdict: str
    """What the oracle says of it."""
    message: str
    """What the assembler says of it."""
    known: KnownEntry | None = None
    cases: int = 0
    """Instructions drawn so far that belong here."""
    saved: Saved | None = None
    shrink: ShrinkStatus = ShrinkStatus.RAW


@dataclass
class Progress:
    """What a campaign has done so far."""

    seed: int
    assemblers: tuple[Assembler, ...]
    forms: int
    """Documented forms that the selection covers."""
    started: float = field(default_factory=time.monotonic)
    cases: int = 0
    """Instructions drawn."""
    judged: int = 0
    """Distinct instructions that went to an assembler."""
    rounds: int = 0
    pair: str = ""
    """Target and PTX ISA version of the current round."""
    reached: set[str] = field(default_factory=set)
    """Opcodes of the documented forms that were drawn."""
    agreements: Counter[str] = field(default_factory=Counter)
    """Cases by the oracle's verdict."""
    skipped: int = 0
    """Illegal instructions left out, because others like them killed the assembler."""
    unconfirmed: int = 0
    """Disagreements that were gone when the instruction was assembled by itself."""
    families: dict[str, FamilyState] = field(default_factory=dict)
    """By the key of the family."""
    seconds: float = 0.0
    stopped: str = ""
    """Why the campaign ended; empty while it goes on."""

    @property
    def findings(self) -> list[FamilyState]:
        """Families that nobody has explained yet."""
        return [family for family in self.families.values() if family.known is None]


class Observer(Protocol):
    """Somebody who watches a campaign."""

    def progressed(self, progress: Progress) -> None:
        """Hear that counters changed."""

    def found(self, progress: Progress, family: FamilyState) -> None:
        """Hear of a family when its first member is stored."""


@dataclass(frozen=True)
class _Disagreement:
    kind: Kind
    draft: Draft
    judgements: dict[int, Judgement]
    """By the number of the assembler; that of the first is always there."""

    @property
    def judgement(self) -> Judgement:
        """What the first assembler did."""
        return self.judgements[0]

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """What each assembler did."""
        return tuple(judgement.outcome for judgement in self.judgements.values())

    @property
    def explanation(self) -> Explanation:
        """What the oracle says."""
        return explain(
            self.draft.text, target=self.judgement.target, ptx_version=self.judgement.version
        )


class InstructionCampaign:
    """Compares what the ISA says of instructions with what assemblers make of them."""

    def __init__(
        self,
        assemblers: tuple[Assembler, ...],
        *,
        selection: Selection,
        budget: Budget,
        seed: int,
        corpus: Corpus,
        known: Known,
        observer: Observer,
        target: str | None = None,
        ptx_version: str | None = None,
    ) -> None:
        """Prepare a campaign.

        Parameters
        ----------
        assemblers
            The first is compared with the ISA; the others with the first.
        target, ptx_version
            What every round is about; rounds go over all that the assembler has where None.
        """
        self._assemblers = assemblers
        self._forms = selection.forms()
        if not self._forms:
            raise UsageError(
                f"no documented form is like {selection.pattern!r}; `warpfuzz isa` lists them all"
            )
        self._budget, self._seed = budget, seed
        self._corpus, self._known, self._observer = corpus, known, observer
        self._pairs = _pairs(assemblers[0], target, ptx_version)
        self._judges: dict[tuple[int, str, str], Judge] = {}
        self._states: dict[str, FamilyState | None] = {}
        """By core; None where the first member did not replay."""
        self._seen: set[int] = set()
        self._costly: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self.progress = Progress(seed=seed, assemblers=assemblers, forms=len(self._forms))
        self._batch = _FIRST_BATCH
        self._stopping = self._interruptible = False

    def stop(self) -> None:
        """End the campaign after the finding or the batch at hand."""
        self._stopping = True

    def interrupt(self) -> None:
        """End the campaign at once; for signal handlers, so for the thread that runs it.

        An assembler that hangs holds up a batch for minutes. What is being stored is stored first.
        """
        self._stopping = True
        if self._interruptible:
            self._interruptible = False
            raise _Interrupted

    def run(self) -> Progress:
        """Go on until the budget is spent or a stop is requested.

        Raises
        ------
        WarpfuzzError
            If an assembler does not work, or a finding cannot be stored; `progress` still holds
            what was found until then, that finding included.
        """
        progress = self.progress
        try:
            while not progress.stopped:
                self._round(progress.rounds)
                progress.rounds += 1
                if self._spent():
                    progress.stopped = "budget spent"
                elif self._stopping:
                    progress.stopped = "stopped on request"
                self._observer.progressed(progress)
        except _Interrupted:
            progress.stopped = "budget spent" if self._spent() else "stopped on request"
        except WarpfuzzError as error:
            progress.stopped = str(error)
            raise
        finally:
            progress.seconds = time.monotonic() - progress.started
        return progress

    def _spent(self) -> bool:
        return self._budget.spent(time.monotonic() - self.progress.started, self.progress.cases)

    def _round(self, number: int) -> None:
        target, version = self._pair(number)
        key = derived_seed(self._seed, GENERATOR_VERSION, number)
        self.progress.pair = f"{target.name}, PTX ISA {version}"
        drafts = round_drafts(self._forms, target, version, key)
        kept = self._remaining(len(drafts))
        # Some of every sort: a round begins with what is legal.
        drafts = [drafts[index * len(drafts) // kept] for index in range(kept)]
        while drafts and not self._stopping and not self._spent():
            size = self._batch
            self._batch_of(drafts[:size], target, version, number)
            drafts = drafts[size:]

    def _batch_of(
        self, drafts: list[Draft], target: Target, version: PtxVersion, number: int
    ) -> None:
        """Judge instructions, and sort in those on which assembler and ISA disagree."""
        distinct = self._affordable({draft.text: draft for draft in drafts})
        with self._to_be_interrupted():
            judgements = self._judge(0, target.name, str(version)).judge(list(distinct))
        found = [
            _Disagreement(kind, draft, {0: judgement})
            for draft, judgement in zip(distinct.values(), judgements, strict=True)
            if (kind := self._compare(draft, judgement)) is not None
        ]
        found += self._differences(distinct, judgements, target, version)
        hung = sum(judgement.outcome is Outcome.HUNG for judgement in judgements)
        self._batch = max(self._batch // 4, 1) if hung > 1 else min(self._batch * 2, _LARGEST_BATCH)
        self.progress.cases += len(drafts)
        self._seen.update(hash((text, self.progress.pair)) for text in distinct)
        self.progress.judged = len(self._seen)
        self._observer.progressed(self.progress)
        for disagreement in found:
            if self._stopping:
                break
            self._sort_in(disagreement, number)

    def _affordable(self, drafts: dict[str, Draft]) -> dict[str, Draft]:
        """Leave out illegal instructions like others that killed the assembler here before.

        Each costs processes of its own, and there are hundreds beside every hole.
        """
        pair = self.progress.pair
        left = {
            text: draft
            for text, draft in drafts.items()
            if self._costly[pair, _likeness(draft)] < _COSTLY_ENOUGH
            or draft.opcode in forms_by_opcode()
        }
        self.progress.skipped += len(drafts) - len(left)
        return left

    def _remaining(self, count: int) -> int:
        limit = self._budget.cases
        return count if limit is None else max(0, min(count, limit - self.progress.cases))

    def _pair(self, number: int) -> tuple[Target, PtxVersion]:
        assembler = self._assemblers[0]
        block = number // _ROUNDS_OF_A_PAIR
        if block % 2 == 0 or len(self._pairs) == 1:
            return self._pairs[0]
        for attempt in range(len(self._pairs)):
            at = derived_seed(self._seed, "pair", block, attempt) % len(self._pairs)
            target, version = self._pairs[at]
            if assembler.accepts(version, target.name):
                return target, version
        return self._pairs[0]

    def _judge(self, which: int, target: str, version: str) -> Judge:
        key = (which, target, version)
        if key not in self._judges:
            self._judges[key] = Judge(self._assemblers[which], target=target, version=version)
        return self._judges[key]

    def _compare(self, draft: Draft, judgement: Judgement) -> Kind | None:
        """Compare one judgement with the oracle's verdict, and count."""
        if judgement.outcome > Outcome.REJECTED:
            self._costly[self.progress.pair, _likeness(draft)] += 1
        verdict = verdict_of(draft.text, target=judgement.target, ptx_version=judgement.version)
        self.progress.agreements[verdict] += 1
        form = forms_by_opcode().get(draft.opcode)
        if form is not None:
            self.progress.reached.add(form.opcode)
        if verdict is Verdict.ILLEGAL and judgement.outcome is Outcome.REJECTED:
            return None
        return self._kind(draft, judgement)

    @staticmethod
    def _kind(draft: Draft, judgement: Judgement) -> Kind | None:
        explanation = explain(draft.text, target=judgement.target, ptx_version=judgement.version)
        return kind_of(expectation_of(draft, explanation), judgement.outcome)

    def _differences(
        self,
        drafts: dict[str, Draft],
        judgements: list[Judgement],
        target: Target,
        version: PtxVersion,
    ) -> list[_Disagreement]:
        """Ask the other assemblers, and return where they differ from the first."""
        found = []
        for which, assembler in enumerate(self._assemblers[1:], start=1):
            if not assembler.accepts(version, target.name):
                continue
            with self._to_be_interrupted():
                others = self._judge(which, target.name, str(version)).judge(list(drafts))
            found += [
                _Disagreement(Kind.DIFFER, draft, {0: one, which: other})
                for draft, one, other in zip(drafts.values(), judgements, others, strict=True)
                if one.outcome is not other.outcome
            ]
        return found

    def _sort_in(self, disagreement: _Disagreement, number: int) -> None:
        """Count a disagreement in its family; the first of a family is shrunk and stored."""
        core = core_of(disagreement.kind, disagreement.draft, disagreement.explanation)
        if core not in self._states:
            self._states[core] = self._new_family(core, disagreement, number)
        state = self._states[core]
        if state is not None:
            state.cases += 1

    def _new_family(
        self, core: str, disagreement: _Disagreement, number: int
    ) -> FamilyState | None:
        """Replay, store, shrink and store again; None if the disagreement does not replay."""
        with self._to_be_interrupted():
            if not self._replays(disagreement):
                return None
        case = self._case(disagreement, number, ShrinkStatus.RAW)
        saved = None
        try:
            saved = self._corpus.add(case, _files(disagreement))
            smallest, status = self._shrunk(core, disagreement)
            smaller = self._case(smallest, number, status)
            saved = self._corpus.replace(saved.id, smaller, _files(smallest))
            case = smaller
        finally:
            # Also what could not be stored, or not be shrunk any more, is a finding.
            state = self._family(case, saved)
        return state

    def _family(self, case: Case, saved: Saved | None) -> FamilyState:
        """Return the family of a finding, made if it is the first of it."""
        families = self.progress.families
        if case.family.key not in families:
            # Another core may have led to the same plainest instruction already.
            state = families[case.family.key] = FamilyState(
                kind=case.kind,
                key=case.family.key,
                title=case.family.title,
                text=case.text,
                verdict=case.oracle.verdict,
                message=case.runners[-1].message,
                known=self._known.match(case),
                saved=saved,
                shrink=case.shrink,
            )
            self._observer.found(self.progress, state)
        return families[case.family.key]

    def _replays(self, disagreement: _Disagreement) -> bool:
        """Assemble the minimal modules again, each by itself, before anything is reported."""
        same = all(
            self._judge_alone(which, disagreement.draft, one).outcome is one.outcome
            for which, one in disagreement.judgements.items()
        )
        self.progress.unconfirmed += not same
        return same

    def _shrunk(self, core: str, disagreement: _Disagreement) -> tuple[_Disagreement, ShrinkStatus]:
        rules = rules_of(disagreement.explanation)
        found: dict[Draft, _Disagreement] = {disagreement.draft: disagreement}
        hangs = Outcome.HUNG in disagreement.outcomes
        deadline = _HANG_SECONDS if hangs else DEADLINE_SECONDS

        def disagrees(draft: Draft) -> bool:
            judgements = {
                which: self._judge_alone(which, draft, old, deadline)
                for which, old in disagreement.judgements.items()
            }
            candidate = found[draft] = _Disagreement(disagreement.kind, draft, judgements)
            if disagreement.kind is Kind.DIFFER:
                same = candidate.outcomes == disagreement.outcomes
            else:
                same = self._kind(draft, candidate.judgement) is disagreement.kind
            explanation = candidate.explanation
            return same and (
                rules_of(explanation) < rules
                or core_of(disagreement.kind, draft, explanation) == core
            )

        key = derived_seed(self._seed, "shrink", core)
        with self._to_be_interrupted():
            draft, status = shrink(disagreement.draft, disagrees, key)
            smallest = found[draft]
            if hangs and not self._replays(smallest):
                return disagreement, ShrinkStatus.FLAKY
        return smallest, status

    def _judge_alone(
        self, which: int, draft: Draft, like: Judgement, deadline: float = DEADLINE_SECONDS
    ) -> Judgement:
        """Judge an instruction in a minimal module like that of another judgement."""
        changed = replace(like, instruction=draft.text)
        verdict = judge_module(
            self._assemblers[which], changed.module, target=like.target, deadline=deadline
        )
        return replace(
            changed, outcome=verdict.outcome, messages=verdict.messages, ending=verdict.ending
        )

    @contextmanager
    def _to_be_interrupted(self) -> Iterator[None]:
        """Mark work that may be left at any moment: that of assemblers, and nothing that is stored."""
        self._interruptible = True
        try:
            yield
        finally:
            self._interruptible = False

    def _case(self, disagreement: _Disagreement, number: int, status: ShrinkStatus) -> Case:
        explanation, judgement = disagreement.explanation, disagreement.judgement
        return Case(
            kind=disagreement.kind,
            family=family_of(
                disagreement.kind, disagreement.draft, explanation, judgement.normalised
            ),
            instructions=(disagreement.draft.text,),
            target=judgement.target,
            ptx_version=judgement.version,
            oracle=OracleVerdict(
                verdict=explanation.verdict,
                reasons=tuple(Reason(text=r.text, section=r.section) for r in explanation.reasons),
            ),
            runners=tuple(
                _runner_verdict(self._assemblers[which], one)
                for which, one in disagreement.judgements.items()
            ),
            versions=Versions(
                warpfuzz=distribution_version("warpfuzz"), generator=GENERATOR_VERSION
            ),
            origin=Origin(seed=self._seed, round=number),
            shrink=status,
        )


class _Interrupted(KeyboardInterrupt):  # noqa: N818 - nothing is wrong
    """The campaign is to end; no Exception, for Hypothesis takes those for findings."""


_FIRST_BATCH, _LARGEST_BATCH = 250, 8192
"""Instructions that are judged together: few while it is not known whether the assembler hangs, which
takes seconds for each; so the holes that it has are known, and left out, before many are met."""

_HANG_SECONDS = 1.0
"""Time for each of the plainer instructions of one that hangs, 50 times what ptxas 13.5 takes
(2026-11); the plainest gets the usual time once more."""

_COSTLY_ENOUGH = 2
"""Instructions of one likeness that are judged, for each target and version, after which the rest
is left out: one is the finding, the next confirms it."""


def _likeness(draft: Draft) -> tuple[str, ...]:
    """Return what makes instructions meet the same hole in an assembler."""
    slots = ("matrix", "op", "shape", "type", "dtype", "atype", "btype", "ctype")
    return (draft.mnemonic, *(draft.qualifier(slot) for slot in slots))


def _runner_verdict(assembler: Assembler, judgement: Judgement) -> RunnerVerdict:
    return RunnerVerdict(
        runner="ptxas",
        version=assembler.version,
        outcome=judgement.outcome.name.lower(),
        message="\n".join(judgement.messages) or judgement.ending,
    )


def _files(disagreement: _Disagreement) -> dict[str, bytes]:
    """Return the module that shows the disagreement with plain ptxas."""
    return {"module.ptx": disagreement.judgement.module.encode()}


def _pairs(
    assembler: Assembler, target: str | None, version: str | None
) -> tuple[tuple[Target, PtxVersion], ...]:
    """Return the pairs of target and version that rounds are about, the main one first.

    Raises
    ------
    UsageError
        If the assembler does not have what is asked for.
    """
    wanted = (
        [parse_target(target)]
        if target
        else [TARGETS[name] for name in assembler.targets if name in TARGETS]
    )
    highest = assembler.highest_version
    versions = [parse_version(version)] if version else [v for v in VERSIONS if v <= highest]
    pairs = [(t, v) for t in wanted for v in versions if t.known_to(v) and t.number >= _FIRST]
    if not pairs:
        raise UsageError(
            f"no PTX ISA version up to {highest} knows {target or 'a target of ' + str(assembler)}"
            f"{' in version ' + version if version else ''}; `warpfuzz compilers list` shows what "
            "each assembler has"
        )
    newest = max(v for _, v in pairs)
    main = next(
        (pair for pair in pairs if pair[0].name == _MAIN_TARGET and pair[1] == newest), pairs[-1]
    )
    if (target or version) and not any(assembler.accepts(v, t.name) for t, v in pairs):
        raise UsageError(
            f"{assembler} takes no module with .target {target or main[0].name} and .version "
            f"{version or main[1]}; `warpfuzz compilers list` shows what each assembler has"
        )
    return (main, *(pair for pair in pairs if pair != main))


_FIRST = 70
"""First target with matrix instructions: "Floating point wmma requires sm_70" (9.7.14.4)."""
