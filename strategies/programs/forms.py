"""Which forms a program may be made of: what a module can have, grouped."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TypeVar, assert_never

from oracle.availability import is_available
from oracle.forms import (
    Form,
    LdmatrixForm,
    LoadForm,
    MainForm,
    MmaForm,
    MmaSyncForm,
    MovmatrixForm,
    ProductForm,
    StmatrixForm,
    StoreForm,
)
from oracle.held import Fragment, Held, Registers
from oracle.isa import FORMS, LOAD_FORMS, MMA_FORMS, STORE_FORMS
from oracle.matrices import Matrix
from oracle.models import model_for
from oracle.targets import Module, PtxVersion

VALUED_FORMS: tuple[MmaForm, ...] = tuple(
    form for form in MMA_FORMS if not (form.satfinite and form.d_type.is_float)
)
"""The 138 forms whose results are documented; `.satfinite` of floats went with PTX ISA 6.5."""
_PACKING_SINCE, _PACKING_TARGET = PtxVersion(7, 0), 80
"""First version and target with cvt.rn.{f16x2,bf16x2}.f32 (PTX ISA 9.7.9.23)."""


@cache
def load_form(matrix: Matrix, layout: str, space: str) -> LoadForm:
    """Return the wmma.load of a matrix."""
    return _loads()[matrix.operand, matrix.shape.name, matrix.type.name, layout, space]


@cache
def store_form(matrix: Matrix, layout: str, space: str) -> StoreForm:
    """Return the wmma.store of a matrix."""
    return _stores()[matrix.shape.name, matrix.type.name, layout, space]


@cache
def _loads() -> dict[tuple[str, str, str, str, str], LoadForm]:
    return {
        (form.operand, form.shape.name, form.type.name, form.layout, form.space): form
        for form in LOAD_FORMS
    }


@cache
def _stores() -> dict[tuple[str, str, str, str], StoreForm]:
    return {
        (form.shape.name, form.type.name, form.layout, form.space): form for form in STORE_FORMS
    }


@dataclass(frozen=True, kw_only=True)
class Palette:
    """The forms from which programs for a target are put together."""

    multiplications: tuple[MmaForm, ...]
    """Those that were asked for; if none was, all that the target has."""
    row_loads: tuple[LdmatrixForm, ...]
    lane_multiplications: tuple[MmaSyncForm, ...]
    moves: tuple[StmatrixForm | MovmatrixForm, ...]
    spaces: tuple[str, ...]
    """Spellings of the state space of wmma.load and wmma.store that the version has."""
    packs: bool
    """Whether pairs of f32 can be converted into one register."""

    @property
    def row_stores(self) -> tuple[StmatrixForm, ...]:
        """Forms of stmatrix."""
        return tuple(form for form in self.moves if isinstance(form, StmatrixForm))

    @property
    def transposition(self) -> MovmatrixForm | None:
        """Movmatrix."""
        return next((form for form in self.moves if isinstance(form, MovmatrixForm)), None)

    @property
    def row_families(self) -> tuple[tuple[LdmatrixForm, ...], ...]:
        """Forms of ldmatrix by element type."""
        groups: dict[str, list[LdmatrixForm]] = {}
        for form in self.row_loads:
            groups.setdefault(form.type or form.source_format, []).append(form)
        return tuple(map(tuple, groups.values()))


P = TypeVar("P", bound=ProductForm)


@cache
def families(forms: tuple[P, ...]) -> tuple[tuple[P, ...], ...]:
    """Group forms by what they compute, whatever their shapes and layouts.

    Else those of f16 would be most of what is drawn.
    """
    groups: dict[tuple[object, ...], list[P]] = {}
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
        not isinstance(form, ProductForm) or model_for(module.target.name).judges(form)
    )


@cache
def _has_program(form: Form, module: Module) -> bool:
    """Tell whether a module has a form that a program can be about."""
    if not isinstance(form, MainForm) or not is_available(form, module):
        return False
    match form:
        case MmaForm():
            return form in VALUED_FORMS
        case MmaSyncForm():
            return True
        case StmatrixForm():
            return form.type == "b16"
        case LdmatrixForm() | MovmatrixForm():
            return True
        case _:
            assert_never(form)


def everything(module: Module) -> Palette:
    """Return what programs may be made of where nobody asks for forms."""
    return _everything(module, model_for(module.target.name).digest)


@cache
def _everything(module: Module, model: str) -> Palette:
    return palette(tuple(form for form in FORMS if is_valued(form, module)), module)


@cache
def palette(forms: tuple[Form, ...], module: Module) -> Palette:
    """Return what programs about some forms may be made of."""
    there = tuple(form for form in forms if is_available(form, module))
    products = tuple(form for form in there if form in VALUED_FORMS)
    rows = tuple(form for form in there if isinstance(form, LdmatrixForm))
    if not products and any(isinstance(form, LoadForm | StoreForm) for form in there):
        products = everything(module).multiplications
    spaces = tuple(
        space
        for space in ("global", "", "shared", "shared::cta")
        if is_available(_explained(space), module)
    )
    return Palette(
        multiplications=tuple(form for form in products if isinstance(form, MmaForm)),
        row_loads=rows, spaces=spaces,
        packs=module.target.number >= _PACKING_TARGET and module.version >= _PACKING_SINCE,
        lane_multiplications=tuple(
            form for form in there if isinstance(form, MmaSyncForm) and is_valued(form, module)
        ),
        moves=tuple(
            form
            for form in there
            if isinstance(form, StmatrixForm | MovmatrixForm) and is_valued(form, module)
        ),
    )  # fmt: skip


def _explained(space: str) -> LoadForm:
    """Return a load that exists wherever its state space does."""
    return next(form for form in LOAD_FORMS if form.space == space and form.type.name == "f16")


@cache
def operand_of(form: ProductForm, operand: str) -> Held:
    """Return what an operand of a multiplication holds."""
    if not isinstance(form, MmaForm):
        return Registers.of(form.vector(operand))
    layout = {"a": form.a_layout, "b": form.b_layout}.get(operand)
    return Fragment.of(form.matrix(operand), layout)
