"""What is measured at once: the multiplications of a target that share a set of figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from oracle.errors import UsageError
from oracle.isa.forms import Form
from oracle.isa.lookup import FORMS, figures_of, is_available, warpgroup_forms
from oracle.isa.targets import VERSIONS, Module, PtxVersion
from oracle.models import DoubleChain, ExactSum, ScalarDot, ScaledDot, TruncatedDot, Unit

_FORMS = tuple(form for form in FORMS if form.is_product)


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
        return () if self.first.opaque or self.first.warps > 1 else (self.first.shape.name,)

    @property
    def kind(self) -> type[Unit]:
        """What a model has of it."""
        if self.first.is_scaled:
            return ScaledDot
        if not self.first.a_type.is_float:
            return ExactSum
        if self.first.groups > 1:
            return ScalarDot
        return DoubleChain if self.first.a_type.name == "f64" else TruncatedDot


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
    for form in (*_FORMS, *_ends(warpgroup_forms())):
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


def _ends(forms: Sequence[Form]) -> Iterator[Form]:
    """Return the narrowest and the widest multiplications of a warpgroup of each kind.

    Where D has n columns, each of them is computed alike; a module of all takes minutes to compile.
    """
    by_kind: dict[tuple[object, ...], list[Form]] = {}
    for form in forms:
        if form.is_product:
            kind = form.mnemonic, form.types, form.satfinite
            by_kind.setdefault(kind, []).append(form)
    for some in by_kind.values():
        yield from (some[0], some[-1])


def _unit_of(form: Form) -> tuple[str, str]:
    types = form.types
    if form.a_type.name == "f64":
        return f"{types} .{form.rounding or 'rn'}", types
    words = [f"{figures_of(form)}{f'.{form.op}.popc' if form.op else ''}"]
    if form.is_scaled:
        words.append("scaled")
    if not form.opaque and form.warps == 1 and form.a_type.is_float:
        words.append(form.shape.name)
    words.append(f"{types}{'.satfinite' if form.satfinite else ''}")
    return " ".join(words), types
