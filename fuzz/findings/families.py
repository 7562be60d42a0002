"""Families: findings that a person reads as one line, and groups of families with one cause.

A family is the step that is wrong, as soon as experiments have told (`culprit`), until then the
unit that computes. A campaign keeps deviations and violations apart; `finding_groups` joins them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from itertools import chain

import msgspec

from corpus import Case, Identity, Kind, Saved
from corpus.finding import BESIDE, DIVERGED, RIGHT
from corpus.known import Row
from fuzz.diagnosis.experiments import Culprit, unit_of
from fuzz.findings.verdicts import differ_outside, differences
from fuzz.kinds import KILLS, described, is_provisional, sentence, what_is_wrong
from oracle.execution.tracing import maker_of, producer_of, trace, writer_of
from oracle.isa.forms import Form
from oracle.isa.legality import Explanation, Rule
from oracle.isa.lookup import FORMS, INSTRUCTIONS
from oracle.program.lane_code import Assign, LaneCode, every, row_of
from oracle.program.operands import Register
from oracle.program.program import Program
from oracle.program.steps import accesses_rows, is_lane_code, is_producer
from runners.protocol import Failure, Images
from strategies.instructions import Draft, canonical, documented, fits_declarations

# Rules about spelling and operands: a breach has nothing to do with shape and type.
_SPELLING = frozenset(
    {
        Rule.SYNTAX, Rule.REPEATED_QUALIFIER, Rule.ORDER, Rule.OPERANDS, Rule.VECTOR,
        Rule.REGISTER, Rule.ADDRESS, Rule.STRIDE,
    }
)  # fmt: skip
_MODIFIERS = ("op", "popc", "rnd", "satfinite", "trans", "num")
"""Qualifiers that are named where they are written: a plainer instruction would lack them."""


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """What suspects are counted as one finding by, until one of them is examined."""

    kind: Kind
    identity: Identity
    builds: str = ""  # that have it, as they are told apart; "" where none are compared

    @classmethod
    def of(cls, kind: Kind, *instructions: str, builds: str = "", **rest: str) -> Bucket:
        """Return a bucket of an identity of its kind, with a condition and a message in it."""
        return cls(kind=kind, identity=Identity.of(kind, *instructions, **rest), builds=builds)

    @property
    def key(self) -> str:
        """All of it in a line."""
        return " | ".join(filter(None, (self.kind, self.identity.text, self.builds)))


def core_of(kind: Kind, draft: Draft, explanation: Explanation) -> Bucket:
    """Return what shrinking must keep: all but the qualifiers that may prove needless."""
    return bucket_of(kind, draft, explanation, modifiers=False)


def bucket_of(
    kind: Kind, draft: Draft, explanation: Explanation, *, modifiers: bool = True
) -> Bucket:
    """Return the bucket of a disagreement about one instruction."""
    rules, subject = rules_of(explanation), _subject(draft, kind)
    spelling = [rule for rule in sorted(rules) if rule in _SPELLING]
    more: Iterable[str]
    if spelling and kind is not Kind.REJECTED:
        subject, more = draft.mnemonic, spelling
    elif explanation.form is not None and not fits_declarations(draft, explanation.form):
        subject, more = draft.mnemonic, ["register of another type"]
    elif kind is Kind.ACCEPTED and rules == {Rule.AVAILABILITY}:
        # The words of the notes that are not satisfied, without version and target.
        subject, more = draft.mnemonic, [
            re.split(" The (?:PTX ISA version|target) here", reason.text)[0]
            for reason in explanation.reasons
        ]  # fmt: skip
    elif kind in KILLS and draft.mnemonic == "wmma.mma":
        more = []
    else:
        more = sorted(rules - {Rule.COMBINATION, Rule.REGISTERS, Rule.UNKNOWN_QUALIFIER})
        # Where shape and type are documented together, something else sets the instruction off.
        if modifiers and subject in _documented_subjects(kind):
            texts = [draft.qualifier(slot) for slot in ("dtype", "ctype", *_MODIFIERS)]
            more = [*(f".{text}" for text in dict.fromkeys(texts) if text), *more]
    return Bucket.of(kind, subject, condition=", ".join(more))


def rules_of(explanation: Explanation) -> frozenset[Rule]:
    """Return the rules that an instruction breaks."""
    return frozenset(reason.rule for reason in explanation.reasons)


@cache
def _documented_subjects(kind: Kind) -> frozenset[str]:
    return frozenset(_subject(canonical(form), kind) for form in FORMS)


def _subject(draft: Draft, kind: Kind) -> str:
    """Name what a person would call the instruction: "wmma.load.c .f32 m8n8k128"."""
    if any(not slot for slot, _ in draft.qualifiers):
        return f"{draft.mnemonic} with words in no order"
    parts = [draft.mnemonic]
    if draft.mnemonic == "wmma.mma" and kind in KILLS:
        # Which of the wrong types it is makes no difference to an assembler that dies.
        parts.append("with types of another shape")
    elif draft.mnemonic == "wmma.mma":
        types = [draft.qualifier("atype"), draft.qualifier("btype")]
        names = [_type(name) if name else "implicit .f16" for name in types]
        parts.append(" x ".join(dict.fromkeys(names)))
    else:
        parts = [".".join(filter(None, (draft.mnemonic, draft.qualifier("matrix"))))]
        types = [draft.qualifier(slot) for slot in ("type", "dst_fmt", "src_fmt")]
        parts += map(_type, filter(None, types))
    shape = draft.qualifier("shape") or "no shape"
    known = shape in (*documented("shape"), "no shape")
    return " ".join(dict.fromkeys((*parts, shape if known else "another shape")))


def _type(name: str) -> str:
    return f".{name}" if name in documented("type") else "another type"


def look_of(
    program: Program,
    images: Images,
    actual: Images,
    *,
    expected: Images,
    target: str,
    form: Form | None,
) -> tuple[str, str]:
    """Return the name and the condition of what wrong images of one program look like.

    It is named after what made the first element that differs in the first image, or else `form`.
    Images are uint8 (count, bytes): before, after, and as the model of the target has them after.
    """
    traced = trace(program, images[0], target=target)
    found = differences(program, expected[0], actual[0])
    written = filter(None, (writer_of(traced, one.byte) for one in found))
    scalar, behind = "", False
    if (first := next(written, None)) is not None:
        (stored,) = first.event.step.reads
        code = getattr(maker_of(traced, first.event, stored.name), "step", None)
        wrong = stored.registers[first.column] if is_lane_code(code) else None
        scalar = "" if wrong is None else _last_writers(code).get(wrong, "")
        producers = (producer_of(traced, one) for one in chain([first], written))
        made = (one.step.form for one in producers if one and is_producer(one.step))
        form = next(made, None) or form
        behind = any(
            is_lane_code(one.step) or (accesses_rows(one.step) and one.step.memory.computed)
            for one in traced.events[: first.event.number + 1]
        )
    outside = differ_outside(program, expected, actual)
    # Code of lanes has many instructions: they would all be one line.
    name = f"{_LANES} that ends in {scalar}" if scalar else unit_name(form)
    # Its operands may be what is wrong.
    name += f" behind {_LANES}" * bool(behind and form and not scalar)
    return name, _OUTSIDE * outside


_LANES = "scalar code"  # what is named where a program has no matrix instruction
_OUTSIDE = "writes outside of its result"


@cache
def _last_writers(step: LaneCode) -> Mapping[Register, str]:
    """Return for each register that code gives the instruction that wrote it last in the text."""
    writers = {
        name: row_of(one).family
        for one in every(step.code)
        if isinstance(one, Assign)
        for name in one.destinations
    }
    assert step.writes is not None
    given = zip(step.writes.registers, step.results, strict=True)
    return {register: writers.get(name, "") for register, name in given}


def unit_name(form: Form | None) -> str:
    """Name what computes a form: "wmma.mma of f16"."""
    if form is None:
        return _LANES
    name = INSTRUCTIONS[form.mnemonic].name
    return f"{name} of {unit_of(form)}" if form.is_product else name


_LEFT_OUT = frozenset({"sync", "aligned", "matrix", "alayout", "blayout", "layout", "space"})


def form_name(form: Form | None) -> str:
    """Name a form by what it computes: without layouts, state space and what is always there."""
    if form is None:
        return _LANES
    told = (slot.text for slot in form.slots if slot.name not in _LEFT_OUT and slot.text)
    return " ".join((INSTRUCTIONS[form.mnemonic].name, *told))


def bucket_of_difference(kind: Kind, form: Form | None, *, outside: bool = False) -> Bucket:
    """Return the bucket of an image that is wrong, `outside`: beside every result, too."""
    return Bucket.of(kind, unit_name(form), condition=_OUTSIDE * outside)


def bucket_of_culprit(kind: Kind, culprit: Culprit, builds: str = "") -> Bucket:
    """Return the bucket of a finding of which experiments told what is wrong."""
    return Bucket.of(kind, *culprit.instructions, condition=culprit.condition, builds=builds)


def bucket_of_failure(kind: Kind, form: Form | None, failure: Failure) -> Bucket:
    """Return the bucket of runs that failed: what was said, less its numbers, and of which form."""
    if kind is Kind.DIVERGENCE:
        return Bucket.of(kind, under_a_condition(failure), condition=DIVERGED)
    if kind is Kind.UNREADABLE or (kind is Kind.COMPILE_FAILURE and failure.detail.strip()):
        form = None
    units = [] if form is None else [unit_name(form)]
    return Bucket.of(kind, *units, message=what_was_said(failure))


_ERROR = re.compile(r"\b(?:error|fatal|assertion|unreachable)\b", re.IGNORECASE)
"""What tells an error among a compiler's warnings, which may come first."""
_RAISED = re.compile(r"^Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)", re.MULTILINE)
"""The line of an exception in a traceback (Python library reference, `traceback`)."""
_ABSTRACTED = (
    (re.compile(r"%[\w.$]+"), "%..."),  # names of LLVM IR
    (re.compile(r"(?<!\S)/(?:[^\s/]+/)*(?=[^\s/])"), ""),  # where a file lies on this machine
    # Of an error code ("C7907") the digits are its name.
    (re.compile(r"0x[0-9a-f]+|(?<![A-Z\d])\d+"), "#"),
)


def what_was_said(failure: Failure) -> str:
    """Return the first words of a failure that tell an error, less numbers, names and folders."""
    lines = [line.strip() for line in failure.detail.splitlines() if line.strip()]
    first = next(filter(_ERROR.search, lines), "".join(lines[:1]))
    if raised := _RAISED.search(failure.detail):
        # What a Python program says last, or has said already: the way there is no name.
        first = "" if raised[1] in failure.message else raised[1]
    words = f"{failure.message} {first}".strip()
    for pattern, instead in _ABSTRACTED:
        words = pattern.sub(instead, words)
    return " ".join(words.split())[:200]


def under_a_condition(failure: Failure) -> str:
    """Return which instruction came under a condition that differs, the last line of the detail."""
    _, _, last = failure.detail.rstrip("\n").rpartition("\n")
    words = (word for word in last.split() if "." in word and not word.startswith("@"))
    opcode = next(words, "")
    names = [name for name in INSTRUCTIONS if opcode == name or opcode.startswith(f"{name}.")]
    return max(names, key=len, default=opcode.partition(".")[0] or "an instruction")


def beside_other_kernels(bucket: Bucket) -> Bucket:
    """Return the bucket of images that come out wrong because of other kernels in the module."""
    return replace(bucket, identity=msgspec.structs.replace(bucket.identity, condition=BESIDE))


def bucket_of_flaky(form: Form | None) -> Bucket:
    """Return the bucket of what did not come out the same every time."""
    return Bucket.of(Kind.FLAKY, unit_name(form), condition="not the same every time")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A compiler at a level that was asked about a finding."""

    version: str  # with options, such as "V13.5.37"
    level: int
    outcome: str = ""

    @property
    def wrong(self) -> bool:
        """Whether it did not do as the oracle says."""
        return self.outcome not in ("", *RIGHT)

    @property
    def compiler(self) -> str:
        """Compiler and version, such as "ptxas V13.5.37" or "llvm:20.1.0"."""
        return self.version if ":" in self.version else f"ptxas {self.version}"

    @property
    def name(self) -> str:
        """Compiler, version and level, such as "ptxas V13.5.37 -O3"."""
        return f"{self.compiler} -O{self.level}"


def asked_of(case: Case, *runners: str) -> tuple[Asked, ...]:
    """Return what each compiler did, of some kinds ("ptxas") or of all."""
    return tuple(
        Asked(version=one.version, level=int(one.options[2]), outcome=one.outcome)
        for one in case.asked
        if re.fullmatch("-O[0-3]", one.options) and (not runners or one.runner in runners)
    )


def accused(case: Case) -> str:
    """Return the instruction with most of the identity's words, or what a case is about."""
    words = " ".join(case.identity.instructions).replace(",", " ").split()
    named = [
        text
        for text in case.instructions
        if any(
            part == word or part.startswith(f"{word}.") or ("*" in word and fnmatchcase(part, word))
            for word in words
            for part in text.split()
        )
    ]
    if named:
        return max(named, key=lambda text: len({*words} & {*re.split(r"[.\s]", text)}))
    multiplied = (text for text in case.instructions if text.startswith(("wmma.mma", "ldmatrix")))
    return next(multiplied, next(iter(case.instructions), "no matrix instruction"))


def who_has(found: Iterable[Case]) -> str:
    """Say which compilers have a cause: "only V11.8.89 to V12.4.131 -O1", "every compiler"."""
    cases = list(found)
    asked = [one for case in cases for one in asked_of(case)]
    everybody = list(dict.fromkeys(replace(one, outcome="") for one in asked))
    wrong = {replace(one, outcome="") for one in asked if one.wrong}
    if len(wrong) == len(everybody):
        return "every compiler" if everybody else ""
    # A divergence is one pass's, which other levels have as well.
    diverged = all(case.kind is Kind.DIVERGENCE for case in cases)
    members = [one for one in everybody if one in wrong]
    return f"only {described(members, everybody, levels=not diverged)}"


@dataclass(kw_only=True)
class FamilyState:
    """A finding of a campaign, from the first suspect to its smallest form."""

    bucket: Bucket  # what its suspects have in common
    case: Case  # what stands for it: the smallest one that there is
    known: Row | None = None
    like: Row | None = None  # known and of its identity, whatever builds have that
    cases: int = 0  # drawn so far that belong here
    saved: Saved | None = None
    new: bool = False
    confirmed: bool = False  # replayed
    finished: bool = False  # nothing more is to be done with it
    deaths: int = 0  # workers that died over it
    lines: int = 0  # of its kernel, if that was long when the time for it was over


def stored_id(family: FamilyState) -> str | None:
    """Return the id of the finding that stands for a family; None if it could not be stored."""
    return None if family.saved is None else family.saved.id


@dataclass(frozen=True, kw_only=True)
class FindingGroup:
    """Findings of one identity, whichever compilers have it: all of them known, or none."""

    members: tuple[FamilyState, ...]  # those of the worst kind first; never empty
    shown: FamilyState  # the first of them, which is shown for all
    title: str  # the line that a person reads
    what: str  # the title without the kind
    remark: str  # what is to be read behind the title: what it is known as
    kinds: Counter[Kind]  # cases of each kind, the worst first
    ids: list[str]  # of its members' stored findings


def _grouped(found: Iterable[FamilyState]) -> FindingGroup:
    members = tuple(sorted(found, key=lambda one: -one.case.kind.severity))
    shown, who, kinds = members[0], who_has(one.case for one in members), Counter[Kind]()
    for one in members:
        kinds[one.case.kind] += one.cases
    remark = f" (as {shown.like.id}, which is not known of these builds)" if shown.like else ""
    if shown.known is not None:
        names = dict.fromkeys(one.known.id for one in members if one.known is not None)
        remark = f" (known: {', '.join(names)})"
    return FindingGroup(
        members=members,
        shown=shown,
        title=sentence(shown.case, who=who),
        what=what_is_wrong(shown.case, who=who),
        remark=remark,
        kinds=kinds,
        ids=list(dict.fromkeys(one.saved.id for one in members if one.saved is not None)),
    )


def in_words(kinds: Mapping[Kind, int]) -> str:
    """Say how many cases are of each kind; "" where all are of one."""
    parts = [f"{kind} {count:,}" for kind, count in kinds.items()]
    return f" ({', '.join(parts)})" if len(parts) > 1 else ""


def group_name(family: FamilyState) -> tuple[Identity, bool]:
    """Return what a finding has in common with the others of its group."""
    return family.case.identity, family.known is not None


def behind_worse(families: Sequence[FamilyState]) -> list[FamilyState]:
    """Return those in whose group a worse one is shown; none that has no name yet."""
    worst: dict[tuple[Identity, bool], int] = {}
    for one in families:
        name, severity = group_name(one), one.case.kind.severity
        worst[name] = max(severity, worst.get(name, severity))
    named = (one for one in families if not is_provisional(one.case))
    return [one for one in named if one.case.kind.severity < worst[group_name(one)]]


def finding_groups(families: Iterable[FamilyState]) -> list[FindingGroup]:
    """Group families by cause: worst first, what is known last."""
    members: dict[tuple[Identity, bool], list[FamilyState]] = {}
    for family in families:
        members.setdefault(group_name(family), []).append(family)

    def place(group: FindingGroup) -> tuple[bool, int, str]:
        return group.shown.known is not None, -group.shown.case.kind.severity, group.title

    return sorted(map(_grouped, members.values()), key=place)


def group_counts(families: Iterable[FamilyState]) -> tuple[int, int]:
    """Return how many groups nobody has explained yet, and how many are known."""
    known = [is_known for _, is_known in {group_name(family) for family in families}]
    return known.count(False), known.count(True)


def stored_row(case: Case, saved: Saved | None, known: Row | None) -> dict[str, object]:
    """Return what every command's JSON says of a finding: what it is, and where it is stored."""
    return {
        "id": None if saved is None else saved.id,
        "family": case.identity.text,
        "kind": case.kind.value,
        "verdict": case.kind.value,
        "known": known is not None,
        "known_as": None if known is None else known.id,
        "path": None if saved is None else str(saved.path),
    }


def finding_row(family: FamilyState) -> dict[str, object]:
    """Return a finding as the summary lists it."""
    case, who = family.case, who_has([family.case])
    return {
        **stored_row(case, family.saved, family.known),
        "provisional": is_provisional(case),
        "compilers": who or None,
        "title": sentence(case, who=who),
        "text": accused(case),
        "ptx_version": case.ptx_version,
        "cases": family.cases,
        "shrink": case.shrink.value,
        "message": case.runners[-1].message,
    }


def finding_rows(families: Iterable[FamilyState]) -> list[dict[str, object]]:
    """Return families as the summary lists them: those of one cause together, worst first."""
    return [finding_row(member) for group in finding_groups(families) for member in group.members]
