"""Verdicts: how an image differs from the expected one, and what that is called.

A `Difference` is one element of a result that is not what was expected; `judge` tells what an image
says as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from corpus import Kind
from fuzz.kinds import BY_OUTCOME
from oracle.execution import execute, has_figures
from oracle.image import different, locate
from oracle.legality import Explanation
from oracle.legality import Verdict as Legality
from oracle.permission import permitted
from oracle.program import Program
from runners.assemblers.judgements import Outcome
from runners.protocol import Images
from strategies.drafts import Draft, fits_declarations
from strategies.matrices import Result, results


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


def kind_of(expectation: Expectation, outcome: Outcome) -> Kind | None:
    """Return the kind of disagreement, None where assembler and ISA agree."""
    if outcome in BY_OUTCOME:
        return BY_OUTCOME[outcome]
    if outcome is Outcome.ACCEPTED and expectation is Expectation.REJECT:
        return Kind.ACCEPTED
    if outcome is Outcome.REJECTED and expectation is Expectation.ACCEPT:
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
    """What differs in one image or several, in columns: there may be thousands of elements."""

    def __init__(self, parts: Sequence[_Part] = ()) -> None:
        self._parts = [part for part in parts if len(part.byte)]

    @property
    def outside(self) -> bool:
        """Whether bytes outside of every result differ."""
        return any((part.row < 0).any() for part in self._parts)

    def __len__(self) -> int:
        return sum(len(part.byte) for part in self._parts)

    @overload
    def __getitem__(self, index: int) -> Difference: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Difference]: ...

    def __getitem__(self, index: int | slice) -> Difference | Sequence[Difference]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        left = index + len(self) if index < 0 else index
        for part in self._parts:
            if 0 <= left < len(part.byte):
                return part.difference(left)
            left -= len(part.byte)
        raise IndexError(index)

    def __iter__(self) -> Iterator[Difference]:
        for part in self._parts:
            yield from map(part.difference, range(len(part.byte)))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Part:
    """Differences of one result, or outside of all, in columns of one length."""

    names: Callable[[_Part, int], str]
    row: NDArray[np.int64]
    column: NDArray[np.int64]
    byte: NDArray[np.int64]
    bits: NDArray[np.int64]
    expected: NDArray[np.uint64]
    actual: NDArray[np.uint64]

    def difference(self, at: int) -> Difference:
        return Difference(
            where=self.names(self, at), byte=int(self.byte[at]), row=int(self.row[at]),
            column=int(self.column[at]), expected=int(self.expected[at]),
            actual=int(self.actual[at]), bits=int(self.bits[at]),
        )  # fmt: skip


def _element(result: Result, part: _Part, at: int) -> str:
    return result.where(int(part.row[at]), int(part.column[at]))


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
    found: list[_Part] = []
    left = expected != actual
    for result in reversed(results(program)):
        want, got = result.read(expected), result.read(actual)
        differing = left[result.bytes].any(axis=2)
        left[result.bytes] = False
        rows, columns = np.nonzero(differing)
        found.append(
            _Part(
                names=partial(_element, result),
                row=rows,
                column=columns,
                byte=result.offsets[differing],
                bits=np.full(len(rows), result.bits),
                expected=want[differing],
                actual=got[differing],
            )
        )
    others = np.flatnonzero(left)

    def name(_: _Part, at: int) -> str:
        place = locate(program, int(others[at]))
        return f"byte {others[at]}" if place is None else f"byte {place.offset} of {place.buffer}"

    nowhere = np.full(len(others), -1)
    outside = _Part(
        names=name, row=nowhere, column=nowhere, byte=others, bits=np.full(len(others), 8),
        expected=expected[others].astype(np.uint64), actual=actual[others].astype(np.uint64),
    )  # fmt: skip
    return Differences([*reversed(found), outside])
