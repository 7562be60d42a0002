"""What a finding has to look like to be known: ranges of versions, wildcards, and schema 1.

Rows of schema 1, which users have, match a family's key and instructions by patterns, and say
nothing of levels; `corpus.known` has the rows of today.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from datetime import date
from functools import cache
from typing import Any

import msgspec

from corpus.builds import COMPILERS, Build, wrong_builds
from corpus.finding import Case, Kind, NonEmpty
from oracle.errors import UsageError
from oracle.targets import TARGETS


class Match(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a finding has to look like: all that is given has to hold."""

    family: NonEmpty | None = None
    """What the family's key fits, whole; * is any text, ? any character."""
    family_regex: NonEmpty | None = None
    instruction: NonEmpty | None = None
    """What one and the same instruction of the finding fits, as the regular expression does."""
    instruction_regex: NonEmpty | None = None
    every_instruction_regex: NonEmpty | None = None
    """What all instructions of the finding fit: what is named by its first word alone may be any of
    those that begin with it."""
    runner: NonEmpty | tuple[NonEmpty, ...] | None = None
    """Whose verdicts it is about; None for anybody's."""
    versions: NonEmpty | None = None
    """Range that the version of every verdict's runner has to be in."""
    compilers: NonEmpty | tuple[NonEmpty, ...] | None = None
    """Names of compilers, each with a range or for all of its versions: whatever came out wrong,
    one of these has compiled; None for any."""
    ptx_versions: NonEmpty | None = None
    targets: tuple[NonEmpty, ...] | None = None
    """Patterns of targets, one of which has to fit; None: any target."""


class PatternRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of schema 1."""

    id: NonEmpty
    kind: Kind | tuple[Kind, ...]
    """One of them: of a defect, wrong values may be forbidden or happen to be permitted."""
    match: Match
    reason: NonEmpty
    evidence: NonEmpty
    """A text, or the path of a finding or a page."""
    expires: date | None = None
    """The last day on which it holds; None for good."""

    def fits(self, case: Case) -> bool:
        """Whether a finding is what this is about.

        A finding with several verdicts is explained only if all of them are: a known discrepancy
        of one assembler must not hide what another one does.
        """
        match = self.match
        return (
            case.kind in (self.kind if isinstance(self.kind, tuple) else (self.kind,))
            and any(_fits(key, match.family, match.family_regex) for key in case.keys)
            and any(
                _fits(instruction, match.instruction, match.instruction_regex)
                for instruction in case.instructions
            )
            and all(_fits(one, None, match.every_instruction_regex) for one in case.instructions)
            and (
                match.targets is None or any(_fits(case.target, one, None) for one in match.targets)
            )
            and within(case.ptx_version, match.ptx_versions)
            and (match.compilers is None or self._by_these_compilers(case))
            and (bool(case.runners) or (match.runner is None and match.versions is None))
            and all(
                (match.runner is None or verdict.runner in _several(match.runner))
                and within(verdict.version, match.versions)
                for verdict in case.runners
            )
        )

    def covers(self, build: Build) -> bool:
        """Whether it is known of a build: of all, where it fits."""
        return True

    def _by_these_compilers(self, case: Case) -> bool:
        named = [text.partition(" ") for text in _several(self.match.compilers or ())]
        wrong = wrong_builds(case)
        return bool(wrong) and all(
            any(one.compiler == who and within(one.version, bounds) for who, _, bounds in named)
            for one in wrong
        )


def _several(texts: str | tuple[str, ...]) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else texts


def _fits(text: str, pattern: str | None, regex: str | None) -> bool:
    return (pattern is None or wildcards(pattern).fullmatch(text) is not None) and (
        regex is None or _regex(regex).fullmatch(text) is not None
    )


@cache
def wildcards(text: str) -> re.Pattern[str]:
    """Return a text in which * is any text and ? any character as a regular expression."""
    # Not fnmatch: its [...] is a set of characters, and instructions have [addresses] in them.
    parts = {"*": ".*", "?": "."}
    return re.compile("".join(parts.get(sign, re.escape(sign)) for sign in text), re.DOTALL)


@cache
def _regex(text: str) -> re.Pattern[str]:
    return re.compile(text, re.DOTALL)


def check_patterns(match: Match, label: str) -> None:
    """Raise UsageError if a row of schema 1 has a pattern that is none; `label` names its field."""
    patterns = (("family", match.family_regex), ("instruction", match.instruction_regex))
    if not (match.family or match.instruction or any(regex for _, regex in patterns)):
        raise UsageError(
            f"{label}: it names neither a family nor an instruction; give family, "
            "family_regex, instruction or instruction_regex"
        )
    for field, regex in (*patterns, ("every_instruction", match.every_instruction_regex)):
        try:
            _regex(regex or "")
        except (re.error, RecursionError, OverflowError) as error:
            raise UsageError(
                f"{label}.{field}_regex: {regex!r:.200} is no regular expression "
                f"({error}); mend it, or use match.family or match.instruction with * and ?"
            ) from error
    for text in match.targets or ():
        if not any(_fits(target, text, None) for target in TARGETS):
            raise UsageError(
                f"{label}.targets: {text!r} fits no target; known are {', '.join(TARGETS)}"
            )
    ranges = [("versions", match.versions)]
    for text in _several(match.compilers or ()):
        name, _, bounds = text.partition(" ")
        if name not in COMPILERS:
            raise UsageError(
                f"{label}.compilers: {text!r:.80} names no compiler that is known "
                f"here ({', '.join(COMPILERS)}); write it like 'ptxas >=12.4,<=13.5' or 'driver'"
            )
        ranges.append(("compilers", bounds))
    for field, asked in (*ranges, ("ptx_versions", match.ptx_versions)):
        try:
            within("", asked)
        except UsageError as error:
            raise UsageError(f"{label}.{field}: {error}") from error


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_VERSION = r"\d{1,9}(?:\.\d{1,9}){0,9}"
_BOUND = re.compile(rf"\s*(>=|<=|==|!=|>|<)\s*({_VERSION})\s*", re.ASCII)
_NUMBERS = re.compile(_VERSION, re.ASCII)


def within(version: str, bounds: str | None) -> bool:
    """Whether a version, such as "V13.5.37", keeps all bounds; any does where there are none.

    It is compared by as many numbers as a bound has, so that "<=12.8" and "==12.8" hold for
    12.8.93: bounds name releases, and assemblers name builds. Numbers that it lacks count as zero;
    one without numbers keeps no bound. Raises UsageError as `parse_range`.
    """
    if not bounds:
        return True
    asked, found = parse_range(bounds), _NUMBERS.search(version)
    if found is None:
        return False
    numbers = _numbers(found[0])
    return all(
        _OPERATORS[sign]((*numbers, *(0,) * len(bound))[: len(bound)], bound)
        for sign, bound in asked
    )


@cache
def parse_range(text: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return the bounds, each a sign and numbers, that a text such as ">=12.0,<13.2" names.

    Raises UsageError if it names none.
    """
    bounds = []
    for part in text.split(","):
        found = _BOUND.fullmatch(part)
        if found is None:
            raise UsageError(
                f"{text!r} is no range of versions: {part.strip()!r} has to be one of "
                f"{', '.join(_OPERATORS)} and a version; write it like '>=12.0,<13.2'"
            )
        bounds.append((found[1], _numbers(found[2])))
    return tuple(bounds)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split("."))
