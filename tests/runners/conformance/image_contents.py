"""Contents of images for a program of one multiplication."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from single_multiplies import Access, program

from oracle.isa.forms import Form, Format
from oracle.program.program import Program
from runners.protocol import Images


def contents(form: Form, access: Access, count: int, seed: int) -> tuple[Program, Images]:
    """Return the program and images: half random bits, half numbers of everyday size."""
    made = program(form, access)
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (count, made.image_bytes), np.uint8)
    for operand in "abcd":
        buffer = made.buffer(f"g{operand}")
        start = made.offset(buffer.name)
        everyday = _everyday(form.matrix(operand).type, (count // 2, buffer.size), rng)
        if everyday is not None:
            images[count // 2 :][: count // 2, start : start + buffer.size] = everyday
    return made, images


def _everyday(
    type_: Format, shape: tuple[int, int], rng: np.random.Generator
) -> NDArray[np.uint8] | None:
    """Return bytes that hold normally distributed numbers; None where bits are numbers."""
    if not type_.is_float:
        return None
    numbers = rng.standard_normal((shape[0], -(-shape[1] * 8 // type_.bits)))
    dtypes = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64}
    raw = numbers.astype(dtypes.get(type_.name, np.float32))
    return np.ascontiguousarray(raw).view(np.uint8)[:, : shape[1]]
