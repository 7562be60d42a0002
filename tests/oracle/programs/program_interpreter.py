"""One element, one register, one run of bits at a time, in plain Python.

It shares no storage, layout or element-wise code with the oracle.
"""

from __future__ import annotations

from reference.numbers import F16, F32, F64, decode, encode

from oracle.isa.forms import Format
from oracle.program.operands import Operation
from oracle.program.steps import Op


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
    layout = {"f16": F16, "f32": F32, "f64": F64}[type_.name]
    nan = {"f16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0xFFF8 << 48}[type_.name]
    left, right = decode(x, layout), decode(y, layout)
    for pattern, number in ((x, left), (y, right)):
        if number.kind == "nan":
            return pattern | 1 << (type_.fraction_bits - 1) if type_.name == "f64" else nan
    infinite = [number.kind == "inf" for number in (left, right)]
    infinity = (2**layout.exponent_bits - 1) << layout.fraction_bits
    if operation is Operation.MULTIPLY:
        negative = left.negative != right.negative
        if any(infinite):
            zero = any(one.kind == "finite" and not one.value for one in (left, right))
            return nan if zero else infinity | negative << (type_.bits - 1)
        return encode(left.value * right.value, layout, "rn", negative_zero=negative)
    if any(infinite):
        if all(infinite):
            return x if x == y else nan
        return x if infinite[0] else y
    both = left.negative and right.negative
    return encode(left.value + right.value, layout, "rn", negative_zero=both)
