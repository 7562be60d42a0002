"""Which forms a program may be made of: what a module can have, grouped."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from oracle.forms import Form
from oracle.isa import LOAD_FORMS, MMA_FORMS, STORE_FORMS, is_available
from oracle.matrices import Matrix
from oracle.models import model_for
from oracle.targets import Module

VALUED_FORMS: tuple[Form, ...] = tuple(
    form for form in MMA_FORMS if not (form.satfinite and form.d_type.is_float)
)
"""The 138 forms whose results are documented; `.satfinite` of floats went with PTX ISA 6.5."""


@cache
def load_form(matrix: Matrix, layout: str, space: str) -> Form:
    """Return the wmma.load of a matrix."""
    return _loads()[matrix.operand, matrix.shape.name, matrix.type.name, layout, space]


@cache
def store_form(matrix: Matrix, layout: str, space: str) -> Form:
    """Return the wmma.store of a matrix."""
    return _stores()[matrix.shape.name, matrix.type.name, layout, space]


@cache
def _loads() -> dict[tuple[str, str, str, str, str], Form]:
    return {
        (form.matrix().operand, form.shape.name, form.type().name, form.layout, form.space): form
        for form in LOAD_FORMS
    }


@cache
def _stores() -> dict[tuple[str, str, str, str], Form]:
    return {
        (form.shape.name, form.type().name, form.layout, form.space): form for form in STORE_FORMS
    }


@dataclass(frozen=True, kw_only=True)
class Palette:
    """The forms from which programs for a target are put together."""

    multiplications: tuple[Form, ...]
    """Those that were asked for; if none was, all that the target has."""
    row_loads: tuple[Form, ...]
    lane_multiplications: tuple[Form, ...]
    moves: tuple[Form, ...]
    spaces: tuple[str, ...]
    """Spellings of the state space of wmma.load and wmma.store that the version has."""

    @property
    def row_families(self) -> tuple[tuple[Form, ...], ...]:
        """Forms of ldmatrix by element type."""
        groups: dict[str, list[Form]] = {}
        for form in self.row_loads:
            groups.setdefault(form.texts["type"] or form.texts["src_fmt"], []).append(form)
        return tuple(map(tuple, groups.values()))


@cache
def families(forms: tuple[Form, ...]) -> tuple[tuple[Form, ...], ...]:
    """Group forms by what they compute, whatever their shapes and layouts.

    Else those of f16 would be most of what is drawn.
    """
    groups: dict[tuple[object, ...], list[Form]] = {}
    for form in forms:
        types = (form.a_type, form.b_type, form.c_type, form.d_type)
        key = (*types, form.satfinite, form.op, form.rounding)
        groups.setdefault(key, []).append(form)
    return tuple(map(tuple, groups.values()))


def is_valued(form: Form, module: Module) -> bool:
    """Tell whether a module has a form that a program can be about, and its values are known.

    Of mma.sync, the figures of few targets are, and a model that was measured may have those of
    few forms (`oracle.models.use_model`); of stmatrix, the layout of 16-bit elements.
    """
    # Not cached: a model may be put into the place of another one.
    return _has_program(form, module) and (
        not form.is_product or model_for(module.target.name).judges(form)
    )


@cache
def _has_program(form: Form, module: Module) -> bool:
    """Tell whether a module has a form that a program can be about."""
    if not form.is_main or not is_available(form, module):
        return False
    if form.opaque:
        return form in VALUED_FORMS
    return form.mnemonic != "stmatrix" or form.texts["type"] == "b16"


def everything(module: Module) -> Palette:
    """Return what programs may be made of where nobody asks for forms."""
    return _everything(module, model_for(module.target.name).digest)


@cache
def _everything(module: Module, model: str) -> Palette:
    return palette(tuple(form for form in VALUED_FORMS if is_valued(form, module)), module)


@cache
def palette(forms: tuple[Form, ...], module: Module) -> Palette:
    """Return what programs about some forms may be made of."""
    there = tuple(form for form in forms if is_available(form, module))
    products = tuple(form for form in there if form in VALUED_FORMS)
    rows = tuple(form for form in there if form.mnemonic == "ldmatrix")
    if not products and any(form.is_access for form in there):
        products = everything(module).multiplications
    spaces = tuple(
        space
        for space in ("global", "", "shared", "shared::cta")
        if is_available(_explained(space), module)
    )
    return Palette(
        multiplications=tuple(form for form in products if form.opaque),
        row_loads=rows, spaces=spaces,
        lane_multiplications=tuple(
            form
            for form in there
            if form.is_product and not form.opaque and is_valued(form, module)
        ),
        moves=tuple(
            form
            for form in there
            if not (form.opaque or form.is_product or form.is_load) and is_valued(form, module)
        ),
    )  # fmt: skip


def _explained(space: str) -> Form:
    """Return a load that exists wherever its state space does."""
    return next(form for form in LOAD_FORMS if form.space == space and form.type().name == "f16")
