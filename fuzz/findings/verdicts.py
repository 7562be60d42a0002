"""What a comparison says, from match to violation, and what a runner's failure is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpus import Kind
from fuzz.findings.places import results
from oracle.errors import DeviceLostError, InfrastructureError
from oracle.execution import execute
from oracle.image import locate
from oracle.legality import Explanation
from oracle.legality import Verdict as Legality
from oracle.permission import permitted
from oracle.program import Program
from runners.assemblers.judgements import Outcome
from runners.protocol import Failure, Images, Trouble
from strategies.drafts import Draft, fits_declarations


class Expectation(StrEnum):
    """What the ISA lets one expect of an assembler."""

    ACCEPT = "accept"
    REJECT = "reject"
    OPEN = "open"
    """Either: undefined behaviour, or registers whose declared types the oracle cannot judge."""


def expectation_of(draft: Draft, explanation: Explanation) -> Expectation:
    """Return what an assembler has to do with a draft that the oracle explains so."""
    if explanation.verdict is Legality.ILLEGAL:
        return Expectation.REJECT
    if explanation.verdict is Legality.UNDEFINED or explanation.form is None:
        return Expectation.OPEN
    if fits_declarations(draft, explanation.form):
        return Expectation.ACCEPT
    return Expectation.OPEN


# An assembler that dies or speaks of its own inside is wrong whatever it was given.
_ALWAYS = {
    Outcome.INTERNAL: Kind.INTERNAL,
    Outcome.CRASHED: Kind.CRASH,
    Outcome.HUNG: Kind.HANG,
    Outcome.UNREADABLE: Kind.UNREADABLE,
}


def kind_of(expectation: Expectation, outcome: Outcome) -> Kind | None:
    """Return the kind of disagreement, None where assembler and ISA agree."""
    if outcome in _ALWAYS:
        return _ALWAYS[outcome]
    if outcome is Outcome.ACCEPTED and expectation is Expectation.REJECT:
        return Kind.ACCEPTED
    if outcome is Outcome.REJECTED and expectation is Expectation.ACCEPT:
        return Kind.REJECTED
    return None


class Verdict(IntEnum):
    """What an image says, from best to worst."""

    MATCH = 0
    """Every byte is what the model of the target computes."""
    DEVIATION = 1
    """Some byte is not, and the ISA permits what is there."""
    VIOLATION = 2
    """Some byte is what the ISA permits on no target."""

    @property
    def kind(self) -> Kind:
        """What a finding of this verdict is called.

        Raises
        ------
        InfrastructureError
            For a match, which is no finding.
        """
        match self:
            case Verdict.DEVIATION:
                return Kind.DEVIATION
            case Verdict.VIOLATION:
                return Kind.VIOLATION
        raise InfrastructureError("a match is no finding; only deviations and violations are")


_KINDS = {
    Trouble.COMPILE_FAILURE: Kind.COMPILE_FAILURE,
    Trouble.LAUNCH_FAILURE: Kind.LAUNCH_FAILURE,
    Trouble.STICKY_ERROR: Kind.LAUNCH_FAILURE,
    Trouble.HANG: Kind.HANG,
    Trouble.CRASH: Kind.CRASH,
    Trouble.CORRUPTED_REPLY: Kind.UNREADABLE,
    Trouble.DEVICE_LOST: Kind.DEVICE_LOST,
}


def kind_of_failure(failure: Failure) -> Kind:
    """Return what a finding of this failure is called.

    Raises
    ------
    DeviceLostError
        If there is no device: nothing more can be run.
    InfrastructureError
        If the runner cannot do it by design, or lacks something: nothing was found.
    """
    detail = f" ({failure.detail.strip()})" if failure.detail.strip() else ""
    if failure.trouble is Trouble.DEVICE_LOST:
        raise DeviceLostError(f"{failure}{detail}")
    if failure.trouble in (Trouble.UNSUPPORTED, Trouble.UNAVAILABLE):
        raise InfrastructureError(f"{failure}{detail}")
    return _KINDS[failure.trouble]


def judge(
    program: Program,
    images: Images,
    actual: NDArray[Any],
    *,
    target: str,
    expected: Images | None = None,
) -> tuple[Verdict, ...]:
    """Return the verdict of each image.

    The permitted bounds, which cost more than the model, are computed for images that differ.

    Parameters
    ----------
    images : uint8 (count, image_bytes)
        Before the program.
    actual : uint8 (count, image_bytes)
        After it.
    target
        Whose model computes.
    expected : uint8 (count, image_bytes)
        What it expects, from a caller who has asked it already.
    """
    if expected is None:
        expected = execute(program, images, target=target).images
    differ = np.flatnonzero((expected != actual).any(axis=1))
    verdicts = [Verdict.MATCH] * len(images)
    if len(differ):
        allowed = permitted(program, images[differ], target=target).allows(actual[differ])
        for index, image_allowed in zip(differ.tolist(), allowed, strict=True):
            verdicts[index] = Verdict.DEVIATION if image_allowed.all() else Verdict.VIOLATION
    return tuple(verdicts)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One element, or one byte outside of every result, that is not what was expected."""

    where: str
    """Such as "d[3, 4]" (row, column), "r[lane 5, 1]", or "byte 7 of gd"."""
    byte: int = -1
    """The first byte of it in the image."""
    row: int
    """Or lane; -1 for a byte."""
    column: int
    """Or register; -1 for a byte."""
    expected: int
    """Raw bits."""
    actual: int
    """Raw bits."""
    bits: int
    """Size of the element."""

    def __str__(self) -> str:
        digits = -(-self.bits // 4)
        expected, actual = (f"0x{bits:0{digits}x}" for bits in (self.expected, self.actual))
        return f"{self.where}: expected {expected}, actual {actual}"


def differences(
    program: Program, expected: NDArray[np.uint8], actual: NDArray[np.uint8]
) -> Sequence[Difference]:
    """List the elements of results that differ, row by row, then the other bytes that do.

    Where two results overlap, an element belongs to the later one.

    Parameters
    ----------
    expected, actual : uint8 (image_bytes,)
        One image after the program.
    """
    found: list[list[Difference]] = []
    left = expected != actual
    for result in reversed(results(program)):
        want, got = result.read(expected), result.read(actual)
        differing = left[result.bytes].any(axis=2)
        left[result.bytes] = False
        found.append(
            [
                Difference(
                    where=result.where(row, column),
                    byte=int(result.offsets[row, column]),
                    row=row,
                    column=column,
                    expected=int(want[row, column]),
                    actual=int(got[row, column]),
                    bits=result.bits,
                )
                for row, column in np.argwhere(differing).tolist()
            ]
        )
    others = []
    for byte in np.flatnonzero(left).tolist():
        place = locate(program, byte)
        where = f"byte {byte}" if place is None else f"byte {place.offset} of {place.buffer}"
        others.append(
            Difference(
                where=where, byte=byte, row=-1, column=-1, expected=int(expected[byte]),
                actual=int(actual[byte]), bits=8,
            )
        )  # fmt: skip
    return [one for part in reversed(found) for one in part] + others
