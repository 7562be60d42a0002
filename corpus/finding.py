"""What a finding is: the rows of `finding.json`, and its id."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct, field

from oracle.errors import InfrastructureError, UsageError

MODULE, PROGRAM = "module.ptx", "program.json"
INPUT, EXPECTED = "input.npy", "expected.npy"
"""Files of a finding: what runs, and memory before and after."""
KERNEL = "kernel.ptx"
"""The smallest kernel that shows it: made of the others, so that it does not count for the id."""
ID_DIGITS = 16
"""Of an id: among a million findings a collision has a chance of 3e-8 (birthday bound)."""


class Cause(StrEnum):
    """Why a folder of a corpus is no sound finding."""

    NO_DESCRIPTION = "no description"
    MALFORMED = "malformed"  # `finding.json` is no JSON, cut off say
    INVALID = "invalid"  # `finding.json` is JSON, but not what the schema asks for
    NEWER = "newer"  # written by a later warpfuzz
    MISSING_FILE = "missing file"
    CHANGED_FILE = "changed file"  # a file is not the one that was stored
    MISNAMED = "misnamed"  # the folder's name, the id and the contents do not belong together
    UNREADABLE = "unreadable"  # the operating system does not let it be read
    STRANGE = "strange"  # something that the corpus did not put there


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a corpus."""

    path: Path
    cause: Cause
    sentence: str  # for a person: the path, what is wrong, and what to do


_RESTORE = "restore the folder from a backup or another corpus (`warpfuzz corpus merge INTO FROM`)"


class BrokenEntryError(InfrastructureError):
    """An entry of a corpus cannot be used."""

    def __init__(self, path: Path, cause: Cause, what: str, remedy: str = _RESTORE) -> None:
        self.problem = Problem(path, cause, f"{path}: {what}; {remedy}")
        super().__init__(self.problem.sentence)


NonEmpty = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""A count, in 64 bits: what a stranger's file holds must not grow beyond what is computed with."""
FindingId = Annotated[str, Meta(pattern=r"^[0-9a-f]{16}\Z")]
Detail = str | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | float | bool

WRONG_RESULT = "wrong result"
"""The failure of values that are wrong or other ones each time: one cause shows as any of these."""


class Kind(StrEnum):
    """What was observed, listed from harmless to worst; `severity` orders them."""

    NOTE = "note"  # worth a line, no disagreement: in what the ISA leaves open, say
    ACCEPTED = "accepted although undocumented"
    DIFFER = "assemblers differ"
    DEVIATION = "deviation"  # permitted by the ISA, but not what the model of this target returns
    REJECTED = "rejected although documented"
    INTERNAL = "internal error"  # rejected with a message from the assembler's own inside
    UNREADABLE = "unreadable output"
    HANG = "hang"
    CRASH = "crash"
    COMPILE_FAILURE = "compile failure"
    LAUNCH_FAILURE = "launch failure"
    DIVERGENCE = "divergence"
    """A warp-level instruction stands under a condition that differs between lanes."""
    FLAKY = "flaky"  # did not replay every time: on hardware a finding of its own
    VIOLATION = "violation"  # outside what the ISA permits on any target
    DEVICE_LOST = "device lost"

    @property
    def failure(self) -> str:
        """What an identity says of it."""
        of_values = (Kind.DEVIATION, Kind.VIOLATION, Kind.FLAKY)
        return WRONG_RESULT if self in of_values else self.value

    @property
    def severity(self) -> int:
        """Place in the order from harmless (0) to worst."""
        return list(Kind).index(self)


class ShrinkStatus(StrEnum):
    """How far a finding was made smaller, listed from not at all to entirely."""

    RAW = "raw"  # as it was found
    FLAKY = "flaky"  # stopped failing while it was shrunk
    CAPPED = "capped"  # shrinking ran into its limit of time or steps
    COMPLETE = "complete"  # nothing can be taken away without losing the finding


_VARIANT = re.compile(r"^(mma\.sp)::\w+(?= |$)")


class Identity(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What findings of one cause have in common, whatever compiler, level or contents showed it."""

    failure: NonEmpty  # `WRONG_RESULT`, or the kind in its own word: "internal error", "crash"
    instructions: tuple[NonEmpty, ...] = ()
    """As PTX spells them, most telling first, or a unit ("mma.sync of 8-bit floats"); or none."""
    condition: str = ""
    """Without which it is right: "d in the registers of a multiplicand", "in a loop of lanes"."""
    message: str = ""  # a tool's message with numbers and names abstracted: "Internal error: C7907"

    @classmethod
    def of(cls, kind: Kind, *instructions: str, condition: str = "", message: str = "") -> Identity:
        """Return the identity of a finding of a kind."""
        if kind.failure == WRONG_RESULT:
            # Of plain and of ordered metadata ptxas makes the same code (2026-11-23).
            instructions = tuple(_VARIANT.sub(r"\1", name) for name in instructions)
        names = tuple(dict.fromkeys(instructions))
        return cls(failure=kind.failure, instructions=names, condition=condition, message=message)

    @property
    def text(self) -> str:
        """All of it in a line, equal for equal identities."""
        names = ", ".join(self.instructions)
        return " | ".join(filter(None, (self.failure, names, self.condition, self.message)))


WRONG_STEP = "wrong step"  # detail of a case: what experiments show to be wrong
BESIDE = "beside other kernels"
"""Condition of what a compiler gets wrong because of other kernels in the module."""
DIVERGED = "under a condition that differs between lanes"
"""Condition of a warp-level instruction that some lanes alone reach."""


class SaidReason(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One reason of the oracle."""

    text: NonEmpty
    section: str = ""  # of the PTX ISA, such as "9.7.14.4.5"; empty where none applies


class OracleVerdict(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the specification says."""

    verdict: NonEmpty  # such as "legal", "illegal", "undefined"
    reasons: tuple[SaidReason, ...] = ()


RIGHT = ("match", "accepted")  # outcomes of those who agree with the oracle
AGREES = "agrees with the oracle"  # what the details of a finding say of a level that does


class RunnerVerdict(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one assembler, compiler or device made of it."""

    runner: NonEmpty  # such as "ptxas", "cuda", "simulated"
    version: NonEmpty  # in full, such as "V13.5.37"
    options: str = ""  # what was asked of it beyond its defaults, such as "-O3"
    outcome: NonEmpty  # such as "accepted", "rejected", "crashed"
    message: str = ""  # what it printed
    device: str = ""  # the device that ran it (name, UUID, driver), empty where none did


def who_was_asked(verdict: RunnerVerdict) -> tuple[str, str, str]:
    """Return runner, version and options."""
    return verdict.runner, verdict.version, verdict.options


class Versions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What made the finding."""

    warpfuzz: str = ""
    generator: Count = 0
    """Version of the generator: with seed and round it makes the case again. 0 is by hand."""


class Origin(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where in a campaign it was found: what makes it again."""

    seed: Annotated[int, Meta(ge=0)]  # in 64 bits
    round: Count
    image: Count | None = None
    """Index of the failing image of the round; None where there are no images."""


class Making(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a finding was made with, so that it can be made again; "" where nothing was named."""

    runner: str = ""  # "sim", "cuda", or one of somebody else's
    layout: Count = 0  # of the fragments of the simulated device
    level: Annotated[int, Meta(ge=0, le=9)] | None = None  # -O; None: the compiler's default
    assembler: str = ""  # version or path, with its options behind it
    faults: tuple[NonEmpty, ...] = ()  # planted faults by name
    ptx_pass: str = ""  # a command that has rewritten the PTX
    front_end: str = ""  # what wrote the PTX; "": warpfuzz


class FileRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file beside `finding.json`."""

    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    size: Count  # bytes


class Case(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A finding before it is stored."""

    kind: Kind
    identity: Identity
    instructions: Annotated[tuple[NonEmpty, ...], Meta(min_length=1)]
    """The instruction, or those of the program in their order."""
    target: Annotated[str, Meta(pattern=r"^sm_[0-9]{1,4}[af]?\Z")]  # of `.target`: "sm_90a"
    ptx_version: Annotated[str, Meta(pattern=r"^[0-9]{1,4}\.[0-9]{1,4}\Z")]  # of `.version`: "8.0"
    oracle: OracleVerdict = OracleVerdict(verdict="not asked")
    runners: tuple[RunnerVerdict, ...] = ()
    bisected: tuple[RunnerVerdict, ...] = ()
    """What compilers did that `bisect` asked, oldest first; not part of the id."""
    versions: Versions = Versions()
    origin: Origin | None = None  # None where a person wrote the case
    made: Making = Making()
    suspected: bool = False
    """Whether it differed once, and was not run again: a suspect, and no finding yet."""
    shrink: ShrinkStatus = ShrinkStatus.RAW
    complexity: Count = 0
    """What there is to read beyond the text, such as nonzero elements of the inputs."""
    comment: str = ""  # what a person has to say about it
    details: dict[str, Detail] = field(default_factory=dict)
    """Whatever else is worth keeping, such as how often it replayed."""
    created: Annotated[datetime, Meta(tz=True)] = field(
        default_factory=lambda: datetime.now(UTC).replace(microsecond=0)
    )  # when it was found, UTC

    def __post_init__(self) -> None:
        if self.origin is not None and self.origin.seed >= 1 << 64:
            raise ValueError("the seed has more than 64 bits in field origin")

    @property
    def text(self) -> str:
        """The instructions, one per line."""
        return "\n".join(self.instructions)

    @property
    def asked(self) -> tuple[RunnerVerdict, ...]:
        """What everybody did who was asked; of a build that was asked twice, the later answer."""
        later = set(map(who_was_asked, self.bisected))
        first = [said for said in self.runners if who_was_asked(said) not in later]
        return (*first, *self.bisected)


class Finding(Case, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A finding as it is stored: the case and what the corpus adds."""

    id: FindingId  # hash of what identifies it (`finding_id`)
    files: dict[str, FileRecord]  # the files beside `finding.json`, by name
    shrunk_from: FindingId | None = None  # the raw finding that this is the smaller form of
    shrunk_to: FindingId | None = None
    """The smaller form that replaces this one as soon as it is stored."""


def size_of(finding: Finding) -> tuple[int, int, int, str]:
    """Return what orders the members of a family, smallest first; no two are equal."""
    stored = sum(record.size for record in finding.files.values())
    return finding.complexity, len(finding.text), stored, finding.id


def finding_id(case: Case, digests: Mapping[str, str]) -> str:
    """Return the id of a case, a hash that does not depend on when, where or how it was made.

    What counts: kind, text, target, PTX version, runners with version, options and outcome, and the
    files' SHA-256 (`digests`, hexadecimal) but for `KERNEL`. What does not: all else.
    """
    runners = sorted((*who_was_asked(verdict), verdict.outcome) for verdict in case.runners)
    parts = (
        str(case.kind),
        case.text,
        case.target,
        case.ptx_version,
        _listed(map(_listed, runners)),
        _listed(_listed(item) for item in sorted(digests.items()) if item[0] != KERNEL),
    )
    return digest(_listed(parts).encode(errors="surrogatepass"))[:ID_DIGITS]


def digest(data: bytes) -> str:
    """Return the SHA-256 of `data`, in hexadecimal."""
    # Imported late: OpenSSL takes milliseconds that `warpfuzz --help` does not have.
    from hashlib import sha256

    return sha256(data).hexdigest()


def _listed(parts: Iterable[str]) -> str:
    # Each part with its length before it (a netstring), so that no two lists run together to
    # the same text and no library's formatting takes part in an id that has to last.
    return "".join(f"{len(part)}:{part}," for part in parts)


DEFAULT_LEVEL = 3  # of ptxas (`ptxas --help`), which what the driver has of it is taken for, too


class Build(NamedTuple):
    """What something was compiled and run with."""

    compiler: str
    """"ptxas", "driver" (what that has of it), or a name; faults and passes are part of it."""
    version: str  # such as "13.5.37", with options behind it; of the driver's compiler that of CUDA
    level: int


def wrong_builds(case: Case) -> frozenset[Build]:
    """Return the builds that a case shows to be wrong: of those compared, and its own."""
    made, said = case.made, str(case.details.get("compiler", ""))
    given = [*(("fault", name) for name in made.faults), ("ptx-pass", made.ptx_pass)]
    planted = "".join(f" --{w} {v}" for w, v in (*given, ("front-end", made.front_end)) if v)

    def build(compiler: str, version: str, options: str) -> Build:
        if compiler == "driver":  # How a runner's device names its release.
            cuda = re.search(r"\bCUDA (\d+\.\d+)", version)
            version = cuda[1] if cuda else ""
        level = re.search(r"-O([0-3])", options)
        number = int(level[1]) if level else DEFAULT_LEVEL
        return Build(compiler + planted, version.removeprefix("V"), number)

    # Of what should have been rejected, and of what two assemblers do not agree about.
    right = {Kind.ACCEPTED: ("rejected",), Kind.DIFFER: ()}.get(case.kind, RIGHT)
    found = {
        build(who.runner, who.device if who.runner == "driver" else who.version, who.options)
        for who in case.asked
        if who.outcome not in right
        and (who.runner == "ptxas" or re.fullmatch(r"-O[0-3]", who.options))
    }
    own = case.runners[-1] if case.runners else None
    if own is not None and made.runner not in ("", "cuda", "ptxas"):
        found.add(build(own.runner, own.version, own.options))
    elif said.startswith("ptxas "):
        found.add(build("ptxas", said.split()[1], said))
    elif said.startswith("the driver") and own is not None:
        found.add(build("driver", own.device, said))
    elif not said and not found and own is not None and made.runner == "cuda":
        # It came to nothing that was compiled.
        name = "ptxas" if made.assembler else "driver"
        found.add(build(name, made.assembler or own.device, f"-O{made.level}"))
    elif said and not found:
        found.add(build(said, "", said))
    return frozenset(found)


SCHEMA = 3  # version of `finding.json` that this module writes
Document = dict[str, Any]


def encode(finding: Finding) -> bytes:
    """Return `finding.json`; UsageError if the finding is not what the schema allows."""
    try:
        document = {"schema": SCHEMA, **msgspec.to_builtins(finding)}
        data = msgspec.json.format(msgspec.json.encode(document, order="sorted"), indent=2)
        # A struct's constructor does not check types. What is written has to be what is read.
        stored = msgspec.convert(_without_schema(msgspec.json.decode(data)), Finding)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"this finding cannot be stored: {explain(error)}") from error
    if stored != finding:
        raise UsageError("this finding cannot be stored: it reads back differently; mend it")
    return data + b"\n"


def decode(data: bytes, path: Path) -> Finding:
    """Return what a `finding.json` describes, or BrokenEntryError."""
    document = read_document(data, path)
    version = document.get("schema")
    if type(version) is int and version > SCHEMA:
        said = f"it has schema {version!r:.80}, and this warpfuzz knows {SCHEMA} and older"
        raise BrokenEntryError(path, Cause.NEWER, said, "upgrade warpfuzz")
    try:
        if type(version) is not int or version < 1:
            raise TypeError(f"{version!r:.80} is no version - at `$.schema`")
        if version < SCHEMA:
            raise ValueError("nothing reads it any more")
        return msgspec.convert(_without_schema(document), Finding)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        said = f"it is not what schema {version!r:.80} asks for: {explain(error)}"
        raise BrokenEntryError(path, Cause.INVALID, said) from error


def read_document(data: bytes, path: Path) -> Document:
    """Return the JSON object that a file holds; BrokenEntryError if it does not hold one."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        said = f"it is not whole JSON: {explain(error)}"
        raise BrokenEntryError(path, Cause.MALFORMED, said) from error
    if not isinstance(document, dict):
        raise BrokenEntryError(path, Cause.INVALID, "it does not hold a JSON object")
    return document


def explain(error: Exception) -> str:
    """Return a decoder's message with its field in words; names out of the file are cut."""
    what, mark, where = str(error).rpartition(" - at `$.")
    said = f"{what} in field {where.rstrip('`')}" if mark else str(error)
    return said if len(said) <= 300 else f"{said[:300]}…"


def _without_schema(document: Document) -> Document:
    # Until 2026-11-29 findings had a key of their family, too.
    return {name: value for name, value in document.items() if name not in ("schema", "key")}
