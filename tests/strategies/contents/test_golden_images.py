"""The same seed gives the same images on every machine and with every NumPy.

A hash that changes means that seeds of recorded campaigns give other images: if that is wanted,
GENERATOR_VERSION of the campaigns goes up with it. Recorded with NumPy 2.4.6, and the same with
1.26.4 and with other kernels of OpenBLAS (OPENBLAS_CORETYPE), on x86-64.
"""

from __future__ import annotations

import hashlib

import pytest
from content_programs import (
    B1_XOR,
    BF16,
    F16_F16,
    F16_F32,
    F64,
    S8,
    TF32,
    U4,
    long,
    plain,
    recipe,
    rows_program,
)

from oracle.program import Program
from strategies.contents import ValueClass, expand

PROGRAMS: dict[str, tuple[Program, str]] = {
    "f16 to f32": (plain(F16_F32), "274c26efede33d40"),
    "f16 to f16": (plain(F16_F16), "cd12e6bb78f7eccb"),
    "bf16": (plain(BF16), "532f3265b4aeefbf"),
    "tf32": (plain(TF32), "e210ed63f7fc7cef"),
    "f64": (plain(F64), "e63e7bdfb527b317"),
    "s8": (plain(S8), "efbd608adf2f6478"),
    "u4": (plain(U4), "daace89a4da493df"),
    "b1": (plain(B1_XOR), "d46c4a946f4d86fd"),
    "ldmatrix": (rows_program(), "d8e93091310cba96"),
    "long": (long().program, "e9df2c819ac9e9b1"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_thousand_images_have_the_bits_that_were_recorded(name: str) -> None:
    program, recorded = PROGRAMS[name]
    images = expand(recipe(*ValueClass, seed=0x5EED), program, 1000)
    assert hashlib.sha256(images.tobytes()).hexdigest()[:16] == recorded
