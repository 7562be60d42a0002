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
    "f16 to f32": (plain(F16_F32), "859690f6a5fe6c6e"),
    "f16 to f16": (plain(F16_F16), "0b18d43cdaa172af"),
    "bf16": (plain(BF16), "6db18e1bbde44342"),
    "tf32": (plain(TF32), "dafedeb06fc2f75a"),
    "f64": (plain(F64), "e9ca33d6a080b364"),
    "s8": (plain(S8), "76d4d98bd442d135"),
    "u4": (plain(U4), "3d5423a156170117"),
    "b1": (plain(B1_XOR), "5cbe59e531fd5206"),
    "ldmatrix": (rows_program(), "f46d8e4fbbb3c654"),
    "long": (long().program, "39431c919c508cc6"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_thousand_images_have_the_bits_that_were_recorded(name: str) -> None:
    program, recorded = PROGRAMS[name]
    images = expand(recipe(*ValueClass, seed=0x5EED), program, 1000)
    assert hashlib.sha256(images.tobytes()).hexdigest()[:16] == recorded
