"""Which forms a program may be made of: what a module can have, grouped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property

from oracle.isa.forms import Form, Matrix
from oracle.isa.lookup import FORMS, MMA_FORMS, is_available
from oracle.isa.targets import Module, PtxVersion
from oracle.models import model_for
from oracle.program.operands import Held
from oracle.program.steps import operands_of

VALUED_FORMS: tuple[Form, ...] = tuple(
    form for form in MMA_FORMS if not (form.satfinite and form.d_type.is_float)
)
"""The 138 forms whose results are documented; `.satfinite` of floats went with PTX ISA 6.5."""
_PACKING_SINCE, _PACKING_TARGET = PtxVersion(7, 0), 80
"""First version and target with cvt.rn.{f16x2,bf16x2}.f32 (PTX ISA 9.7.9.23)."""
ACCESS_FORMS: Mapping[tuple[Matrix, str, str], Form] = {
    (form.matrix(), form.layout, form.space): form for form in reversed(FORMS) if form.is_access
}
"""By matrix, layout and state space the wmma.load, of a D the wmma.store; the first of several."""


@cache
def operand_of(form: Form, operand: str = "registers") -> Held:
    """Return what an operand of a step holds."""
    return next(holds for field, holds, _ in operands_of(form) if field == operand)


@dataclass(frozen=True, kw_only=True)
class Palette:
    """The forms from which programs for a target are put together."""

    fragment_products: tuple[Form, ...]
    """Multiplications of fragments that were asked for; if none was, all that the target has."""
    register_products: tuple[Form, ...]
    """Multiplications of registers with a known layout."""
    row_loads: tuple[Form, ...]
    row_stores: tuple[Form, ...]
    transpositions: tuple[Form, ...]
    spaces: tuple[str, ...]
    """Spellings of the state space of wmma.load and wmma.store that the version has."""
    packs: bool
    """Whether pairs of f32 can be converted into one register."""

    @property
    def moves(self) -> tuple[Form, ...]:
        """What moves registers, and reads no memory."""
        return (*self.row_stores, *self.transpositions)

    @cached_property
    def taking_as_c(self) -> Mapping[Held, tuple[Form, ...]]:
        """Multiplications by what they take as C."""
        groups: dict[Held, tuple[Form, ...]] = {}
        for form in (*self.fragment_products, *self.register_products):
            c = operand_of(form, "c")
            groups[c] = (*groups.get(c, ()), form)
        return groups

    @cached_property
    def plain_row_loads(self) -> tuple[Form, ...]:
        """Loads of rows of 16-bit elements."""
        return tuple(form for form in self.row_loads if form.texts["type"] == "b16")


@cache
def families(forms: tuple[Form, ...]) -> tuple[tuple[Form, ...], ...]:
    """Group forms by what they compute, whatever their shapes and layouts.

    Else those of f16 would be most of what is drawn.
    """
    groups: dict[tuple[object, ...], list[Form]] = {}
    for form in forms:
        types = (form.a_type, form.b_type, form.c_type, form.d_type)
        key = (*types, form.satfinite, form.op, form.rounding, form.operands)
        groups.setdefault(key, []).append(form)
    return tuple(map(tuple, groups.values()))


def is_valued(form: Form, module: Module) -> bool:
    """Tell whether a module has a form that a program can be about, and its values are known.

    Of mma.sync, the figures of few targets are, and a model that was measured may have those of
    few forms (`oracle.models.use_model`); of rows that are stored, the layout of 16-bit elements.
    """
    # Not cached: a model may be put into the place of another one.
    return _has_program(form, module) and (
        not form.is_product or model_for(module.target.name).judges(form)
    )


@cache
def _has_program(form: Form, module: Module) -> bool:
    if not form.is_main or not is_available(form, module):
        return False
    if form.opaque:
        return form in VALUED_FORMS
    return not form.is_store or form.texts["type"] == "b16"


def everything(module: Module) -> Palette:
    """Return what programs may be made of where nobody asks for forms."""
    return _everything(module, model_for(module.target.name).digest)


@cache
def _everything(module: Module, model: str) -> Palette:
    return palette(tuple(form for form in FORMS if is_valued(form, module)), module)


@cache
def palette(forms: tuple[Form, ...], module: Module) -> Palette:
    """Return what programs about some forms may be made of."""
    there = [form for form in forms if is_available(form, module)]
    products = tuple(form for form in there if form in VALUED_FORMS)
    if not products and any(form.is_access for form in there):
        products = everything(module).fragment_products
    lanes = [form for form in there if not form.opaque and is_valued(form, module)]
    # Loads that exist wherever their state space does.
    loads = {f.space: f for f in reversed(FORMS) if f.is_access and f.type().name == "f16"}
    spaces = ("global", "", "shared", "shared::cta")
    return Palette(
        fragment_products=products,
        register_products=tuple(form for form in lanes if form.is_product),
        row_loads=tuple(form for form in lanes if form.is_load),
        row_stores=tuple(form for form in lanes if form.is_store),
        transpositions=tuple(f for f in lanes if not (f.is_product or f.is_load or f.is_store)),
        spaces=tuple(space for space in spaces if is_available(loads[space], module)),
        packs=module.target.number >= _PACKING_TARGET and module.version >= _PACKING_SINCE,
    )
