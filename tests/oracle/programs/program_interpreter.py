"""One element, one register, one run of bits at a time, in plain Python.

It shares no storage, layout or element-wise code with the oracle.
"""

from __future__ import annotations

from fractions import Fraction

from oracle.formats import Format
from oracle.operations import Operation
from oracle.ops import Op


class Memory:
    """Bytes with access to any run of bits."""

    def __init__(self, data: bytes) -> None:
        self.value = int.from_bytes(data, "little")
        self.size = len(data)

    def get(self, bit: int, bits: int) -> int:
        return (self.value >> bit) & ((1 << bits) - 1)

    def put(self, bit: int, bits: int, pattern: int) -> None:
        self.value ^= (self.get(bit, bits) ^ pattern) << bit

    def data(self) -> bytes:
        return self.value.to_bytes(self.size, "little")


def register(step: Op, rows: list[int], lane: int, index: int) -> int:
    """Return one register of ldmatrix in one lane, from the integers at the row addresses."""
    form = step.form
    per_matrix = 2 if form.shape.m == 16 else 1
    matrix, half = divmod(index, per_matrix)
    first = matrix * form.shape.m
    count = 2 if form.element_bits == 16 else 4
    width = 32 // count
    word = 0
    for n in range(count):
        i, j = lane // 4 + 8 * half, count * (lane % 4) + n
        if form.transposed:
            i, j = j, i
        bits = (rows[first + i] >> (form.element_bits * j)) & ((1 << form.element_bits) - 1)
        if form.opcode.endswith(".s8.s4"):
            bits = (bits - 16 if bits > 7 else bits) & 0xFF
        word |= bits << (width * n)
    return word


def element(operation: Operation, type_: Format, x: int, constant: int) -> int:
    """Return the pattern of one element after an operation."""
    top = 1 << type_.bits
    match operation:
        case Operation.COPY:
            return x
        case Operation.AND:
            return x & constant
        case Operation.OR:
            return x | constant
        case Operation.XOR:
            return x ^ constant
        case Operation.NOT:
            return top - 1 - x
        case Operation.ABSOLUTE:
            return x % (top // 2)
        case Operation.NEGATE:
            return (x + top // 2) % top if type_.is_float else -x % top
    if not type_.is_float:
        return (x * constant if operation is Operation.MULTIPLY else x + constant) % top
    return _float(operation, type_, x, constant)


def _float(operation: Operation, type_: Format, x: int, y: int) -> int:
    """Multiply or add two floats, rounded to nearest even."""
    p, top = type_.fraction_bits, (1 << type_.exponent_bits) - 1
    sign_bit = 1 << (type_.bits - 1)
    infinity = top << p
    nan = {"f16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0xFFF8 << 48}[type_.name]
    for pattern in (x, y):
        if pattern & (sign_bit - 1) > infinity:
            return pattern | 1 << (p - 1) if type_.name == "f64" else nan
    infinite = [pattern & (sign_bit - 1) == infinity for pattern in (x, y)]
    if operation is Operation.MULTIPLY:
        sign = (x ^ y) & sign_bit
        zero = [pattern & (sign_bit - 1) == 0 for pattern in (x, y)]
        if any(infinite):
            return nan if any(zero) else sign | infinity
        exact = abs(_rational(type_, x) * _rational(type_, y))
        return sign | _rounded(type_, exact)
    if any(infinite):
        if all(infinite):
            return x if x == y else nan
        return x if infinite[0] else y
    exact = _rational(type_, x) + _rational(type_, y)
    if exact == 0:
        return x & y & sign_bit  # -0 only from two of them
    return (sign_bit if exact < 0 else 0) | _rounded(type_, abs(exact))


def _rational(type_: Format, pattern: int) -> Fraction:
    p = type_.fraction_bits
    field, fraction = (pattern >> p) & ((1 << type_.exponent_bits) - 1), pattern & ((1 << p) - 1)
    significand = fraction + (1 << p if field else 0)
    scale = max(field, 1) - ((1 << (type_.exponent_bits - 1)) - 1) - p
    return Fraction(significand) * Fraction(2) ** scale * (-1) ** (pattern >> (type_.bits - 1))


def _rounded(type_: Format, exact: Fraction) -> int:
    """Return the pattern of the nearest float; the carry from fraction to exponent just works."""
    if exact == 0:
        return 0
    p, bias = type_.fraction_bits, (1 << (type_.exponent_bits - 1)) - 1
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    if Fraction(2) ** exponent > exact:
        exponent -= 1
    exponent = max(exponent, 1 - bias)
    significand = round(exact / Fraction(2) ** (exponent - p))  # Python rounds ties to even
    pattern = ((exponent + bias - 1) << p) + significand
    return min(pattern, ((1 << type_.exponent_bits) - 1) << p)
