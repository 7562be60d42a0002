"""Drawn programs, emitted and run on the simulated device, give what the oracle expects."""

from __future__ import annotations

import numpy as np
import pytest
from drawn_programs import PLACES, drawn
from outcomes import left_and_expected

from oracle.program.program import Program
from runners.simulated_runner import SimulatedRunner
from strategies.features import FEATURES, Feature, Focus

_IMAGES = 5


def _check(program: Program, runner: SimulatedRunner, target: str, version: str, seed: int) -> None:
    images = np.random.default_rng(seed).integers(
        0, 256, (_IMAGES, program.image_bytes), dtype=np.uint8
    )
    left, expected = left_and_expected(runner, program, images, target, version)
    wrong = np.argwhere(left != expected)
    assert not wrong.size, f"the first wrong byte is at (image, byte) {wrong[0]} of {program}"


@pytest.mark.parametrize(("target", "version"), PLACES)
def test_a_drawn_program_gives_the_oracles_images(target: str, version: str) -> None:
    with SimulatedRunner(target, layout_seed=1) as runner:
        for seed, program in enumerate(drawn(count=4, key=21, target=target, version=version)):
            _check(program, runner, target, version, seed)


@pytest.mark.parametrize("feature", [*FEATURES.values()][::2], ids=str)
def test_a_program_with_a_feature_gives_the_oracles_images(feature: Feature) -> None:
    key = 40 + list(FEATURES.values()).index(feature)
    with SimulatedRunner("sm_90") as runner:
        for program in drawn(Focus(features=frozenset({feature})), key=key):
            _check(program, runner, "sm_90", "8.0", key)
