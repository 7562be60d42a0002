"""Integer expressions: what an element of a matrix is, of random words and its place.

A class of contents is a `Fill` made of these few operations, and nothing else. Two programs read
it: `Values` here, for many images at once, and a device (bytecode.py), element by element.

There are two kinds of values. Numbers are signed, of 64 bits, and stay far from their ends.
Patterns are raw bits of one element: unsigned, as wide as its unit in memory (8, 16, 32 or 64
bits), and wrap. An operation of a pattern and a number is one of patterns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache, cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strategies.contents.floats import Sum

Raw = NDArray[Any]
"""Raw bit patterns, in the unsigned dtype of their unit."""
Draws = NDArray[np.uint16]


class Code(IntEnum):
    """Operations; the numbers are those of the device's code."""

    CONSTANT = 0
    LINE = 1
    """Number of the element's line: row of A and C, column of B."""
    POSITION = 2
    """Number of the element in its line."""
    DRAW = 3
    """A number of the image below the second argument, of the 16 random bits of the draw whose
    number is the first one: the high half of their product."""
    NOISE = 4
    """The random pattern of the element's own unit."""
    AT = 5
    """The random pattern at a position of the element's line."""
    PATTERN = 6
    """A pattern of a table, by a number that is clipped to its ends."""
    NUMBER = 7
    """A number of a table, by a number that is clipped to its ends."""
    WIDE = 8
    """A pattern as a number."""
    NARROW = 9
    """The low bits of a number as a pattern."""
    ADD = 10
    SUBTRACT = 11
    MULTIPLY = 12
    AND = 13
    OR = 14
    XOR = 15
    LEFT = 16
    RIGHT = 17
    """Shift that fills with zeros, of numbers with their sign."""
    EQUAL = 18
    """1 or 0."""
    LESS = 19
    """1 or 0; of numbers."""
    SELECT = 20
    """The second argument where the first is not 0, else the third."""
    CLIP = 21
    """A number, not less than the second and not more than the third argument."""
    SUM = 22
    """The products that an element of C belongs to, summed (`floats.Sum`): of integers and bits the
    number, of floats the pattern of C that is nearest to minus the sum."""


_UFUNCS = {
    Code.ADD: np.add, Code.SUBTRACT: np.subtract, Code.MULTIPLY: np.multiply,
    Code.AND: np.bitwise_and, Code.OR: np.bitwise_or, Code.XOR: np.bitwise_xor,
    Code.LEFT: np.left_shift, Code.RIGHT: np.right_shift,
}  # fmt: skip
_PATTERNS = {Code.NOISE, Code.AT, Code.PATTERN, Code.NARROW}
_NUMBERS = {Code.WIDE, Code.NUMBER, Code.CLIP, Code.LESS}
_SELF = {Code.NOISE: 1, Code.AT: 2, Code.SUM: 2}
"""Reads of the unit's own memory: what has one, once, may be computed in place."""


@dataclass(frozen=True, eq=False)
class Node:
    """A value of each element, line or image."""

    code: Code
    arguments: tuple[Node, ...] = ()
    value: Any = None
    """Number of a constant, table of a lookup, or terms of a sum."""

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
        if self.code in (Code.LINE, Code.POSITION, *_SELF):
            return False
        return not self.is_pattern and all(one.of_image for one in self.arguments)

    @cached_property
    def reads(self) -> int:
        """How often the unit's own memory is read."""
        return _SELF.get(self.code, 0) + sum(one.reads for one in self.arguments)

    @cached_property
    def scalars(self) -> dict[np.dtype[Any], Any]:
        """A constant as a pattern of the dtypes in which it was needed."""
        return {}

    def __add__(self, other: Value) -> Node:
        return node(Code.ADD, self, other)

    def __sub__(self, other: Value) -> Node:
        return node(Code.SUBTRACT, self, other)

    def __mul__(self, other: Value) -> Node:
        return node(Code.MULTIPLY, self, other)

    def __and__(self, other: Value) -> Node:
        return node(Code.AND, self, other)

    def __or__(self, other: Value) -> Node:
        return node(Code.OR, self, other)

    def __xor__(self, other: Value) -> Node:
        return node(Code.XOR, self, other)

    def __lshift__(self, other: Value) -> Node:
        return node(Code.LEFT, self, other)

    def __rshift__(self, other: Value) -> Node:
        return node(Code.RIGHT, self, other)


@dataclass(frozen=True, eq=False)
class Table:
    """Patterns or numbers to choose from."""

    values: tuple[int, ...]
    _arrays: dict[np.dtype[Any], Raw] = field(default_factory=dict)

    def of(self, dtype: np.dtype[Any]) -> Raw:
        """Return the values in a dtype."""
        if dtype not in self._arrays:
            source = np.uint64 if dtype == np.uint64 else np.int64
            self._arrays[dtype] = np.array(self.values, source).astype(dtype)
        return self._arrays[dtype]


_table = cache(Table)
"""The one table of some values."""
Value = Node | int
_NODES: dict[tuple[object, ...], Node] = {}


def node(code: Code, *arguments: Value, value: Any = None) -> Node:
    """Return the one node that means this."""
    found = Node(code, tuple(map(constant, arguments)), value)
    key = code, value, *(id(one) for one in found.arguments)
    return _NODES.setdefault(key, found)


def constant(value: Value) -> Node:
    """Return a number as a node."""
    return value if isinstance(value, Node) else node(Code.CONSTANT, value=value)


LINE, POSITION, NOISE = node(Code.LINE), node(Code.POSITION), node(Code.NOISE)
below = partial(node, Code.DRAW)
"""A number of the image below a bound, by the number of a draw; nothing is rejected."""
at = partial(node, Code.AT)
wide, narrow = partial(node, Code.WIDE), partial(node, Code.NARROW)
equal, less = partial(node, Code.EQUAL), partial(node, Code.LESS)
select, clip = partial(node, Code.SELECT), partial(node, Code.CLIP)


def draw(number: Value) -> Node:
    """Return 16 random bits of the image."""
    return below(number, 1 << 16)


def pattern(table: Sequence[int], index: Value) -> Node:
    """Look a pattern up."""
    return node(Code.PATTERN, index, value=_table(tuple(table)))


def number(table: Sequence[int], index: Value) -> Node:
    """Look a number up."""
    return node(Code.NUMBER, index, value=_table(tuple(table)))


@dataclass(frozen=True, eq=False)
class Overlay:
    """An element that stands over the others."""

    position: Node
    value: Node
    line: Node | None = None
    """Line of the only such element; None: every line has one."""


@dataclass(frozen=True, eq=False)
class Fill:
    """What fills one operand of images of a class."""

    everywhere: Node = NOISE
    placed: tuple[Overlay, ...] = ()
    """In order: a later one stands over an earlier one."""


_NUMBER = np.dtype(np.int64)


@lru_cache(maxsize=1024)
def _count(count: int) -> NDArray[np.int64]:
    """Return 0, 1, 2, … as (count, 1)."""
    return np.arange(count)[:, None]


@dataclass(frozen=True, eq=False)
class Values:
    """Values of nodes for the elements of one operand of some images."""

    noise: Raw
    """(images, lines, positions); may be what is filled."""
    draws: Draws
    """(images, DRAWS)."""
    known: dict[Node, Any]
    """Numbers of images: shared by the operands of the same images."""
    multiplicands: tuple[Raw, Raw] | None
    """A (images, lines, k) and B (images, columns, k) as they are in the end."""
    _own: dict[Node, Any] = field(default_factory=dict)

    def fill(self, fill: Fill, view: Raw) -> None:
        """Fill an operand, in place: `view` may be `noise`."""
        images, lines = _count(len(view)), _count(view.shape[1]).T
        placed = [
            (
                (images, lines if one.line is None else self.of(one.line)[:, :, 0]),
                self.of(one.position)[:, :, 0],
                self._raw(one.value),
            )
            for one in fill.placed
        ]
        if fill.everywhere is not NOISE:
            filled = self.of(fill.everywhere, view)
            if filled is not view:
                view[...] = filled
        for where, position, value in placed:
            view[(*where, position)] = value[:, :, 0] if value.ndim else value

    def of(self, wanted: Node, out: Raw | None = None) -> Any:
        """Return a value, (images or 1, lines or 1, positions or 1); of a constant a scalar.

        `out` is where it may go: then nothing else of it is needed again.
        """
        known = self.known if wanted.of_image else self._own
        value = known.get(wanted)
        if value is None:
            is_binary = wanted.code in _UFUNCS
            value = self._binary(wanted, out) if is_binary else self._computed(wanted)
            if value is not out:
                known[wanted] = value
        return value

    def _raw(self, wanted: Node) -> Any:
        dtype = self.noise.dtype
        if wanted.code is Code.CONSTANT:
            if dtype not in wanted.scalars:
                wanted.scalars[dtype] = dtype.type(wanted.value & (1 << 8 * dtype.itemsize) - 1)
            return wanted.scalars[dtype]
        value = self.of(wanted)
        return value if value.dtype == dtype else value.astype(dtype)

    def _both(self, wanted: Node) -> tuple[Any, Any]:
        first, second = wanted.arguments[-2:]
        if first.is_pattern or second.is_pattern:
            return self._raw(first), self._raw(second)
        return self.of(first), self.of(second)

    def _binary(self, wanted: Node, out: Raw | None) -> Any:
        ufunc, (first, second) = _UFUNCS[wanted.code], wanted.arguments
        if not wanted.is_pattern:
            return ufunc(self.of(first), self.of(second))
        if out is not None and wanted.reads == 1 and first.reads and first is not NOISE:
            # The noise is read once, and by the first argument: in place.
            left, right = self.of(first, out), self._raw(second)
        else:
            left, right = self._both(wanted)
        return ufunc(left, right) if out is None else ufunc(left, right, out=out)

    def _computed(self, wanted: Node) -> Any:
        noise, arguments = self.noise, wanted.arguments
        match wanted.code:
            case Code.NOISE:
                return noise
            case Code.CONSTANT:
                # Patterns of f64 with a sign lie beyond the largest number.
                return np.int64((wanted.value + (1 << 63)) % (1 << 64) - (1 << 63))
            case Code.LINE:
                return _count(noise.shape[1])[None]
            case Code.POSITION:
                return _count(noise.shape[2]).T[None]
            case Code.DRAW:
                first, bound = arguments
                if first.code is Code.CONSTANT:
                    drawn = self.draws[:, first.value, None, None].astype(np.int64)
                else:
                    drawn = self.draws[:, self.of(first).ravel()].astype(np.int64)[:, None]
                return drawn if bound.value == 1 << 16 else drawn * bound.value >> 16
            case Code.AT:
                position = self.of(arguments[0])
                if position.ndim == 0:
                    return noise[:, :, int(position) : int(position) + 1]
                if position.shape[:2] == (1, 1):
                    return noise[:, :, position.ravel()]
                images, lines = _count(len(noise)), _count(noise.shape[1]).T
                return noise[images, lines, position[:, :, 0]][:, :, None]
            case Code.PATTERN | Code.NUMBER:
                dtype = noise.dtype if wanted.is_pattern else _NUMBER
                return wanted.value.of(dtype).take(self.of(arguments[0]), mode="clip")
            case Code.WIDE:
                return self.of(arguments[0]).astype(np.int64)
            case Code.NARROW:
                return self._raw(arguments[0])
            case Code.EQUAL | Code.LESS:
                compare = np.equal if wanted.code is Code.EQUAL else np.less
                found = compare(*self._both(wanted))
                return found.astype(noise.dtype if wanted.is_pattern else _NUMBER)
            case Code.SELECT:
                return np.where(self.of(arguments[0]) != 0, *self._both(wanted))
            case Code.CLIP:
                return np.clip(*map(self.of, arguments))
            case _:
                assert self.multiplicands is not None, "a sum of what is not known"
                sum_: Sum = wanted.value
                return sum_.of(*self.multiplicands)
