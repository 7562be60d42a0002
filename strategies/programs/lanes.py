"""Programs on registers that are known by lane: what feeds mma.sync, and what becomes of D."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from oracle.forms import ROW_BYTES, Form
from oracle.held import Registers
from oracle.isa import FORMS, is_available
from oracle.lane_steps import (
    LoadRegisters,
    PackRegisters,
    StoreRegisters,
)
from oracle.matrices import LANES
from oracle.ops import Op
from oracle.places import Place, Span
from oracle.targets import Module, PtxVersion
from strategies.features import Feature
from strategies.programs.building import Builder
from strategies.programs.choices import Dice
from strategies.programs.forms import families, is_valued
from strategies.programs.interludes import read_rows, row_immediate, row_load, storing_lanes
from strategies.programs.scopes import LaneValue

_ROW = ROW_BYTES
_PITCHES = (_ROW, 2 * _ROW, 5 * _ROW)
"""Bytes from row to row that stmatrix writes: side by side, apart, and as kernels pad them."""
_PACKING_SINCE = PtxVersion(7, 0)
_PACKING_TARGET = 80
"""First version and target with cvt.rn.{f16x2,bf16x2}.f32 (PTX ISA 9.7.9.23)."""


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """What a module has for use around mma.sync."""

    row_loads: tuple[Form, ...]
    row_stores: tuple[Form, ...]
    transposition: Form | None
    packs: bool
    """Whether pairs of f32 can be converted into one register."""


@cache
def neighbours(module: Module) -> Neighbours:
    """Return what a module has for use around mma.sync."""
    known = [form for form in FORMS if not form.opaque and is_available(form, module)]
    moves = [form for form in known if "to" in form.operands]
    return Neighbours(
        row_loads=tuple(form for form in known if form.is_load and form.texts["type"] == "b16"),
        row_stores=tuple(form for form in known if form.is_store and is_valued(form, module)),
        transposition=moves[0] if moves else None,
        packs=module.target.number >= _PACKING_TARGET and module.version >= _PACKING_SINCE,
    )


def multiply_lanes(
    builder: Builder, forms: Sequence[Form], near: Neighbours, *, hoisted: bool
) -> None:
    """Append multiplications of some forms; with `hoisted`, all is loaded before the first."""
    if hoisted:
        planned = [_operands(builder, form, near, fresh=True) for form in forms]
        by_lane = Feature.STORE_BY_LANE in builder.asked
        # Nothing but multiplications between stores: compilers join what they do for some lanes.
        at_once = not builder.wants((Feature.LIVE_8, Feature.LIVE_16)) and (
            builder.dice().once_in(2) or by_lane
        )
        for form, operands in zip(forms, planned, strict=True):
            d = _multiply(builder, form, operands)
            if at_once:
                _store_plainly(builder, d, builder.dice(), shared=False)
        return
    for form in forms:
        d = _multiply(builder, form, _operands(builder, form, near, fresh=False))
        kept = builder.wants(
            (Feature.D_AS_C, Feature.CHAIN, Feature.D_AS_MULTIPLICAND, Feature.STMATRIX_OF_D)
        )
        if builder.dice().once_in(2) and not kept:
            store_lanes(builder, d, near)


def flush_lanes(builder: Builder, near: Neighbours) -> None:
    """Store what would be lost at the end of the scope."""
    for value in tuple(builder.scope.lanes.values()):
        if value.pending and value.depth >= builder.scope.depth:
            store_lanes(builder, value, near)


def beside_lanes(builder: Builder, main: Form, number: int, known: tuple[Form, ...]) -> list[Form]:
    """Choose so many multiplications, of which the first is given."""
    forms = [main]
    while len(forms) < number:
        dice, last = builder.dice(), forms[-1]
        kind = dice.one_of(("same", "kin", "next", "any"))
        others: Sequence[Form]
        if builder.wants((Feature.D_AS_C, Feature.CHAIN)):
            kind = "kin"
        elif builder.wants((Feature.A_REUSED, Feature.B_REUSED, Feature.LIVE_8, Feature.LIVE_16)):
            kind = "same"
        elif Feature.D_AS_MULTIPLICAND in builder.wanted:
            kind = "next"
        if builder.take(Feature.SEVERAL_SHAPES):
            others = [form for form in known if form.shape != main.shape]
        elif builder.take(Feature.SEVERAL_TYPES):
            others = [form for form in known if form.a_type != main.a_type]
        elif Feature.OVER_PART in builder.wanted:
            others = [form for form in known if form.words("d") < form.words("a")]
        elif kind == "kin":
            others = [form for form in known if _held(form, "c") == _held(last, "d")]
        elif kind == "next":
            others = [form for form in known if _takes(form, last)]
        elif kind == "any":
            others = dice.one_of(families(known)) if known else ()
        else:
            others = [last]
        forms.append(dice.one_of(others or [last]))
    return forms


def load_accumulator(builder: Builder, form: Form) -> None:
    """Append a load of a C for what a loop or a branch carries."""
    _plain(builder, _held(form, "c"), "c", builder.dice()).pending = True


def move_rows(builder: Builder, form: Form, near: Neighbours) -> None:
    """Append a stmatrix or a movmatrix that the program is about, and what it needs."""
    dice = builder.dice()
    count = form.number if form.mnemonic == "stmatrix" else dice.one_of((1, 2, 4))
    there = [
        value
        for value in builder.scope.lanes.values()
        if value.holds == Registers(registers=count) and value.computed
    ]
    if there and dice.once_in(2):
        value = there[-1]
    else:
        value = _loaded(builder, Registers(registers=count), "r", near, dice)
    if form.mnemonic == "movmatrix":
        value = _turned(builder, value, form)
        store_lanes(builder, value, near)
    else:
        _store_rows(builder, value, [form], dice)
    if builder.form == form:
        builder.form = None


def complete_lanes(builder: Builder, near: Neighbours) -> None:
    """Append moves that are still asked for and that the multiplications did not bring."""
    if near.row_loads and builder.wants((*_OF_LDMATRIX, *_OF_OFFSETS)):
        row_load(builder, _fitting(builder, near.row_loads, "ldmatrix", builder.dice()))
    if near.row_stores and builder.wants((Feature.STMATRIX, *_OF_STMATRIX)):
        move_rows(builder, _fitting(builder, near.row_stores, "stmatrix", builder.dice()), near)
    if near.transposition is not None and Feature.MOVMATRIX in builder.wanted:
        move_rows(builder, near.transposition, near)
    if near.packs and builder.take(Feature.PACKED):
        dice = builder.dice()
        value = _plain(builder, Registers(registers=dice.one_of((4, 2, 8))), "c", dice)
        store_lanes(builder, _packed(builder, value, dice), near)


def store_lanes(builder: Builder, value: LaneValue, near: Neighbours) -> None:
    """Append what stores registers: on their own, in rows, turned or packed before."""
    dice = builder.dice()
    value.pending = False
    wide = value.type == "f32" and value.holds.registers > 1
    kind = dice.one_of(("plain", "rows", "plain", "shared", "rows", "plain"))
    asked = builder.wants((Feature.STMATRIX_OF_D, Feature.STMATRIX, *_OF_STMATRIX))
    if wide and near.packs and (dice.once_in(4) or builder.take(Feature.PACKED)):
        builder.take(Feature.PACKED)
        value = _packed(builder, value, dice)
    turned = dice.once_in(8) or Feature.MOVMATRIX in builder.wanted
    if near.transposition is not None and value.holds.bits == 32 and turned:
        value = _turned(builder, value, near.transposition)
    forms = [form for form in near.row_stores if value.holds == Registers(registers=form.registers)]
    if forms and (kind == "rows" or asked):
        _store_rows(builder, value, forms, dice)
    else:
        _store_plainly(builder, value, dice, shared=kind == "shared")


_OF_LDMATRIX = (
    Feature.LDMATRIX, Feature.LDMATRIX_GENERIC, Feature.LDMATRIX_SHARED,
    Feature.LDMATRIX_SHARED_CTA,
)  # fmt: skip
_OF_OFFSETS = (Feature.OFFSET_IMMEDIATE, Feature.OFFSET_NEGATIVE)
_OF_STMATRIX = (
    Feature.STMATRIX_GENERIC, Feature.STMATRIX_SHARED, Feature.STMATRIX_SHARED_CTA,
)  # fmt: skip


@cache
def _held(form: Form, operand: str) -> Registers:
    return Registers.of(form.vector(operand))


def _takes(form: Form, last: Form) -> bool:
    """Tell whether a multiplication can take the D of another, or its pairs, as A or B."""
    d = _held(last, "d")
    found = [d]
    if last.d_type.name == "f32" and d.registers > 1:
        found.append(Registers(registers=d.registers // 2))
    return any(_held(form, operand) in found for operand in "ab")


def _operands(
    builder: Builder, form: Form, near: Neighbours, *, fresh: bool
) -> dict[str, LaneValue]:
    """Load or choose A, B and C of a multiplication."""
    dice = builder.dice()
    found: dict[str, LaneValue] = {}
    for operand, feature in (("a", Feature.A_REUSED), ("b", Feature.B_REUSED)):
        needs = _held(form, operand)
        again = [v for v in builder.scope.lanes.values() if v.holds == needs and operand in v.used]
        reuse = dice.once_in(4) and not fresh
        taken = {one.name for one in found.values()}
        kept = fresh or (again and feature in builder.wanted)
        value = None if kept else _from_d(builder, form, operand, near, dice, taken)
        if value is None and again and not fresh and (reuse or feature in builder.wanted):
            builder.take(feature)
            value = again[-1]
        found[operand] = value or _loaded(builder, needs, operand, near, dice)
    needs = _held(form, "c")
    there = [value for value in builder.scope.lanes.values() if value.holds == needs]
    made = [v for v in there if v.computed and v.name not in {o.name for o in found.values()}]
    carried = [value for value in there if value.depth < builder.scope.depth and value.pending]
    chained = dice.once_in(2) or builder.wants((Feature.D_AS_C, Feature.CHAIN))
    if carried and not fresh:
        found["c"] = carried[-1]
    elif made and not fresh and chained:
        found["c"] = made[-1]
    else:
        found["c"] = _plain(builder, needs, "c", dice)
    return found


def _from_d(
    builder: Builder,
    form: Form,
    operand: str,
    near: Neighbours,
    dice: Dice,
    taken: set[str],
) -> LaneValue | None:
    """Choose a D as A or B, packed where that makes it fit; None for none.

    Parameters
    ----------
    taken
        Names that are chosen already: what they hold must stay.
    """
    drawn = dice.once_in(3) and not builder.wants((Feature.D_AS_C, Feature.CHAIN))
    if not drawn and Feature.D_AS_MULTIPLICAND not in builder.wanted:
        return None
    needs = _held(form, operand)
    for value in reversed(tuple(builder.scope.lanes.values())):
        if not value.computed or value.name in taken:
            continue
        if value.holds == needs:
            builder.take(Feature.D_AS_MULTIPLICAND)
            return value
        wide = value.type == "f32" and value.holds.registers == 2 * needs.registers
        if wide and near.packs and needs.bits == 32:
            builder.take(Feature.D_AS_MULTIPLICAND)
            builder.take(Feature.PACKED)
            return _packed(builder, value, dice, type_=form.a_type.name)
    return None


def _loaded(
    builder: Builder, needs: Registers, hint: str, near: Neighbours, dice: Dice
) -> LaneValue:
    """Append a load of registers: by ldmatrix where it has so many, or lane by lane."""
    forms = [form for form in near.row_loads if Registers(registers=form.registers) == needs]
    asked = builder.wants((Feature.FED_BY_LDMATRIX, *_OF_LDMATRIX, *_OF_OFFSETS))
    plainly = Feature.LOAD_REGISTERS in builder.wanted
    if not forms or (not asked and (plainly or not dice.once_in(2))):
        return _plain(builder, needs, hint, dice)
    form = _fitting(builder, forms, "ldmatrix", dice)
    builder.take(Feature.FED_BY_LDMATRIX)
    name = read_rows(builder, form, builder.dice())
    return _defined(builder, LaneValue(name=name, holds=needs, depth=builder.scope.depth))


def _plain(builder: Builder, needs: Registers, hint: str, dice: Dice) -> LaneValue:
    builder.take(Feature.LOAD_REGISTERS)
    near = dice.once_in(4) or Feature.ADDRESS_LOADED in builder.asked
    arena = builder.memory.arena(hint, shared=near)
    start = needs.bits // 8 * dice.below(5)
    name = builder.name(hint)
    step = LoadRegisters(
        registers=name, count=needs.registers, bits=needs.bits,
        place=Place(buffer=arena.buffer, offset=start),
    )  # fmt: skip
    region = builder.memory.block(arena, start, step.size, written=False)
    builder.scope.access(reads=(region.span,))
    builder.add(step)
    return _defined(builder, LaneValue(name=name, holds=needs, depth=builder.scope.depth))


def _defined(builder: Builder, value: LaneValue) -> LaneValue:
    builder.scope.lanes[value.name] = value
    return value


def _fitting(builder: Builder, forms: Sequence[Form], mnemonic: str, dice: Dice) -> Form:
    """Choose a form, of the state space that is asked for if one is."""
    fitting = [form for form in forms if _of_space(mnemonic, form.space) in builder.wanted]
    return dice.one_of(fitting or forms)


def _of_space(mnemonic: str, space: str) -> Feature:
    return Feature(f"{mnemonic}: {'.' + space if space else 'generic'}")


def _multiply(builder: Builder, form: Form, operands: dict[str, LaneValue]) -> LaneValue:
    """Append a multiplication; return D."""
    dice, scope, held = builder.dice(), builder.scope, _held(form, "d")
    a, b, c = (operands[operand] for operand in "abc")
    target = dice.one_of(("d", "c", "d", "a", "c", "b"))
    if builder.wants((Feature.A_REUSED, Feature.B_REUSED)):
        target = "d"
    elif Feature.IN_PLACE_REGISTERS in builder.wanted:
        target = "c"
    elif builder.wants((Feature.OVER_MULTIPLICAND, Feature.OVER_PART)):
        target = "a" if a.depth == scope.depth else "b"
    elif c.depth < scope.depth:
        target = "c"  # what a loop carries, or both arms of a branch change
    name, depth = "", scope.depth
    if target != "d":
        value = operands[target]
        # A name changes what it holds only in the scope that it comes from: joins stay alike.
        if value.depth == scope.depth or value.holds == held:
            name, depth = value.name, value.depth
            builder.take(Feature.IN_PLACE_REGISTERS if target == "c" else Feature.OVER_MULTIPLICAND)
            if value.holds.words > held.words:
                builder.take(Feature.OVER_PART)
    name = name or builder.name("d")
    builder.add(Op.of(form=form, d=name, a=a.name, b=b.name, c=c.name))
    builder.take(Feature.MMA_SYNC)
    a.used |= {"a"}
    b.used |= {"b"}
    c.pending = False
    if builder.form == form:
        builder.form = None
    return _defined(
        builder,
        LaneValue(
            name=name, holds=held, depth=depth, type=form.d_type.name, pending=True, computed=True
        ),
    )


def _packed(builder: Builder, value: LaneValue, dice: Dice, type_: str = "") -> LaneValue:
    if type_ not in ("f16", "bf16"):
        type_ = dice.one_of(("f16", "bf16"))
    name = value.name if value.depth == builder.scope.depth and dice.once_in(2) else ""
    name = name or builder.name("p")
    builder.add(
        PackRegisters(type=type_, source=value.name, destination=name, count=value.holds.registers)
    )
    holds = Registers(registers=value.holds.registers // 2)
    value.pending = False
    return _defined(
        builder, LaneValue(name=name, holds=holds, depth=builder.scope.depth, pending=True)
    )


def _turned(builder: Builder, value: LaneValue, form: Form) -> LaneValue:
    builder.take(Feature.MOVMATRIX)
    name = builder.name("t")
    builder.add(Op.of(form=form, source=value.name, destination=name, count=value.holds.registers))
    value.pending = False
    return _defined(builder, LaneValue(name=name, holds=value.holds, depth=builder.scope.depth))


def _store_plainly(builder: Builder, value: LaneValue, dice: Dice, *, shared: bool) -> None:
    builder.take(Feature.STORE_REGISTERS)
    value.pending = False
    arena = builder.memory.arena("o", shared=shared)
    start = value.holds.bits // 8 * dice.below(5)
    step = StoreRegisters(
        registers=value.name, count=value.holds.registers, bits=value.holds.bits,
        place=Place(buffer=arena.buffer, offset=start), lanes=storing_lanes(builder, dice),
    )  # fmt: skip
    region = builder.memory.block(arena, start, step.size, written=True)
    builder.scope.access(writes=(region.span,))
    builder.add(step)


def _store_rows(builder: Builder, value: LaneValue, forms: Sequence[Form], dice: Dice) -> None:
    """Append a stmatrix to rows that lie apart."""
    form = _fitting(builder, forms, "stmatrix", dice)
    arena = builder.memory.arena("o", shared=True)
    start, pitch = _ROW * dice.below(4), dice.one_of(_PITCHES)
    if Feature.OFFSET_IMMEDIATE in builder.wanted:
        start = max(start, _ROW)
    kind, odd = dice.one_of(("in order", "mixed", "backwards", "hopping")), 1 + 2 * dice.below(16)
    match kind:
        case "in order":
            order = [*range(LANES)]
        case "mixed":
            order = [lane ^ (lane >> 3 & 3) for lane in range(LANES)]
        case "backwards":
            order = [*range(LANES)][::-1]
        case _:  # an odd factor makes a permutation of a power of two
            order = [lane * odd % LANES for lane in range(LANES)]
    addresses = tuple(start + pitch * row for row in order)
    low, high = min(addresses), max(addresses) + _ROW
    builder.memory.block(arena, low, high - low, written=True)
    builder.scope.access(writes=(Span.block(arena.buffer, low, high - low),))
    builder.add(
        Op.of(
            form=form, registers=value.name, buffer=arena.buffer, addresses=addresses,
            immediate=row_immediate(builder, dice, min(addresses)),
        )
    )  # fmt: skip
    value.pending = False
    for feature in (
        Feature.STMATRIX, Feature.STMATRIX_OF_D, _of_space("stmatrix", form.space),
    ):  # fmt: skip
        builder.take(feature)
    if builder.form == form:
        builder.form = None
