"""What probes leave open, random images decide."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from fuzz import measuring
from fuzz.measuring import MeasuredResult, Measurer, ProbedDevice, confirm
from fuzz.runner import RunnerChoice, opened
from oracle.isa.targets import Module
from oracle.measuring.inference import units_of
from oracle.measuring.probes import Dots
from oracle.models import model_for


@pytest.fixture(autouse=True)
def few_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave no probes but those that tell how NaN are returned."""
    every = measuring.float_probes

    def few(types: str, depth: int) -> Dots:
        dots = every(types, depth)
        return dots.where(np.array(dots.family) == "NaN")

    monkeypatch.setattr(measuring, "float_probes", few)


def measured(fault: str) -> MeasuredResult:
    choice = RunnerChoice(name="sim", target="sm_90", faults=(fault,))
    with opened(choice) as ready:
        module = Module.named(ready.target, ready.ptx_version)
        (unit, *_) = units_of(module, "wmma.mma*bf16*")
        device = ProbedDevice(ready.runner, module, unit.forms)
        confirmer = partial(map, partial(confirm, device=device))
        measurer = Measurer(device, model_for("sm_90"), confirmer, images=256)
        (result,) = measurer.measure([unit])
    return result


@pytest.mark.parametrize(
    ("fault", "figure", "value"),
    [
        pytest.param("sum-rounded-up", "rounding", "rp", marks=pytest.mark.slow),
        ("alignment-one-bit-less", "fraction_bits", 24),
    ],
)
def test_a_figure_that_no_probe_tells_is_found_by_random_images(
    fault: str, figure: str, value: object
) -> None:
    result = measured(fault)
    assert result.contradiction is None
    changed = {name: one.chosen for name, one in result.figures.items() if one.chosen != one.known}
    assert changed == {figure: value}
    assert result.images == 256
