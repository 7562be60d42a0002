"""The model of one target: the figures of all of its matrix units."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from oracle.errors import UsageError
from oracle.isa.forms import Form
from oracle.isa.lookup import figures_of, notes_of
from oracle.isa.targets import Release, parse_target
from oracle.models.figures import (
    Confidence,
    DotUnit,
    DoubleChain,
    ExactSum,
    Figure,
    ScalarDot,
    TruncatedDot,
    Unit,
    weakest,
)

AnyDot = TypeVar("AnyDot", bound=DotUnit)

NO_FIGURES = "none"
"""What a form's figures are called in code of a compiler that has none (`Model.expansion_of`)."""


def _holds(row: DotUnit, compiler: Release) -> bool:
    return row.compilers is None or row.compilers.include(compiler)


@dataclass(frozen=True, kw_only=True)
class Model:
    """What one target returns, bit for bit, as far as it is known."""

    target: str
    """The target asked for, such as "sm_90a"."""
    base: str
    """The target whose figures these are, such as "sm_90"."""
    file: str = ""
    """The file of a model that is not built in, as it was named."""
    compiler: Release | None = None
    """The release of the compiler whose code is meant; None: the newest that figures are of."""
    dots: tuple[TruncatedDot, ...]
    scalars: tuple[ScalarDot, ...] = ()
    doubles: DoubleChain | None
    exact: ExactSum

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the values of all figures, in hexadecimal; sources and names are left out."""
        rows = [
            (row.instruction, row.types, row.shapes, str(row.compilers or ""), *row.values.items())
            for row in self._dot_units
        ]
        doubles = None if self.doubles is None else tuple(self.doubles.values.items())
        text = repr((sorted(rows), doubles, tuple(self.exact.values.items())))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def _dot_units(self) -> tuple[DotUnit, ...]:
        return (*self.dots, *self.scalars)

    @property
    def name(self) -> str:
        """What it is called where a result is shown: its origin, and the digest's beginning."""
        return f"{Path(self.file).name or self.base} {self.digest[:12]}"

    @property
    def units(self) -> Iterator[Unit]:
        """All units."""
        yield from self.dots
        yield from self.scalars
        if self.doubles is not None:
            yield self.doubles
        yield self.exact

    @property
    def confidence(self) -> Confidence:
        """Least sure of the figures that decide results; the choice among f64 NaNs has its own."""
        newest = self.compiler or max(
            (row.compilers.first for row in self._dot_units if row.compilers), default=None
        )
        return weakest(
            figure.confidence
            for unit in self.units
            if newest is None or not isinstance(unit, DotUnit) or _holds(unit, newest)
            for figure in unit.figures
            if self.doubles is None or figure is not self.doubles.nan
        )

    def figures_for(self, form: Form) -> dict[str, Figure[Any]]:
        """Return the figures of one form, by name; UsageError if the target does not have it."""
        number = parse_target(self.target).number
        for note in notes_of(form):
            if note.target is not None and number < note.target:
                text = f"{self.target} does not have {form.opcode}. {note.text} Choose sm_"
                raise UsageError(f"{text}{note.target} or higher")
        if not form.a_type.is_float:
            return {exact_name(form): self.exact_for(form)}
        if form.a_type.name == "f64":
            return dict(self.double_chain.named)
        return dict((self.scalar_for(form) or self.dot_for(form)).named)

    def confidence_for(self, form: Form) -> Confidence:
        """Least sure of the figures that decide the results of one form."""
        return weakest(figure.confidence for figure in self.figures_for(form).values())

    def judges(self, form: Form) -> bool:
        """Whether it has figures of a form."""
        try:
            self.figures_for(form)
        except UsageError:
            return False
        return True

    def exact_for(self, form: Form) -> Figure[str]:
        """Return how a form of integers or single bits overflows, or raise UsageError."""
        figure: Figure[str] | None = self.exact.named.get(exact_name(form))
        if figure is None:
            raise UsageError(
                f"the model {self.name} has no figures for {form.opcode}; measure them, or choose "
                "another form or model"
            )
        return figure

    @property
    def double_chain(self) -> DoubleChain:
        """Figures of f64, or UsageError."""
        if self.doubles is None:
            raise UsageError(
                f"the model {self.name} has no figures of f64; measure them, or choose another form"
            )
        return self.doubles

    def dot_for(self, form: Form) -> TruncatedDot:
        """Return the figures of a floating-point form other than f64, or raise UsageError."""
        row = self.find_dot(form)
        if row is None:
            known = ", ".join(f"{row.instruction} {row.types}" for row in self.dots)
            raise UsageError(
                f"the model {self.name} has no figures for {form.opcode}; it has some for {known}: "
                "choose another form or model"
            )
        return row

    def find_dot(self, form: Form) -> TruncatedDot | None:
        """Return what `dot_for` does, or None where the model has nothing."""
        return self._serving(self.dots, form)

    def expansion_of(self, form: Form) -> str:
        """Say whose figures a form has: "12.4 to 12.6", "all" for all compilers, or NO_FIGURES.

        Where there are none for `compiler`, `dot_for` and `scalar_for` return those of the newest:
        what this one does lies within the bounds of the ISA, and no more is known.
        """
        row = self.find_dot(form) or self.scalar_for(form)
        if row is None or row.compilers is None:
            return "all"
        if self.compiler is not None and not _holds(row, self.compiler):
            return NO_FIGURES
        return str(row.compilers)

    def scalar_for(self, form: Form) -> ScalarDot | None:
        """Return the figures of a form that is computed in scalar arithmetic; of others None."""
        return self._serving(self.scalars, form)

    def _serving(self, rows: tuple[AnyDot, ...], form: Form) -> AnyDot | None:
        """Return the row that is for a form; of several the newest compiler's, if none fits."""
        found = [
            row
            for row in rows
            if (row.instruction, row.types) == (figures_of(form), form.types)
            and (not row.shapes or form.shape.name in row.shapes)
        ]
        found.sort(key=lambda row: () if row.compilers is None else row.compilers.first)
        if self.compiler is not None:
            found = [row for row in found if _holds(row, self.compiler)] or found
        return found[-1] if found else None

    def dot(self, multiplicand: str, accumulator: str) -> TruncatedDot:
        """Return the figures of wmma.mma for formats of A and B, and of C and D, or UsageError."""
        types = f"{accumulator}.{multiplicand}.{multiplicand}.{accumulator}"
        for row in self.dots:
            if (row.instruction, row.types) == ("wmma.mma", types):
                return row
        known = ", ".join(f"{row.multiplicand} with {row.d_type}" for row in self.dots)
        raise UsageError(
            f"{self.target} has no floating-point matrix multiply of {multiplicand} with "
            f"accumulators of {accumulator}; it has {known}: choose another form or target"
        )


def exact_name(form: Form) -> str:
    """Return which figure of `ExactSum` decides a form of integers or single bits."""
    if form.op is not None:
        return "bits"
    return "satfinite" if form.satfinite else "plain"
