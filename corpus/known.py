"""Known findings: rows of a TOML file, and the findings of the record that ships.

A row has an identity and the builds that have it. A finding is known if each of its builds has it,
by a row or because the record's finding of that identity fails with it too; with any other build
the finding is new, and `Known.like` says which one it resembles.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from importlib.resources import files
from itertools import permutations
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from corpus import durable
from corpus.builds import DEFAULT_LEVEL, Build, wrong_builds
from corpus.finding import (
    WRONG_RESULT,
    WRONG_STEP,
    Case,
    Finding,
    Identity,
    Kind,
    NonEmpty,
    explain,
)
from corpus.known_patterns import Match, PatternRow, check_patterns, parse_range, wildcards, within
from corpus.opening import FOLDER, MANIFEST, open_corpus, read_answers
from oracle.errors import UsageError
from oracle.given_files import TOML_BYTES, parse_toml, read_given

SCHEMA = 2
"""Version of the file that this module writes; it reads 1, too."""
PACKAGED = "known.toml"
"""Name of the file that comes with warpfuzz."""
_MOST_INSTRUCTIONS = 6
"""Of an identity that a row matches: their orders are tried one by one, 720 of six."""


class Span(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Versions of a compiler."""

    name: NonEmpty
    """One of `corpus.builds.COMPILERS`, or as `corpus.builds.Build.compiler` has it."""
    first: str = ""
    """The first version that has it, such as "11.8"; "": any before the last."""
    last: str = ""
    """The last version that has it; "": any after the first."""
    levels: tuple[Annotated[int, Meta(ge=0, le=3)], ...] = (0, 1, 2, 3)

    def covers(self, build: Build) -> bool:
        """Whether a build is one of these."""
        return (
            build.compiler == self.name
            and build.level in self.levels
            and within(build.version, f">={self.first}" if self.first else None)
            and within(build.version, f"<={self.last}" if self.last else None)
        )


class KnownRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row: in patterns, * is any text, ? any character, and | stands between alternatives."""

    id: NonEmpty
    failure: NonEmpty
    """As `corpus.finding.Identity` has it, and so the next three, which are patterns."""
    instructions: tuple[NonEmpty, ...] = ()
    """A pattern for each instruction, in any order; ["*"] alone fits any instructions."""
    condition: str = ""
    message: str = ""
    program: NonEmpty | None = None
    """A pattern of which one of the finding's instructions is, as its module has them."""
    ptx_versions: NonEmpty | None = None
    """A range such as ">=7.0,<8.1"."""
    compilers: Annotated[tuple[Span, ...], Meta(min_length=1)]
    cause: NonEmpty
    """In at most three sentences."""
    finding: str = ""
    """Id of a finding that shows it."""
    evidence: str = ""
    """What else shows it."""
    expires: date | None = None
    """The last day on which it holds; None for good."""

    def fits(self, case: Case) -> bool:
        """Whether a case has this identity, whatever build shows it."""
        identity = case.identity
        return (
            self.failure == identity.failure
            and _fits(self.condition, identity.condition)
            and _fits(self.message, identity.message)
            and self._names(identity.instructions)
            and (self.program is None or any(_fits(self.program, one) for one in case.instructions))
            and within(case.ptx_version, self.ptx_versions)
        )

    def _names(self, instructions: tuple[str, ...]) -> bool:
        if self.instructions == ("*",):
            return True
        if len(instructions) != len(self.instructions) or len(instructions) > _MOST_INSTRUCTIONS:
            return False
        return any(all(map(_fits, self.instructions, some)) for some in permutations(instructions))

    def covers(self, build: Build) -> bool:
        """Whether it is known of a build."""
        return any(span.covers(build) for span in self.compilers)


@dataclass(frozen=True, kw_only=True)
class RecordRow:
    """A finding of the record, with the builds that fail on it."""

    id: str
    identity: Identity
    builds: frozenset[Build]
    telling: bool = True
    """Whether the identity is of one cause; if not, it is of this very finding alone."""
    expires: None = None

    def fits(self, case: Case) -> bool:
        """Whether a case has this identity."""
        return case.identity == self.identity and (
            self.telling or (isinstance(case, Finding) and case.id == self.id)
        )

    def covers(self, build: Build) -> bool:
        """Whether the finding of the record fails with a build."""
        return build in self.builds


Row = KnownRow | RecordRow | PatternRow
"""What a finding may be known as."""


def _fits(pattern: str, text: str) -> bool:
    return any(wildcards(one).fullmatch(text) for one in pattern.split("|"))


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is known, first of all that is asked for."""

    entries: tuple[Row, ...] = ()
    recorded: Mapping[Identity, tuple[RecordRow, ...]] = field(default_factory=dict)

    def match(self, case: Case, *, today: date | None = None) -> Row | None:
        """Return what a finding is known as; None if a build of it is not known to have it.

        The day to judge by is the current one in UTC if none is given.
        """
        like = self._like(case, today)
        builds = wrong_builds(case)
        known = bool(like) and all(any(one.covers(each) for one in like) for each in builds)
        # What names no build, such as a case by hand, is known by rows that ask for none.
        return like[0] if known and (builds or isinstance(like[0], PatternRow)) else None

    def like(self, case: Case, *, today: date | None = None) -> Row | None:
        """Return what has the identity of a finding, whatever builds are known to have it."""
        return next(iter(self._like(case, today)), None)

    def _like(self, case: Case, today: date | None) -> list[Row]:
        rows = [one for one in self.entries if not _over(one, today) and one.fits(case)]
        return [*rows, *(one for one in self.recorded.get(case.identity, ()) if one.fits(case))]

    def expired(self, *, today: date | None = None) -> tuple[Row, ...]:
        """Return the rows whose last day has passed: to renew or to remove."""
        return tuple(one for one in self.entries if _over(one, today))


def _over(row: Row, today: date | None) -> bool:
    return row.expires is not None and row.expires < (today or datetime.now(UTC).date())


def load_known(path: Path | None = None) -> Known:
    """Return what a TOML file says is known.

    Without a path, the one that comes with warpfuzz is read. Raises UsageError if something in it
    is not what it has to be: file, row and field are named.
    """
    if path is None:
        return parse_known(files("corpus").joinpath(PACKAGED).read_bytes(), PACKAGED)
    with durable.explained("read", path):
        data = read_given(path, most=TOML_BYTES)
    return parse_known(data, str(path))


def known_with(path: Path | None, *, nothing: bool = False) -> Known:
    """Return what ships with warpfuzz as known, record included, and what a file has.

    With `nothing`, nothing is known.
    """
    if nothing:
        return Known()
    own: tuple[Row, ...] = ()
    if path is not None:
        if not path.is_file():
            raise UsageError(f"{path} is no file; --known takes a TOML file like corpus/known.toml")
        own = load_known(path).entries
    return Known(entries=(*load_known().entries, *own), recorded=recorded())


def recorded() -> Mapping[Identity, tuple[RecordRow, ...]]:
    """Return the findings of the record that ships by identity; none where it is not installed."""
    found: dict[Identity, tuple[RecordRow, ...]] = {}
    if (FOLDER / MANIFEST).is_file():
        told = read_answers()
        for entry in open_corpus(FOLDER).entries(checksums=False):
            finding = entry.finding
            builds = {finding.identity: set(wrong_builds(finding))}
            for version, answer in zip(told.asked, told.of(finding.id), strict=False):
                kind = _kind_of(answer or "", finding)
                if kind is not None:
                    identity = msgspec.structs.replace(finding.identity, failure=kind.failure)
                    builds.setdefault(identity, set()).add(Build("ptxas", version, DEFAULT_LEVEL))
            for identity, some in builds.items():
                row = RecordRow(
                    id=finding.id,
                    identity=identity,
                    builds=frozenset(some),
                    telling=_tells(finding),
                )
                found[identity] = (*found.get(identity, ()), row)
    return found


_VAGUE = ("scalar code", "a predicate", "a branch", "a loop", "branch or loop")
"""What names of several causes begin with: nothing else was found to be wrong."""


def _tells(finding: Finding) -> bool:
    """Whether experiments told more of a wrong result than what the program is about."""
    names = finding.identity.instructions
    vague = WRONG_STEP not in finding.details or all(one.startswith(_VAGUE) for one in names)
    return finding.kind.failure != WRONG_RESULT or not vague


_FAILING = {
    "crash": Kind.CRASH,
    "hang": Kind.HANG,
    "internal error": Kind.INTERNAL,
    "unreadable": Kind.UNREADABLE,
}


def _kind_of(answer: str, finding: Finding) -> Kind | None:
    """Return what an answer of the record is called; None where it is as the ISA says.

    A module at which one ptxas crashes may be another one's internal error.
    """
    if answer == ("accepted" if finding.oracle.verdict == "illegal" else "rejected"):
        return Kind.ACCEPTED if answer == "accepted" else Kind.REJECTED
    return _FAILING.get(answer)


def mark_known(
    path: Path, finding: Finding, *, cause: str, evidence: str, until: date | None
) -> KnownRow:
    """Add a row to a file: the identity of a finding, and the builds that it shows.

    Parameters
    ----------
    path
        The file; made if it is not there. What stands in it stays as it is.
    evidence
        What shows it beside the finding itself.
    until
        The last day on which it holds; None for good.
    """
    # The folder's lock, and not the file's, which is another one after each writing.
    folder = path.resolve().parent
    with durable.explained("write", path), durable.exclusive(folder):
        before = f"schema = {SCHEMA}\n".encode()
        if os.path.lexists(path):
            with durable.explained("read", path):
                before = read_given(path, most=TOML_BYTES)
            parse_known(before, str(path))
            # Rows of schema 1 may stand in a file of schema 2.
            before = re.sub(rb"(?m)^schema\s*=\s*1\b", b"schema = 2", before, count=1)
        identity, builds = finding.identity, wrong_builds(finding)
        if not builds:
            raise UsageError(
                f"finding {finding.id} names no compiler or runner that showed it, and a finding "
                "is known of builds; write a row with compilers by hand"
            )
        row = KnownRow(
            id=finding.id,
            failure=identity.failure,
            instructions=tuple(map(_pattern, identity.instructions)),
            condition=_pattern(identity.condition),
            message=_pattern(identity.message),
            compilers=tuple(_spans(builds)),
            cause=cause,
            finding=finding.id,
            evidence=evidence,
            expires=until,
        )
        added = f"\n[[known]]\n{_toml_row(row)}"
        whole = before.rstrip() + b"\n" + added.encode()
        parse_known(whole, str(path))
        durable.write_output(path, whole)
    return row


def _pattern(text: str) -> str:
    return text.replace("|", "?")


def _spans(builds: Iterable[Build]) -> Iterator[Span]:
    levels: dict[tuple[str, str], list[int]] = {}
    for compiler, version, level in sorted(builds):
        levels.setdefault((compiler, version), []).append(level)
    for (compiler, version), own in levels.items():
        yield Span(name=compiler, first=version, last=version, levels=tuple(own))


def _toml_row(row: KnownRow) -> str:
    given = msgspec.to_builtins(row, builtin_types=(date,))
    shown = {name: value for name, value in given.items() if value not in (None, "")}
    return "".join(f"{name} = {_toml(value)}\n" for name, value in shown.items())


def _toml(value: object) -> str:
    """Return a value as TOML 1.0 writes it: texts as JSON does, but for the sign of deletion."""
    match value:
        case str():
            text = value.encode(errors="replace").decode()
            return json.dumps(text, ensure_ascii=False).replace("\x7f", r"\u007f")
        case list() | tuple():
            return f"[{', '.join(map(_toml, value))}]"
        case dict():
            return f"{{ {', '.join(f'{name} = {_toml(one)}' for name, one in value.items())} }}"
    return str(value)


def parse_known(data: bytes, name: str) -> Known:
    """Return what a TOML text says is known, as `load_known`; messages name the file."""
    document = parse_toml(data, name)
    unknown = sorted(document.keys() - {"schema", "known"})
    if unknown:
        raise UsageError(
            f"{name}: there is no field {unknown[0]!r:.80}; at the top stand schema and [[known]]"
        )
    schema = document.get("schema")
    if schema not in (1, SCHEMA):
        raise UsageError(
            f"{name}: its schema is {schema!r:.80}, and this warpfuzz reads 1 and {SCHEMA}; write "
            f"schema = {SCHEMA} at its top, or upgrade warpfuzz"
        )
    rows = document.get("known", [])
    if not isinstance(rows, list):
        raise UsageError(f"{name}: known is no list of tables; write each as [[known]]")
    by_id: dict[str, Row] = {}
    for number, document in enumerate(rows, 1):
        label = f"{name}, entry {number}"
        if isinstance(document, Mapping) and isinstance(document.get("id"), str):
            label += f" ({document['id']:.80})"
        old = isinstance(document, Mapping) and "match" in document
        row: Row = (_pattern_row if old or schema == 1 else _row)(document, label)
        if row.id in by_id:
            raise UsageError(f"{name}: two entries have the id {row.id!r}; rename one of them")
        by_id[row.id] = row
    return Known(entries=tuple(by_id.values()))


def _row(document: object, label: str) -> KnownRow:
    row = _converted(document, KnownRow, label)
    if not (row.finding or row.evidence):
        raise UsageError(f"{label}: nothing shows it; give finding, an id, or evidence, a text")
    bounds = [row.ptx_versions] if row.ptx_versions else []
    for span in row.compilers:
        bounds += [f">={one}" for one in (span.first, span.last) if one]
    for text in bounds:
        try:
            parse_range(text)
        except UsageError as error:
            raise UsageError(f"{label}: {error}") from error
    return row


def _pattern_row(document: object, label: str) -> PatternRow:
    matches = f", and its match may have {', '.join(Match.__struct_fields__)}"
    row = _converted(document, PatternRow, label, matches)
    check_patterns(row.match, f"{label}, field match")
    return row


_Row = TypeVar("_Row", KnownRow, PatternRow)


def _converted(document: object, kind: type[_Row], label: str, more: str = "") -> _Row:
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        fields = ", ".join(kind.__struct_fields__)
        raise UsageError(f"{label}: {explain(error)}; an entry has {fields}{more}") from error
