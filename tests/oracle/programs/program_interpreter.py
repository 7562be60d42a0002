"""A second executor of programs: one image, one element, one lane at a time, in plain Python.

It shares no storage, layout, control or element-wise code with the oracle. Memory is one big
integer; matrices are lists of lists of unsigned bit patterns. Floating-point products alone are
asked of `oracle.multiply`, one tile at a time: they have a reference of their own.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from oracle.formats import Format, Kind
from oracle.forms import Form
from oracle.models import model_for
from oracle.multiply import multiply
from oracle.operations import Operation
from oracle.ops import Op, loads_fragment, loads_rows, multiplies_fragments, stores_fragment
from oracle.places import Uniform, Word
from oracle.program import Program
from oracle.steps import Branch, Copy, Elementwise, Loop, PlainAccess, Step

Rows = list[list[int]]


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


def interpret(program: Program, image: bytes) -> bytes:
    """Return the image after the program, on sm_90."""
    shared = sum(buffer.size + 512 for buffer in program.buffers if buffer.space == "shared")
    return _Interpreter(program, image, shared).run()


class _Interpreter:
    def __init__(self, program: Program, image: bytes, shared: int) -> None:
        self.program = program
        self.memory = {"global": Memory(image), "shared": Memory(bytes(shared))}
        self.starts: dict[str, int] = {}
        ends = {"global": 0, "shared": 0}
        for buffer in program.buffers:
            start = ends[buffer.space]
            while start % buffer.alignment:
                start += 1
            self.starts[buffer.name] = start
            ends[buffer.space] = start + buffer.size
        self.names: dict[str, Rows] = {}

    def run(self) -> bytes:
        self.steps(self.program.steps)
        return self.memory["global"].data()

    def steps(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            self.step(step)

    def at(self, buffer: str, offset: int) -> tuple[Memory, int]:
        """Memory and bit position of a byte of a buffer."""
        space = next(b.space for b in self.program.buffers if b.name == buffer)
        return self.memory[space], 8 * (self.starts[buffer] + offset)

    def uniform(self, value: Uniform) -> int:
        if not isinstance(value, Word):
            return value
        memory, bit = self.at(value.place.buffer, value.place.offset)
        return memory.get(bit, 32) & value.mask

    def step(self, step: Step) -> None:
        match step:
            case _ if loads_fragment(step):
                rows, columns, bits = self.size(step)
                self.names[step.names["fragment"]] = [
                    [self.element(step, i, j)[0].get(self.element(step, i, j)[1], bits)
                     for j in range(columns)]
                    for i in range(rows)
                ]  # fmt: skip
            case _ if stores_fragment(step):
                rows, columns, bits = self.size(step)
                for i in range(rows):
                    for j in range(columns):
                        memory, bit = self.element(step, i, j)
                        memory.put(bit, bits, self.names[step.names["fragment"]][i][j])
            case _ if multiplies_fragments(step):
                a, b, c = (self.names[step.names[operand]] for operand in "abc")
                self.names[step.names["d"]] = product(step.form, a, b, c)
            case Elementwise():
                self.names[step.destination] = [
                    [element(step.operation, step.matrix.type, x, step.constant) for x in row]
                    for row in self.names[step.source]
                ]
            case _ if loads_rows(step):
                memory, start = self.at(step.memory.buffer, 0)
                rows_ = [memory.get(start + 8 * address, 128) for address in step.memory.addresses]
                self.names[step.names["registers"]] = [
                    [register(step, rows_, lane, r) for r in range(step.form.registers)]
                    for lane in range(32)
                ]
            case PlainAccess() if step.stores:
                memory, bit = self.at(step.place.buffer, step.place.offset)
                for lane in range(32):
                    for i in range(step.count):
                        word = self.names[step.registers][lane][i]
                        memory.put(bit + 32 * (lane * step.count + i), 32, word)
            case Copy():
                source, start = self.at(step.source.buffer, step.source.offset)
                memory, bit = self.at(step.destination.buffer, step.destination.offset)
                memory.put(bit, 8 * step.size, source.get(start, 8 * step.size))
            case Branch():
                self.steps(step.then if self.uniform(step.condition) else step.otherwise)
            case Loop():
                for _ in range(self.uniform(step.count)):
                    self.steps(step.body)

    def size(self, step: Op) -> tuple[int, int, int]:
        shape = step.form.shape
        operand = step.form.matrix().operand if loads_fragment(step) else "d"
        rows = shape.k if operand == "b" else shape.m
        columns = shape.k if operand == "a" else shape.n
        return rows, columns, step.form.type().bits

    def element(self, step: Op, i: int, j: int) -> tuple[Memory, int]:
        """Memory and bit position of an element of a matrix."""
        rows, columns, bits = self.size(step)
        line, index = (i, j) if step.form.layout == "row" else (j, i)
        default = columns if step.form.layout == "row" else rows
        stride = default if step.memory.stride is None else step.memory.stride
        place = step.memory.place
        memory, bit = self.at(place.buffer, place.offset)
        return memory, bit + (line * stride + index) * bits


def register(step: Op, rows: list[int], lane: int, index: int) -> int:
    """Return one register of ldmatrix in one lane, from the integers at the row addresses."""
    form = step.form
    per_matrix = 2 if form.rows == 16 else 1
    matrix, half = divmod(index, per_matrix)
    first = matrix * form.rows
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


def product(form: Form, a: Rows, b: Rows, c: Rows) -> Rows:
    if form.a_type.is_float:
        arrays = [
            np.array(matrix, dtype=type_.raw)
            for matrix, type_ in ((a, form.a_type), (b, form.b_type), (c, form.c_type))
        ]
        result = multiply(form, *arrays, model=model_for("sm_90"))
        return [[int(x) for x in row] for row in result]
    return [
        [_integer(form, a[i], [row[j] for row in b], c[i][j]) for j in range(form.shape.n)]
        for i in range(form.shape.m)
    ]


def _integer(form: Form, row: list[int], column: list[int], start: int) -> int:
    total = _signed(start, 32)
    for x, y in zip(row, column, strict=True):
        if form.op == "xor":
            total += x ^ y
        elif form.op == "and":
            total += x & y
        else:
            total += _value(form.a_type, x) * _value(form.b_type, y)
    if form.satfinite:
        total = min(max(total, -(2**31)), 2**31 - 1)
    return total % 2**32


def _signed(pattern: int, bits: int) -> int:
    return pattern - (1 << bits) if pattern >> (bits - 1) else pattern


def _value(type_: Format, pattern: int) -> int:
    return _signed(pattern, type_.bits) if type_.kind is Kind.SIGNED else pattern


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
