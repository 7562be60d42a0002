"""What a finding is: the rows of `finding.json`, its text, and a way up from older versions."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from oracle.errors import InfrastructureError, UsageError


class Cause(StrEnum):
    """Why a folder of a corpus is no sound finding."""

    LEFTOVER = "leftover"
    """A temporary folder whose writer was killed."""
    NO_DESCRIPTION = "no description"
    MALFORMED = "malformed"
    """`finding.json` is no JSON, cut off say."""
    INVALID = "invalid"
    """`finding.json` is JSON, but not what the schema asks for."""
    NEWER = "newer"
    """Written by a later warpfuzz."""
    MISSING_FILE = "missing file"
    CHANGED_FILE = "changed file"
    """A file is not the one that was stored."""
    MISNAMED = "misnamed"
    """The folder's name, the id and the contents do not belong together."""
    UNREADABLE = "unreadable"
    """The operating system does not let it be read."""
    STRANGE = "strange"
    """Something that the corpus did not put there."""
    DANGLING = "dangling"
    """A link to a finding that is not there."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong with a corpus."""

    path: Path
    cause: Cause
    sentence: str
    """What is wrong and what to do, for a person."""

    @classmethod
    def of(cls, path: Path, cause: Cause, said: str) -> Problem:
        """Return what is wrong with a path, which the sentence names."""
        return cls(path=path, cause=cause, sentence=f"{path}: {said}")


class BrokenEntryError(InfrastructureError):
    """An entry of a corpus cannot be used."""

    def __init__(self, path: Path, cause: Cause, what: str, remedy: str) -> None:
        self.problem = Problem.of(path, cause, f"{what}; {remedy}")
        super().__init__(self.problem.sentence)


NonEmpty = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""A count, in 64 bits: what a stranger's file holds must not grow beyond what is computed with."""
FindingId = Annotated[str, Meta(pattern=r"^[0-9a-f]{16}\Z")]
Detail = str | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | float | bool


class Kind(StrEnum):
    """What was observed, listed from harmless to worst.

    Comparing members compares their text; `severity` is what orders them.
    """

    NOTE = "note"
    """Worth a line, no disagreement: an expansion that changed, say."""
    ACCEPTED = "accepted although undocumented"
    DIFFER = "assemblers differ"
    DEVIATION = "deviation"
    """Permitted by the ISA, but not what the model of this target returns."""
    REJECTED = "rejected although documented"
    INTERNAL = "internal error"
    """Rejected with a message from the assembler's own inside."""
    UNREADABLE = "unreadable output"
    HANG = "hang"
    CRASH = "crash"
    COMPILE_FAILURE = "compile failure"
    LAUNCH_FAILURE = "launch failure"
    DIVERGENCE = "divergence"
    """A warp-level instruction stands under a condition that differs between lanes: the program
    has no undefined behaviour, and its PTX has."""
    FLAKY = "flaky"
    """Did not replay every time: on hardware a finding of its own."""
    VIOLATION = "violation"
    """Outside what the ISA permits on any target."""
    DEVICE_LOST = "device lost"

    @property
    def shares_cause(self) -> bool:
        """Whether a cause shows in this or others, by contents and what lies around its memory."""
        return self in (Kind.DEVIATION, Kind.VIOLATION, Kind.LAUNCH_FAILURE, Kind.FLAKY)

    @property
    def failure(self) -> str:
        """What an identity says of it."""
        return WRONG_RESULT if self.shares_cause else self.value

    @property
    def severity(self) -> int:
        """Place in the order from harmless (0) to worst."""
        return list(Kind).index(self)


class ShrinkStatus(StrEnum):
    """How far a finding was made smaller, listed from not at all to entirely."""

    RAW = "raw"
    """As it was found."""
    FLAKY = "flaky"
    """Stopped failing while it was shrunk."""
    CAPPED = "capped"
    """Shrinking ran into its limit of time or steps."""
    COMPLETE = "complete"
    """Nothing can be taken away without losing the finding."""

    @property
    def progress(self) -> int:
        """Place in the order from not at all (0) to entirely."""
        return list(ShrinkStatus).index(self)


WRONG_RESULT = "wrong result"
"""The failure of a deviation, a violation, a launch that fails and of what is not the same each
time: a cause shows in one or another of these, by contents and by what lies around its memory."""


_VARIANT = re.compile(r"^(mma\.sp)::\w+(?= |$)")


class Identity(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What findings of one cause have in common, whatever compiler, level or contents showed it."""

    failure: NonEmpty
    """`WRONG_RESULT`, or the kind in its own word: "internal error", "crash"."""
    instructions: tuple[NonEmpty, ...] = ()
    """The guilty instructions as PTX spells them, most telling first, or the unit of a
    multiplication ("mma.sync of 8-bit floats"); none where a message alone tells the cause."""
    condition: str = ""
    """Without which it is right: "d in the registers of a multiplicand", "in a loop of lanes"."""
    message: str = ""
    """A tool's message with numbers and names abstracted: "Internal error: C7907"."""

    @classmethod
    def of(cls, kind: Kind, *instructions: str, condition: str = "", message: str = "") -> Identity:
        """Return the identity of a finding of a kind."""
        if kind.failure == WRONG_RESULT:
            # Of plain and of ordered metadata ptxas makes the same code (2026-11-23).
            instructions = tuple(_VARIANT.sub(r"\1", one) for one in instructions)
        return cls(
            failure=kind.failure,
            instructions=tuple(dict.fromkeys(instructions)),
            condition=condition,
            message=message,
        )

    @property
    def text(self) -> str:
        """All of it in a line, equal for equal identities."""
        names = ", ".join(self.instructions)
        return " | ".join(filter(None, (self.failure, names, self.condition, self.message)))

    def keys(self, kind: Kind) -> tuple[str, str]:
        """Return the keys that a finding of schema 2 may have had, without compilers.

        The first one is of what ran, and the second one of an instruction that was assembled.
        """
        names = " and ".join(self.instructions) or "a program"
        ran = filter(None, (kind, names, self.condition, self.message))
        return "/".join(ran), " | ".join(filter(None, (kind, names, *self.condition.split(", "))))


WRONG_STEP = "wrong step"
"""Detail of a case: what experiments show to be wrong."""


class Reason(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One reason of the oracle."""

    text: NonEmpty
    section: str = ""
    """Section of the PTX ISA, such as "9.7.14.4.5"; empty where none applies."""


class OracleVerdict(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the specification says."""

    verdict: NonEmpty
    """Verdict, such as "legal", "illegal", "undefined"."""
    reasons: tuple[Reason, ...] = ()


RIGHT = ("match", "accepted")
"""Outcomes of those who agree with the oracle."""


class RunnerVerdict(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one assembler, compiler or device made of it."""

    runner: NonEmpty
    """Name of the runner, such as "ptxas", "cuda", "simulated"."""
    version: NonEmpty
    """In full, such as "V13.5.37"."""
    options: str = ""
    """What was asked of it beyond its defaults, such as "-O3"."""
    outcome: NonEmpty
    """Outcome, such as "accepted", "rejected", "crashed"."""
    message: str = ""
    """What it printed."""
    device: str = ""
    """The device that ran it (name, UUID, driver), empty where none did."""


class Versions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What made the finding."""

    warpfuzz: str = ""
    generator: Count = 0
    """Version of the generator: with seed and round it makes the case again. 0 is by hand."""


class Origin(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where in a campaign it was found: what makes it again."""

    seed: Annotated[int, Meta(ge=0)]
    """In 64 bits."""
    round: Count
    image: Count | None = None
    """Index of the failing image of the round; None where there are no images."""

    def __post_init__(self) -> None:
        if self.seed >= 1 << 64:
            raise ValueError("the seed has more than 64 bits")


class Making(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a finding was made with, so that it can be made again; "" where nothing was named."""

    runner: str = ""
    """"sim", "cuda", or one of somebody else's."""
    layout: Count = 0
    """Of the fragments of the simulated device."""
    level: Annotated[int, Meta(ge=0, le=9)] | None = None
    """-O level; None: the compiler's default."""
    assembler: str = ""
    """Version or path, with its options behind it."""
    faults: tuple[NonEmpty, ...] = ()
    """Planted faults by name."""
    ptx_pass: str = ""
    """A command that has rewritten the PTX."""
    front_end: str = ""
    """What wrote the PTX; "": warpfuzz."""


class FileRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file beside `finding.json`."""

    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    size: Count
    """Bytes."""


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


class Case(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A finding before it is stored."""

    kind: Kind
    identity: Identity
    key: str = ""
    """The family's key, of a finding that was stored before schema 3: lists of known findings
    of schema 1 name it."""
    instructions: Annotated[tuple[NonEmpty, ...], Meta(min_length=1)]
    """The instruction, or those of the program in their order."""
    target: Annotated[str, Meta(pattern=r"^sm_[0-9]{1,4}[af]?\Z")]
    """Value of the `.target` directive, such as "sm_90a"."""
    ptx_version: Annotated[str, Meta(pattern=r"^[0-9]{1,4}\.[0-9]{1,4}\Z")]
    """Value of the `.version` directive, such as "8.0"."""
    oracle: OracleVerdict = OracleVerdict(verdict="not asked")
    runners: tuple[RunnerVerdict, ...] = ()
    bisected: tuple[RunnerVerdict, ...] = ()
    """What compilers did that were asked later (`warpfuzz bisect`), oldest first: they do not count
    for the id."""
    versions: Versions = Versions()
    origin: Origin | None = None
    """None where a person wrote the case."""
    made: Making = Making()
    suspected: bool = False
    """Whether it differed once, and was not run again: a suspect, and no finding yet."""
    shrink: ShrinkStatus = ShrinkStatus.RAW
    complexity: Count = 0
    """How much there is to read beyond the text, such as nonzero elements of the inputs; the
    smallest of a family has the least."""
    comment: str = ""
    """What a person has to say about it."""
    details: dict[str, Detail] = field(default_factory=dict)
    """Whatever else is worth keeping, such as how often it replayed."""
    created: Annotated[datetime, Meta(tz=True)] = field(default_factory=_now)
    """When it was found, UTC."""

    @property
    def keys(self) -> tuple[str, ...]:
        """What a list of known findings of schema 1 may call it."""
        return (self.key,) if self.key else self.identity.keys(self.kind)

    @property
    def text(self) -> str:
        """The instructions, one per line."""
        return "\n".join(self.instructions)

    @property
    def asked(self) -> tuple[RunnerVerdict, ...]:
        """What everybody did who was asked; of a build that was asked twice, the later answer."""
        later = {(one.runner, one.version, one.options) for one in self.bisected}
        first = (one for one in self.runners if (one.runner, one.version, one.options) not in later)
        return (*first, *self.bisected)


class Finding(Case, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A finding as it is stored: the case and what the corpus adds."""

    id: FindingId
    """Hash of what identifies it (`corpus.entry`)."""
    files: dict[str, FileRecord]
    """The files beside `finding.json`, by name."""
    shrunk_from: FindingId | None = None
    """The raw finding that this is the smaller form of."""
    shrunk_to: FindingId | None = None
    """The smaller form that replaces this one as soon as it is stored."""

    @property
    def size(self) -> tuple[int, int, int, str]:
        """What orders the members of a family, smallest first.

        The complexity, the length of the text, the bytes of the files, and the id, so that no
        two are equal.
        """
        stored = sum(record.size for record in self.files.values())
        return self.complexity, len(self.text), stored, self.id


SCHEMA = 3
"""Version of `finding.json` that this module writes."""

Document = dict[str, Any]
_REMEDY = "restore it from a backup, or remove the folder"
_SAID = 300
"""Most characters of a decoder's message."""


def _from_1(document: Document) -> Document:
    # Schema 1 held one instruction; programs have several. The id of a single one is the same.
    rest = {key: value for key, value in document.items() if key != "instruction"}
    return {**rest, "instructions": [document["instruction"]]}


_BY_CONTENTS = (
    "other result", "another NaN", "NaN against a number", "infinity against a number",
    "the sign of zero", "the sign",
)  # fmt: skip
"""Ends of keys of schema 2 that what the images hold had decided."""
_BLAME = re.compile(r"/(only [^/]*|every compiler)$")
"""The compilers with which a key of schema 2 may end."""
BESIDE = "beside other kernels"
"""Condition of what a compiler gets wrong because of other kernels in the module."""
DIVERGED = "under a condition that differs between lanes"
"""Condition of a warp-level instruction that some lanes alone reach."""


def from_2(document: Document) -> Document:
    """Return the fields of a finding of schema 2 as this one has them."""
    found = {name: value for name, value in document.items() if name != "family"}
    if "family" in document:
        # A key had the kind, the compilers and what is wrong in it.
        key, kind = document["family"]["key"], Kind(document["kind"])
        found |= {"identity": msgspec.to_builtins(identity_of_key(kind, key)), "key": key}
    if "made" in document:
        return found
    found |= _with_making(document)
    # Of what ran, it was written down how often; a hang is run again once.
    raw = document.get("shrink") == ShrinkStatus.RAW and document.get("origin") is not None
    if raw and document.get("details", {}).get("runs") == 1 and document["kind"] != Kind.HANG:
        found["suspected"] = True
    return found


_MADE = {
    "runner": "runner", "layout": "layout", "opt": "level", "assembler": "assembler",
    "ptx pass": "ptx_pass", "front end": "front_end",
}  # fmt: skip
"""Fields of `Making` by the names that they had among the details of schema 2."""


def _with_making(document: Document) -> Document:
    details = document.get("details", {})
    if not isinstance(details, dict):
        raise TypeError("Expected `object` - at `$.details`")
    details = dict(details)
    made: Document = {}
    for name, own in _MADE.items():
        value = details.pop(name, None)
        if type(value) is (int if own in ("layout", "level") else str):
            made[own] = value
    # Findings from before 2026-11-22 have these among the runner's options alone.
    words = [word for one in document.get("runners", ()) for word in _words(one["options"])]
    given = list(pairwise(words))
    faults = details.pop("faults", None) or " ".join(v for name, v in given if name == "--fault")
    made["faults"] = list(dict.fromkeys(str(faults).split()))
    made.setdefault("ptx_pass", next((v for name, v in given if name == "--ptx-pass"), ""))
    return {"details": details, "made": made}


def _words(options: str) -> list[str]:
    try:
        return shlex.split(options)
    except ValueError:
        return options.split()


_CONTROLS = ("a predicate", "a branch of lanes", "a loop of lanes", "a loop of all lanes")
"""What keys of schema 2 name beside the instructions that are wrong under it."""


def identity_of_key(kind: Kind, key: str) -> Identity:
    """Return the identity of a finding of schema 2 or older."""
    if key.startswith(f"{kind} | "):
        _, name, *rules = key.split(" | ")
        name = " ".join(dict.fromkeys(re.split(r" (?=\w*\.|m\d|x |another )", name)))
        return Identity.of(kind, name, condition=", ".join(rules))
    kept = _BLAME.sub("", key.removeprefix(f"{kind}/"))
    for told in _BY_CONTENTS:
        kept = kept.removesuffix(f"/{told}")
    name, _, said = kept.partition("/")
    if name == "kernel":
        return Identity.of(kind, *said.split(", "))
    if beside := name.endswith(f", {BESIDE}"):
        name, said = name.removesuffix(f", {BESIDE}"), BESIDE
    if kind is Kind.DIVERGENCE:
        name, under, said = (said or name).partition(f" {DIVERGED}")
        return Identity.of(kind, name, condition=under.strip())
    names = name.split(" and ") if name != "a program" else []
    if kind.failure == WRONG_RESULT or beside:
        plain = [one for one in names if not one.startswith(_CONTROLS)]
        controls = [one for one in names if one not in plain] if plain else []
        around = [f"{'under' if one == _CONTROLS[0] else 'in'} {one}" for one in controls]
        condition = ", ".join(filter(None, (*around, said)))
        return Identity.of(kind, *(plain or names), condition=condition)
    return Identity.of(kind, *names, message=said)


MIGRATIONS: Mapping[int, Callable[[Document], Document]] = {1: _from_1, 2: from_2}
"""From a schema version to the next one."""


def encode(finding: Finding) -> bytes:
    """Return `finding.json`: indented, keys sorted, a newline at the end.

    Raises UsageError if the finding is not what the schema allows.
    """
    try:
        document = {"schema": SCHEMA, **msgspec.to_builtins(finding)}
        data = msgspec.json.format(msgspec.json.encode(document, order="sorted"), indent=2)
        # A struct's constructor does not check types. What is written has to be what is read.
        stored = msgspec.convert(_without_schema(msgspec.json.decode(data)), Finding)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"this finding cannot be stored: {explain(error)}") from error
    if stored != finding:
        raise UsageError(
            "this finding cannot be stored: it reads back differently from what was given; give "
            "plain text, finite numbers and UTC times without fractions of a second"
        )
    return data + b"\n"


def decode(data: bytes, path: Path) -> Finding:
    """Return the finding that a `finding.json` of any known schema describes.

    Raises BrokenEntryError if it is no JSON, not what its schema asks for, or of a later schema;
    `path` is named.
    """
    document = read_document(data, path)
    version = document.get("schema")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise BrokenEntryError(
            path,
            Cause.INVALID,
            f"its field schema is {version!r:.80} and not a version number",
            _REMEDY,
        )
    if version > SCHEMA:
        raise BrokenEntryError(
            path,
            Cause.NEWER,
            f"it was written in schema {version!r:.80}, and this warpfuzz knows {SCHEMA} and older",
            "upgrade warpfuzz",
        )
    try:
        for step in range(version, SCHEMA):
            document = MIGRATIONS[step](document)
        return msgspec.convert(_without_schema(document), Finding)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise BrokenEntryError(
            path,
            Cause.INVALID,
            f"it is not what schema {version} asks for: {explain(error)}",
            _REMEDY,
        ) from error


def read_document(data: bytes, path: Path) -> Document:
    """Return the JSON object that a file holds; BrokenEntryError if it does not hold one."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        what = f"it is not whole JSON: {explain(error)}"
        raise BrokenEntryError(path, Cause.MALFORMED, what, _REMEDY) from error
    if not isinstance(document, dict):
        raise BrokenEntryError(path, Cause.INVALID, "it does not hold a JSON object", _REMEDY)
    return document


_CHOICE = re.compile(r"`str` matching regex '\^\(\?:([\w|]+)\)\\\\Z'")
"""How a decoder writes that it takes some words alone."""


def explain(error: Exception) -> str:
    """Return a decoder's message with its field in words; names out of the file are cut."""
    message = _CHOICE.sub(lambda found: f"one of {found[1].replace('|', ', ')}", str(error))
    what, mark, where = message.rpartition(" - at `$.")
    said = f"{what} in field {where.rstrip('`')}" if mark else message
    return said if len(said) <= _SAID else f"{said[:_SAID]}…"


def _without_schema(document: Document) -> Document:
    return {key: value for key, value in document.items() if key != "schema"}
