"""Multiplications: where A, B and C come from, and what becomes of D."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oracle.forms import Form
from oracle.ops import Op
from strategies.features import Feature
from strategies.programs.accesses import TIGHT, is_asked_of, load, store
from strategies.programs.building import Builder
from strategies.programs.choices import Dice
from strategies.programs.elements import change, wants_change
from strategies.programs.memory import Region
from strategies.programs.scopes import Value, accumulator

_CHANGED_IN = 24
"""Of so many fragments, the elements of one are changed on average."""


@dataclass(frozen=True, kw_only=True)
class _Operands:
    form: Form
    a: Value
    b: Value
    c: Value


def multiply_all(builder: Builder, forms: Sequence[Form], *, hoisted: bool) -> None:
    """Append multiplications of some forms.

    Parameters
    ----------
    hoisted
        Whether all fragments are loaded before the first multiplication and stored behind the
        last, so that many are live at once.
    """
    if hoisted:
        planned = [_operands(builder, form, fresh=True) for form in forms]
        for operands in planned:
            _multiply(builder, operands)
        return
    for form in forms:
        d, over = _multiply(builder, _operands(builder, form, fresh=False))
        dice = builder.dice()
        # What is not stored here can be the next C; all is stored in the end.
        kept = builder.wants((Feature.D_AS_C, Feature.CHAIN))
        # A store that is asked for must not wait: the next multiplication may take D.
        asked = Feature.STORED_AND_LOADED in builder.wanted or is_asked_of(builder, d)
        if asked or (dice.once_in(2) and not kept):
            store(builder, d, over)


def flush(builder: Builder) -> None:
    """Store what would be lost at the end of the scope."""
    for value in builder.scope.pending():
        store(builder, value, value.region)


def _operands(builder: Builder, form: Form, *, fresh: bool) -> _Operands:
    """Load or choose A, B and C of a multiplication."""
    dice = builder.dice()
    reuse = [not fresh and dice.once_in(4), not fresh and dice.once_in(4)]
    # Where all are loaded first, there is no D yet.
    chained = not fresh and dice.once_in(2)
    found = {}
    for operand, layout, again, feature in (
        ("a", form.a_layout, reuse[0], Feature.A_REUSED),
        ("b", form.b_layout, reuse[1], Feature.B_REUSED),
    ):
        matrix = form.matrix(operand)
        there = builder.scope.like(matrix, layout)
        tight = builder.memory.size(shared=False) > TIGHT
        if there and (again or feature in builder.wanted or (tight and not fresh)):
            used = [value for value in there if value.used] or there
            found[operand] = used[dice.below(len(used))]
            if found[operand].used:
                builder.take(feature)
        else:
            found[operand] = load(builder, matrix, layout, operand)
        found[operand].pins += 1
    c = _accumulator(builder, form, dice, chained=chained, fresh=fresh)
    c.pins += 1
    operands = _Operands(form=form, a=found["a"], b=found["b"], c=c)
    return _changed(builder, operands, dice)


def _accumulator(builder: Builder, form: Form, dice: Dice, *, chained: bool, fresh: bool) -> Value:
    matrix = form.matrix("c")
    there = [value for value in builder.scope.like(matrix, None) if value.pins == 0]
    made = [value for value in there if value.computed]
    asked = builder.wants((Feature.D_AS_C, Feature.CHAIN))
    if not asked and builder.wants((Feature.IN_PLACE_MEMORY, Feature.STORED_AND_LOADED)):
        fresh = True  # both need a C that comes from memory
    if made and not fresh and (chained or asked):
        value = made[-1]
        if not asked and dice.once_in(4):
            store(builder, value)
        return value
    carried = [value for value in there if value.depth < builder.scope.depth]
    if carried and not fresh:
        return carried[-1]
    return load(builder, matrix, None, "c")


def _changed(builder: Builder, operands: _Operands, dice: Dice) -> _Operands:
    """Change the elements of some operands before they are multiplied."""
    found = {}
    kept = not builder.asked.isdisjoint((Feature.A_REUSED, Feature.B_REUSED))
    for operand in "abc":
        value: Value = getattr(operands, operand)
        if value.used and kept:
            found[operand] = value
            continue
        drawn = dice.once_in(_CHANGED_IN)
        if value.pins == 1 and (drawn or (operand != "c" and wants_change(builder, value.matrix))):
            made = change(builder, value, builder.dice())
            if made is not value:
                value.pins, made.pins = 0, 1
            value = made
        found[operand] = value
    return _Operands(form=operands.form, **found)


def _multiply(builder: Builder, operands: _Operands) -> tuple[Value, Region | None]:
    """Append a multiplication; return D, and where C was loaded if it was."""
    form, dice = operands.form, builder.dice()
    a, b, c = operands.a, operands.b, operands.c
    scope, held = builder.scope, accumulator(form.matrix("d"))
    over = c.region if c.region is not None and c.region.type == form.d_type else None
    target = dice.one_of(("d", "c", "d", "a", "c", "b"))
    if builder.wants((Feature.A_REUSED, Feature.B_REUSED)):
        target = "d"
    elif builder.wants((Feature.IN_PLACE_REGISTERS,)):
        target = "c"
    elif builder.wants((Feature.OVER_MULTIPLICAND,)):
        target = "a" if a.pins == 1 and a.depth == scope.depth else "b"
    elif c.depth < scope.depth:
        target = "c"  # what a loop carries, or both arms of a branch change
    name = ""
    if target in ("c", "a", "b"):
        value = {"a": a, "b": b, "c": c}[target]
        # A name changes what it holds only in the scope that it comes from: joins stay alike.
        if value.pins == 1 and (value.depth == scope.depth or value.matrix == held):
            name = value.name
            builder.take(Feature.IN_PLACE_REGISTERS if target == "c" else Feature.OVER_MULTIPLICAND)
    depth = scope.values[name].depth if name else scope.depth
    builder.add(Op.of(form=form, d=name or builder.name("d"), a=a.name, b=b.name, c=c.name))
    for value in (a, b, c):
        value.pins -= 1
        value.used = True
    c.pending = False
    last = builder.scope.steps[-1]
    made = last.names.get("d", name)
    d = Value(
        name=made, matrix=held, layout=None, depth=depth, pending=True, computed=True, region=over
    )
    scope.define(d)
    if builder.form == form:
        builder.form = None
    if dice.once_in(_CHANGED_IN // 2) or wants_change(builder, held):
        d = change(builder, d, builder.dice())
    return d, over
