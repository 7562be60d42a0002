"""Instructions on which assembler and ISA disagree: described, replayed, and simplified."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from corpus import (
    Case,
    Entry,
    Identity,
    Kind,
    OracleVerdict,
    Origin,
    Reason,
    RunnerVerdict,
    ShrinkStatus,
    open_corpus,
)
from corpus.entry import MODULE
from fuzz.checks.protocol import Examination, Found, FoundState, Heartbeat, Stage
from fuzz.findings.case import made_by
from fuzz.findings.families import Bucket, bucket_of, core_of, rules_of
from fuzz.findings.verdicts import expectation_of, kind_of
from oracle.legality import Explanation, explain
from oracle.targets import Module, parse_target, parse_version
from runners.assemblers.assembler import Assembler
from runners.assemblers.judgements import Judgement, Outcome
from runners.assemblers.judging import DEADLINE_SECONDS, judge_module
from strategies.drafts import Draft
from strategies.draws import Selection
from strategies.instructions import round_drafts
from strategies.simplification.instructions import plainest, plainest_module

HANG_SECONDS = 1.0
"""Time for an instruction, 50 times what ptxas 13.5 takes (2026-11). One that takes longer gets
`DEADLINE_SECONDS` before it is said to hang, and so does the plainest like it."""
_REPLAYS = 2
"""Times that a disagreement is assembled again before it is called one."""


@dataclass(frozen=True)
class Disagreement:
    """An instruction with which something else happens than the ISA says."""

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
    def bucket(self) -> Bucket:
        """What it is named after."""
        return bucket_of(self.kind, self.draft, self.explanation)

    @property
    def explanation(self) -> Explanation:
        """What the oracle says."""
        return explain(
            self.draft.text, target=self.judgement.target, ptx_version=self.judgement.version
        )


def disagreement_of(draft: Draft, judgement: Judgement) -> Kind | None:
    """Return what a disagreement of assembler and ISA is called; None where they agree."""
    explanation = explain(draft.text, target=judgement.target, ptx_version=judgement.version)
    return kind_of(expectation_of(draft, explanation), judgement.outcome)


def stored(
    one: Disagreement,
    assemblers: Sequence[Assembler],
    origin: Origin,
    *,
    identity: Identity | None = None,
    status: ShrinkStatus = ShrinkStatus.RAW,
) -> Found:
    """Return a disagreement as the corpus takes it, with the module that shows it.

    Parameters
    ----------
    assemblers
        The first is compared with the ISA; the others with the first.
    identity
        What it is named after, if not after itself.
    """
    explanation, judgement = one.explanation, one.judgement
    case = Case(
        kind=one.kind,
        identity=identity or one.bucket.identity,
        instructions=(one.draft.text,),
        target=judgement.target,
        ptx_version=judgement.version,
        oracle=OracleVerdict(
            verdict=explanation.verdict,
            reasons=tuple(Reason(text=r.text, section=r.section) for r in explanation.reasons),
        ),
        runners=tuple(
            RunnerVerdict(
                runner="ptxas",
                version=assemblers[which].label,
                outcome=judged.outcome.name.lower(),
                message="\n".join(judged.messages) or judged.ending,
            )
            for which, judged in one.judgements.items()
        ),
        versions=made_by(),
        origin=origin,
        shrink=status,
    )
    files = {MODULE: judgement.module.encode()}
    return Found(bucket=Bucket(kind=one.kind, identity=case.identity), case=case, files=files)


class Examiner:
    """Replays disagreements and makes them plainer."""

    def __init__(
        self,
        assemblers: Sequence[Assembler],
        selection: Selection,
        *,
        seed: int,
        heartbeat: Heartbeat,
    ) -> None:
        self._assemblers, self._forms, self._seed = assemblers, selection.forms(), seed
        self._heartbeat = heartbeat
        self._drafts: dict[str, Draft] = {}
        """By the id of a finding that was replayed: it is shrunk later."""

    def examine(self, job: Examination) -> Found:
        """Replay a disagreement, or make it plainer; one of another campaign stays as it is."""
        entry = open_corpus(job.corpus).get(job.id)
        self._heartbeat.enter(Stage.RUN)
        try:
            one = self._read(entry)
            if one is None:
                return Found(bucket=job.bucket, state=FoundState.LEFT)
            if job.seconds is not None:
                return self._shrunk(entry, one, time.monotonic() + job.seconds)
            times = 1 if Outcome.HUNG in one.outcomes else _REPLAYS
            if not all(self._replays(one) for _ in range(times)):
                return Found(bucket=job.bucket, state=FoundState.GONE)
            return self._examined(entry, one, job.bucket, ShrinkStatus.RAW)
        finally:
            self._heartbeat.enter(Stage.WAIT)

    def _read(self, entry: Entry) -> Disagreement | None:
        """Return a stored disagreement, whose instruction is drawn again for its parts.

        None if no round of this campaign has it: one of another version or selection stored it.
        """
        case = entry.finding
        draft = self._drafts.get(entry.id) or self._drawn(case)
        if draft is None:
            return None
        self._drafts[entry.id] = draft
        module = entry.read(MODULE).decode()
        judgements = {}
        versions = [assembler.label for assembler in self._assemblers]
        for verdict in case.runners:
            judgement = Judgement(
                instruction=draft.text,
                target=case.target,
                version=case.ptx_version,
                outcome=Outcome[verdict.outcome.upper()],
                messages=tuple(verdict.message.splitlines()),
            )
            if judgement.module != module:
                judgement = replace(judgement, results_stored=True)
            judgements[versions.index(verdict.version)] = judgement
        return Disagreement(case.kind, draft, judgements)

    def _drawn(self, case: Case) -> Draft | None:
        """Return the draft of a case from its round; None if it is not in it."""
        if case.origin is None:
            return None
        drafts = round_drafts(
            self._forms,
            parse_target(case.target),
            parse_version(case.ptx_version),
            seed=self._seed,
            number=case.origin.round,
        )
        return next((draft for draft in drafts if draft.text == case.text), None)

    def _examined(
        self,
        entry: Entry,
        one: Disagreement,
        bucket: Bucket,
        status: ShrinkStatus,
    ) -> Found:
        origin = entry.finding.origin
        number = origin.round if origin is not None else 0
        raw = status is ShrinkStatus.RAW
        found = stored(
            one,
            self._assemblers,
            Origin(seed=self._seed, round=number),
            identity=entry.finding.identity if raw else None,
            status=status,
        )
        return replace(found, bucket=bucket, state=FoundState.REPLAYED, settles=not raw)

    def _replays(self, one: Disagreement) -> bool:
        return all(
            self._judge(which, one.draft, judged).outcome is judged.outcome
            for which, judged in one.judgements.items()
        )

    def _shrunk(self, entry: Entry, one: Disagreement, end: float) -> Found:
        explanation = one.explanation
        rules, core = rules_of(explanation), core_of(one.kind, one.draft, explanation)
        found: dict[Draft, Disagreement] = {one.draft: one}
        deadline = HANG_SECONDS if Outcome.HUNG in one.outcomes else DEADLINE_SECONDS

        def disagrees(draft: Draft) -> bool:
            if time.monotonic() > end:
                return False
            explanation = explain(
                draft.text, target=one.judgement.target, ptx_version=one.judgement.version
            )
            fewer = rules_of(explanation) < rules
            if not fewer and core_of(one.kind, draft, explanation) != core:
                return False
            judgements = {
                which: self._judge(which, draft, old, deadline)
                for which, old in one.judgements.items()
            }
            candidate = Disagreement(one.kind, draft, judgements)
            if one.kind is Kind.DIFFER:
                same = candidate.outcomes == one.outcomes
            else:
                same = disagreement_of(draft, candidate.judgement) is one.kind
            if same:
                found[draft] = candidate
            return same

        draft = plainest(one.draft, disagrees)
        smallest = self._in_plainest_module(found[draft], core, end)
        status = ShrinkStatus.COMPLETE
        if not self._replays(smallest):
            smallest, status = one, ShrinkStatus.FLAKY
        elif time.monotonic() > end:
            status = ShrinkStatus.CAPPED
        return self._examined(entry, smallest, smallest.bucket, status)

    def _in_plainest_module(self, one: Disagreement, core: Bucket, end: float) -> Disagreement:
        """Return a disagreement in the plainest target and the lowest version that show it."""
        module = Module.named(one.judgement.target, one.judgement.version)
        found = {module: one}

        def shows(module: Module) -> bool:
            if time.monotonic() > end:
                return False
            target, version = module.target.name, str(module.version)
            judgements = {
                which: replace(old, target=target, version=version)
                for which, old in one.judgements.items()
            }
            moved = replace(one, judgements=judgements)
            expected = expectation_of(one.draft, moved.explanation)
            if (
                expected is not expectation_of(one.draft, one.explanation)
                or core_of(one.kind, one.draft, moved.explanation) != core
            ):
                return False
            judged = {w: self._judge(w, one.draft, old) for w, old in judgements.items()}
            moved = replace(one, judgements=judged)
            if moved.outcomes == one.outcomes:
                found[module] = moved
            return module in found

        known = set.intersection(*(set(assembler.targets) for assembler in self._assemblers))
        return found[plainest_module(shows, module, targets=known)]

    def _judge(
        self, which: int, draft: Draft, like: Judgement, deadline: float = DEADLINE_SECONDS
    ) -> Judgement:
        self._heartbeat.beat()
        changed = replace(like, instruction=draft.text)
        verdict = judge_module(
            self._assemblers[which], changed.module, target=like.target, deadline=deadline
        )
        return replace(
            changed, outcome=verdict.outcome, messages=verdict.messages, ending=verdict.ending
        )
