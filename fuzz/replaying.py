"""Assembling stored findings again, and saying whether they still disagree."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from corpus import Entry, Finding, Kind
from fuzz.disagreements import Expectation, kind_of
from oracle.errors import UsageError
from oracle.legality import Verdict, explain
from oracle.targets import parse_target, parse_version
from runners.assemblers.assembler import Assembler
from runners.assemblers.discovery import discover, find
from runners.assemblers.judgements import Outcome
from runners.assemblers.judging import judge_module

MODULE = "module.ptx"
"""The file of an assembler finding that shows it with plain ptxas."""
_TARGET = re.compile(r"^(\s*\.target\s+)sm_\w+", re.MULTILINE)
_VERSION = re.compile(r"^(\s*\.version\s+)\d+\.\d+", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """What became of one finding."""

    entry: Entry
    assemblers: tuple[Assembler, ...]
    outcomes: Counter[tuple[Outcome, ...]]
    """How often the assemblers did what."""
    kind: Kind | None
    """What it is now: None if assembler and ISA agree, FLAKY if the repeats differ."""
    message: str
    """What the first assembler said in the end."""

    @property
    def verdict(self) -> str:
        """Say "reproduced", "changed" (into another kind), "flaky" or "gone"."""
        if self.kind is None:
            return "gone"
        if self.kind is Kind.FLAKY:
            return "flaky"
        return "reproduced" if self.kind is self.entry.finding.kind else "changed"


def shared_version(entry: Entry, wanted: Sequence[str | None], *, target: str | None = None) -> str:
    """Return the highest PTX version, up to a finding's own, that several assemblers take.

    Else an older assembler would refuse a module for its `.version`, whatever stands in it.

    Parameters
    ----------
    wanted, target
        As of `replay`.

    Raises
    ------
    UsageError
        If an assembler is not here, or one of them has no such version for the target.
    """
    finding = entry.finding
    assemblers = [one for name in wanted for one in _assemblers(finding, name)]
    highest = [assembler.highest_version for assembler in assemblers]
    version = str(min([parse_version(finding.ptx_version), *highest]))
    name = target or finding.target
    for assembler in assemblers:
        if not assembler.accepts(version, name):
            raise UsageError(
                f"{assembler} takes no module with .version {version} and .target {name}, so that "
                f"it cannot be compared over finding {finding.id}; choose another --target"
            )
    return version


def replay(
    entry: Entry,
    *,
    times: int,
    wanted: str | None,
    target: str | None = None,
    version: str | None = None,
) -> Replayed:
    """Assemble a finding's module again.

    Parameters
    ----------
    times
        How often.
    wanted
        Path or version of the assembler; that of the finding where None.
    target
        Value of .target instead of the finding's.
    version
        Value of .version instead of the finding's.

    Raises
    ------
    UsageError
        If the finding has no module, or the assembler is not here.
    """
    finding = entry.finding
    if MODULE not in finding.files:
        raise UsageError(
            f"finding {finding.id} has no {MODULE}, so it is none of an assembler; only those can "
            "be replayed by this version"
        )
    module = entry.read(MODULE).decode(errors="replace")
    if target is not None:
        parse_target(target)
        finding = msgspec.structs.replace(finding, target=target)
        module = _TARGET.sub(rf"\g<1>{target}", module)
    if version is not None:
        finding = msgspec.structs.replace(finding, ptx_version=version)
        module = _VERSION.sub(rf"\g<1>{version}", module)
    assemblers = _assemblers(finding, wanted)
    outcomes: Counter[tuple[Outcome, ...]] = Counter()
    message = ""
    for _ in range(times):
        verdicts = [judge_module(one, module, target=finding.target) for one in assemblers]
        outcomes[tuple(verdict.outcome for verdict in verdicts)] += 1
        message = "\n".join(verdicts[0].messages) or verdicts[0].ending
    return Replayed(
        entry=entry,
        assemblers=assemblers,
        outcomes=outcomes,
        kind=_kind(finding, outcomes),
        message=message,
    )


def _assemblers(finding: Finding, wanted: str | None) -> tuple[Assembler, ...]:
    if wanted is not None:
        return (find(wanted),)
    versions = [verdict.version for verdict in finding.runners if verdict.runner == "ptxas"]
    here = {assembler.version: assembler for assembler in discover().assemblers}
    missing = [one for one in versions if one not in here]
    if missing or not versions:
        needed = ", ".join(missing) or "an assembler"
        raise UsageError(
            f"finding {finding.id} was made with ptxas {needed}, which is not here (found: "
            f"{', '.join(here) or 'none'}); fetch it with `warpfuzz compilers fetch`, or choose "
            "another with --assembler"
        )
    return tuple(here[one] for one in versions)


def _kind(finding: Finding, outcomes: Counter[tuple[Outcome, ...]]) -> Kind | None:
    if len(outcomes) > 1:
        return Kind.FLAKY
    (seen,) = outcomes
    if finding.kind is Kind.DIFFER and len(seen) > 1:
        return Kind.DIFFER if len(set(seen)) > 1 else None
    return kind_of(expectation_of_finding(finding), seen[0])


def expectation_of_finding(finding: Finding) -> Expectation:
    """Return what the ISA, as the oracle knows it now, lets one expect of the instruction."""
    verdicts = [
        explain(text, target=finding.target, ptx_version=finding.ptx_version).verdict
        for text in finding.instructions
    ]
    if Verdict.ILLEGAL in verdicts:
        return Expectation.REJECT
    return Expectation.OPEN if Verdict.UNDEFINED in verdicts else Expectation.ACCEPT
