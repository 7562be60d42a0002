"""Sets that are made in a second."""

from __future__ import annotations

import pytest

from fuzz.screening import sets
from fuzz.screening.sets import ScreeningSet, SetProgram, judged
from oracle.isa.targets import Module
from runners import simulated_runner
from runners.simulated import device, warps
from strategies.draws import Selection
from strategies.rounds import selected_forms

MODULE = Module.named("sm_90", "8.0")
MULTIPROCESSORS = 12
"""Of the simulated device; number 7 is one that a fault is about."""


def with_few_multiprocessors(patch: pytest.MonkeyPatch | None = None) -> None:
    """Have few multiprocessors: each one costs processor time in every launch."""
    for module in (simulated_runner, device, warps):
        (patch or pytest.MonkeyPatch()).setattr(module, "MULTIPROCESSORS", MULTIPROCESSORS)


def programs_of(made: ScreeningSet) -> list[SetProgram]:
    """Return the programs of a set, with what must come out."""
    return [judged(batch, number, "sm_90") for number, batch in enumerate(made.programs)]


def distilled(seed: int = 0, images: int = 8, pattern: str = "wmma*popc*") -> ScreeningSet:
    """Return a set of few rounds: of single-bit multiplications, if nothing else is asked for."""
    forms = selected_forms(Selection(pattern=pattern), target="sm_90", version="8.0", groups=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sets, "_ROUNDS", 2)
        # What matters here is seen with the first faults as well.
        patch.setattr(sets, "CATALOGUE", sets.CATALOGUE[::9])
        return sets.distill(forms, MODULE, seed=seed, images=images)
