"""Multiplications of a warpgroup, from opcode or form to the registers of D."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle import layouts
from oracle.arithmetic.conversions import own_scratch
from oracle.errors import UsageError
from oracle.execution.chosen import Metadata, checked_selector
from oracle.execution.products import multiply_into, parts
from oracle.isa import lookup
from oracle.isa.forms import Form
from oracle.isa.targets import split_compiler
from oracle.models import Model, model_of


def wgmma(
    opcode: str, a: NDArray[Any], b: NDArray[Any], d: NDArray[Any], *, scale_d: int = 1,
    scale_a: int = 1, scale_b: int = 1, metadata: NDArray[Any] | None = None, selector: int = 0,
    target: str = "sm_90a", model: Model | str | Path | None = None,
) -> NDArray[np.uint32]:  # fmt: skip
    """Return the registers of D after one wgmma.mma_async (9.7.15.5.2), by the model of a target.

    `a`, `b`: Raw patterns of logical matrices (..., 64, k) and (..., k, n), of dtypes
    `oracle.isa.forms.Format.raw`; of wgmma.mma_async.sp (9.7.15.6.3) what is stored, (..., 64,
    k / 2). Their order in shared memory (imm-trans) is none of this function.
    `d`: Registers before, uint32 (..., 128, registers): threads of the warpgroup in order.
    `scale_d`: 1, or 0: D is not added. `scale_a`, `scale_b`: 1, or -1 (imm-scale): elements are
    negated; 1 alone of integers and single bits.
    `metadata`, `selector`: Of wgmma.mma_async.sp alone, uint32 (..., 128), and its constant.
    `model`: In place of the target's, or its file, TOML or JSON.
    Leading dimensions are equal. Raises UsageError if one of these is not allowed.
    """
    form = lookup.form_of(opcode)
    if not form.mnemonic.startswith("wgmma.mma_async"):
        raise lookup.another_needed(form, "wgmma.mma_async")
    name, _ = split_compiler(target)
    for note in lookup.notes_of(form):
        if note.only not in ("", name):
            raise UsageError(f"{target} does not have {form.opcode}. {note.text}")
    for text, value, allowed in (
        ("scale_d", scale_d, (0, 1)),
        ("scale_a", scale_a, (1, -1)),
        ("scale_b", scale_b, (1, -1)),
    ):
        if value not in allowed or (value == -1 and not form.a_type.is_float):
            known = " or ".join(map(str, allowed if form.a_type.is_float else allowed[-2:]))
            raise UsageError(f"{text} is {value!r:.80}; of {form.opcode} it is {known}")
    leading, operands, chosen = warpgroup_operands(form, a, b, d, metadata, selector)
    found = multiply_warpgroup(
        form, *operands, scales=(scale_d, scale_a, scale_b), metadata=chosen,
        model=model_of(target, model),
    )  # fmt: skip
    return found.reshape(*leading, *found.shape[1:])


def warpgroup_operands(
    form: Form, a: NDArray[Any], b: NDArray[Any], d: NDArray[Any],
    metadata: NDArray[Any] | None, selector: int | None,
) -> tuple[tuple[int, ...], tuple[NDArray[Any], ...], Metadata | None]:  # fmt: skip
    """Check what `wgmma` takes; return leading dimensions, and all with one of them."""
    if form.has_metadata != (metadata is not None):
        takes = "takes metadata and a selector" if form.has_metadata else "has no metadata"
        raise UsageError(f"{form.opcode} {takes}")
    given: list[layouts.Given] = [
        (one.operand, array, one.type.raw, (one.rows, one.columns))
        for one, array in zip(map(form.matrix, "ab"), (a, b), strict=True)
    ]
    given.append(("d", d, np.uint32, (form.threads, form.words("d"))))
    if metadata is not None:
        given.append(("metadata", metadata, np.uint32, (form.threads,)))
    leading = layouts.check_batch(*given)
    for name, array in (("a", a), ("b", b)):
        layouts.check_elements(name, array, form.type(name))
    chosen = None
    if metadata is not None:
        chosen = metadata.reshape(-1, form.threads), checked_selector(form, selector)
    left, right, before = (one.reshape(-1, *one.shape[-2:]) for one in (a, b, d))
    return leading, (left, right, before), chosen


def multiply_warpgroup(
    form: Form, a: NDArray[Any], b: NDArray[Any], d: NDArray[np.uint32], *,
    scales: tuple[int, int, int] = (1, 1, 1), metadata: Metadata | None = None, model: Model,
) -> NDArray[np.uint32]:  # fmt: skip
    """Do what `wgmma` does, of known form and model and one leading dimension, unchecked.

    `scales`: Of D 0 or 1, of A and B 1 or -1.
    """
    model.figures_for(form)  # refuses a form that the target lacks, even with an empty batch
    result = np.empty((len(d), form.threads, form.words("d")), np.uint32)
    scratch = own_scratch()
    for part in parts(form, len(d)):
        # D that is not added counts as +0.
        before = d[part] if scales[0] else np.zeros_like(d[part])
        addend = layouts.unpack(form, "c", before, scratch)
        left, right = _scaled(form, "a", a[part], scales[1]), _scaled(form, "b", b[part], scales[2])
        chosen = None if metadata is None else (metadata[0][part], metadata[1])
        multiply_into(result[part], form, left, right, addend, model, scratch, chosen)
    return result


def _scaled(form: Form, operand: str, patterns: NDArray[Any], scale: int) -> NDArray[Any]:
    fmt = form.type(operand)
    return patterns if scale == 1 else patterns ^ patterns.dtype.type(fmt.magnitude + 1)
