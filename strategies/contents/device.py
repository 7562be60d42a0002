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
is where the image's own code is, and that of each filling. `bytecode` says what code is.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.program.program import Program
from strategies.contents.bytecode import CONSTANT as MOST_CONSTANTS
from strategies.contents.bytecode import (
    LEAVE,
    NOWHERE,
    CodeBlocks,
    FillScalar,
    FillUnit,
    Flag,
    Movable,
    Name,
    Stored,
    depends,
    movable_everywhere,
    movable_placed,
    packed,
)
from strategies.contents.expansion import Recipe, period_of, sharing
from strategies.contents.expressions import NOISE, Code, Fill
from strategies.contents.plans import BLOCK, Filling, FillPlan, Window, plan_of

_RECIPROCAL_BITS = 40
_READ_ONLY = 1 << 31
_HEADER = 12  # Words of 64 bits in front of the arrays


def device_contents(recipe: Recipe, program: Program) -> NDArray[np.uint64]:
    """Return what a device needs to make the images of a recipe, as `wf_opened` reads it.

    Twelve words: the seed, then period and sharing, bytes of an image and number of fillings,
    numbers of blocks that are read and of others, turns after which each class is filled in the
    same way again and scalars that an image has at most (low half first), bytes of the memory that
    A and B of a sum are taken apart in, then at which word each array starts:

    blocks of 16 bytes
        Numbers of those that anything reads, and of the others.
    fillings, int32 (fillings, 14)
        Bits of an element; lines; elements that are filled; elements of a line in memory; whether
        the matrix's lines lie across those in memory; where its places start; where the numbers of
        the elements that are filled start among places, or -1: all; whether places are those of all
        bytes, not of the first ones of elements; how many rows further the fillings of A and of B
        are whose product a C belongs to, or 0; 2^40 over the elements of a line in memory, rounded
        up, low half first; if elements are those of whole blocks of the row and have no other's
        bytes, the first of these blocks, and how many there are, else 0. Of 4 bits two elements
        share a byte, and a place; the first is the low one.
    starts, int32 (turns, period, 1 + fillings)
        Where code starts.
    code, uint64; constants, uint64
    places, uint32
        Byte of the row for each element of a filling, line by line as they lie in memory; with bit
        31 it is only read: another element of the filling that has the same byte writes it.
    """
    plan, classes, period = plan_of(program), recipe.classes, period_of(recipe)
    numbers: dict[Window, int] = {one.window: i for i, one in enumerate(plan.fillings)}
    live = _live(plan)
    fillings, places, size = [], [np.zeros(0, np.uint32)], 0
    for one, some in zip(plan.fillings, live, strict=True):
        row, own = _row(one, numbers, some, size)
        fillings.append(row)
        places.append(own)
        size += own.size
    untouched = _untouched(plan, live)
    turns = math.lcm(*(len(one.fills[class_]) for one in plan.fillings for class_ in classes))
    code, scalars = _Assembler(), 0
    starts = np.zeros((turns, period, 1 + len(fillings)), np.int32)
    for slot, class_ in enumerate(classes):
        code.begin()
        for turn in range(turns):
            code.needed = {}
            for number, one in enumerate(plan.fillings):
                fills = one.fills[class_]
                fill = fills[turn % len(fills)]
                is_done = fill.everywhere is NOISE and untouched[number]
                starts[turn, slot, 1 + number] = code.start(fill, one.window, is_done=is_done)
            starts[turn, slot, 0] = code.image()
        scalars = max(scalars, len(code.scalars))
    drawn = plan.blocks.astype(np.uint32)
    gaps = np.setdiff1d(np.arange(program.image_bytes // BLOCK), plan.blocks).astype(np.uint32)
    arrays: tuple[NDArray[Any], ...] = (
        np.concatenate([drawn, gaps]), np.array(fillings, np.int32), starts,
        np.array(code.words, np.uint64),
        np.array([one & (1 << 64) - 1 for one in code.constants], np.uint64),
        np.concatenate(places),
    )  # fmt: skip
    parts = [array.tobytes() for array in arrays]
    parts = [part + bytes(-len(part) % 8) for part in parts]
    header = [recipe.seed]
    for low, high in (
        (period, sharing(period)), (program.image_bytes, len(fillings)),
        (len(drawn), len(gaps)), (turns, scalars), (-(-code.factors // BLOCK) * BLOCK, 0),
    ):  # fmt: skip
        header.append(low | high << 32)
    header += (_HEADER + np.cumsum([0, *(len(part) // 8 for part in parts[:-1])])).tolist()
    return np.frombuffer(np.array(header, "<u8").tobytes() + b"".join(parts), "<u8")


def _live(plan: FillPlan) -> list[NDArray[np.intp] | None]:
    """Return which elements of each filling are filled; None: all.

    Bytes that are filled first, and nobody reads before all of them are filled again, are left out.
    """
    live: list[NDArray[np.intp] | None] = [None] * len(plan.fillings)
    if len(plan.fillings) < 2:
        return live
    first, *others = plan.fillings
    fills = [fill for fills in first.fills.values() for fill in fills]
    if first.window.bits != 8 or any(
        one.placed or depends(one.everywhere, Code.AT, Code.SUM) for one in fills
    ):
        return live
    later = np.concatenate([one.window.places.ravel() for one in others])
    some = np.flatnonzero(~np.isin(first.window.places.ravel(), later))
    if some.size < first.window.places.size:
        live[0] = some
    return live


def _untouched(plan: FillPlan, live: list[NDArray[np.intp] | None]) -> list[bool]:
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
    both = [numbers[w] - numbers[window] for w in one.multiplicands] or (0, 0)
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
    count, at = lines * positions, -1
    if live is not None:
        count, at = live.size, start + places.size
        places = np.concatenate([places, live.astype(np.uint32)])
    high, low = divmod(-(-(1 << _RECIPROCAL_BITS) // columns), 1 << 32)
    return (
        window.bits, lines, count, columns, int(window.is_turned), start, at, int(not whole), *both,
        low - (low >> 31 << 32), high, first, blocks,
    ), places  # fmt: skip


class _Assembler:
    """Collects code and constants, and the scalars of one class of contents after the other."""

    def __init__(self) -> None:
        self.words: list[int] = []
        self.constants: list[int] = []
        self.factors = 0  # Most bytes that factors of a sum take
        self._stored: dict[Stored, int] = {}

    def begin(self) -> None:
        """Begin with another class."""
        self.scalars: dict[FillScalar, int] = {}
        self.needed: dict[FillScalar, FillUnit] = {}  # Those of the present turn
        self._starts: dict[object, tuple[int, dict[FillScalar, FillUnit]]] = {}
        self._images: dict[tuple[FillScalar, ...], int] = {}

    def start(self, fill: Fill, window: Window, *, is_done: bool) -> int:
        """Return where the code of a fill starts; `is_done`: the elements have their values."""
        unit = FillUnit(8 * window.unit_bytes, *window.shape)
        key = fill, unit, window.bits, is_done
        if key not in self._starts:
            before, self.needed = self.needed, {}
            if is_done:
                first = [LEAVE], CodeBlocks(unit).flags
            else:
                first = self._moved(movable_everywhere(fill, unit))
            second = self._moved(movable_placed(fill, unit))
            (result, *words), (number, *others) = first[0], second[0]
            code = self.words
            self._starts[key] = len(code), self.needed
            head = packed([len(words), result, first[1] | second[1], number], 0, [])
            code += [head, *words, *others]
            self.needed = before
        start, needed = self._starts[key]
        self.needed |= needed
        return start

    def _moved(self, made: Movable) -> tuple[list[int], Flag]:
        self.factors = max(self.factors, made.factors)
        for one, unit in made.symbols.items():
            if isinstance(one, FillScalar):
                self.needed.setdefault(one, unit)
        numbers = {one: self._number(one) for one in made.symbols}
        words = list(made.words)
        for place, shift, one in made.names:
            words[place] += numbers[one] << shift
        return words, made.flags

    def _number(self, one: Stored | FillScalar) -> int:
        if isinstance(one, Stored):
            if one not in self._stored:
                self._stored[one] = len(self.constants)
                self.constants += one.values
                assert len(self.constants) <= MOST_CONSTANTS, (
                    "more constants than operands can name"
                )
            return self._stored[one]
        number = self.scalars.setdefault(one, len(self.scalars))
        assert number < NOWHERE, "an image of contents needs more scalars than there are"
        return number

    def image(self) -> int:
        key, code = tuple(self.needed), self.words
        if key not in self._images:
            block, names = CodeBlocks(FillUnit(64, 1, 1), has_scalars=False), list[Name]()
            for one, unit in self.needed.items():
                block.unit = unit
                block.value(one.node)
            for one, instruction in block.made:
                instruction.slot = self._number(one)
            words = [len(block.instructions), *block.words(1, names, of_image=True)]
            numbers = {one: self._number(one) for one in block.symbols}
            for place, shift, symbol in names:
                words[place] += numbers[symbol] << shift
            self._images[key] = len(code)
            code += words
        return self._images[key]
