"""Products, from opcode or form to D, by a target's model."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle import layouts
from oracle.arithmetic.conversions import Scratch, in_order, own_scratch
from oracle.arithmetic.dots import dot_product, scalar_dot
from oracle.arithmetic.doubles import chain
from oracle.arithmetic.scaled import scaled_product
from oracle.errors import UsageError
from oracle.execution.chosen import Metadata, Scales, Scaling, checked_selector, scales_of
from oracle.isa import lookup
from oracle.isa.forms import LANES, Form
from oracle.models import (
    DoubleChain,
    ExactSum,
    Model,
    ScalarDot,
    ScaledDot,
    TruncatedDot,
    model_of,
)

# Integers and single bits: exact, then wrapped or clamped (9.7.14.4.5).
S32_LEAST = -(2**31)
S32_GREATEST = 2**31 - 1


def integer_products(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.int32]:
    """Return a @ b, (tiles, m, n), of 8-bit elements: f32 holds sums up to 16 * 255 * 255."""
    products: NDArray[np.float32] = np.matmul(a.astype(np.float32), b.astype(np.float32))
    return products.astype(np.int32)


_CHUNK_PRODUCTS = 512 * 16 * 16 * 16
"""Products computed together, below 16 MiB; of mma.sync twice as many (2026-11-22)."""
_CHUNK_STEP = 64
"""Tiles of a chunk are a multiple of this, so that every row of elements starts at a cache line."""
_CHUNK_BYTES = 4 << 20
"""Elements of all operands that are taken together."""
_CHUNK_DOUBLES_BYTES = 8 << 20
"""The same of f64, at most: a power of two of tiles, else 1.2 times as long (2026-11-22)."""


def mma(
    opcode: str, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], *, target: str = "sm_90",
    model: Model | str | Path | None = None,
) -> NDArray[Any]:  # fmt: skip
    """Return the matrices D, (..., m, n), of one wmma.mma (9.7.14.4.5), by the model of a target.

    `a`, `b`, `c`: Raw patterns of logical matrices (..., m, k), (..., k, n), (..., m, n), of dtypes
    `oracle.isa.forms.Format.raw`. `model`: In place of the target's, or its file, TOML or JSON.
    Raises UsageError if the opcode, the target, a shape, a dtype or an element is not allowed.
    """
    d = multiply(lookup.mma_form(opcode), a, b, c, model=model_of(target, model))
    return d if d.ndim != 3 or d.flags.c_contiguous else in_order(d, (0, 1, 2))


def multiply(
    form: Form, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], *, model: Model
) -> NDArray[Any]:
    """Do what `mma` does, for a form and a model; with one leading dimension tiles lie last."""
    leading = layouts.check_operands(form, a, b, c)
    size = (prod(leading), form.shape.m, form.shape.n)
    if form.a_type.is_float:
        result = np.empty((*size[1:], size[0]), form.d_type.raw).transpose(2, 0, 1)
    else:
        result = np.empty(size, form.d_type.raw)
    model.figures_for(form)  # refuses a form that the target lacks, even with an empty batch
    scratch = own_scratch()
    for part, left, right, start in layouts.chunks(form, chunk_tiles(form), a, b, c):
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


def product(
    form: Form, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], model: Model, scratch: Scratch,
    *, keeps_c: bool = True, scales: Scales | None = None, rows: NDArray[np.intp] | None = None,
) -> NDArray[Any]:  # fmt: skip
    """Return A x B + C of a few tiles, (tiles, m, n), unchecked; parameters as of `dot_product`."""
    rule = model.unit_for(form)
    if scales is not None and isinstance(rule, ScaledDot):
        return scaled_product(a, b, c, scales, form.texts["stype"], rule)
    if isinstance(rule, ExactSum):
        if form.op == "xor":
            # With 1 and -1 in place of 0 and 1, each of the k bits that differ takes 1 from a sum.
            signs = integer_products(1 - 2 * a.view(np.int8), 1 - 2 * b.view(np.int8))
            sums = (a.shape[2] - signs) >> 1
        else:
            sums = integer_products(a, b)
        (overflow,) = rule.figures_for(form).values()
        if overflow.value == "clamp":
            exact = sums.astype(np.int64) + c
            return np.asarray(exact.clip(S32_LEAST, S32_GREATEST).astype(np.int32))
        return np.asarray(sums + c)  # NumPy's int32 wraps, as the page asks
    if isinstance(rule, DoubleChain):
        rounding = form.rounding or "rn"  # "default is .rn" (9.7.14.4.5)
        d = chain(a, b, c, rounding=rounding, rule=rule, scratch=scratch, keeps_c=keeps_c)
        return d.transpose(2, 0, 1)
    if isinstance(rule, ScalarDot):
        return scalar_dot(a, b, c, rule=rule).transpose(2, 0, 1)
    assert isinstance(rule, TruncatedDot)
    if _is_wide(c):
        columns = np.empty(c.shape, form.d_type.raw)
        for tile, out in enumerate(columns):
            # Each column of B is a tile of its own.
            left, right, addend = a[tile, None], b[tile].T[..., None], c[tile].T[..., None]
            met = None if rows is None else rows[tile].T
            out[...] = dot_product(left, right, addend, rule=rule, scratch=scratch, rows=met)[:, 0]
        return columns
    d = dot_product(a, b, c, rule=rule, scratch=scratch, keeps_c=keeps_c, rows=rows)
    return d.transpose(2, 0, 1)


def _is_wide(c: NDArray[Any]) -> bool:
    return _WIDE * len(c) <= prod(c.shape[1:])


_WIDE = 512
"""Elements of D for each of few tiles from which on they are computed one by one: loops along so
few tiles took three times as long (wgmma, 4 images, 2026-11-29)."""
_CHUNKS_OF_ROWS = 4
"""So many times fewer tiles have B put together by rows: 0.5 to 0.7 of the time (2026-11-23)."""
Triple = tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]
"""Registers of A, B and C, (tiles, 32, words)."""


def mma_sync(
    opcode: str, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], *, target: str = "sm_90",
    model: Model | str | Path | None = None,
) -> NDArray[np.uint32]:  # fmt: skip
    """Return the registers of D, uint32 (..., 32, words), by the model of a target.

    `a`, `b`, `c`: uint32 (..., 32, words). Lanes in order, registers in the order of the operand;
    one of f64 is two words, the low one first. Leading dimensions are equal.
    Raises UsageError if the opcode, target, a shape or dtype is not allowed.
    """
    form = lookup.mma_sync_form(opcode)
    leading, operands, _ = flat_operands(form, a, b, c)
    d = multiply_lanes(form, *operands, model=model_of(target, model))
    return d.reshape(*leading, LANES, form.words("d"))


def mma_sp(
    opcode: str, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], metadata: NDArray[Any],
    selector: int, *, target: str = "sm_90", model: Model | str | Path | None = None,
) -> NDArray[np.uint32]:  # fmt: skip
    """Return the registers of D of one mma.sp (9.7.14.6.3), as `mma_sync`; A is what is stored.

    `metadata`: uint32 (..., 32). An index chooses also where the ISA leaves it undefined.
    `selector`: The sparsity selector, one that the ISA defines for the form.
    """
    form = lookup.form_of(opcode)
    if not form.has_metadata:
        raise lookup.another_needed(form, "mma.sp")
    leading, operands, chosen = flat_operands(form, a, b, c, metadata, selector)
    d = multiply_lanes(form, *operands, model=model_of(target, model), metadata=chosen)
    return d.reshape(*leading, LANES, form.words("d"))


def multiply_lanes(
    form: Form, a: NDArray[np.uint32], b: NDArray[np.uint32], c: NDArray[np.uint32], *,
    model: Model, metadata: Metadata | None = None, scaling: Scaling | None = None,
) -> NDArray[np.uint32]:  # fmt: skip
    """Do what `mma_sync` and `mma_sp` do, of known form and model, on (tiles, 32, words)."""
    model.figures_for(form)  # refuses a form that the target lacks, even with an empty batch
    result = np.empty((len(a), LANES, form.words("d")), np.uint32)
    scratch = own_scratch()
    for part in parts(form, len(a)):
        left, right, addend = (
            layouts.unpack(form, name, words[part], scratch)
            for name, words in (("a", a), ("b", b), ("c", c))
        )
        chosen = None if metadata is None else (metadata[0][part], metadata[1])
        scales = None if scaling is None else scales_of(form, scaling, part)
        multiply_into(result[part], form, left, right, addend, model, scratch, chosen, scales)
    return result


def parts(form: Form, count: int) -> Iterator[slice]:
    """Cut multiplications of registers into those that are computed together."""
    size = chunk_tiles(form)
    if form.has_metadata and form.a_type.is_float:
        size = max(1, size // _CHUNKS_OF_ROWS)
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def multiply_into(
    d: NDArray[np.uint32], form: Form, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any],
    model: Model, scratch: Scratch, metadata: Metadata | None, scales: Scales | None = None,
) -> None:  # fmt: skip
    """Write the registers of A x B + C, (tiles, threads, words); C may be overwritten."""
    made = placed_product(form, a, b, c, model, scratch, metadata, scales)
    layouts.pack(form, made, d, scratch=scratch)


def placed_product(
    form: Form, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], model: Model, scratch: Scratch,
    metadata: Metadata | None = None, scales: Scales | None = None,
) -> NDArray[Any]:  # fmt: skip
    """Return what `product` does, of an A that metadata place, if any; C may become the result."""
    by_rows, rows = metadata is not None and form.a_type.is_float, None
    if metadata is not None and by_rows:
        # Each row of A meets rows of B of its own. A place that is not chosen is no term of the
        # sum: it has no exponent (measured on H200, 2026-11-23).
        met = scales is not None or form.a_type.bits == 32
        if not met:
            rows = layouts.rows_met(form, *metadata)
        if rows is not None and _is_wide(c):
            by_rows = False
        else:
            a, c = layouts.by_row(a), layouts.by_row(c)
            rows = None if rows is None else rows.T
        if met:
            # Metadata without a meaning choose halves of several elements of tf32.
            b = layouts.met(form, b, *metadata)
            scales = None if scales is None else layouts.scales_by_row(*scales)
    elif metadata is not None:
        a = layouts.expanded(form, a, *metadata)
    made = product(form, a, b, c, model, scratch, keeps_c=False, scales=scales, rows=rows)
    return layouts.of_rows(made, form.shape.m) if by_rows else made


def flat_operands(
    form: Form, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any],
    metadata: NDArray[Any] | None = None, selector: int | None = None,
) -> tuple[tuple[int, ...], Triple, Metadata | None]:  # fmt: skip
    """Check registers; return leading dimensions, and operands and metadata with one of them."""
    if form.is_scaled:
        text = "has scales, which stand in no registers here; `oracle.mma_block_scale` takes it"
        raise UsageError(f"{form.opcode} {text}")
    given = {"a": a, "b": b, "c": c}
    sizes = {name: (LANES, form.words(name)) for name in given}
    registers: list[layouts.Given] = [(name, given[name], np.uint32, sizes[name]) for name in given]
    if form.has_metadata:
        registers.append(("metadata", metadata, np.uint32, (LANES,)))  # type: ignore[arg-type]
    leading = layouts.check_batch(*registers)
    left, right, addend = (words.reshape(-1, LANES, words.shape[-1]) for words in given.values())
    chosen = None
    if metadata is not None:
        chosen = metadata.reshape(-1, LANES), checked_selector(form, selector)
    return leading, (left, right, addend), chosen
