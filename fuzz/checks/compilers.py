"""The check of compilers: compares every version at every level with the others and the oracle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from corpus import Kind, ShrinkStatus
from corpus.finding import BESIDE, MODULE, PROGRAM
from corpus.programs import encode_program
from fuzz.checks import protocol
from fuzz.checks.compiler_suspects import (
    REFUSED_BY,
    BuildRefusal,
    MatrixExaminer,
    verdicts_on,
)
from fuzz.checks.examining import bucket_of_builds
from fuzz.checks.protocol import ShownCounter, health_of
from fuzz.checks.rounds import Rounds, Work
from fuzz.compilers.members import (
    NOWHERE,
    BuildMatrix,
    Built,
    BuiltVariant,
    Fitting,
    Member,
    MemberRunner,
    RunPlace,
    architecture_of,
    failed_in,
    fitting,
    given,
    placed,
    with_outcomes,
)
from fuzz.findings import families
from fuzz.findings.case import Evidence, case_of, files_of, instructions_of
from fuzz.findings.verdicts import Attempt, Subject, judge, other_kernels
from fuzz.kinds import KINDS, described
from fuzz.runner import RunnerChoice, kind_of_failure, without_figures
from oracle.execution.execution import execute, expansions, has_figures
from oracle.isa.forms import Form
from oracle.isa.targets import Module
from oracle.models import NO_FIGURES
from runners.cuda.compilation import release_of
from runners.kernels import KernelModule
from runners.protocol import Compiled, Failure, Images, Trouble
from runners.toolchains import DRIVER
from strategies.contents import expand
from strategies.draws import PtxVersions, Selection
from strategies.programs import GENERATOR_VERSION
from strategies.rounds import (
    Batch,
    ProgramCoverage,
    group_target,
    most_programs,
    selected_forms,
)

ROUNDS_OF_A_MODULE = {"cuda": 4, "sim": 1, NOWHERE: 4}
"""Draws whose programs share a module, by the runner: 32 programs take ptxas below a second."""
_IMAGES = {"cuda": 256, "sim": 32, NOWHERE: 1}  # of each program: as long as compiling it
_WRITTEN_IMAGES = 8  # of each program that front ends write: one of each class that reveals most
_STALL_SECONDS = 900.0  # of silence, then a worker is killed: a GPU takes four starts of 60 s


@dataclass(frozen=True, kw_only=True, eq=False)
class _Seen:
    """An image of a program that binaries do not turn into what the oracle says."""

    batch: Batch
    images: Images  # of a launch, before
    index: int = 0  # of the image among them
    first: int = 0  # number of the first of them, among those of the program
    failure: Failure | None = None  # why nothing came of them
    members: list[Member] = field(default_factory=list)  # whose binaries do that
    built: Built | None = None  # together with which other programs
    actual: NDArray[np.uint8] | None = None  # what the binary of the first member made of it
    compiled: Compiled | None = None  # this binary
    target: str = ""  # whose figures say what is right, with its compiler

    @property
    def image(self) -> NDArray[np.uint8]:
        image: NDArray[np.uint8] = self.images[self.index]
        return image

    def kind(self) -> Kind:
        if self.failure is not None:
            return kind_of_failure(self.failure)
        assert self.actual is not None
        judged = judge(self.batch.program, self.image[None], self.actual[None], target=self.target)
        (kind,) = filter(None, judged)
        return kind


class MatrixRounds(Rounds):
    """Carries out rounds of a matrix."""

    def __init__(
        self,
        matrix: BuildMatrix,
        place: RunPlace,
        *,
        forms: Sequence[Form],
        versions: PtxVersions,
        seed: int,
        heartbeat: protocol.Heartbeat,
    ) -> None:
        self._matrix, self._place = matrix, place
        self._failed_alone: set[tuple[Module, Member]] = set()
        """What modules are written for, and members that did not compile a program by itself."""
        super().__init__(
            target=place.target, forms=forms, versions=versions, seed=seed, heartbeat=heartbeat,
            toolchains={one.runner: one.toolchain for one in matrix.members}.values(),
            parts=ROUNDS_OF_A_MODULE[NOWHERE if place.opened is None else place.opened.choice.name],
        )  # fmt: skip

    def _carry_out(self) -> bool:
        self._failed_alone.clear()
        try:
            return super()._carry_out()
        finally:
            self._matrix.forget()

    def _build(
        self, modules: Sequence[KernelModule], members: Sequence[Member] | None = None
    ) -> Sequence[Built]:
        return self._matrix.build(*modules, members=members, beat=self._heartbeat.beat)

    def _variants(self, built: Built, entry: str) -> Sequence[BuiltVariant]:
        return self._matrix.variants(built, entry)

    def _as_compiled(self, batch: Batch, part: int) -> Batch:
        return replace(batch, entry=f"r{part}_{batch.entry}")

    def _cases(self, batch: Batch, built: Built | None = None) -> int:
        return 1 if self._place.opened is None else batch.count

    def _ended(self, built: Mapping[str, Built]) -> None:
        for module in {one.module.header: one for one in built.values()}.values():
            together = [
                member
                for member in failed_in(module)
                if member.assembler is not None
                and (module.module.header, member) not in self._failed_alone
            ]
            if together:
                self._refused(module, together)

    def _count(self, batch: Batch, built: Built, variants: Sequence[BuiltVariant]) -> None:
        counts, readers = self._report.counts, set(self._matrix.readers(batch.module))
        counts["programs",] += 1
        for member in self._matrix.members:
            own = protocol.BY_MEMBER, member.name
            compiled = isinstance(built.made.get(member), Compiled)
            counts[*own, "compiled"] += compiled
            counts[*own, "not compiled"] += member in readers and not compiled
            counts[*own, "not readable"] += member not in readers
            counts[*own, "compared"] += 0
            counts[*own, "images"] += 0
        counts["binaries",] += sum(len(variant.members) for variant in variants)
        counts["distinct",] += len(variants)
        failed = self._not_said(batch, built)
        if failed:
            counts["uncompiled",] += 1
            self._refused(built, failed, batch)

    def _not_said(self, batch: Batch, built: Built) -> list[Member]:
        """Count and keep what others than assemblers did not compile; return those that did not."""
        rest, failed, refused = [], dict[tuple[Kind, str], _Seen](), failed_in(built)
        for member, failure in refused.items():
            if failure.trouble is Trouble.UNSUPPORTED:
                self._unsupported(failure, [member])
            elif member.assembler is None:
                seen = _Seen(
                    batch=batch, images=expand(batch.recipe, batch.program, 1), failure=failure
                )
                said = kind_of_failure(failure), families.what_was_said(failure)
                failed.setdefault(said, seen).members.append(member)
            else:
                rest.append(member)
        right = [member for member in built.made if member not in refused]
        self._report.counts["uncompiled",] += bool(failed)
        for seen in failed.values():
            self._wrong_with(seen, right)
        return rest

    def _compare(
        self, batch: Batch, built: Built, variants: Sequence[BuiltVariant], first: int, count: int
    ) -> None:
        report, refused = self._report, failed_in(built)
        self._failed_alone.update((batch.module, member) for member in refused)
        said = any(one.trouble is not Trouble.UNSUPPORTED for one in refused.values())
        different = said and bool(variants)
        if self._place.opened is None:
            report.answered += count
            self._heartbeat.count(count)
        elif not variants:
            report.failed += count if said else 0
            report.unasked += 0 if said else count
        else:
            different |= self._run(batch, built, variants, first, count)
        report.cases += count
        if first == 0:
            report.counts["differences",] += different

    def _run(
        self, batch: Batch, built: Built, variants: Sequence[BuiltVariant], first: int, count: int
    ) -> bool:
        """Run the variants of a program; tell whether they differ."""
        report, counts = self._report, self._report.counts
        for variant in variants:
            self._place.check_runs(variant.compiled)
        self._heartbeat.enter(protocol.Stage.EXPAND)
        images = expand(batch.recipe, batch.program, count, first=first)
        self._heartbeat.enter(protocol.Stage.RUN)
        start = partial(self._matrix.device.submit, images=images, entry=batch.entry)
        pending = [start(variant.compiled) for variant in variants]
        expected: dict[tuple[str, ...], list[Images]] = {}
        wrong: dict[int, _Seen] = {}  # by the first image that differs from the oracle
        failed: dict[tuple[Kind, str], _Seen] = {}  # by kind and instruction
        right: list[Member] = []
        distinct, ran, bounds_alone = set[bytes](), 0, False
        for variant, one in zip(variants, pending, strict=True):
            target = self._judged(batch, variant)
            bounds_alone |= NO_FIGURES in expansions(batch.program, target=target)
            differ = self._wrong(batch, target, images, one.collect, expected)
            outcome = one.collect()
            self._heartbeat.beat()
            if isinstance(outcome, Failure) and outcome.trouble is Trouble.UNSUPPORTED:
                self._unsupported(outcome, variant.members)
                continue
            if isinstance(outcome, Failure):
                kind = kind_of_failure(outcome)
                what = families.under_a_condition(outcome) if kind is Kind.DIVERGENCE else ""
                seen = _Seen(batch=batch, images=images, first=first, failure=outcome)
                failed.setdefault((kind, what), seen).members.extend(variant.members)
                distinct.add(b"failed")
                continue
            distinct.add(outcome.images.tobytes())
            if len(differ):
                index = int(differ[0])
                seen = _Seen(
                    batch=batch, images=images, index=index, first=first, built=built,
                    actual=outcome.images[index].copy(), compiled=variant.compiled, target=target,
                )  # fmt: skip
                wrong.setdefault(index, seen).members.extend(variant.members)
            else:
                right.extend(variant.members)
            ran += 1
            for member in variant.members:
                counts[protocol.BY_MEMBER, member.name, "compared"] += first == 0
                counts[protocol.BY_MEMBER, member.name, "images"] += count
        report.compared += count if ran else 0
        report.failed += count if failed and not ran else 0
        report.unasked += 0 if ran or failed else count
        counts["images",] += ran * count
        counts["wrong",] += bool(wrong)
        counts["bounds alone",] += bounds_alone and first == 0
        self._heartbeat.count(count)
        for seen in (*failed.values(), *wrong.values()):
            self._wrong_with(seen, right)
        return len(distinct) > 1

    def _unsteady(self, seen: _Seen) -> Attempt | None:
        """Return a wrong result as an attempt where the same launch, once more, gives another."""
        if seen.actual is None or seen.compiled is None:
            return None
        program = seen.batch.program
        again = self._matrix.device.run(seen.compiled, seen.images, entry=seen.batch.entry)
        if isinstance(again, Failure) or np.array_equal(again.images[seen.index], seen.actual):
            return None
        expected = execute(program, seen.image[None], target=seen.target).images[0]
        return Attempt(kind=Kind.FLAKY, actual=seen.actual[None], expected=expected, failed=1)

    def _judged(self, batch: Batch, variant: BuiltVariant) -> str:
        """Return the oracle's target for a binary: of several compilers one with figures."""
        architecture = variant.compiled.architecture
        if not variant.compiled.release:
            return architecture
        targets = [
            f"{architecture}@{release_of(one.version)}"
            for one in variant.members
            if one.assembler is not None
        ] or [variant.compiled.oracle_target]
        known = [one for one in targets if has_figures(batch.program, target=one)]
        return (known or targets)[0]

    def _wrong_with(self, seen: _Seen, right: Sequence[Member]) -> None:
        """Add an image that some members' binaries do not turn into what the oracle says."""
        batch, kind, opened = seen.batch, seen.kind(), self._place.opened
        guilty = self._ordered(seen.members)
        asked = self._ordered([*guilty, *right])
        name = families.form_name(batch.form)
        bucket = bucket_of_builds(kind, name, guilty, asked, seen.failure)
        if self._told(bucket) or opened is None:
            self._suspect(bucket, lambda: (None, {}))
            return
        self._heartbeat.enter(protocol.Stage.RUN)
        runner = MemberRunner(self._matrix.device, guilty[0])
        there = None if guilty[0].toolchain.writes_ptx else seen.built
        alone = Subject(module=self._emitted(batch), program=batch.program, image=seen.image.copy())
        subject, shown = self._by_itself(runner, batch, alone, there)
        if shown.kind is None:
            # By itself it comes out right: what fails only in the company of other images is
            # not told apart here, but for what the same binary does not do every time.
            rare = self._unsteady(seen)
            if rare is None:
                self._report.counts["unconfirmed",] += 1
                return
            shown, kind, bucket = rare, Kind.FLAKY, families.bucket_of_flaky(batch.form)
        elif other_kernels(subject):
            kind = shown.kind
            bucket = bucket_of_builds(kind, name, guilty, asked, condition=BESIDE)

        def stored() -> protocol.Stored:
            evidence = Evidence(kind=kind, bucket=bucket, subject=subject, attempts=[shown])
            ready = replace(opened, choice=guilty[0].choice(opened.choice))
            origin = self._origin(seen.first + seen.index)
            case = case_of(evidence, ready, origin=origin, status=ShrinkStatus.RAW)
            outcomes = {member: kind.value if member in guilty else "match" for member in asked}
            return with_outcomes(case, outcomes), files_of(evidence)

        self._suspect(bucket, stored)

    def _refused(self, built: Built, failed: Sequence[Member], batch: Batch | None = None) -> None:
        """Note what some members do not compile: a program, or a whole module."""
        compiled = [one for one, made in built.made.items() if isinstance(made, Compiled)]
        verdicts = verdicts_on(
            built.module,
            failed,
            compiled,
            architecture=architecture_of(self._place.device, built.module.target),
        )
        refusal = BuildRefusal(
            module=built.module,
            verdicts={one: verdicts[one] for one in self._matrix.members if one in verdicts},
            opcodes=() if batch is None else instructions_of(batch.program),
        )
        kind = refusal.kind
        if kind is None:
            self._report.counts["unconfirmed",] += 1
            return
        name = "a whole module" if batch is None else families.form_name(batch.form)
        bucket = bucket_of_builds(kind, name, refusal.refusing, list(refusal.verdicts))

        def stored() -> protocol.Stored:
            files = {MODULE: built.module.ptx.encode()}
            files |= {} if batch is None else {PROGRAM: encode_program(batch.program)}
            return refusal.case(kind, bucket.identity, self._origin()), files

        self._suspect(bucket, stored)

    def _ordered(self, members: Sequence[Member]) -> tuple[Member, ...]:
        return tuple(member for member in self._matrix.members if member in members)

    def _unsupported(self, failure: Failure, members: Sequence[Member]) -> None:
        self._report.counts["unsupported",] += len(members)
        self._report.said = f"{members[0].name}: {failure.line}"


_COUNTERS: dict[str, tuple[str, str, bool]] = {
    "programs": ("program", "", False),
    "binaries": ("binary", "binaries", False),
    "distinct": ("distinct code", "", False),
    "images": ("image run", "images run", False),
    "differences": ("program with differences", "programs with differences", True),
    "wrong": ("program wrong", "programs wrong", True),
    "uncompiled": ("program not compiled by all", "programs not compiled by all", True),
    "bounds alone": ("program judged by the ISA's bounds alone",
        "programs judged by the ISA's bounds alone", True),
    "unsupported": ("unsupported", "unsupported", False),
}  # fmt: skip
"""Counters that people are shown, as `ShownCounter`: one, many, and whether it is odd, by key."""


@dataclass(frozen=True, kw_only=True)
class Compilers:
    """A check of what compilers make of programs."""

    choice: RunnerChoice  # where binaries run: "cuda", "sim", or NOWHERE
    members: tuple[Member, ...]  # the compilers; those that do not know the target are left out
    seed: int
    selection: Selection = field(default_factory=Selection)
    images: int | None = None  # of each program; None: what the runner does while it is compiled
    read_by_all: bool = False  # whether all members read the PTX ISA versions of programs
    wanted: bool = True  # whether somebody asked for this runner; else it is the best there is
    patience: float = _STALL_SECONDS

    def on(self, device: int) -> Compilers:
        return replace(self, choice=replace(self.choice, device=device))

    @contextmanager
    def opened(self, heartbeat: protocol.Heartbeat) -> Iterator[protocol.OpenCheck]:
        """Open the device and the compilers."""
        with placed(self.choice) as place:
            fit = fitting(self.members, place, read_by_all=self.read_by_all)
            opened, newest = place.opened, fit.versions.every[-1]
            selected = partial(selected_forms, self.selection, target=place.target, version=newest)
            forms = selected(groups=bool(fit.groups))
            asked = place.groups and group_target(selected(groups=True), place.target)
            facts = protocol.Facts(
                target=place.target,
                groups=group_target(forms, place.target),
                ptx_version=newest,
                drawn=fit.versions if place.drawn else None,
                version="" if opened is None else opened.version,
                device="compilers alone" if opened is None else opened.device,
                members=tuple(member.name for member in fit.members),
                left_out=(
                    *fit.skipped,
                    *(fit.without_groups if asked else ()),
                    *_judged_loosely(fit, place, forms),
                ),
            )
            # One at a time: there is a worker for every core.
            with BuildMatrix(place.device, fit.members, jobs=1, newest=fit.newest) as matrix:
                rounds = MatrixRounds(
                    matrix, place, forms=forms, versions=fit.versions, seed=self.seed,
                    heartbeat=heartbeat,
                )  # fmt: skip
                yield protocol.OpenCheck(
                    facts=facts,
                    round=rounds.report,
                    examine=MatrixExaminer(matrix, place, heartbeat).examine,
                    health=lambda: None if opened is None else health_of(opened),
                )

    def plan(self, facts: protocol.Facts) -> protocol.Plan:
        name = self.choice.name
        nowhere = name == NOWHERE
        members = [one for one in self.members if one.name in facts.members]
        forms = selected_forms(
            self.selection, target=facts.target, version=facts.ptx_version,
            groups=bool(facts.groups),
        )  # fmt: skip
        written = name == "sim" and any(one.toolchain.writes_ptx for one in self.members)
        images = self.images or (_WRITTEN_IMAGES if written else _IMAGES[name])
        zeros = ("programs", "binaries", "distinct", "differences", "wrong", "uncompiled")
        words = protocol.CheckWords(
            subject=described(members, members) + ("" if nowhere else f" on {facts.device}"),
            where=facts.where,
            case="program" if nowhere else "image",
            agreement="no binary ran; all compilers accept and reject the same of what they support"
            if nowhere
            else "all binaries that ran give what the oracle says",
            nothing_compared=self._nothing_compared(nowhere=nowhere),
            runner="the compilers" if nowhere else "compilers and device",
            answered="compiled, none executed" if nowhere else protocol.CheckWords.answered,
            unasked="that no compiler reads or that the device does not run",
            counters=tuple(ShownCounter((word,), *rest) for word, rest in _COUNTERS.items()),
        )
        # Its number and the seed say all of a round.
        cases = ROUNDS_OF_A_MODULE[name] * most_programs(forms, facts.target) * images
        drawn = partial(protocol.RoundPlan, work=Work(count=images), cases=cases)
        return protocol.Plan(
            words=words,
            forms=frozenset(form.opcode for form in forms),
            coverage=ProgramCoverage,
            round=lambda number, known: drawn(round=number),
            shrinks=lambda case: KINDS[case.kind].shrinks or REFUSED_BY in case.details,
            summary={
                **dict.fromkeys(zeros, 0),
                "runner": name,
                "device": "" if nowhere else facts.device,
                "target": facts.target,
                **facts.version_rows,
                "members": list(facts.members),
            },
        )

    def _nothing_compared(self, *, nowhere: bool) -> str:
        """Return why no binary may have run; empty where nobody asked for that."""
        if not nowhere:
            said = "no binary ran to its end; the findings and the counters say why"
            if self.choice.name == "sim":
                said += ". The simulated device runs no machine code: choose --runner cuda for that"
            return said
        if self.wanted:
            return ""
        return (
            "no GPU is here, so no binary ran, and the compilers were only asked what they accept. "
            f"Choose --runner cuda on a machine with a GPU; --runner {NOWHERE} asks what each "
            "accepts, and no more"
        )

    def options(self, facts: protocol.Facts) -> protocol.Options:
        return {
            "--runner": self.choice.name,
            "--seed": self.seed,
            "--only": self.selection.pattern,
            "--target": facts.target,
            "second target": facts.groups or None,
            **facts.version_options,
            **given(self.members),
            "levels": ",".join(map(str, sorted({one.level for one in self.members}))),
            "images of a program": self.images,
            "layout of the simulated device": self.choice.layout,
            "version of the generator": GENERATOR_VERSION,
        }


def _judged_loosely(fit: Fitting, place: RunPlace, forms: Sequence[Form]) -> Iterator[str]:
    """Yield a sentence for each compiler of whose code the model does not know all figures."""
    if place.opened is None or not place.opened.release:
        return
    for named, version in dict.fromkeys((one.toolchain.named, one.version) for one in fit.members):
        release = place.opened.release if version == DRIVER.label else release_of(version)
        said = without_figures(forms, f"{place.architecture}@{release}", named)
        if said:
            yield said
