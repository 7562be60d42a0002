"""How matrices are reached: state space, stride, alignment, and the parts of the address."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeGuard

from oracle.isa.forms import LANES, ROW_BYTES, Form, Matrix
from oracle.isa.lookup import ACCESS_FORMS
from oracle.layouts import Tile
from oracle.program.lane_code import Statement
from oracle.program.operands import Fragment, Held, Place, Registers, Span
from oracle.program.operations import pack_registers
from oracle.program.steps import Op, plain_load, plain_store
from strategies.features import (
    FEATURES,
    HUGE_PITCH,
    LARGE_FACTOR,
    MOVES,
    ROW_LOADS,
    ROW_STORES,
    Feature,
    Has,
    of_form,
    unit_bytes,
)
from strategies.programs.builder import (
    Arena,
    Builder,
    Dice,
    LiveValue,
    Region,
    fitting,
    matrix_of,
    operand_of,
)
from strategies.programs.code_around import centred, computed_rows

MOST_SHARED = 12 << 10  # Bytes of shared memory of a program: four warps share a block's
_MOST_SHARED_ASKED = 40 << 10  # The same if shared memory is asked for; a block has 48 KiB
_SPACES = (("global", False), ("", False), ("shared", True), ("shared::cta", True), ("", True))
"""State spaces as an instruction spells them ("" is generic), and whether memory is shared."""
_DRAWN_STRIDES = (
    Has.STRIDE_OMITTED, Has.STRIDE_DEFAULT, Has.STRIDE_LEAST, Has.STRIDE_OMITTED,
    Has.STRIDE_ODD, Has.STRIDE_LARGE,
)  # fmt: skip
TIGHT = 12 << 10  # Bytes of an image from which programs save memory
_ALIGNMENTS = (Has.ALIGNED_128, Has.ALIGNED_LEAST, Has.ALIGNED_MORE)
_FRESH, _SAME_BUFFER, _OVERLAPPING, _BESIDE = range(4)
_PLACEMENTS = (_FRESH, _FRESH, _FRESH, _SAME_BUFFER, _OVERLAPPING, _BESIDE)
_IN_GLOBAL = (
    Has.STORED_AND_LOADED, Has.OVERLAPPING_READS, Has.TILES, Has.STRIDE_HUGE, Has.ROWS_LOADED,
)  # fmt: skip
"""What needs accesses in one space, or much of it."""
STORES = (*(one for one in FEATURES.values() if one.value.startswith("store: ")), Has.ROWS_OF_STORE)
"""What asks for the memory of a store."""


@dataclass(kw_only=True)
class _DrawnAccess:
    """One access in the making."""

    builder: Builder
    matrix: Matrix
    layout: str
    dice: Dice
    stores: bool = False
    space: str = "global"
    shared: bool = False
    stride: int | None = None
    in_register: bool = False


def _tile(access: _DrawnAccess) -> Tile:
    return Tile(matrix=access.matrix, layout=access.layout, stride=access.stride)


def _unit(access: _DrawnAccess) -> int:
    line_bytes = access.builder.focus.line_bytes
    return unit_bytes(access.matrix, shared=access.shared, line_bytes=line_bytes)


def _add(access: _DrawnAccess, fragment: str, region: Region) -> None:
    builder, dice, offset = access.builder, access.dice, region.span.start
    builder.scope.access(**{"writes" if access.stores else "reads": (region.span,)})
    # What stands in the instruction leaves an address in the buffer, or not far behind it.
    kind = dice.one_of(("none", "none", "all", "some", "negative"))
    amount = dice.one_of((_unit(access), 16, 1, 128))
    if offset and builder.take(Has.OFFSET_IMMEDIATE):
        kind = "all"
    elif builder.take(Has.OFFSET_NEGATIVE):
        kind = "negative"
    parts = {"all": offset, "some": min(offset, amount), "negative": -amount}
    builder.add(
        Op.of(
            form=ACCESS_FORMS[access.matrix, access.layout, access.space], fragment=fragment,
            place=Place(buffer=region.arena.buffer, offset=offset),
            stride=access.stride, stride_in_register=access.in_register,
            immediate=parts.get(kind, 0),
        )
    )  # fmt: skip


@cache
def _of_space(stores: bool, space: str, shared: bool) -> Feature:
    verb, memory = "store" if stores else "load", "shared" if shared else "global"
    return FEATURES[f"{verb}: {'.' + space if space else 'generic, ' + memory}"]


def load(
    builder: Builder, matrix: Matrix, layout: str | None, hint: str, *, near: bool = False
) -> LiveValue:
    """Append a load of a fragment; a layout of None is drawn, names begin with the hint.

    `near` has it read bytes that are read elsewhere as well, if there are any.
    """
    dice, wanted = builder.dice(), builder.form
    drawn = dice.one_of(("row", "col")) if layout is None else layout
    if layout is None and _is_of(wanted, matrix):
        drawn = wanted.layout
    access = _DrawnAccess(builder=builder, matrix=matrix, layout=drawn, dice=dice)
    _choose_space(access)
    placement = _choose_stride(access)
    region = _place(access, _OVERLAPPING if near else placement, hint)
    name = builder.name(hint)
    _add(access, name, region)
    return builder.define(name, Fragment.of(matrix, layout), region=region)


def store(builder: Builder, value: LiveValue, over: Region | None = None) -> None:
    """Append a store of an accumulator; some go over its C, where that was loaded."""
    matrix = replace(matrix_of(value), operand="d")
    dice, wanted = builder.dice(), builder.form
    layout = dice.one_of(("row", "col"))
    if _is_of(wanted, matrix):  # in the place that it asks for
        layout = wanted.layout
        over = None
    in_place = dice.once_in(6) and not builder.wants(STORES)
    in_place |= Has.IN_PLACE_MEMORY in builder.wanted
    access = _DrawnAccess(builder=builder, matrix=matrix, layout=layout, dice=dice, stores=True)
    if over is not None and in_place and over.type == matrix.type:
        builder.take(Has.IN_PLACE_MEMORY)
        access.layout, access.stride, access.shared = over.layout, over.stride, over.arena.shared
        options = [option for option in _spaces(builder) if option[1] == access.shared]
        asked = [
            option for option in options if _of_space(access.stores, *option) in builder.wanted
        ]
        access.space = dice.one_of(asked or options)[0]
        builder.take(_of_space(access.stores, access.space, access.shared))
        access.in_register = access.stride is not None and dice.once_in(2)
        over.arena.written = over.written = True
        region = over
    else:
        _choose_space(access)
        region = _place(access, _choose_stride(access), "d")
    _add(access, value.name, region)
    value.pending = False


def is_asked_of(builder: Builder, value: LiveValue) -> bool:
    """Tell whether a store is asked for that a value can have."""
    holds = value.holds
    return isinstance(holds, Fragment) and _is_of(builder.form, replace(holds.matrix, operand="d"))


def _is_of(form: Form | None, matrix: Matrix) -> TypeGuard[Form]:
    return form is not None and form.is_access and form.matrix() == matrix


def _spaces(builder: Builder) -> list[tuple[str, bool]]:
    return [(space, shared) for space, shared in _SPACES if space in builder.palette.spaces]


def _choose_space(access: _DrawnAccess) -> None:
    builder, form = access.builder, access.builder.form
    options, asked = _spaces(builder), False
    if _is_of(form, access.matrix) and form.layout == access.layout:
        builder.form = None
        options = [option for option in options if option[0] == form.space]
        asked = True
    wanted = [option for option in options if _of_space(access.stores, *option) in builder.wanted]
    drawn = access.dice.one_of(options)
    # Whether matrices lie in shared memory, in global memory, or in both.
    spaces = {arena.shared for arena in builder.arenas if any(r.type for r in arena.regions)}
    stored = [region for region in builder.regions() if region.written and region.type]
    if wanted:
        drawn, asked = wanted[0], True
    elif Has.ROWS_OF_STORE in builder.wanted and access.stores:
        drawn, asked = next((o for o in options if o[1]), drawn), True
    elif Has.GLOBAL_AND_SHARED in builder.wanted:
        if spaces:
            drawn, asked = next((o for o in options if o[1] not in spaces), drawn), True
    elif Has.STORED_AND_LOADED in builder.wanted and not access.stores and stored:
        drawn = next((o for o in options if o[1] == stored[0].arena.shared), drawn)
    elif (builder.plain_spaces or builder.wants(_IN_GLOBAL)) and not asked:
        drawn = options[0]
    most = _MOST_SHARED_ASKED if asked else MOST_SHARED
    if drawn[1] and builder.image_bytes(shared=True) + 2 * _tile(access).extent > most:
        drawn = next((o for o in options if not o[1]), drawn)
    access.space, access.shared = drawn
    builder.take(_of_space(access.stores, *drawn))
    if len(spaces | {drawn[1]}) > 1:
        builder.take(Has.GLOBAL_AND_SHARED)


def _choose_stride(access: _DrawnAccess) -> int:
    """Choose the stride; return what placement goes with it."""
    builder, dice = access.builder, access.dice
    class_ = dice.one_of(_DRAWN_STRIDES)
    more = dice.below(4)
    in_register = dice.once_in(2)
    placement = dice.one_of(_PLACEMENTS)
    wanted = [one for one in dict.fromkeys(_DRAWN_STRIDES) if one in builder.wanted]
    written = (Has.STRIDE_REGISTER, Has.STRIDE_IMMEDIATE)
    huge = Has.STRIDE_HUGE in builder.wanted and not access.shared
    if huge:
        class_ = Has.STRIDE_HUGE
    elif wanted:
        class_ = wanted[0]
    elif builder.wants(written):
        class_ = Has.STRIDE_DEFAULT if class_ == Has.STRIDE_OMITTED else class_
    elif Has.TILES in builder.wanted and not _beside(access):
        class_ = Has.STRIDE_LARGE
    elif class_ in (Has.STRIDE_ODD, Has.STRIDE_LARGE) and builder.image_bytes() > TIGHT:
        class_ = Has.STRIDE_LEAST
    builder.take(class_)
    if class_ == Has.STRIDE_OMITTED:
        return placement
    access.stride = _stride(access, class_, more)
    if builder.wants(written):
        in_register = Has.STRIDE_REGISTER in builder.wanted
    builder.take(written[0] if in_register else written[1])
    access.in_register = in_register
    # A tile beside another has the stride of that one.
    return _FRESH if (wanted or huge) and placement == _BESIDE else placement


def _stride(access: _DrawnAccess, class_: Feature, more: int) -> int:
    matrix, layout = access.matrix, access.layout
    default = matrix.default_stride(layout)
    unit = _unit(access) * 8 // matrix.type.bits
    least = (default // unit + 1) * unit
    match class_:
        case Has.STRIDE_DEFAULT:
            return default
        case Has.STRIDE_LEAST:
            return least
        case Has.STRIDE_ODD:
            units = least // unit + 1
            return (units + 1 - units % 2 + 2 * more) * unit
        case Has.STRIDE_HUGE:
            elements = HUGE_PITCH * 8 // matrix.type.bits
            return elements * (1 + more // 2) + unit * (more % 2)
    lines = -(-default // unit) * unit
    return max(least, LARGE_FACTOR * lines) + more * lines


def _beside(access: _DrawnAccess) -> list[tuple[Region, int]]:
    """Return (region, start) where the matrix fits beside another of a larger matrix."""
    found, unit = [], _unit(access)
    for region in access.builder.regions(shared=access.shared):
        alike = (region.type, region.layout) == (access.matrix.type, access.layout)
        if not alike or region.stride is None:
            continue
        tile = Tile(matrix=access.matrix, layout=access.layout, stride=region.stride)
        column = region.columns * -(-region.span.run // unit) * unit
        column = max(column, -(-region.columns * tile.line_bytes // unit) * unit)
        if (
            tile.elements >= access.matrix.default_stride(access.layout)
            and column + tile.line_bytes <= tile.pitch
            and (region.span.start + column) % unit == 0
            and tile.pitch % unit == 0
            and (tile.lines <= region.span.runs or region.span.end >= region.arena.used)
        ):
            found.append((region, region.span.start + column))
    return found


def _place(access: _DrawnAccess, placement: int, hint: str) -> Region:
    builder, dice = access.builder, access.dice
    alignment = dice.one_of(_ALIGNMENTS)
    units = dice.below(4)
    at_end = dice.once_in(8)
    pick = dice.below(8)
    overlap = _placed_over(access, placement, pick)
    if overlap is not None:
        return overlap
    if placement == _BESIDE or Has.TILES in builder.wanted:
        places = _beside(access)
        if places:
            region, start = places[pick % len(places)]
            builder.take(Has.TILES)
            region.columns += 1
            access.stride = region.stride
            return builder.matrix(region.arena, start, _tile(access), written=access.stores)
    arena = None
    if placement == _SAME_BUFFER or (access.shared and units % 2):
        open_ = [one for one in builder.arenas if one.shared == access.shared and not one.closed]
        arena = open_[pick % len(open_)] if open_ else None
    alignment = next((one for one in _ALIGNMENTS if one in builder.wanted), alignment)
    builder.take(alignment)
    if Has.OFFSET_IMMEDIATE in builder.wanted and alignment == Has.ALIGNED_128:
        units = max(1, units)
    end_asked = builder.take(Has.BUFFER_END)
    if arena is None or end_asked:
        arena = builder.arena(hint, shared=access.shared)
        arena.closed = end_asked or (at_end and not builder.wanted)
    # The first offset behind what is used that is aligned so, and not better.
    used, unit = arena.used, _unit(access)
    if alignment == Has.ALIGNED_128:
        start = (-(-used // 128) + units) * 128
    else:
        step, rest = (2 * unit, unit) if alignment == Has.ALIGNED_LEAST else (4 * unit, 2 * unit)
        start = (max(0, -(-(used - rest) // step)) + units % 2) * step + rest
    return builder.matrix(arena, start, _tile(access), written=access.stores)


def _placed_over(access: _DrawnAccess, placement: int, pick: int) -> Region | None:
    builder = access.builder
    if access.stores:
        return None
    regions = builder.regions(shared=access.shared)
    registers = [region for region in regions if region.registers]
    feature = Has.OVERLAPPING_READS
    if Has.ROWS_LOADED in builder.wanted and registers:
        feature, regions = Has.ROWS_LOADED, registers
    elif Has.STORED_AND_LOADED in builder.wanted:
        feature = Has.STORED_AND_LOADED
        regions = [region for region in regions if region.written and region.type]
    elif Has.OVERLAPPING_READS in builder.wanted:
        regions = [region for region in regions if region.type and not region.written]
    elif placement != _OVERLAPPING or builder.wants(_ALIGNMENTS):
        return None
    if not regions:
        return None
    builder.take(feature)
    region, unit = regions[pick % len(regions)], _unit(access)
    # The first line meets the first run of the other, so that the two share bytes for certain.
    start = region.span.start // unit * unit
    if start + unit * (pick % 3) < region.span.start + region.span.run:
        start += unit * (pick % 3)
    return builder.matrix(region.arena, start, _tile(access), written=False)


_ROWS = (32, 40, 64, 16)  # Rows of the memory from which ldmatrix reads
_COMPUTED_IN = 3  # Scalar code computes the addresses of one access of rows in so many
_PITCHES = (ROW_BYTES, 2 * ROW_BYTES, 5 * ROW_BYTES)
"""Bytes from row to row that a store writes: side by side, apart, and as kernels pad them."""
KEPT = frozenset(
    {
        Has.FED_BY_ROWS,
        Has.WIDENED,
        Has.D_AS_MULTIPLICAND,
        Has.ROWS_OF_D,
        *ROW_LOADS,
        *ROW_STORES,
        *MOVES,
    }
)
"""Features that are gone where code of lanes stands between two instructions."""
ROW_LOADS_ASKED = (*ROW_LOADS, Has.OFFSET_IMMEDIATE, Has.OFFSET_NEGATIVE, Has.ROWS_COMPUTED)


_WIDENED = {"e3m2": "b6x16_p32", "e2m3": "b6x16_p32", "e2m1": "b4x16_p64"}
"""What ldmatrix widens to containers of elements (9.7.14.5.14 and .15)."""


def load_or_read(
    builder: Builder, holds: Held, hint: str, dice: Dice, type_: str = ""
) -> LiveValue:
    """Append a load of registers: by ldmatrix where it has so many, or lane by lane.

    `type_`: Of the elements, which ldmatrix may widen.
    """
    widening = _widening(builder, holds, type_)
    if widening and (dice.once_in(3) or Has.WIDENED in builder.wanted):
        builder.take(Has.WIDENED)
        value = read_rows(builder, fitting(builder, widening, dice), builder.dice())
        return centred(builder, value) if type_ == "e2m1" else value
    forms = [form for form in builder.everything.plain_row_loads if operand_of(form) == holds]
    asked = builder.wants((Has.FED_BY_ROWS, *ROW_LOADS_ASKED))
    plainly = Has.LOAD_REGISTERS in builder.wanted
    if not forms or (not asked and (plainly or not dice.once_in(2))):
        return load_registers(builder, holds, hint, dice)
    form = fitting(builder, forms, dice)
    builder.take(Has.FED_BY_ROWS)
    return read_rows(builder, form, builder.dice())


def _widening(builder: Builder, holds: Held, type_: str) -> list[Form]:
    """Return the loads that widen elements of a type; those of e2m1 need code of lanes behind."""
    if type_ == "e2m1":
        wanted = Has.WIDENED in builder.wanted
        if not builder.only_ptx or not (wanted or KEPT.isdisjoint(builder.asked)):
            return []
    return [
        form
        for form in builder.everything.row_loads
        if form.texts["src_fmt"] == _WIDENED.get(type_) and operand_of(form) == holds
    ]


def load_registers(
    builder: Builder, holds: Held, hint: str, dice: Dice, arena: Arena | None = None
) -> LiveValue:
    """Append a load of registers, lane by lane, from a buffer of their own or one that is given."""
    if arena is None:
        builder.take(Has.LOAD_REGISTERS)
        shared = dice.once_in(4) or Has.ADDRESS_LOADED in builder.asked
        arena = builder.arena(hint, shared=shared)
    place = Place(buffer=arena.buffer, offset=holds.bits // 8 * dice.below(5))
    name = builder.name(hint)
    step = plain_load(
        registers=name, count=holds.registers, bits=holds.bits, place=place, lanes=builder.threads
    )  # fmt: skip
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
    # All lanes, or as many as elsewhere in the program: compilers join conditions that are alike.
    few, some = dice.one_of((LANES // 2, LANES // 2, 1, 1 + dice.below(LANES))), dice.below(2)
    some = some or Has.STORE_BY_LANE in builder.asked
    builder.lanes = few if builder.lanes is None else builder.lanes
    if builder.take(Has.STORE_BY_LANE):
        builder.lanes = min(builder.lanes, LANES - 1)
    _store(builder, arena, value, start, builder.lanes if some else builder.threads)


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
    """Append other steps between two stores of the same lanes, which compilers like to join."""
    dice = builder.dice()
    value = load_registers(builder, Registers(registers=1), "r", dice, builder.arena("i"))
    lanes = dice.one_of((LANES // 2, 1, 1 + dice.below(LANES - 1)))
    _store(builder, builder.arena("o"), value, 0, lanes)
    inside()
    _store(builder, builder.arena("o"), value, 0, lanes)


def row_load(builder: Builder, form: Form) -> None:
    """Append an ldmatrix and a store of what it gave."""
    dice = builder.dice()
    store_registers(builder, read_rows(builder, form, dice), dice)


def read_rows(builder: Builder, form: Form, dice: Dice) -> LiveValue:
    """Append an ldmatrix, with valid addresses for all lanes: sm_75 wants it (9.7.14.5.15)."""
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
    addresses = tuple(start + ROW_BYTES * (row_of[kind](lane) % rows) for lane in range(LANES))
    code: tuple[Statement, ...] = ()
    if not asked and _computes(builder):
        addresses, code = computed_rows(builder.wide_dice(), start, ROW_BYTES, rows)
    name = builder.name("r")
    builder.scope.access(reads=(_rows(arena, addresses),))
    _access_rows(builder, form, name, arena, addresses, code, dice)
    return builder.define(name, operand_of(form))


def _access_rows(
    builder: Builder, form: Form, name: str, arena: Arena, addresses: tuple[int, ...],
    code: tuple[Statement, ...], dice: Dice,
) -> None:  # fmt: skip
    least = min(addresses)
    immediate = dice.one_of((0, 0, ROW_BYTES, min(least, 3 * ROW_BYTES), -ROW_BYTES))
    if least and builder.take(Has.OFFSET_IMMEDIATE):
        immediate = ROW_BYTES
    elif builder.take(Has.OFFSET_NEGATIVE):
        immediate = -ROW_BYTES
    builder.add(
        Op.of(
            form=form, registers=name, buffer=arena.buffer, addresses=addresses,
            # The registers hold no address in front of the buffer.
            immediate=min(immediate, least), computed=code,
        )
    )  # fmt: skip
    builder.take(*of_form(form))


def _computes(builder: Builder) -> bool:
    drawn = builder.dice().once_in(_COMPUTED_IN)
    return builder.take(Has.ROWS_COMPUTED) or (drawn and builder.only_ptx)


def _rows(arena: Arena, addresses: Sequence[int]) -> Span:
    low, high = min(addresses), max(addresses) + ROW_BYTES
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
        start = region.span.start // ROW_BYTES * ROW_BYTES
        return region.arena, start, max(1, (region.span.end - start) // ROW_BYTES)
    rows = dice.one_of(_ROWS)
    if shared and again:
        arena = shared[dice.below(len(shared))]
        return arena, 0, max(1, arena.size // ROW_BYTES)
    arena = builder.arena("r", shared=True)
    start = _first_row(builder, dice)
    builder.block(arena, start, rows * ROW_BYTES)
    return arena, start, rows


def _first_row(builder: Builder, dice: Dice) -> int:
    # Not at the start where an offset is asked for.
    return max(ROW_BYTES * dice.below(4), ROW_BYTES * (Has.OFFSET_IMMEDIATE in builder.wanted))


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
        addresses, code = computed_rows(builder.wide_dice(), start, pitch, LANES, apart=True)
    span = _rows(arena, addresses)
    builder.block(arena, span.start, span.end - span.start, written=True)
    builder.scope.access(writes=(span,))
    _access_rows(builder, form, value.name, arena, addresses, code, dice)
    value.pending = False
    builder.take(Has.ROWS_OF_D)


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
