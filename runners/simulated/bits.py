"""Instructions on the bits of a word: counting, finding, fields, tables, permutations.

Source: PTX ISA 9.7.1 (popc, clz, bfind, fns, brev, bfe, bfi, bmsk, szext), 9.7.8 (lop3, shf),
9.7.9.7 (prmt).
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from runners.simulated.counted import population
from runners.simulated.integers import store
from runners.simulated.operands import Operands
from runners.simulated.syntax import TYPE_BITS, Immediate
from runners.simulated.warps import DTYPES, Operation, Values


def _leading(values: Values) -> Any:
    """Return the index of the highest set bit, -1 where there is none."""
    found = np.full(values.shape, -1, np.int64)
    rest = values.astype(np.uint64)
    for step in (32, 16, 8, 4, 2, 1):
        high = rest >> np.uint64(step) != 0
        found = np.where(high, found + step, found)
        rest = np.where(high, rest >> np.uint64(step), rest)
    return found + (rest != 0)


def _count(operands: Operands, match: re.Match[str]) -> Operation:
    """Count bits, or find the highest one."""
    name, kind = match["name"], match["type"]
    bits = TYPE_BITS[kind]
    _, given = operands.expect(2)
    source = operands.source(given, bits)

    def compute(value: Values) -> Any:
        if name == "popc":
            return population(value.astype(np.uint64)).astype(np.uint32)
        if name == "clz":
            return (bits - 1 - _leading(value)).astype(np.uint32)
        if kind[0] == "s":
            # The highest bit that is no sign bit.
            value = np.where(value >> value.dtype.type(bits - 1) != 0, ~value, value)
        found = _leading(value)
        if match["amount"]:
            found = np.where(found < 0, found, bits - 1 - found)
        return found.astype(np.int32)

    return store(operands, 32, compute, source)


def _reverse(operands: Operands, match: re.Match[str]) -> Operation:
    bits = TYPE_BITS[match["type"]]
    _, given = operands.expect(2)
    one = DTYPES[bits].type(1)

    def compute(value: Values) -> Any:
        result = value & DTYPES[bits].type(0)
        for bit in range(bits):
            result = (result << one) | (value >> DTYPES[bits].type(bit) & one)
        return result

    return store(operands, bits, compute, operands.source(given, bits))


def _ones(length: Values, bits: int) -> Any:
    """Return numbers of so many low ones; lengths up to the width."""
    dtype = DTYPES[bits].type
    every = dtype((1 << bits) - 1)
    return every >> np.minimum(bits - length, bits).astype(DTYPES[bits])


def _extract(operands: Operands, match: re.Match[str]) -> Operation:
    kind = match["type"]
    bits = TYPE_BITS[kind]
    dtype = DTYPES[bits]
    _, given, start, count = operands.expect(4)

    def compute(value: Values, position: Values, length: Values) -> Any:
        position, length = (each.astype(np.int64) & 0xFF for each in (position, length))
        field = value >> np.minimum(position, bits).astype(dtype)
        kept = _ones(np.minimum(length, bits), bits)
        result = field & kept
        if kind[0] == "s":
            sign_at = np.clip(position + length - 1, 0, bits - 1).astype(dtype)
            negative = (value >> sign_at & dtype.type(1)) != 0
            # Bits beyond the field, or beyond the number, are copies of the sign bit.
            available = np.clip(np.minimum(length, bits - position), 0, bits)
            beyond = ~_ones(available, bits)
            result = np.where(negative & (length > 0), (result & ~beyond) | beyond, result)
        return result

    sources = operands.source(given, bits), operands.source(start, 32), operands.source(count, 32)
    return store(operands, bits, compute, *sources)


def _insert(operands: Operands, match: re.Match[str]) -> Operation:
    bits = TYPE_BITS[match["type"]]
    dtype = DTYPES[bits]
    _, field, into, start, count = operands.expect(5)

    def compute(value: Values, whole: Values, position: Values, length: Values) -> Any:
        position, length = (each.astype(np.int64) & 0xFF for each in (position, length))
        place = np.minimum(position, bits).astype(dtype)
        mask = _ones(np.minimum(length, bits), bits) << place
        return (whole & ~mask) | (value << place & mask)

    return store(
        operands,
        bits,
        compute,
        operands.source(field, bits),
        operands.source(into, bits),
        operands.source(start, 32),
        operands.source(count, 32),
    )


def _logic(operands: Operands, _: re.Match[str]) -> Operation:
    """Look up every bit of three words in a table of eight (lop3)."""
    given = operands.expect(5)
    table = given[4]
    if not isinstance(table, Immediate) or not 0 <= table.value <= 255:
        operands.unsupported("the table is a constant from 0 to 255")
    rows = [row for row in range(8) if table.value >> row & 1]

    def compute(a: Values, b: Values, c: Values) -> Any:
        result = (a & b & c) & np.uint32(0)
        for row in rows:
            parts = [
                each if row >> place & 1 else ~each for each, place in ((a, 2), (b, 1), (c, 0))
            ]
            result = result | (parts[0] & parts[1] & parts[2])
        return result

    return store(operands, 32, compute, *(operands.source(each, 32) for each in given[1:4]))


def _funnel(operands: Operands, match: re.Match[str]) -> Operation:
    """Shift two words as one of 64 bits, and take one of its halves."""
    _, low, high, by = operands.expect(4)
    left = match["direction"] == "l"

    def compute(a: Values, b: Values, amount: Values) -> Any:
        whole = (b.astype(np.uint64) << np.uint64(32)) | a
        amount = amount & np.uint32(31) if match["mode"] == "wrap" else np.minimum(amount, 32)
        if left:
            return (whole << amount.astype(np.uint64) >> np.uint64(32)).astype(np.uint32)
        return (whole >> amount.astype(np.uint64)).astype(np.uint32)

    return store(operands, 32, compute, *(operands.source(each, 32) for each in (low, high, by)))


# The four bytes that each mode selects from the eight of b:a, by the selector's low two bits.
_PERMUTED = {
    "f4e": ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    "b4e": ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    "rc8": ((0,) * 4, (1,) * 4, (2,) * 4, (3,) * 4),
    "ecl": ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    "rc16": ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}


def _permute(operands: Operands, match: re.Match[str]) -> Operation:
    _, low, high, how = operands.expect(4)
    table = None if match["mode"] is None else np.array(_PERMUTED[match["mode"]], np.uint64)

    def compute(a: Values, b: Values, selector: Values) -> Any:
        whole = (b.astype(np.uint64) << np.uint64(32)) | a
        result = np.zeros((1, 1), np.uint32)
        for place in range(4):
            if table is None:
                chosen = (selector >> np.uint32(4 * place)).astype(np.uint64) & np.uint64(15)
            else:
                chosen = table[(selector & np.uint32(3)).astype(np.int64), place]
            byte = whole >> ((chosen & np.uint64(7)) << np.uint64(3)) & np.uint64(0xFF)
            sign = np.where(byte >> np.uint64(7) != 0, np.uint64(0xFF), np.uint64(0))
            byte = np.where(chosen & np.uint64(8) != 0, sign, byte)
            result = result | (byte.astype(np.uint32) << np.uint32(8 * place))
        return result

    return store(operands, 32, compute, *(operands.source(each, 32) for each in (low, high, how)))


def _extend(operands: Operands, match: re.Match[str]) -> Operation:
    """Extend a number from its low bits, as many as operand 2 says (szext)."""
    kind = match["type"]
    _, given, count = operands.expect(3)

    def compute(value: Values, length: Values) -> Any:
        wraps = match["mode"] == "wrap"
        length = (length & np.uint32(31) if wraps else np.minimum(length, 32)).astype(np.int64)
        kept = _ones(length, 32)
        result = value & kept
        if kind[0] == "s":
            sign = value >> np.maximum(length - 1, 0).astype(np.uint32) & np.uint32(1)
            result = np.where((sign != 0) & (length > 0), result | ~kept, result)
        return result

    return store(operands, 32, compute, operands.source(given, 32), operands.source(count, 32))


def _bit_mask(operands: Operands, match: re.Match[str]) -> Operation:
    """Return so many ones from a bit on (bmsk)."""
    _, start, count = operands.expect(3)
    wraps = match["mode"] == "wrap"

    def compute(position: Values, length: Values) -> Any:
        if wraps:
            position, length = position & np.uint32(31), length & np.uint32(31)
        position, length = np.minimum(position, 32), np.minimum(length, 32)
        return _ones(length.astype(np.int64), 32) << position.astype(np.uint32)

    return store(operands, 32, compute, operands.source(start, 32), operands.source(count, 32))


FORMS: tuple[tuple[re.Pattern[str], Callable[[Operands, re.Match[str]], Operation]], ...] = tuple(
    (re.compile(pattern), decoder)
    for pattern, decoder in (
        (r"(?P<name>popc|clz)\.(?P<type>b(?:32|64))", _count),
        (r"(?P<name>bfind)(?P<amount>\.shiftamt)?\.(?P<type>[us](?:32|64))", _count),
        (r"brev\.(?P<type>b(?:32|64))", _reverse),
        (r"bfe\.(?P<type>[us](?:32|64))", _extract),
        (r"bfi\.(?P<type>b(?:32|64))", _insert),
        (r"lop3\.b32", _logic),
        (r"shf\.(?P<direction>[lr])\.(?P<mode>clamp|wrap)\.b32", _funnel),
        (r"prmt\.b32(?:\.(?P<mode>f4e|b4e|rc8|ecl|ecr|rc16))?", _permute),
        (r"szext\.(?P<mode>clamp|wrap)\.(?P<type>[us]32)", _extend),
        (r"bmsk\.(?P<mode>clamp|wrap)\.b32", _bit_mask),
    )
)
"""Every form that is known, as the pattern of its opcode and what decodes it."""
