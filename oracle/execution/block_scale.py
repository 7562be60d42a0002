"""Multiplications of narrow floats and of scaled blocks on logical matrices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle import layouts
from oracle.arithmetic.conversions import own_scratch
from oracle.errors import UsageError
from oracle.execution.chosen import Metadata, Scales, checked_selector
from oracle.execution.products import chunk_tiles, placed_product
from oracle.isa.forms import LANES, Form
from oracle.isa.lookup import another_needed, form_of
from oracle.models import Model, model_of

Matrices = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
"""A, B and C, (tiles, rows, columns)."""


def mma_block_scale(
    opcode: str, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any],
    scale_a: NDArray[Any] | None = None, scale_b: NDArray[Any] | None = None, *,
    metadata: NDArray[Any] | None = None, selector: int = 0, target: str = "sm_120a",
    model: Model | str | Path | None = None,
) -> NDArray[Any]:  # fmt: skip
    """Return D, (..., 16, 8), of a multiplication with `.kind` (PTX ISA 9.7.14.5.14, .6.3).

    `a`, `b`: uint8 (..., 16, K) and (..., K, 8), an element of e4m3, e5m2, e3m2, e2m3 or e2m1 in
    the low bits of each byte; bits above it do not count. A sparse A is what is stored, K / 2.
    `c`: As D, uint16 or uint32 patterns (..., 16, 8), as the opcode says.
    `scale_a`, `scale_b`: uint8 (..., 16, S) and (..., S, 8), patterns of ue8m0 or ue4m3, S as
    `.scale_vec` says; None of a form without `.block_scale`.
    `metadata`, `selector`: Of a sparse A, uint32 (..., 32), and the sparsity selector.
    Leading dimensions are equal. Raises UsageError if the opcode, target, a shape or dtype is not
    allowed.
    """
    form = form_of(opcode)
    if not form.kind:
        raise another_needed(form, "mma with .kind")
    leading, (left, right, addend), chosen, scales = block_scale_operands(
        form, a, b, c, scale_a, scale_b, metadata, selector
    )
    figures = model_of(target, model)
    figures.figures_for(form)  # refuses a form that the target lacks, even with an empty batch
    result = np.empty((len(addend), form.shape.m, form.shape.n), form.d_type.raw)
    size, scratch = max(1, chunk_tiles(form) // 4), own_scratch()
    for start in range(0, len(result), size):
        part = slice(start, start + size)
        result[part] = placed_product(
            form, left[part], right[part], addend[part].copy(), figures, scratch,
            None if chosen is None else (chosen[0][part], chosen[1]),
            None if scales is None else (scales[0][part], scales[1][part]),
        )  # fmt: skip
    return result.reshape(*leading, *result.shape[1:])


def block_scale_operands(
    form: Form, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], scale_a: NDArray[Any] | None,
    scale_b: NDArray[Any] | None, metadata: NDArray[Any] | None, selector: int | None,
) -> tuple[tuple[int, ...], Matrices, Metadata | None, Scales | None]:  # fmt: skip
    """Check what `mma_block_scale` takes; return leading dimensions, and all with one of them.

    Elements are as formats have them, without the bits of a byte that do not count.
    """
    shapes = {name: form.matrix(name) for name in "abc"}
    given: list[layouts.Given] = [
        (name, array, form.type(name).raw, (shapes[name].rows, shapes[name].columns))
        for name, array in zip("abc", (a, b, c), strict=True)
    ]
    given += _others(form, scale_a, scale_b, metadata)
    leading = layouts.check_batch(*given)
    flat = {name: array.reshape(-1, *tail) for name, array, _, tail in given}
    for name in "ab":
        flat[name] = flat[name] << np.uint8(form.type(name).ignored_bits)
        flat[name] &= np.uint8(form.type(name).magnitude * 2 + 1)
    chosen, scales = None, None
    if form.has_metadata:
        chosen = flat["metadata"], checked_selector(form, selector)
    if form.is_scaled:
        scales = flat["scale_a"], flat["scale_b"]
    return leading, (flat["a"], flat["b"], flat["c"]), chosen, scales


def _others(
    form: Form, scale_a: NDArray[Any] | None, scale_b: NDArray[Any] | None,
    metadata: NDArray[Any] | None,
) -> list[layouts.Given]:  # fmt: skip
    """Return scales and metadata, each with what it has to be; UsageError if one is too many."""
    m, n = form.shape.m, form.shape.n
    rows: list[tuple[bool, str, Any, Any, tuple[int, ...]]] = [
        (form.has_metadata, "metadata", metadata, np.uint32, (LANES,))
    ]
    scales = form.scales if form.is_scaled else 0
    rows.append((form.is_scaled, "scale_a", scale_a, np.uint8, (m, scales)))
    rows.append((form.is_scaled, "scale_b", scale_b, np.uint8, (scales, n)))
    for needed, name, array, _, _ in rows:
        if needed != (array is not None):
            text = "lacks its" if needed else "has no"
            raise UsageError(f"{form.opcode} {text} {name}; {'give' if needed else 'leave out'} it")
    return [(name, array, dtype, tail) for needed, name, array, dtype, tail in rows if needed]
