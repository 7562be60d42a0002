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
from dataclasses import dataclass

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
from strategies.contents.expansion import sharing
from strategies.contents.expressions import NOISE, Code, Fill
from strategies.contents.plans import BLOCK, Filling, FillPlan, Window, plan_of
from strategies.contents.recipes import Recipe

_RECIPROCAL_BITS = 40
_READ_ONLY = 1 << 31
_HEADER = 12  # Words of 64 bits in front of the arrays


@dataclass(frozen=True, kw_only=True, eq=False)
class DeviceContents:
    """What a device is given."""

    seed: int  # Key of Philox4x32-10
    period: int
    sharing: int  # Images n with the same n div (period x sharing) share words (`philox`)
    image_bytes: int
    drawn: NDArray[np.uint32]  # Numbers of the blocks of 16 bytes that anything reads
    gaps: NDArray[np.uint32]  # Numbers of the blocks of 16 bytes that nothing reads
    turns: int  # Turns after which each class is filled in the same way again
    scalars: int  # How many of them an image has at most
    factors: int  # Bytes of the memory that A and B of a sum are taken apart in
    fillings: NDArray[np.int32]
    """(fillings, 14): bits of an element; lines; elements that are filled; elements of a line in
    memory; whether the matrix's lines lie across those in memory; where its `places` start; where
    the numbers of the elements that are filled start among `places`, or -1: all; whether
    `places` are those of all bytes, not of the first ones of elements; how many rows further the
    fillings of A and of B are whose product a C belongs to, or 0; 2^40 over the elements of a line
    in memory, rounded up, low half first; if elements are those of whole blocks of the row and have
    no other's bytes, the first of these blocks, and how many there are, else 0. Of 4 bits two
    elements share a byte, and a place; the first is the low one."""
    starts: NDArray[np.int32]  # (turns, period, 1 + fillings)
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


def device_contents(recipe: Recipe, program: Program) -> DeviceContents:
    """Return what a device needs to make the images of a recipe."""
    plan = plan_of(program)
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
                starts[turn, slot, 1 + number] = made.start(fill, one.window, is_done=is_done)
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
    """Collects code and constants."""

    def __init__(self) -> None:
        self.words: list[int] = []
        self.constants: list[int] = []
        self.factors = 0  # Most bytes that factors of a sum take
        self._known: dict[Stored, int] = {}

    def stored(self, one: Stored) -> int:
        if one not in self._known:
            self._known[one] = len(self.constants)
            self.constants += one.values
            assert len(self.constants) <= MOST_CONSTANTS, "more constants than operands can name"
        return self._known[one]


class _Class:
    """Code of a class of contents, and its scalars."""

    def __init__(self, assembler: _Assembler) -> None:
        self._assembler = assembler
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
            code = self._assembler.words
            self._starts[key] = len(code), self.needed
            head = packed([len(words), result, first[1] | second[1], number], 0, [])
            code += [head, *words, *others]
            self.needed = before
        start, needed = self._starts[key]
        self.needed |= needed
        return start

    def _moved(self, made: Movable) -> tuple[list[int], Flag]:
        self._assembler.factors = max(self._assembler.factors, made.factors)
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
            return self._assembler.stored(one)
        number = self.scalars.setdefault(one, len(self.scalars))
        assert number < NOWHERE, "an image of contents needs more scalars than there are"
        return number

    def image(self) -> int:
        key, code = tuple(self.needed), self._assembler.words
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
