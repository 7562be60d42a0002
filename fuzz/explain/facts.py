"""A finding with images, read from its files: its program, its trace, and what differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpus import Entry, Finding
from corpus.entry import EXPECTED
from fuzz.findings.case import ACTUAL, JUDGED, REWRITTEN, image_of, subject_of
from fuzz.findings.replay import Subject
from fuzz.findings.verdicts import Difference, differences
from oracle.bounds.permission import Bound, permitted
from oracle.errors import InfrastructureError, UsageError
from oracle.execution.tracing import Trace, Written, trace
from oracle.isa.formats import FORMATS, Format
from oracle.isa.targets import parse_target, split_compiler
from oracle.program.program import Program
from runners.front_ends.languages import Source, source_of
from strategies.matrices import Result, results


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
        found = [one for one in self._permission.bounds() if start <= one.byte < start + size]
        # Of a register with two elements, that of one that differs.
        differing = [
            one for one, end in zip_longest(found, found[1:])
            if changed >> 8 * (one.byte - start)
            & ((1 << 8 * ((end.byte if end else start + size) - one.byte)) - 1)
        ]  # fmt: skip
        return next(iter(differing), None)

    def type_of(self, difference: Difference) -> Format | None:
        """Return the format of what differs; None for registers and bytes."""
        for result in self.results:
            if not result.is_registers and difference.byte in result.offsets:
                return FORMATS.get(result.type)  # rows of moved matrices have none
        return None
