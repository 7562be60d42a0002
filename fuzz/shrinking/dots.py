"""The dot products of a program's multiplications, as cells of its image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fuzz.findings.cells import Cells, Ids, Image
from fuzz.shrinking.draft import image_places, visit
from oracle.formats import Format, Kind
from oracle.forms import MmaForm
from oracle.steps import Load, Multiply
from strategies.matrices import Placed


def number(type_: Format, raw: int) -> Fraction | None:
    """Return what the raw bits of an element stand for; None for infinities and NaN."""
    if type_.kind is not Kind.FLOAT:
        negative = type_.kind is Kind.SIGNED and raw >> (type_.bits - 1)
        return Fraction(raw - (1 << type_.bits) if negative else raw)
    raw >>= type_.ignored_bits
    fraction = raw & ((1 << type_.fraction_bits) - 1)
    field = raw >> type_.fraction_bits & ((1 << type_.exponent_bits) - 1)
    if field == (1 << type_.exponent_bits) - 1:
        return None
    significand = fraction + (1 << type_.fraction_bits if field else 0)
    scale = max(field, 1) - type_.bias - type_.fraction_bits
    sign = -1 if raw >> (type_.fraction_bits + type_.exponent_bits) else 1
    return sign * significand * Fraction(2) ** scale


def nearest(type_: Format, value: Fraction) -> int:
    """Return the raw bits of the finite element that is nearest to a number; ties to even."""
    if type_.kind is not Kind.FLOAT:
        signed = type_.kind is Kind.SIGNED
        low = -(1 << (type_.bits - 1)) if signed else 0
        high = (1 << (type_.bits - signed)) - 1
        return min(max(round(value), low), high) & ((1 << type_.bits) - 1)
    sign = 1 << (type_.bits - 1 - type_.ignored_bits) if value < 0 else 0
    magnitude = abs(value)
    least = 1 - type_.bias
    scale = max(least, exponent(magnitude)) if magnitude else least
    units = round(magnitude / Fraction(2) ** (scale - type_.fraction_bits))
    # A sum of the exponent field less one and the significand with its leading bit; where
    # rounding carries, the field goes up by itself.
    raw = (scale + type_.bias - 1 << type_.fraction_bits) + units
    largest = ((1 << type_.exponent_bits) - 1 << type_.fraction_bits) - 1
    return (sign | min(raw, largest)) << type_.ignored_bits


def exponent(magnitude: Fraction) -> int:
    """Return the exponent of the power of two that is nearest from below."""
    guess = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    return guess if Fraction(2) ** guess <= magnitude else guess - 1


ENOUGH = 3
"""Elements of one dot product that need not become fewer: a product and C."""
_OUTPUTS = 8
"""Most dot products of one multiplication that are looked at."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Product:
    """A multiplication whose operands all come out of the image."""

    form: MmaForm
    a: Ids
    """(m, k)."""
    b: Ids
    """(k, n)."""
    c: Ids
    """(m, n)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Dot:
    """One dot product: the cells of a row of A, of a column of B and of an element of C."""

    form: MmaForm
    a: Sequence[int]
    b: Sequence[int]
    c: int

    def held(self, left: set[int]) -> list[int]:
        """Return the k of the terms with a factor that is not zero: in the cells of `left`."""
        return [k for k in range(len(self.a)) if self.a[k] in left or self.b[k] in left]

    def size(self, left: set[int]) -> int:
        """Return how many of its elements are not zero: in the cells of `left`."""
        return len({*self.a, *self.b, self.c} & left)


def dots(cells: Cells, image: Image) -> Iterator[Dot]:
    """Iterate over dot products with more than ENOUGH elements that are not zero, a few at most."""
    for product in _products(cells):
        yield from _dots(product, cells, image)


def _products(cells: Cells) -> Iterator[_Product]:
    """Find the multiplications whose A, B and C were loaded and not changed since."""
    program = cells.program
    held: dict[str, Ids] = {}
    for _, step in visit(program.steps):
        match step:
            case Load():
                held.pop(step.fragment, None)
                for place in image_places(program, step):
                    placed = Placed(operand=step.form.operand, place=place, tile=step.tile)
                    held[step.fragment] = cells.of_matrix(placed)
            case Multiply():
                if {step.a, step.b, step.c} <= held.keys():
                    yield _Product(form=step.form, a=held[step.a], b=held[step.b], c=held[step.c])
                held.pop(step.d, None)
            case _:
                pass


def _dots(product: _Product, cells: Cells, image: Image) -> list[Dot]:
    """Return the largest dot products with more than ENOUGH elements that are not zero."""
    left = cells.nonzero(image)
    a, b, c = (np.isin(ids, left) for ids in (product.a, product.b, product.c))
    # Single bits make terms that are not zero without any in B.
    sizes = a.sum(axis=1)[:, None] + b.sum(axis=0) + c
    return [
        Dot(
            form=product.form,
            a=product.a[row].tolist(),
            b=product.b[:, column].tolist(),
            c=int(product.c[row, column]),
        )
        for row, column in _largest(sizes)
    ]


def _largest(sizes: NDArray[np.intp]) -> list[tuple[int, int]]:
    """Return where more than ENOUGH stands, the most first: there most of the terms meet."""
    order = np.argsort(-sizes, axis=None, kind="stable")
    rows, columns = np.unravel_index(order, sizes.shape)
    several = int((sizes > ENOUGH).sum())
    return list(zip(rows[:several].tolist(), columns[:several].tolist(), strict=True))[:_OUTPUTS]


def term(dot: Dot, cells: Cells, image: Image, k: int) -> Fraction | None:
    """Return what a term adds to the sum; None if that is no finite number."""
    raw = [cells.value(image, side[k]) for side in (dot.a, dot.b)]
    if dot.form.op is not None:
        return Fraction(raw[0] ^ raw[1] if dot.form.op == "xor" else raw[0] & raw[1])
    a, b = number(dot.form.a_type, raw[0]), number(dot.form.b_type, raw[1])
    return None if a is None or b is None else a * b
