"""How registers of a known layout are loaded and stored: one by one, or in rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from oracle.isa.forms import LANES, ROW_BYTES, Form
from oracle.program.lane_code import LANE, ZERO, Assign, LaneCode, Statement, run_lanes
from oracle.program.operands import Held, Place, Registers, Span
from oracle.program.operations import pack_registers
from oracle.program.steps import Op, plain_load, plain_store
from strategies.features import ROW_LOADS, Has, of_form
from strategies.programs.builder import Arena, Builder, Dice, LiveValue
from strategies.programs.forms import operand_of
from strategies.programs.selecting import fitting

_ROW = ROW_BYTES
_ROWS = (32, 40, 64, 16)
"""Rows of the memory from which ldmatrix reads."""
_COMPUTED_IN = 3
"""The addresses of one instruction in so many that accesses rows are computed by scalar code."""
_PITCHES = (_ROW, 2 * _ROW, 5 * _ROW)
"""Bytes from row to row that a store writes: side by side, apart, and as kernels pad them."""

ROW_LOADS_ASKED = (*ROW_LOADS, Has.OFFSET_IMMEDIATE, Has.OFFSET_NEGATIVE, Has.ROWS_COMPUTED)
"""What asks for a load of rows around mma.sync."""


def load_or_read(builder: Builder, holds: Held, hint: str, dice: Dice) -> LiveValue:
    """Append a load of registers: by ldmatrix where it has so many, or lane by lane."""
    forms = [form for form in builder.everything.plain_row_loads if operand_of(form) == holds]
    asked = builder.wants((Has.FED_BY_ROWS, *ROW_LOADS_ASKED))
    plainly = Has.LOAD_REGISTERS in builder.wanted
    if not forms or (not asked and (plainly or not dice.once_in(2))):
        return load_registers(builder, holds, hint, dice)
    form = fitting(builder, forms, dice)
    builder.take(Has.FED_BY_ROWS)
    return read_rows(builder, form, builder.dice())


def load_registers(builder: Builder, holds: Held, hint: str, dice: Dice) -> LiveValue:
    """Append a load of registers, lane by lane."""
    builder.take(Has.LOAD_REGISTERS)
    shared = dice.once_in(4) or Has.ADDRESS_LOADED in builder.asked
    return _load(builder, builder.arena(hint, shared=shared), holds, hint, dice)


def _load(builder: Builder, arena: Arena, holds: Held, hint: str, dice: Dice) -> LiveValue:
    place = Place(buffer=arena.buffer, offset=holds.bits // 8 * dice.below(5))
    name = builder.name(hint)
    step = plain_load(registers=name, count=holds.registers, bits=holds.bits, place=place)
    region = builder.block(arena, place.offset, step.size)
    builder.scope.access(reads=(region.span,))
    builder.add(step)
    return builder.define(name, holds)


def store_registers(
    builder: Builder, value: LiveValue, dice: Dice, *, shared: bool = False
) -> None:
    """Append a store of registers, lane by lane."""
    builder.take(Has.STORE_REGISTERS)
    arena, start = builder.arena("o", shared=shared), value.holds.bits // 8 * dice.below(5)
    # All lanes, or as many as elsewhere in the program: compilers join conditions that are the
    # same, whatever stands between them.
    few, some = dice.one_of((LANES // 2, LANES // 2, 1, 1 + dice.below(LANES))), dice.below(2)
    some = some or Has.STORE_BY_LANE in builder.asked
    builder.lanes = few if builder.lanes is None else builder.lanes
    if builder.take(Has.STORE_BY_LANE):
        builder.lanes = min(builder.lanes, LANES - 1)
    _store(builder, arena, value, start, builder.lanes if some else LANES)


def _store(builder: Builder, arena: Arena, value: LiveValue, start: int, lanes: int) -> None:
    step = plain_store(
        registers=value.name, count=value.holds.registers, bits=value.holds.bits,
        place=Place(buffer=arena.buffer, offset=start), lanes=lanes,
    )  # fmt: skip
    region = builder.block(arena, start, step.size, written=True, registers=True)
    builder.scope.access(writes=(region.span,))
    builder.add(step)
    value.pending = False


def between_stores(builder: Builder, inside: Callable[[], None]) -> None:
    """Append other steps between two stores of the same lanes, which compilers like to join.

    What stands between them is then moved under the condition, or doubled for both ways, unless the
    compiler knows that all lanes have to come to it together.
    """
    dice = builder.dice()
    value = _load(builder, builder.arena("i"), Registers(registers=1), "r", dice)
    lanes = dice.one_of((LANES // 2, 1, 1 + dice.below(LANES - 1)))
    _store(builder, builder.arena("o"), value, 0, lanes)
    inside()
    _store(builder, builder.arena("o"), value, 0, lanes)


def row_load(builder: Builder, form: Form) -> None:
    """Append an ldmatrix and a store of what it gave."""
    dice = builder.dice()
    store_registers(builder, read_rows(builder, form, dice), dice)


def read_rows(builder: Builder, form: Form, dice: Dice) -> LiveValue:
    """Append an ldmatrix.

    The addresses of all lanes are valid, those of the lanes that are not asked for as well: sm_75
    wants it (9.7.14.5.15).
    """
    asked = Has.ROWS_OF_STORE in builder.wanted
    arena, start, rows = _source(builder, dice)
    kinds = ("in order", "apart", "mixed", "scattered", "one")
    kind = "in order" if asked else dice.one_of(kinds)
    first, step = dice.below(64), 1 + dice.below(63)
    row_of: dict[str, Callable[[int], int]] = {
        "in order": lambda lane: lane,
        "apart": lambda lane: first + lane * step,
        # As kernels do to keep lanes off each other's banks.
        "mixed": lambda lane: lane ^ (lane >> 3 & first),
        # A multiplicative hash (Knuth, The Art of Computer Programming 3, 6.4).
        "scattered": lambda lane: (lane + first) * (2654435761 + 2 * step) >> 13,
        "one": lambda lane: first,
    }
    addresses = tuple(start + _ROW * (row_of[kind](lane) % rows) for lane in range(LANES))
    code: tuple[Statement, ...] = ()
    if not asked and _computes(builder):
        addresses, code = _computed_rows(builder.wide_dice(), start, _ROW, rows)
    immediate = _immediate(builder, dice, min(addresses))
    name = builder.name("r")
    builder.scope.access(reads=(_rows(arena, addresses),))
    builder.add(
        Op.of(
            form=form, registers=name, buffer=arena.buffer, addresses=addresses,
            immediate=immediate, computed=code,
        )
    )  # fmt: skip
    builder.take(*of_form(form))
    return builder.define(name, operand_of(form))


def _computes(builder: Builder) -> bool:
    drawn = builder.dice().once_in(_COMPUTED_IN)
    return builder.take(Has.ROWS_COMPUTED) or (
        drawn and builder.focus.shares_registers is not False
    )


def _computed_rows(
    dice: Dice, start: int, pitch: int, rows: int, *, apart: bool = False
) -> tuple[tuple[int, ...], tuple[Statement, ...]]:
    """Draw addresses of rows and code of lanes that computes them, as swizzles and clamps do.

    `apart` says that all rows have to be different; there are as many as lanes.
    """
    code: list[Statement] = []
    row: str | int = LANE

    def make(opcode: str, *sources: str | int) -> str:
        made = f"r{len(code) + 1}"
        code.append(Assign(opcode=opcode, destinations=(made,), sources=sources))
        return made

    most = min(1 << rows.bit_length() - 1, LANES) - 1
    if dice.below(2):
        # A compiler does not know that it is the lane's number.
        row = make("add.s32", LANE, ZERO)
    for _ in range(1 + dice.below(3)):
        number = dice.below(LANES)
        match dice.below(5 if apart else 8):
            case 0:
                bits = make("and.b32", make("shr.u32", row, 1 + number % 4), 7)
                row = make("xor.b32", row, bits)
            case 1:
                row = make("xor.b32", row, number)
            case 2:
                row = make("abs.s32", make("sub.s32", row, LANES - 1))
            case 3:
                row = make("min.u32", row, LANES - 1) if number % 2 else make("max.s32", row, 0)
            case 4:
                row = make("shr.u32", make("brev.b32", row), 27)
            case 5:
                row = make("abs.s32", make("sub.s32", row, number))
            case 6:
                row = make("min.s32" if number % 2 else "max.u32", row, number)
            case _:
                row = make("prmt.b32", row, number, (0x4440, 0x4104, 0x0321)[number % 3])
    if most < LANES - 1 or not apart:
        row = make("and.b32", row, most)
    if pitch == _ROW and dice.below(2):
        offset = make("shl.b32", row, 4)
        code.append(Assign(opcode="add.s32", destinations=("r0",), sources=(offset, start)))
    else:
        code.append(Assign(opcode="mad.lo.s32", destinations=("r0",), sources=(row, pitch, start)))
    step = LaneCode(destination="p", results=("r0",), code=tuple(code))
    made, _ = run_lanes(step, np.zeros((1, LANES, 0), np.uint32))
    return tuple(made[0, :, 0].tolist()), tuple(code)


def _rows(arena: Arena, addresses: Sequence[int]) -> Span:
    low, high = min(addresses), max(addresses) + _ROW
    return Span.block(arena.buffer, low, high - low)


def _source(builder: Builder, dice: Dice) -> tuple[Arena, int, int]:
    """Choose shared memory to read: what wmma.store wrote, what it loads, or rows of its own.

    Returns the buffer, the first byte in it, and how many rows begin there.
    """
    stored = [one for one in builder.regions(shared=True) if one.written and one.type]
    shared = [arena for arena in builder.arenas if arena.shared and not arena.closed]
    again = dice.once_in(2)
    if stored and (builder.take(Has.ROWS_OF_STORE) or again):
        region = stored[-1]
        start = region.span.start // _ROW * _ROW
        return region.arena, start, max(1, (region.span.end - start) // _ROW)
    rows = dice.one_of(_ROWS)
    if shared and again:
        arena = shared[dice.below(len(shared))]
        return arena, 0, max(1, arena.guarded // _ROW)
    arena = builder.arena("r", shared=True)
    start = _first_row(builder, dice)
    builder.block(arena, start, rows * _ROW)
    return arena, start, rows


def _first_row(builder: Builder, dice: Dice) -> int:
    """Choose where rows begin: not at the start where an offset is asked for."""
    start = _ROW * dice.below(4)
    return max(start, _ROW) if Has.OFFSET_IMMEDIATE in builder.wanted else start


def _immediate(builder: Builder, dice: Dice, least: int) -> int:
    immediate = dice.one_of((0, 0, _ROW, min(least, 3 * _ROW), -_ROW))
    if least and builder.take(Has.OFFSET_IMMEDIATE):
        return min(least, _ROW)
    if builder.take(Has.OFFSET_NEGATIVE):
        return -_ROW
    # The registers hold no address in front of the buffer.
    return min(immediate, least)


def store_rows(builder: Builder, value: LiveValue, forms: Sequence[Form], dice: Dice) -> None:
    """Append a store to rows that lie apart."""
    form = fitting(builder, forms, dice)
    arena = builder.arena("o", shared=True)
    start, pitch = _first_row(builder, dice), dice.one_of(_PITCHES)
    kind, odd = dice.one_of(("in order", "mixed", "backwards", "hopping")), 1 + 2 * dice.below(16)
    row_of: dict[str, Callable[[int], int]] = {
        "in order": lambda lane: lane,
        "mixed": lambda lane: lane ^ (lane >> 3 & 3),
        "backwards": lambda lane: LANES - 1 - lane,
        # An odd factor makes a permutation of a power of two.
        "hopping": lambda lane: lane * odd % LANES,
    }
    addresses = tuple(start + pitch * row_of[kind](lane) for lane in range(LANES))
    code: tuple[Statement, ...] = ()
    if _computes(builder):
        addresses, code = _computed_rows(builder.wide_dice(), start, pitch, LANES, apart=True)
    span = _rows(arena, addresses)
    builder.block(arena, span.start, span.end - span.start, written=True)
    builder.scope.access(writes=(span,))
    builder.add(
        Op.of(
            form=form, registers=value.name, buffer=arena.buffer, addresses=addresses,
            immediate=_immediate(builder, dice, min(addresses)), computed=code,
        )
    )  # fmt: skip
    value.pending = False
    builder.take(Has.ROWS_OF_D, *of_form(form))


def packed(builder: Builder, value: LiveValue, dice: Dice, type_: str = "") -> LiveValue:
    """Append a conversion of pairs of f32 into one register each."""
    if type_ not in ("f16", "bf16"):
        type_ = dice.one_of(("f16", "bf16"))
    again = value.depth == builder.scope.depth and dice.once_in(2)
    name = value.name if again else builder.name("p")
    count = value.holds.registers
    builder.add(pack_registers(type=type_, source=value.name, destination=name, count=count))
    builder.take(Has.PACKED)
    value.pending = False
    return builder.define(name, Registers(registers=count // 2), pending=True)


def transposed(builder: Builder, value: LiveValue, form: Form) -> LiveValue:
    """Append a move of registers, which transposes what they hold."""
    name, count = builder.name("t"), value.holds.registers
    builder.add(Op.of(form, source=value.name, destination=name, count=count))
    builder.take(*of_form(form))
    value.pending = False
    return builder.define(name, value.holds)
