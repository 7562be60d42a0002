"""What is known: rows of a TOML file, and the findings of the record that ships.

A finding is known if each of its builds (compiler, version, level) has its identity by a row, or
because the record's finding fails with it too; else it is new (`answers.json`: what ptxas said).
"""

from __future__ import annotations

import operator
import os
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cache
from importlib.resources import files
from itertools import groupby, permutations
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from corpus import durable
from corpus.finding import (
    DEFAULT_LEVEL,
    WRONG_RESULT,
    WRONG_STEP,
    Build,
    Case,
    Finding,
    Identity,
    Kind,
    NonEmpty,
    explain,
    wrong_builds,
)
from corpus.store import DESCRIPTION, FINDINGS, MANIFEST, Corpus, Entry, open_corpus, read_entry
from oracle.errors import UsageError
from oracle.given_files import TOML_BYTES, parse_toml, read_given, toml_of

SCHEMA = 2  # version of the file
PACKAGED = "known.toml"  # name of the file that comes with warpfuzz

_VERSION = re.compile(r"\d{1,9}(?:\.\d{1,9}){0,9}", re.ASCII)
_OPERATORS = {
    ">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
    ">": operator.gt, "<": operator.lt,
}  # fmt: skip


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@cache
def parse_range(text: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return the bounds, each a sign and numbers, of ">=12.0,<13.2"; else ValueError."""
    bounds = []
    for part in text.split(","):
        found = re.fullmatch(rf"\s*({'|'.join(_OPERATORS)})\s*({_VERSION.pattern})\s*", part, re.A)
        if found is None:
            raise ValueError(
                f"{text!r:.80} is no range of versions: {part.strip()!r:.80} has to be one of "
                f"{', '.join(_OPERATORS)} and a version; write it like '>=12.0,<13.2'"
            )
        bounds.append((found[1], _numbers(found[2])))
    return tuple(bounds)


def within(version: str, bounds: str | None) -> bool:
    """Whether a version, such as "V13.5.37", keeps all bounds, by as many numbers as each has."""
    asked, found = parse_range(bounds) if bounds else (), _VERSION.search(version)
    if not asked or found is None:
        return not asked
    numbers = (*_numbers(found[0]), *(0,) * 10)
    return all(_OPERATORS[sign](numbers[: len(bound)], bound) for sign, bound in asked)


@cache
def _wildcards(text: str) -> re.Pattern[str]:
    # Not fnmatch: its [...] is a set of characters, and instructions have [addresses] in them.
    parts = {"*": ".*", "?": ".", "|": "|"}
    return re.compile("".join(parts.get(sign, re.escape(sign)) for sign in text), re.DOTALL)


def _fits(pattern: str, text: str) -> bool:
    return _wildcards(pattern).fullmatch(text) is not None


class VersionSpan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Versions of a compiler."""

    name: NonEmpty  # as `Build.compiler` has it
    first: str = ""  # the first version that has it, such as "11.8"; "": any before the last
    last: str = ""  # the last version that has it; "": any after the first
    levels: tuple[Annotated[int, Meta(ge=0, le=3)], ...] = (0, 1, 2, 3)

    def __post_init__(self) -> None:
        self.covers(Build(self.name, "", 0))

    def covers(self, build: Build) -> bool:
        """Whether a build is one of these."""
        bounds = (f"{sign}{v}" for sign, v in ((">=", self.first), ("<=", self.last)) if v)
        ours = within(build.version, ",".join(bounds))
        return ours and build.compiler == self.name and build.level in self.levels


class KnownRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row: in patterns, * is any text, ? any character, and | stands between alternatives."""

    id: NonEmpty
    failure: NonEmpty
    """A pattern, as the next three are, of what `corpus.finding.Identity` has."""
    instructions: tuple[NonEmpty, ...] = ()
    """A pattern for each instruction, in any order; ["*"] alone fits any instructions."""
    condition: str = ""
    message: str = ""
    program: NonEmpty | None = None
    """A pattern of which one of the finding's instructions is, as its module has them."""
    ptx_versions: NonEmpty | None = None  # a range such as ">=7.0,<8.1"
    compilers: Annotated[tuple[VersionSpan, ...], Meta(min_length=1)]
    cause: NonEmpty  # in at most three sentences
    finding: str = ""  # id of a finding that shows it
    evidence: str = ""  # what else shows it
    expires: date | None = None  # the last day on which it holds; None for good

    def __post_init__(self) -> None:
        if not (self.finding or self.evidence):
            raise ValueError("nothing shows it; give finding, an id, or evidence, a text")
        within("", self.ptx_versions)

    def fits(self, case: Case) -> bool:
        """Whether a case has this identity, whatever build shows it."""
        identity, wanted = case.identity, self.instructions
        # Their orders are tried one by one, 720 of six.
        named = len(identity.instructions) == len(wanted) <= 6 and any(
            all(map(_fits, wanted, some)) for some in permutations(identity.instructions)
        )
        return (
            _fits(self.failure, identity.failure)
            and _fits(self.condition, identity.condition)
            and _fits(self.message, identity.message)
            and (self.instructions == ("*",) or named)
            and (self.program is None or any(_fits(self.program, i) for i in case.instructions))
            and within(case.ptx_version, self.ptx_versions)
        )

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
        this = self.telling or (isinstance(case, Finding) and case.id == self.id)
        return this and case.identity == self.identity

    def covers(self, build: Build) -> bool:
        """Whether the finding of the record fails with a build."""
        return build in self.builds


Row = KnownRow | RecordRow  # what a finding may be known as


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is known, first of all that is asked for."""

    entries: tuple[Row, ...] = ()
    recorded: Mapping[Identity, tuple[RecordRow, ...]] = field(default_factory=dict)

    def match(self, case: Case, *, today: date | None = None) -> Row | None:
        """Return what a finding is known as today; None if one of its builds is not."""
        like, builds = self._like(case, today), wrong_builds(case)
        # What names no build, such as a case by hand, is known by none.
        known = builds and all(any(row.covers(build) for row in like) for build in builds)
        return next(row for row in like if any(map(row.covers, builds))) if known else None

    def like(self, case: Case, *, today: date | None = None) -> Row | None:
        """Return what has the identity of a finding, whatever builds are known to have it."""
        return next(iter(self._like(case, today)), None)

    def _like(self, case: Case, today: date | None) -> list[Row]:
        over = self.expired(today=today)
        rows = (
            *(row for row in self.entries if row not in over),
            *self.recorded.get(case.identity, ()),
        )
        return [row for row in rows if row.fits(case)]

    def expired(self, *, today: date | None = None) -> tuple[Row, ...]:
        """Return the rows whose last day has passed: to renew or to remove."""
        day = today or datetime.now(UTC).date()
        return tuple(row for row in self.entries if row.expires is not None and row.expires < day)


def load_known(path: Path | None = None) -> Known:
    """Return what a TOML file, or the packaged one, says is known; UsageError names mistakes."""
    if path is None:
        return parse_known(files("corpus").joinpath(PACKAGED).read_bytes(), PACKAGED)
    with durable.explained("read", path):
        data = read_given(path, most=TOML_BYTES)
    return parse_known(data, str(path))


def known_with(path: Path | None, *, nothing: bool = False) -> Known:
    """Return what ships as known, record included, and what a file has; with `nothing`, nothing."""
    if nothing:
        return Known()
    if path is not None and not path.is_file():
        raise UsageError(f"{path} is no file; --known takes a TOML file like corpus/known.toml")
    own = load_known(path).entries if path is not None else ()
    return Known(entries=(*load_known().entries, *own), recorded=recorded())


ANSWERS = "answers.json"
FOLDER = Path(__file__).with_name("record")  # the record's folder, a corpus
RECORD = "record"  # the word that names the record that ships, where no folder of that name is


def is_record(path: Path) -> bool:
    """Whether a path names the record that ships."""
    return str(path) == RECORD and not path.exists()


def named_corpus(path: Path) -> Corpus:
    """Open a corpus to read it: a folder, or the record that ships."""
    return open_corpus(FOLDER if is_record(path) else path)


def named_entry(name: str, corpus: Path) -> Entry:
    """Return a finding by its folder, or by the start of its id in a corpus."""
    folder = Path(name)
    if (folder / DESCRIPTION).exists():
        return read_entry(folder.resolve())
    if folder.exists():
        inside = folder / FINDINGS if (folder / FINDINGS).is_dir() else "a corpus's findings"
        raise UsageError(f"{name} has no {DESCRIPTION}, so is no finding; name one in {inside}")
    if not corpus.exists() and not is_record(corpus):
        raise UsageError(f"there is no folder {name}, and no corpus {corpus} (--corpus) to look in")
    return named_corpus(corpus).get(name)


class Answers(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What versions of ptxas said of the findings of a record."""

    asked: tuple[str, ...]  # full versions, such as "13.5.37", oldest first
    answers: Mapping[str, tuple[str | None, ...]]
    """By a finding's id, one for each version: "accepted", "crash"; None if it was not asked."""


def answers_about(answers: Answers, identity: str) -> list[tuple[str, str]]:
    """Return versions with their answers about a finding, of those that were asked."""
    told = zip(answers.asked, answers.answers.get(identity, ()), strict=False)
    return [(version, answer) for version, answer in told if answer is not None]


def answer_spans(answers: Answers, identity: str) -> str:
    """Return the answers with the releases that gave them: "crash 12.3; rejected 12.4–13.5"."""
    spans = []
    for answer, told in groupby(answers_about(answers, identity), key=operator.itemgetter(1)):
        releases = [version.rpartition(".")[0] for version, _ in told]
        spans.append(f"{answer} {'–'.join(dict.fromkeys((releases[0], releases[-1])))}")
    return "; ".join(spans)


def read_answers() -> Answers:
    """Return the answers of the record that ships."""
    return msgspec.json.decode((FOLDER / ANSWERS).read_bytes(), type=Answers)


_VAGUE = ("scalar code", "a predicate", "a branch", "a loop", "branch or loop")
"""What names of several causes begin with: nothing else was found to be wrong."""


@cache
def recorded() -> Mapping[Identity, tuple[RecordRow, ...]]:
    """Return the findings of the record that ships by identity; none where it is not installed."""
    found: defaultdict[Identity, tuple[RecordRow, ...]] = defaultdict(tuple)
    if not (FOLDER / MANIFEST).is_file():
        return found
    told = read_answers()
    for entry in open_corpus(FOLDER).entries(checksums=False):
        finding = entry.finding
        builds = defaultdict(set, {finding.identity: set(wrong_builds(finding))})
        for version, answer in answers_about(told, finding.id):
            # A module at which one ptxas crashes may be another one's internal error.
            wrong = Kind.ACCEPTED if finding.oracle.verdict == "illegal" else Kind.REJECTED
            failing = (Kind.CRASH, Kind.HANG, Kind.INTERNAL, Kind.UNREADABLE)
            for kind in (wrong, *failing):
                if kind.startswith(answer):
                    identity = msgspec.structs.replace(finding.identity, failure=kind.value)
                    builds[identity].add(Build("ptxas", version, DEFAULT_LEVEL))
        # Whether experiments told more of a wrong result than what the program is about.
        names = finding.identity.instructions
        vague = WRONG_STEP not in finding.details or all(name.startswith(_VAGUE) for name in names)
        telling = finding.kind.failure != WRONG_RESULT or not vague
        for identity, some in builds.items():
            told_of = frozenset(some)
            row = RecordRow(id=finding.id, identity=identity, builds=told_of, telling=telling)
            found[identity] = (*found[identity], row)
    return found


def mark_known(
    path: Path, finding: Finding, *, cause: str, evidence: str, until: date | None
) -> KnownRow:
    """Add a row to a file: a finding's identity and builds, shown by `evidence`, until a day."""
    # The folder's lock, and not the file's, which is another one after each writing.
    with durable.explained("write", path), durable.exclusive(path.resolve().parent):
        before = f"schema = {SCHEMA}\n".encode()
        if os.path.lexists(path):
            before = read_given(path, most=TOML_BYTES)
            parse_known(before, str(path))
        levels: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for compiler, version, level in sorted(wrong_builds(finding)):
            levels[compiler, version].append(level)
        fields = {
            "id": finding.id,
            "failure": finding.identity.failure,
            "instructions": [name.replace("|", "?") for name in finding.identity.instructions],
            "condition": finding.identity.condition.replace("|", "?"),
            "message": finding.identity.message.replace("|", "?"),
            "compilers": [
                {"name": name, "first": version, "last": version, "levels": own}
                for (name, version), own in levels.items()
            ],
            "cause": cause,
            "finding": finding.id,
            "evidence": evidence,
            "expires": until,
        }
        try:
            row = msgspec.convert(
                {name: value for name, value in fields.items() if value is not None}, KnownRow
            )
        except ValueError:
            raise UsageError(f"{finding.id} has no row, for lack of a compiler or runner") from None
        added = [f"{name} = {toml_of(value)}\n" for name, value in fields.items() if value]
        whole = before.rstrip() + f"\n\n[[known]]\n{''.join(added)}".encode()
        parse_known(whole, str(path))
        durable.write_output(path, whole)
    return row


def parse_known(data: bytes, name: str) -> Known:
    """Return what a TOML text says is known, as `load_known`; messages name the file."""
    document = parse_toml(data, name)
    schema, rows = document.get("schema"), document.get("known", [])
    strange = document.keys() - {"schema", "known"}
    if strange or schema != SCHEMA or not isinstance(rows, list):
        raise UsageError(
            f"{name}: at its top stand schema = {SCHEMA} and [[known]] for each row, and "
            f"nothing else; here are {', '.join(sorted(document)):.200} (schema {schema!r:.80}): "
            "mend it, or upgrade warpfuzz"
        )
    by_id: dict[str, KnownRow] = {}
    for number, given in enumerate(rows, 1):
        try:
            row = msgspec.convert(given, KnownRow)
        except msgspec.ValidationError as error:
            shown = given if isinstance(given, dict) else {}
            called = f" ({shown['id']:.80})" if isinstance(shown.get("id"), str) else ""
            own = f"an entry has {', '.join(KnownRow.__struct_fields__)}"
            raise UsageError(f"{name}, entry {number}{called}: {explain(error)}; {own}") from error
        if by_id.setdefault(row.id, row) is not row:
            raise UsageError(f"{name}: two entries have the id {row.id!r}; rename one of them")
    return Known(entries=tuple(by_id.values()))
