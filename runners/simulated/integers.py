"""Integer arithmetic, logic and shifts.

Source: PTX ISA 9.7.1 (integer arithmetic), 9.7.2 (extended precision), 9.7.8 (logic and shift).
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from runners.simulated.operands import Held, Operands, Source
from runners.simulated.syntax import TYPE_BITS
from runners.simulated.warps import DTYPES, Key, Mask, Operation, Values, Warps, constant

Compute = Callable[..., Any]

_CARRY = "CC.CF"
"""Key of the carry flag among the registers (PTX ISA 9.7.2)."""


def numeric(kind: str) -> np.dtype[Any]:
    """Return the dtype in which an operation of this type calculates."""
    letter = "i" if kind[0] == "s" else "u"
    return np.dtype(f"{letter}{TYPE_BITS[kind] // 8}")


def of_type(compute: Compute, kind: str) -> Compute:
    """Return what computes on raw bits what `compute` does on the numbers of a type."""
    if kind[0] != "s":
        return compute
    dtype = numeric(kind)
    return lambda *values: compute(*[value.view(dtype) for value in values])


def store(operands: Operands, bits: int, compute: Compute, *sources: Source) -> Operation:
    """Return the operation that writes `compute` of the sources, raw, to operand 0."""
    return written(
        operands.destination(operands.instruction.operands[0], bits), bits, compute, sources
    )


def written(target: str, bits: int, compute: Compute, sources: Sequence[Source]) -> Operation:
    """Return the operation that writes `compute` of the sources, raw, to a register."""
    dtype = DTYPES[bits]
    keys = [source.key for source in sources if isinstance(source, Held)]
    held = len(keys) == len(sources)
    if held and isinstance(compute, np.ufunc) and len(keys) == 2:
        compute, keys = _beside_constant(compute, *keys)

    def run(warps: Warps, mask: Mask) -> None:
        # Most operands are held, most threads take part, and most results are raw already.
        if held:
            result = compute(*map(warps.registers.__getitem__, keys))
        else:
            result = compute(*[source(warps) for source in sources])
        if result.dtype is not dtype:
            result = result.view(dtype)
        if mask is None:
            warps.registers[target] = result
        else:
            warps.write(target, result, mask)

    return run


def scalar(key: Key) -> Any:
    """Return a constant as an array of no axes: beside others, NumPy is faster with it."""
    assert isinstance(key, tuple)
    return constant(*key).reshape(())


def _beside_constant(compute: Compute, left: Key, right: Key) -> tuple[Compute, list[Key]]:
    """Return what computes with one of two operands, if the other is a constant, and its keys."""
    if isinstance(right, tuple) and isinstance(left, str):
        second = scalar(right)
        return lambda value: compute(value, second), [left]
    if isinstance(left, tuple) and isinstance(right, str):
        first = scalar(left)
        return lambda value: compute(first, value), [right]
    return compute, [left, right]


def _plain(compute: Compute, count: int) -> Callable[[Operands, re.Match[str]], Operation]:
    """Return the decoder of an instruction of `count` sources, all of its type."""

    def decode(operands: Operands, match: re.Match[str]) -> Operation:
        kind = match["type"]
        bits = TYPE_BITS[kind]
        given = operands.expect(count + 1)
        sources = [operands.source(each, bits) for each in given[1:]]
        seen = compute if compute in _WHATEVER_SIGN else of_type(compute, kind)
        return store(operands, bits, seen, *sources)

    return decode


def magnitude(values: Values) -> Any:
    """Return absolute values, unsigned, so that the lowest number has one, too."""
    if values.dtype.kind == "u":
        return values
    unsigned = values.view(f"u{values.itemsize}")
    return np.where(values < 0, ~unsigned + unsigned.dtype.type(1), unsigned)


def _divide(a: Values, b: Values) -> Any:
    """Divide toward zero. By zero: all ones, as the device's own code for it gives."""
    left, right = magnitude(a), magnitude(b)
    one = left.dtype.type(1)
    quotient = left // np.where(right == 0, one, right)
    if a.dtype.kind == "i":
        quotient = np.where((a < 0) != (b < 0), ~quotient + one, quotient)
    return np.where(right == 0, ~(quotient & left.dtype.type(0)), quotient).astype(left.dtype)


def _remainder(a: Values, b: Values) -> Any:
    """Return what division toward zero leaves, with the dividend's sign; of zero: the dividend."""
    left, right = magnitude(a), magnitude(b)
    one = left.dtype.type(1)
    rest = np.where(right == 0, left, left % np.where(right == 0, one, right))
    if a.dtype.kind == "i":
        rest = np.where(a < 0, ~rest + one, rest)
    return rest.astype(left.dtype)


def high_product(a: Values, b: Values) -> Any:
    """Return the upper half of a product of twice the width."""
    bits = 8 * a.itemsize
    if bits < 64:
        wide = np.dtype(f"{a.dtype.kind}{a.itemsize * 2}")
        return ((a.astype(wide) * b.astype(wide)) >> wide.type(bits)).astype(a.dtype)
    x, y = a.view(np.uint64), b.view(np.uint64)
    low, half = np.uint64(0xFFFF_FFFF), np.uint64(32)
    x_low, x_high, y_low, y_high = x & low, x >> half, y & low, y >> half
    first = x_low * y_high + (x_low * y_low >> half)
    second = x_high * y_low + (first & low)
    result = x_high * y_high + (first >> half) + (second >> half)
    if a.dtype.kind == "i":
        # Each negative factor counts 2^64 too much of the other.
        zero = np.uint64(0)
        result = result - np.where(a < 0, y, zero) - np.where(b < 0, x, zero)
    return result


def _saturated(wide: Values) -> Any:
    return np.clip(wide, -(1 << 31), (1 << 31) - 1).astype(np.int32)


_BINARY: dict[str, Compute] = {
    "add": np.add,
    "sub": np.subtract,
    "mul.lo": np.multiply,
    "mul.hi": high_product,
    "div": _divide,
    "rem": _remainder,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_WHATEVER_SIGN = (np.add, np.subtract, np.multiply, np.bitwise_and, np.bitwise_or, np.bitwise_xor)
"""What gives the same bits for signed numbers as for unsigned ones."""
_UNARY: dict[str, Compute] = {
    "not": np.invert,
    "neg": np.negative,
    "abs": np.abs,
    "cnot": lambda a: (a == 0).astype(a.dtype),
}
_TERNARY: dict[str, Compute] = {
    "mad.lo": lambda a, b, c: a * b + c,
    "mad.hi": lambda a, b, c: high_product(a, b).view(c.dtype) + c,
    "sad": lambda a, b, c: np.where(a > b, a - b, b - a) + c,
}


def _named(operands: Operands, match: re.Match[str]) -> Operation:
    name = match["name"]
    for count, table in enumerate((_UNARY, _BINARY, _TERNARY), 1):
        if name in table:
            return _plain(table[name], count)(operands, match)
    raise AssertionError(name)


_SATURATING: dict[str, Compute] = {
    "add": lambda a, b: _saturated(a.astype(np.int64) + b),
    "sub": lambda a, b: _saturated(a.astype(np.int64) - b),
    "mad.hi": lambda a, b, c: _saturated(high_product(a, b).astype(np.int64) + c),
}


def _saturating(operands: Operands, match: re.Match[str]) -> Operation:
    name = match["name"]
    return _plain(_SATURATING[name], 3 if name == "mad.hi" else 2)(operands, match)


def _with_relu(operands: Operands, match: re.Match[str]) -> Operation:
    """Take the least or the most, and zero where that is negative."""
    plain = _BINARY[match["name"]]
    return _plain(lambda a, b: np.maximum(plain(a, b), a.dtype.type(0)), 2)(operands, match)


def _shift(operands: Operands, match: re.Match[str]) -> Operation:
    """Shift; the amount has 32 bits whatever is shifted, and clamps at the width."""
    name, kind = match["name"], match["type"]
    bits, dtype = TYPE_BITS[kind], numeric(kind)
    _, left, right = operands.expect(3)
    amount = operands.source(right, 32)
    largest = np.uint32(bits)
    shift = np.left_shift if name == "shl" else np.right_shift

    # NumPy defines a shift by the width as one that leaves nothing, or the sign.
    if isinstance(amount, Held) and isinstance(amount.key, tuple):
        fixed = np.minimum(scalar(amount.key), largest).astype(dtype)
        source = operands.source(left, bits)
        return store(operands, bits, lambda value: shift(value.view(dtype), fixed), source)

    def compute(value: Values, by: Values) -> Any:
        return shift(value.view(dtype), np.minimum(by, largest).astype(dtype))

    return store(operands, bits, compute, operands.source(left, bits), amount)


def _wide(operands: Operands, match: re.Match[str]) -> Operation:
    """Multiply to twice the width, with an addend of that width for mad."""
    kind = match["type"]
    bits = TYPE_BITS[kind]
    given = operands.expect(4 if match["name"] == "mad" else 3)
    narrow, wide = numeric(kind), numeric(f"{kind[0]}{2 * bits}")
    factors = [operands.source(each, bits) for each in given[1:3]]
    addends = [operands.source(each, 2 * bits) for each in given[3:]]

    def compute(a: Values, b: Values, *c: Values) -> Any:
        product = a.view(narrow).astype(wide) * b.view(narrow).astype(wide)
        return product + c[0].view(wide) if c else product

    return store(operands, 2 * bits, compute, *factors, *addends)


def _by_24_bits(operands: Operands, match: re.Match[str]) -> Operation:
    kind = match["type"]
    dtype = numeric(kind)
    given = operands.expect(4 if match["name"] == "mad24" else 3)
    sources = [operands.source(each, 32) for each in given[1:]]
    wide = np.dtype(np.int64 if kind[0] == "s" else np.uint64)
    shift = 16 if match["part"] == "hi" else 0

    def compute(a: Values, b: Values, *c: Values) -> Any:
        # The low 24 bits of each, extended.
        x, y = ((each << dtype.type(8) >> dtype.type(8)).astype(wide) for each in (a, b))
        product = (x * y >> wide.type(shift)).astype(dtype)
        return product + c[0] if c else product

    return store(operands, 32, of_type(compute, kind), *sources)


def _with_carry(operands: Operands, match: re.Match[str]) -> Operation:
    """Add, subtract, or multiply and add, with carry in or out."""
    name, kind = match["name"], match["type"]
    bits, dtype = TYPE_BITS[kind], DTYPES[TYPE_BITS[kind]]
    stem, takes, gives = name[:3], name.endswith("c"), match["cc"] is not None
    given = operands.expect(4 if stem == "mad" else 3)
    target = operands.destination(given[0], bits)
    sources = [operands.source(each, bits) for each in given[1:]]
    seen = numeric(kind)

    def run(warps: Warps, mask: Mask) -> None:
        values = [source(warps) for source in sources]
        if stem == "mad":
            a, b = (each.view(seen) for each in values[:2])
            product = a * b if match["part"] == "lo" else high_product(a, b)
            values = [product.view(dtype), values[2]]
        carry = warps.registers[_CARRY].astype(dtype) if takes else dtype.type(0)
        left, right = values
        if stem == "sub":
            part = left - right
            total = part - carry
            out = (left < right) | (part < carry)
        else:
            part = left + right
            total = part + carry
            out = (part < left) | (total < part)
        warps.write(target, total, mask)
        if gives:
            warps.write(_CARRY, out, mask)

    return run


def _dot(operands: Operands, match: re.Match[str]) -> Operation:
    """Add a dot product of bytes, or of halves and bytes (dp4a, dp2a)."""
    given = operands.expect(4)
    count = 4 if match["name"] == "dp4a" else 2
    width = 8 if count == 4 else 16
    first, second = match["a"], match["b"]
    skipped = 2 if match["part"] == "hi" else 0

    def part(words: Values, place: int, bits: int, letter: str) -> Values:
        up = np.uint32(32 - bits * (place + 1))
        seen = (words << up).view(np.int32 if letter == "s" else np.uint32)
        return (seen >> seen.dtype.type(32 - bits)).astype(np.int64)

    def compute(a: Values, b: Values, c: Values) -> Any:
        total = c.astype(np.int64)
        for place in range(count):
            total = total + part(a, place, width, first) * part(b, place + skipped, 8, second)
        return (total & 0xFFFF_FFFF).astype(np.uint32)

    return store(operands, 32, compute, *(operands.source(each, 32) for each in given[1:]))


def _halves(operands: Operands, match: re.Match[str]) -> Operation:
    """Apply an operation to each 16-bit half of a word."""
    compute = _BINARY[match["name"]]
    dtype = np.dtype(np.int16 if match["type"][0] == "s" else np.uint16)
    _, left, right = operands.expect(3)

    def both(a: Values, b: Values) -> Any:
        result = np.zeros((1, 1), np.uint32)
        for shift in (np.uint32(0), np.uint32(16)):
            x, y = ((each >> shift).astype(np.uint16).view(dtype) for each in (a, b))
            part = compute(x, y)
            if match["relu"]:
                part = np.maximum(part, dtype.type(0))
            result = result | (part.view(np.uint16).astype(np.uint32) << shift)
        return result

    return store(operands, 32, both, operands.source(left, 32), operands.source(right, 32))


def _not_predicate(operands: Operands, match: re.Match[str]) -> Operation:
    _, given = operands.expect(2)
    return store(operands, 1, np.logical_not, operands.source(given, 1))


_US = r"(?P<type>[us](?:16|32|64))"
_B = r"(?P<type>pred|b(?:16|32|64))"

FORMS: tuple[tuple[re.Pattern[str], Callable[[Operands, re.Match[str]], Operation]], ...] = tuple(
    (re.compile(pattern), decoder)
    for pattern, decoder in (
        (rf"(?P<name>add|sub|min|max|mul\.(?:lo|hi)|div|rem|mad\.(?:lo|hi)|sad)\.{_US}", _named),
        (rf"(?P<name>and|or|xor)\.{_B}", _named),
        (r"not\.(?P<type>pred)", _not_predicate),
        (r"(?P<name>not|cnot)\.(?P<type>b(?:16|32|64))", _named),
        (r"(?P<name>neg|abs)\.(?P<type>s(?:16|32|64))", _named),
        (r"(?P<name>add|sub|mad\.hi)\.sat\.(?P<type>s32)", _saturating),
        (r"(?P<name>min|max)\.relu\.(?P<type>s32)", _with_relu),
        (r"(?P<name>shl)\.(?P<type>b(?:16|32|64))", _shift),
        (r"(?P<name>shr)\.(?P<type>[bus](?:16|32|64))", _shift),
        (r"(?P<name>mul|mad)\.wide\.(?P<type>[us](?:16|32))", _wide),
        (r"(?P<name>mul24|mad24)\.(?P<part>lo|hi)\.(?P<type>[us]32)", _by_24_bits),
        (r"(?P<name>addc?|subc?)(?P<cc>\.cc)?\.(?P<type>[us](?:32|64))", _with_carry),
        (r"(?P<name>madc?)\.(?P<part>lo|hi)(?P<cc>\.cc)?\.(?P<type>[us](?:32|64))", _with_carry),
        (r"(?P<name>dp4a)\.(?P<a>[us])32\.(?P<b>[us])32(?P<part>)", _dot),
        (r"(?P<name>dp2a)\.(?P<part>lo|hi)\.(?P<a>[us])32\.(?P<b>[us])32", _dot),
        (r"(?P<name>add|min|max)(?P<relu>\.relu)?\.(?P<type>[us]16x2)", _halves),
    )
)
"""Every form that is known, as the pattern of its opcode and what decodes it."""
