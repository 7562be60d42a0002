"""One element of D of a multiplication, term by term, as a target's model computes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.dots import block_sums
from oracle.arithmetic.double_chain import chain
from oracle.arithmetic.unusual import units_of
from oracle.formats import FORMATS, Format, format_named
from oracle.forms import Form
from oracle.lane_fragments import places, unpack
from oracle.metadata import met, rows_met
from oracle.models import Model
from oracle.scratch import own_scratch
from oracle.tracing import Event


@dataclass(frozen=True, kw_only=True)
class Term:
    """One product."""

    k: int
    """Column of A; of a sparse A counted among what is stored."""
    met: int
    """Row of B."""
    a: int
    """Raw pattern."""
    b: int
    """Raw pattern."""
    value: float | None = None
    """The exact product; None of f64, where a double does not hold it."""
    units: float | None = None
    """The truncated product, in units of the sum; None where nothing is truncated."""


@dataclass(frozen=True, kw_only=True)
class TermSum:
    """Products that are added at once."""

    terms: Sequence[Term]
    before: int
    """Raw pattern of what they are added to."""
    addend: Format
    """Its format."""
    after: int
    """Raw pattern of the sum."""
    total: Format
    """Its format."""
    adds: str = "C"
    """What they are added to: "C", "the sum so far", or nothing: ""."""
    apart: bool = False
    """Whether the sum is added to the sums so far by an instruction of its own."""
    unit: float | None = None
    """What each term is truncated to a multiple of, toward zero; None: to nothing."""
    addend_units: float | None = None
    """What they are added to, in units."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Operands:
    """What an element of D is computed from."""

    row: int
    column: int
    a: NDArray[Any]
    """The row of A, raw patterns (k,); of a sparse one what is stored."""
    b: NDArray[Any]
    """What each of them meets in B, (k,)."""
    c: NDArray[Any]
    """The element of C, shape ()."""
    rows: Sequence[int]
    """The row of B that each meets."""


def operands_of(event: Event, at: tuple[int, int]) -> Operands:
    """Return what an element of D of a traced multiplication is computed from.

    `at`: Row and column of D for wmma.mma; else the lane and the number of the element among those
    that its registers hold.
    """
    form: Form = event.step.form  # type: ignore[union-attr]
    if form.opaque:
        row, column = at
        a, b, c = (event.inputs[name] for name in "abc")
        return _taken(a, b, c, row, column)
    group, row, column = places(form, "d")[at].tolist()
    a, b, c = (unpack(form, name, event.inputs[name][None])[group] for name in "abc")
    if not form.has_metadata:
        return _taken(a, b, c, row, column)
    selector = getattr(event.step, "selector", None) or 0
    metadata = event.inputs["e"][None, :, 0]
    rows = rows_met(form, metadata, selector)[0, row]
    column_met = (
        met(form, b[None], metadata, selector)[row][:, column]
        if form.b_type.is_float
        else b[rows, column]
    )
    return Operands(
        row=row, column=column, a=a[row], b=column_met, c=c[row, column], rows=rows.tolist()
    )


def _taken(a: Any, b: Any, c: Any, row: int, column: int) -> Operands:
    depth = range(a.shape[1])
    return Operands(
        row=row, column=column, a=a[row], b=b[:, column], c=np.asarray(c[row, column]), rows=depth
    )


def sums_of(form: Form, given: Operands, d: int, model: Model) -> Iterator[TermSum]:
    """Yield how an element of D, a raw pattern, is computed: one addition of products each."""
    a_bits, b_bits = _patterns(given.a, form.a_type), _patterns(given.b, form.b_type)
    c_bits = _patterns(given.c[None], form.c_type)[0]
    if not form.a_type.is_float:
        xor = form.op == "xor"
        products = [
            int(x != y) if xor else int(x) * int(y) for x, y in zip(given.a, given.b, strict=True)
        ]
        terms = [
            Term(k=k, met=given.rows[k], a=x, b=y, value=product)
            for k, (x, y, product) in enumerate(zip(a_bits, b_bits, products, strict=True))
        ]
        yield TermSum(terms=terms, before=c_bits, addend=form.c_type, after=d, total=form.d_type)
    elif form.a_type.name == "f64":
        before, adds = c_bits, "C"
        for k, (x, y) in enumerate(zip(a_bits, b_bits, strict=True)):
            left, right, addend = (np.array([[[one]]], np.uint64) for one in (x, y, before))
            made = chain(
                left, right, addend, rounding=form.rounding or "rn", rule=model.double_chain,
                scratch=own_scratch(),
            )  # fmt: skip
            after = int(made[0, 0, 0])
            yield TermSum(
                terms=[Term(k=k, met=k, a=x, b=y)], before=before, adds=adds, addend=FORMATS["f64"],
                after=after, total=FORMATS["f64"],
            )  # fmt: skip
            before, adds = after, "the sum so far"
    elif model.scalar_for(form) is not None:
        terms = [
            Term(k=k, met=given.rows[k], a=x, b=y)
            for k, (x, y) in enumerate(zip(a_bits, b_bits, strict=True))
        ]
        yield TermSum(terms=terms, before=c_bits, addend=form.c_type, after=d, total=form.d_type)
    else:
        rule = model.dot_for(form)
        adds = "" if rule.addend.value == "last" else "C"
        accumulator, multiplicand = rule.accumulator_format, format_named(rule.multiplicand)
        for ks, left, right, start, after in block_sums(given.a, given.b, given.c, rule=rule):
            unit, values, counts = units_of(
                left, right, start, multiplicand=multiplicand, rule=rule
            )
            finite = bool(np.isfinite(values).all())
            yield TermSum(
                terms=[
                    Term(
                        k=k, met=given.rows[k], a=a_bits[k], b=b_bits[k], value=value,
                        units=count if finite else None,
                    )
                    for k, value, count in zip(ks, values, counts, strict=False)
                ],
                before=int(start), adds=adds, apart=rule.sums is not None, addend=accumulator,
                after=after, total=accumulator,
                unit=unit if finite else None, addend_units=counts[-1] if finite else None,
            )  # fmt: skip
            adds = "" if rule.sums is not None else "the sum so far"


def _patterns(values: NDArray[Any], fmt: Format) -> list[int]:
    return [int(value) & ((1 << fmt.bits) - 1) for value in values]
