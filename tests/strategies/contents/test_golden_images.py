"""The same seed gives the same images on every machine and with every NumPy.

A hash that changes means that seeds of recorded campaigns give other images: if that is wanted,
GENERATOR_VERSION of the campaigns goes up with it.
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
    "f16 to f32": (plain(F16_F32), ""),
    "f16 to f16": (plain(F16_F16), ""),
    "bf16": (plain(BF16), ""),
    "tf32": (plain(TF32), ""),
    "f64": (plain(F64), ""),
    "s8": (plain(S8), ""),
    "u4": (plain(U4), ""),
    "b1": (plain(B1_XOR), ""),
    "ldmatrix": (rows_program(), ""),
    "long": (long().program, ""),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_thousand_images_have_the_bits_that_were_recorded(name: str) -> None:
    program, recorded = PROGRAMS[name]
    images = expand(recipe(*ValueClass, seed=0x5EED), program, 1000)
    assert hashlib.sha256(images.tobytes()).hexdigest()[:16] == recorded
