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

from oracle.program.program import Program
from strategies.contents import ValueClass, expand

PROGRAMS: dict[str, tuple[Program, str]] = {
    "f16 to f32": (plain(F16_F32), "21576e4bf7bef638"),
    "f16 to f16": (plain(F16_F16), "a17eeaae08ad9e31"),
    "bf16": (plain(BF16), "23b7e33376985cf2"),
    "tf32": (plain(TF32), "4fa42f81b22e664d"),
    "f64": (plain(F64), "67403441e917c307"),
    "s8": (plain(S8), "d0bdeffa4c2ef1b5"),
    "u4": (plain(U4), "8220481ad84aa377"),
    "b1": (plain(B1_XOR), "0b5ea50032924acf"),
    "ldmatrix": (rows_program(), "28884a8bf506ad2e"),
    "long": (long().program, "4e2bdb4157e6d374"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_thousand_images_have_the_bits_that_were_recorded(name: str) -> None:
    program, recorded = PROGRAMS[name]
    images = expand(recipe(*ValueClass, seed=0x5EED), program, 1000)
    assert hashlib.sha256(images.tobytes()).hexdigest()[:16] == recorded
