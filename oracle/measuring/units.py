"""The units of a target that have figures, and what a model says of their products."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.scratch import own_scratch
from oracle.errors import UsageError
from oracle.execution.products import multiply, product
from oracle.isa.forms import Form
from oracle.isa.lookup import FORMS, figures_of, is_available
from oracle.isa.targets import VERSIONS, Module, PtxVersion
from oracle.models import Model

Array = NDArray[Any]
Floats = NDArray[np.float64]


_FORMS = tuple(form for form in FORMS if form.is_product)
_EXACT_SEED = 0x696E_7473
_TOGETHER = 1024  # Matrices that the oracle multiplies in one go: bounds its working memory
_KINDS = 6  # Kinds of random images (`random_tiles`)


@dataclass(frozen=True, kw_only=True)
class MeasuredUnit:
    """What one set of figures is for: forms of the same types; of registers, of one shape."""

    name: str  # As it is shown: "wmma.mma f32.f16.f16.f32", "mma m16n8k8 f32.f16.f16.f32"
    types: str
    forms: tuple[Form, ...]  # The first is the one that the probes use

    @property
    def first(self) -> Form:
        """The form that takes the probes."""
        return self.forms[0]

    @property
    def shapes(self) -> tuple[str, ...]:
        """Names of the shapes for which the figures hold; an empty collection means all shapes."""
        return () if self.first.opaque else (self.first.shape.name,)

    @property
    def kind(self) -> str:
        """Return "dot", "scalar", "double" or "exact"."""
        if not self.first.a_type.is_float:
            return "exact"
        if self.first.groups > 1:
            return "scalar"
        return "double" if self.first.a_type.name == "f64" else "dot"


def module_of_all(target: str, most: PtxVersion | None = None) -> Module:
    """Return a target's module in the first version, up to `most`, that has all of its forms."""
    modules = [
        module
        for version in VERSIONS
        if (most is None or version <= most)
        and (module := Module.named(target, str(version))).exists
    ]
    if not modules:
        raise UsageError(
            f"no PTX ISA version up to {most}, the highest that the compiler reads, knows "
            f"{target}; name a newer compiler, or another --target"
        )
    return max(modules, key=lambda module: sum(is_available(form, module) for form in _FORMS))


def units_of(module: Module, only: str = "*") -> tuple[MeasuredUnit, ...]:
    """Return the units that a module's multiplications of a pattern "wmma.mma.*bf16*" reach."""
    # How many products a multiplication of registers adds up at once depends on the shape (measured
    # on H200, 2026-11-22), so each shape of floats is a unit of its own there.
    grouped: dict[tuple[str, str], list[Form]] = {}
    for form in _FORMS:
        if form.opaque and form.satfinite and form.a_type.is_float:
            continue  # removed in PTX ISA 6.5 (9.7.14.4.5, notes)
        if is_available(form, module) and fnmatchcase(form.opcode, only):
            grouped.setdefault(_unit_of(form), []).append(form)
    if not grouped:
        raise UsageError(
            f"no multiplication of {module} fits {only!r}; "
            "`warpfuzz isa --only '*mma*'` lists those that there are"
        )
    return tuple(
        MeasuredUnit(name=name, types=types, forms=tuple(forms))
        for (name, types), forms in grouped.items()
    )


def _unit_of(form: Form) -> tuple[str, str]:
    types = form.types
    if form.a_type.name == "f64":
        return f"{types} .{form.rounding or 'rn'}", types
    words = [f"{figures_of(form)}{f'.{form.op}.popc' if form.op else ''}"]
    if not form.opaque and form.a_type.is_float:
        words.append(form.shape.name)
    words.append(f"{types}{'.satfinite' if form.satfinite else ''}")
    return " ".join(words), types


def multiplied(form: Form, a: Array, b: Array, c: Array, model: Model) -> Array:
    """Return what a model says of some matrices, (count, m, n)."""
    if form.opaque:
        return multiply(form, a, b, c, model=model)
    d = np.empty((len(c), form.shape.m, form.shape.n), form.d_type.raw)
    # Of an A that metadata place, what is stored is multiplied, of B what it meets.
    for start in range(0, len(c), _TOGETHER):
        part = slice(start, start + _TOGETHER)
        d[part] = product(form, a[part], b[part], c[part], model, own_scratch())
    return d
