"""What probes leave open, random images decide."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from fuzz import measuring
from fuzz.measuring import MeasuredResult, Measurer, ProbedDevice, confirm
from fuzz.runner import RunnerChoice, opened
from oracle.measuring.probes import Dots
from oracle.measuring.units import module_of_all, units_of
from oracle.models import model_for

BF16 = "sm_90", "wmma.mma*bf16*"
SCALED = "sm_120a", "mma.sync*mxf8f6f4.block_scale.f32.e4m3.e2m1*"


@pytest.fixture(autouse=True)
def few_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave no probes but those that tell how NaN are returned."""
    for name in ("float_probes", "scaled_probes"):
        every = getattr(measuring, name)

        def few(*given: Any, every: Any = every) -> Dots:
            dots: Dots = every(*given)
            return dots.where(np.array(dots.family) == "NaN")

        monkeypatch.setattr(measuring, name, few)


def measured(fault: str, target: str, only: str) -> MeasuredResult:
    choice = RunnerChoice(name="sim", target=target, faults=(fault,))
    with opened(choice) as ready:
        module = module_of_all(ready.target)
        (unit, *_) = units_of(module, only)
        device = ProbedDevice(ready.runner, module, unit.forms)
        confirmer = partial(map, partial(confirm, device=device))
        measurer = Measurer(device, model_for(target), confirmer, images=256)
        (result,) = measurer.measure([unit])
    return result


@pytest.mark.parametrize(
    ("fault", "figure", "value", "where"),
    [
        pytest.param("sum-rounded-up", "rounding", "rp", BF16, marks=pytest.mark.slow),
        ("alignment-one-bit-less", "fraction_bits", 24, BF16),
        ("scaled-alignment-one-bit-less", "fraction_bits", 24, SCALED),
        pytest.param("scaled-zero-counts-more", "zero_exponent", 0, SCALED, marks=pytest.mark.slow),
    ],
)
def test_a_figure_that_no_probe_tells_is_found_by_random_images(
    fault: str, figure: str, value: object, where: tuple[str, str]
) -> None:
    result = measured(fault, *where)
    assert result.contradiction is None
    changed = {name: one.chosen for name, one in result.figures.items() if one.chosen != one.known}
    assert changed == {figure: value}
    assert result.images == 256
