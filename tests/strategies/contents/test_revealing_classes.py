"""Which classes tell a wrong model of the arithmetic from the right one, and how well.

As in the facts of the project (section 5): the share of dot products that change when the model
is wrong in one way. For each way some class has to beat uniform bits and everyday numbers. The
arithmetic is that of the simulated device, whose fields are replaced here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from content_programs import BF16, F16_F16, F16_F32, F16_NARROWED, TF32, matrices
from numpy.typing import NDArray

from oracle.isa import lookup as isa
from runners.simulated.fused import NAMED, Rounding
from runners.simulated.products import multiply
from runners.simulated.silicon import FloatUnit, UnitMatrix, float_unit
from strategies.contents import ValueClass as V

IMAGES = 24
"""Of 256 dot products each."""

Change = Callable[[FloatUnit], dict[str, Any]]
WRONG: dict[str, Change] = {
    "F + 1": lambda unit: {"fraction": unit.fraction + 1},
    "F - 1": lambda unit: {"fraction": unit.fraction - 1},
    "L / 2": lambda unit: {"block": unit.block // 2},
    "product normalised first": lambda unit: {"normalised_products": True},
    "subnormal inputs flushed": lambda unit: {"flushed": frozenset({UnitMatrix.A, UnitMatrix.B})},
    "subnormal C flushed": lambda unit: {"flushed": frozenset({UnitMatrix.C})},
    "nearest even at the end": lambda unit: {"rounding": Rounding.NEAREST_EVEN},
    "cut at the end": lambda unit: {"rounding": Rounding.ZERO},
    "up at the end": lambda unit: {"rounding": Rounding.UP},
    "ties away at the end": lambda unit: {"rounding": Rounding.NEAREST_AWAY},
    "narrowing cut": lambda unit: {"narrowing": Rounding.ZERO},
    "e_zero + 1": lambda unit: {"zero_exponent": unit.zero_exponent + 1},
    "e_zero - 1": lambda unit: {"zero_exponent": unit.zero_exponent - 1},
    "C added last": lambda unit: {"accumulator_last": True},
    "zero negative": lambda unit: {"zero_sign": True},
    "largest for infinity": lambda unit: {"saturating": True},
    "narrow range inside": lambda unit: {"wide_products": False},
    "zero for NaN": lambda unit: {"invalid_is_nan": False},
    "tf32 rounded": lambda unit: {"rounded_multiplicands": True},
    "blocks reversed": lambda unit: {"descending": True},
}


@cache
def operands(opcode: str, class_: V) -> tuple[NDArray[Any], ...]:
    return tuple(
        np.ascontiguousarray(np.moveaxis(raw, 0, -1)) for raw in matrices(opcode, class_, IMAGES)
    )


def products(opcode: str, class_: V, unit: FloatUnit) -> NDArray[Any]:
    a, b, c = operands(opcode, class_)
    return multiply(a, b, c, unit, NAMED[isa.mma_form(opcode).d_type.name])


def right(opcode: str) -> FloatUnit:
    form = isa.mma_form(opcode)
    narrow = form.c_type.name == form.d_type.name == "f16"
    return float_unit(90, form.a_type.name, "f16" if narrow else "f32")


@cache
def share(opcode: str, wrong: str, class_: V) -> float:
    """The share of dot products that change."""
    unit = right(opcode)
    changed = products(opcode, class_, replace(unit, **WRONG[wrong](unit)))
    return float(np.mean(changed != products(opcode, class_, unit)))


# The form, what is wrong, the class that shows it best, its least share in percent, and how many
# times as much as of uniform bits and of everyday numbers that is at least.
TABLE = [
    (F16_F32, "F + 1", V.MIRRORED, 70, 5),
    (F16_F32, "F - 1", V.MIRRORED, 75, 3),
    (F16_F32, "L / 2", V.MIRRORED, 75, 2),
    (F16_F32, "product normalised first", V.UNNORMALISED, 75, 5),
    (F16_F32, "subnormal inputs flushed", V.TINY, 95, 10),
    (F16_F32, "subnormal C flushed", V.SUBNORMAL, 15, 50),
    (F16_F32, "nearest even at the end", V.TIES, 45, 1.2),
    (F16_F32, "ties away at the end", V.TIES, 85, 1.5),
    (F16_F32, "C added last", V.MIRRORED, 70, 1.2),
    (F16_F32, "zero negative", V.ZEROS, 50, 50),
    (F16_F32, "zero for NaN", V.SPECIAL, 0.2, 2),
    (F16_F16, "F + 1", V.MIRRORED, 60, 50),
    (F16_F16, "F - 1", V.MIRRORED, 65, 50),
    (F16_F16, "L / 2", V.CANCELLING, 90, 2),
    (F16_F16, "product normalised first", V.UNNORMALISED, 65, 50),
    (F16_F16, "subnormal inputs flushed", V.SUBNORMAL, 30, 10),
    (F16_F16, "cut at the end", V.TIES, 40, 0.5),
    (F16_F16, "ties away at the end", V.TIES, 15, 50),
    (F16_F16, "e_zero + 1", V.TIES, 0.5, 50),
    (F16_F16, "e_zero - 1", V.TIES, 0.5, 50),
    (F16_F16, "largest for infinity", V.EXTREME, 20, 0.2),
    (F16_NARROWED, "narrowing cut", V.TIES, 30, 0.5),
    (F16_NARROWED, "up at the end", V.TIES, 1, 10),
    (F16_NARROWED, "F + 1", V.MIRRORED, 60, 50),
    (BF16, "F + 1", V.MIRRORED, 60, 10),
    (BF16, "L / 2", V.MIRRORED, 65, 2),
    (BF16, "product normalised first", V.UNNORMALISED, 60, 5),
    (BF16, "subnormal inputs flushed", V.SUBNORMAL, 20, 20),
    (BF16, "e_zero + 1", V.TINY, 1, 50),
    (BF16, "e_zero - 1", V.TINY, 1, 50),
    (BF16, "narrow range inside", V.EXTREME, 25, 0.5),
    (TF32, "F + 1", V.MIRRORED, 50, 10),
    (TF32, "L / 2", V.MIRRORED, 75, 2),
    (TF32, "blocks reversed", V.MIRRORED, 80, 2),
    (TF32, "tf32 rounded", V.CANCELLING, 95, 0.9),
    (TF32, "e_zero + 1", V.TINY, 1, 50),
    (TF32, "e_zero - 1", V.TINY, 0.5, 50),
]


@pytest.mark.parametrize(("opcode", "wrong", "class_", "least", "times"), TABLE)
def test_a_wrong_model_shows_in_its_class_and_hardly_in_plain_numbers(
    opcode: str, wrong: str, class_: V, least: float, times: float
) -> None:
    shown = share(opcode, wrong, class_)
    assert 100 * shown >= least
    assert shown > times * share(opcode, wrong, V.BITS)
    assert shown > times * share(opcode, wrong, V.NORMAL)


@pytest.mark.parametrize("opcode", [F16_F32, F16_F16, F16_NARROWED, BF16, TF32])
def test_the_first_eight_images_of_a_recipe_show_every_wrong_figure(opcode: str) -> None:
    unit = right(opcode)
    figures = ["F + 1", "F - 1", "L / 2", "product normalised first"]
    if opcode not in (F16_F32, F16_NARROWED):  # there it never decides
        figures += ["e_zero + 1", "e_zero - 1"]
    for wrong in figures:
        shows = [
            class_
            for class_ in list(V)[:8]
            if (
                products(opcode, class_, replace(unit, **WRONG[wrong](unit)))
                != products(opcode, class_, unit)
            )[..., 0].any()
        ]
        assert shows, wrong
