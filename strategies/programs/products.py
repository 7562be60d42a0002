"""Multiplications: where A, B and C come from, and where D goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oracle.isa.forms import Form, Format, Matrix
from oracle.isa.lookup import chunks_of, selectors_of
from oracle.program.operands import Fragment, Held, Operation, Registers, operations
from oracle.program.operations import Elementwise, set_registers
from oracle.program.steps import Op
from strategies.features import (
    LIVE,
    MOVES,
    OF_OPERATION,
    ROW_LOADS,
    ROW_STORES,
    Feature,
    Has,
    of_form,
)
from strategies.programs import accesses, quantised, registers
from strategies.programs.builder import Builder, Dice, LiveValue
from strategies.programs.forms import operand_of
from strategies.programs.lane_code import computed
from strategies.programs.selecting import ACCUMULATED, asked_operations, fitting

_COMPUTED_IN = 6
"""For one in so many operands A or B of mma.sync, and one in so many D, scalar code works on it."""
_KEPT = frozenset(
    {Has.FED_BY_ROWS, Has.D_AS_MULTIPLICAND, Has.ROWS_OF_D, *ROW_LOADS, *ROW_STORES, *MOVES}
)
"""Features that are gone where code of lanes stands between two instructions."""
_CHANGED_IN = 24
"""The elements of one fragment in so many are changed, on average."""
_FLOATS = {
    "f16": (0x3C00, 0x4000, 0xBC00, 0x3800),
    "f32": (0x3F80_0000, 0x4000_0000, 0xBF80_0000, 0x3F00_0000),
    "f64": (0x3FF0 << 48, 0x4000 << 48, 0xBFF0 << 48, 0x3FE0 << 48),
}
"""1, 2, -1 and 1/2: constants that keep what they are applied to visible."""
_BEHIND = (Has.LANES_BEHIND, Has.PACKED_BEHIND)
_REUSED = (Has.A_REUSED, Has.B_REUSED)


def multiply_all(builder: Builder, forms: Sequence[Form], *, hoisted: bool) -> None:
    """Append multiplications of some forms, all on fragments or all on registers.

    `hoisted` says that all operands are loaded before the first multiplication and stored behind
    the last, so that many are live at once.
    """
    opaque = forms[0].opaque
    choose = _fragments if opaque else _registers
    if hoisted:
        planned = [choose(builder, form, fresh=True) for form in forms]
        # Nothing but multiplications between stores: compilers join what they do for some lanes.
        at_once = not (opaque or builder.wants((*LIVE, *_BEHIND))) and (
            builder.dice().once_in(2) or Has.STORE_BY_LANE in builder.asked
        )
        for form, operands in zip(forms, planned, strict=True):
            d = _multiply(builder, form, operands)
            if at_once:
                registers.store_registers(builder, d, builder.dice())
        return
    for form in forms:
        d = _multiply(builder, form, choose(builder, form, fresh=False))
        dice = builder.dice()
        # What is not stored here can be the next C, A or B; all is stored in the end.
        kept = builder.wants((*ACCUMULATED, Has.D_AS_MULTIPLICAND, Has.ROWS_OF_D))
        # A store that is asked for must not wait: the next multiplication may take D.
        asked = Has.STORED_AND_LOADED in builder.wanted or accesses.is_asked_of(builder, d)
        if (opaque and asked) or (dice.once_in(2) and not kept):
            store(builder, d)


def flush(builder: Builder) -> None:
    """Store what would be lost at the end of the scope."""
    for value in builder.scope.pending():
        store(builder, value)


def load_accumulator(builder: Builder, form: Form) -> LiveValue:
    """Append a load of a C."""
    holds = operand_of(form, "c")
    if isinstance(holds, Registers):
        return registers.load_registers(builder, holds, "c", builder.dice())
    return accesses.load(builder, holds.matrix, None, "c")


def store(builder: Builder, value: LiveValue) -> None:
    """Append what stores a value: registers on their own, in rows, transposed or packed before."""
    if isinstance(value.holds, Fragment):
        accesses.store(builder, value, value.region)
        return
    dice, known = builder.dice(), builder.everything
    value.pending = False
    wide = value.type == "f32" and value.holds.registers > 1
    kind = dice.one_of(("plain", "rows", "plain", "shared", "rows", "plain"))
    asked = builder.wants((Has.ROWS_OF_D, *ROW_STORES))
    drawn = builder.dice().once_in(_COMPUTED_IN)
    behind = value.computed and builder.wants(_BEHIND)
    if _may_compute(builder, value.holds, drawn and value.computed, behind):
        builder.take(Has.LANES_BEHIND)
        made = None
        if builder.dice().below(2) or Has.PACKED_BEHIND in builder.wanted:
            made = quantised.packed(builder, value, value.type)
        value = made or computed(builder, value, value.holds)
        value.pending = False
        wide &= made is None
    if wide and known.packs and (dice.once_in(4) or Has.PACKED in builder.wanted):
        value = registers.packed(builder, value, dice)
    turned = dice.once_in(8) or builder.wants(MOVES)
    if known.transpositions and value.holds.bits == 32 and turned:
        value = registers.transposed(builder, value, known.transpositions[0])
    forms = [form for form in known.row_stores if operand_of(form) == value.holds]
    if forms and (kind == "rows" or asked):
        registers.store_rows(builder, value, forms, dice)
    else:
        registers.store_registers(builder, value, dice, shared=kind == "shared")


def move_rows(builder: Builder, form: Form) -> None:
    """Append a store of rows or a move that the program is about, and what it needs."""
    dice = builder.dice()
    holds = operand_of(form) if form.is_store else Registers(registers=dice.one_of((1, 2, 4)))
    there = [value for value in builder.scope.like(holds) if value.computed]
    value = (
        there[-1]
        if there and dice.once_in(2)
        else registers.load_or_read(builder, holds, "r", dice)
    )
    if form.is_store:
        registers.store_rows(builder, value, [form], dice)
    else:
        store(builder, registers.transposed(builder, value, form))


def complete_registers(builder: Builder) -> None:
    """Append moves that are still asked for and that the multiplications did not bring."""
    known = builder.everything
    if known.plain_row_loads and builder.wants(registers.ROW_LOADS_ASKED):
        registers.row_load(builder, fitting(builder, known.plain_row_loads, builder.dice()))
    if known.row_stores and builder.wants(ROW_STORES):
        move_rows(builder, fitting(builder, known.row_stores, builder.dice()))
    if known.transpositions and builder.wants(MOVES):
        move_rows(builder, known.transpositions[0])
    if known.packs and Has.PACKED in builder.wanted:
        dice = builder.dice()
        value = registers.load_registers(
            builder, Registers(registers=dice.one_of((4, 2, 8))), "c", dice
        )
        store(builder, registers.packed(builder, value, dice))


def _fragments(builder: Builder, form: Form, *, fresh: bool) -> dict[str, LiveValue]:
    dice = builder.dice()
    reuse = {operand: not fresh and dice.once_in(4) for operand in "ab"}
    # Where all are loaded first, there is no D yet.
    chained = not fresh and dice.once_in(2)
    found, made = {}, dict[str, LiveValue]()
    for operand, feature in zip("ab", _REUSED, strict=True):
        holds = operand_of(form, operand)
        assert isinstance(holds, Fragment)
        there = builder.scope.like(holds)
        tight = builder.image_bytes() > accesses.TIGHT
        if there and (reuse[operand] or feature in builder.wanted or (tight and not fresh)):
            used = [value for value in there if value.used] or there
            found[operand] = used[dice.below(len(used))]
            if found[operand].used:
                builder.take(feature)
        else:
            found[operand] = accesses.load(builder, holds.matrix, holds.layout, operand)
        found[operand].pins += 1
    found["c"] = _accumulator(builder, form, dice, chained=chained, fresh=fresh)
    found["c"].pins += 1
    for operand, value in found.items():
        # The elements of a fragment are changed, perhaps, before it is multiplied.
        made[operand] = value
        if value.used and not builder.asked.isdisjoint(_REUSED):
            continue
        drawn = dice.once_in(_CHANGED_IN)
        asked = operand != "c" and _wants_change(builder, value.matrix)
        if value.pins == 1 and (drawn or asked):
            made[operand] = change(builder, value, builder.dice())
            value.pins, made[operand].pins = 0, 1
    return made


def _accumulator(
    builder: Builder, form: Form, dice: Dice, *, chained: bool, fresh: bool
) -> LiveValue:
    there = [value for value in builder.scope.like(operand_of(form, "c")) if value.pins == 0]
    made = [value for value in there if value.computed]
    asked = builder.wants(ACCUMULATED)
    if not asked and builder.wants((Has.IN_PLACE_MEMORY, Has.STORED_AND_LOADED)):
        fresh = True  # both need a C that comes from memory
    if made and not fresh and (chained or asked):
        if not asked and dice.once_in(4):
            accesses.store(builder, made[-1])
        return made[-1]
    carried = [value for value in there if value.depth < builder.scope.depth]
    return carried[-1] if carried and not fresh else load_accumulator(builder, form)


def _registers(builder: Builder, form: Form, *, fresh: bool) -> dict[str, LiveValue]:
    dice, scope = builder.dice(), builder.scope
    found: dict[str, LiveValue] = {}
    for operand, feature in zip("ab", _REUSED, strict=True):
        holds = operand_of(form, operand)
        again = [value for value in scope.like(holds) if operand in value.used]
        reuse = dice.once_in(4) and not fresh
        kept = fresh or (again and feature in builder.wanted)
        value = None if kept else _from_d(builder, form, operand, dice, found)
        if value is None and again and not fresh and (reuse or feature in builder.wanted):
            builder.take(feature)
            value = again[-1]
        type_ = form.type(operand).name
        found[operand] = value or _loaded(builder, holds, operand, dice, type_)
    if "e" in form.operands:
        found["e"] = _metadata(builder, form, builder.dice())
    taken = {one.name for one in found.values()}
    holds = operand_of(form, "c")
    there = scope.like(holds)
    made = [value for value in there if value.computed and value.name not in taken]
    carried = [value for value in there if value.depth < scope.depth and value.pending]
    chained = dice.once_in(2) or builder.wants(ACCUMULATED)
    usable = carried or (made if chained else [])
    if usable and not fresh:
        return {**found, "c": usable[-1]}
    return {**found, "c": registers.load_registers(builder, holds, "c", dice)}


def _loaded(builder: Builder, holds: Held, operand: str, dice: Dice, type_: str) -> LiveValue:
    own = builder.dice()
    drawn = own.once_in(_COMPUTED_IN)
    asked = builder.wants((Has.LANES_BEFORE, Has.UNPACKED))
    if not _may_compute(builder, holds, drawn, asked):
        return registers.load_or_read(builder, holds, operand, dice)
    assert isinstance(holds, Registers)
    builder.take(Has.LANES_BEFORE)
    count = own.one_of([count for count in (1, 2, 4, 8) if count <= holds.registers])
    narrow = Registers(registers=count, bits=holds.bits)
    given = registers.load_or_read(builder, narrow, operand, dice)
    made = None
    if own.below(2) or Has.UNPACKED in builder.wanted:
        made = quantised.unpacked(builder, given, holds, type_)
    return made or computed(builder, given, holds)


def _may_compute(builder: Builder, holds: Held, drawn: bool, asked: bool) -> bool:
    """Whether code of lanes may work on registers: drawn or asked for, where only PTX says them."""
    wanted = asked or (drawn and builder.asked.isdisjoint(_KEPT))
    only_ptx = builder.focus.shares_registers is not False
    return wanted and only_ptx and isinstance(holds, Registers)


def _metadata(builder: Builder, form: Form, dice: Dice) -> LiveValue:
    """Load or choose metadata, or set them to a number of which the ISA allows all.

    Those from memory are filled so that every multiplication that takes them allows them.
    """
    holds = operand_of(form, "e")
    again = [value for value in builder.scope.like(holds) if "e" in value.used]
    asked = builder.take(Has.METADATA_SET)
    if (dice.once_in(4) or asked) and builder.focus.shares_registers is not False:
        name, pairs = builder.name("m"), chunks_of(form)
        alike = [dice.one_of(pairs)] * 8
        chosen = alike if dice.once_in(2) else [dice.one_of(pairs) for _ in alike]
        constant = sum(pair << 4 * place for place, pair in enumerate(chosen))
        builder.add(set_registers(destination=name, count=1, constant=constant))
        # Another form may not allow it, so that it is offered to none.
        return LiveValue(name=name, holds=holds, depth=builder.scope.depth)
    return (
        again[-1]
        if again and dice.once_in(2)
        else registers.load_registers(builder, holds, "e", dice)
    )


def _from_d(
    builder: Builder, form: Form, operand: str, dice: Dice, taken: Mapping[str, LiveValue]
) -> LiveValue | None:
    """Choose a D as A or B, packed where that makes it fit; None for none.

    What the operands that are `taken` already hold must stay.
    """
    drawn = dice.once_in(3) and not builder.wants(ACCUMULATED)
    if not drawn and Has.D_AS_MULTIPLICAND not in builder.wanted:
        return None
    needs, names = operand_of(form, operand), {one.name for one in taken.values()}
    for value in reversed(tuple(builder.scope.values.values())):
        if not value.computed or value.name in names:
            continue
        if value.holds == needs:
            builder.take(Has.D_AS_MULTIPLICAND)
            return value
        wide = value.type == "f32" and value.holds.registers == 2 * needs.registers
        if wide and builder.everything.packs and needs.bits == 32:
            builder.take(Has.D_AS_MULTIPLICAND)
            return registers.packed(builder, value, dice, type_=form.a_type.name)
    return None


def _multiply(builder: Builder, form: Form, operands: Mapping[str, LiveValue]) -> LiveValue:
    """Append a multiplication; return D."""
    dice, scope, held = builder.dice(), builder.scope, operand_of(form, "d")
    a, c = operands["a"], operands["c"]
    free = {
        operand: isinstance(value.holds, Registers) or value.pins == 1
        for operand, value in operands.items()
    }
    target = dice.one_of(("d", "c", "d", "a", "c", "b"))
    if builder.wants(_REUSED):
        target = "d"
    elif Has.IN_PLACE_REGISTERS in builder.wanted:
        target = "c"
    elif builder.wants((Has.OVER_MULTIPLICAND, Has.OVER_PART)):
        target = "a" if free["a"] and a.depth == scope.depth else "b"
    elif c.depth < scope.depth:
        target = "c"  # what a loop carries, or both arms of a branch change
    name, depth = "", scope.depth
    # A name changes what it holds only in the scope that it comes from: joins stay alike.
    if target != "d" and free[target]:
        value = operands[target]
        if value.depth == scope.depth or value.holds == held:
            name, depth = value.name, scope.values[value.name].depth
            builder.take(Has.IN_PLACE_REGISTERS if target == "c" else Has.OVER_MULTIPLICAND)
            if value.holds.words > held.words:
                builder.take(Has.OVER_PART)
    names = {"d": name or builder.name("d")} | {one: operands[one].name for one in operands}
    fields: dict[str, Any] = {}
    known = selectors_of(form)
    if known:
        above = builder.take(Has.SELECTOR) and len(known) > 1
        fields["selector"] = dice.one_of(known[1:] if above else known)
    builder.add(Op.of(form, **names, **fields))
    if not form.opaque:
        builder.take(*of_form(form))
    for operand, value in operands.items():
        value.pins -= 1
        value.used |= {operand}
    c.pending = False
    over = c.region if c.region is not None and c.region.type == form.d_type else None
    known_of_d = {"depth": depth, "type": form.d_type.name, "pending": True, "computed": True}
    d = builder.define(names["d"], held, region=over, **known_of_d)
    if isinstance(held, Registers):
        return d
    changed = dice.once_in(_CHANGED_IN // 2) or _wants_change(builder, held.matrix)
    return change(builder, d, builder.dice()) if changed else d


def _wants_change(builder: Builder, matrix: Matrix) -> bool:
    asked = asked_operations(builder)
    return _of_operand(matrix) in builder.wanted or any(one.accepts(matrix.type) for one in asked)


def change(builder: Builder, value: LiveValue, dice: Dice) -> LiveValue:
    """Append an element-wise operation on a fragment; return what the result stands in."""
    type_ = value.matrix.type
    allowed = operations(type_)
    drawn = dice.one_of(allowed)
    operation = next((one for one in asked_operations(builder) if one in allowed), drawn)
    builder.take(OF_OPERATION[operation], _of_operand(value.matrix))
    pending = value.matrix.operand == "c"
    elsewhere = dice.once_in(4)
    destination = builder.name(value.name.rstrip("0123456789")) if elsewhere else value.name
    constant = _constant(operation, type_, dice)
    builder.add(
        Elementwise(
            operation=operation, matrix=value.matrix, source=value.name, destination=destination,
            constant=constant,
        )
    )  # fmt: skip
    if not elsewhere:
        value.pending = pending
        return value
    return builder.define(destination, value.holds, pending=pending, region=value.region)


def _of_operand(matrix: Matrix) -> Feature:
    multiplicand = matrix.operand in "ab"
    return Has.CHANGED_MULTIPLICAND if multiplicand else Has.CHANGED_ACCUMULATOR


def _constant(operation: Operation, type_: Format, dice: Dice) -> int:
    if not operation.takes_constant:
        return 0
    ones = (1 << type_.bits) - 1
    drawn = dice.below(1 << min(type_.bits, 32)) * ((1 << type_.bits) // (1 << min(type_.bits, 32)))
    if operation in (Operation.MULTIPLY, Operation.ADD):
        plain = _FLOATS.get(type_.name, (1, 3, ones, 2))
        return dice.one_of((*plain, drawn))
    return dice.one_of((ones if operation is Operation.AND else 1, drawn & ones))
