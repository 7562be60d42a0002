"""Findings of a matrix as the corpus keeps them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version as distribution_version

import msgspec

from corpus import Case, Family, Kind, OracleVerdict, Origin, RunnerVerdict, ShrinkStatus, Versions
from fuzz.compiler_matrix.expansions import EXPANSION, Note
from fuzz.compiler_matrix.members import Member
from fuzz.compiler_matrix.progress import described
from fuzz.program_files import encode_program
from fuzz.runner_choice import OpenRunner
from fuzz.value_families import form_name
from fuzz.value_findings import MODULE, PROGRAM, Evidence, case_of
from fuzz.value_rounds import GENERATOR_VERSION
from oracle.isa import LdmatrixForm, MmaForm
from runners.assemblers.judgements import Outcome, Verdict
from runners.emission import emit
from runners.kernels import KernelModule

_INSTRUCTION = re.compile(r"^\s*((?:wmma|ldmatrix)\.[^;]+);", re.MULTILINE)
_TEXT_CHARACTERS = 4000
"""Of what a tool said; the rest rarely helps."""

KINDS = {
    Outcome.CRASHED: Kind.CRASH,
    Outcome.HUNG: Kind.HANG,
    Outcome.INTERNAL: Kind.INTERNAL,
    Outcome.UNREADABLE: Kind.UNREADABLE,
}
"""What is wrong whatever the other compilers do."""


def family_of(
    kind: Kind,
    form: MmaForm | LdmatrixForm | None,
    members: Sequence[Member],
    among: Sequence[Member],
) -> Family:
    """Return the family of what some members do: instruction and members."""
    name = form_name(form) if form is not None else "a whole module"
    every = len(members) == len(among)
    who = "every compiler" if every else f"only {described(members, among)}"
    return Family(key=f"{kind}/{name}/{who}", title=f"{kind}: {name}: {who}")


def value_case(
    evidence: Evidence,
    opened: OpenRunner,
    *,
    origin: Origin,
    status: ShrinkStatus,
    outcomes: Mapping[Member, str],
    wrong: Member,
) -> Case:
    """Describe a program that some members compile to another result.

    Parameters
    ----------
    outcomes
        What each member's binary does with the image.
    wrong
        The member that the evidence is of.
    """
    ready = replace(opened, choice=wrong.choice(opened.choice))
    case = case_of(evidence, ready, origin=origin, status=status)
    (own, *_) = case.runners
    others = [
        RunnerVerdict(
            runner="ptxas" if member.assembler is not None else "driver",
            version=member.version,
            options=f"-O{member.level}",
            outcome=outcome,
            device=opened.device,
        )
        for member, outcome in outcomes.items()
    ]
    agree = [member for member, outcome in outcomes.items() if outcome == "match"]
    disagree = [member for member in outcomes if member not in agree]
    details = {
        **case.details,
        "agree with the oracle": described(agree, list(outcomes)),
        "disagree with the oracle": described(disagree, list(outcomes)),
    }
    return msgspec.structs.replace(case, runners=(*others, own), details=details)


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A module that some members do not compile."""

    module: KernelModule
    form: MmaForm | LdmatrixForm | None
    """What its program is about; None if it takes a module of several programs."""
    verdicts: Mapping[Member, Verdict]
    """What each member that was asked does with it."""

    @property
    def kind(self) -> Kind | None:
        """What a finding of it is called; None where all accept it."""
        outcomes = {verdict.outcome for verdict in self.verdicts.values()}
        worst = max(outcomes)
        if worst in KINDS:
            return KINDS[worst]
        if outcomes == {Outcome.ACCEPTED}:
            return None
        return Kind.REJECTED if outcomes == {Outcome.REJECTED} else Kind.DIFFER

    @property
    def refusing(self) -> Sequence[Member]:
        """The members that do not accept it."""
        return [
            member
            for member, verdict in self.verdicts.items()
            if verdict.outcome is not Outcome.ACCEPTED
        ]

    def case(self, kind: Kind, family: Family, origin: Origin) -> Case:
        """Describe it for the corpus."""
        return Case(
            kind=kind,
            family=family,
            instructions=instructions_of(self.module.ptx),
            target=self.module.target,
            ptx_version=self.module.version,
            oracle=OracleVerdict(verdict="legal"),
            runners=tuple(
                RunnerVerdict(
                    runner="ptxas",
                    version=member.version,
                    options=f"-O{member.level}",
                    outcome=verdict.outcome.name.lower(),
                    message=("\n".join(verdict.messages) or verdict.ending)[:_TEXT_CHARACTERS],
                )
                for member, verdict in self.verdicts.items()
            ),
            versions=_versions(),
            origin=origin,
            details={"refused by": described(self.refusing, list(self.verdicts))},
        )


def note_case(note: Note, *, target: str, version: str) -> tuple[Case, Mapping[str, bytes]]:
    """Describe a changed expansion for the corpus, with its files."""
    module = emit(note.program, target=target, version=version)
    what = f"{note.before} in {note.before_version}, {note.after} in {note.after_version}"
    where = f"{target}, in shared memory" if note.shared else target
    family = Family(
        key=f"{EXPANSION}/{note.form}/{where}/{note.before_version}/{note.after_version}/{note.after}",
        title=f"expansion of {note.form} ({where}): {what}",
    )
    case = Case(
        kind=Kind.NOTE,
        family=family,
        instructions=instructions_of(module.ptx),
        target=target,
        ptx_version=version,
        oracle=OracleVerdict(verdict="legal"),
        runners=tuple(
            RunnerVerdict(runner="ptxas", version=who, options=options, outcome=outcome)
            for who, outcome in (
                (note.before_version, note.before),
                (note.after_version, note.after),
            )
            for options in (" ".join(f"-O{level}" for level in note.levels),)
        ),
        versions=_versions(),
    )
    files = {MODULE: module.ptx.encode(), PROGRAM: encode_program(note.program)}
    return case, files


def instructions_of(ptx: str) -> tuple[str, ...]:
    """Return the matrix instructions of a module with their operands, in order."""
    return tuple(f"{' '.join(match.split())};" for match in _INSTRUCTION.findall(ptx))


def _versions() -> Versions:
    return Versions(warpfuzz=distribution_version("warpfuzz"), generator=GENERATOR_VERSION)
