"""wmma.mma on whole matrices: from a form, or its text, to the arithmetic that computes it."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.dots import dot_product, scalar_dot
from oracle.arithmetic.double_chain import chain
from oracle.arithmetic.scratch import Scratch, in_order, own_scratch
from oracle.isa.forms import Form
from oracle.isa.lookup import mma_form
from oracle.layouts.batches import check_operands, chunks
from oracle.models import Model, model_of

# Integers and single bits: exact, then wrapped or clamped (9.7.14.4.5).
S32_LEAST = -(2**31)
S32_GREATEST = 2**31 - 1


def integer_products(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.int32]:
    """Return a @ b exactly; shapes (tiles, m, k) and (tiles, k, n), 8-bit elements.

    float32 holds every partial sum: the largest is 16 * 255 * 255, far below 2^24.
    """
    products: NDArray[np.float32] = np.matmul(a.astype(np.float32), b.astype(np.float32))
    return products.astype(np.int32)


def bit_counts(a: NDArray[np.uint8], b: NDArray[np.uint8], op: str) -> NDArray[np.int32]:
    """Return the set bits of `a op b` for each row of a and column of b; op is "xor" or "and".

    With 1 and -1 in place of 0 and 1, each of the k bits that differ takes 1 from the product, and
    each of the others adds 1.
    """
    if op == "and":
        return integer_products(a, b)
    signs = integer_products(1 - 2 * a.view(np.int8), 1 - 2 * b.view(np.int8))
    different: NDArray[np.int32] = (a.shape[2] - signs) >> 1
    return different


def accumulate(
    products: NDArray[np.int32], c: NDArray[np.int32], *, clamped: bool
) -> NDArray[np.int32]:
    """Return products + c: clamped once, or wrapped to 32 bits."""
    if not clamped:
        # NumPy's int32 addition wraps (two's complement) on arrays, as the page asks.
        wrapped: NDArray[np.int32] = products + c
        return wrapped
    exact: NDArray[np.int64] = products.astype(np.int64) + c
    return exact.clip(S32_LEAST, S32_GREATEST).astype(np.int32)


_CHUNK_PRODUCTS = 512 * 16 * 16 * 16
"""Products computed together: NumPy's calls cost little, and arrays stay below 16 MiB. Of mma.sync
twice as many, for gathering takes calls of its own: 3 to 5 % less time (2026-11-22)."""
_CHUNK_STEP = 64
"""Tiles of a chunk are a multiple of this, so that every row of elements starts at a cache line."""
_CHUNK_BYTES = 4 << 20
"""Elements of all operands that are taken together."""
_CHUNK_DOUBLES_BYTES = 8 << 20
"""Elements of all f64 operands that are taken together, at most. Tiles are a power of two, so that
rows start at cache lines: with 819 of them it took 1.2 times as long (2026-11-22)."""


def mma(
    opcode: str, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], *, target: str = "sm_90",
    model: Model | str | Path | None = None,
) -> NDArray[Any]:  # fmt: skip
    """Return the matrices D, (..., m, n), of one wmma.mma (9.7.14.4.5), by the model of a target.

    `opcode`: Such as "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32".
    `a`, `b`, `c`: Raw patterns of the logical matrices, whatever the layouts: (..., m, k),
    (..., k, n), (..., m, n), dtypes those of the formats (`oracle.isa.formats.Format.raw`).
    `target`: Such as "sm_90" or "sm_90a".
    `model`: In place of the target's, or its file, TOML or JSON (`oracle.models.files`).
    Raises UsageError if the opcode, the target, a shape, a dtype or an element is not allowed.
    """
    d = multiply(mma_form(opcode), a, b, c, model=model_of(target, model))
    return d if d.ndim != 3 else in_order(d, (0, 1, 2))


def multiply(
    form: Form, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], *, model: Model
) -> NDArray[Any]:
    """Do what `mma` does, for a form that is already known and a model.

    With one leading dimension the result has in memory the order in which it was computed: with
    the tiles last for floating point. As an accumulator it then need not be transposed.
    """
    leading = check_operands(form, a, b, c)
    size = (prod(leading), form.shape.m, form.shape.n)
    if form.a_type.is_float:
        result = np.empty((*size[1:], size[0]), form.d_type.raw).transpose(2, 0, 1)
    else:
        result = np.empty(size, form.d_type.raw)
    model.figures_for(form)  # refuses a form that the target lacks, even with an empty batch
    scratch = own_scratch()
    for part, left, right, start in chunks(form, chunk_tiles(form), a, b, c):
        result[part] = product(form, left, right, start, model, scratch)
    if len(leading) == 1:
        return result
    return in_order(result, (0, 1, 2)).reshape((*leading, *size[1:]))


def chunk_tiles(form: Form) -> int:
    """Return how many tiles of a form are computed together."""
    m, n, k = form.shape.m, form.shape.n, form.shape.k
    bits = m * k * form.a_type.bits + k * n * form.b_type.bits
    bits += m * n * (form.c_type.bits + form.d_type.bits)
    if form.a_type.name == "f64":
        return 1 << (_CHUNK_DOUBLES_BYTES * 8 // bits).bit_length() - 1
    products, groups = _CHUNK_PRODUCTS, 1
    if not form.opaque:
        products, groups = 2 * products, form.groups
    tiles = min(products // (m * n * k), _CHUNK_BYTES * 8 // bits) // groups
    return tiles - tiles % _CHUNK_STEP if tiles > _CHUNK_STEP else tiles


def takes_upper_halves(form: Form, model: Model) -> bool:
    """Return whether `product` takes A and B also in the upper halves of uint32, which are lost."""
    if not form.a_type.is_float or form.a_type.bits != 16 or model.scalar_for(form) is not None:
        return False
    rule = model.dot_for(form)
    kept = rule.a_subnormals.value == rule.b_subnormals.value == "kept"
    return rule.is_usual and kept


def product(
    form: Form, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], model: Model, scratch: Scratch,
    *, keeps_c: bool = True, rows: NDArray[np.intp] | None = None,
) -> NDArray[Any]:  # fmt: skip
    """Return A x B + C of a few tiles, (tiles, m, n), unchecked; `rows` as of `dot_product`.

    Where `c` need not be kept, the result may be where it was.
    """
    if not form.a_type.is_float:
        clamped = model.exact_for(form).value == "clamp"
        sums = integer_products(a, b) if form.op is None else bit_counts(a, b, form.op)
        return accumulate(sums, c, clamped=clamped)
    if form.a_type.name == "f64":
        rounding = form.rounding or "rn"  # "default is .rn" (9.7.14.4.5)
        rule = model.double_chain
        d = chain(a, b, c, rounding=rounding, rule=rule, scratch=scratch, keeps_c=keeps_c)
        return d.transpose(2, 0, 1)
    scalar = model.scalar_for(form)
    if scalar is not None:
        return scalar_dot(a, b, c, rule=scalar).transpose(2, 0, 1)
    dot = model.dot_for(form)
    d = dot_product(a, b, c, rule=dot, scratch=scratch, keeps_c=keeps_c, rows=rows)
    return d.transpose(2, 0, 1)
