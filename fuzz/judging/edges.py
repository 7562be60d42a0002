"""Where the results of a kernel may turn: its own constants, and what becomes one of them.

Random inputs rarely are a number that a branch asks for, or have a field of bits that is compared.
So inputs are also what the kernel compares with, and what its shifts, sums, products and masks make
such a number of.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fuzz.findings.launches import TYPES, BufferRow, Setup, own_text
from runners.simulated import SimulatedTrap
from runners.simulated.parser import parse
from runners.simulated.syntax import ImmediateText, InstructionText

_ELSEWHERE = re.compile(r"(?:ld|ldu|st|bra|call|bar|barrier)\b")
"""Instructions whose constants no result turns on: addresses, and numbers of threads."""
_CONVERTS = re.compile(r"\bcvt\S*(?:\.[su]\d+\.b?f\d|\.b?f\d+\.[su]\d)")
_COMPARED = frozenset({"setp", "set", "mov", "min", "max", "slct"})
"""First words of instructions that compare, or give a register what is compared."""
_NEAR = 8
"""Constants before and after one that may have been added to it, or shifted it."""
_FIELDS = (8, 16, 24)
"""Places of bytes and halves in a word, which are taken out of it without a constant."""
_MOST = 1 << 14
_PACKED = {16: "<e", 32: "<f", 64: "<d"}


class Edges(NamedTuple):
    """Words of a type at which results may turn; none of the three is empty."""

    exact: NDArray[np.uint64]
    """What the kernel compares with, or, if it compares with none, all of its constants."""
    near: NDArray[np.uint64]
    """One more and one less than any constant."""
    derived: NDArray[np.uint64]
    """What an instruction of the kernel makes such a constant of, and one more and less."""


def edges_of(ptx: str, setup: Setup) -> Mapping[str, Edges]:
    """Return the edges of an entry by the types of its buffers.

    There are none of a module that the simulated device does not read.
    """
    text = own_text(ptx, setup.entry)
    try:
        listing = parse(text)
    except SimulatedTrap:
        return {}
    bodies = [each.body or () for each in (*listing.entries.values(), *listing.functions.values())]
    named = [pair for body in bodies for one in body for pair in _named(one)]
    given = [one for one in setup.arguments.values() if not isinstance(one, BufferRow)]
    compared = any(word in _COMPARED for word, _ in named)
    exact = [number for word, number in named if word in _COMPARED or not compared] + given
    every = [number for _, number in named] + given
    derived = islice(_derived(named, compared), _MOST)
    numbers = [list(dict.fromkeys(some)) for some in (exact, every, derived)]
    converts = bool(_CONVERTS.search(text))
    made = {}
    for kind in {row.type for row in setup.buffers.values()}:
        exactly, all_, further = (_words(some, kind, converts) for some in numbers)
        if exactly.size:
            near, beside = _beside(all_, kind), _beside(further, kind)
            made[kind] = Edges(exactly, near, np.append(further, beside) if further.size else near)
    return made


def _named(one: InstructionText) -> Iterator[tuple[str, int | float]]:
    """Iterate over the constants of an instruction, each with its first word."""
    if _ELSEWHERE.match(one.opcode):
        return
    for given in one.operands:
        if isinstance(given, ImmediateText):
            bits = given.float_bits
            raw = given.value.to_bytes(bits // 8, "little") if bits else b""
            yield (
                one.opcode.partition(".")[0],
                struct.unpack(_PACKED[bits], raw)[0] if bits else given.value,
            )


def _derived(named: list[tuple[str, int | float]], compared: bool) -> Iterator[int | float]:
    """Iterate over what becomes a constant by an instruction with another one beside it.

    `compared`: only of constants that are compared.
    """
    for at, (compares, number) in enumerate(named):
        if compared and compares not in _COMPARED:
            continue
        yield -number
        if isinstance(number, int):
            yield ~number
            yield from (number << place for place in _FIELDS)
        for word, other in named[max(0, at - _NEAR) : at + _NEAR + 1]:
            if isinstance(number, int) is not isinstance(other, int):
                continue
            if word in ("add", "sub", "mad", "fma"):
                yield from (number - other, number + other)
            if word in ("mul", "mad", "fma", "div") and other:
                by = number // other if isinstance(number, int) else number / other
                yield from (by, number * other)
            if isinstance(number, int) and isinstance(other, int):
                if word in ("shl", "shr", "bfe", "bfi", "shf") and 0 < other < 64:
                    yield from (number << other, number >> other)
                if word in ("xor", "and", "or", "lop3"):
                    yield number ^ other


def _words(numbers: list[int | float], type_: str, converts: bool) -> NDArray[np.uint64]:
    """Return numbers as words of a type; `converts`: integers as floating-point ones, and back."""
    bits = TYPES[type_]
    found = dict[int, None]()
    for number in numbers:
        if isinstance(number, int):
            found[number & (1 << bits) - 1] = None
        elif converts and abs(number) < 2.0**63:
            found[int(number) & (1 << bits) - 1] = None
        if bits > 8 and (converts or isinstance(number, float)):
            try:
                packed = struct.pack(_PACKED[32 if type_ == "bf16" else bits], float(number))
            except OverflowError:
                continue
            found[int.from_bytes(packed, "little") >> (16 if type_ == "bf16" else 0)] = None
    return np.array([one & (1 << bits) - 1 for one in found], np.uint64)


def _beside(words: NDArray[np.uint64], type_: str) -> NDArray[np.uint64]:
    mask = np.uint64((1 << TYPES[type_]) - 1)
    return np.unique(np.append(words - np.uint64(1), words + np.uint64(1)) & mask)
