"""A program of a warpgroup while it is drawn: its registers, and where matrices lie in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis.internal.conjecture.data import ConjectureData

from oracle.descriptors import UNIT, byte_addresses
from oracle.isa.forms import LANES, ROW_BYTES, WARPGROUP, Form
from oracle.isa.lookup import selectors_of
from oracle.isa.targets import Module
from oracle.program.lane_code import Assign, LaneCode
from oracle.program.operands import Buffer, Place
from oracle.program.program import Program
from oracle.program.steps import (
    Copy,
    OneWarp,
    Op,
    Step,
    plain_load,
)
from oracle.program.warpgroup import THREADS, WAYS, SharedTile
from strategies.features import Focus
from strategies.programs.builder import DIGITS, Builder, Dice, everything, operand_of
from strategies.programs.repairs import Draft

WORDS = 4  # Registers of A, and of every other value
_MOST_SHARED = 160 << 10  # Bytes of shared memory
LINES = 8  # Of a pattern (9.7.15.5.1.2)
_SWIZZLES = (128, 16, 64, 32)
CONSTANTS = (0x0101_0101, 0x8000_8000, 0x0001_0001, 0x8080_8080, 0x00FF_00FF)
OPERATIONS = ("xor.b32", "and.b32", "xor.b32", "prmt.b32")
_SELECTIONS = (0x1032, 0x3210, 0x0123, 0x2301)

Expression = tuple[str, str, int]
"""A value, and what is done with it."""


@dataclass
class GroupBuilder:
    """A program of a warpgroup while it is drawn."""

    data: ConjectureData
    forms: Sequence[Form]
    buffers: list[Buffer] = field(default_factory=list)
    before: list[Step] = field(default_factory=list)
    here: list[Draft] = field(default_factory=list)
    tiles: dict[object, list[SharedTile]] = field(default_factory=dict)
    d: dict[str, Form] = field(default_factory=dict)
    unset: set[str] = field(default_factory=set)  # D that nothing writes before, if that can be
    fresh: set[str] = field(default_factory=set)  # Those of them that nothing multiplies so far
    values: list[str] = field(default_factory=list)  # That are loaded, four registers each
    made: list[str] = field(default_factory=list)  # That are made for A's
    staged: list[str] = field(default_factory=list)  # Buffers of matrices in shared memory
    mbarriers: set[int] = field(default_factory=set)  # Numbers of those that are copied in bulk
    metadata: dict[str, str] = field(default_factory=dict)
    expressions: list[Expression] = field(default_factory=list)
    registers: int = 0
    most: int = 216  # Registers of all values, of the 255 that a thread has
    shared: int = 0
    words: int = 0
    parts: int = 0  # Drawn like programs of one warp
    asked: list[Callable[[GroupBuilder, Dice], None]] = field(default_factory=list)
    """What the first loop is to do, from the last on."""
    rows: int = 0  # Stores of rows
    fewest: int = 0  # Registers of a thread that compilers ask for, whatever its values are
    alone: Callable[[Builder], Program] | None = None  # What draws these
    focus: Focus = field(default_factory=Focus)
    module: Module = field(default_factory=Module.named)
    columns: int = 0  # of D's that are computed
    turns: int = 1  # of what is drawn now

    def dice(self) -> Dice:
        """Draw the digits of a group of decisions."""
        return Dice(self.data.draw_integer(0, DIGITS))

    def room(self, registers: int) -> bool:
        """Take registers, if there are so many."""
        fits = self.registers + registers <= self.most
        self.registers += registers if fits else 0
        return fits

    def twins(self, name: str, size: int) -> Place:
        """Return memory in a block, filled from a buffer of the image."""
        self.buffers += [
            Buffer(name=f"g{name}", space="global", size=size),
            Buffer(name=f"s{name}", space="shared", size=size, alignment=256),
        ]
        self.shared += -(-size // 1024) * 1024
        self.staged.append(f"s{name}")
        self.before.append(
            Copy(source=Place(buffer=f"g{name}"), destination=Place(buffer=f"s{name}"), size=size)
        )
        return Place(buffer=f"s{name}")

    def load(self, name: str, count: int) -> None:
        """Load a value of each thread."""
        size = THREADS * 4 * count
        self.buffers.append(Buffer(name=f"g{name}", space="global", size=size))
        place = Place(buffer=f"g{name}")
        self.before.append(plain_load(registers=name, count=count, place=place, lanes=THREADS))

    def word(self) -> Place:
        """Return a word of the image."""
        self.words += 1
        return Place(buffer="gwords", offset=4 * (self.words - 1))


def listed(name: str, first: int = 0) -> list[str]:
    """Return registers of a value, or of a D from one on."""
    return [f"{name}.{first + index}" for index in range(WORDS)]


def placed(builder: GroupBuilder, form: Form, dice: Dice) -> dict[str, Any]:
    """Return metadata and selector of a sparse A, if it is one."""
    if not form.has_metadata:
        return {}
    kind = form.a_type.name
    if kind not in builder.metadata:
        builder.metadata[kind] = f"e{len(builder.metadata)}"
        builder.room(1)
        builder.load(builder.metadata[kind], 1)
    selector = dice.one_of([*selectors_of(form)])
    return {"e": builder.metadata[kind], "selector": selector}


def tile_of(
    builder: GroupBuilder, form: Form, operand: str, dice: Dice, but: str = ""
) -> SharedTile:
    """Choose where a multiplicand lies: where one of its kind does, or in memory of its own.

    `but` is a buffer that it does not lie in.
    """
    matrix = form.matrix(operand)
    lines, depth = matrix.rows, matrix.columns
    if operand == "b":
        lines, depth = depth, lines
    key = operand, lines, depth, matrix.type.name
    all_ = builder.tiles.setdefault(key, [])
    known = [tile for tile in all_ if tile.place.buffer != but]
    built = dice.one_of(WAYS)
    if known and (dice.below(2) or builder.shared > _MOST_SHARED // 2):
        return replace(dice.one_of(known), built=built)
    line = depth * matrix.type.bits // 8  # bytes along K
    transposed = "imm-trans-b" in form.operands and dice.below(2) == 1
    swizzle = _SWIZZLES[dice.below(4)]
    pattern = LINES * swizzle
    near, far = pattern, pattern
    if not transposed:
        near = pattern if swizzle > UNIT else LINES * UNIT
        far = near * max(1, line // swizzle) if swizzle == UNIT else pattern
        if swizzle > UNIT and line > swizzle:
            near = pattern * -(-lines // LINES)
    else:
        far = pattern * -(-depth // LINES)
    # By what the page calls them, strides of bytes along both ways.
    leading, stride = (near, far) if not transposed or swizzle == UNIT else (far, near)
    kind = dice.below(8)
    if kind == 1:
        leading, stride = leading + UNIT * dice.below(8), stride + UNIT * dice.below(8)
    elif kind == 2:
        leading, stride = UNIT * dice.below(32), UNIT * dice.below(32)
    start = (0, 0, 0, 32, 64, 96, 16, 1024)[dice.below(8)] if swizzle > UNIT or kind == 2 else 0
    base = dice.below(8) if dice.below(8) == 0 else 0
    tile = SharedTile(
        place=Place(buffer="s", offset=start), leading=leading, stride=stride, swizzle=swizzle,
        base_offset=base if swizzle > UNIT else 0, transposed=transposed, built=built,
    )  # fmt: skip
    last = int(byte_addresses(matrix, tile.descriptor, transposed).max())
    size = -(-(last + 1) // 256) * 256
    if known and builder.shared + size > _MOST_SHARED:
        return replace(dice.one_of(known), built=built)
    number = sum(map(len, builder.tiles.values()))
    place = builder.twins(f"{operand}{number}", size)
    all_.append(replace(tile, place=replace(place, offset=start)))
    return all_[-1]


def made_of(expression: Expression, destination: str) -> LaneCode:
    """Return what makes a value of another."""
    source, opcode, constant = expression
    results = tuple(f"r{WORDS + index}" for index in range(WORDS))
    sources: tuple[int, ...] = (0, constant) if opcode == "prmt.b32" else (constant,)
    code = tuple(
        Assign(opcode=opcode, destinations=(results[index],), sources=(f"r{index}", *sources))
        for index in range(WORDS)
    )
    return LaneCode(source=source, count=WORDS, destination=destination, results=results, code=code)


def added_to(name: str, registers: Sequence[str], opcode: str = "add.u32") -> LaneCode:
    """Return what adds registers to a value."""
    own = [f"{name}.{index}" for index in range(WORDS)]
    results = tuple(f"r{2 * WORDS + index}" for index in range(WORDS))
    code = tuple(
        Assign(
            opcode=opcode,
            destinations=(results[index],),
            sources=(f"r{index}", f"r{index + WORDS}"),
        )
        for index in range(WORDS)
    )
    return LaneCode(
        source=" ".join((*own, *registers)), count=2 * WORDS, destination=name, results=results,
        code=code,
    )  # fmt: skip


def expression_of(builder: GroupBuilder, dice: Dice) -> Expression:
    """Draw what is done with a value: every second time what was done before."""
    if builder.expressions and dice.below(2):
        return dice.one_of(builder.expressions)
    opcode = dice.one_of(OPERATIONS)
    constant = dice.one_of(_SELECTIONS if opcode == "prmt.b32" else CONSTANTS)
    constant = 0x7FFF_7FFF if opcode == "and.b32" else constant
    made = dice.one_of(builder.values), opcode, constant
    builder.expressions.append(made)
    return made


def row_store(builder: GroupBuilder, stage: Copy, dice: Dice) -> OneWarp:
    """Return what one warp stores by stmatrix where a matrix is copied to."""
    warp, registers, name = dice.below(WARPGROUP), f"q{builder.rows}", stage.destination.buffer
    builder.rows += 1
    forms = [
        form for form in everything(builder.module).row_stores
        if operand_of(form).registers * 8 * ROW_BYTES <= stage.size
    ]  # fmt: skip
    form, turn = dice.one_of(forms), dice.below(2)
    count = operand_of(form).registers
    size = LANES * 4 * count
    builder.buffers.append(Buffer(name=f"g{registers}", space="global", size=size))
    rows = [row % (8 * count) for row in range(LANES)]
    addresses = tuple(ROW_BYTES * (8 * count - 1 - row if turn else row) for row in rows)
    return OneWarp(warp=warp, body=(
        plain_load(registers=registers, count=count, place=Place(buffer=f"g{registers}")),
        Op.of(form, registers=registers, buffer=name, addresses=addresses),
    ))  # fmt: skip
