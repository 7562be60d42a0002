"""What a multiplication takes besides its matrices: metadata, scales, and what selects them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UsageError
from oracle.isa import lookup
from oracle.isa.forms import Form
from oracle.program.steps import Product

Metadata = tuple[NDArray[np.uint32], int]
"""Metadata of each lane, (tiles, 32), and the sparsity selector."""
Scales = tuple[NDArray[np.uint8], NDArray[np.uint8]]
"""Scales of rows of A, (tiles, m, scales), and of columns of B, (tiles, scales, n)."""


Scaling = tuple[NDArray[np.uint32], NDArray[np.uint32], int]
"""Registers with the scales of A and of B, (tiles, 32, 1), and a number of `selectors_of`."""


def scales_of(form: Form, scaling: Scaling, part: slice = slice(None)) -> Scales:
    """Return the scales that registers of some tiles hold."""
    of_a, of_b, selector = scaling
    return (
        _scales_of(form, of_a[part], "a", selector),
        _scales_of(form, of_b[part], "b", selector),
    )


def _scales_of(
    form: Form, words: NDArray[np.uint32], operand: str, selector: int
) -> NDArray[np.uint8]:
    """Return scales of "a", (tiles, 16, scales), or "b", (tiles, scales, 8), of (tiles, 32, 1)."""
    lane, first = scale_places(form, operand, selector)
    shifts = np.uint32(8) * np.arange(first, first + form.scales, dtype=np.uint32)
    found = (words[:, lane] >> shifts).astype(np.uint8)
    return found if operand == "a" else found.swapaxes(1, 2)


def scale_places(form: Form, operand: str, selector: int) -> tuple[NDArray[np.intp], int]:
    """Return the lane of each row's or column's scales, and the first of their bytes (9.7.14.3)."""
    ids = lookup.scale_ids(form, selector)
    if operand == "a":
        row = np.arange(form.shape.m)
        return 4 * (row % 8) + 2 * ids.thread_a + row // 8, ids.byte_a
    return 4 * np.arange(form.shape.n) + ids.thread_b, ids.byte_b


def checked_selector(form: Form, selector: object) -> int:
    """Return a sparsity selector that the ISA defines for a form; else UsageError."""
    # With scales it has to be 0 (9.7.14.6.1): all lanes hold metadata.
    known = (0,) if form.is_scaled else lookup.selectors_of(form)
    if not isinstance(selector, int | np.integer) or isinstance(selector, bool):
        selector = repr(selector)
    if selector not in known:
        text = f"the sparsity selector is {selector!s:.80}; of {form.opcode} it is "
        text += f"{' or '.join(map(str, known))}, and any other is undefined"
        raise UsageError(f"{text} (PTX ISA {form.metadata_section})")
    return int(selector)


def chosen_by(
    step: Product, others: list[NDArray[np.uint32]]
) -> tuple[Metadata | None, Scaling | None]:
    """Return metadata and scales of a multiplication, of its registers behind those of C."""
    form, selector = step.form, step.selector or 0
    metadata: Metadata | None = None
    if form.has_metadata:
        metadata = others[0][..., 0], selector
    return metadata, (others[-2], others[-1], selector) if form.is_scaled else None
