"""Contents as plain arrays, for a device that makes the same images: runners/reference/contents.h.

Rows of blocks: what an image is made in holds the blocks of 16 bytes that anything reads back to
back. Image n of a recipe is made in these steps, each by any number of lanes, with a barrier behind
it:

1. Words. Each block gets its random words, and stays; so do 64 draws and what is added in gaps.
   Images of a group share them, each a constant further on.
2. A copy of the row is begun with them, and the numbers that are the same for a whole matrix
   ("scalars") are computed by the image's own code.
3. For each filling, in order, every element gets the value of the expression `everywhere` of the
   fill whose turn it is;
4. then elements that are placed over the others get theirs.
5. The row goes to its blocks of the image; the other blocks get what gaps are filled with.

Slot s = n mod period and turn t = n div period choose the code: entry (t mod turns, s) of `starts`
is where the image's own code is, and that of each filling.

Code is 64-bit words. The image's own starts with the number of its instructions, which compute
scalars. A fill's starts with one of four numbers of 16 bits, low ones first: how many instructions
compute `everywhere` of an element, the operand that holds it (LEAVE: elements stay as they are),
`_Flag`s, and how many elements are placed. The instructions
follow, then each placed one: again four numbers of 16 bits (its instructions, and the operands of
line, LEAVE for every line, of position and of value), and its instructions, which are computed with
64 bits.

An instruction is, from bit 0 on: 5 bits of `Code` (SUM is 8, RIGHT of a number 22); 1 that says
that the result is cut to as many bits as the third operand says; 10 bits of the slot that keeps
the result (NOWHERE: none; of the image's own code, the scalar); three operands of 16 bits. An
operand from 2^15 on is a constant; else bits 12 to 14 say what it is (`_Kind`), and the bits below
which one. Of a DRAW the second operand is its bound less 1; of tables the second and the third are
where they start, and the number of values less 1; of SUM the second is where the numbers of `_sum`
start.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from functools import cache, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from oracle.formats import FORMATS, Kind
from oracle.program import Program
from strategies.contents import native
from strategies.contents.expressions import NOISE, Code, Fill, Node, Table
from strategies.contents.fills import fills_of
from strategies.contents.floats import Sum
from strategies.contents.native import CONSTANT, NOWHERE, RIGHT_OF_NUMBERS, SUM, Native
from strategies.contents.native import Instruction as _Instruction
from strategies.contents.native import Operand as _Value
from strategies.contents.operands import Operand, Types
from strategies.contents.philox import sharing
from strategies.contents.plans import BLOCK, Filling, Plan, Window, plan_of
from strategies.contents.recipes import Recipe

LEAVE = 0xFFFF
SLOTS = 16
"""Values that a device keeps for an element."""
_RECIPROCAL_BITS = 40
_READ_ONLY = 1 << 31
_HEADER = 12
"""Words of 64 bits in front of the arrays."""
_ORDERED = -2
"""In place of where numbers of elements start, of elements in the order of their numbers."""
_NUMBERS, _PARTS, _A, _B = 6, 7, 8, 9
"""Of a row of `fillings`: where numbers of its elements start, whether the bytes of these lie
apart, and how many rows further A and B are."""
_DRAW_BLOCKS = 8
_NATIVE_BYTES = 32 << 10
"""Most bytes of the blocks of an image, twice, and its draws, for native code: it works in shared
memory, of which a block has 48 KiB; what else an image needs there has less than 16 KiB."""


class _Kind(IntEnum):
    """What an operand is."""

    SLOT = 0
    SCALAR = 1
    LAST = 2
    """The result of the instruction before."""


_NONE = _Kind.LAST << 12


class _Flag(IntFlag):
    """What a fill is."""

    NARROW = 1
    """32 bits are enough for all of its numbers."""
    SUMS = 2
    """It has sums, for which A and B are taken apart first."""
    MASKED = 4
    """Its instructions are NOISE, AND of a number that is the same for all elements, and maybe ADD
    of another one; or there are none, and the value is such a number."""
    NATIVE = 8
    """`everywhere` is native code (`native`): its number stands for the operand, and words with its
    numbers for the instructions."""
    NATIVE_PLACED = 16
    """What is placed is: the number of elements is that of the code plus 1, and words with its
    numbers stand for them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DeviceContents:
    """What a device is given."""

    seed: int
    """Key of Philox4x32-10."""
    period: int
    sharing: int
    """Images n with the same n div (period x sharing) share words (`philox`)."""
    image_bytes: int
    drawn: NDArray[np.uint32]
    """Numbers of the blocks of 16 bytes that anything reads."""
    gaps: NDArray[np.uint32]
    """Numbers of the blocks of 16 bytes that nothing reads."""
    turns: int
    """Turns after which each class is filled in the same way again."""
    scalars: int
    """How many of them an image has at most."""
    factors: int
    """Bytes of the memory that A and B of a sum are taken apart in."""
    fillings: NDArray[np.int32]
    """(fillings, 14): bits of an element; lines; elements that are filled; elements of a line in
    memory; whether the matrix's lines lie across those in memory; where its `places` start; where
    the numbers of the elements that are filled start among `places`, or -1: all, or -2: all, which
    lie in whole blocks (below) in the order of their numbers, a multiple of four in a line; whether
    `places` are those of all bytes, not of the first ones of elements; how many rows further the
    fillings of A and of B are whose product a C belongs to, or 0; 2^40 over the elements of a line
    in memory, rounded up, low half first; if elements are those of whole blocks of the row and have
    no other's bytes, the first of these blocks, and how many there are, else 0. Of 4 bits two
    elements share a byte, and a place; the first is the low one."""
    starts: NDArray[np.int32]
    """(turns, period, 1 + fillings)"""
    code: NDArray[np.uint64]
    constants: NDArray[np.uint64]
    places: NDArray[np.uint32]
    """Byte of the row for each element of a filling, line by line as they lie in memory; with bit
    31 it is only read: another element of the filling that has the same byte writes it."""

    @property
    def words(self) -> NDArray[np.uint64]:
        """All of it, as `wf_opened` in contents.h reads it.

        Twelve words: the seed, then period and sharing, bytes of an image and number of fillings,
        numbers of blocks that are read and of others, turns and scalars (low half first), factors,
        then at which word each array starts, in the order that they have above.
        """
        blocks = np.concatenate([self.drawn, self.gaps])
        arrays = (blocks, self.fillings, self.starts, self.code, self.constants, self.places)
        parts = [array.tobytes() for array in arrays]
        parts = [part + bytes(-len(part) % 8) for part in parts]
        starts = _HEADER + np.cumsum([0, *(len(part) // 8 for part in parts[:-1])])
        header = [self.seed]
        for low, high in (
            (self.period, self.sharing), (self.image_bytes, len(self.fillings)),
            (len(self.drawn), len(self.gaps)), (self.turns, self.scalars), (self.factors, 0),
        ):  # fmt: skip
            header.append(low | high << 32)
        header += starts.tolist()
        return np.frombuffer(np.array(header, "<u8").tobytes() + b"".join(parts), "<u8")


def device_contents(recipe: Recipe, program: Program, *, is_native: bool = True) -> DeviceContents:
    """Return what a device needs to make the images of a recipe.

    Parameters
    ----------
    is_native
        Whether native code is used where there is some; images are the same without.
    """
    plan = plan_of(program)
    is_native &= (2 * len(plan.blocks) + _DRAW_BLOCKS) * BLOCK <= _NATIVE_BYTES
    numbers: dict[Window, int] = {one.window: i for i, one in enumerate(plan.fillings)}
    live = _live(plan)
    fillings, places, size = [], list[NDArray[np.uint32]](), 0
    for one, some in zip(plan.fillings, live, strict=True):
        row, own = _row(one, numbers, some, size)
        fillings.append(row)
        places.append(own)
        size += own.size
    untouched = _untouched(plan, live)
    turns = math.lcm(
        *(len(one.fills[class_]) for one in plan.fillings for class_ in recipe.classes)
    )
    code = _Assembler()
    is_whole = [is_native and not row[_PARTS] for row in fillings]
    are_ordered = [
        all(fillings[number + further][_NUMBERS] == _ORDERED for further in row[_A : _B + 1])
        for number, row in enumerate(fillings)
    ]
    starts = np.zeros((turns, len(recipe.classes), 1 + len(fillings)), np.int32)
    scalars = 0
    for slot, class_ in enumerate(recipe.classes):
        made = _Class(code)
        for turn in range(turns):
            made.needed = {}
            for number, one in enumerate(plan.fillings):
                fills = one.fills[class_]
                fill = fills[turn % len(fills)]
                is_done = fill.everywhere is NOISE and untouched[number]
                is_known = are_ordered[number] or not _has_sums(fill.everywhere)
                starts[turn, slot, 1 + number] = made.start(
                    fill, one.window, is_done=is_done, is_native=is_whole[number] and is_known
                )
            starts[turn, slot, 0] = made.image()
        scalars = max(scalars, len(made.scalars))
    blocks = np.arange(program.image_bytes // BLOCK)
    return DeviceContents(
        seed=recipe.seed,
        period=len(recipe.classes),
        sharing=sharing(len(recipe.classes)),
        image_bytes=program.image_bytes,
        drawn=plan.blocks.astype(np.uint32),
        gaps=np.setdiff1d(blocks, plan.blocks).astype(np.uint32),
        turns=turns,
        scalars=scalars,
        factors=-(-code.factors // BLOCK) * BLOCK,
        fillings=np.array(fillings, np.int32).reshape(-1, 14),
        starts=starts,
        code=np.array(code.words, np.uint64),
        constants=np.array([one & (1 << 64) - 1 for one in code.constants], np.uint64),
        places=np.concatenate([np.zeros(0, np.uint32), *places]),
    )


def _live(plan: Plan) -> list[NDArray[np.intp] | None]:
    """Return which elements of each filling are filled; None: all.

    Bytes that are filled first, and nobody reads before all of them are filled again, are left out.
    """
    live: list[NDArray[np.intp] | None] = [None] * len(plan.fillings)
    if len(plan.fillings) < 2:
        return live
    first, *others = plan.fillings
    fills = [fill for fills in first.fills.values() for fill in fills]
    if first.window.bits != 8 or any(one.placed or _reads_others(one.everywhere) for one in fills):
        return live
    later = np.concatenate([one.window.places.ravel() for one in others])
    some = np.flatnonzero(~np.isin(first.window.places.ravel(), later))
    if some.size < first.window.places.size:
        live[0] = some
    return live


def _untouched(plan: Plan, live: list[NDArray[np.intp] | None]) -> list[bool]:
    """Return of each filling whether no element of it was filled before."""
    found, before = [], np.zeros(0, np.int64)
    for one, some in zip(plan.fillings, live, strict=True):
        places = one.window.places.ravel()
        found.append(not np.isin(places, before).any())
        before = np.concatenate([before, places if some is None else places[some]])
    return found


def _row(
    one: Filling, numbers: dict[Window, int], live: NDArray[np.intp] | None, start: int
) -> tuple[tuple[int, ...], NDArray[np.uint32]]:
    """Return a row of `fillings`, and its places."""
    window = one.window
    both = (0, 0)
    if one.multiplicands is not None:
        a, b = (numbers[w] - numbers[window] for w in one.multiplicands)
        both = a, b
    lines, positions = window.shape
    units = window.places.reshape(-1, window.unit_bytes)
    written = window.last.reshape(units.shape)
    whole = (units - units[:, :1] == np.arange(window.unit_bytes)).all()
    whole = whole and not (units[:, 0] % window.unit_bytes).any()
    whole = whole and bool((written == written[:, :1]).all())
    if whole:
        units, written = units[:, 0], written[:, 0]
    first, blocks = int(window.places.min()) // BLOCK, window.places.size // BLOCK
    every = np.arange(first * BLOCK, (first + blocks) * BLOCK)
    if live is not None or not whole or not np.array_equal(np.sort(window.places.ravel()), every):
        first = blocks = 0
    places = (units | np.where(written, 0, _READ_ONLY)).ravel().astype(np.uint32)
    columns = lines if window.is_turned else positions
    is_ordered = blocks > 0 and np.array_equal(window.places.ravel(), every) and not columns % 4
    count, at = lines * positions, _ORDERED if is_ordered else -1
    if live is not None:
        count, at = live.size, start + places.size
        places = np.concatenate([places, live.astype(np.uint32)])
    high, low = divmod(-(-(1 << _RECIPROCAL_BITS) // columns), 1 << 32)
    return (
        window.bits, lines, count, columns, int(window.is_turned), start, at, int(not whole), *both,
        low - (low >> 31 << 32), high, first, blocks,
    ), places  # fmt: skip


_LINES = {Code.LINE, Code.POSITION, Code.NOISE, Code.AT, Code.SUM}


@cache
def _reads_others(node: Node) -> bool:
    """Whether a value depends on other elements."""
    return node.code in (Code.AT, Code.SUM) or any(map(_reads_others, node.arguments))


@cache
def _has_sums(node: Node) -> bool:
    return node.code is Code.SUM or any(map(_has_sums, node.arguments))


@cache
def _is_uniform(node: Node) -> bool:
    """Whether a value is the same for all elements of a matrix."""
    return node.code not in _LINES and all(map(_is_uniform, node.arguments))


@cache
def _has_patterns(node: Node) -> bool:
    """Whether a value depends on how wide patterns are."""
    return node.is_pattern or any(map(_has_patterns, node.arguments))


_Bounds = tuple[int, int]
_ANY = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True)
class _Unit:
    """What the bounds of values depend on."""

    bits: int
    """Bits of a pattern in memory."""
    lines: int
    positions: int

    @property
    def mask(self) -> int:
        """The largest pattern."""
        return (1 << self.bits) - 1


@lru_cache(maxsize=1 << 12)
def _patterns(table: Table, unit: _Unit) -> tuple[int, ...]:
    """Return the values of a table of patterns."""
    return tuple(one & unit.mask for one in table.values)


@lru_cache(maxsize=1 << 15)
def _bounds(node: Node, unit: _Unit) -> _Bounds:
    """Return the least and the largest value that an element may have."""
    low, high = _raw_bounds(node, unit)
    if node.is_pattern and not (low >= 0 and high <= unit.mask):
        return 0, unit.mask
    return (low, high) if _ANY[0] <= low and high <= _ANY[1] else _ANY


def _argument_bounds(node: Node, argument: Node, unit: _Unit) -> _Bounds:
    if argument.code is Code.CONSTANT:
        value = argument.value & unit.mask if node.is_pattern else argument.value
        return value, value
    return _bounds(argument, unit)


def _raw_bounds(node: Node, unit: _Unit) -> _Bounds:
    """Return bounds before a pattern is cut to its width."""
    pattern = 0, unit.mask
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
            return pattern
        case Code.PATTERN:
            values = _patterns(node.value, unit)
            return min(values), max(values)
        case Code.NUMBER:
            return min(node.value.values), max(node.value.values)
        case Code.WIDE | Code.NARROW:
            return each[0]
        case Code.EQUAL | Code.LESS:
            return 0, 1
        case Code.SELECT:
            return _around(end for ends in each[1:] for end in ends)
        case Code.CLIP:
            (low, high), (least, _), (_, most) = each
            return min(max(low, least), most), max(min(high, most), least)
        case Code.SUM if node.value.rounded is not None:
            return pattern
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


def _around(values: Iterable[int]) -> _Bounds:
    found = list(values)
    return min(found), max(found)


@dataclass(frozen=True)
class _Code:
    """Code of half a fill."""

    words: list[int]
    result: int
    """Of `everywhere` the operand, of what is placed the number."""
    flags: _Flag


@dataclass(eq=False)
class _Assembler:
    """Collects code and constants."""

    words: list[int] = field(default_factory=list)
    constants: list[int] = field(default_factory=list)
    factors: int = 0
    """Most bytes that factors of a sum take."""
    _known: dict[object, int] = field(default_factory=dict)

    def append(self, everywhere: _Code, placed: _Code) -> int:
        """Append the code of a fill; return where it starts."""
        start, flags = len(self.words), everywhere.flags | placed.flags
        head = _packed(len(everywhere.words), everywhere.result, flags, placed.result)
        self.words += [head, *everywhere.words, *placed.words]
        return start

    def constant(self, value: int) -> int:
        """Return the operand of a constant."""
        return CONSTANT | self.stored(value, (value,))

    @property
    def contents(self) -> dict[int, tuple[object, tuple[int, ...]]]:
        """Key and values of each constant and table, by where it starts."""
        ends = [*self._known.values(), len(self.constants)][1:]
        return {
            start: (key, tuple(self.constants[start:end]))
            for (key, start), end in zip(self._known.items(), ends, strict=True)
        }

    def tables(self, made: Native) -> tuple[tuple[object, tuple[int, ...]], ...]:
        """Return key and values of each table of native code."""
        contents = self.contents
        return tuple(contents[made.numbers[place]] for place in made.tables)

    def need(self, factors: int) -> None:
        """Note what factors of a sum take."""
        self.factors = max(self.factors, factors)

    def stored(self, key: object, values: tuple[int, ...]) -> int:
        """Return where constants are."""
        if key not in self._known:
            self._known[key] = len(self.constants)
            self.constants += values
            if len(self.constants) > CONSTANT:
                raise AssertionError("contents need more constants than operands can name")
        return self._known[key]


_Key = tuple[Node, int]
"""A scalar, and the bits of its patterns."""


class _Class:
    """Code of a class of contents, and its scalars."""

    def __init__(self, assembler: _Assembler) -> None:
        self._assembler = assembler
        self.scalars: dict[_Key, int] = {}
        self.needed: dict[_Key, _Unit] = {}
        """Those of the present turn."""
        self._starts: dict[object, tuple[int, dict[_Key, _Unit]]] = {}
        self._images: dict[tuple[_Key, ...], int] = {}

    def start(self, fill: Fill, window: Window, *, is_done: bool, is_native: bool) -> int:
        """Return where the code of a fill starts.

        Parameters
        ----------
        is_done
            Whether the elements have their values already.
        is_native
            Whether native code can be used.
        """
        unit = _Unit(8 * window.unit_bytes, *window.shape)
        key = fill, unit, window.bits, is_done, is_native
        if key not in self._starts:
            before, self.needed = self.needed, {}
            bits = window.bits
            code = self._everywhere(fill, unit, bits, is_done=is_done, is_native=is_native)
            placed = self._placed(fill, unit, bits, is_native=is_native)
            self._starts[key] = self._assembler.append(code, placed), self.needed
            self.needed = before
        start, needed = self._starts[key]
        self.needed |= needed
        return start

    def image(self) -> int:
        """Return where the code of an image starts, which computes the scalars that are needed."""
        key = tuple(self.needed)
        if key not in self._images:
            block = _Block(self, self._assembler, is_of_image=True)
            for (node, _), unit in self.needed.items():
                block.unit = unit
                block.value(node)
            self._images[key] = len(self._assembler.words)
            self._assembler.words += [len(block.instructions), *block.words()]
        return self._images[key]

    def _everywhere(
        self, fill: Fill, unit: _Unit, bits: int, *, is_done: bool, is_native: bool
    ) -> _Code:
        if is_done:
            return _Code([], LEAVE, _Block(self, self._assembler, unit).flags)
        if is_native:
            made = _native(fill, unit, bits)[0]
            if made is not None:
                return _Code(made.words(self._assembler), made.number, _Flag.NATIVE)
        return self._moved(_movable_everywhere(fill, unit))

    def _placed(self, fill: Fill, unit: _Unit, bits: int, *, is_native: bool) -> _Code:
        if is_native:
            made = _native(fill, unit, bits)[1]
            if made is not None:
                return _Code(made.words(self._assembler), made.number + 1, _Flag.NATIVE_PLACED)
        return self._moved(_movable_placed(fill, unit))

    def _moved(self, made: _Movable) -> _Code:
        """Return code that has the numbers of constants and scalars that these have here."""
        self._assembler.need(made.factors)
        constants = {
            start: self._assembler.stored(*stored) for start, stored in made.stored.items()
        }
        scalars = []
        for key, unit in made.needed:
            self.needed.setdefault(key, unit)
            scalars.append(self.number_of(key))
        words = [made.code.result, *made.code.words]
        for place, shift, number in made.constants:
            words[place] += constants[number] - number << shift
        for place, shift, number in made.scalars:
            words[place] += scalars[number] - number << shift
        return _Code(words[1:], words[0], made.code.flags)

    def number_of(self, key: _Key) -> int:
        """Return the number of a scalar."""
        number = self.scalars.setdefault(key, len(self.scalars))
        if number >= NOWHERE:
            raise AssertionError("an image of contents needs more scalars than there are")
        return number


class _Block:
    """Instructions in a row, of an element or of an image; without a class all that it needs."""

    def __init__(
        self,
        class_: _Class | None,
        assembler: _Assembler,
        unit: _Unit = _Unit(64, 1, 1),
        *,
        is_of_image: bool = False,
    ) -> None:
        self._class, self._assembler, self._is_of_image = class_, assembler, is_of_image
        self.unit = unit
        self.instructions: list[_Instruction] = []
        self.is_narrow = unit.bits <= 32
        """Whether 32 bits are enough."""
        self._known: dict[_Key, _Value] = {}
        self._places: dict[int, int] = {}

    @property
    def flags(self) -> _Flag:
        """What these instructions are."""
        flags = _Flag.NARROW if self.is_narrow else _Flag(0)
        codes = [one.code for one in self.instructions]
        if SUM in codes:
            flags |= _Flag.SUMS
        if self.is_narrow and codes in _MASKS:
            is_chain = all(
                one.operands[0] is before and isinstance(one.operands[1], int)
                for before, one in pairwise(self.instructions)
            )
            flags |= _Flag.MASKED if is_chain else 0
        return flags

    def value(self, node: Node, *, pattern: bool = False) -> _Value:
        """Compute a node.

        Parameters
        ----------
        pattern
            Whether a constant is one.
        """
        unit = self.unit
        if node.code is Code.CONSTANT:
            value = node.value & unit.mask if pattern else node.value
            self._note(value, value, is_pattern=pattern)
            return self._assembler.constant(value)
        self._note(*_bounds(node, unit), is_pattern=node.is_pattern)
        if node.code is Code.WIDE or (node.code is Code.NARROW and not _is_cut(node, unit)):
            return self.value(node.arguments[0], pattern=node.is_pattern)
        key = node, unit.bits if _has_patterns(node) else 0
        if self._class is not None and _is_uniform(node) and not self._is_of_image:
            self._class.needed.setdefault(key, unit)
            return _Kind.SCALAR << 12 | self._class.number_of(key)
        if key not in self._known:
            made = self._known[key] = self._computed(node)
            if self._class is not None and self._is_of_image:
                made.slot = self._class.number_of(key)
        return self._known[key]

    def _note(self, low: int, high: int, *, is_pattern: bool) -> None:
        """Note what values there are."""
        most = (1 << 32) - 1 if is_pattern else (1 << 31) - 1
        self.is_narrow &= low >= -(1 << 31) and high <= most

    def _computed(self, node: Node) -> _Instruction:
        unit, code = self.unit, int(node.code)
        if node.code is Code.SUM:
            numbers = _sum(node.value)
            start = self._assembler.stored((node.value,), numbers)
            size = _factor_bytes(node.value, unit.lines, unit.positions)
            self._assembler.need(size)
            return self._add(SUM, _NONE, start, len(numbers) - 1)
        if isinstance(node.value, Table):
            values = _patterns(node.value, unit) if node.is_pattern else node.value.values
            key = node.value, node.is_pattern and unit.bits
            start = self._assembler.stored(key, values)
            return self._add(code, self.value(node.arguments[0]), start, len(values) - 1)
        if node.code is Code.DRAW:
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

    def _argument(self, node: Node, argument: Node) -> _Value:
        value = self.value(argument, pattern=node.is_pattern)
        low, high = _argument_bounds(node, argument, self.unit)
        if node.is_pattern and node.code in _WHOLE and not 0 <= low <= high <= self.unit.mask:
            made = value = self._add(Code.NARROW, value, cut=self.unit.bits)
            if self._class is not None and self._is_of_image:
                made.slot = self._class.number_of((argument, -self.unit.bits))
        return value

    def _add(self, code: int, *operands: _Value, cut: int = 0) -> _Instruction:
        made = _Instruction(int(code), [*operands], cut)
        self.instructions.append(made)
        return made

    def words(self, *results: _Value) -> list[int]:
        """Return the instructions, with slots for what is needed later than at once."""
        self._places = {id(one): number for number, one in enumerate(self.instructions)}
        last = list(range(len(self.instructions)))
        for number, one in enumerate([*self.instructions, _Instruction(0, [*results])]):
            for operand in one.operands:
                if isinstance(operand, _Instruction):
                    last[self._places[id(operand)]] = number
        free, busy, words = list(range(SLOTS))[::-1], list[tuple[int, int]](), list[int]()
        for number, one in enumerate(self.instructions):
            operands = (self.operand(x, number) for x in one.operands)
            first, second, third = (*operands, _NONE, _NONE, _NONE)[:3]
            free += [slot for until, slot in busy if until <= number]
            busy = [(until, slot) for until, slot in busy if until > number]
            if last[number] > number + 1 and not self._is_of_image:
                if not free:
                    raise AssertionError("a fill of contents needs more slots than there are")
                one.slot = free.pop()
                busy.append((last[number], one.slot))
            flags = one.code | (one.cut > 0) << 5 | one.slot << 6
            words.append(_packed(flags, first, second, one.cut or third))
        return words

    def operand(self, value: _Value, number: int) -> int:
        """Return the operand that holds a value for the instruction of a number."""
        if not isinstance(value, _Instruction):
            return value
        if self._places[id(value)] == number - 1:
            return _Kind.LAST << 12
        return (_Kind.SCALAR if self._is_of_image else _Kind.SLOT) << 12 | value.slot


@dataclass(frozen=True)
class _Movable:
    """Code of half a fill, for any program: constants and scalars have numbers of its own."""

    code: _Code
    constants: tuple[tuple[int, int, int], ...]
    """Where it names constants: the word (0 for the result, 1 for the first), the lowest bit, and
    the number."""
    scalars: tuple[tuple[int, int, int], ...]
    """The same of scalars."""
    stored: dict[int, tuple[object, tuple[int, ...]]]
    """Its constants, as `_Assembler.contents`."""
    needed: tuple[tuple[_Key, _Unit], ...]
    """The scalars, in the order of their numbers."""
    factors: int


@lru_cache(maxsize=1 << 14)
def _movable_everywhere(fill: Fill, unit: _Unit) -> _Movable:
    """Return code of `everywhere` of a fill."""
    assembler = _Assembler()
    class_ = _Class(assembler)
    block = _Block(class_, assembler, unit)
    value = block.value(fill.everywhere, pattern=True)
    words = block.words(value)
    names = _Names()
    names.operand(0, 0, result := block.operand(value, len(words)))
    names.instructions(1, words)
    return names.movable(_Code(words, result, block.flags), class_, assembler)


@lru_cache(maxsize=1 << 14)
def _movable_placed(fill: Fill, unit: _Unit) -> _Movable:
    """Return code of what a fill places over the others."""
    assembler = _Assembler()
    class_ = _Class(assembler)
    words, names = list[int](), _Names()
    for one in fill.placed:
        block = _Block(class_, assembler, unit)
        line = LEAVE if one.line is None else block.value(one.line)
        results = line, block.value(one.position), block.value(one.value, pattern=True)
        code = block.words(*results)
        operands = [block.operand(value, len(code)) for value in results]
        for number, operand in enumerate(operands, 1):
            names.operand(1 + len(words), 16 * number, operand)
        names.instructions(2 + len(words), code)
        words += [_packed(len(code), *operands), *code]
    return names.movable(_Code(words, len(fill.placed), _Flag(0)), class_, assembler)


class _Names:
    """Where code names constants and scalars."""

    def __init__(self) -> None:
        self._constants: list[tuple[int, int, int]] = []
        self._scalars: list[tuple[int, int, int]] = []

    def operand(self, place: int, shift: int, operand: int) -> None:
        """Note an operand of a word."""
        if operand == LEAVE:
            return
        if operand & CONSTANT:
            self._constants.append((place, shift, operand & ~CONSTANT))
        elif operand >> 12 == _Kind.SCALAR:
            self._scalars.append((place, shift, operand & 0xFFF))

    def instructions(self, first: int, words: Iterable[int]) -> None:
        """Note the operands of instructions that follow each other."""
        for place, word in enumerate(words, first):
            code, is_cut = word & 0x1F, word >> 5 & 1
            operands = [word >> shift & 0xFFFF for shift in (16, 32, 48)]
            count = 3 - is_cut
            if code in _NAMES_TABLES:
                self._constants.append((place, 32, operands[1]))
                count = 1
            elif code == Code.DRAW:
                count = 1
            for number, operand in enumerate(operands[:count], 1):
                self.operand(place, 16 * number, operand)

    def movable(self, code: _Code, class_: _Class, assembler: _Assembler) -> _Movable:
        """Return code with the names that were noted."""
        return _Movable(
            code=code,
            constants=tuple(self._constants),
            scalars=tuple(self._scalars),
            stored=assembler.contents,
            needed=tuple(class_.needed.items()),
            factors=assembler.factors,
        )


@dataclass(frozen=True)
class _Known:
    """Native code of half a fill, for any program."""

    number: int
    native: Native
    tables: tuple[tuple[object, tuple[int, ...]], ...]
    """Key and values of each of its tables."""

    def words(self, assembler: _Assembler) -> list[int]:
        """Return its numbers as words, with the places of tables."""
        numbers = list(self.native.numbers)
        for place, (key, values) in zip(self.native.tables, self.tables, strict=True):
            numbers[place] = assembler.stored(key, values)
        return self.native.words(numbers)


@lru_cache(maxsize=1 << 14)
def _native(fill: Fill, unit: _Unit, bits: int) -> tuple[_Known | None, _Known | None]:
    """Return native code for `everywhere` and for what is placed, if there is some."""
    found = []
    for made in _natives(fill, unit, bits):
        number = None if made is None else _numbers().get(made[0].text)
        found.append(None if made is None or number is None else _Known(number, *made))
    return found[0], found[1]


_Made = tuple[Native, tuple[tuple[object, tuple[int, ...]], ...]]


def _natives(fill: Fill, unit: _Unit, bits: int) -> tuple[_Made | None, _Made | None]:
    """Return native code of both halves of a fill, of a known shape or not, and their tables."""
    if bits == 4 or not _are_summed_together(fill.everywhere, unit):  # 4: two share a byte
        return None, None
    own = _Assembler(), _Assembler()
    first, second = (_Block(None, one, unit) for one in own)
    value = first.value(fill.everywhere, pattern=True)
    results = [
        (
            None if one.line is None else second.value(one.line),
            second.value(one.position),
            second.value(one.value, pattern=True),
        )
        for one in fill.placed
    ]
    halves = (
        native.everywhere(first.instructions, value, own[0].constants) if first.is_narrow else None,
        native.placed(second.instructions, results, own[1].constants) if second.is_narrow else None,
    )
    made = [
        None if half is None else (half, one.tables(half))
        for half, one in zip(halves, own, strict=True)
    ]
    return made[0], made[1]


def _are_summed_together(node: Node, unit: _Unit) -> bool:
    """Whether native code can make the sums of a value: `wf_each_sum` in contents.h."""
    one = node.value
    if isinstance(one, Sum):
        sizes = unit.lines % 4, unit.positions % 4, one.depth % 4
        return one.rounded is not None and one.a.bits < 64 and not one.run and not any(sizes)
    return all(_are_summed_together(argument, unit) for argument in node.arguments)


_EXAMPLES = (("f16", "f32", 16), ("s8", "s32", 32))
"""Multiplicands, accumulators and k of multiplications of whose fills there is native code. What
fills others has the same shapes mostly, but for f64, 4 bits, and B of which metadata choose."""


@cache
def shapes() -> tuple[str, ...]:
    """Return the texts of all shapes of which native.h has functions, in their order."""
    found = dict[str, None]()
    for multiplicand, accumulator, depth in _EXAMPLES:
        a, c = FORMATS[multiplicand], FORMATS[accumulator]
        types = Types(a=a, b=a, c=c, d=c, depth=depth)
        for name, positions in (("a", depth), ("b", depth), ("c", 16)):
            x = Operand(name=name, types=types, lines=16, positions=positions, is_of_sum=True)
            unit = _Unit(x.type.bits, 16, positions)
            for fill in (one for fills in fills_of(x).values() for one in fills):
                found |= {made[0].text: None for made in _natives(fill, unit, x.type.bits) if made}
    return tuple(sorted(found))


@cache
def _numbers() -> dict[str, int]:
    return {text: number for number, text in enumerate(shapes())}


_MASKS: tuple[list[int], ...] = (
    [], [Code.NOISE, Code.AND], [Code.NOISE, Code.AND, Code.ADD],
)  # fmt: skip
"""Codes of the instructions of `_Flag.MASKED`."""
_NAMES_TABLES = (Code.PATTERN, Code.NUMBER, SUM)
"""Instructions whose second operand is where numbers start, and the third how many there are."""
_WHOLE = (Code.RIGHT, Code.EQUAL)
"""Operations of patterns whose results depend on more than the bits that are kept."""


@lru_cache(maxsize=1 << 15)
def _is_cut(node: Node, unit: _Unit) -> bool:
    """Whether a pattern may have more bits before it is cut to its width."""
    low, high = _raw_bounds(node, unit)
    return node.is_pattern and not 0 <= low <= high <= unit.mask


def _packed(*parts: int) -> int:
    return sum(part << 16 * i for i, part in enumerate(parts))


def _factor_bytes(one: Sum, lines: int, columns: int) -> int:
    """Return the memory that factors of a sum take: see `wf_factors` in contents.h."""
    if one.a.bits == 64:
        return 0
    size = 2 if one.rounded is None else 4
    depth = one.depth // 8 if one.a.kind is Kind.BITS else one.depth
    return size * (lines * (depth + 1) + columns * (depth * (1 + (one.run > 0)) + 1))


def _sum(one: Sum) -> tuple[int, ...]:
    """Return the numbers of a sum.

    Which kind (0 integers, 1 bits and, 2 bits xor, 3 floats, 4 f64); k, of single bits bytes of
    them; run. Then of integers for A and B the sign bit, or 0; of floats for A and B the bits below
    the exponent, those of them that are ignored, the exponent field of the window's least
    exponent, and the mask of its exponents, then the scale, span and lost bits of the sum, and of
    C the bits of its fraction, its bias and its sign bit.
    """
    if one.rounded is None:
        if one.a.kind is Kind.BITS:
            return 1 + (one.operation != "and"), one.depth // 8, one.run
        signs = ((1 << t.bits - 1) * (t.kind is Kind.SIGNED) for t in (one.a, one.b))
        return 0, one.depth, one.run, *signs
    windows = (
        (f.shift, f.format.ignored_bits, f.window_field, (1 << f.window_bits) - 1)
        for f in one.fields
    )
    c = one.rounded
    kind = 4 if one.a.bits == 64 else 3
    figures = (one.scale, one.span, one.lost, c.fraction_bits, c.bias, 1 << c.bits - 1)
    return kind, one.depth, one.run, *(part for window in windows for part in window), *figures
