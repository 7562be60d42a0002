"""Known discrepancies: findings that somebody has explained, which do not count as new.

They are rows of a TOML file: what a finding has to look like, the reason, the evidence, and,
where that makes sense, a range of assembler versions and a last day.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import msgspec

from corpus import durable
from corpus.finding import RIGHT, Case, Kind, NonEmpty, explain
from oracle.errors import UsageError
from oracle.given_files import TOML_BYTES, parse_toml, read_given
from oracle.targets import TARGETS

SCHEMA = 1
"""Version of the file that this module reads."""
PACKAGED = "known.toml"
"""Name of the file that comes with warpfuzz."""


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


class KnownEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One known discrepancy, as its row has it."""

    id: NonEmpty
    kind: Kind | tuple[Kind, ...]
    """One of them: of a defect, wrong values may be forbidden or happen to be permitted."""
    match: Match
    reason: NonEmpty
    evidence: NonEmpty
    """A text, or the path of a finding or a page."""
    expires: date | None = None
    """The last day on which it holds; None for good."""

    def explains(self, case: Case) -> bool:
        """Whether a finding is what this is about, whatever the day.

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
            and self._covers(case)
        )

    def expired(self, today: date) -> bool:
        """Whether its last day has passed."""
        return self.expires is not None and self.expires < today

    def _covers(self, case: Case) -> bool:
        match = self.match
        targets = match.targets
        if targets is not None and not any(_fits(case.target, one, None) for one in targets):
            return False
        if not _within(case.ptx_version, match.ptx_versions):
            return False
        if match.compilers is not None and not self._by_these_compilers(case):
            return False
        if (match.runner is not None or match.versions is not None) and not case.runners:
            return False
        return all(
            (match.runner is None or verdict.runner in _several(match.runner))
            and _within(verdict.version, match.versions)
            for verdict in case.runners
        )

    def _by_these_compilers(self, case: Case) -> bool:
        named = [text.partition(" ") for text in _several(self.match.compilers or ())]
        wrong = wrong_builds(case)
        return bool(wrong) and all(
            any(one.compiler == who and _within(one.version, bounds) for who, _, bounds in named)
            for one in wrong
        )


def _several(texts: str | tuple[str, ...]) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else texts


def _fits(text: str, wildcards: str | None, regex: str | None) -> bool:
    return (wildcards is None or _wildcards(wildcards).fullmatch(text) is not None) and (
        regex is None or _regex(regex).fullmatch(text) is not None
    )


def _within(version: str, bounds: str | None) -> bool:
    return not bounds or version in parse_range(bounds)


@cache
def _wildcards(text: str) -> re.Pattern[str]:
    # Not fnmatch: its [...] is a set of characters, and instructions have [addresses] in them.
    parts = {"*": ".*", "?": "."}
    return re.compile("".join(parts.get(sign, re.escape(sign)) for sign in text), re.DOTALL)


@cache
def _regex(text: str) -> re.Pattern[str]:
    return re.compile(text, re.DOTALL)


COMPILERS = ("ptxas", "driver")
"""Names of compilers: NVIDIA's assembler, and what the driver has of it."""
DEFAULT_LEVEL = 3
"""Of ptxas (`ptxas --help`), which what the driver has of it is taken for, too."""


class Build(NamedTuple):
    """A compiler with which something was built."""

    compiler: str
    version: str
    """Such as "13.5.37", with options behind it; "" of the driver's compiler."""
    level: int


def wrong_builds(case: Case) -> frozenset[Build]:
    """Return the builds that a case shows to be wrong: of those compared, and its own."""
    found = {
        _build(one.runner, one.version, one.options)
        for one in case.runners
        if one.outcome not in RIGHT and one.runner in COMPILERS
    }
    said = str(case.details.get("compiler", ""))
    if said.startswith("ptxas "):
        found.add(_build("ptxas", said.split()[1], said))
    elif said.startswith("the driver"):
        found.add(_build("driver", "", said))
    elif said:
        found.add(_build(said, "", said))
    return frozenset(found)


def _build(compiler: str, version: str, options: str) -> Build:
    level = _LEVEL.search(options)
    return Build(compiler, version.removeprefix("V"), int(level[1]) if level else DEFAULT_LEVEL)


_LEVEL = re.compile(r"-O([0-3])")


@dataclass(frozen=True, kw_only=True)
class Known:
    """A list of known discrepancies."""

    entries: tuple[KnownEntry, ...]

    def match(self, case: Case, *, today: date | None = None) -> KnownEntry | None:
        """Return the first entry that explains a finding and has not expired, or None.

        The day to judge by is the current one in UTC if none is given.
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

    Without a path, the one that comes with warpfuzz is read. Raises UsageError if something in it
    is not what it has to be: file, entry and field are named.
    """
    if path is None:
        return parse_known(files("corpus").joinpath(PACKAGED).read_bytes(), PACKAGED)
    with durable.explained("read", path):
        data = read_given(path, most=TOML_BYTES)
    return parse_known(data, str(path))


def known_with(path: Path | None) -> Known:
    """Return the known discrepancies that come with warpfuzz, and those of a file."""
    packaged = load_known()
    if path is None:
        return packaged
    if not path.is_file():
        raise UsageError(f"{path} is no file; --known takes a TOML file like corpus/known.toml")
    return Known(entries=(*packaged.entries, *load_known(path).entries))


def mark_known(
    path: Path, case: Case, *, name: str, reason: str, evidence: str, until: date | None
) -> KnownEntry:
    """Add an entry to a file of known discrepancies: what is of a finding's family.

    Parameters
    ----------
    path
        The file; made if it is not there. What stands in it stays as it is.
    name
        Id of the entry.
    until
        The last day on which it holds; None for good.
    """
    # The folder's lock, and not the file's, which is another one after each writing.
    folder = path.resolve().parent
    with durable.explained("write", path), durable.exclusive(folder):
        before = b"schema = 1\n"
        if os.path.lexists(path):
            with durable.explained("read", path):
                before = read_given(path, most=TOML_BYTES)
            parse_known(before, str(path))
        kinds, match = _whole_family(case)
        several = ", ".join(map(_toml, kinds))
        fields = {"id": name, "reason": reason, "evidence": evidence}
        lines = [f"{field} = {_toml(text)}" for field, text in fields.items()]
        lines.insert(1, f"kind = [{several}]" if len(kinds) > 1 else f"kind = {several}")
        lines += [f"expires = {until.isoformat()}"] if until is not None else []
        lines += [f"match = {{ {field} = {_toml(text)} }}" for field, text in match.items()]
        added = "\n".join(("", "[[known]]", *lines, ""))
        whole = before.rstrip() + b"\n" + added.encode()
        entry = parse_known(whole, str(path)).entries[-1]
        durable.write_output(path, whole)
    return entry


def _whole_family(case: Case) -> tuple[list[Kind], dict[str, str]]:
    """Return the kinds of the findings of an identity, and what matches all of them."""
    kinds = [kind for kind in Kind if kind.failure == case.kind.failure]
    keys = "|".join(re.escape(key) for kind in kinds for key in case.identity.keys(kind))
    return kinds, {"family_regex": f"(?:{keys})"}


def _toml(text: str) -> str:
    """Return a text as a basic string of TOML 1.0."""
    signs = text.encode(errors="replace").decode()
    return '"' + "".join(_ESCAPED.get(sign, sign) for sign in signs) + '"'


_ESCAPED = {chr(sign): f"\\u{sign:04x}" for sign in (*range(0x20), 0x7F)}
_ESCAPED |= {sign: f"\\{sign}" for sign in ('"', "\\")}


def parse_known(data: bytes, name: str) -> Known:
    """Return the known discrepancies in a TOML text, as `load_known`; messages name the file."""
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
        entry = msgspec.convert(document, KnownEntry)
    except msgspec.ValidationError as error:
        raise UsageError(f"{label}: {explain(error)}; {_ALLOWED}") from error
    _check(entry.match, f"{label}, field match")
    return entry


_ALLOWED = (
    f"an entry has {', '.join(KnownEntry.__struct_fields__)}, and its match may have "
    f"{', '.join(Match.__struct_fields__)}"
)


def _check(match: Match, label: str) -> None:
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
            _within("", asked)
        except UsageError as error:
            raise UsageError(f"{label}.{field}: {error}") from error


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


@cache
def parse_range(text: str) -> VersionRange:
    """Return the range that a text such as ">=12.0,<13.2" names.

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
    return VersionRange(bounds=tuple(bounds))


def _numbers(text: str) -> Numbers:
    return tuple(int(number) for number in text.split("."))
