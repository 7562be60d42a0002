"""Which forms a program is made of: the one it is about, and those beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oracle.isa.forms import Form
from oracle.program.operands import Operation, Registers
from strategies.features import LIVE, OF_LANES, OF_OPERANDS, OF_OPERATION, Has, of_form
from strategies.programs.builder import Builder, Dice
from strategies.programs.forms import Palette, families, operand_of

Need = Callable[[Form], bool]
"""Tells whether a form gives what another does not."""

ACCUMULATED = (Has.D_AS_C, Has.CHAIN)
_OF_ONE_FORM = (Has.A_REUSED, Has.B_REUSED, Has.TILES, *LIVE)


def chosen_form(builder: Builder, form: Form | None, dice: Dice, *, rows: bool) -> Form:
    """Choose what a program is about; if nothing is asked for, `rows` may be moved, too."""
    known = builder.palette
    if form is not None and form.is_main:
        return form
    if form is not None:
        users = _users(known, form) or _users(builder.everything, form)
        return dice.one_of(_suited(users, builder))
    lanes: list[tuple[Form, ...]] = list(families(known.register_products))
    if not builder.wants((Has.LANES_BEFORE, Has.LANES_BEHIND)):
        lanes += [(form,) for form in known.moves]
    needed = {one.operand for one in OF_OPERANDS & builder.wanted}
    lanes = [some for some in lanes if needed.issubset(some[0].operands)] or lanes
    asked = tuple(form for form in known.register_products if of_form(form)[0] in builder.wanted)
    if asked:
        lanes = [asked]
    if lanes and builder.wants(OF_LANES):
        return dice.one_of(dice.one_of(lanes))
    groups: list[Sequence[Form]] = []
    if known.fragment_products:
        groups += families(_suited(known.fragment_products, builder))
    if rows or not groups:
        loads: dict[str, list[Form]] = {}
        for load in known.row_loads:
            loads.setdefault(load.texts["type"] or load.texts["src_fmt"], []).append(load)
        groups += [*loads.values(), *lanes]
    return dice.one_of(dice.one_of(groups))


def multiplication(builder: Builder, dice: Dice) -> Form:
    """Choose any multiplication of fragments that fits what is asked for."""
    known = builder.palette.fragment_products or builder.everything.fragment_products
    return dice.one_of(dice.one_of(families(_suited(known, builder))))


def unmet(builder: Builder, form: Form) -> list[Need]:
    """Return what is asked for and a multiplication of a form alone cannot have."""
    return [need for need in _needs(builder) if not need(form)]


def beside(builder: Builder, main: Form, number: int) -> list[Form]:
    """Choose so many multiplications, of which the first is given.

    Others have the same form, or can take the D of the one before as their C, or, where registers
    hold it, as their A or B, or are any.
    """
    opaque, palette = main.opaque, builder.palette
    if opaque and not palette.fragment_products:
        palette = builder.everything
    known = palette.fragment_products if opaque else palette.register_products
    forms = [main]
    needs = unmet(builder, main) if opaque else []
    while len(forms) < number:
        dice, last = builder.dice(), forms[-1]
        kind = dice.one_of(("same", "kin", "same" if opaque else "next", "any"))
        if builder.wants(ACCUMULATED):
            kind = "kin"
        elif builder.wants(_OF_ONE_FORM):
            kind = "same"
        elif not opaque and Has.D_AS_MULTIPLICAND in builder.wanted:
            kind = "next"
        others: Sequence[Form]
        if builder.take(Has.SEVERAL_SHAPES):
            others = [form for form in known if form.shape != main.shape]
        elif builder.take(Has.SEVERAL_TYPES):
            others = [form for form in known if form.a_type != main.a_type]
        elif needs:
            others = list(filter(needs.pop(), known))
        elif Has.IN_PLACE_MEMORY in builder.wanted:
            others = [form for form in (last, *known) if _accumulates(form)]
        elif Has.OVER_PART in builder.wanted:
            others = [f for f in known if operand_of(f, "d").words < operand_of(f, "a").words]
        elif kind == "kin":
            others = palette.taking_as_c.get(operand_of(last, "d"), ())
        elif kind == "next":
            others = [form for form in known if _takes(form, last)]
        elif kind == "any":
            others = dice.one_of(families(known)) if known else ()
        else:
            others = [last]
        forms.append(dice.one_of(others or [last]))
    return forms


def _takes(form: Form, last: Form) -> bool:
    d = operand_of(last, "d")
    found = [d]
    if last.d_type.name == "f32" and d.registers > 1:
        found.append(Registers(registers=d.registers // 2))
    return any(operand_of(form, operand) in found for operand in "ab")


def asked_operations(builder: Builder) -> list[Operation]:
    """Return the operations that are still asked for."""
    return [operation for operation, it in OF_OPERATION.items() if it in builder.wanted]


def _needs(builder: Builder) -> list[Need]:
    needs = [_taking(operation) for operation in asked_operations(builder)]
    return [*needs, _accumulates] if Has.IN_PLACE_MEMORY in builder.wanted else needs


def _taking(operation: Operation) -> Need:
    return lambda form: any(map(operation.accepts, (form.a_type, form.c_type, form.d_type)))


def _accumulates(form: Form) -> bool:
    return form.c_type == form.d_type


def _suited(forms: tuple[Form, ...], builder: Builder) -> tuple[Form, ...]:
    needs = [*_needs(builder), *([_accumulates] if builder.wants(ACCUMULATED) else [])]
    if not needs:
        return forms
    return tuple(form for form in forms if all(need(form) for need in needs)) or forms


def _users(known: Palette, form: Form) -> tuple[Form, ...]:
    if not form.is_access:
        return ()
    matrix = form.matrix()
    return tuple(
        f
        for f in known.fragment_products
        if f.matrix(matrix.operand) == matrix
        and {"a": f.a_layout, "b": f.b_layout}.get(matrix.operand, form.layout) == form.layout
    )


def fitting(builder: Builder, forms: Sequence[Form], dice: Dice) -> Form:
    """Choose a form, of the state space that is asked for if one is."""
    return dice.one_of([form for form in forms if of_form(form)[-1] in builder.wanted] or forms)
