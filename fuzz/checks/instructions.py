"""The campaign against an assembler: draw, ask oracle and assembler, compare, shrink, store."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version as distribution_version

from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample, StopTest

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
from corpus.known import Known
from fuzz.campaign.draws import GENERATOR_VERSION, Selection, derived_seed, round_drafts
from fuzz.campaign.limits import Budget
from fuzz.campaign.progress import Observer, Progress
from fuzz.findings.families import core_of, family_of, rules_of
from fuzz.findings.groups import FamilyState
from fuzz.findings.verdicts import expectation_of, kind_of
from oracle.errors import UsageError, WarpfuzzError
from oracle.isa import forms_by_opcode
from oracle.legality import Explanation, Verdict, explain, verdict_of
from oracle.targets import TARGETS, VERSIONS, PtxVersion, Target, parse_target, parse_version
from runners.assemblers.assembler import Assembler
from runners.assemblers.judgements import Judgement, Outcome
from runners.assemblers.judging import DEADLINE_SECONDS, Judge, judge_module
from strategies.drafts import Draft
from strategies.simplification import parts, simplified

_ATTEMPTS = 40
"""Instructions that Hypothesis tries at most; what it leaves is tried part by part."""


def shrink(
    draft: Draft, disagrees: Callable[[Draft], bool], key: int
) -> tuple[Draft, ShrinkStatus]:
    """Return the plainest instruction that still disagrees in the same way.

    Parameters
    ----------
    draft
        The instruction as it was found.
    disagrees
        Whether an instruction shows the same disagreement.
    key
        Seed; the same gives the same.
    """
    names = parts(draft)
    tried: dict[Draft, bool] = {}

    def fails(kept: list[bool]) -> bool:
        plain = frozenset(name for name, keep in zip(names, kept, strict=True) if not keep)
        candidate = simplified(draft, plain)
        if candidate not in tried and len(tried) >= _ATTEMPTS:
            return False
        return _remembered(candidate, disagrees, tried)

    flags = st.lists(st.booleans(), min_size=len(names), max_size=len(names))
    try:
        kept = find(
            flags,
            fails,
            settings=settings(
                max_examples=_ATTEMPTS,
                database=None,
                deadline=None,
                phases=[Phase.generate, Phase.shrink],
                suppress_health_check=list(HealthCheck),
            ),
            random=random.Random(key),
        )
    except (NoSuchExample, StopTest):
        # Nothing plainer was drawn that disagrees; every part may be needed.
        kept = [True] * len(names)
    plain = {name for name, keep in zip(names, kept, strict=True) if not keep}
    # One at a time to the end: Hypothesis tries few draws where only one combination disagrees.
    again = True
    while again:
        again = False
        for name in names:
            candidate = simplified(draft, frozenset(plain | {name}))
            if name not in plain and _remembered(candidate, disagrees, tried):
                plain.add(name)
                again = True
    return simplified(draft, frozenset(plain)), ShrinkStatus.COMPLETE


def _remembered(draft: Draft, disagrees: Callable[[Draft], bool], tried: dict[Draft, bool]) -> bool:
    if draft not in tried:
        tried[draft] = disagrees(draft)
    return tried[draft]


_MAIN_TARGET = "sm_90"
"""Target of every second block of rounds where none is asked for: what most is known of."""
_FIRST = 70
"""First target with matrix instructions: "Floating point wmma requires sm_70" (9.7.14.4)."""


def pairs_of(
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


BUDGET_SPENT, _ON_REQUEST = "budget spent", "stopped on request"
"""Why a campaign ends, where nothing fails."""


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
        self._pairs = pairs_of(assemblers[0], target, ptx_version)
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
                    progress.stopped = BUDGET_SPENT
                elif self._stopping:
                    progress.stopped = _ON_REQUEST
                self._observer.progressed(progress)
        except _Interrupted:
            progress.stopped = BUDGET_SPENT if self._spent() else _ON_REQUEST
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
        # Some of every sort in every batch: a round begins with what is legal.
        random.Random(derived_seed(key, "order")).shuffle(drafts)
        drafts = drafts[: self._remaining(len(drafts))]
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
        if hung == 0:
            self._batch = min(self._batch * 2, _LARGEST_BATCH)
        elif hung > _HANGS:
            self._batch = max(self._batch // 2, _FIRST_BATCH)
        self.progress.cases += len(drafts)
        self._seen.update(hash((text, self.progress.pair)) for text in distinct)
        self.progress.judged = len(self._seen)
        self._observer.progressed(self.progress)
        # What takes seconds to confirm does not hold up the rest.
        for disagreement in sorted(found, key=lambda one: Outcome.HUNG in one.outcomes):
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
            self._judges[key] = Judge(
                self._assemblers[which], target=target, version=version, deadline=_HANG_SECONDS
            )
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
            return
        state = self._states[core]
        if state is not None:
            state.cases += 1

    def _new_family(
        self, core: str, disagreement: _Disagreement, number: int
    ) -> FamilyState | None:
        """Replay, store, shrink and store again; None if the disagreement does not replay."""
        with self._to_be_interrupted():
            times = 1 if Outcome.HUNG in disagreement.outcomes else _REPLAYS
            if not all(self._replays(disagreement) for _ in range(times)):
                self.progress.unconfirmed += 1
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
            state.cases = 1
            self._observer.found(self.progress, state)
        else:
            families[case.family.key].cases += 1
        return families[case.family.key]

    def _replays(self, disagreement: _Disagreement) -> bool:
        """Assemble the minimal modules again, each by itself, and compare the outcomes."""
        return all(
            self._judge_alone(which, disagreement.draft, one).outcome is one.outcome
            for which, one in disagreement.judgements.items()
        )

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
            candidate = _Disagreement(disagreement.kind, draft, judgements)
            if disagreement.kind is Kind.DIFFER:
                same = candidate.outcomes == disagreement.outcomes
            else:
                same = self._kind(draft, candidate.judgement) is disagreement.kind
            explanation = candidate.explanation
            if same and (
                rules_of(explanation) < rules
                or core_of(disagreement.kind, draft, explanation) == core
            ):
                found[draft] = candidate
                return True
            return False

        key = derived_seed(self._seed, "shrink", core)
        with self._to_be_interrupted():
            draft, status = shrink(disagreement.draft, disagrees, key)
            smallest = found[draft]
            if not self._replays(smallest):
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
        """Mark work that may be left at any moment: an assembler's, never that of storing."""
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


class _Interrupted(KeyboardInterrupt):
    """The campaign is to end; no Exception, for Hypothesis takes those for findings."""


_FIRST_BATCH, _LARGEST_BATCH = 16, 8192
"""Instructions that are judged together: few while nobody knows whether the assembler hangs, which
takes seconds for each. So its holes are known, and left out, before many are met."""

_HANGS = 2
"""Hangs in a batch after which the next is smaller."""

_REPLAYS = 2
"""Times that a disagreement is assembled again before it is called one."""

_HANG_SECONDS = 1.0
"""Time for an instruction, 50 times what ptxas 13.5 takes (2026-11). One that takes longer gets
`DEADLINE_SECONDS` before it is said to hang, and so does the plainest like it."""

_ROUNDS_OF_A_PAIR = 4
"""Rounds that stay with one target and version: the legal instructions of the first are judged
once, and cost nothing in the next."""

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
