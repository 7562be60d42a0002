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
from fuzz.checks.protocol import (
    CheckWords,
    Examination,
    Facts,
    Found,
    FoundState,
    Heartbeat,
    OpenCheck,
    Options,
    Plan,
    RoundJob,
    RoundPlan,
    RoundReport,
    ShownCounter,
    Stage,
)
from fuzz.findings.case import made_by
from fuzz.findings.families import Bucket, bucket_of, core_of, rules_of
from fuzz.findings.verdicts import expectation_of, kind_of
from oracle.errors import UsageError
from oracle.isa.forms import Form
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
from strategies.coverage import Coverage, CoverageLine
from strategies.draws import Selection, derived_seed
from strategies.instructions import GENERATOR_VERSION, ROUND_CASES, Draft, round_drafts
from strategies.simplification.instructions import plainest, plainest_module

_STALL_SECONDS = 900.0
"""How long a worker may stay silent before it is killed: it is silent while an assembler judges
some hundred instructions, each of which may take `DEADLINE_SECONDS`."""
_FIRST_BATCH = 16
"""Instructions that are judged together while a worker does not know whether the assembler hangs,
which takes seconds for each. More cost fewer processes, but an end is waited for longer."""
_GROWTH = 8  # a batch is so many times larger than the one before, or smaller where many hung
_HANGS = 2  # in a batch, after which the next is smaller
_ROUNDS_OF_A_PAIR = 3
"""Rounds that stay with one target and version: an assembler is asked once what it does with a
text for them."""
_MAIN_TARGET = "sm_90"
"""Target of every second block of rounds where none is asked for: what most is known of."""
_FIRST = 70
"""First target with matrix instructions: "Floating point wmma requires sm_70" (9.7.14.4)."""
_COSTLY_ENOUGH = 2
"""Illegal instructions of one likeness that are judged, for each target and version, after which
the rest is left out: one is the finding, the next confirms it. Each costs processes of its own,
and there are hundreds beside every hole."""
HANG_SECONDS = 1.0
"""Time for an instruction, 50 times what ptxas 13.5 takes (2026-11). One that takes longer gets
`DEADLINE_SECONDS` before it is said to hang, and so does the plainest like it."""
_REPLAYS = 2  # times that a disagreement is assembled again before it is called one


class InstructionCoverage(Coverage):
    """Counts of the instructions that were asked.

    Counted are documented forms, targets, PTX ISA versions, what the oracle says, what assemblers
    do, and likenesses (see `likeness`) for which an assembler needed a process of its own.
    """

    NAMES = ("forms", "targets", "versions", "verdicts", "outcomes", "costly")

    def lines(self, forms: Collection[str]) -> Sequence[CoverageLine]:
        """Return how much of each dimension was reached, of these opcodes and of all else."""
        asked, rest = self.counts, ("targets", "versions", "outcomes")
        return [
            CoverageLine.of("forms", {form: asked["forms"][form] for form in sorted(forms)}),
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
        """What the oracle says."""
        return explanation_of(self.draft, self.judgements[0])


def explanation_of(draft: Draft, judgement: Judgement) -> Explanation:
    """Return what the oracle says of an instruction, for the target and version of a judgement."""
    return explain(draft.text, target=judgement.target, ptx_version=judgement.version)


def disagreement_of(draft: Draft, judgement: Judgement) -> Kind | None:
    """Return what a disagreement of assembler and ISA is called; None where they agree."""
    expected = expectation_of(draft, explanation_of(draft, judgement))
    return kind_of(expected, judgement.outcome)


def stored(
    one: Disagreement,
    assemblers: Sequence[Assembler],
    origin: Origin,
    *,
    identity: Identity | None = None,
    status: ShrinkStatus = ShrinkStatus.RAW,
) -> tuple[Case, Mapping[str, bytes]]:
    """Return a disagreement as the corpus takes it, with the module that shows it.

    The first of the assemblers is compared with the ISA; the others with the first. `identity` is
    what it is named after, if not after itself.
    """
    explanation, judgement = one.explanation, one.judgements[0]
    case = Case(
        kind=one.kind,
        identity=identity or bucket_of(one.kind, one.draft, explanation).identity,
        instructions=(one.draft.text,),
        target=judgement.target,
        ptx_version=judgement.version,
        oracle=OracleVerdict(
            verdict=explanation.verdict,
            reasons=tuple(SaidReason(text=r.text, section=r.section) for r in explanation.reasons),
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
    return case, {MODULE: judgement.module.encode()}


class InstructionExaminer:
    """Replays disagreements and makes them plainer."""

    def __init__(
        self, assemblers: Sequence[Assembler], forms: Sequence[Form], seed: int,
        heartbeat: Heartbeat,
    ) -> None:  # fmt: skip
        self._assemblers, self._forms, self._seed = assemblers, forms, seed
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
            times = 1 if Response.HUNG in one.outcomes else _REPLAYS
            if not all(self._replays(one) for _ in range(times)):
                return Found(bucket=job.bucket, state=FoundState.GONE)
            return self._examined(entry, one, job.bucket, ShrinkStatus.RAW)
        finally:
            self._heartbeat.enter(Stage.WAIT)

    def _read(self, entry: Entry) -> Disagreement | None:
        """Return a stored disagreement, whose instruction is drawn again for its parts.

        None if no round of this campaign has it: one of another version or selection stored it.
        """
        case, draft = entry.finding, self._drafts.get(entry.id)
        if draft is None and case.origin is not None:
            drawn = round_drafts(
                self._forms,
                parse_target(case.target),
                parse_version(case.ptx_version),
                seed=self._seed,
                number=case.origin.round,
            )
            draft = next((one for one in drawn if one.text == case.text), None)
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
                outcome=Response[verdict.outcome.upper()],
                messages=tuple(verdict.message.splitlines()),
            )
            if judgement.module != module:
                judgement = replace(judgement, results_stored=True)
            judgements[versions.index(verdict.version)] = judgement
        return Disagreement(case.kind, draft, judgements)

    def _examined(
        self, entry: Entry, one: Disagreement, bucket: Bucket, status: ShrinkStatus
    ) -> Found:
        origin, raw = entry.finding.origin, status is ShrinkStatus.RAW
        own = Origin(seed=self._seed, round=origin.round if origin is not None else 0)
        identity = entry.finding.identity if raw else None
        case, files = stored(one, self._assemblers, own, identity=identity, status=status)
        state = FoundState.REPLAYED
        return Found(bucket=bucket, case=case, files=files, state=state, settles=not raw)

    def _replays(self, one: Disagreement) -> bool:
        return all(
            self._judge(which, one.draft, judged).outcome is judged.outcome
            for which, judged in one.judgements.items()
        )

    def _shrunk(self, entry: Entry, one: Disagreement, end: float) -> Found:
        explanation = one.explanation
        rules, core = rules_of(explanation), core_of(one.kind, one.draft, explanation)
        found: dict[Draft, Disagreement] = {one.draft: one}
        deadline = HANG_SECONDS if Response.HUNG in one.outcomes else DEADLINE_SECONDS

        def disagrees(draft: Draft) -> bool:
            if time.monotonic() > end:
                return False
            explanation = explanation_of(draft, one.judgements[0])
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
                same = disagreement_of(draft, candidate.judgements[0]) is one.kind
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
        bucket = bucket_of(one.kind, smallest.draft, smallest.explanation)
        return self._examined(entry, smallest, bucket, status)

    def _in_plainest_module(self, one: Disagreement, core: Bucket, end: float) -> Disagreement:
        """Return a disagreement in the plainest target and the lowest version that show it."""
        module = Module.named(one.judgements[0].target, one.judgements[0].version)
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


class InstructionRounds:
    """Carries out rounds of instructions.

    The work of one is its target and PTX ISA version, and by likeness how often it needed a process
    of its own so far.
    """

    def __init__(self, check: Instructions, heartbeat: Heartbeat) -> None:
        self._check, self._heartbeat = check, heartbeat
        self._forms = check.selection.forms()
        self._judge = cache(partial(ToolJudge, deadline=HANG_SECONDS))
        self._batch = _FIRST_BATCH
        self._failed: set[str] = set()  # likenesses with which the assembler failed, for any target

    def report(self, job: RoundJob) -> RoundReport:
        """Carry out a round, up to its limit or until the coordinator wants an end."""
        target, version, _ = job.plan.work
        heartbeat, coverage = self._heartbeat, InstructionCoverage()
        report = RoundReport(number=job.number, skip=job.skip, coverage=coverage)
        heartbeat.enter(Stage.DRAW, round=job.round)
        drafts = round_drafts(
            self._forms,
            parse_target(target),
            parse_version(version),
            seed=self._check.seed,
            number=job.round,
        )
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
        heartbeat.enter(Stage.WAIT)
        return report

    def _judge_batch(self, drafts: Sequence[Draft], report: RoundReport, job: RoundJob) -> int:
        """Judge instructions and compare; return how many hung.

        What is left out depends on the round alone, not on how it is cut into batches.
        """
        target, version, costly = job.plan.work
        heartbeat, documented = self._heartbeat, forms_by_opcode()
        asked = {
            draft.text: draft
            for draft in drafts
            if not costly
            or draft.opcode in documented
            or costly.get(likeness(draft), 0) < _COSTLY_ENOUGH
        }
        heartbeat.enter(Stage.ORACLE)
        verdicts = {text: verdict_of(text, target=target, ptx_version=version) for text in asked}

        def doubt(text: str) -> Doubt:
            if verdicts[text] is not Verdict.ILLEGAL:
                return Doubt.NONE
            return Doubt.STRONG if likeness(asked[text]) in self._failed else Doubt.SOME

        heartbeat.enter(Stage.RUN)
        texts = list(asked)
        judged = {
            which: self._judge(assembler, target=target, version=version).judge(texts, doubt)
            for which, assembler in enumerate(self._check.assemblers)
            if not which or assembler.accepts(version, target)
        }
        heartbeat.enter(Stage.ORACLE)
        report.cases += len(drafts)
        report.unasked += len(drafts) - len(asked)
        report.coverage.programs += len(asked)
        counts = report.coverage.counts
        counts["targets"][target] += len(asked)
        counts["versions"][version] += len(asked)
        hung, origin = 0, Origin(seed=self._check.seed, round=job.round)
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
                store = partial(stored, one, self._check.assemblers, origin)
                report.suspect(core_of(one.kind, one.draft, one.explanation), job.settled, store)
        heartbeat.count(len(asked))
        return hung

    @staticmethod
    def _disagreements(
        draft: Draft, verdict: Verdict, answers: Mapping[int, Judgement]
    ) -> Iterator[Disagreement]:
        first = answers[0]
        if verdict is not Verdict.ILLEGAL or first.outcome is not Response.REJECTED:
            kind = disagreement_of(draft, first)
            if kind is not None:
                yield Disagreement(kind, draft, {0: first})
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
    def opened(self, heartbeat: Heartbeat) -> Iterator[OpenCheck]:
        forms = self.selection.forms()
        examiner = InstructionExaminer(self.assemblers, forms, self.seed, heartbeat)
        yield OpenCheck(
            facts=Facts(
                target=self.target or "",
                ptx_version=self.ptx_version or "",
                version=self.assemblers[0].label,
                device=_subject(self.assemblers),
            ),
            round=InstructionRounds(self, heartbeat).report,
            examine=examiner.examine,
        )

    def plan(self, facts: Facts) -> Plan:
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

        def round_of(number: int, known: Coverage) -> RoundPlan:
            target, version = pair_of_round(first, pairs, seed=self.seed, number=number)
            start = f"{target.name} {version} "
            costly = {
                name.removeprefix(start): count
                for name, count in known.counts["costly"].items()
                if name.startswith(start)
            }
            return RoundPlan(work=(target.name, str(version), costly), cases=ROUND_CASES)

        return Plan(
            words=CheckWords(
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
                    ShownCounter(
                        words=("oracle", verdict.value), one=verdict.value, many=verdict.value
                    )
                    for verdict in (Verdict.LEGAL, Verdict.ILLEGAL)
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

    def options(self, facts: Facts) -> Options:
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
