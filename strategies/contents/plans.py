"""What there is to fill in the images of a program, and with what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from oracle.formats import FORMATS, Format
from oracle.program import Program
from strategies.contents.float_fields import Raw
from strategies.contents.origins import Origins, Product, Readings, Source, readings
from strategies.contents.settings import Types
from strategies.contents.windows import Window

_PLANS = 64
"""Plans that are kept; one has a number for every byte that is loaded."""


@dataclass(frozen=True, eq=False)
class Filling:
    """One matrix to fill."""

    window: Window
    operand: str
    """"a", "b" or "c"."""
    types: Types
    multiplicands: tuple[Window, Window] | None = None
    """A and B of the product that a C belongs to."""

    def given(self, images: NDArray[np.uint8]) -> Callable[[], tuple[Raw, Raw]] | None:
        """Return what reads A and B of some images."""
        if self.multiplicands is None:
            return None
        a, b = self.multiplicands
        return lambda: (a.open(images), b.open(images))


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that a program reads from its image."""

    fillings: tuple[Filling, ...]
    """In the order in which they are filled: all C after all A and B, which they are made for."""
    words: tuple[tuple[int, int], ...]
    """First byte and mask of each control word."""
    rows: Origins
    """Bytes that ldmatrix reads, sorted."""


@lru_cache(maxsize=_PLANS)
def plan_of(program: Program) -> Plan:
    """Find what to fill in the images of a program."""
    found = readings(program)
    rows = np.unique(np.concatenate([np.zeros(0, np.int64), *found.rows]))
    return Plan(tuple(_fillings(found)), tuple(dict.fromkeys(found.words)), rows)


def _fillings(found: Readings) -> list[Filling]:
    windows: dict[tuple[object, ...], Window] = {}

    def window(source: Source) -> Window:
        return windows.setdefault(source.key, Window(source))

    filled: dict[tuple[object, ...], Filling] = {}
    for product in found.products:
        for operand, source in (("a", product.a), ("b", product.b)):
            if source is not None and _fits(source, product, operand):
                filling = Filling(window(source), operand, _types(product))
                filled.setdefault(source.key, filling)
    for product in found.products:
        if product.c is not None and product.c.key not in filled:
            both = None
            if product.a is not None and product.b is not None:
                both = window(product.a), window(product.b)
            filling = Filling(window(product.c), "c", _types(product), both)
            filled[product.c.key] = filling
    for source in found.loads:
        filled.setdefault(source.key, Filling(window(source), *_alone(source)))
    return sorted(filled.values(), key=lambda filling: filling.operand == "c")


def _fits(source: Source, product: Product, operand: str) -> bool:
    """Whether what is loaded is the matrix that is multiplied; undefined programs may differ."""
    return source.tile.matrix == product.form.matrix(operand)


def _types(product: Product) -> Types:
    form = product.form
    return Types(
        multiplicand=form.a_type,
        accumulator=form.c_type,
        result=form.d_type,
        depth=form.shape.k,
        operation=form.op,
    )


def _alone(source: Source) -> tuple[str, Types]:
    """Return operand and types for a matrix that is loaded and not multiplied."""
    matrix = source.tile.matrix
    multiplicand, accumulator = matrix.type, matrix.type
    if matrix.operand == "c":
        multiplicand = _MULTIPLICANDS[matrix.type.name]
    else:
        accumulator = _ACCUMULATORS[matrix.type.name]
    return matrix.operand, Types(
        multiplicand=multiplicand,
        accumulator=accumulator,
        result=accumulator,
        depth=matrix.shape.k,
    )


# Where nothing says what a fragment is multiplied with: types of some form (PTX ISA 9.7.14.4.5).
_MULTIPLICANDS: dict[str, Format] = {
    name: FORMATS[other]
    for name, other in (("f16", "f16"), ("f32", "f16"), ("f64", "f64"), ("s32", "s8"))
}
_ACCUMULATORS: dict[str, Format] = {
    name: FORMATS["f32" if FORMATS[name].is_float else "s32"] for name in FORMATS
} | {"f64": FORMATS["f64"]}
