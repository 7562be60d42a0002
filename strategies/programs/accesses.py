"""How matrices are reached: state space, stride, alignment, and the parts of the address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from oracle.forms import Form
from oracle.matrices import Matrix
from oracle.ops import MatrixAccess, Op
from oracle.places import Place
from oracle.storage import Tile
from strategies.features import (
    HUGE_PITCH,
    LARGE_FACTOR,
    Feature,
    least_padded,
    stride_unit,
    unit_bytes,
)
from strategies.programs.building import Builder
from strategies.programs.choices import Dice
from strategies.programs.forms import load_form, store_form
from strategies.programs.memory import Region
from strategies.programs.scopes import Value, accumulator

MOST_SHARED = 12 << 10
"""Bytes of shared memory from which matrices go to global memory: four warps share a block's."""
_MOST_SHARED_ASKED = 40 << 10
"""The same where shared memory is asked for; a block has 48 KiB."""

_SPACES = (("global", False), ("", False), ("shared", True), ("shared::cta", True), ("", True))
"""State spaces as an instruction spells them ("" is generic), and whether memory is shared."""

_IN_STRIDE = (
    Feature.STRIDE_OMITTED, Feature.STRIDE_DEFAULT, Feature.STRIDE_LEAST, Feature.STRIDE_ODD,
    Feature.STRIDE_LARGE,
)  # fmt: skip
_DRAWN_STRIDES = (
    Feature.STRIDE_OMITTED, Feature.STRIDE_DEFAULT, Feature.STRIDE_LEAST, Feature.STRIDE_OMITTED,
    Feature.STRIDE_ODD, Feature.STRIDE_LARGE,
)  # fmt: skip
_WIDE = (Feature.STRIDE_ODD, Feature.STRIDE_LARGE)
TIGHT = 12 << 10
"""Bytes of an image from which programs save memory: narrow strides, fragments used again."""
_ALIGNMENTS = (Feature.ALIGNED_128, Feature.ALIGNED_LEAST, Feature.ALIGNED_MORE)
_FRESH, _SAME_BUFFER, _OVERLAPPING, _BESIDE = range(4)
_PLACEMENTS = (_FRESH, _FRESH, _FRESH, _SAME_BUFFER, _OVERLAPPING, _BESIDE)


@dataclass(kw_only=True)
class _Access:
    """One access in the making."""

    matrix: Matrix
    layout: str
    verb: str
    """"load" or "store"."""
    dice: Dice
    line_bytes: int
    space: str = "global"
    shared: bool = False
    stride: int | None = None
    in_register: bool = False

    @property
    def tile(self) -> Tile:
        return Tile(matrix=self.matrix, layout=self.layout, stride=self.stride)

    @property
    def unit(self) -> int:
        return unit_bytes(self.matrix, shared=self.shared, line_bytes=self.line_bytes)

    def step(self, fragment: str, region: Region, immediate: int) -> MatrixAccess:
        form = load_form if self.verb == "load" else store_form
        return Op.of(
            form=form(self.matrix, self.layout, self.space), fragment=fragment,
            place=Place(buffer=region.arena.buffer, offset=region.span.start),
            stride=self.stride, stride_in_register=self.in_register, immediate=immediate,
        )  # fmt: skip


def load(
    builder: Builder, matrix: Matrix, layout: str | None, hint: str, *, near: bool = False
) -> Value:
    """Append a load of a fragment, from bytes that nothing has computed or from others.

    Parameters
    ----------
    layout
        "row" or "col"; None lets it be drawn (accumulators).
    hint
        What names of the fragment and of its buffer begin with.
    near
        Whether to read bytes that are read elsewhere as well, if there are any.
    """
    dice = builder.dice()
    wanted = builder.form
    asked = wanted is not None and wanted.mnemonic == "wmma.load" and wanted.matrix() == matrix
    if layout is None:
        layout = dice.one_of(("row", "col"))
        layout = wanted.layout if wanted is not None and asked else layout
    access = _Access(
        matrix=matrix, layout=layout, verb="load", dice=dice, line_bytes=builder.line_bytes
    )
    _choose_space(builder, access)
    placement = _choose_stride(builder, access)
    region = _place(builder, access, _OVERLAPPING if near else placement, hint)
    name = builder.name(hint)
    builder.scope.access(reads=(region.span,))
    builder.add(access.step(name, region, _immediate(builder, access, region)))
    value = Value(
        name=name, matrix=accumulator(matrix), layout=layout if matrix.operand in "ab" else None,
        depth=builder.scope.depth, region=region,
    )  # fmt: skip
    builder.scope.define(value)
    return value


def store(builder: Builder, value: Value, over: Region | None = None) -> None:
    """Append a store of an accumulator.

    Parameters
    ----------
    over
        Where C was loaded, if D has its type: some stores go there.
    """
    matrix = Matrix(operand="d", shape=value.matrix.shape, type=value.matrix.type)
    dice = builder.dice()
    wanted = builder.form
    layout = dice.one_of(("row", "col"))
    if wanted and wanted.mnemonic == "wmma.store" and wanted.matrix() == matrix:
        # In the place that it asks for.
        layout = wanted.layout
        over = None
    in_place = dice.once_in(6) and not builder.wants(STORES)
    in_place |= Feature.IN_PLACE_MEMORY in builder.wanted
    access = _Access(
        matrix=matrix, layout=layout, verb="store", dice=dice, line_bytes=builder.line_bytes
    )
    if over is not None and in_place and over.type == matrix.type:
        builder.take(Feature.IN_PLACE_MEMORY)
        region = _over(builder, access, over)
    else:
        _choose_space(builder, access)
        region = _place(builder, access, _choose_stride(builder, access), "d")
    builder.scope.access(writes=(region.span,))
    builder.add(access.step(value.name, region, _immediate(builder, access, region)))
    value.pending = False


STORES = (
    Feature.STORE_GENERIC_GLOBAL, Feature.STORE_GENERIC_SHARED, Feature.STORE_GLOBAL,
    Feature.STORE_SHARED, Feature.STORE_SHARED_CTA, Feature.LDMATRIX_OF_STORE,
)  # fmt: skip
"""What asks for the memory of a store."""


def is_asked_of(builder: Builder, value: Value) -> bool:
    """Tell whether a store is asked for that a value can have."""
    form = builder.form
    if form is None or form.mnemonic != "wmma.store":
        return False
    return accumulator(form.matrix()) == value.matrix


def _over(builder: Builder, access: _Access, over: Region) -> Region:
    """Choose to store exactly where a matrix was loaded."""
    access.layout, access.stride, access.shared = over.layout, over.stride, over.arena.shared
    options = [o for o in _spaces(builder) if o[1] == access.shared]
    wanted = [option for option in options if _feature("store", *option) in builder.wanted]
    access.space = access.dice.one_of(wanted or options)[0]
    builder.take(_feature("store", access.space, access.shared))
    access.in_register = access.stride is not None and access.dice.once_in(2)
    over.arena.written = True
    over.written = True
    return over


def _spaces(builder: Builder) -> list[tuple[str, bool]]:
    return [(space, shared) for space, shared in _SPACES if space in builder.palette.spaces]


@cache
def _feature(verb: str, space: str, shared: bool) -> Feature:
    memory = "shared" if shared else "global"
    return Feature(f"{verb}: {'.' + space if space else 'generic, ' + memory}")


_IN_GLOBAL = (
    Feature.STORED_AND_LOADED, Feature.OVERLAPPING_READS, Feature.TILES, Feature.STRIDE_HUGE,
    Feature.LDMATRIX_LOADED,
)  # fmt: skip
"""What needs accesses in one space, or much of it."""


def _choose_space(builder: Builder, access: _Access) -> None:
    options = _spaces(builder)
    form = builder.form
    asked = False
    if form is not None and form.is_access and _is_asked(access, form):
        builder.form = None
        options = [option for option in options if option[0] == form.space]
        asked = True
    wanted = [o for o in options if _feature(access.verb, *o) in builder.wanted]
    drawn = access.dice.one_of(options)
    most = MOST_SHARED
    stored = [region for region in builder.memory.regions() if region.written and region.type]
    if wanted:
        drawn = wanted[0]
        asked = True
    elif Feature.LDMATRIX_OF_STORE in builder.wanted and access.verb == "store":
        drawn, asked = next((o for o in options if o[1]), drawn), True
    elif Feature.GLOBAL_AND_SHARED in builder.wanted:
        spaces = builder.memory.spaces()
        if spaces:
            other = [o for o in options if o[1] not in spaces]
            drawn, asked = (other or [drawn])[0], True
    elif Feature.STORED_AND_LOADED in builder.wanted and access.verb == "load" and stored:
        drawn = next((o for o in options if o[1] == stored[0].arena.shared), drawn)
    elif (builder.plain_spaces or builder.wants(_IN_GLOBAL)) and not asked:
        drawn = options[0]
    if asked:
        most = _MOST_SHARED_ASKED
    extent = access.tile.extent
    if drawn[1] and builder.memory.size(shared=True) + 2 * extent > most:
        drawn = next((o for o in options if not o[1]), drawn)
    access.space, access.shared = drawn
    builder.take(_feature(access.verb, *drawn))
    if len(builder.memory.spaces() | {drawn[1]}) > 1:
        builder.take(Feature.GLOBAL_AND_SHARED)


def _is_asked(access: _Access, form: Form) -> bool:
    verb = "load" if form.mnemonic == "wmma.load" else "store"
    return (verb, form.matrix(), form.layout) == (access.verb, access.matrix, access.layout)


def _choose_stride(builder: Builder, access: _Access) -> int:
    """Choose the stride; return what placement goes with it."""
    dice = access.dice
    class_ = dice.one_of(_DRAWN_STRIDES)
    more = dice.below(4)
    in_register = dice.once_in(2)
    placement = dice.one_of(_PLACEMENTS)
    wanted = [one for one in _IN_STRIDE if one in builder.wanted]
    huge = Feature.STRIDE_HUGE in builder.wanted and not access.shared
    if huge:
        class_ = Feature.STRIDE_HUGE
    elif wanted:
        class_ = wanted[0]
    elif builder.wants((Feature.STRIDE_REGISTER, Feature.STRIDE_IMMEDIATE)):
        class_ = Feature.STRIDE_DEFAULT if class_ is Feature.STRIDE_OMITTED else class_
    elif Feature.TILES in builder.wanted and not _beside(builder, access):
        class_ = Feature.STRIDE_LARGE
    elif class_ in _WIDE and builder.memory.size(shared=False) > TIGHT:
        class_ = Feature.STRIDE_LEAST
    builder.take(class_)
    access.stride = _stride(access, class_, more)
    if class_ is Feature.STRIDE_OMITTED:
        return placement
    if builder.wants((Feature.STRIDE_REGISTER, Feature.STRIDE_IMMEDIATE)):
        in_register = builder.take(Feature.STRIDE_REGISTER)
        if not in_register:
            builder.take(Feature.STRIDE_IMMEDIATE)
    builder.take(Feature.STRIDE_REGISTER if in_register else Feature.STRIDE_IMMEDIATE)
    access.in_register = in_register
    # A tile beside another has the stride of that one.
    if (wanted or huge) and placement == _BESIDE:
        return _FRESH
    return placement


def _stride(access: _Access, class_: Feature, more: int) -> int | None:
    """Return the stride of a class, in elements."""
    matrix = access.matrix
    default = matrix.default_stride(access.layout)
    shared, line_bytes = access.shared, access.line_bytes
    unit = stride_unit(matrix, shared=shared, line_bytes=line_bytes)
    least = least_padded(matrix, access.layout, shared=shared, line_bytes=line_bytes)
    match class_:
        case Feature.STRIDE_OMITTED:
            return None
        case Feature.STRIDE_DEFAULT:
            return default
        case Feature.STRIDE_LEAST:
            return least
        case Feature.STRIDE_ODD:
            units = least // unit + 1
            return (units + 1 - units % 2 + 2 * more) * unit
        case Feature.STRIDE_HUGE:
            elements = HUGE_PITCH * 8 // matrix.type.bits
            return elements * (1 + more // 2) + unit * (more % 2)
        case _:
            lines = -(-default // unit) * unit
            return max(least, LARGE_FACTOR * lines) + more * lines


def _beside(builder: Builder, access: _Access) -> list[tuple[Region, int]]:
    """Return (region, start) where the matrix fits beside another of a larger matrix."""
    found = []
    for region in builder.memory.regions(shared=access.shared):
        if region.type != access.matrix.type or region.layout != access.layout:
            continue
        if region.stride is None:
            continue
        tile = Tile(matrix=access.matrix, layout=access.layout, stride=region.stride)
        column = region.columns * -(-region.span.run // access.unit) * access.unit
        column = max(column, -(-region.columns * tile.line_bytes // access.unit) * access.unit)
        if (
            tile.elements >= access.matrix.default_stride(access.layout)
            and column + tile.line_bytes <= tile.pitch
            and (region.span.start + column) % access.unit == 0
            and tile.pitch % access.unit == 0
            and (tile.lines <= region.span.runs or region.span.end >= region.arena.used)
        ):
            found.append((region, region.span.start + column))
    return found


def _place(builder: Builder, access: _Access, placement: int, hint: str) -> Region:
    """Choose where the matrix lies."""
    dice = access.dice
    alignment = dice.one_of(_ALIGNMENTS)
    units = dice.below(4)
    at_end = dice.once_in(8)
    pick = dice.below(8)
    overlap = _placed_over(builder, access, placement, pick)
    if overlap is not None:
        return overlap
    if placement == _BESIDE or Feature.TILES in builder.wanted:
        places = _beside(builder, access)
        if places:
            region, start = places[pick % len(places)]
            builder.take(Feature.TILES)
            region.columns += 1
            access.stride = region.stride
            return builder.memory.matrix(
                region.arena, start, access.tile, written=access.verb == "store"
            )
    arena = None
    if placement == _SAME_BUFFER or (access.shared and units % 2):
        arenas = [
            arena
            for arena in builder.memory.arenas
            if arena.shared == access.shared and not arena.closed
        ]
        arena = arenas[pick % len(arenas)] if arenas else None
    wanted = [one for one in _ALIGNMENTS if one in builder.wanted]
    alignment = wanted[0] if wanted else alignment
    builder.take(alignment)
    if Feature.OFFSET_IMMEDIATE in builder.wanted and alignment is Feature.ALIGNED_128:
        units = max(1, units)
    end_asked = builder.take(Feature.BUFFER_END)
    if arena is None or end_asked:
        arena = builder.memory.arena(hint, shared=access.shared)
        arena.closed = end_asked or (at_end and not builder.wanted)
    start = _aligned(arena.used, access.unit, alignment, units)
    return builder.memory.matrix(arena, start, access.tile, written=access.verb == "store")


def _placed_over(builder: Builder, access: _Access, placement: int, pick: int) -> Region | None:
    """Choose to read bytes that are read or written elsewhere as well, if that is possible."""
    if access.verb == "store":
        return None
    regions: Sequence[Region] = builder.memory.regions(shared=access.shared)
    again = [region for region in regions if region.written and region.type is not None]
    registers = [region for region in regions if region.registers]
    if Feature.LDMATRIX_LOADED in builder.wanted and registers:
        builder.take(Feature.LDMATRIX_LOADED)
        regions = registers
    elif Feature.STORED_AND_LOADED in builder.wanted:
        if again:
            builder.take(Feature.STORED_AND_LOADED)
        regions = again
    elif Feature.OVERLAPPING_READS in builder.wanted:
        regions = [region for region in regions if region.type and not region.written]
        if regions:
            builder.take(Feature.OVERLAPPING_READS)
    elif placement != _OVERLAPPING or builder.wants(_ALIGNMENTS):
        return None
    if not regions:
        return None
    region = regions[pick % len(regions)]
    unit = access.unit
    # The first line meets the first run of the other, so that the two share bytes for certain.
    start = region.span.start // unit * unit
    if start + unit * (pick % 3) < region.span.start + region.span.run:
        start += unit * (pick % 3)
    return builder.memory.matrix(region.arena, start, access.tile, written=False)


def _aligned(used: int, unit: int, alignment: Feature, units: int) -> int:
    """Return the first offset behind what is used that is aligned so, and not better."""
    if alignment is Feature.ALIGNED_128:
        return (-(-used // 128) + units) * 128
    step, rest = (2 * unit, unit) if alignment is Feature.ALIGNED_LEAST else (4 * unit, 2 * unit)
    turns = max(0, -(-(used - rest) // step))
    return (turns + units % 2) * step + rest


def _immediate(builder: Builder, access: _Access, region: Region) -> int:
    """Choose what part of the address stands in the instruction.

    The part in the register stays in the buffer, or not far behind it where the immediate is
    negative.
    """
    dice, offset, unit = access.dice, region.span.start, access.unit
    kind = dice.one_of(("none", "none", "all", "some", "negative"))
    amount = dice.one_of((unit, 16, 1, 128))
    if offset and builder.take(Feature.OFFSET_IMMEDIATE):
        kind = "all"
    elif builder.take(Feature.OFFSET_NEGATIVE):
        kind = "negative"
    match kind:
        case "all":
            return offset
        case "some":
            return min(offset, amount)
        case "negative":
            return -amount
        case _:
            return 0
