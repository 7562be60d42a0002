"""What a page is made of: a finding read from its files, and how values are written.

A value is a pattern in the notation of its type; two are so and so far apart.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpus import Entry, Finding
from corpus.finding import EXPECTED
from fuzz.findings.case import ACTUAL, JUDGED, REWRITTEN, image_of, subject_of
from fuzz.findings.verdicts import Difference, Subject, differences
from oracle.arithmetic.conversions import unpacked
from oracle.arithmetic.dots import element_values
from oracle.bounds.permission import Bound, permitted
from oracle.errors import InfrastructureError, UsageError
from oracle.execution.tracing import Trace, Written, trace
from oracle.isa.forms import FORMATS, Format
from oracle.isa.targets import parse_target, split_compiler
from oracle.program.program import Program
from runners.front_ends.languages import Source, source_of
from strategies.matrices import Result, results

NAMED = 3
"""Groups of lanes that are named one by one."""
_PARTS = re.compile(r"([a-z]+([0-9]+)(?:m[0-9])?)(?:x([24]))?")


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
        subject, finding = subject_of(entry), entry.finding
        files, size = finding.files, subject.program.image_bytes
        architecture = finding.details.get("architecture", finding.target)
        architecture = str(finding.details.get(JUDGED, architecture))
        try:
            parse_target(split_compiler(architecture)[0])
        except UsageError as error:
            raise InfrastructureError(f"{entry.path}: {error}") from None
        if EXPECTED in files:
            expected = image_of(entry, EXPECTED, size)
        else:
            expected = trace(subject.program, subject.image, target=architecture).image
        ran = entry.read(REWRITTEN).decode(errors="replace") if REWRITTEN in files else None
        return cls(
            entry=entry, subject=subject, rewritten=ran, expected=expected,
            actual=image_of(entry, ACTUAL, size) if ACTUAL in files else None,
            architecture=architecture,
        )  # fmt: skip

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

    @cached_property
    def source(self) -> Source | None:
        """What the front end was given; None where warpfuzz wrote the PTX."""
        made = self.finding.made
        if not made.front_end:
            return None
        return source_of(made.front_end, self.subject.module, level=made.level)

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
    def _permission(self) -> Any:
        return permitted(self.program, self.subject.image[None], target=self.architecture)

    @cached_property
    def _allowed(self) -> Any:
        assert self.actual is not None
        return self._permission.allows(self.actual[None])[0]

    def is_permitted(self, difference: Difference) -> bool:
        """Whether the ISA permits what is there."""
        size = difference.bits // 8
        return bool(self._allowed[difference.byte : difference.byte + size].all())

    def bound(self, difference: Difference) -> Bound | None:
        """Return what the ISA permits there, None if it is one value or anything."""
        start, size = difference.byte, difference.bits // 8
        changed = difference.expected ^ difference.actual
        found: list[Bound] = [
            one for one in self._permission.bounds() if start <= one.byte < start + size
        ]
        # Of a register with two elements, that of one that differs.
        for one, end in zip_longest(found, found[1:]):
            bits = 8 * ((end.byte if end else start + size) - one.byte)
            if changed >> 8 * (one.byte - start) & ((1 << bits) - 1):
                return one
        return None

    def type_of(self, difference: Difference) -> Format | None:
        """Return the format of what differs; None for registers and bytes."""
        for result in self.results:
            if not result.is_registers and difference.byte in result.offsets:
                return FORMATS.get(result.type)  # rows of moved matrices have none
        return None


def hexadecimal(bits: int, size: int) -> str:
    """Return raw bits with all of their digits."""
    return f"0x{bits:0{-(-size // 4)}x}"


def notation(bits: int, type_: str) -> str:
    """Return a pattern as PTX's type has it: "1.0", "-3", "true", "{1.0, 0.0}"; "" of plain bits.

    Of a packed register the lower half comes first.
    """
    if type_ == "pred":
        return "true" if bits else "false"
    found = _PARTS.fullmatch(type_)
    if found is None or is_plain(type_):
        return ""
    name, size, count = found[1], int(found[2]), int(found[3] or 1)
    if count > 1:
        size = FORMATS[name].bits if name in FORMATS else size
        parts = ((bits >> size * at) & ((1 << size) - 1) for at in range(count))
        return f"{{{', '.join(notation(part, name) for part in parts)}}}"
    if name[0] in "us":
        return str(_signed(bits, size) if name[0] == "s" else bits)
    return decimal(bits, FORMATS[name]) if name in FORMATS else ""


def is_plain(type_: str) -> bool:
    """Whether a type is of plain bits: ".b32", and not ".bf16"."""
    return type_.startswith("b") and not type_.startswith("bf")


def _signed(bits: int, size: int) -> int:
    return bits - (1 << size) if bits >> (size - 1) else bits


def shown(bits: int, size: int, type_: str) -> str:
    """Return a pattern in hexadecimal, and in the notation of its type behind it."""
    if type_ == "pred":
        return notation(bits, type_)
    return f"{hexadecimal(bits, size)} {notation(bits, type_)}".rstrip()


def float_of(bits: int, fmt: Format) -> float:
    """Return the number that a pattern of a floating-point format stands for."""
    if fmt.name == "f64":
        return float(np.array(bits, np.uint64).view(np.float64))
    if fmt.bits == 8:
        bits, fmt = int(unpacked(np.array([bits], np.uint8), fmt.name)[0]), FORMATS["f16"]
    return float(element_values(np.array([bits], fmt.raw), fmt)[0])


def number(value: float, digits: int = 9) -> str:
    """Return a number with a sign that it is no integer: "1.0", "1e-30", "infinity"."""
    if math.isinf(value) or math.isnan(value):
        return "NaN" if math.isnan(value) else "infinity" if value > 0 else "-infinity"
    return repr(float(f"{value:.{digits}g}"))


def decimal(bits: int, fmt: Format) -> str:
    """Return a float as a person reads it: the digits that tell it from its neighbours."""
    # As many as tell any two values of a format apart (IEEE 754-2019, 5.12.2).
    most = 1 + math.ceil((fmt.fraction_bits + 1) * math.log10(2))
    value = float_of(bits, fmt)
    tried = (number(value, digits) for digits in range(1, max(most, 9)))
    return next((text for text in tried if float(text) == value), number(value, most))


def units(one: Difference, fmt: Format | None) -> int | None:
    """Return how far two values are apart, with a sign; None if one of them is NaN.

    Floats: in steps from one number of the format to the next, +0 and -0 as one. Integers: their
    difference. What has no type (registers, bytes outside of every result): the number of bits
    that differ.
    """
    if fmt is None:
        return (one.expected ^ one.actual).bit_count()
    both = one.expected, one.actual
    if fmt.is_float:
        if any(math.isnan(float_of(bits, fmt)) for bits in both):
            return None
        half = 1 << (fmt.bits - 1)
        expected, actual = (-(bits - half) if bits & half else bits for bits in both)
    else:
        signed = fmt.kind.value == "signed"
        expected, actual = (_signed(bits, fmt.bits) if signed else bits for bits in both)
    return actual - expected


def apart(one: Difference, fmt: Format | None) -> str:
    """Say how far two values are apart."""
    distance = units(one, fmt)
    if distance is None:
        return "NaN"
    if fmt is None:
        return f"{distance} bit{'s' if distance != 1 else ''}"
    if not fmt.is_float:
        return f"{distance:+,}"
    if distance == 0:
        return "the other zero"
    # Units in the last place mean something among numbers of about one size.
    if abs(distance) <= 1 << (fmt.fraction_bits + fmt.ignored_bits):
        return f"{distance:+,} ulp"
    return f"off by {number(float_of(one.actual, fmt) - float_of(one.expected, fmt), 3)}"


def spans(numbers: Sequence[int]) -> str:
    """Return numbers in rising order as spans: "0 to 3, 8"."""
    parts: list[list[int]] = []
    for one in numbers:
        if parts and parts[-1][-1] == one - 1:
            parts[-1].append(one)
        else:
            parts.append([one])
    return ", ".join(
        str(part[0]) if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in parts
    )


def register_of(words: NDArray[np.uint32], lane: int, index: int, bits: int) -> int:
    """Return a register of a lane out of words, uint32 (32, words), the low one of two first."""
    if bits == 32:
        return int(words[lane, index])
    return int(words[lane, 2 * index]) | int(words[lane, 2 * index + 1]) << 32


def by_lanes(values: NDArray[np.uint64], bits: int) -> str:
    """Say what all lanes hold: those with one value together."""
    groups: dict[int, list[int]] = {}
    for lane, value in enumerate(values.tolist()):
        groups.setdefault(int(value), []).append(lane)
    if len(groups) == 1:
        return f"{shown(next(iter(groups)), bits, '')} in every lane"
    if len(groups) > NAMED:
        return f"another in each of {len(groups)} groups of lanes"
    return ", ".join(
        f"{shown(one, bits, '')} in lanes {spans(some)}" for one, some in groups.items()
    )
