"""Known discrepancies: findings that somebody has explained, so that they do not raise alarm.

They are rows of a TOML file: what a finding has to look like, the reason, the evidence, and,
where that makes sense, a range of assembler versions and a last day.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib.resources import files
from pathlib import Path

import msgspec

from corpus import durable
from corpus.finding import Case, Kind, NonEmpty, explain
from oracle.errors import UsageError
from oracle.given_files import TOML_BYTES, parse_toml, read_given
from oracle.targets import TARGETS

SCHEMA = 1
"""Version of the file that this module reads."""
PACKAGED = "known.toml"
"""Name of the file that comes with warpfuzz."""


class _Match(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    family: NonEmpty | None = None
    family_regex: NonEmpty | None = None
    instruction: NonEmpty | None = None
    instruction_regex: NonEmpty | None = None
    runner: NonEmpty | tuple[NonEmpty, ...] | None = None
    versions: NonEmpty | None = None
    compilers: NonEmpty | tuple[NonEmpty, ...] | None = None
    ptx_versions: NonEmpty | None = None
    targets: tuple[NonEmpty, ...] | None = None


class _Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: NonEmpty
    kind: Kind
    match: _Match
    reason: NonEmpty
    evidence: NonEmpty
    expires: date | None = None


@dataclass(frozen=True, kw_only=True)
class KnownEntry:
    """One known discrepancy."""

    id: str
    kind: Kind
    reason: str
    evidence: str
    """A text, or the path of a finding or a page."""
    expires: date | None
    """The last day on which it holds; None for good."""
    families: tuple[re.Pattern[str], ...]
    """Patterns that the family's key has to fit, whole."""
    instructions: tuple[re.Pattern[str], ...]
    """Patterns that one and the same instruction of the finding has to fit, whole."""
    targets: tuple[re.Pattern[str], ...] | None
    """Patterns of which the target has to fit one; None for any target."""
    runners: frozenset[str] | None
    """Whose verdicts it is about; None for anybody's."""
    versions: VersionRange | None
    """Range that the version of every verdict's runner has to be in."""
    compilers: tuple[tuple[str, VersionRange | None], ...] | None = None
    """Names of compilers and ranges of their versions: whatever came out wrong, one of these has
    compiled; None for any."""
    ptx_versions: VersionRange | None
    """Range that the PTX ISA version has to be in."""

    def explains(self, case: Case) -> bool:
        """Whether a finding is what this is about, whatever the day.

        A finding with several verdicts is explained only if all of them are: a known discrepancy
        of one assembler must not hide what another one does.
        """
        return (
            case.kind is self.kind
            and all(pattern.fullmatch(case.family.key) for pattern in self.families)
            and any(
                all(pattern.fullmatch(instruction) for pattern in self.instructions)
                for instruction in case.instructions
            )
            and self._covers(case)
        )

    def expired(self, today: date) -> bool:
        """Whether its last day has passed."""
        return self.expires is not None and self.expires < today

    def _covers(self, case: Case) -> bool:
        if self.targets is not None and not any(
            pattern.fullmatch(case.target) for pattern in self.targets
        ):
            return False
        if self.ptx_versions is not None and case.ptx_version not in self.ptx_versions:
            return False
        if self.compilers is not None and not self._by_these_compilers(case):
            return False
        if (self.runners is not None or self.versions is not None) and not case.runners:
            return False
        return all(
            (self.runners is None or verdict.runner in self.runners)
            and (self.versions is None or verdict.version in self.versions)
            for verdict in case.runners
        )

    def _by_these_compilers(self, case: Case) -> bool:
        wrong = list(compilers_of(case))
        return bool(wrong) and all(
            any(
                name == who and (range_ is None or version in range_)
                for who, range_ in self.compilers or ()
            )
            for name, version in wrong
        )


_RIGHT = ("match", "accepted")
"""Outcomes of those who agree with the oracle."""
COMPILERS = ("ptxas", "driver")
"""Names of compilers: NVIDIA's assembler, and what the driver has of it."""


def compilers_of(case: Case) -> Iterator[tuple[str, str]]:
    """Iterate over the compilers whose code came out wrong, each with its version.

    They are those that have verdicts of their own, and the one that a runner says it took.
    """
    for verdict in case.runners:
        if verdict.runner in COMPILERS and verdict.outcome not in _RIGHT:
            yield verdict.runner, verdict.version
    said = str(case.details.get("compiler", ""))
    if said.startswith("ptxas "):
        yield "ptxas", said.split()[1]
    elif said.startswith("the driver"):
        yield "driver", ""
    elif said:
        yield said, ""


@dataclass(frozen=True, kw_only=True)
class Known:
    """A list of known discrepancies."""

    entries: tuple[KnownEntry, ...]

    def match(self, case: Case, *, today: date | None = None) -> KnownEntry | None:
        """Return the first entry that explains a finding and has not expired, or None.

        Parameters
        ----------
        case
            The finding.
        today
            The day to judge by; the current one in UTC if it is not given.
        """
        day = _today() if today is None else today
        for entry in self.entries:
            if not entry.expired(day) and entry.explains(case):
                return entry
        return None

    def expired(self, *, today: date | None = None) -> tuple[KnownEntry, ...]:
        """Return the entries whose last day has passed: to renew or to remove."""
        day = _today() if today is None else today
        return tuple(entry for entry in self.entries if entry.expired(day))


def load_known(path: Path | None = None) -> Known:
    """Return the known discrepancies in a TOML file.

    Parameters
    ----------
    path
        The file; the one that comes with warpfuzz if it is not given.

    Raises
    ------
    InfrastructureError
        If it cannot be read.
    UsageError
        If something in it is not what it has to be: file, entry and field are named.
    """
    if path is None:
        return parse_known(files("corpus").joinpath(PACKAGED).read_bytes(), PACKAGED)
    with durable.explained("read", path):
        data = read_given(path, most=TOML_BYTES)
    return parse_known(data, str(path))


def known_with(path: Path | None) -> Known:
    """Return the known discrepancies that come with warpfuzz, and those of a file.

    Raises
    ------
    UsageError
        If there is no such file, or it is not of this kind.
    """
    packaged = load_known()
    if path is None:
        return packaged
    if not path.is_file():
        raise UsageError(
            f"there is no file {path}; --known takes a TOML file like corpus/known.toml"
        )
    return Known(entries=(*packaged.entries, *load_known(path).entries))


def mark_known(
    path: Path, case: Case, *, name: str, reason: str, evidence: str, until: date | None
) -> KnownEntry:
    """Add an entry to a file of known discrepancies: what is of a finding's kind and family.

    Parameters
    ----------
    path
        The file; made if it is not there. What stands in it stays as it is.
    name
        Id of the entry.
    until
        The last day on which it holds; None for good.

    Raises
    ------
    UsageError
        If the file is not of this kind, or has an entry of this name.
    InfrastructureError
        If it cannot be read or written, or others write into its folder all the time.
    """
    # The folder's lock, and not the file's, which is another one after each writing.
    folder = path.resolve().parent
    with durable.explained("write", path), durable.exclusive(folder):
        before = b"schema = 1\n"
        if os.path.lexists(path):
            with durable.explained("read", path):
                before = read_given(path, most=TOML_BYTES)
            parse_known(before, str(path))
        family = case.family.key
        match = (
            {"family_regex": re.escape(family)} if set("*?") & set(family) else {"family": family}
        )
        fields = {"id": name, "kind": case.kind.value, "reason": reason, "evidence": evidence}
        lines = [f"{field} = {_toml(text)}" for field, text in fields.items()]
        lines += [f"expires = {until.isoformat()}"] if until is not None else []
        lines += [f"match = {{ {field} = {_toml(text)} }}" for field, text in match.items()]
        added = "\n".join(("", "[[known]]", *lines, ""))
        whole = before.rstrip() + b"\n" + added.encode()
        entry = parse_known(whole, str(path)).entries[-1]
        durable.write_output(path, whole)
    return entry


def _toml(text: str) -> str:
    """Return a text as a basic string of TOML 1.0."""
    signs = text.encode(errors="replace").decode()
    return '"' + "".join(_ESCAPED.get(sign, sign) for sign in signs) + '"'


_ESCAPED = {chr(sign): f"\\u{sign:04x}" for sign in (*range(0x20), 0x7F)}
_ESCAPED |= {sign: f"\\{sign}" for sign in ('"', "\\")}


def parse_known(data: bytes, name: str) -> Known:
    """Return the known discrepancies in a TOML text.

    Parameters
    ----------
    data
        The text in UTF-8.
    name
        Name of the file, for messages.

    Raises
    ------
    UsageError
        As `load_known`.
    """
    document = parse_toml(data, name)
    unknown = sorted(document.keys() - {"schema", "known"})
    if unknown:
        raise UsageError(
            f"{name}: there is no field {unknown[0]!r:.80}; at the top stand schema and [[known]]"
        )
    if document.get("schema") != SCHEMA:
        raise UsageError(
            f"{name}: its schema is {document.get('schema')!r:.80}, and this warpfuzz reads "
            f"{SCHEMA}; write schema = {SCHEMA} at its top, or upgrade warpfuzz"
        )
    rows = document.get("known", [])
    if not isinstance(rows, list):
        raise UsageError(f"{name}: known is no list of tables; write each as [[known]]")
    return Known(entries=_unique((_entry(row, name, at) for at, row in enumerate(rows, 1)), name))


def _unique(entries: Iterable[KnownEntry], name: str) -> tuple[KnownEntry, ...]:
    by_id: dict[str, KnownEntry] = {}
    for entry in entries:
        if entry.id in by_id:
            raise UsageError(f"{name}: two entries have the id {entry.id!r}; rename one of them")
        by_id[entry.id] = entry
    return tuple(by_id.values())


def _entry(document: object, name: str, number: int) -> KnownEntry:
    label = f"{name}, entry {number}"
    if isinstance(document, Mapping) and isinstance(document.get("id"), str):
        label += f" ({document['id']:.80})"
    try:
        row = msgspec.convert(document, _Row)
    except msgspec.ValidationError as error:
        raise UsageError(f"{label}: {explain(error)}; {_ALLOWED}") from error
    match = row.match
    if not (match.family or match.family_regex or match.instruction or match.instruction_regex):
        raise UsageError(
            f"{label}, field match: it names neither a family nor an instruction; give family, "
            "family_regex, instruction or instruction_regex"
        )
    runners = (match.runner,) if isinstance(match.runner, str) else match.runner
    return KnownEntry(
        id=row.id,
        kind=row.kind,
        reason=row.reason,
        evidence=row.evidence,
        expires=row.expires,
        families=_patterns(label, "family", match.family, match.family_regex),
        instructions=_patterns(label, "instruction", match.instruction, match.instruction_regex),
        targets=None if match.targets is None else _targets(label, match.targets),
        runners=None if runners is None else frozenset(runners),
        versions=_range(label, "versions", match.versions),
        compilers=_compilers(label, match.compilers),
        ptx_versions=_range(label, "ptx_versions", match.ptx_versions),
    )


_ALLOWED = (
    f"an entry has {', '.join(_Row.__struct_fields__)}, and its match may have "
    f"{', '.join(_Match.__struct_fields__)}"
)


def _compilers(
    label: str, texts: str | tuple[str, ...] | None
) -> tuple[tuple[str, VersionRange | None], ...] | None:
    if texts is None:
        return None
    found = []
    for text in (texts,) if isinstance(texts, str) else texts:
        name, _, bounds = text.partition(" ")
        if name not in COMPILERS:
            raise UsageError(
                f"{label}, field match.compilers: {text!r:.80} names no compiler that is known "
                f"here ({', '.join(COMPILERS)}); write it like 'ptxas >=12.4,<=13.5' or 'driver'"
            )
        found.append((name, _range(label, "compilers", bounds or None)))
    return tuple(found)


def _patterns(
    label: str, field: str, wildcards: str | None, regex: str | None
) -> tuple[re.Pattern[str], ...]:
    patterns = [] if wildcards is None else [_wildcards(wildcards)]
    if regex is not None:
        try:
            patterns.append(re.compile(regex, re.DOTALL))
        except (re.error, RecursionError, OverflowError) as error:
            raise UsageError(
                f"{label}, field match.{field}_regex: {regex!r:.200} is no regular expression "
                f"({error}); mend it, or use match.{field} with * and ?"
            ) from error
    return tuple(patterns)


def _wildcards(text: str) -> re.Pattern[str]:
    # Not fnmatch: its [...] is a set of characters, and instructions have [addresses] in them.
    parts = {"*": ".*", "?": "."}
    return re.compile("".join(parts.get(sign, re.escape(sign)) for sign in text), re.DOTALL)


def _targets(label: str, texts: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    patterns = []
    for text in texts:
        pattern = _wildcards(text)
        if not any(pattern.fullmatch(target) for target in TARGETS):
            raise UsageError(
                f"{label}, field match.targets: {text!r} fits no target; known are "
                f"{', '.join(TARGETS)}"
            )
        patterns.append(pattern)
    return tuple(patterns)


def _range(label: str, field: str, text: str | None) -> VersionRange | None:
    if text is None:
        return None
    try:
        return parse_range(text)
    except UsageError as error:
        raise UsageError(f"{label}, field match.{field}: {error}") from error


def _today() -> date:
    return datetime.now(UTC).date()


Numbers = tuple[int, ...]

_OPERATORS: dict[str, Callable[[Numbers, Numbers], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_BOUND = re.compile(r"\s*(>=|<=|==|!=|>|<)\s*(\d{1,9}(?:\.\d{1,9}){0,9})\s*", re.ASCII)
_NUMBERS = re.compile(r"\d{1,9}(?:\.\d{1,9}){0,9}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class VersionRange:
    """Bounds that a version has to keep, all of them.

    A version is compared by as many numbers as the bound has, so that "<=12.8" and "==12.8" hold
    for 12.8.93: the bounds name releases, and assemblers name builds.
    """

    bounds: tuple[tuple[str, Numbers], ...]

    def __contains__(self, version: str) -> bool:
        """Whether a version, such as "V13.5.37", keeps every bound; one without numbers does not.

        Numbers that it lacks count as zero.
        """
        found = _NUMBERS.search(version)
        if found is None:
            return False
        numbers = _numbers(found[0])
        return all(
            _OPERATORS[sign]((*numbers, *(0,) * len(bound))[: len(bound)], bound)
            for sign, bound in self.bounds
        )


def parse_range(text: str) -> VersionRange:
    """Return the range that a text such as ">=12.0,<13.2" names.

    Raises
    ------
    UsageError
        If it names none.
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
    return VersionRange(bounds=tuple(bounds))


def _numbers(text: str) -> Numbers:
    return tuple(int(number) for number in text.split("."))
