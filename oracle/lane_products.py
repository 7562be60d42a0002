"""mma.sync on the registers of a warp: fragments, arithmetic, fragments (PTX ISA 9.7.14.5.14)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oracle.errors import UsageError
from oracle.forms import Form
from oracle.isa import mma_sync_form
from oracle.lane_fragments import pack, unpack
from oracle.matrices import LANES
from oracle.models import model_of
from oracle.multiply import chunk_tiles, product, takes_upper_halves
from oracle.scratch import own_scratch

if TYPE_CHECKING:
    from oracle.models import Model


def mma_sync(
    opcode: str,
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[Any],
    *,
    target: str = "sm_90",
    model: Model | str | Path | None = None,
) -> NDArray[np.uint32]:
    """Return the registers that the model of a target gives for one mma.sync.

    Parameters
    ----------
    opcode
        Such as "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32".
    a, b, c : uint32 (..., 32, words)
        Registers of each lane, lanes in order, registers in the order of the operand; one of f64
        is two words, the low one first. Leading dimensions are equal.
    target
        Such as "sm_90".
    model
        A model in place of the target's, or the TOML file of one (`oracle.models.files`).

    Returns
    -------
    uint32 (..., 32, words): the registers of D.

    Raises
    ------
    UsageError
        If the opcode, the target, a shape or a dtype is not allowed, or nothing is known of what
        the target returns.
    """
    form = mma_sync_form(opcode)
    for name, words in zip("abc", (a, b, c), strict=True):
        _check(form, name, words)
    leading = a.shape[:-2]
    if b.shape[:-2] != leading or c.shape[:-2] != leading:
        raise UsageError(
            f"the leading dimensions differ: a has {leading}, b {b.shape[:-2]}, "
            f"c {c.shape[:-2]}; give all three the same"
        )
    operands = (words.reshape(-1, LANES, words.shape[-1]) for words in (a, b, c))
    d = multiply_lanes(form, *operands, model=model_of(target, model))
    return d.reshape(*leading, LANES, form.words("d"))


def multiply_lanes(
    form: Form,
    a: NDArray[np.uint32],
    b: NDArray[np.uint32],
    c: NDArray[np.uint32],
    *,
    model: Model,
) -> NDArray[np.uint32]:
    """Return what `mma_sync` does, for a form that is already known and a model.

    Parameters
    ----------
    a, b, c : uint32 (tiles, 32, words)
    """
    model.figures_for(form)  # refuses a form that the target lacks, even with an empty batch
    result = np.empty((len(a), LANES, form.words("d")), np.uint32)
    scratch = own_scratch()
    size, upper = chunk_tiles(form), takes_upper_halves(form, model)
    for start in range(0, len(a), size):
        part = slice(start, start + size)
        left, right = (
            unpack(form, name, words[part], scratch, upper=upper)
            for name, words in (("a", a), ("b", b))
        )
        addend = unpack(form, "c", c[part], scratch)
        d = product(form, left, right, addend, model, scratch, keeps_c=False)
        pack(form, d, result[part], scratch=scratch)
    return result


def _check(form: Form, name: str, words: NDArray[Any]) -> None:
    size = (LANES, form.words(name))
    if not isinstance(words, np.ndarray) or words.dtype != np.uint32:
        given = words.dtype if isinstance(words, np.ndarray) else type(words).__name__
        raise UsageError(f"{name} is {given}; registers are an array of uint32, so convert it")
    if words.shape[-2:] != size:
        raise UsageError(
            f"{name} has shape {words.shape}; {form.opcode} takes (..., {size[0]}, {size[1]})"
        )
