"""Verdicts: how an image differs from the expected one, and what that is called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpus import Kind
from fuzz.kinds import BY_OUTCOME
from oracle.bounds.permission import permitted
from oracle.execution.execution import execute, has_figures
from oracle.isa.legality import Explanation
from oracle.isa.legality import Verdict as Legality
from oracle.program.image import different, locate
from oracle.program.program import Program
from runners.assemblers.judgements import Response
from runners.protocol import Images
from strategies.instructions import Draft, fits_declarations
from strategies.matrices import Result, results


class ExpectedImages(StrEnum):
    """What the ISA lets one expect of an assembler."""

    ACCEPT = "accept"
    REJECT = "reject"
    OPEN = "open"
    """Either: undefined behaviour, or registers whose declared types the oracle cannot judge."""


def expectation_of(draft: Draft, explanation: Explanation) -> ExpectedImages:
    """Return what an assembler has to do with a draft that the oracle explains so."""
    if explanation.verdict is Legality.ILLEGAL:
        return ExpectedImages.REJECT
    if explanation.verdict is Legality.UNDEFINED or explanation.form is None:
        return ExpectedImages.OPEN
    if fits_declarations(draft, explanation.form):
        return ExpectedImages.ACCEPT
    return ExpectedImages.OPEN


def kind_of(expectation: ExpectedImages, outcome: Response) -> Kind | None:
    """Return the kind of disagreement, None where assembler and ISA agree."""
    if outcome in BY_OUTCOME:
        return BY_OUTCOME[outcome]
    if outcome is Response.ACCEPTED and expectation is ExpectedImages.REJECT:
        return Kind.ACCEPTED
    if outcome is Response.REJECTED and expectation is ExpectedImages.ACCEPT:
        return Kind.REJECTED
    return None


def worst_of(kinds: Iterable[Kind | None]) -> Kind | None:
    """Return the worst of some verdicts; None if all match."""
    return max(filter(None, kinds), key=lambda kind: kind.severity, default=None)


def judge(
    program: Program,
    images: Images,
    actual: NDArray[Any],
    *,
    target: str,
    expected: Images | None = None,
) -> tuple[Kind | None, ...]:
    """Return what is wrong with each image: a violation, or a deviation; None where it matches.

    It matches if every byte is what the model of the target computes; or what the ISA permits, if
    the model has no figures of the compiler. An image that the ISA leaves undefined for what it
    holds is not judged. The permitted bounds, which cost more than the model,
    are computed for images that differ.

    Parameters
    ----------
    images : uint8 (count, image_bytes)
        Before the program.
    actual : uint8 (count, image_bytes)
        After it.
    target
        Whose model computes; "sm_90@12.4" for code of a compiler of CUDA 12.4.
    expected : uint8 (count, image_bytes)
        What it expects, from a caller who has asked it already.
    """
    if expected is None:
        expected = execute(program, images, target=target).images
    differ = different(expected, actual)
    verdicts: list[Kind | None] = [None] * len(images)
    if len(differ):
        permission = permitted(program, images[differ], target=target)
        allowed = permission.allows(actual[differ])
        within = Kind.DEVIATION if has_figures(program, target=target) else None
        for number, index in enumerate(differ.tolist()):
            if not permission.undefined[number]:
                verdicts[index] = within if allowed[number].all() else Kind.VIOLATION
    return tuple(verdicts)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One element, or one byte outside of every result, that is not what was expected."""

    where: str
    """Place, such as "d[3, 4]" (row, column), "r[lane 5, 1]", or "byte 7 of gd"."""
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


class Differences(Sequence[Difference]):
    """What differs in one image, each made when it is asked for: there may be thousands."""

    def __init__(
        self,
        parts: Sequence[tuple[int, Callable[[int], Difference]]] = (),
        *,
        outside: bool = False,
    ) -> None:
        self._parts = parts
        self.outside = outside
        """Whether bytes outside of every result differ."""

    def __len__(self) -> int:
        return sum(count for count, _ in self._parts)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        for count, made in self._parts:
            if index < count:
                return made(index)
            index -= count
        raise IndexError(index)


def differences(
    program: Program, expected: NDArray[np.uint8], actual: NDArray[np.uint8]
) -> Differences:
    """List the elements of results that differ, row by row, then the other bytes that do.

    Where two results overlap, an element belongs to the later one.

    Parameters
    ----------
    expected, actual : uint8 (image_bytes,)
        One image after the program.
    """
    parts: list[tuple[int, Callable[[int], Difference]]] = []
    left = expected != actual
    for result in reversed(results(program)):
        differing = left[result.bytes].any(axis=2)
        left[result.bytes] = False
        places = np.argwhere(differing)
        if len(places):
            both = result.read(expected), result.read(actual)
            parts.insert(0, (len(places), partial(_element, result, places, *both)))
    others = np.flatnonzero(left)

    def byte(at: int) -> Difference:
        number = int(others[at])
        place = locate(program, number)
        where = f"byte {number}" if place is None else f"byte {place.offset} of {place.buffer}"
        return Difference(
            where=where, byte=number, row=-1, column=-1, expected=int(expected[number]),
            actual=int(actual[number]), bits=8,
        )  # fmt: skip

    return Differences([*parts, (len(others), byte)], outside=bool(len(others)))


def _element(
    result: Result,
    places: NDArray[np.int64],
    expected: NDArray[Any],
    actual: NDArray[Any],
    at: int,
) -> Difference:
    row, column = places[at].tolist()
    return Difference(
        where=result.where(row, column), byte=int(result.offsets[row, column]), row=row,
        column=column, expected=int(expected[row, column]), actual=int(actual[row, column]),
        bits=result.bits,
    )  # fmt: skip
