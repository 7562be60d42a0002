"""How matrices are reached: state space, stride, alignment, and the parts of the address."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TypeGuard

from oracle.isa.forms import Form, Matrix
from oracle.layouts.storage import Tile
from oracle.program.operands import Fragment, Place
from oracle.program.steps import Op
from strategies.features import (
    FEATURES,
    HUGE_PITCH,
    LARGE_FACTOR,
    Feature,
    Has,
    least_padded,
    stride_unit,
    unit_bytes,
)
from strategies.programs.builder import Builder, Dice, LiveValue, Region
from strategies.programs.forms import ACCESS_FORMS

MOST_SHARED = 12 << 10
"""Bytes of shared memory from which matrices go to global memory: four warps share a block's."""
_MOST_SHARED_ASKED = 40 << 10
"""Most bytes of shared memory if shared memory is asked for; a block has 48 KiB."""
_SPACES = (("global", False), ("", False), ("shared", True), ("shared::cta", True), ("", True))
"""State spaces as an instruction spells them ("" is generic), and whether memory is shared."""
_DRAWN_STRIDES = (
    Has.STRIDE_OMITTED, Has.STRIDE_DEFAULT, Has.STRIDE_LEAST, Has.STRIDE_OMITTED,
    Has.STRIDE_ODD, Has.STRIDE_LARGE,
)  # fmt: skip
TIGHT = 12 << 10
"""Bytes of an image from which programs save memory: narrow strides, fragments used again."""
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
    space: str = "global"
    shared: bool = False
    stride: int | None = None
    in_register: bool = False

    @property
    def stores(self) -> bool:
        return self.matrix.operand == "d"

    @property
    def tile(self) -> Tile:
        return Tile(matrix=self.matrix, layout=self.layout, stride=self.stride)

    @property
    def unit(self) -> int:
        line_bytes = self.builder.focus.line_bytes
        return unit_bytes(self.matrix, shared=self.shared, line_bytes=line_bytes)

    def feature(self, space: str, shared: bool) -> Feature:
        return _of_space("store" if self.stores else "load", space, shared)

    def add(self, fragment: str, region: Region) -> None:
        self.builder.scope.access(**{"writes" if self.stores else "reads": (region.span,)})
        self.builder.add(
            Op.of(
                form=ACCESS_FORMS[self.matrix, self.layout, self.space], fragment=fragment,
                place=Place(buffer=region.arena.buffer, offset=region.span.start),
                stride=self.stride, stride_in_register=self.in_register,
                immediate=self._immediate(region.span.start),
            )
        )  # fmt: skip

    def _immediate(self, offset: int) -> int:
        """Choose what part of the address stands in the instruction.

        The part in the register stays in the buffer, or not far behind it where the immediate is
        negative.
        """
        kind = self.dice.one_of(("none", "none", "all", "some", "negative"))
        amount = self.dice.one_of((self.unit, 16, 1, 128))
        if offset and self.builder.take(Has.OFFSET_IMMEDIATE):
            kind = "all"
        elif self.builder.take(Has.OFFSET_NEGATIVE):
            kind = "negative"
        return {"all": offset, "some": min(offset, amount), "negative": -amount}.get(kind, 0)


@cache
def _of_space(verb: str, space: str, shared: bool) -> Feature:
    memory = "shared" if shared else "global"
    return FEATURES[f"{verb}: {'.' + space if space else 'generic, ' + memory}"]


def load(
    builder: Builder, matrix: Matrix, layout: str | None, hint: str, *, near: bool = False
) -> LiveValue:
    """Append a load of a fragment, from bytes that nothing has computed or from others.

    A layout of None is drawn (accumulators); names of the fragment and of its buffer begin with the
    hint. `near` has it read bytes that are read elsewhere as well, if there are any.
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
    access.add(name, region)
    return builder.define(name, Fragment.of(matrix, layout), region=region)


def store(builder: Builder, value: LiveValue, over: Region | None = None) -> None:
    """Append a store of an accumulator; some go over its C, where that was loaded."""
    matrix = replace(value.matrix, operand="d")
    dice, wanted = builder.dice(), builder.form
    layout = dice.one_of(("row", "col"))
    if _is_of(wanted, matrix):  # in the place that it asks for
        layout = wanted.layout
        over = None
    in_place = dice.once_in(6) and not builder.wants(STORES)
    in_place |= Has.IN_PLACE_MEMORY in builder.wanted
    access = _DrawnAccess(builder=builder, matrix=matrix, layout=layout, dice=dice)
    if over is not None and in_place and over.type == matrix.type:
        builder.take(Has.IN_PLACE_MEMORY)
        access.layout, access.stride, access.shared = over.layout, over.stride, over.arena.shared
        options = [option for option in _spaces(builder) if option[1] == access.shared]
        asked = [option for option in options if access.feature(*option) in builder.wanted]
        access.space = dice.one_of(asked or options)[0]
        builder.take(access.feature(access.space, access.shared))
        access.in_register = access.stride is not None and dice.once_in(2)
        over.arena.written = over.written = True
        region = over
    else:
        _choose_space(access)
        region = _place(access, _choose_stride(access), "d")
    access.add(value.name, region)
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
    wanted = [option for option in options if access.feature(*option) in builder.wanted]
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
    if drawn[1] and builder.image_bytes(shared=True) + 2 * access.tile.extent > most:
        drawn = next((o for o in options if not o[1]), drawn)
    access.space, access.shared = drawn
    builder.take(access.feature(*drawn))
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
    shared, line_bytes = access.shared, access.builder.focus.line_bytes
    unit = stride_unit(matrix, shared=shared, line_bytes=line_bytes)
    least = least_padded(matrix, layout, shared=shared, line_bytes=line_bytes)
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
    found, unit = [], access.unit
    for region in access.builder.regions(shared=access.shared):
        if (region.type, region.layout) != (access.matrix.type, access.layout):
            continue
        if region.stride is None:
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
            return builder.matrix(region.arena, start, access.tile, written=access.stores)
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
    start = _aligned(arena.used, access.unit, alignment, units)
    return builder.matrix(arena, start, access.tile, written=access.stores)


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
    region, unit = regions[pick % len(regions)], access.unit
    # The first line meets the first run of the other, so that the two share bytes for certain.
    start = region.span.start // unit * unit
    if start + unit * (pick % 3) < region.span.start + region.span.run:
        start += unit * (pick % 3)
    return builder.matrix(region.arena, start, access.tile, written=False)


def _aligned(used: int, unit: int, alignment: Feature, units: int) -> int:
    if alignment == Has.ALIGNED_128:
        return (-(-used // 128) + units) * 128
    step, rest = (2 * unit, unit) if alignment == Has.ALIGNED_LEAST else (4 * unit, 2 * unit)
    return (max(0, -(-(used - rest) // step)) + units % 2) * step + rest
