"""How a page writes values: a pattern in the notation of its type, and how far two are apart."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fuzz.findings.verdicts import Difference
from oracle.arithmetic.dots import unpacked
from oracle.arithmetic.truncated import element_values
from oracle.isa.forms import FORMATS, Format

NOT_A_NUMBER = "N"
NAMED = 3
"""Elements, or groups of lanes, that are named one by one."""
_PARTS = re.compile(r"([a-z]+([0-9]+)(?:m[0-9])?)(?:x([24]))?")


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
    if found is None or (type_[0] == "b" and not type_.startswith("bf")):
        return ""
    name, size, count = found[1], int(found[2]), int(found[3] or 1)
    if count > 1:
        size = FORMATS[name].bits if name in FORMATS else size
        parts = ((bits >> size * at) & ((1 << size) - 1) for at in range(count))
        return f"{{{', '.join(notation(part, name) for part in parts)}}}"
    if name[0] in "us":
        return str(_signed(bits, size) if name[0] == "s" else bits)
    return decimal(bits, FORMATS[name]) if name in FORMATS else ""


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


def level(one: Difference, fmt: Format | None) -> str:
    """Return how far two values are apart as a digit, 9 for more; "N" where one is NaN.

    It is the number of differing bits, or of the decimal digits that the distance has.
    """
    distance = units(one, fmt)
    if distance is None:
        return NOT_A_NUMBER
    return str(min(9, distance if fmt is None or not distance else len(str(abs(distance)))))


def level_words(fmt: Format | None) -> str:
    """Say what `level` counts."""
    if fmt is None:
        return "bits that differ, at most 9"
    return (
        f"digits of the {'distance in units in the last place' if fmt.is_float else 'difference'}"
    )


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


def packed_type(fmt: Format) -> str:
    """Return the notation of a 32-bit register of elements of a format: "f16x2"."""
    count = 32 // fmt.bits if fmt.bits < 32 else 1
    if count == 1:
        return fmt.name
    return f"{fmt.name}x{count}" if fmt.bits >= 8 else "b32"


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


def contents_of(matrix: NDArray[np.generic], fmt: Format, operand: str) -> str:
    """Say which elements of a matrix are not zero."""
    unsigned = np.ascontiguousarray(matrix).view(f"u{matrix.itemsize}")
    bits, name = unsigned & unsigned.dtype.type((1 << fmt.bits) - 1), operand.upper()
    places = np.argwhere(bits)
    if not len(places):
        return f"{name} is all zero"
    if len(places) > NAMED:
        return f"{len(places)} of {bits.size} elements of {name} are not zero"
    named = [
        f"{name}[{row}, {column}] = {shown(int(bits[row, column]), fmt.bits, fmt.name)}"
        for row, column in places.tolist()
    ]
    return f"{', '.join(named)}, the others zero"


def words_of_registers(words: NDArray[np.uint32]) -> str:
    """Say what registers of all lanes hold, uint32 (32, words)."""
    count = int(np.count_nonzero(words))
    if not count:
        return "all zero"
    if count == words.size and len(np.unique(words)) == 1:
        return f"{shown(int(words.flat[0]), 32, '')} in every register"
    return f"{count} of {words.size} words {'is' if count == 1 else 'are'} not zero"
