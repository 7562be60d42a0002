"""The dot products of a program's multiplications, as cells of its image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fuzz.shrinking.cells import Cells, Ids
from fuzz.shrinking.draft import Image
from fuzz.shrinking.numbers import number
from fuzz.shrinking.sites import visit
from fuzz.shrinking.tiles import image_places, tile_of
from oracle.isa import MmaForm
from oracle.program import Load, Multiply
from strategies.matrices import Placed

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
                    placed = Placed(operand=step.form.operand, place=place, tile=tile_of(step))
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
