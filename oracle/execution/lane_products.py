"""mma.sync and mma.sp on the registers of a warp, and what the ISA permits any product."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.arithmetic.scratch import Scratch, own_scratch
from oracle.bounds.enclosure import enclosure
from oracle.errors import UsageError
from oracle.execution.multiply import (
    S32_GREATEST,
    S32_LEAST,
    chunk_tiles,
    multiply,
    product,
    takes_upper_halves,
)
from oracle.isa.forms import Form
from oracle.isa.lookup import another_needed, form_of, metadata_of, mma_sync_form, selectors_of
from oracle.isa.matrices import LANES
from oracle.layouts.batches import check_array
from oracle.layouts.lane_fragments import (
    by_row,
    defined_rows,
    expanded,
    met,
    of_rows,
    pack,
    places,
    row_form,
    rows_met,
    unpack,
)
from oracle.models import Model, model_for, model_of

_CHUNKS_OF_ROWS = 4
"""Of so many times fewer tiles, the B that each row of A meets is put together: 0.5 to 0.7 times as
long as of all (2026-11-23)."""
Metadata = tuple[NDArray[np.uint32], int]
"""Metadata of each lane, (tiles, 32), and the sparsity selector."""
Triple = tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]
"""Registers of A, B and C, (tiles, 32, words)."""


def mma_sync(
    opcode: str, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], *, target: str = "sm_90",
    model: Model | str | Path | None = None,
) -> NDArray[np.uint32]:  # fmt: skip
    """Return the registers of D, uint32 (..., 32, words), by the model of a target.

    `opcode`: Such as "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32".
    `a`, `b`, `c`: uint32 (..., 32, words). Lanes in order, registers in the order of the operand;
    one of f64 is two words, the low one first. Leading dimensions are equal.
    `model`: In place of the target's, or its file, TOML or JSON (`oracle.models.files`).
    Raises UsageError if the opcode, target, a shape or dtype is not allowed, or nothing is known of
    what the target returns.
    """
    form = mma_sync_form(opcode)
    leading, operands, _ = _flat(form, a, b, c)
    d = multiply_lanes(form, *operands, model=model_of(target, model))
    return d.reshape(*leading, LANES, form.words("d"))


def mma_sp(
    opcode: str, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], metadata: NDArray[Any],
    selector: int, *, target: str = "sm_90", model: Model | str | Path | None = None,
) -> NDArray[np.uint32]:  # fmt: skip
    """Return the registers of D of one mma.sp (9.7.14.6.3), by the model of a target.

    `a`, `b`, `c`, `target`, `model`: As of `mma_sync`; A is what is stored of it.
    `metadata`: uint32 (..., 32). An index chooses also where the ISA leaves it undefined.
    `selector`: The sparsity selector, one that the ISA defines for the form.
    Raises UsageError as `mma_sync`, and for another selector.
    """
    form = form_of(opcode)
    if not form.has_metadata:
        raise another_needed(form, "mma.sp")
    leading, operands, chosen = _flat(form, a, b, c, metadata, selector)
    d = multiply_lanes(form, *operands, model=model_of(target, model), metadata=chosen)
    return d.reshape(*leading, LANES, form.words("d"))


def _selector(form: Form, selector: object) -> int:
    known = selectors_of(form)
    try:
        number = -1 if isinstance(selector, bool) else index(selector)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if number not in known:
        raise UsageError(
            f"the sparsity selector is {selector!r:.80}; of {form.opcode} it is "
            f"{' or '.join(map(str, known))}, and any other is undefined (PTX ISA "
            f"{metadata_of(form).section})"
        )
    return number


def permitted(
    opcode: str, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any],
    metadata: NDArray[Any] | None = None, selector: int | None = None,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:  # fmt: skip
    """Return what the ISA permits one multiplication to return, on any target.

    `opcode`, `a`, `b`, `c`: Of wmma.mma as `oracle.mma` takes them, else as `mma_sync` and
    `mma_sp`.
    `metadata`, `selector`: Of mma.sp, as `mma_sp` takes them.
    Returns low and high: float64 (`oracle.bounds.enclosure`), NaN where only NaN is permitted;
    int64 of integers and bits, where both are the result. Of wmma.mma (..., m, n), else (..., 32,
    elements): those of each lane's registers of D, the lower of a register first. Rows of D
    whose metadata have no meaning may be anything. nan_ok: Whether NaN is permitted, bool.
    Raises UsageError if the opcode, a shape, a dtype, an element or the selector is not allowed.
    """
    form = form_of(opcode)
    if not form.is_product:
        raise another_needed(form, "wmma.mma, mma or mma.sp")
    if form.has_metadata != (metadata is not None):
        takes = "takes metadata and a selector" if form.has_metadata else "has no metadata"
        raise UsageError(f"{form.opcode} {takes}")
    # Integer arithmetic is the page's on every target that has the form; sm_90 has all of them.
    exact = model_for("sm_90")
    if form.opaque:
        if form.a_type.is_float:
            return enclosure(form, a, b, c)
        numbers = multiply(form, a, b, c, model=exact).astype(np.int64)
        return numbers, numbers.copy(), np.zeros(numbers.shape, np.bool_)
    leading, operands, chosen = _flat(form, a, b, c, metadata, selector)
    ends: list[NDArray[Any]]
    if form.a_type.is_float:
        # Of several multiplications side by side all tiles of the first come first.
        group, row, column = np.moveaxis(places(form, "d"), -1, 0)
        ends = [
            end.reshape(form.groups, -1, *end.shape[1:]).swapaxes(0, 1)[:, group, row, column]
            for end in _enclosed(form, operands, chosen)
        ]
    else:
        d = multiply_lanes(form, *operands, model=exact, metadata=chosen)
        numbers = d.view(np.int32).astype(np.int64)
        ends = [numbers, numbers.copy(), np.zeros(numbers.shape, np.bool_)]
    if chosen is not None:
        open_ = ~defined_rows(form, *chosen)[:, places(form, "d")[..., 1]]
        floats = form.a_type.is_float
        most = (-np.inf, np.inf, True) if floats else (S32_LEAST, S32_GREATEST, False)
        ends = [np.where(open_, one, end) for one, end in zip(most, ends, strict=True)]
    low, high, nan_ok = (end.reshape(*leading, *end.shape[1:]) for end in ends)
    return low, high, nan_ok


def _enclosed(form: Form, operands: Triple, metadata: Metadata | None) -> Sequence[NDArray[Any]]:
    """Return the bounds of the matrices D of floats, each (form.groups * tiles, m, n)."""
    left, right, addend = (
        unpack(form, name, words) for name, words in zip("abc", operands, strict=True)
    )
    if metadata is None:
        return enclosure(form, left, right, addend)
    rows = by_row(left), met(form, right, *metadata), by_row(addend)
    return [of_rows(end, form.shape.m) for end in enclosure(row_form(form), *rows)]


def multiply_lanes(
    form: Form, a: NDArray[np.uint32], b: NDArray[np.uint32], c: NDArray[np.uint32], *,
    model: Model, metadata: Metadata | None = None,
) -> NDArray[np.uint32]:  # fmt: skip
    """Do what `mma_sync` and `mma_sp` do, of known form and model, on (tiles, 32, words)."""
    model.figures_for(form)  # refuses a form that the target lacks, even with an empty batch
    result = np.empty((len(a), LANES, form.words("d")), np.uint32)
    scratch = own_scratch()
    size, upper = chunk_tiles(form), takes_upper_halves(form, model)
    if metadata is not None and form.a_type.is_float and not _meets_lines(form, model):
        size = max(1, size // _CHUNKS_OF_ROWS)
    for start in range(0, len(a), size):
        part = slice(start, start + size)
        left, right = (
            unpack(form, name, words[part], scratch, upper=upper)
            for name, words in (("a", a), ("b", b))
        )
        addend = unpack(form, "c", c[part], scratch)
        if metadata is None:
            d = product(form, left, right, addend, model, scratch, keeps_c=False)
        else:
            chosen = metadata[0][part], metadata[1]
            d = _placed_product(form, left, right, addend, model, scratch, chosen)
        pack(form, d, result[part], scratch=scratch)
    return result


def _placed_product(
    form: Form, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], model: Model, scratch: Scratch,
    metadata: Metadata,
) -> NDArray[Any]:  # fmt: skip
    """Return A x B + C of a few tiles, (tiles, m, n), A being what is stored."""
    if not form.a_type.is_float:
        return product(form, expanded(form, a, *metadata), b, c, model, scratch, keeps_c=False)
    # Each row of A meets rows of B of its own. A place that is not chosen is no term of the sum: it
    # has no exponent (measured on H200, 2026-11-23).
    if _meets_lines(form, model):
        met_rows = rows_met(form, *metadata).T
        return product(form, a, b, c, model, scratch, keeps_c=False, rows=met_rows)
    rows = by_row(a), met(form, b, *metadata), by_row(c)
    return of_rows(product(form, *rows, model, scratch, keeps_c=False), form.shape.m)


def _meets_lines(form: Form, model: Model) -> bool:
    """Whether `product` can be told which rows of B a sparse A of floats meets; not of tf32."""
    return form.a_type.bits < 32 and model.dot_for(form).is_usual


def _flat(
    form: Form, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any],
    metadata: NDArray[Any] | None = None, selector: int | None = None,
) -> tuple[tuple[int, ...], Triple, Metadata | None]:  # fmt: skip
    """Check registers; return leading dimensions, and operands and metadata with one of them."""
    given: dict[str, Any] = {"a": a, "b": b, "c": c}
    found = {}
    all_ = {**given, "metadata": metadata} if form.has_metadata else given
    for name, words in all_.items():
        size = (LANES,) if name == "metadata" else (LANES, form.words(name))
        check_array(name, words, np.uint32, *size)
        found[name] = words.shape[: -len(size)]
    if len({*found.values()}) > 1:
        listed = ", ".join(f"{name} {one}" for name, one in found.items())
        raise UsageError(f"the leading dimensions differ: {listed}; give the same to all")
    left, right, addend = (words.reshape(-1, LANES, words.shape[-1]) for words in given.values())
    chosen = None
    if metadata is not None:
        chosen = metadata.reshape(-1, LANES), _selector(form, selector)
    return found["a"], (left, right, addend), chosen
