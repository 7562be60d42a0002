"""Operations of the reference's interpreter on lanes, and the registers that they work on.

The interpreter knows few operations, each on numbers of 64 bits of which a source is a part, signed
or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, TypeAlias

from oracle.errors import UsageError
from oracle.isa.forms import LANES, Format
from oracle.program.lane_code import class_of

Do = IntEnum(
    "Do",
    [
        "STOP", "GO", "UNLESS", "WHEN", "COPY", "LANE_NUMBER", "SUM", "DIFFERENCE", "PRODUCT",
        "UPPER_PRODUCT", "QUOTIENT", "REMAINDER", "LEAST", "GREATEST", "CLAMPED", "BOTH",
        "EITHER", "ONE_OF", "LEFT", "RIGHT", "JOINED", "COMPARED", "CHOSEN", "CARRIED",
        "BORROWED", "POPULATION", "HIGHEST_BIT", "REVERSED", "NTH_BIT", "TABLE", "PERMUTED",
        "FIELD", "FUSED", "FLUSHED", "CONVERTED", "SATURATED", "RECTIFIED", "EXTREME",
        "COMPARED_FLOATS", "TO_INTEGER", "FROM_INTEGER", "FROM_E4M3", "INTEGRAL",
    ],
    start=0,
)  # fmt: skip
"""Operations, numbered as in the interpreter."""
RELATIONS = {
    "eq": 2, "ne": 5, "lt": 1, "le": 3, "gt": 4, "ge": 6, "lo": 1, "ls": 3, "hi": 4, "hs": 6,
}  # fmt: skip
"""Outcomes of a comparison that make it true: 1 less, 2 equal, 4 greater."""
BITS = {"pred": 1, "b16": 16, "b32": 32, "b64": 64}
_CLASSES = {"pred": 0, "b16": 1, "b32": 2, "b64": 3}
_CONSTANT = 8


class NotEncodedError(UsageError):
    """The interpreter cannot do what a program does; the message says what that is."""


@dataclass(frozen=True)
class Part:
    """Some bits of a register or of a constant, as a number of 64 bits."""

    at: int
    """Address and class of a register; a constant itself."""
    bits: int
    signed: bool = False
    shift: int = 0
    constant: bool = False

    def of(self, bits: int, signed: bool = False, shift: int = 0) -> Part:
        """Return other bits of the same."""
        return replace(self, bits=bits, signed=signed, shift=shift)


Value: TypeAlias = Part | int
Made: TypeAlias = tuple[Any, ...]
"""An operation, its parameter, and its sources."""


def format_word(fmt: Format) -> int:
    """Return a float format as the interpreter has it."""
    return fmt.bits << 16 | fmt.exponent_bits << 8 | fmt.fraction_bits


class PartWriter:
    """Writes operations.

    Parameters
    ----------
    words
        Those of the program, which are added to.
    take
        Returns working memory of so many bytes.
    alone, together
        Numbers of the interpreter's instructions for what each lane does, and what all do.
    """

    def __init__(
        self, words: list[int], take: Callable[[int], int], alone: int, together: int
    ) -> None:
        self._words, self._take = words, take
        self._alone, self._together = alone, together
        self._registers: dict[str, Part] = {}
        self._spare: list[Part] = []
        self._spared = 0
        self._start = 0

    def register(self, name: str) -> Part:
        """Return a register of the code."""
        if name not in self._registers:
            kind = "pred" if name == "carry" else class_of(name)
            self._registers[name] = self._new(kind)
        return self._registers[name]

    def _new(self, kind: str) -> Part:
        size = 8 if kind == "b64" else 4
        return Part(self._take(LANES * size) | _CLASSES[kind], BITS[kind])

    def _open(self) -> None:
        self._start = len(self._words)
        self._words += [self._alone, 0]

    def _close(self) -> None:
        self._words.append(Do.STOP | 3 << 16)
        self._words += [0, 0]
        self._words[self._start + 1] = len(self._words) - self._start

    def _do(self, to: Part | None, what: int, p: int = 0, *sources: Value) -> int:
        """Write an operation; return the place of its parameter."""
        start, constants = len(self._words), list[int]()
        count = 3 + 2 * len(sources)
        self._words += [0, p, 0 if to is None else to.at]
        for one in sources:
            if isinstance(one, int):
                one = Part(one, 64, constant=True)
            at = one.at
            if one.constant:
                at = start + count + len(constants) << 4 | _CONSTANT
                constants += [one.at & 0xFFFF_FFFF, one.at >> 32 & 0xFFFF_FFFF]
            self._words += [at, one.shift | one.bits << 8 | one.signed << 16]
        self._words += constants
        self._words[start] = what | len(sources) << 8 | len(self._words) - start << 16
        return start + 1

    def made(self, *made: Any, kind: str = "b64") -> Part:
        """Compute something; it stays until the statement ends, and has as many bits as a class."""
        if self._spared == len(self._spare):
            self._spare.append(self._new("b64"))
        part = replace(self._spare[self._spared], bits=BITS[kind])
        self._spared += 1
        self._do(part, *made)
        return part

    def of_all(self, what: int, *sources: Value) -> Part:
        """Compute something that lanes do together, of registers and a number."""
        parts = []
        for one in sources:
            if isinstance(one, Part):
                one = (self.made(Do.COPY, 0, one) if one.constant else one).at
            parts.append(one)
        to = self.made(Do.COPY, 0, 0)
        self._close()
        self._words += [self._together, 7, what, to.at, *parts, *[0] * (3 - len(parts))]
        self._open()
        return to

    def flushed(self, fmt: Format, ftz: bool, *values: Part) -> list[Part]:
        """Return numbers, subnormals as zeros where that is asked for."""
        if not ftz:
            return list(values)
        return [self.made(Do.FLUSHED, format_word(fmt), one) for one in values]

    def finished(self, fmt: Format, words: Sequence[str], made: Made) -> Made:
        """Return a result as `.ftz`, `.sat` and `.relu` have it."""
        for word, what in (("ftz", Do.FLUSHED), ("sat", Do.SATURATED), ("relu", Do.RECTIFIED)):
            if word in words:
                made = what, format_word(fmt), self.made(*made)
        return made

    def joined(self, size: int, made: Sequence[Made]) -> Made:
        """Return elements of a register, the first lowest."""
        parts = [self.made(*one).of(size) for one in made]
        result: Value = parts[0]
        for index, one in enumerate(parts[1:-1], 1):
            result = self.made(Do.JOINED, size * index, result, one)
        return Do.JOINED, size * (len(parts) - 1), result, parts[-1]
