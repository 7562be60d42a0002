"""Everything that the page of a finding with images says, gathered from the stored files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpus import Entry, Finding, RunnerVerdict, ShrinkStatus
from fuzz.explain.notation import hexadecimal, number, ordinal, signed
from fuzz.findings.case import (
    ACTUAL,
    EXPECTED,
    INPUT,
    JUDGED,
    OTHER_KERNELS,
    PROGRAM,
    REWRITTEN,
    image_of,
    subject_of,
)
from fuzz.findings.making import variant_of, written
from fuzz.findings.replay import Subject
from fuzz.findings.verdicts import Difference, differences
from fuzz.kinds import KINDS, sentence
from fuzz.output import counted
from oracle.errors import InfrastructureError, UsageError
from oracle.formats import FORMATS, Format
from oracle.forms import Form
from oracle.ops import is_main, is_producer
from oracle.permission import Bound, permitted
from oracle.program import Program, walk
from oracle.targets import parse_target, split_compiler
from oracle.tracing import Event, Trace, Written, trace
from runners.cuda.compilation import DEFAULT_LEVEL
from runners.front_ends.sources import Source
from runners.kernels import Kernel
from strategies.features import main_form
from strategies.matrices import Result, results

LEVELS = (1, 2, 4, 16, 256, 4096, 1 << 16, 1 << 20, 1 << 31)
"""Least distance of each of the levels 1 to 9; what lies between grows from a bit to a word."""
NOT_A_NUMBER = "N"


def units(one: Difference, type_: Format | None) -> int | None:
    """Return how far two values are apart, with a sign; None if one of them is NaN.

    Floats: in units in the last place, that is, steps from one number of the format to the next,
    with +0 and -0 as one. Integers: their difference. What has no type (registers, bytes outside of
    every result): the number of bits that differ.
    """
    if type_ is None:
        return (one.expected ^ one.actual).bit_count()
    if not type_.is_float:
        return signed(one.actual, type_) - signed(one.expected, type_)
    if "NaN" in (number(one.expected, type_).kind, number(one.actual, type_).kind):
        return None
    return ordinal(one.actual, type_) - ordinal(one.expected, type_)


def unit_words(type_: Format | None) -> str:
    """Say what `units` counts."""
    if type_ is None:
        return "differing bits"
    return "units in the last place" if type_.is_float else "difference"


def apart(one: Difference, type_: Format | None) -> str:
    """Say how far two values are apart.

    Units in the last place mean something among numbers of about one size: beyond as many as a
    binade has, the difference itself is said.
    """
    distance = units(one, type_)
    if distance is None:
        return "NaN"
    if type_ is None:
        return f"{distance} bit{'s' if distance != 1 else ''}"
    if not type_.is_float:
        return f"{distance:+,}"
    if distance == 0:
        return "the other zero"
    if abs(distance) <= 1 << (type_.fraction_bits + type_.ignored_bits):
        return f"{distance:+,} ulp"
    expected, actual = number(one.expected, type_), number(one.actual, type_)
    if "infinity" in (expected.kind, actual.kind):
        return "infinitely far"
    difference = actual.value - expected.value
    try:
        return f"off by {float(difference):+.3g}"
    except OverflowError:
        return "off by more than a double holds"


def level(distance: int | None) -> str:
    """Return a digit for a distance, from 0 (the other zero) to 9; "N" where one is NaN."""
    if distance is None:
        return NOT_A_NUMBER
    return str(sum(abs(distance) >= least for least in LEVELS))


def level_words(sign: str) -> str:
    """Say what a level means."""
    if sign == NOT_A_NUMBER:
        return "NaN"
    index = int(sign)
    if index == 0:
        return "the other zero"
    low = LEVELS[index - 1]
    if index == len(LEVELS):
        return f"{_short(low)} or more"
    high = LEVELS[index] - 1
    return _short(low) if low == high else f"{_short(low)} to {_short(LEVELS[index])}"


def _short(value: int) -> str:
    power = value.bit_length() - 1
    return str(value) if value < 1 << 16 else f"2^{power}"


def meaning_of(finding: Finding) -> str:
    """Say what a finding's kind means, as half a sentence; "" for what says it itself."""
    row = KINDS[finding.kind]
    return row.of_programs if _ran(finding) else row.of_modules


def _ran(finding: Finding) -> bool:
    """Whether a finding is of a program on an image, and not of what compilers say of one."""
    return {PROGRAM, INPUT} <= finding.files.keys()


@dataclass(frozen=True, kw_only=True)
class OutcomeTable:
    """What each compiler version did at each -O level."""

    levels: tuple[str, ...]
    """Options such as "-O3", lowest first; the heads of the columns."""
    rows: tuple[tuple[str, ...], ...]
    """The runner with its version, then an outcome for each level; "" where it was not asked."""
    others: tuple[RunnerVerdict, ...]
    """Verdicts without a level."""


def outcomes_of(finding: Finding) -> OutcomeTable:
    """Return the verdicts of a finding as a table of versions and levels."""
    told: dict[str, dict[str, str]] = {}
    others = []
    for one in finding.runners:
        levels = one.options.split()
        if not levels or not all(re.fullmatch(r"-O\d", level) for level in levels):
            others.append(one)
            continue
        itself = one.version.startswith(one.runner)
        name = one.version if itself else f"{one.runner} {one.version}"
        told.setdefault(name, {}).update(dict.fromkeys(levels, one.outcome))
    heads = sorted({level for row in told.values() for level in row})
    rows = [(name, *(row.get(level, "") for level in heads)) for name, row in told.items()]
    return OutcomeTable(levels=tuple(heads), rows=tuple(rows), others=tuple(others))


_SHRUNK = {
    ShrinkStatus.RAW: "no",
    ShrinkStatus.FLAKY: "until it did not fail every time",
    ShrinkStatus.CAPPED: "until a limit of time or steps",
    ShrinkStatus.COMPLETE: "as far as it goes",
}
"""How far a finding was made smaller."""


def facts_of(finding: Finding) -> Iterator[tuple[str, str]]:
    """Yield what every page says of a finding, whatever it is of: the name of a fact, and the fact.

    Facts that were not recorded are left out.
    """
    details = finding.details
    yield "id", finding.id
    yield "kind", finding.kind.value
    yield "family", finding.identity.text
    for device in dict.fromkeys(runner.device for runner in finding.runners if runner.device):
        yield "found on", device
    for runner in outcomes_of(finding).others:
        yield "runner", f"{runner.runner} {runner.version} {runner.options}".strip()
    others = details.get(OTHER_KERNELS)
    beside = f", with {counted(int(others), 'other kernel')}: alone it is right" if others else ""
    yield "module", f".target {finding.target}, .version {finding.ptx_version}{beside}"
    made = finding.made
    if "compiler" in details or made.level is not None:
        compiler = str(details.get("compiler", "not recorded"))
        level = "" if made.level is None else f"-O{made.level}"
        yield "compiled by", compiler if level in compiler else f"{compiler}, {level}"
    if details.get("sms"):
        yield "multiprocessors", str(details["sms"])
    if "runs" in details:
        yield "replayed", _replays(details)
    if "confidence" in details:
        yield f"model of {finding.target}", str(details["confidence"])
    yield "made smaller", _SHRUNK[finding.shrink]
    if finding.origin is not None:
        where = finding.origin
        image = f", image {where.image}" if _ran(finding) else ""
        yield "drawn from", f"seed {where.seed}, round {where.round}{image}"
    yield "warpfuzz", finding.versions.warpfuzz
    if finding.comment:
        yield "comment", finding.comment


def _replays(details: Mapping[str, object]) -> str:
    runs, copies, rate = (details.get(name) for name in ("runs", "copies", "rate"))
    text = f"{details.get('failed runs', 0)} of {runs} {'run' if runs == 1 else 'runs'} failed"
    if isinstance(rate, float) and isinstance(copies, int) and copies > 1:
        text += f", {100 * rate:.3g} % of the {copies:,} warps of each"
    return text


def document_of(
    finding: Finding,
    kernel: Kernel,
    buffers: Sequence[Mapping[str, object]],
    *,
    copies: int = 1,
    level: object,
    results: Sequence[Mapping[str, object]] = (),
    first: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return what `repro.json` holds of any case with images.

    Parameters
    ----------
    copies
        Warps of a launch that work on copies of the image.
    level
        -O level.
    results
        Where results lie in the image.
    first
        A difference.
    """
    variant = variant_of(finding)
    own = {"options": variant.flags, "arch": variant.architecture("")}
    return {
        "finding": finding.id,
        "kind": finding.kind.value,
        "title": sentence(finding),
        "entry": kernel.entry,
        "image_bytes": kernel.image_bytes,
        "warps_per_block": kernel.warps_per_block,
        "copies": copies,
        "opt": level,
        **{name: value for name, value in own.items() if value},
        "target": finding.target,
        "results": results,
        "buffers": buffers,
        "first": first,
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class ValueFacts:
    """A finding of a program on an image."""

    entry: Entry
    subject: Subject
    rewritten: str | None
    """What was run, if a pass or a planted fault changed it."""
    expected: NDArray[np.uint8]
    """uint8 (image_bytes,)."""
    actual: NDArray[np.uint8] | None
    """uint8 (image_bytes,); None if nothing came out."""
    architecture: str
    """Whose model expects this: "sm_90", or "sm_90@12.4" for code of a compiler of CUDA 12.4."""

    @classmethod
    def of(cls, entry: Entry) -> ValueFacts:
        """Read a stored finding."""
        subject = subject_of(entry)
        files = entry.finding.files
        details = entry.finding.details
        architecture = str(details.get("architecture", entry.finding.target))
        architecture = str(details.get(JUDGED, architecture))
        try:
            parse_target(split_compiler(architecture)[0])
        except UsageError as error:
            raise InfrastructureError(f"{entry.path}: {error}") from None
        stored = image_of(entry, EXPECTED, subject.program) if EXPECTED in files else None
        expected = (
            trace(subject.program, subject.image, target=architecture).image
            if stored is None
            else stored
        )
        return cls(
            entry=entry,
            subject=subject,
            rewritten=(
                entry.read(REWRITTEN).decode(errors="replace") if REWRITTEN in files else None
            ),
            expected=expected,
            actual=image_of(entry, ACTUAL, subject.program) if ACTUAL in files else None,
            architecture=architecture,
        )

    @property
    def finding(self) -> Finding:
        """The description."""
        return self.entry.finding

    @property
    def program(self) -> Program:
        """The program."""
        return self.subject.program

    @property
    def kernel(self) -> str:
        """The PTX that was run."""
        return self.rewritten if self.rewritten is not None else self.subject.module.ptx

    @property
    def built_for(self) -> str:
        """Architecture of the device that ran it: "sm_90"."""
        return str(self.finding.details.get("architecture", self.finding.target))

    @property
    def level(self) -> int:
        """-O level."""
        own = self.finding.made.level
        return DEFAULT_LEVEL if own is None else own

    @cached_property
    def source(self) -> Source | None:
        """What the front end was given; None where warpfuzz wrote the PTX."""
        return written(self.entry, self.subject.module)

    @cached_property
    def trace(self) -> Trace:
        """The program's way over the image, by the model."""
        return trace(self.program, self.subject.image, target=self.architecture)

    @cached_property
    def results(self) -> tuple[Result, ...]:
        """Where the results lie."""
        return results(self.program)

    @cached_property
    def differences(self) -> Sequence[Difference]:
        """What differs."""
        if self.actual is None:
            return ()
        return differences(self.program, self.expected, self.actual)

    @cached_property
    def shown(self) -> Difference | None:
        """The difference that the page is about: one that the ISA forbids, if there is any."""
        forbidden = [one for one in self.differences if not self.is_permitted(one)]
        return next(iter(forbidden or self.differences), None)

    @cached_property
    def written(self) -> Written | None:
        """The step that wrote the byte that is shown; None if none is."""
        return None if self.shown is None else self.trace.writer(self.shown.byte)

    @cached_property
    def producer(self) -> Event | None:
        """The last multiplication or ldmatrix behind it."""
        return None if self.written is None else self.trace.producer(self.written)

    @cached_property
    def form(self) -> Form | None:
        """The form of the producer, or the first that the program has."""
        if self.producer is not None and is_producer(self.producer.step):
            return self.producer.step.form
        if self.written is not None:
            return None
        if any(is_main(step) for step in walk(self.program.steps)):
            return main_form(self.program)
        return None

    @cached_property
    def _allowed(self) -> NDArray[np.bool_]:
        if self.actual is None:
            return np.ones(len(self.expected), bool)
        allowed: NDArray[np.bool_] = self._permission.allows(self.actual[None])[0]
        return allowed

    @cached_property
    def _permission(self) -> Any:
        return permitted(self.program, self.subject.image[None], target=self.architecture)

    def is_permitted(self, difference: Difference) -> bool:
        """Whether the ISA permits what is there."""
        size = difference.bits // 8
        return bool(self._allowed[difference.byte : difference.byte + size].all())

    def bound(self, difference: Difference) -> Bound | None:
        """Return what the ISA permits there, None if it is one value or anything."""
        found = (one for one in self._permission.bounds() if one.byte == difference.byte)
        return next(found, None)

    def is_exact(self, difference: Difference) -> bool:
        """Whether the ISA permits one value alone."""
        return bool(self._permission.exact[0, difference.byte])

    def type_of(self, difference: Difference) -> Format | None:
        """Return the format of what differs; None for registers and bytes."""
        for result in self.results:
            if not result.is_registers and difference.byte in result.offsets:
                return FORMATS.get(result.type)  # rows of moved matrices have none
        return None

    def document(self) -> dict[str, Any]:
        """Return what `repro.json` holds."""
        buffers = [
            {"name": one.name, "offset": self.program.offset(one.name), "size": one.size}
            for one in self.program.buffers
            if one.space == "global"
        ]
        return document_of(
            self.finding,
            self.subject.module.kernel(),
            buffers,
            copies=self.subject.copies,
            level=self.level,
            # A later result owns the bytes that two of them have.
            results=[asdict(one) for one in reversed(self.results)],
            first=None if self.shown is None else self._described(self.shown),
        )

    def _described(self, one: Difference) -> dict[str, str]:
        return {
            "where": one.where,
            "expected": hexadecimal(one.expected, one.bits),
            "actual": hexadecimal(one.actual, one.bits),
        }
