"""Integer expressions: what an element of a matrix is, of random words and its place.

NumPy (`Steps`) and a device (bytecode.py) evaluate them. Numbers are signed, of 64 bits, and stay
far from their ends. Patterns are raw bits of an element, as wide as its unit in memory, and wrap;
an operation of a pattern and a number is one of patterns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.conversions import FLOATS, unpacked, where
from oracle.isa.forms import FORMATS, Format, FormatKind

Ints = NDArray[np.int64]
Raw = NDArray[Any]  # Raw bit patterns, in the unsigned dtype of their format

_COUNTS = np.array([byte.bit_count() for byte in range(256)], np.int64)
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFF_FFFF)
_WINDOW_BITS = {2: 4, 3: 3, 7: 4, 10: 3, 52: 2}
"""How many exponents A and B of a cancelled product have, as a power of two, by bits of fraction:
most products have too many bits for C, and sums of 32 less than 53 bits."""


class FloatFields:
    """Where sign, exponent and fraction of a format stand, as bits of its patterns."""

    def __init__(self, format: Format) -> None:  # noqa: A002
        self.format = format
        self.shift = format.fraction_bits + format.ignored_bits  # Bits below the exponent field
        self.top = (1 << format.exponent_bits) - 1  # Exponent field of infinities and NaN
        self.least, self.greatest = 1 - format.bias, format.bias
        """Exponents of the least normal and of the largest finite numbers."""
        self.grid = self.least - format.fraction_bits  # Exponent of the least subnormal
        self.sign = format.magnitude + 1
        self.infinity = self.top << self.shift  # All ones in the exponent field
        self.one = format.bias << self.shift  # The number 1
        self.unit = 1 << format.ignored_bits  # The least subnormal
        self.fraction = (1 << self.shift) - 1  # All ones below the exponent field
        self.signed_fraction = self.sign | self.fraction  # All ones outside of the exponent field
        self.first_fraction_bit = 1 << (self.shift - 1)  # That of quiet NaN
        self.fields = tuple(field << self.shift for field in range(1, self.top))  # Of normal ones
        subnormal = (self.unit << i for i in range(format.fraction_bits))
        self.powers = (0, *subnormal, *self.fields)  # From the least subnormal on
        self.window_bits = _WINDOW_BITS.get(format.fraction_bits, 0)
        if format.exponent_bits < 4:  # of normal numbers there are no more
            self.window_bits = 2 * (format.exponent_bits - 2)
        self.window_least = -(1 << self.window_bits >> 1)  # Least exponent of that window
        self.window_field = self.window_least + format.bias  # and its exponent field

    def kept(self, window_bits: int) -> int:
        """All ones in sign, fraction and the lowest bits of the exponent field."""
        return self.signed_fraction | (1 << window_bits) - 1 << self.shift

    def field(self, exponent: int) -> int:
        """Return an exponent field in its place, of normal numbers: exponents are clipped."""
        return min(max(exponent - self.least + 1, 1), self.top - 1) << self.shift

    def whole(self, number: int) -> int:
        """Return a whole number above 0, of no more significant bits than the format has."""
        width = number.bit_length() - 1
        fraction = (number << self.shift >> width) & self.fraction
        return (self.format.bias + width) << self.shift | fraction

    def values(self, raw: Raw) -> NDArray[np.float64]:
        """Return the numbers, exactly; of tf32 those of the bits that count."""
        name, kept = self.format.name, raw.dtype.type(-self.unit % (1 << 8 * raw.itemsize))
        if raw.itemsize == 1:
            return unpacked(raw, name).view(np.float16).astype(np.float64)
        numbers: NDArray[np.float64] = np.ascontiguousarray(raw & kept).view(FLOATS[name])
        return numbers.astype(np.float64)

    @cached_property
    def finite_ends(self) -> tuple[int, ...]:
        """64 patterns: zeros, ends of subnormals and normals, powers of two and neighbours."""
        one, unit = self.one, self.unit
        least, two = 1 << self.shift, self.one + (1 << self.shift)
        largest = self.infinity - unit
        positive = (
            0, unit, 2 * unit, 3 * unit, least >> 1, least - unit, least, least + unit,
            2 * least, largest, largest - unit, self.infinity - least, one, one,
            one + unit, one - unit, two, two - unit, two + unit, one - least, one | least >> 1,
            two + least, largest - least, 2 * least - unit, one + 2 * unit, one + 3 * unit,
            one | least >> 2, two | least >> 1, 0, one, two, least,
        )  # fmt: skip
        return (*positive, *(pattern | self.sign for pattern in positive))

    @cached_property
    def specials(self) -> tuple[int, ...]:
        """32 patterns: zeros, infinities, quiet and signalling NaN, all ones, ends."""
        infinity, quiet, unit = self.infinity, self.first_fraction_bit, self.unit
        positive = (
            0, 0, infinity, infinity, infinity | 1, infinity | unit, infinity | quiet,
            infinity | quiet | unit, infinity | quiet - 1, infinity | self.fraction, unit,
            (1 << self.shift) - unit, 1 << self.shift, infinity - unit, self.one, infinity,
        )  # fmt: skip
        return (*positive, *(pattern | self.sign for pattern in positive))

    def inside(self, raw: Raw) -> Raw:
        """Return patterns with exponents in the window."""
        base = raw.dtype.type(self.window_field << self.shift)
        found: Raw = ((raw - base) & raw.dtype.type(self.kept(self.window_bits))) + base
        return found


@cache
def fields_of(name: str) -> FloatFields:
    """Return the fields of a floating-point format."""
    return FloatFields(FORMATS[name])


@dataclass(frozen=True)
class Sum:
    """What the products of one row of A and one column of B are summed to, exactly.

    Exponents outside of a window count modulo its width: it is defined for all patterns.
    """

    a: Format
    b: Format
    operation: str | None = None  # `.op` of single bits
    rounded: Format | None = None  # Format of C, if A and B are floats
    depth: int = 16  # K
    run: int = 0  # Where metadata choose: of B the first of each two runs of so many counts


def factor_fields(one: Sum) -> tuple[FloatFields, FloatFields]:
    """Return the fields of A and B."""
    return fields_of(one.a.name), fields_of(one.b.name)


def scaling(one: Sum) -> tuple[int, int, int]:
    """Return the exponent of the unit in which floats are summed, their span, and lost bits.

    The span is the exponent of the largest products over that of the least. Products of f64 lose
    bits of their upper 64, so that sums stay below 2^62.
    """
    both = factor_fields(one)
    least = sum(fields.window_least for fields in both)
    span, lost = sum((1 << fields.window_bits) - 1 for fields in both), one.depth.bit_length() + 1
    if one.a.bits == 64:
        # Of the product of two significands, 2^-104, the upper 64 bits of 128 after each was
        # shifted by 11 are in units of 2^-62.
        return least + span - 62 + lost, span, lost
    return least - one.a.fraction_bits - one.b.fraction_bits, span, lost


def sums(one: Sum, a: Raw, b: Raw) -> Any:
    """Return the sums, int64, or of floats the patterns of C nearest to minus them.

    Of a (images, lines, positions) and b (images, columns, positions): (images, lines, columns)
    """
    if one.run:
        b = b.reshape(*b.shape[:2], -1, 2, one.run)[:, :, :, 0].reshape(*b.shape[:2], -1)
    if one.a.kind is FormatKind.BITS:
        left, right = a[:, :, None, :], b[:, None, :, :]
        both = left & right if one.operation == "and" else left ^ right
        return _COUNTS[both.astype(np.intp)].sum(axis=3)
    if one.rounded is None:
        # Sums of 64 products below 2^16 stay below 2^22: exact in float64 in any order.
        signed = (_signed(raw, type_) for raw, type_ in ((a, one.a), (b, one.b)))
        left, right = (numbers.astype(np.float64) for numbers in signed)
        return (left @ right.swapaxes(1, 2)).astype(np.int64)
    # Sums below 2^53 are exact in float64, and to convert a number is to round it once.
    if one.a.bits == 64:
        total = np.ldexp(_upper(one, a, b).astype(np.float64), scaling(one)[0])
    else:
        both_ = zip(factor_fields(one), (a, b), strict=True)
        left, right = (fields.values(fields.inside(raw)) for fields, raw in both_)
        total = left @ right.swapaxes(1, 2)
    size = one.rounded.bits // 8  # of f16, f32 or f64
    with np.errstate(over="ignore"):
        return (-total).astype(f"f{size}").view(f"u{size}")


def _upper(one: Sum, a: Raw, b: Raw) -> Ints:
    """Return the sums of the upper bits of products of f64."""
    fields, (_, span, lost) = fields_of(one.a.name), scaling(one)
    total = np.zeros((*a.shape[:2], b.shape[1]), np.int64)
    left, right = (_significands(fields, raw) for raw in (a, b))
    for k in range(a.shape[2]):
        x, p, minus = (part[:, :, None, k] for part in left)
        y, q, other = (part[:, None, :, k] for part in right)
        shift = (span + lost - p - q).astype(np.uint64)
        term = (_upper_half(x, y) >> shift).astype(np.int64)
        total += np.where(minus != other, -term, term)
    return total


def _significands(fields: FloatFields, raw: Raw) -> tuple[Raw, Ints, Raw]:
    """Return significands of f64 from bit 63 on, places in the window, and signs."""
    fraction = raw & np.uint64(fields.fraction) | np.uint64(1 << fields.shift)
    exponents = (raw >> np.uint64(fields.shift)).astype(np.int64) - fields.window_field
    return (
        fraction << np.uint64(63 - fields.shift),
        exponents & (1 << fields.window_bits) - 1,
        raw >> np.uint64(63) != 0,
    )


def _upper_half(x: Raw, y: Raw) -> Raw:
    """Return the upper 64 bits of products."""
    x0, x1, y0, y1 = x & _LOW, x >> _HALF, y & _LOW, y >> _HALF
    middle = x1 * y0 + (x0 * y0 >> _HALF)
    other = x0 * y1 + (middle & _LOW)
    found: Raw = x1 * y1 + (middle >> _HALF) + (other >> _HALF)
    return found


def _signed(raw: Raw, type_: Format) -> Ints:
    sign = 1 << (type_.bits - 1) if type_.kind is FormatKind.SIGNED else 0
    return (raw.astype(np.int64) ^ sign) - sign


Draws = NDArray[np.int64]


class Code(IntEnum):
    """Operations; the numbers are those of the device's code."""

    CONSTANT = 0
    LINE = 1  # Number of the element's line: row of A and C, column of B
    POSITION = 2  # Number of the element in its line
    DRAW = 3  # The high half of 16 random bits of the image, whose number is first, times a bound
    NOISE = 4  # The random pattern of the element's own unit
    AT = 5  # The random pattern at a position of the element's line
    PATTERN = 6  # A pattern of a table, by a number that is clipped to its ends
    NUMBER = 7  # A number of a table, by a number that is clipped to its ends
    WIDE = 8  # A pattern as a number
    NARROW = 9  # The low bits of a number as a pattern
    ADD = 10
    SUBTRACT = 11
    MULTIPLY = 12
    AND = 13
    OR = 14
    XOR = 15
    LEFT = 16
    RIGHT = 17  # Shift that fills with zeros, of numbers with their sign
    EQUAL = 18  # 1 or 0
    LESS = 19  # 1 or 0; of numbers
    SELECT = 20  # The second argument where the first is not 0, else the third
    CLIP = 21  # A number, not less than the second and not more than the third argument
    SUM = 22  # The products that an element of C belongs to, as `Sum` has them


_UFUNCS = {
    Code.ADD: np.add, Code.SUBTRACT: np.subtract, Code.MULTIPLY: np.multiply,
    Code.AND: np.bitwise_and, Code.OR: np.bitwise_or, Code.XOR: np.bitwise_xor,
    Code.LEFT: np.left_shift, Code.RIGHT: np.right_shift,
}  # fmt: skip
_PATTERNS = {Code.NOISE, Code.AT, Code.PATTERN, Code.NARROW}
_NUMBERS = {Code.WIDE, Code.NUMBER, Code.CLIP, Code.LESS}
_OF_ELEMENTS = {Code.LINE, Code.POSITION, Code.NOISE, Code.AT, Code.SUM}
_FIXED, _VARYING = {Code.CONSTANT, Code.LINE, Code.POSITION}, {Code.DRAW, Code.AT, Code.SUM}


def _operator(code: Code) -> Callable[[Node, Value], Node]:
    return lambda first, second: node(code, first, second)


@dataclass(frozen=True, eq=False)
class Node:
    """A value of each element, line or image."""

    code: Code
    arguments: tuple[Node, ...] = ()
    value: Any = None  # Number of a constant, table of a lookup, or terms of a sum

    @cached_property
    def is_pattern(self) -> bool:
        """Whether it is a pattern; else a number."""
        if self.code is Code.SUM:
            return bool(self.value.rounded)
        if self.code in _PATTERNS:
            return True
        some = self.arguments[1:] if self.code is Code.SELECT else self.arguments
        return self.code not in _NUMBERS and any(one.is_pattern for one in some)

    @cached_property
    def of_image(self) -> bool:
        """Whether it is a number that is the same for all elements of an image."""
        if self.code in _OF_ELEMENTS:
            return False
        return not self.is_pattern and all(one.of_image for one in self.arguments)

    @cached_property
    def is_fixed(self) -> bool:
        """Whether it is the same in all images: of the number of a line and a position alone."""
        return self.code in _FIXED or (
            bool(self.arguments)
            and self.code not in _VARYING
            and all(one.is_fixed for one in self.arguments)
        )

    @cached_property
    def number(self) -> np.int64:
        """A constant as a number: patterns of f64 with a sign lie beyond the largest one."""
        return np.int64((self.value + (1 << 63)) % (1 << 64) - (1 << 63))

    def of(self, dtype: np.dtype[Any]) -> Any:
        """Return a constant, or a table, in a dtype."""
        if dtype not in self._made:
            if self.code is Code.CONSTANT:
                self._made[dtype] = dtype.type(self.value & (1 << 8 * dtype.itemsize) - 1)
            else:
                source = np.uint64 if dtype == np.uint64 else np.int64
                self._made[dtype] = np.array(self.value, source).astype(dtype)
        return self._made[dtype]

    @cached_property
    def _made(self) -> dict[np.dtype[Any], Any]:
        return {}

    __add__, __sub__ = _operator(Code.ADD), _operator(Code.SUBTRACT)
    __mul__, __and__ = _operator(Code.MULTIPLY), _operator(Code.AND)
    __or__, __xor__ = _operator(Code.OR), _operator(Code.XOR)
    __lshift__, __rshift__ = _operator(Code.LEFT), _operator(Code.RIGHT)


Value = Node | int
_NODES: dict[tuple[object, ...], Node] = {}


def node(code: Code, *arguments: Value, value: Any = None) -> Node:
    """Return the one node that means this."""
    given = tuple([constant(one) for one in arguments])
    key = code, value, *[id(one) for one in given]
    found = _NODES.get(key)
    if found is None:
        found = _NODES[key] = Node(code, given, value)
    return found


def constant(value: Value) -> Node:
    """Return a number as a node."""
    return value if isinstance(value, Node) else _of_number(value)


@cache
def _of_number(value: int) -> Node:
    return node(Code.CONSTANT, value=value)


LINE, POSITION, NOISE = node(Code.LINE), node(Code.POSITION), node(Code.NOISE)
below = partial(node, Code.DRAW)  # A number of the image below a bound, by that of a draw
at = partial(node, Code.AT)
wide, narrow = partial(node, Code.WIDE), partial(node, Code.NARROW)
equal, less = partial(node, Code.EQUAL), partial(node, Code.LESS)
select, clip = partial(node, Code.SELECT), partial(node, Code.CLIP)


def draw(number: Value) -> Node:
    """Return 16 random bits of the image."""
    return below(number, 1 << 16)


def pattern(table: Sequence[int], index: Value) -> Node:
    """Look a pattern up."""
    return node(Code.PATTERN, index, value=tuple(table))


@dataclass(frozen=True, eq=False)
class Overlay:
    """An element that stands over the others."""

    position: Node
    value: Node
    line: Node | None = None  # Line of the only such element; None: every line has one


@dataclass(frozen=True, eq=False)
class Fill:
    """What fills one operand of images of a class."""

    everywhere: Node = NOISE
    placed: tuple[Overlay, ...] = ()  # In order: a later one stands over an earlier one

    @cached_property
    def is_random(self) -> bool:
        """Whether it leaves the random bits as they are."""
        return self.everywhere is NOISE and not self.placed

    def steps(self, dtype: np.dtype[Any]) -> Steps:
        """Return what evaluates it, of patterns of a dtype."""
        steps = self._steps.get(dtype.char)
        if steps is None:
            placed = tuple((one.line, one.position, one.value) for one in self.placed)
            steps = self._steps[dtype.char] = _steps_of(self.everywhere, placed, dtype)
        return steps

    @cached_property
    def _steps(self) -> dict[str, Steps]:
        return {}


_Placed = tuple[tuple[Node | None, Node, Node], ...]
"""Line, position and value of each overlay."""
_NUMBER = np.dtype(np.int64)


@lru_cache(maxsize=1024)
def _count(count: int) -> NDArray[np.int64]:
    """Return 0, 1, 2, … as (count, 1)."""
    return np.arange(count)[:, None]


Multiplicands = Callable[[], tuple[Raw, ...]]
"""Returns A (images, lines, k) and B (images, columns, k) of a sum."""
Given = list[Any]
"""Noise (images, lines, positions), draws (images, DRAWS), and `Multiplicands`; the noise may be
what is filled. Then what steps make: (images or 1, lines or 1, positions or 1), of constants
scalars."""
_GIVEN = 3
_NOISE, _DRAWS, _FACTORS = range(_GIVEN)
_Make = Callable[[Given], Any]


class Steps:
    """Operations that evaluate a fill one after the other: each node once, after what it needs."""

    def __init__(self, everywhere: Node, placed: _Placed, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._places: dict[object, int] = {NOISE: _NOISE}
        self._constants: list[Any] = [None] * _GIVEN  # Places of steps have None
        self._of_image: list[tuple[Node, int, _Make]] = []
        self._fixed: list[tuple[int, _Make]] = []
        self._others: list[tuple[int, _Make]] = []
        self._made: dict[tuple[int, ...], Given] = {}  # Constants and what is fixed, by size
        self._placed = [
            (None if line is None else self._value(line), self._value(position), self._raw(value))
            for line, position, value in placed
        ]
        before = len(self._others)
        self._everywhere = None if everywhere is NOISE else self._value(everywhere)
        self._last: tuple[Callable[..., Any], int, int] | None = None
        if everywhere.is_pattern and everywhere.code in _UFUNCS and len(self._others) > before:
            # It writes where its result goes.
            self._others.pop()
            self._last = _UFUNCS[everywhere.code], *self._both(everywhere)

    def fill(
        self, view: Raw, noise: Raw, draws: Draws, known: dict[Node, Any],
        multiplicands: Multiplicands,
    ) -> None:  # fmt: skip
        """Fill an operand in place; `known` are the numbers of its images, and is added to."""
        made = self._of_size(noise)
        made[:_GIVEN] = noise, draws, multiplicands
        for wanted, place, make in self._of_image:
            value = known.get(wanted)
            if value is None:
                value = known[wanted] = make(made)
            made[place] = value
        for place, make in self._others:
            made[place] = make(made)
        if self._last is not None:
            ufunc, first, second = self._last
            ufunc(made[first], made[second], out=view)
        elif self._everywhere is not None:
            view[...] = made[self._everywhere]
        if self._placed:
            images, lines = _count(len(view)), _count(view.shape[1]).T
            for line, position, place in self._placed:
                value = made[place]
                row = lines if line is None else made[line][:, :, 0]
                element = images, row, made[position][:, :, 0]
                view[element] = value[:, :, 0] if value.ndim else value

    def _of_size(self, noise: Raw) -> Given:
        """Return what is the same in all images, by place."""
        if (made := self._made.get(noise.shape[1:])) is None:
            made = self._made[noise.shape[1:]] = [noise, *self._constants[1:]]
            for place, make in self._fixed:
                made[place] = make(made)
        return made.copy()

    def _constant(self, value: Any) -> int:
        self._constants.append(value)
        return len(self._constants) - 1

    def _value(self, wanted: Node) -> int:
        """Return the place of a value, behind steps that make it."""
        place = self._places.get(wanted)
        if place is None:
            if wanted.code is Code.CONSTANT:
                place = self._constant(wanted.number)
            elif wanted.code is Code.NARROW:
                place = self._raw(wanted.arguments[0])
            else:
                make, place = self._maker(wanted), self._constant(None)
                if wanted.of_image and not wanted.is_fixed:
                    self._of_image.append((wanted, place, make))
                else:
                    self._behind(wanted).append((place, make))
            self._places[wanted] = place
        return place

    def _raw(self, wanted: Node) -> int:
        """Return the place of a value as a pattern."""
        if wanted.is_pattern:
            return self._value(wanted)
        key, dtype = (wanted, self._dtype), self._dtype
        if key not in self._places:
            if wanted.code is Code.CONSTANT:
                self._places[key] = self._constant(wanted.of(dtype))
            else:
                number, place = self._value(wanted), self._constant(None)
                self._behind(wanted).append((place, lambda made: made[number].astype(dtype)))
                self._places[key] = place
        return self._places[key]

    def _behind(self, wanted: Node) -> list[tuple[int, _Make]]:
        return self._fixed if wanted.is_fixed else self._others

    def _both(self, wanted: Node) -> tuple[int, int]:
        first, second = wanted.arguments[-2:]
        of = self._raw if first.is_pattern or second.is_pattern else self._value
        return of(first), of(second)

    def _maker(self, wanted: Node) -> _Make:
        """Return what makes a value of those before it."""
        arguments, is_pattern = wanted.arguments, wanted.is_pattern
        dtype = self._dtype if is_pattern else _NUMBER
        match wanted.code:
            case code if ufunc := _UFUNCS.get(code):
                first, second = self._both(wanted)
                return lambda made: ufunc(made[first], made[second])
            case Code.LINE:
                return lambda made: _count(made[_NOISE].shape[1])[None]
            case Code.POSITION:
                return lambda made: _count(made[_NOISE].shape[2]).T[None]
            case Code.DRAW:
                return self._draw(*arguments)
            case Code.AT:
                first = self._value(arguments[0])
                return lambda made: _at(made[_NOISE], made[first])
            case Code.PATTERN | Code.NUMBER:
                table, first = wanted.of(dtype), self._value(arguments[0])
                return lambda made: table.take(made[first], mode="clip")
            case Code.WIDE:
                first = self._value(arguments[0])
                return lambda made: made[first].astype(_NUMBER)
            case Code.EQUAL | Code.LESS:
                compare = np.equal if wanted.code is Code.EQUAL else np.less
                first, second = self._both(wanted)
                return lambda made: compare(made[first], made[second]).astype(dtype)
            case Code.SELECT:
                which, (first, second) = self._value(arguments[0]), self._both(wanted)
                return lambda made: where(made[which] != 0, made[first], made[second])
            case Code.CLIP:
                which, first, second = map(self._value, arguments)
                return lambda made: np.minimum(np.maximum(made[which], made[first]), made[second])
            case _:
                return lambda made: sums(wanted.value, *made[_FACTORS]())

    def _draw(self, number: Node, bound: Node) -> _Make:
        most = bound.value
        if number.code is not Code.CONSTANT:
            place = self._value(number)
            return lambda made: _below(made[_DRAWS][:, made[place].ravel()][:, None], most)
        which = number.value
        return lambda made: _below(made[_DRAWS][:, which, None, None], most)


@cache
def _steps_of(everywhere: Node, placed: _Placed, dtype: np.dtype[Any]) -> Steps:
    # Operands of many shapes and types are filled alike.
    return Steps(everywhere, placed, dtype)


def _below(drawn: Draws, most: int) -> Draws:
    return drawn if most == 1 << 16 else drawn * most >> 16


def _at(noise: Raw, position: Ints) -> Raw:
    """Return what stands at a position of each line, or at all (1, 1, count) of the same."""
    if position.ndim == 0:
        return noise[:, :, int(position) : int(position) + 1]
    if position.shape[:2] == (1, 1):
        return noise[:, :, position.ravel()]
    images, lines = _count(len(noise)), _count(noise.shape[1]).T
    return noise[images, lines, position[:, :, 0]][:, :, None]
