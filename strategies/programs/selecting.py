"""Which forms a program is made of: the one it is about, and those beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oracle.forms import Form
from oracle.operations import Operation
from strategies.features import OF_LANES, Feature
from strategies.programs.building import Builder
from strategies.programs.choices import Dice
from strategies.programs.elements import asked
from strategies.programs.forms import Palette, families

Need = Callable[[Form], bool]
"""Tells whether a form gives what another does not."""

_OF_ACCUMULATION = (Feature.D_AS_C, Feature.CHAIN)
_OF_ONE_FORM = (
    Feature.A_REUSED, Feature.B_REUSED, Feature.TILES, Feature.LIVE_8, Feature.LIVE_16,
)  # fmt: skip


def main_form(
    builder: Builder, form: Form | None, everything: Palette, dice: Dice, *, rows: bool
) -> Form:
    """Choose what a program is about.

    Parameters
    ----------
    form
        What is asked for.
    everything
        All that the target has: what uses a load or store that was asked for.
    rows
        Whether it may be no multiplication if nothing is asked for.
    """
    known = builder.palette
    if form is not None and form.is_main:
        return form
    if form is not None:
        users = _users(known, form) or _users(everything, form)
        return dice.one_of(_suited(users, builder))
    groups: list[tuple[Form, ...]] = []
    lanes: list[tuple[Form, ...]] = list(families(known.lane_multiplications))
    lanes += [(form,) for form in known.moves]
    if lanes and builder.wants(OF_LANES):
        return dice.one_of(dice.one_of(lanes))
    if known.multiplications:
        groups += families(_suited(known.multiplications, builder))
    if rows or not groups:
        groups += known.row_families
        groups += lanes
    return dice.one_of(dice.one_of(groups))


def multiplication(builder: Builder, everything: Palette, dice: Dice) -> Form:
    """Choose any multiplication that fits what is asked for."""
    known = builder.palette.multiplications or everything.multiplications
    some: tuple[Form, ...] = dice.one_of(families(_suited(known, builder)))
    return dice.one_of(some)


def unmet(builder: Builder, form: Form) -> list[Need]:
    """Return what is asked for and a multiplication of a form alone cannot have."""
    return [need for need in _needs(builder) if not need(form)]


def beside(builder: Builder, main: Form, number: int, everything: Palette) -> list[Form]:
    """Choose so many multiplications, of which the first is given.

    Others have the same form, or can take the D of the one before as their C, or are any.
    """
    known = builder.palette.multiplications or everything.multiplications
    forms = [main]
    needs = unmet(builder, main)
    while len(forms) < number:
        dice = builder.dice()
        last = forms[-1]
        kind = dice.one_of(("same", "kin", "same", "any"))
        if builder.wants(_OF_ACCUMULATION):
            kind = "kin"
        elif builder.wants(_OF_ONE_FORM):
            kind = "same"
        if Feature.SEVERAL_SHAPES in builder.wanted:
            others = [form for form in known if form.shape != main.shape]
            builder.take(Feature.SEVERAL_SHAPES)
        elif Feature.SEVERAL_TYPES in builder.wanted:
            others = [form for form in known if form.a_type != main.a_type]
            builder.take(Feature.SEVERAL_TYPES)
        elif needs:
            need = needs.pop()
            others = [form for form in known if need(form)]
        elif Feature.IN_PLACE_MEMORY in builder.wanted:
            others = [form for form in (last, *known) if _accumulates(form)]
        elif kind == "kin":
            others = [f for f in known if (f.shape, f.c_type) == (last.shape, last.d_type)]
        elif kind == "any":
            others = list(dice.one_of(families(known)))
        else:
            others = [last]
        forms.append(dice.one_of(others or [last]))
    return forms


def _needs(builder: Builder) -> list[Need]:
    needs: list[Need] = [_taking(operation) for operation in asked(builder)]
    if Feature.IN_PLACE_MEMORY in builder.wanted:
        needs.append(_accumulates)
    return needs


def _taking(operation: Operation) -> Need:
    return lambda form: any(
        operation.accepts(type_) for type_ in (form.a_type, form.c_type, form.d_type)
    )


def _accumulates(form: Form) -> bool:
    """Tell whether D is of the type of C."""
    return form.c_type == form.d_type


def _suited(forms: Sequence[Form], builder: Builder) -> tuple[Form, ...]:
    """Return those of some forms that can have what is asked for, or all if none can."""
    needs = _needs(builder)
    if builder.wants(_OF_ACCUMULATION):
        needs.append(_accumulates)
    if not needs:
        return tuple(forms)
    return tuple(f for f in forms if all(need(f) for need in needs)) or tuple(forms)


def _users(known: Palette, form: Form) -> tuple[Form, ...]:
    """Return the multiplications that need a load or a store."""
    if form.mnemonic == "wmma.store":
        return tuple(f for f in known.multiplications if f.matrix("d") == form.matrix())
    if form.mnemonic != "wmma.load":
        return ()
    operand = form.matrix().operand
    return tuple(
        f
        for f in known.multiplications
        if f.matrix(operand) == form.matrix()
        and {"a": f.a_layout, "b": f.b_layout}.get(operand, form.layout) == form.layout
    )


def row_form(builder: Builder, form: Form | None, dice: Dice) -> Form | None:
    """Choose a form of ldmatrix that fits what is asked for; None if none is allowed."""
    known = builder.palette.row_loads
    if not known and form is not None and form.mnemonic == "ldmatrix":
        known = (form,)
    fitting = [row for row in known if OF_SPACE[row.space] in builder.wanted]
    return dice.one_of(fitting or known) if known else None


OF_SPACE: dict[str, Feature] = {
    "": Feature.LDMATRIX_GENERIC,
    "shared": Feature.LDMATRIX_SHARED,
    "shared::cta": Feature.LDMATRIX_SHARED_CTA,
}
"""The feature of each state space of ldmatrix."""
