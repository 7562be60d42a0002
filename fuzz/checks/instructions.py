"""The check of instructions: compares what the ISA says of them with what assemblers do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from corpus import Kind, Origin
from fuzz.checks.instruction_suspects import (
    HANG_SECONDS,
    Disagreement,
    Examiner,
    disagreement_of,
    stored,
)
from fuzz.checks.protocol import (
    Facts,
    Heartbeat,
    OpenCheck,
    Options,
    Plan,
    RoundJob,
    RoundPlan,
    RoundReport,
    ShownCounter,
    Stage,
    Stored,
    Words,
)
from fuzz.findings.families import core_of
from oracle.errors import UsageError
from oracle.isa import forms_by_opcode
from oracle.legality import Verdict, verdict_of
from oracle.targets import TARGETS, VERSIONS, PtxVersion, Target, parse_target, parse_version
from runners.assemblers.assembler import Assembler
from runners.assemblers.assembling import Doubt
from runners.assemblers.judgements import Judgement, Outcome
from runners.assemblers.judging import Judge
from strategies.coverage import Coverage, CoverageLine
from strategies.drafts import Draft
from strategies.draws import Selection, derived_seed
from strategies.instructions import GENERATOR_VERSION, ROUND_CASES, round_drafts

_STALL_SECONDS = 900.0
"""How long a worker may stay silent before it is killed: it is silent while an assembler judges
some hundred instructions, each of which may take `DEADLINE_SECONDS`."""
_FIRST_BATCH = 16
"""Instructions that are judged together while a worker does not know whether the assembler hangs,
which takes seconds for each. More cost fewer processes, but an end is waited for longer."""
_GROWTH = 8
"""Factor by which a batch is larger than the one before it, or smaller where many hung."""
_HANGS = 2
"""Hangs in a batch after which the next is smaller."""
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


class InstructionCoverage(Coverage):
    """Counts of the instructions that were asked.

    Counted are documented forms, targets, PTX ISA versions, what the oracle says, what assemblers
    do, and likenesses (see `likeness`) for which an assembler needed a process of its own.
    """

    NAMES = ("forms", "targets", "versions", "verdicts", "outcomes", "costly")

    def lines(self, forms: Collection[str]) -> Sequence[CoverageLine]:
        """Return how much of each dimension was reached, of these opcodes and of all else."""
        asked = self.counts
        lines = [CoverageLine.of("forms", {form: asked["forms"][form] for form in sorted(forms)})]
        lines += [
            CoverageLine(name=name, reached=len(asked[name]), total=None)
            for name in ("targets", "versions", "outcomes")
        ]
        return lines


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a round is about."""

    target: str
    version: str
    costly: Mapping[str, int]
    """By likeness: how often it needed a process of its own so far."""


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


def pair_of_round(
    assembler: Assembler, pairs: Sequence[tuple[Target, PtxVersion]], *, seed: int, number: int
) -> tuple[Target, PtxVersion]:
    """Return the target and version of a round: every second block of rounds has the main pair."""
    block = number // _ROUNDS_OF_A_PAIR
    if block % 2 == 0 or len(pairs) == 1:
        return pairs[0]
    for attempt in range(len(pairs)):
        at = derived_seed(seed, "pair", block, attempt) % len(pairs)
        target, version = pairs[at]
        if assembler.accepts(version, target.name):
            return target, version
    return pairs[0]


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
        examiner = Examiner(self.assemblers, self.selection, seed=self.seed, heartbeat=heartbeat)
        yield OpenCheck(
            facts=Facts(
                target=self.target or "",
                ptx_version=self.ptx_version or "",
                version=self.assemblers[0].label,
                device=_subject(self.assemblers),
            ),
            round=_Rounds(self, heartbeat).report,
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
            work = Work(target=target.name, version=str(version), costly=costly)
            return RoundPlan(work=work, cases=ROUND_CASES)

        return Plan(
            words=Words(
                subject=_subject(self.assemblers),
                where=f"{where} · PTX ISA {versions[0]}{to}",
                case="instruction",
                agreement="assembler and ISA agree on every instruction that was compared",
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


class _Rounds:
    def __init__(self, check: Instructions, heartbeat: Heartbeat) -> None:
        self._check, self._heartbeat = check, heartbeat
        self._forms = check.selection.forms()
        self._judges: dict[tuple[int, str, str], Judge] = {}
        self._batch = _FIRST_BATCH
        self._failed: set[str] = set()
        """Likenesses of instructions with which the assembler failed, for any target."""

    def report(self, job: RoundJob) -> RoundReport:
        work, heartbeat = job.plan.work, self._heartbeat
        coverage = InstructionCoverage()
        report = RoundReport(number=job.number, skip=job.skip, coverage=coverage)
        heartbeat.enter(Stage.DRAW, round=job.number)
        drafts = round_drafts(
            self._forms,
            parse_target(work.target),
            parse_version(work.version),
            seed=self._check.seed,
            number=job.number,
        )
        end = len(drafts) if job.limit is None else min(len(drafts), job.skip + job.limit)
        at = job.skip
        while at < end and not heartbeat.interrupted:
            part = drafts[at : min(at + self._batch, end)]
            at += len(part)
            hung = self._judge_batch(part, work, report, job)
            if hung == 0:
                self._batch = min(self._batch * _GROWTH, ROUND_CASES)
            elif hung > _HANGS:
                self._batch = max(self._batch // _GROWTH, _FIRST_BATCH)
        report.complete = at >= len(drafts)
        heartbeat.enter(Stage.WAIT)
        return report

    def _judge_batch(
        self, drafts: Sequence[Draft], work: Work, report: RoundReport, job: RoundJob
    ) -> int:
        """Judge instructions and compare; return how many hung.

        What is left out depends on the round alone, not on how it is cut into batches.
        """
        heartbeat, documented = self._heartbeat, forms_by_opcode()
        asked = {
            draft.text: draft
            for draft in drafts
            if not work.costly
            or draft.opcode in documented
            or work.costly.get(likeness(draft), 0) < _COSTLY_ENOUGH
        }
        heartbeat.enter(Stage.ORACLE)
        verdicts = {
            text: verdict_of(text, target=work.target, ptx_version=work.version) for text in asked
        }

        def doubt(text: str) -> Doubt:
            if verdicts[text] is not Verdict.ILLEGAL:
                return Doubt.NONE
            return Doubt.STRONG if likeness(asked[text]) in self._failed else Doubt.SOME

        heartbeat.enter(Stage.RUN)
        texts = list(asked)
        judged = {0: self._judge(0, work).judge(texts, doubt)}
        for which, assembler in enumerate(self._check.assemblers[1:], start=1):
            if assembler.accepts(work.version, work.target):
                judged[which] = self._judge(which, work).judge(texts, doubt)
        heartbeat.enter(Stage.ORACLE)
        report.cases += len(drafts)
        report.unasked += len(drafts) - len(asked)
        report.coverage.programs += len(asked)
        counts = report.coverage.counts
        counts["targets"][work.target] += len(asked)
        counts["versions"][work.version] += len(asked)
        hung = 0
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
            if first.outcome > Outcome.REJECTED:
                alike = likeness(draft)
                self._failed.add(alike)
                counts["costly"][f"{work.target} {work.version} {alike}"] += 1
            hung += any(one.outcome is Outcome.HUNG for one in answers.values())
            for one in self._disagreements(draft, verdict, answers):
                self._report(one, report, job)
        heartbeat.count(len(asked))
        return hung

    @staticmethod
    def _disagreements(
        draft: Draft, verdict: Verdict, answers: Mapping[int, Judgement]
    ) -> Iterator[Disagreement]:
        first = answers[0]
        if verdict is not Verdict.ILLEGAL or first.outcome is not Outcome.REJECTED:
            kind = disagreement_of(draft, first)
            if kind is not None:
                yield Disagreement(kind, draft, {0: first})
        for which, other in answers.items():
            if other.outcome is not first.outcome:
                yield Disagreement(Kind.DIFFER, draft, {0: first, which: other})

    def _report(self, one: Disagreement, report: RoundReport, job: RoundJob) -> None:
        def store() -> Stored:
            origin = Origin(seed=self._check.seed, round=job.number)
            found = stored(one, self._check.assemblers, origin)
            return found.case, found.files

        core = core_of(one.kind, one.draft, one.explanation)
        report.suspect(core, job.settled, store)

    def _judge(self, which: int, work: Work) -> Judge:
        key = (which, work.target, work.version)
        if key not in self._judges:
            self._judges[key] = Judge(
                self._check.assemblers[which],
                target=work.target,
                version=work.version,
                deadline=HANG_SECONDS,
            )
        return self._judges[key]
