"""Integer and single-bit units: what a sum beyond 32 bits becomes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.forms import MmaForm
from oracle.models import Confidence, ExactSum, Figure, Model
from oracle.multiply import multiply

Array = NDArray[Any]
OVERFLOWS = ("wrap", "clamp")
_SEED = 0x696E_7473


def figure_of(form: MmaForm) -> str:
    """Return the name of the figure that a form's results depend on."""
    if form.op is not None:
        return "bits"
    return "satfinite" if form.satfinite else "plain"


def exact_tiles(form: MmaForm, count: int, seed: int = _SEED) -> tuple[Array, Array, Array]:
    """Return matrices of any elements; half of the C lie where sums leave 32 bits."""
    rng = np.random.default_rng(seed)
    made = []
    for operand in "abc":
        matrix = form.matrix(operand)
        dtype = np.dtype(matrix.type.raw)
        bits = min(matrix.type.bits, 8 * dtype.itemsize)
        least = -(1 << (bits - 1)) if dtype.kind == "i" else 0
        shape = (count, matrix.rows, matrix.columns)
        made.append(rng.integers(least, least + (1 << bits), shape, np.int64).astype(dtype))
    a, b, c = made
    part = c[: count // 2]
    near = rng.integers(0, 64, part.shape, np.int64)
    low = rng.integers(0, 2, part.shape, np.bool_)
    part[...] = np.where(low, -(2**31) + near, 2**31 - 1 - near).astype(np.int32)
    return a, b, c


def exact_result(form: MmaForm, overflow: str, a: Array, b: Array, c: Array) -> Array:
    """Return D where sums beyond 32 bits wrap or are clamped."""
    figure = Figure(value=overflow, confidence=Confidence.MEASURED, source="")
    model = Model(
        target="sm_90", base="sm_90", dots=(), doubles=None,
        exact=ExactSum(plain=figure, satfinite=figure, bits=figure),
    )  # fmt: skip
    return multiply(form, a, b, c, model=model)
