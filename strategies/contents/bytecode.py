"""Code of fills, for a device that computes them: runners/reference/contents.h.

Code is 64-bit words. The image's own starts with the number of its instructions, which compute
scalars: numbers that are the same for a whole matrix. A fill's starts with four numbers of 16 bits,
low ones first: how many instructions compute `everywhere` of an element, the operand that holds it
(LEAVE: elements stay as they are), `Flag`s, and how many elements are placed. The instructions
follow, then each placed one: again four numbers of 16 bits (its instructions, and the operands of
line, LEAVE for every line, of position and of value), and its instructions, which are computed with
64 bits.

An instruction is, from bit 0 on: 5 bits of `Code` (SUM is 8, RIGHT of a number 22); 1 that says
that the result is cut to as many bits as the third operand says; 10 bits of the slot that keeps
the result (NOWHERE: none; of the image's own code, the scalar); three operands of 16 bits. An
operand from 2^15 on is a constant; else bits 12 to 14 say what it is (a slot, a scalar, or the
result of the instruction before), and the bits below which one. Of a DRAW the second operand is its
bound less 1; of tables the second and the third are where they start, and the number of values less
1; of SUM the second is where the numbers of `_numbers_of` start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntFlag
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

from oracle.isa.forms import FormatKind
from strategies.contents.expressions import Code, Fill, Node, Sum, factor_fields, scaling

LEAVE = 0xFFFF
SUM, RIGHT_OF_NUMBERS = 8, 22  # Codes of a device that differ from `Code`'s
NOWHERE = 1023  # Slot of a result that is not kept
CONSTANT = 0x8000  # Operands from here on are constants
SLOTS = 16  # Values that a device keeps for an element
_SLOT, _SCALAR, _LAST = 0 << 12, 1 << 12, 2 << 12
"""What an operand is; an operand that an instruction does not have is _LAST."""


class Flag(IntFlag):
    """What a fill is."""

    NARROW = 1  # 32 bits are enough for all of its numbers
    SUMS = 2  # It has sums, for which A and B are taken apart first
    MASKED = 4
    """Its instructions are NOISE, AND of a number that is the same for all elements, and maybe ADD
    of another one; or there are none, and the value is such a number."""


@dataclass(frozen=True)
class Stored:
    """A constant, or a table of them."""

    key: tuple[object, ...]
    values: tuple[int, ...] = field(compare=False)


@dataclass(frozen=True)
class FillScalar:
    """A number that is the same for a whole matrix."""

    node: Node
    bits: int  # Of its patterns; 0 where it has none


@dataclass(eq=False)
class FillCode:
    """One operation of a device."""

    code: int
    operands: list[Value]
    cut: int = 0  # Bits that are kept of the result; 0: all
    slot: int = NOWHERE  # Where the result is kept


Symbol = Stored | FillScalar
Value = int | Symbol | FillCode  # A number in an instruction, a constant, a scalar, or code
Bounds = tuple[int, int]
_ANY = -(1 << 63), (1 << 63) - 1


class FillUnit(NamedTuple):
    """What the bounds of values depend on."""

    bits: int  # Bits of a pattern in memory
    lines: int
    positions: int

    @property
    def mask(self) -> int:
        """The largest pattern."""
        return (1 << self.bits) - 1


@cache
def depends(node: Node, *codes: Code) -> bool:
    """Whether a value depends on one of some operations."""
    return node.code in codes or any(depends(one, *codes) for one in node.arguments)


@cache
def _has_patterns(node: Node) -> bool:
    return node.is_pattern or any(map(_has_patterns, node.arguments))


@lru_cache(maxsize=1 << 15)
def _bounds(node: Node, unit: FillUnit) -> Bounds:
    low, high = _raw_bounds(node, unit)
    if node.is_pattern and not (low >= 0 and high <= unit.mask):
        return 0, unit.mask
    return (low, high) if _ANY[0] <= low and high <= _ANY[1] else _ANY


@lru_cache(maxsize=1 << 15)
def _is_cut(node: Node, unit: FillUnit) -> bool:
    low, high = _raw_bounds(node, unit)
    return node.is_pattern and not 0 <= low <= high <= unit.mask


def _argument_bounds(node: Node, argument: Node, unit: FillUnit) -> Bounds:
    if argument.code is Code.CONSTANT:
        value = argument.value & unit.mask if node.is_pattern else argument.value
        return value, value
    return _bounds(argument, unit)


def _raw_bounds(node: Node, unit: FillUnit) -> Bounds:
    each = [_argument_bounds(node, one, unit) for one in node.arguments]
    match node.code:
        case Code.CONSTANT:
            return node.value, node.value
        case Code.LINE:
            return 0, unit.lines - 1
        case Code.POSITION:
            return 0, unit.positions - 1
        case Code.DRAW:
            return 0, each[1][1] - 1
        case Code.NOISE | Code.AT:
            return 0, unit.mask
        case Code.PATTERN:
            return _around(one & unit.mask for one in node.value)
        case Code.NUMBER:
            return _around(node.value)
        case Code.WIDE | Code.NARROW:
            return each[0]
        case Code.EQUAL | Code.LESS:
            return 0, 1
        case Code.SELECT:
            return _around([end for ends in each[1:] for end in ends])
        case Code.CLIP:
            (low, high), (least, _), (_, most) = each
            return min(max(low, least), most), max(min(high, most), least)
        case Code.SUM if node.value.rounded is not None:
            return 0, unit.mask
        case Code.SUM:
            most = 8 * node.value.depth << node.value.a.bits + node.value.b.bits
            return -most, most
    (a, b), (c, d) = each
    match node.code:
        case Code.ADD:
            return a + c, b + d
        case Code.SUBTRACT:
            return a - d, b - c
        case Code.MULTIPLY:
            return _around((a * c, a * d, b * c, b * d))
        case Code.LEFT | Code.RIGHT if not 0 <= c <= d < 64:
            return _ANY
        case Code.LEFT:
            return _around((a << c, a << d, b << c, b << d))
        case Code.RIGHT:
            return _around((a >> c, a >> d, b >> c, b >> d))
        case Code.AND if a >= 0 or c >= 0:
            return 0, min(high for low, high in each if low >= 0)
    # The bits of a result are not more than those of the arguments.
    bits = max(end.bit_length() for end in (a, b, c, d))
    return (0 if min(a, c) >= 0 else -(1 << bits)), (1 << bits) - 1


def _around(values: Iterable[int]) -> Bounds:
    found = sorted(values)
    return found[0], found[-1]


_MASKS: tuple[list[int], ...] = ([], [Code.NOISE, Code.AND], [Code.NOISE, Code.AND, Code.ADD])
"""Codes of the instructions of `Flag.MASKED`."""


class CodeBlocks:
    """Instructions in a row, of an element or, where it computes scalars itself, of an image."""

    def __init__(self, unit: FillUnit, *, has_scalars: bool = True) -> None:
        self.unit = unit
        self._has_scalars = has_scalars
        self.instructions: list[FillCode] = []
        self.made: list[tuple[FillScalar, FillCode]] = []  # Values that are computed here, in order
        self._known: dict[FillScalar, FillCode] = {}
        self.symbols: dict[Symbol, FillUnit] = {}
        """Constants and scalars in the order in which they were met, with the unit of the first."""
        self.is_narrow = unit.bits <= 32  # Whether 32 bits are enough
        self.factors = 0  # Most bytes that factors of a sum take
        self._places: dict[FillCode, int] = {}

    @property
    def flags(self) -> Flag:
        """What these instructions are."""
        flags = Flag.NARROW if self.is_narrow else Flag(0)
        codes = [one.code for one in self.instructions]
        if SUM in codes:
            flags |= Flag.SUMS
        if self.is_narrow and codes in _MASKS:
            is_chain = all(
                one.operands[0] is before and not isinstance(one.operands[1], FillCode)
                for before, one in pairwise(self.instructions)
            )
            flags |= Flag.MASKED if is_chain else 0
        return flags

    def value(self, node: Node, *, pattern: bool = False) -> Value:
        """Compute a node; `pattern` says whether a constant is one."""
        unit = self.unit
        if node.code is Code.CONSTANT:
            value = node.value & unit.mask if pattern else node.value
            self._note(value, value, is_pattern=pattern)
            return self._met(Stored((value,), (value,)))
        self._note(*_bounds(node, unit), is_pattern=node.is_pattern)
        if node.code is Code.WIDE or (node.code is Code.NARROW and not _is_cut(node, unit)):
            return self.value(node.arguments[0], pattern=node.is_pattern)
        key = FillScalar(node, unit.bits if _has_patterns(node) else 0)
        if self._has_scalars and not depends(
            node, Code.LINE, Code.POSITION, Code.NOISE, Code.AT, Code.SUM
        ):
            return self._met(key)
        if key not in self._known:
            self._known[key] = self._computed(node)
            self.made.append((key, self._known[key]))
        return self._known[key]

    def _met(self, symbol: Symbol) -> Symbol:
        self.symbols.setdefault(symbol, self.unit)
        return symbol

    def _note(self, low: int, high: int, *, is_pattern: bool) -> None:
        most = (1 << 32) - 1 if is_pattern else (1 << 31) - 1
        self.is_narrow &= low >= -(1 << 31) and high <= most

    def _computed(self, node: Node) -> FillCode:
        unit, code = self.unit, int(node.code)
        match node.code:
            case Code.SUM:
                numbers = _numbers_of(node.value)
                self.factors = max(
                    self.factors, _factor_bytes(node.value, unit.lines, unit.positions)
                )
                start = self._met(Stored(("sum", node.value), numbers))
                return self._add(SUM, _LAST, start, len(numbers) - 1)
            case Code.PATTERN | Code.NUMBER:
                mask = unit.mask if node.is_pattern else -1
                values = tuple(one & mask for one in node.value)
                key = "table", node.value, node.is_pattern and unit.bits
                start = self._met(Stored(key, values))
                return self._add(code, self.value(node.arguments[0]), start, len(values) - 1)
            case Code.DRAW:
                return self._add(code, self.value(node.arguments[0]), node.arguments[1].value - 1)
        cut = unit.bits if _is_cut(node, unit) else 0
        operands = [self._argument(node, one) for one in node.arguments]
        if node.code is Code.SELECT and cut:
            return self._add(Code.NARROW, self._add(code, *operands), cut=cut)
        if node.code in (Code.LEFT, Code.RIGHT):
            self.is_narrow &= _argument_bounds(node, node.arguments[1], unit)[1] < 32
        if node.code is Code.RIGHT and not node.is_pattern:
            code = RIGHT_OF_NUMBERS
        return self._add(code, *operands, cut=cut)

    def _argument(self, node: Node, argument: Node) -> Value:
        value = self.value(argument, pattern=node.is_pattern)
        low, high = _argument_bounds(node, argument, self.unit)
        # Operations of patterns whose results depend on more than the bits that are kept.
        is_whole = node.is_pattern and node.code in (Code.RIGHT, Code.EQUAL)
        if is_whole and not 0 <= low <= high <= self.unit.mask:
            made = value = self._add(Code.NARROW, value, cut=self.unit.bits)
            self.made.append((FillScalar(argument, -self.unit.bits), made))
        return value

    def _add(self, code: int, *operands: Value, cut: int = 0) -> FillCode:
        made = FillCode(int(code), [*operands], cut)
        self.instructions.append(made)
        return made

    def keep(self, *results: Value) -> None:
        """Give slots to what is needed later than at once."""
        last: dict[FillCode, int] = {}
        for number, one in enumerate([*self.instructions, FillCode(0, [*results])]):
            last |= {x: number for x in one.operands if isinstance(x, FillCode)}
        free, busy = list(range(SLOTS))[::-1], list[tuple[int, int]]()
        for number, one in enumerate(self.instructions):
            free += [slot for until, slot in busy if until <= number]
            busy = [(until, slot) for until, slot in busy if until > number]
            if last.get(one, number) > number + 1:
                assert free, "a fill of contents needs more slots than there are"
                one.slot = free.pop()
                busy.append((last[one], one.slot))

    def words(self, place: int, names: list[Name], *, of_image: bool = False) -> list[int]:
        """Return the instructions, of which the first has this place, and note their `names`."""
        kept = _SCALAR if of_image else _SLOT
        self._places = {one: number for number, one in enumerate(self.instructions)}
        words = []
        for number, one in enumerate(self.instructions):
            flags = one.code | (one.cut > 0) << 5 | one.slot << 6
            fields = [flags, *(self.located(x, number, kept) for x in one.operands), *[_LAST] * 3]
            if one.cut:
                fields[3] = one.cut
            names_start = one.code in _TABLES
            words.append(packed(fields[:4], place + number, names, names_start=names_start))
        return words

    def located(self, value: Value, number: int | None = None, kept: int = _SLOT) -> int | Symbol:
        """Return where the instruction of a number, None for behind the last, finds a value."""
        if not isinstance(value, FillCode):
            return value
        number = len(self.instructions) if number is None else number
        return _LAST if self._places[value] == number - 1 else kept | value.slot


_TABLES = (Code.PATTERN, Code.NUMBER, SUM)
"""Instructions whose second operand is where numbers start, and the third how many there are."""


Name = tuple[int, int, Symbol]  # Where code names a symbol: the word, the lowest bit, and which


def packed(
    fields: Sequence[int | Symbol], place: int, names: list[Name], *, names_start: bool = False
) -> int:
    """Return the word of a place, of numbers of 16 bits, low ones first, and note its `names`."""
    # Where it names the start of a table, that is not marked as a constant.
    word = 0
    for number, one in enumerate(fields):
        if not isinstance(one, int):
            names.append((place, 16 * number, one))
            marked = 0 if names_start and number == 2 else CONSTANT
            one = marked if isinstance(one, Stored) else _SCALAR
        word |= one << 16 * number
    return word


@dataclass(frozen=True)
class Movable:
    """Code of half a fill, for any program: constants and scalars have no numbers yet."""

    words: tuple[int, ...]
    """The first one is the result: of `everywhere` the operand, of what is placed the number."""
    flags: Flag
    names: list[Name]
    symbols: dict[Symbol, FillUnit]  # These in the order of their numbers
    factors: int  # Most bytes that factors of a sum take


@lru_cache(maxsize=1 << 14)
def movable_everywhere(fill: Fill, unit: FillUnit) -> Movable:
    """Return code of `everywhere` of a fill."""
    block, names = CodeBlocks(unit), list[Name]()
    value = block.value(fill.everywhere, pattern=True)
    block.keep(value)
    words = block.words(1, names)
    result = packed([block.located(value)], 0, names)
    return Movable((result, *words), block.flags, names, block.symbols, block.factors)


@lru_cache(maxsize=1 << 14)
def movable_placed(fill: Fill, unit: FillUnit) -> Movable:
    """Return code of what a fill places over the others."""
    words, names, symbols, factors = [len(fill.placed)], list[Name](), dict[Symbol, FillUnit](), 0
    for one in fill.placed:
        block = CodeBlocks(unit)
        block.symbols = symbols
        line: Value = LEAVE if one.line is None else block.value(one.line)
        results = line, block.value(one.position), block.value(one.value, pattern=True)
        block.keep(*results)
        code = block.words(len(words) + 1, names)
        head = packed([len(code), *map(block.located, results)], len(words), names)
        words += [head, *code]
        factors = max(factors, block.factors)
    return Movable(tuple(words), Flag(0), names, symbols, factors)


def _factor_bytes(one: Sum, lines: int, columns: int) -> int:
    """Return the memory that factors of a sum take: see `wf_factors` in contents.h."""
    if one.a.bits == 64:
        return 0
    size = 2 if one.rounded is None else 4
    depth = one.depth // 8 if one.a.kind is FormatKind.BITS else one.depth
    return size * (lines * (depth + 1) + columns * (depth * (1 + (one.run > 0)) + 1))


def _numbers_of(one: Sum) -> tuple[int, ...]:
    """Return the numbers of a sum.

    Which kind (0 integers, 1 bits and, 2 bits xor, 3 floats, 4 f64); k, of single bits bytes of
    them; run. Then of integers for A and B the sign bit, or 0; of floats for A and B the bits below
    the exponent, those of them that are ignored, the exponent field of the window's least
    exponent, the mask of its exponents and the sign's place above the lowest bit of that field,
    then the scale, span and lost bits of the sum, and of
    C the bits of its fraction, its bias and its sign bit.
    """
    c = one.rounded
    if c is None:
        if one.a.kind is FormatKind.BITS:
            return 1 + (one.operation != "and"), one.depth // 8, one.run
        signs = ((1 << t.bits - 1) * (t.kind is FormatKind.SIGNED) for t in (one.a, one.b))
        return 0, one.depth, one.run, *signs
    windows = (
        (
            *(f.shift, f.format.ignored_bits, f.window_field, (1 << f.window_bits) - 1),
            f.sign.bit_length() - 1 - f.shift,
        )
        for f in factor_fields(one)
    )
    kind = 4 if one.a.bits == 64 else 3
    figures = (*scaling(one), c.fraction_bits, c.bias, 1 << c.bits - 1)
    return kind, one.depth, one.run, *(part for window in windows for part in window), *figures
