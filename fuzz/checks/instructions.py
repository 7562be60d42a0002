"""The check of instructions: compares what the ISA says of them with what assemblers do."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial

from corpus import (
    Case,
    Entry,
    Identity,
    Kind,
    OracleVerdict,
    Origin,
    RunnerVerdict,
    SaidReason,
    ShrinkStatus,
    open_corpus,
)
from corpus.finding import MODULE
from fuzz.checks import protocol
from fuzz.findings.case import made_by
from fuzz.findings.families import Bucket, bucket_of, core_of, rules_of
from fuzz.findings.verdicts import expectation_of, kind_of
from oracle.errors import UsageError
from oracle.isa.legality import Explanation, Verdict, explain, verdict_of
from oracle.isa.lookup import forms_by_opcode
from oracle.isa.targets import (
    TARGETS,
    VERSIONS,
    Module,
    PtxVersion,
    Target,
    parse_target,
    parse_version,
)
from runners.assemblers.assembler import Assembler
from runners.assemblers.judgements import Judgement, Response
from runners.assemblers.judging import DEADLINE_SECONDS, Doubt, ToolJudge, judge_module
from strategies.draws import Selection, derived_seed
from strategies.instructions import GENERATOR_VERSION, ROUND_CASES, Draft, round_drafts
from strategies.rounds import Coverage, CoverageLine, coverage_line
from strategies.simplification.instructions import plainest, plainest_module

_STALL_SECONDS = 900.0  # of silence, then a worker is killed: it judges some hundred instructions
_FIRST_BATCH = 16  # judged together while nobody knows whether the assembler hangs
_GROWTH = 8  # a batch is so many times larger than the one before, or smaller where many hung
_HANGS = 2  # in a batch, after which the next is smaller
_ROUNDS_OF_A_PAIR = 3  # rounds that stay with one target and version, whose modules are tried once
_MAIN_TARGET = "sm_90"  # target of every second block of rounds: what most is known of
_FIRST = 70  # "Floating point wmma requires sm_70" (9.7.14.4)
_COSTLY_ENOUGH = 2
"""Illegal instructions of one likeness that are judged for a target and version: each
costs a process, and there are hundreds beside every hole."""
HANG_SECONDS = 1.0
"""Seconds for an instruction, 50 times what ptxas 13.5 takes (2026-11), before it gets more."""
_REPLAYS = 2  # times that a disagreement is assembled again before it is called one


class InstructionCoverage(Coverage):
    """Counts of the instructions that were asked."""

    NAMES = ("forms", "targets", "versions", "verdicts", "outcomes", "costly")

    def lines(self, forms: Collection[str]) -> Sequence[CoverageLine]:
        """Return how much of each dimension was reached, of these opcodes and of all else."""
        asked, rest = self.counts, ("targets", "versions", "outcomes")
        return [
            coverage_line("forms", {form: asked["forms"][form] for form in sorted(forms)}),
            *(CoverageLine(name=name, reached=len(asked[name]), total=None) for name in rest),
        ]


def likeness(draft: Draft) -> str:
    """Return what makes instructions meet the same hole in an assembler."""
    slots = ("matrix", "op", "shape", "type", "dtype", "atype", "btype", "ctype")
    return " ".join((draft.mnemonic, *(draft.qualifier(slot) for slot in slots)))


def pairs_of(
    assembler: Assembler, target: str | None, version: str | None
) -> tuple[tuple[Target, PtxVersion], ...]:
    """Return the pairs of target and version that rounds are about, the main one first.

    Raises UsageError if the assembler does not have what is asked for.
    """
    known = [TARGETS[name] for name in assembler.targets if name in TARGETS]
    wanted = [parse_target(target)] if target else known
    highest = assembler.highest_version
    versions = [parse_version(version)] if version else [v for v in VERSIONS if v <= highest]
    pairs = [(t, v) for t in wanted for v in versions if Module(t, v).exists and t.number >= _FIRST]
    asked = target or version
    if not pairs or (asked and not any(assembler.accepts(v, t.name) for t, v in pairs)):
        raise UsageError(
            f"{assembler} takes no module with .target {target or 'that it has'} and .version "
            f"{version or f'up to {highest}'}; `warpfuzz compilers list` shows what each has"
        )
    newest = max(v for _, v in pairs)
    main = next(
        (pair for pair in pairs if pair[0].name == _MAIN_TARGET and pair[1] == newest), pairs[-1]
    )
    return (main, *(pair for pair in pairs if pair != main))


def pair_of_round(
    assembler: Assembler, pairs: Sequence[tuple[Target, PtxVersion]], *, seed: int, number: int
) -> tuple[Target, PtxVersion]:
    """Return the target and version of a round: every second block of rounds has the main pair."""
    block = number // _ROUNDS_OF_A_PAIR
    tries = 0 if block % 2 == 0 or len(pairs) == 1 else len(pairs)
    places = (derived_seed(seed, "pair", block, one) % len(pairs) for one in range(tries))
    taken = (pairs[at] for at in places if assembler.accepts(pairs[at][1], pairs[at][0].name))
    return next(taken, pairs[0])


@dataclass(frozen=True)
class Disagreement:
    """An instruction with which something else happens than the ISA says."""

    kind: Kind
    draft: Draft
    judgements: dict[int, Judgement]
    """By the number of the assembler; that of the first is always there."""

    @property
    def outcomes(self) -> tuple[Response, ...]:
        """What each assembler did."""
        return tuple(judgement.outcome for judgement in self.judgements.values())

    @property
    def explanation(self) -> Explanation:
        """What the oracle says, for the target and version of the judgements."""
        first = self.judgements[0]
        return explain(self.draft.text, target=first.target, ptx_version=first.version)

    @property
    def core(self) -> Bucket:
        """The bucket of it as it is, before it is made plainer."""
        return core_of(self.kind, self.draft, self.explanation)

    @property
    def between(self) -> Kind | None:
        """What a disagreement of the first assembler and the ISA is called; None if they agree."""
        expected = expectation_of(self.draft, self.explanation)
        return kind_of(expected, self.judgements[0].outcome)

    def stored(
        self, assemblers: Sequence[Assembler], origin: Origin, identity: Identity | None = None,
        status: ShrinkStatus = ShrinkStatus.RAW,
    ) -> protocol.Stored:  # fmt: skip
        """Return it as the corpus takes it, with the module that shows it.

        `identity` is what it is named after, if not after itself.
        """
        explanation, judgement = self.explanation, self.judgements[0]
        case = Case(
            kind=self.kind,
            identity=identity or bucket_of(self.kind, self.draft, explanation).identity,
            instructions=(self.draft.text,),
            target=judgement.target,
            ptx_version=judgement.version,
            oracle=OracleVerdict(
                verdict=explanation.verdict,
                reasons=tuple(
                    SaidReason(text=one.text, section=one.section) for one in explanation.reasons
                ),
            ),
            runners=tuple(
                RunnerVerdict(
                    runner="ptxas",
                    version=assemblers[which].label,
                    outcome=judged.outcome.name.lower(),
                    message="\n".join(judged.messages) or judged.ending,
                )
                for which, judged in self.judgements.items()
            ),
            versions=made_by(),
            origin=origin,
            shrink=status,
        )
        return case, {MODULE: judgement.module.encode()}


class InstructionWorker:
    """Carries out rounds of instructions, replays disagreements and makes them plainer."""

    def __init__(self, check: Instructions, heartbeat: protocol.Heartbeat) -> None:
        self._check, self._heartbeat = check, heartbeat
        self._drafts: dict[str, Draft] = {}
        """By the id of a finding that was replayed: it is shrunk later."""
        self._forms = check.selection.forms()
        self._judge = cache(partial(ToolJudge, deadline=HANG_SECONDS))
        self._batch = _FIRST_BATCH
        self._failed: set[str] = set()  # likenesses with which the assembler failed, for any target

    def examine(self, job: protocol.Examination) -> protocol.Found:
        """Replay a disagreement, or make it plainer; one of another campaign stays as it is."""
        entry = open_corpus(job.corpus).get(job.id)
        self._heartbeat.enter(protocol.Stage.RUN)
        try:
            one = self._read(entry)
            if one is None:
                return protocol.Found(bucket=job.bucket, state=protocol.FoundState.LEFT)
            bucket, status = job.bucket, ShrinkStatus.RAW
            identity: Identity | None = entry.finding.identity
            if job.seconds is not None:
                one, status = self._smallest(one, time.monotonic() + job.seconds)
                bucket, identity = bucket_of(one.kind, one.draft, one.explanation), None
            else:
                times = 1 if Response.HUNG in one.outcomes else _REPLAYS
                if not all(self._replays(one) for _ in range(times)):
                    return protocol.Found(bucket=bucket, state=protocol.FoundState.GONE)
            origin, check = entry.finding.origin, self._check
            own = Origin(seed=check.seed, round=origin.round if origin is not None else 0)
            case, files = one.stored(check.assemblers, own, identity, status)
            return protocol.Found(
                bucket=bucket, case=case, files=files, state=protocol.FoundState.REPLAYED,
                settles=job.seconds is not None,
            )  # fmt: skip
        finally:
            self._heartbeat.enter(protocol.Stage.WAIT)

    def _read(self, entry: Entry) -> Disagreement | None:
        """Return a stored disagreement, whose instruction is drawn again for its parts.

        None if no round of this campaign has it: one of another version or selection stored it.
        """
        case, draft = entry.finding, self._drafts.get(entry.id)
        if draft is None and case.origin is not None:
            drawn = self._drawn(case.target, case.ptx_version, case.origin.round)
            draft = next((one for one in drawn if one.text == case.text), None)
        if draft is None:
            return None
        self._drafts[entry.id] = draft
        module = entry.read(MODULE).decode()
        versions = [assembler.label for assembler in self._check.assemblers]
        judgements = {}
        for verdict in case.runners:
            judgement = Judgement(
                instruction=draft.text,
                target=case.target,
                version=case.ptx_version,
                outcome=Response[verdict.outcome.upper()],
                messages=tuple(verdict.message.splitlines()),
            )
            if judgement.module != module:
                judgement = replace(judgement, results_stored=True)
            judgements[versions.index(verdict.version)] = judgement
        return Disagreement(case.kind, draft, judgements)

    def _replays(self, one: Disagreement) -> bool:
        return self._judged(one).outcomes == one.outcomes

    def _smallest(self, one: Disagreement, end: float) -> tuple[Disagreement, ShrinkStatus]:
        """Return the plainest like a disagreement, in the plainest module; itself if that fails."""
        rules, core = rules_of(one.explanation), one.core
        found = {one.draft: one}
        deadline = HANG_SECONDS if Response.HUNG in one.outcomes else DEADLINE_SECONDS

        def disagrees(draft: Draft) -> bool:
            moved = replace(one, draft=draft)
            if time.monotonic() > end:
                return False
            if not rules_of(moved.explanation) < rules and moved.core != core:
                return False
            candidate = self._judged(moved, deadline)
            same = candidate.between is one.kind
            if one.kind is Kind.DIFFER:
                same = candidate.outcomes == one.outcomes
            if same:
                found[draft] = candidate
            return same

        smallest = found[plainest(one.draft, disagrees)]
        smallest = self._in_plainest_module(smallest, core, end)
        if not self._replays(smallest):
            return one, ShrinkStatus.FLAKY
        capped = time.monotonic() > end
        return smallest, ShrinkStatus.CAPPED if capped else ShrinkStatus.COMPLETE

    def _in_plainest_module(self, one: Disagreement, core: Bucket, end: float) -> Disagreement:
        """Return a disagreement in the plainest target and the lowest version that show it."""
        module = Module.named(one.judgements[0].target, one.judgements[0].version)
        found, expected = {module: one}, expectation_of(one.draft, one.explanation)

        def shows(module: Module) -> bool:
            if time.monotonic() > end:
                return False
            target, version = module.target.name, str(module.version)
            judgements = {
                which: replace(old, target=target, version=version)
                for which, old in one.judgements.items()
            }
            moved = replace(one, judgements=judgements)
            as_before = expectation_of(one.draft, moved.explanation) is expected
            if not as_before or moved.core != core:
                return False
            moved = self._judged(moved)
            if moved.outcomes == one.outcomes:
                found[module] = moved
            return module in found

        known = set.intersection(*(set(one.targets) for one in self._check.assemblers))
        return found[plainest_module(shows, module, targets=known)]

    def _judged(self, one: Disagreement, deadline: float = DEADLINE_SECONDS) -> Disagreement:
        """Ask the assemblers again, about what is to be judged now."""
        judgements = {}
        for which, old in one.judgements.items():
            self._heartbeat.beat()
            changed = replace(old, instruction=one.draft.text)
            said = judge_module(
                self._check.assemblers[which], changed.module, target=old.target, deadline=deadline
            )
            judgements[which] = replace(
                changed, outcome=said.outcome, messages=said.messages, ending=said.ending
            )
        return replace(one, judgements=judgements)

    # Rounds

    def _drawn(self, target: str, version: str, number: int) -> Sequence[Draft]:
        about = parse_target(target), parse_version(version)
        return round_drafts(self._forms, *about, seed=self._check.seed, number=number)

    def report(self, job: protocol.RoundJob) -> protocol.RoundReport:
        """Carry out a round, up to its limit or until the coordinator wants an end."""
        target, version, _ = job.plan.work
        heartbeat, coverage = self._heartbeat, InstructionCoverage()
        report = protocol.RoundReport(number=job.number, skip=job.skip, coverage=coverage)
        heartbeat.enter(protocol.Stage.DRAW, round=job.plan.round)
        drafts = self._drawn(target, version, job.plan.round)
        end = len(drafts) if job.limit is None else min(len(drafts), job.skip + job.limit)
        at = job.skip
        while at < end and not heartbeat.interrupted:
            part = drafts[at : min(at + self._batch, end)]
            at += len(part)
            hung = self._judge_batch(part, report, job)
            if hung == 0:
                self._batch = min(self._batch * _GROWTH, ROUND_CASES)
            elif hung > _HANGS:
                self._batch = max(self._batch // _GROWTH, _FIRST_BATCH)
        report.complete = at >= len(drafts)
        heartbeat.enter(protocol.Stage.WAIT)
        return report

    def _judge_batch(
        self, drafts: Sequence[Draft], report: protocol.RoundReport, job: protocol.RoundJob
    ) -> int:
        """Judge instructions and compare; return how many hung."""
        target, version, costly = job.plan.work
        heartbeat, documented = self._heartbeat, forms_by_opcode()
        asked = {
            draft.text: draft
            for draft in drafts
            if not costly
            or draft.opcode in documented
            or costly.get(likeness(draft), 0) < _COSTLY_ENOUGH
        }
        heartbeat.enter(protocol.Stage.ORACLE)
        verdicts = {text: verdict_of(text, target=target, ptx_version=version) for text in asked}

        def doubt(text: str) -> Doubt:
            if verdicts[text] is not Verdict.ILLEGAL:
                return Doubt.NONE
            return Doubt.STRONG if likeness(asked[text]) in self._failed else Doubt.SOME

        heartbeat.enter(protocol.Stage.RUN)
        texts = list(asked)
        judged = {
            which: self._judge(assembler, target=target, version=version).judge(texts, doubt)
            for which, assembler in enumerate(self._check.assemblers)
            if not which or assembler.accepts(version, target)
        }
        heartbeat.enter(protocol.Stage.ORACLE)
        report.cases += len(drafts)
        report.unasked += len(drafts) - len(asked)
        report.coverage.programs += len(asked)
        counts = report.coverage.counts
        counts["targets"][target] += len(asked)
        counts["versions"][version] += len(asked)
        hung, origin = 0, Origin(seed=self._check.seed, round=job.plan.round)
        for place, (text, draft) in enumerate(asked.items()):
            answers = {which: some[place] for which, some in judged.items()}
            first, verdict = answers[0], verdicts[text]
            if verdict in (Verdict.UNDEFINED, Verdict.NOT_JUDGED):
                report.answered += 1
            else:
                report.compared += 1
            report.counts["oracle", verdict.value] += 1
            counts["verdicts"][verdict.value] += 1
            counts["outcomes"][first.outcome.name.lower()] += 1
            if draft.opcode in documented:
                counts["forms"][draft.opcode] += 1
            if first.outcome > Response.REJECTED:
                alike = likeness(draft)
                self._failed.add(alike)
                counts["costly"][f"{target} {version} {alike}"] += 1
            hung += any(one.outcome is Response.HUNG for one in answers.values())
            for one in self._disagreements(draft, verdict, answers):
                store = partial(one.stored, self._check.assemblers, origin)
                protocol.add_suspect(report, job, one.core, store)
        heartbeat.count(len(asked))
        return hung

    @staticmethod
    def _disagreements(
        draft: Draft, verdict: Verdict, answers: Mapping[int, Judgement]
    ) -> Iterator[Disagreement]:
        first = answers[0]
        if verdict is not Verdict.ILLEGAL or first.outcome is not Response.REJECTED:
            alone = Disagreement(Kind.DIFFER, draft, {0: first})
            if (kind := alone.between) is not None:
                yield replace(alone, kind=kind)
        for which, other in answers.items():
            if other.outcome is not first.outcome:
                yield Disagreement(Kind.DIFFER, draft, {0: first, which: other})


@dataclass(frozen=True, kw_only=True)
class Instructions:
    """A check of what assemblers accept."""

    assemblers: tuple[Assembler, ...]
    """The first is compared with the ISA; the others with the first."""
    seed: int
    selection: Selection = field(default_factory=Selection)
    target: str | None = None
    ptx_version: str | None = None
    """What every round is about; rounds go over all that the assembler has where None."""
    patience: float = _STALL_SECONDS

    def on(self, device: int) -> Instructions:
        # There is no device.
        return self

    @contextmanager
    def opened(self, heartbeat: protocol.Heartbeat) -> Iterator[protocol.OpenCheck]:
        worker = InstructionWorker(self, heartbeat)
        yield protocol.OpenCheck(
            facts=protocol.Facts(
                target=self.target or "",
                ptx_version=self.ptx_version or "",
                version=self.assemblers[0].label,
                device=_subject(self.assemblers),
            ),
            round=worker.report,
            examine=worker.examine,
        )

    def plan(self, facts: protocol.Facts) -> protocol.Plan:
        forms = self.selection.forms()
        if not forms:
            raise UsageError(
                f"no documented form matches {self.selection.pattern!r}; `warpfuzz isa` lists "
                "them all"
            )
        first = self.assemblers[0]
        pairs = pairs_of(first, self.target, self.ptx_version)
        targets = list(dict.fromkeys(target.name for target, _ in pairs))
        versions = sorted({version for _, version in pairs})
        where = targets[0] if len(targets) == 1 else f"{len(targets)} targets"
        to = f" to {versions[-1]}" if len(versions) > 1 else ""

        def round_of(number: int, known: Coverage) -> protocol.RoundPlan:
            target, version = pair_of_round(first, pairs, seed=self.seed, number=number)
            start = f"{target.name} {version} "
            costly = {
                name.removeprefix(start): count
                for name, count in known.counts["costly"].items()
                if name.startswith(start)
            }
            work = target.name, str(version), costly
            return protocol.RoundPlan(round=number, work=work, cases=ROUND_CASES)

        return protocol.Plan(
            words=protocol.CheckWords(
                subject=_subject(self.assemblers),
                where=f"{where} · PTX ISA {versions[0]}{to}",
                case="instruction",
                agreement="assembler and ISA agree on every instruction that was compared, and "
                "none was executed",
                nothing_compared="no instruction was judged in the time: the assembler is slow, or "
                "hangs on many instructions; give it longer (--time), or select fewer forms "
                "(--only)",
                runner="the assembler",
                answered="not compared (undefined, or no matrix instruction)",
                counters=tuple(
                    protocol.ShownCounter(("oracle", one.value), one.value, one.value)
                    for one in (Verdict.LEGAL, Verdict.ILLEGAL)
                ),
            ),
            forms=frozenset(form.opcode for form in forms),
            coverage=InstructionCoverage,
            round=round_of,
            shrinks=lambda case: True,
            summary={
                "runner": "ptxas",
                "assemblers": [assembler.label for assembler in self.assemblers],
            },
        )

    def options(self, facts: protocol.Facts) -> protocol.Options:
        return {
            "--runner": "ptxas",
            "--seed": self.seed,
            "--only": self.selection.pattern,
            "--target": self.target,
            "--ptx-version": self.ptx_version,
            "assemblers": [assembler.label for assembler in self.assemblers],
            "--assembler": [f"{one.path}{one.variant}" for one in self.assemblers],
            "version of the generator": GENERATOR_VERSION,
        }


def _subject(assemblers: Sequence[Assembler]) -> str:
    return " and ".join(assembler.named for assembler in assemblers)
