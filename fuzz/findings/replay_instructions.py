"""Assembling stored findings again, and saying whether they still disagree."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from corpus import Entry, Finding, Kind
from fuzz.findings.verdicts import Expectation, kind_of
from oracle.errors import InfrastructureError, UsageError
from oracle.legality import Verdict, explain
from oracle.targets import parse_target, parse_version
from runners.assemblers.assembler import Assembler
from runners.assemblers.discovery import discover, find
from runners.assemblers.judgements import Outcome
from runners.assemblers.judging import judge_module
from runners.protocol import Failure
from runners.ptx_pass import Rewriter

MODULE = "module.ptx"
"""The file of an assembler finding that shows it with plain ptxas."""
_TARGET = re.compile(r"^(\s*\.target\s+)sm_\w+", re.MULTILINE)
_VERSION = re.compile(r"^(\s*\.version\s+)\d+\.\d+", re.MULTILINE)
_LEVEL = re.compile(r"-O(\d)")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """An assembler, and how it is asked."""

    assembler: Assembler
    level: int | None
    """-O level; None: the assembler's default."""


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """What became of one finding."""

    entry: Entry
    asked: tuple[Asked, ...]
    outcomes: Counter[tuple[Outcome, ...]]
    """How often those that were asked did what."""
    kind: Kind | None
    """What it is now: None if assembler and ISA agree, FLAKY if the repeats differ."""
    message: str
    """What the first assembler said in the end."""

    @property
    def assemblers(self) -> Sequence[Assembler]:
        """The assemblers that were asked, each once."""
        return list(dict.fromkeys(one.assembler for one in self.asked))

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
    assemblers = [one.assembler for name in wanted for one in _asked(finding, name, None)]
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
    level: int | None = None,
    rewriters: Sequence[Rewriter] = (),
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
    level
        -O level; those that the finding tells of where None.
    rewriters
        What happens to the module before it is assembled, in order.

    Raises
    ------
    UsageError
        If the finding has no module, or the assembler is not here.
    InfrastructureError
        If a rewriter fails.
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
    for rewriter in rewriters:
        rewritten = rewriter(module)
        if isinstance(rewritten, Failure):
            raise InfrastructureError(f"finding {finding.id}: {rewritten.message}")
        module = rewritten
    asked = _asked(finding, wanted, level)
    outcomes: Counter[tuple[Outcome, ...]] = Counter()
    message = ""
    for _ in range(times):
        verdicts = [
            judge_module(one.assembler, module, target=finding.target, level=one.level)
            for one in asked
        ]
        outcomes[tuple(verdict.outcome for verdict in verdicts)] += 1
        message = "\n".join(verdicts[0].messages) or verdicts[0].ending
    return Replayed(
        entry=entry,
        asked=asked,
        outcomes=outcomes,
        kind=_kind(finding, outcomes),
        message=message,
    )


def _asked(finding: Finding, wanted: str | None, level: int | None) -> tuple[Asked, ...]:
    """Return who is asked: an assembler of that name, or those that the finding tells of."""
    told = [verdict for verdict in finding.runners if verdict.runner == "ptxas"]
    if wanted is not None:
        assembler = find(wanted)
        pairs = [(assembler, _level(one.options)) for one in told] or [(assembler, None)]
    else:
        here = {assembler.version: assembler for assembler in discover().assemblers}
        missing = list(dict.fromkeys(one.version for one in told if one.version not in here))
        if missing or not told:
            needed = ", ".join(missing) or "an assembler"
            raise UsageError(
                f"finding {finding.id} was made with ptxas {needed}, which is not here (found: "
                f"{', '.join(here) or 'none'}); fetch it with `warpfuzz compilers fetch`, or "
                "choose another with --assembler"
            )
        pairs = [(here[one.version], _level(one.options)) for one in told]
    return tuple(
        Asked(assembler=assembler, level=own)
        for assembler, own in dict.fromkeys(
            (assembler, found if level is None else level) for assembler, found in pairs
        )
    )


def _level(options: str) -> int | None:
    found = _LEVEL.search(options)
    return None if found is None else int(found[1])


def _kind(finding: Finding, outcomes: Counter[tuple[Outcome, ...]]) -> Kind | None:
    if len(outcomes) > 1:
        return Kind.FLAKY
    (seen,) = outcomes
    if finding.kind is Kind.DIFFER and len(set(seen)) > 1:
        return Kind.DIFFER
    expectation = expectation_of_finding(finding)
    kinds = [kind for kind in (kind_of(expectation, one) for one in seen) if kind is not None]
    if finding.kind in kinds:
        return finding.kind
    return max(kinds, key=lambda kind: kind.severity, default=None)


def expectation_of_finding(finding: Finding) -> Expectation:
    """Return what the ISA, as the oracle knows it now, lets one expect of the instruction."""
    verdicts = [
        explain(text, target=finding.target, ptx_version=finding.ptx_version).verdict
        for text in finding.instructions
    ]
    if Verdict.ILLEGAL in verdicts:
        return Expectation.REJECT
    return Expectation.OPEN if Verdict.UNDEFINED in verdicts else Expectation.ACCEPT
