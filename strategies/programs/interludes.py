"""What stands between multiplications: ldmatrix, copies, and fragments that are only kept."""

from __future__ import annotations

from collections.abc import Callable

from oracle.formats import FORMATS
from oracle.forms import ROW_BYTES, Form
from oracle.lane_steps import LoadRegisters, StoreRegisters
from oracle.matrices import LANES, SHAPES, Matrix
from oracle.ops import Op
from oracle.places import Place, Span
from oracle.steps import Copy
from strategies.features import Feature
from strategies.programs.accesses import load
from strategies.programs.building import Builder
from strategies.programs.choices import Dice
from strategies.programs.memory import Arena
from strategies.programs.scopes import Value

_ROW = ROW_BYTES
_ROWS = (32, 40, 64, 16)
"""Rows of the memory from which ldmatrix reads."""
_PATTERNS = ("in order", "apart", "mixed", "scattered", "one")
"""How the rows of the lanes lie to each other."""
_MOST_COPIED = 300
"""Bytes of the longest copy that is a step of its own."""
BALLAST = 32
"""Accumulators of eight registers that leave none of the 255 registers of a thread free."""


def row_load(builder: Builder, form: Form) -> None:
    """Append an ldmatrix and a store of what it gave."""
    dice = builder.dice()
    name = read_rows(builder, form, dice)
    builder.take(Feature.STORE_REGISTERS)
    _store_registers(builder, name, form.registers, dice)


def read_rows(builder: Builder, form: Form, dice: Dice) -> str:
    """Append an ldmatrix; return the name of its registers.

    The addresses of all lanes are valid, those of the lanes that are not asked for as well: sm_75
    wants it (9.7.14.5.15).
    """
    asked = Feature.LDMATRIX_OF_STORE in builder.wanted
    arena, start, rows = _source(builder, dice)
    kind = "in order" if asked else dice.one_of(_PATTERNS)
    addresses = tuple(start + _ROW * row for row in _pattern(kind, dice, rows))
    immediate = row_immediate(builder, dice, min(addresses))
    name = builder.name("r")
    low, high = min(addresses), max(addresses) + _ROW
    builder.scope.access(reads=(Span.block(arena.buffer, low, high - low),))
    builder.add(
        Op.of(
            form=form, registers=name, buffer=arena.buffer, addresses=addresses,
            immediate=immediate,
        )
    )  # fmt: skip
    for feature in (
        Feature.LDMATRIX,
        Feature(f"ldmatrix: {'.' + form.space if form.space else 'generic'}"),
    ):
        builder.take(feature)
    if builder.form == form:
        builder.form = None
    return name


def _source(builder: Builder, dice: Dice) -> tuple[Arena, int, int]:
    """Choose shared memory to read: what wmma.store wrote, what it loads, or rows of its own.

    Returns the buffer, the first byte in it, and how many rows begin there.
    """
    stored = [
        region
        for region in builder.memory.regions(shared=True)
        if region.written and region.type is not None
    ]
    shared = [arena for arena in builder.memory.arenas if arena.shared and not arena.closed]
    again = dice.once_in(2)
    if stored and (builder.take(Feature.LDMATRIX_OF_STORE) or again):
        region = stored[-1]
        start = region.span.start // _ROW * _ROW
        return region.arena, start, max(1, (region.span.end - start) // _ROW)
    rows = dice.one_of(_ROWS)
    if shared and again:
        arena = shared[dice.below(len(shared))]
        return arena, 0, max(1, arena.guarded // _ROW)
    arena = builder.memory.arena("r", shared=True)
    start = _ROW * dice.below(4)
    if Feature.OFFSET_IMMEDIATE in builder.wanted:
        start = max(start, _ROW)
    builder.memory.block(arena, start, rows * _ROW, written=False)
    return arena, start, rows


def _pattern(kind: str, dice: Dice, rows: int) -> tuple[int, ...]:
    """Return the row that each lane points at."""
    first, step = dice.below(64), 1 + dice.below(63)
    match kind:
        case "in order":
            found = (lane for lane in range(LANES))
        case "apart":
            found = (first + lane * step for lane in range(LANES))
        case "mixed":
            # As kernels do to keep lanes off each other's banks.
            found = (lane ^ (lane >> 3 & first) for lane in range(LANES))
        case "scattered":
            # A multiplicative hash (Knuth, The Art of Computer Programming 3, 6.4).
            found = ((lane + first) * (2654435761 + 2 * step) >> 13 for lane in range(LANES))
        case _:
            found = (first for _ in range(LANES))
    return tuple(row % rows for row in found)


def row_immediate(builder: Builder, dice: Dice, least: int) -> int:
    """Choose the part of the addresses that stands in the instruction."""
    immediate = dice.one_of((0, 0, _ROW, min(least, 3 * _ROW), -_ROW))
    if least and builder.take(Feature.OFFSET_IMMEDIATE):
        return min(least, _ROW)
    if builder.take(Feature.OFFSET_NEGATIVE):
        return -_ROW
    # The registers hold no address in front of the buffer.
    return min(immediate, least)


def storing_lanes(builder: Builder, dice: Dice) -> int:
    """Choose how many lanes store registers: all, or as many as elsewhere in the program.

    Compilers join conditions that are the same, whatever stands between them.
    """
    few, some = dice.one_of((LANES // 2, LANES // 2, 1, 1 + dice.below(LANES))), dice.below(2)
    some = some or Feature.STORE_BY_LANE in builder.asked
    builder.lanes = few if builder.lanes is None else builder.lanes
    if builder.take(Feature.STORE_BY_LANE):
        builder.lanes = min(builder.lanes, LANES - 1)
    return builder.lanes if some else LANES


def between_stores(builder: Builder, inside: Callable[[], None]) -> None:
    """Append other steps between two stores of the same lanes, which compilers like to join.

    What stands between them is then moved under the condition, or doubled for both ways, unless the
    compiler knows that all lanes have to come to it together.
    """
    dice = builder.dice()
    arena = builder.memory.arena("i", shared=False)
    start = 4 * dice.below(5)
    name = builder.name("r")
    load = LoadRegisters(registers=name, count=1, place=Place(buffer=arena.buffer, offset=start))
    builder.scope.access(reads=(builder.memory.block(arena, start, load.size, written=False).span,))
    builder.add(load)
    lanes = dice.one_of((LANES // 2, 1, 1 + dice.below(LANES - 1)))

    def store_some() -> None:
        target = builder.memory.arena("o", shared=False)
        step = StoreRegisters(
            registers=name, count=1, place=Place(buffer=target.buffer), lanes=lanes
        )
        region = builder.memory.block(target, 0, step.size, written=True, registers=True)
        builder.scope.access(writes=(region.span,))
        builder.add(step)

    store_some()
    inside()
    store_some()


def _store_registers(builder: Builder, name: str, count: int, dice: Dice) -> None:
    arena = builder.memory.arena("o", shared=False)
    start = 4 * dice.below(5)
    step = StoreRegisters(
        registers=name, count=count, place=Place(buffer=arena.buffer, offset=start),
        lanes=storing_lanes(builder, dice),
    )  # fmt: skip
    region = builder.memory.block(arena, start, step.size, written=True, registers=True)
    builder.scope.access(writes=(region.span,))
    builder.add(step)


def copy(builder: Builder) -> None:
    """Append a copy of bytes that are there already, of any size and alignment."""
    dice = builder.dice()
    builder.take(Feature.COPY)
    arenas = builder.memory.arenas
    size = 1 + dice.below(_MOST_COPIED)
    offset = dice.below(33)
    if arenas:
        arena = arenas[dice.below(len(arenas))]
        offset = min(offset, arena.size - 1)
        size = min(size, arena.size - offset)
    else:
        arena = builder.memory.arena("i", shared=False)
        builder.memory.block(arena, offset, size, written=False)
    target = builder.memory.arena("o", shared=False)
    start = dice.below(33)
    region = builder.memory.block(target, start, size, written=True)
    builder.scope.access(reads=(Span.block(arena.buffer, offset, size),), writes=(region.span,))
    builder.add(
        Copy(
            source=Place(buffer=arena.buffer, offset=offset),
            destination=Place(buffer=target.buffer, offset=start),
            size=size,
        )
    )


def ballast(builder: Builder) -> list[Value]:
    """Append loads of so many accumulators that nothing else finds a register.

    They are stored when the scope ends, each to a place of its own.
    """
    builder.take(Feature.SPILLS)
    builder.take(Feature.LIVE_16)
    builder.take(Feature.LIVE_8)
    matrix = Matrix(operand="c", shape=SHAPES["m16n16k16"], type=FORMATS["f32"])
    values = []
    for _ in range(BALLAST):
        value = load(builder, matrix, None, "x", near=True)
        value.pins = 1  # no multiplication takes it
        value.pending = True
        values.append(value)
    return values
